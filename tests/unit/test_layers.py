"""A file imports only from rows above its own: the table of docs/architecture.md, walked along the syntax
trees.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Rows; within a row a group may import from the groups before it.
LAYERS: list[list[set[str]]] = [
    [
        {
            "krun",
            "krun.native",
            "krun.native._krun",
            "krun.native.launcher",
            "krun.oci",
            "krun.oci.cgroup",
            "krun.kvm",
            "krun.cli",
            "krun.serve.model",
            "krun.serve.store",
            "krun.serve.api",
            "krun.serve.control",
            "krun.serve.run",
            "krun.serve.run.image",
            "krun.serve.names",
        }
    ],
    [
        {"krun.errors"},
        {"krun.fileio", "krun.inbox", "krun.jsonio", "krun.ownpath", "krun.sysio", "krun.treeio"},
        {"krun.log", "krun.mountio", "krun.settings"},
    ],
    [{"krun.oci.fields"}, {"krun.oci.spec", "krun.oci.state", "krun.oci.sync"}],
    [
        {"krun.oci.steps"},
        {"krun.oci.places"},
        {"krun.oci.cgroup.files"},
        {
            "krun.oci.cgroup.tree",
            "krun.oci.cgroup.devices",
            "krun.oci.cgroup.convert",
            "krun.oci.cgroup.dbus",
        },
        {"krun.oci.cgroup.controllers", "krun.oci.cgroup.bpf", "krun.oci.cgroup.properties"},
        {"krun.oci.cgroup.limits", "krun.oci.cgroup.stats"},
        {"krun.oci.cgroup.v1", "krun.oci.cgroup.v2"},
        {"krun.oci.cgroup.systemd"},
        {"krun.oci.cgroup.group", "krun.oci.mountopts"},
        {
            "krun.oci." + name
            for name in (
                "mounts namespaces procfs masks devices cwd seccomp network hooks notify resctrl fusefile unotify"
            ).split()
        },
        {"krun.oci.cred", "krun.oci.labels", "krun.oci.sched", "krun.oci.rootfs", "krun.oci.relay"},
        {"krun.oci.console"},
        {"krun.kvm.refusals", "krun.kvm.calls", "krun.kvm.symbols"},
        {"krun.kvm.remedy"},
        {"krun.kvm.board", "krun.kvm.boot", "krun.kvm.image", "krun.kvm.probe"},
        {"krun.kvm.direct"},
        {"krun.kvm.measure", "krun.kvm.watch", "krun.kvm.inspect"},
        {"krun.kvm.strace"},
        {"krun.kvm.*"},
    ],
    [
        {"krun.oci.plan"},
        {"krun.oci.init"},
        {"krun.oci.spawn", "krun.oci.caller", "krun.oci.kill"},
        {"krun.oci.talk", "krun.oci.teardown"},
        {"krun.oci.wake", "krun.oci.listener"},
        {"krun.oci.container"},
        {"krun.oci.enter"},
    ],
    [
        {"krun.oci.copying"},
        {"krun.oci.foreground", "krun.oci.create"},
        {
            "krun.oci." + name
            for name in "start run exec delete state_cmd list ps pause update events metrics trace spec_cmd features "
            "checkpoint".split()
        },
        {"krun.oci.debug"},
    ],
    [
        {"krun.serve", "krun.serve.http", "krun.serve.scale", "krun.serve.proxy"},
        {
            "krun.serve.descriptors",
            "krun.serve.private",
            "krun.serve.units",
            "krun.serve.reference",
            "krun.serve.yamltext",
        },
        {"krun.serve.settings"},
        {"krun.serve.scale.window", "krun.serve.scale.rollout", "krun.serve.scale.share"},
        {"krun.serve.scale.kpa"},
        {"krun.serve.http.types"},
        {"krun.serve.http.head", "krun.serve.http.websocket", "krun.serve.http.spdy"},
        {
            "krun.serve.http.body",
            "krun.serve.http.hangup",
            "krun.serve.http.memory",
            "krun.serve.http.timers",
            "krun.serve.http.turns",
        },
        {"krun.serve.http.stream"},
        {"krun.serve.http.endpoint"},
        {"krun.serve.http.h1request", "krun.serve.http.h2head", "krun.serve.http.h2limits"},
        {"krun.serve.http.h1", "krun.serve.http.h2stream"},
        {"krun.serve.http.h2"},
        {"krun.serve.http.front"},
        {"krun.serve.http.server"},
        {
            "krun.serve.model.kinds",
            "krun.serve.model.names",
            "krun.serve.model.values",
            "krun.serve.model.fielderror",
        },
        {"krun.serve.model.status", "krun.serve.model.meta", "krun.serve.model.options"},
        {
            "krun.serve.model.schema",
            "krun.serve.model.conditions",
            "krun.serve.model.fields",
            "krun.serve.model.annotations",
            "krun.serve.model.idle",
        },
        {"krun.serve.model.volumes"},
        {"krun.serve.model.container"},
        {"krun.serve.model.podspec"},
        {"krun.serve.model.*"},
        {
            "krun.serve.store.db",
            "krun.serve.store.packing",
            "krun.serve.store.selectors",
            "krun.serve.store.watch",
        },
        {"krun.serve.store.*"},
        {
            "krun.serve.api.protobuf",
            "krun.serve.api.patch",
            "krun.serve.api.managed",
            "krun.serve.api.table",
            "krun.serve.api.discovery",
        },
        {
            "krun.serve.api.body",
            "krun.serve.api.openapi",
            "krun.serve.api.admission",
            "krun.serve.api.watching",
        },
        {"krun.serve.api.rest"},
        {"krun.serve.api.channels", "krun.serve.api.podlog", "krun.serve.api.portforward"},
        {"krun.serve.api.remote"},
        {"krun.serve.api.*"},
        {"krun.serve.proxy.outgoing", "krun.serve.proxy.queue", "krun.serve.proxy.room"},
        {
            "krun.serve.proxy.headers",
            "krun.serve.proxy.routes",
            "krun.serve.proxy.up1",
            "krun.serve.proxy.up2",
            "krun.serve.run.grpc_health",
        },
        {"krun.serve.proxy.pool"},
        {"krun.serve.proxy.exchange"},
        {"krun.serve.proxy.metrics", "krun.serve.proxy.accesslog"},
        {"krun.serve.proxy.ingress"},
        {"krun.serve.names.message"},
        {"krun.serve.names.zone", "krun.serve.names.forward"},
        {"krun.serve.names.responder"},
        {"krun.serve.run.errors"},
        {
            "krun.serve.run." + name
            for name in "etcfiles grpc_health lanes logfile network process resources rootdir syslog trash wire".split()
        },
        {"krun.serve.run." + name for name in "client logs probe runtime usage user volumes".split()},
        {"krun.serve.run." + name for name in "environment programs session spec".split()},
        {
            "krun.serve.run.image.archive",
            "krun.serve.run.image.config",
            "krun.serve.run.image.confined",
            "krun.serve.run.image.plain",
        },
        {"krun.serve.run.image.unpack"},
        {"krun.serve.run.image.layout", "krun.serve.run.image.podman"},
        {"krun.serve.run.image.store"},
        {"krun.serve.run.image.collector"},
        {"krun.serve.run.seccomp"},
        {
            "krun.serve.run.firewall",
            "krun.serve.run.pool",
            "krun.serve.run.doors",
            "krun.serve.run.conntrack",
        },
        {"krun.serve.run.bridge"},
        {"krun.serve.run.bundle"},
        {"krun.serve.run.sandbox"},
        {"krun.serve.run.worker"},
        {"krun.serve.run.commands"},
        {"krun.serve.run.workermain", "krun.serve.run.instance"},
        {
            "krun.serve.control.config",
            "krun.serve.control.pods",
            "krun.serve.control.capacity",
            "krun.serve.control.gauges",
            "krun.serve.control.pagehtml",
            "krun.serve.control.periodic",
        },
        {"krun.serve.control.context", "krun.serve.control.configs", "krun.serve.control.domains"},
        {
            "krun.serve.control.revision",
            "krun.serve.control.member",
            "krun.serve.control.traffic",
            "krun.serve.control.imagegc",
        },
        {
            "krun.serve.control.service",
            "krun.serve.control.configuration",
            "krun.serve.control.route",
            "krun.serve.control.domainmapping",
            "krun.serve.control.hosts",
            "krun.serve.control.pool",
        },
        {"krun.serve.control.scaling", "krun.serve.control.eviction"},
        {"krun.serve.control.engine", "krun.serve.control.pools"},
        {"krun.serve.control.page", "krun.serve.control.remote"},
        {"krun.serve.seed", "krun.serve.request", "krun.serve.service", "krun.serve.ending"},
        {"krun.serve.app"},
        {"krun.serve.export"},
        {"krun.serve.cli"},
        {"krun.serve.deploy"},
    ],
    [
        {"krun.conformance"},
        {"krun.conformance.cases", "krun.conformance.facts"},
        {"krun.conformance.checks", "krun.conformance.drive"},
        {"krun.conformance.rows"},
        {"krun.conformance.duties", "krun.conformance.image"},
        {"krun.conformance.platform"},
        {"krun.conformance.platform.access", "krun.conformance.platform.cases"},
        {"krun.conformance.platform.client"},
        {"krun.conformance.platform.checks", "krun.conformance.platform.drive"},
        {"krun.conformance.platform.rows"},
        {"krun.conformance.report"},
        {"krun.conformance.cli"},
    ],
    [
        {"krun.cli.options"},
        {"krun.cli.table"},
        {"krun.cli.verbs"},
        {"krun.cli.fast", "krun.cli.version"},
        {"krun.cli.manpages"},
        {"krun.cli.health", "krun.cli.health.finding"},
        {"krun.cli.health.*"},
        {"krun.cli.*"},
        {"krun.__main__"},
    ],
]

#: Heavy packages: only in this file, only inside functions.
HEAVY = {
    "pyroute2": {"krun.oci.network", "krun.serve.run.bridge"},
    "prctl": {"krun.cli.health.rights"},
    "pyseccomp": {"krun.oci.seccomp"},
    "click": {"krun.cli.app"},
    "h2": {
        "krun.serve.http.h2",
        "krun.serve.http.h2head",
        "krun.serve.http.h2limits",
        "krun.serve.http.h2stream",
        "krun.serve.proxy.up2",
        "krun.serve.run.grpc_health",
    },
}

#: The row of the verbs, and the last one, that of the command line.
VERBS_ROW, CLI_ROW = 5, len(LAYERS) - 1


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path): path
    for path in sorted((ROOT / "krun").rglob("*.py"))
    if "native" not in path.parts or path.name == "__init__.py"
}


def place(name: str) -> tuple[int, int] | None:
    """(row, group) of a module: by its name, else by the folder it is in."""
    folder = name.rpartition(".")[0] + ".*"
    for wanted in (name, folder):
        for row, groups in enumerate(LAYERS):
            for group, members in enumerate(groups):
                if wanted in members:
                    return row, group
    return None


def imports(path: Path) -> list[tuple[str, bool]]:
    """(module, inside a function) of every import that runs: blocks under TYPE_CHECKING do not."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for child in node.orelse:
                visit(child, inside)
            return
        if isinstance(node, ast.Import):
            found.extend((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.append((full if full in MODULES or full.endswith("._krun") else node.module, inside))
        inside = inside or isinstance(node, ast.FunctionDef)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(ast.parse(path.read_text()), False)
    return found


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_up(name: str) -> None:
    own = place(name)
    assert own is not None, f"{name} has no place in LAYERS: give it one, here and in docs/architecture.md"
    for target, _ in imports(MODULES[name]):
        if target.split(".")[0] != "krun":
            continue
        theirs = place(target)
        assert theirs is not None, f"{name} imports {target}, which has no place in LAYERS"
        assert theirs < own or theirs[0] == 0, f"{name} imports {target}, which stands beside or below it"
        assert not (name.startswith("krun.kvm") and target.startswith("krun.oci.")), "kvm never imports oci"
        assert not (theirs[0] == VERBS_ROW and own[0] == CLI_ROW), (
            f"{name} imports a verb: verbs are known by name only"
        )


@pytest.mark.parametrize("name", MODULES)
def test_heavy_packages_stay_inside_one_function(name: str) -> None:
    for target, lazy in imports(MODULES[name]):
        package = target.split(".")[0]
        if package in HEAVY:
            assert name in HEAVY[package], f"{name} imports {package}"
            assert lazy or package == "h2", f"{name} imports {package} at its top"
        if package == "yaml":
            assert lazy, f"{name} imports yaml at its top"


def test_verbs_of_the_table_exist() -> None:
    from krun.cli.verbs import VERBS

    for row in VERBS:
        module, _, function = row.call.partition(":")
        assert module in MODULES, f"{row.name} names {module}, which is not there"
        names = [
            node.name
            for node in ast.parse(MODULES[module].read_text()).body
            if isinstance(node, ast.FunctionDef)
        ]
        assert function in names, f"{row.name} names {row.call}, which is not there"

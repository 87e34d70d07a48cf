"""config.json: the table, the walk, the errors with their pointers, the checks across fields."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from krun.errors import ConfigError, KrunError
from krun.oci import fields, spec


def minimal(**linux: Any) -> dict[str, Any]:
    return {
        "ociVersion": "1.3.0",
        "root": {"path": "rootfs"},
        "process": {"args": ["/bin/true"], "cwd": "/", "env": ["A=b"]},
        "linux": {"namespaces": [{"type": "mount"}, {"type": "pid"}], **linux},
    }


def parse(config: Any) -> spec.Spec:
    return spec.parse(json.dumps(config).encode(), "/bundle")


def put(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    *folders, last = path.strip("/").split("/")
    at: Any = config
    for name in folders:
        at = at.setdefault(name, {})
    at[last] = value
    return config


def test_minimal() -> None:
    found = parse(minimal())
    assert found.rootfs == "/bundle/rootfs"
    assert found.process is not None
    assert found.process.args == ["/bin/true"]
    assert found.process.umask is None
    assert found.process.oom_score_adj is None
    assert found.namespaces == {"mount": "", "pid": ""}


def test_unknown_keys_and_other_platforms_are_ignored() -> None:
    config = minimal(future={"x": 1})
    config["windows"] = 5
    config["nonsense"] = None
    config["process"]["commandLine"] = 7
    parse(config)


def test_null_is_absent() -> None:
    config = minimal(seccomp=None, resources=None, devices=None)
    config["hooks"] = None
    config["process"]["rlimits"] = None
    parse(config)


@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        ("process/terminal", "yes", "/process/terminal: want true or false, have a string"),
        ("process/args", "true", "/process/args: want an array"),
        ("process/args", ["a", 5], "/process/args/1: want a string, have a number"),
        ("process/args", ["a\0b"], "/process/args/0: holds a NUL"),
        ("process/args", [], "/process/args: args must not be empty"),
        ("process/cwd", "", "Cwd property must not be empty"),
        ("process/cwd", "x", "Cwd must be an absolute path"),
        ("process/user", {"uid": -1}, "/process/user/uid: -1 is out of range"),
        ("process/user", {"uid": 4294967295}, "/process/user/uid: 4294967295 is out of range"),
        ("process/user", {"uid": 1.5}, "/process/user/uid: want a whole number, have a fraction"),
        ("process/user", {"uid": True}, "/process/user/uid: want a whole number"),
        ("process/user", {"additionalGids": [1, -2]}, "/process/user/additionalGids/1: -2 is not a group id"),
        ("process/rlimits", [{"type": "RLIMIT_X"}], '/process/rlimits/0/type: unknown value "RLIMIT_X"'),
        (
            "process/rlimits",
            [{"type": "RLIMIT_AS", "soft": 5, "hard": 4}],
            "/process/rlimits/0/soft: 5 is more",
        ),
        ("process/rlimits", [{"type": "RLIMIT_AS"}] * 2, "/process/rlimits/1/type: RLIMIT_AS stands twice"),
        ("process/oomScoreAdj", 1001, "/process/oomScoreAdj: 1001 is not within"),
        (
            "process/ioPriority",
            {"class": "IOPRIO_CLASS_BE", "priority": 8},
            "/process/ioPriority/priority: 8",
        ),
        (
            "process/scheduler",
            {"policy": "SCHED_BATCH", "priority": 1},
            "/process/scheduler/priority: can only",
        ),
        ("process/scheduler", {"nice": 1}, "/process/scheduler/policy: scheduler policy is required"),
        ("root", {}, "/root/path: is missing"),
        ("ociVersion", "", '/ociVersion: "" is not a version'),
        ("ociVersion", "1.x", '/ociVersion: "1.x" is not a version'),
        ("hostname", "h", "/hostname: unable to set hostname without a private UTS namespace"),
        ("annotations", {"": "x"}, "/annotations: an annotation's key is empty"),
        (
            "annotations",
            {"io.krun.calls.local": "on"},
            "/annotations: io.krun.calls.local is 'on'; use off, or leave it out (calls.local in /etc/krun/krun.yaml turns it on)",
        ),
        (
            "annotations",
            {"io.krun.calls.sockets": "on"},
            "/annotations: io.krun.calls.sockets is 'on'; use off, or",
        ),
        ("annotations", {"a/b": 5}, "/annotations/a~1b: want a string"),
        ("mounts", [{"type": "tmpfs"}], "/mounts/0/destination: is missing"),
        (
            "mounts",
            [{"destination": "/a", "uidMappings": [{"size": 1}]}],
            "/mounts/0/uidMappings: uidMappings and",
        ),
        ("hooks", {"prestart": [{"path": "sh"}]}, '/hooks/prestart/0/path: "sh" is not an absolute path'),
        (
            "hooks",
            {"poststop": [{"path": "/sh", "timeout": 0}]},
            "/hooks/poststop/0/timeout: must be greater",
        ),
        (
            "linux/namespaces",
            [{"type": "mount"}, {"type": "mount"}],
            "/linux/namespaces/1: duplicated ns mount",
        ),
        ("linux/namespaces", [{"type": "mnt"}], '/linux/namespaces/0/type: unknown value "mnt"'),
        (
            "linux/namespaces",
            [{"type": "user"}],
            "/linux/namespaces: a user namespace needs a mount namespace of its own",
        ),
        (
            "linux/namespaces",
            [{"type": "mount"}, {"type": "pid", "path": "x"}],
            'path "x" of the pid namespace',
        ),
        ("linux/uidMappings", [{"size": 1}], "isn't enabled in the config"),
        (
            "linux/timeOffsets",
            {"boottime": {"secs": 1}},
            "/linux/timeOffsets: time namespace offsets specified",
        ),
        ("linux/maskedPaths", ["proc"], '/linux/maskedPaths/0: "proc" is not an absolute path'),
        ("linux/rootfsPropagation", "public", '/linux/rootfsPropagation: unknown value "public"'),
        ("linux/sysctl", {"net.core.somaxconn": "1"}, "not allowed in host network namespace"),
        ("linux/sysctl", {"kernel.hostname": "x"}, "conflicts with the OCI hostname field"),
        ("linux/sysctl", {"kernel.core_pattern": "x"}, "is not in a separate kernel namespace"),
        ("linux/sysctl", {"kernel.msgmax": "1"}, "not allowed in the hosts ipc namespace"),
        ("linux/sysctl", {"net..x": "1"}, "is not a name"),
        ("hooks", {"poststop": [{}]}, "/hooks/poststop/0/path: is missing"),
        ("hooks", {"prestart": [{"args": ["x"]}]}, "/hooks/prestart/0/path: is missing"),
        ("process/scheduler", {}, "/process/scheduler/policy: scheduler policy is required"),
        ("process/ioPriority", {}, "/process/ioPriority/class: is missing"),
        ("linux/personality", {}, "/linux/personality/domain: is missing"),
        ("linux/devices", [{"path": "/dev/x"}], "/linux/devices/0/type: is missing"),
        (
            "linux/resources",
            {"blockIO": {"throttleReadBpsDevice": [{"major": 8, "minor": 0}]}},
            "/linux/resources/blockIO/throttleReadBpsDevice/0/rate: is missing",
        ),
        (
            "linux/resources",
            {"blockIO": {"throttleWriteIOPSDevice": [1]}},
            "/linux/resources/blockIO/throttleWriteIOPSDevice/0: want an object",
        ),
        (
            "linux/resources",
            {"blockIO": {"weightDevice": [{"major": "8", "minor": 0}]}},
            "/linux/resources/blockIO/weightDevice/0/major: want a whole number",
        ),
        (
            "linux/resources",
            {"network": {"priorities": [{}]}},
            "/linux/resources/network/priorities/0/name: is missing",
        ),
        ("linux/intelRdt", {"schemata": "L3:0=f"}, "/linux/intelRdt/schemata: want an array"),
        ("linux/memoryPolicy", {"mode": "MPOL_BIND", "flags": ["x"]}, "/linux/memoryPolicy/flags/0"),
        (
            "linux/devices",
            [{"type": "c", "path": "/dev/a", "major": 4096, "minor": 0}],
            "/linux/devices/0/major: 4096 is not the number of a device: use 0 to 4095",
        ),
        (
            "linux/devices",
            [{"type": "b", "path": "/dev/a", "major": 8, "minor": -1}],
            "/linux/devices/0/minor: -1 is not the number of a device: use 0 to 1048575",
        ),
        (
            "linux/resources",
            {"devices": [{"allow": True, "major": 1 << 32}]},
            "/linux/resources/devices/0/major: 4294967296 is not the number of a device: use 4294967295 at most",
        ),
        (
            "hooks",
            {"startContainer": [{"path": "/a", "timeout": 1 << 32}]},
            "/hooks/startContainer/0/timeout: 4294967296 s is too long",
        ),
        ("linux/devices", [{"type": "x", "path": "/dev/a"}], '/linux/devices/0/type: unknown value "x"'),
        (
            "linux/resources",
            {"memory": {"limit": "1g"}},
            "/linux/resources/memory/limit: want a whole number",
        ),
        ("vm", {"kernel": {"path": "/k"}}, "/vm: not served by krun"),
    ],
)
def test_wrong_values_are_named(path: str, value: Any, pointer: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(put(minimal(), path, value))
    assert pointer in str(error.value)
    assert "\n" not in str(error.value)


def test_no_process() -> None:
    config = minimal()
    del config["process"]
    with pytest.raises(KrunError, match="process property must not be empty"):
        parse(config)


def test_missing_file(tmp_path: Any) -> None:
    with pytest.raises(KrunError, match=r"JSON specification file config\.json not found"):
        spec.load(str(tmp_path))


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("net.ipv4.ip_forward", "net/ipv4/ip_forward"),
        ("net/ipv4/conf/eth0.1/forwarding", "net/ipv4/conf/eth0.1/forwarding"),
        ("net.ipv4.conf.eth0/1.forwarding", "net/ipv4/conf/eth0.1/forwarding"),
    ],
)
def test_sysctl_names(key: str, path: str) -> None:
    assert spec.normal_sysctl(key) == path


def test_every_row_is_well_formed() -> None:
    for pattern, row in fields.FIELDS.items():
        assert row.type in fields.TYPES, pattern
        assert row.check is None or callable(row.check), pattern
        assert row.level in (fields.SERVED, fields.REFUSED, fields.IGNORED), pattern
        assert row.step if row.level == fields.SERVED else row.note, pattern
        parent = pattern.rpartition("/")[0]
        assert pattern == "" or parent in fields.FIELDS, f"{pattern} has no parent row"


@pytest.mark.parametrize("step", sorted({row.step for row in fields.FIELDS.values() if row.step}))
def test_who_serves_a_field_is_there(step: str) -> None:
    """docs/spec-conformance.md publishes the names: modules below krun.oci, and what stands in them."""
    try:
        importlib.import_module(f"krun.oci.{step}")
    except ModuleNotFoundError:
        module, _, name = step.rpartition(".")
        assert hasattr(importlib.import_module(f"krun.oci.{module}"), name)


@pytest.mark.parametrize("pattern", fields.REQUIRED)
def test_what_must_be_there_has_a_row(pattern: str) -> None:
    assert all(f"{pattern}/{member}" in fields.FIELDS for member in fields.REQUIRED[pattern])


def test_process_document_of_exec() -> None:
    found = spec.parse_process(b'{"args": ["id"], "cwd": "/", "user": {"uid": 7, "umask": 18}}')
    assert (found.uid, found.umask, found.args) == (7, 18, ["id"])
    with pytest.raises(ConfigError, match="/process/args"):
        spec.parse_process(b'{"cwd": "/"}')

"""The verbs `krun serve` and `krun deploy`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys

from krun.errors import KrunError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.table import Options as CommandLine
    from krun.serve.app import App, Options

_MOST_FLOWS = 1 << 20


def serve(opts: CommandLine) -> int:
    """krun serve: runs the server until a signal ends it; `export`, `unit` and `--print-kubeconfig` only print."""
    try:
        from krun.serve.app import Options, report, run
        from krun.serve.ending import Ending
    except ImportError as error:
        if error.name not in ("h2", "hpack", "hyperframe"):
            raise
        raise KrunError(
            f"load krun serve: the Python package {error.name} is missing; pip install 'krun[serve]', or apt install python3-h2"
        ) from None
    from krun.serve import request, service

    options = Options()
    options.directory = os.path.abspath(opts.directory or directory())
    options.api = address(opts.api or "127.0.0.1:8001", "api")
    options.ingress = address(opts.listen or "127.0.0.1:8080", "listen")
    if opts.print_kubeconfig:
        sys.stdout.write(_known_kubeconfig(options, opts))
        return 0
    if opts.args == ["unit"]:
        sys.stdout.write(service.unit(opts.runtime or _own_runtime()))
        return 0
    if opts.args:
        from krun.serve import export

        given = options.api if opts.api else None
        return export.main(opts.args, request.find(options.directory, given, opts.token_file))
    _fill(options, opts)
    manager = service.take_notify_socket()

    def ready(app: App) -> None:
        _say(app)
        service.notify(manager, "READY=1")

    with Ending(report) as ending:
        return asyncio.run(run(options, ready, ending))


def _fill(options: Options, opts: CommandLine) -> None:
    from krun.serve import private

    options.runtime = opts.runtime or _own_runtime()
    options.images = tuple(os.path.abspath(path) for path in opts.images) or (
        os.path.join(options.directory, "local"),
    )
    private.directory(options.directory)
    for path in options.images:
        os.makedirs(path, exist_ok=True)
    options.pull = not opts.no_pull
    options.network = _network(opts)
    if opts.network_names not in (None, "forward", "refuse"):
        raise UsageError(f"--network-names {opts.network_names}: forward or refuse is wanted")
    options.forward_names = opts.network_names != "refuse"
    _bounds(options, opts)
    if opts.client_connections is not None:
        if opts.client_connections < 1:
            raise UsageError(
                f"--client-connections {opts.client_connections}: a number of 1 or more is wanted"
            )
        options.client_connections = opts.client_connections
    options.domain = opts.domain or "localhost"
    options.unix = opts.unix or ""
    options.access_log = opts.access_log or ""
    options.server_timing = opts.server_timing
    options.trace = opts.trace_headers
    _secure(options, opts)


def _secure(options: Options, opts: CommandLine) -> None:
    """Who may ask, and how it is asked."""
    options.certificate = os.path.abspath(opts.certificate) if opts.certificate else ""
    options.key = opts.key or ""
    if opts.token_file:
        from krun.serve.request import read_token

        options.token = read_token(opts.token_file)
        if len(options.token) < 16:
            raise KrunError(f"read token {opts.token_file}: it has fewer than 16 characters")


def _network(opts: CommandLine) -> dict[str, object] | None:
    """The instances' way out as the worker gets it; None: they have none."""
    from krun.serve.run import firewall, pool

    kind = opts.network or "none"
    if kind not in ("none", "bridge"):
        raise UsageError(f"--network {kind}: none or bridge is wanted")
    if kind == "none":
        if opts.network_pool or opts.network_allow or opts.network_flows is not None or opts.network_names:
            raise UsageError(
                "--network-pool, -allow, -flows and -names have a meaning with --network bridge only"
            )
        return None
    if opts.network_flows is not None and not 1 <= opts.network_flows <= _MOST_FLOWS:
        raise UsageError(f"--network-flows {opts.network_flows}: a number of 1 to {_MOST_FLOWS} is wanted")
    return {
        "pool": str(pool.parse(opts.network_pool)) if opts.network_pool else None,
        "allow": sorted({firewall.allowed(entry) for entry in opts.network_allow}),
        "flows": opts.network_flows,
    }


def _bounds(options: Options, opts: CommandLine) -> None:
    """Reads the bounds of all instances together, and the idle policy. Errors: UsageError."""
    from krun.serve.model import idle
    from krun.serve.units import quantity

    if opts.max_instances is not None:
        if opts.max_instances < 1:
            raise UsageError(f"--max-instances {opts.max_instances}: a number of 1 or more is wanted")
        options.instances = opts.max_instances
    if opts.memory_budget:
        try:
            options.memory = int(quantity(opts.memory_budget))
        except ValueError:
            options.memory = 0
        if options.memory < 1:
            raise UsageError(f"--memory-budget {opts.memory_budget}: a quantity such as 4Gi is wanted")
    notes = {}
    for key, text, flag in ((idle.POLICY, opts.idle, "idle"), (idle.DELAY, opts.idle_delay, "idle-delay")):
        if text is None:
            continue
        notes[key] = text
        if problems := idle.errors({key: text}):
            raise UsageError(
                f"--{flag} {text}: {problems.text().partition(chr(10))[2] or 'a duration is wanted'}"
            )
    options.idle = idle.of(notes, options.idle)


def directory() -> str:
    if os.geteuid() == 0:
        return "/var/lib/krun-serve"
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local/share")
    return os.path.join(data, "krun-serve")


def _own_runtime() -> str:
    """The command that this krun is: the launcher beside it, else the script of this process."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for path in (
        os.path.join(root, "build", "bin", "krun"),
        sys.argv[0],
        "/usr/bin/krun",
        "/opt/krun/bin/krun",
    ):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise KrunError("find the runtime: this krun has no command of its own; give --runtime PATH")


def address(text: str, flag: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--{flag} {text}: ADDRESS:PORT is wanted")
    return host.strip("[]") or "127.0.0.1", int(port)


def kubeconfig(options: Options, port: int = 0) -> str:
    """Returns a kubeconfig for the server; JSON, which is YAML."""
    scheme = "https" if options.certificate else "http"
    host = f"[{options.api[0]}]" if ":" in options.api[0] else options.api[0]
    cluster: dict[str, object] = {"server": f"{scheme}://{host}:{port or options.api[1]}"}
    if options.certificate:
        cluster["certificate-authority"] = options.certificate
    user = {"token": options.token} if options.token else {}
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "krun", "cluster": cluster}],
        "users": [{"name": "krun", "user": user}],
        "contexts": [
            {"name": "krun", "context": {"cluster": "krun", "user": "krun", "namespace": "default"}}
        ],
        "current-context": "krun",
    }
    return json.dumps(value, indent=2) + "\n"


def _known_kubeconfig(options: Options, opts: CommandLine) -> str:
    """The kubeconfig of the data directory's server; made from the flags where they say which, or where there is none yet."""
    if not (opts.api or opts.certificate or opts.token_file):
        try:
            with open(os.path.join(options.directory, "kubeconfig"), encoding="utf-8") as stream:
                return stream.read()
        except OSError:
            pass  # it has not been started
    _secure(options, opts)
    return kubeconfig(options)


def _say(app: App) -> None:
    """Writes the kubeconfig and tells what can be done now."""
    from krun.serve import private

    options = app.options
    port = app.api_server.port if app.api_server else 0
    path = os.path.join(options.directory, "kubeconfig")
    try:
        with open(f"{path}.new", "w", opener=private.opener) as stream:
            stream.write(kubeconfig(options, port))
        os.rename(f"{path}.new", path)
    except OSError as error:
        # A full disk ends no server that runs.
        with contextlib.suppress(OSError):
            os.unlink(f"{path}.new")
        app.report(f"write {path}: {error.strerror}; krun serve --print-kubeconfig prints it")
    sys.stdout.write(
        f"krun serve: API on {options.api[0]}:{port}, services on {options.ingress[0]}:{app.ingress_port}\n"
        f"kubeconfig: {path}\n"
        f"  export KUBECONFIG={path}\n"
        "  kn service create hello --image IMAGE     (or: krun deploy IMAGE --name hello)\n"
        "  kubectl get ksvc\n"
        f"  curl http://hello.default.{options.domain}:{app.ingress_port}/\n"
    )
    sys.stdout.flush()

"""krun metrics: the containers of a root as Prometheus text (exposition format 0.0.4): once, into a file, or on a unix socket.

Everything is read from outside of the containers: their state, their cgroups, their boards. No process of theirs notices.
"""

from __future__ import annotations

import os
import sys

import krun
from krun.errors import KrunError, NotFoundError, SysError, UsageError
from krun.kvm import board
from krun.oci import state as st
from krun.oci.cgroup.group import Cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.options import Options
    from krun.log import Log

#: Each family: type, help. THE list; docs/debugging.md has the same names.
FAMILIES = {
    "krun_build_info": ("gauge", "The version of the krun that answers."),
    "krun_container_state": ("gauge", "1 for the state that a container is in."),
    "krun_container_processes": ("gauge", "Processes and threads in the container's cgroup."),
    "krun_container_memory_usage_bytes": (
        "gauge",
        "Memory that the cgroup is charged, the monitors' included.",
    ),
    "krun_container_memory_limit_bytes": ("gauge", "The cgroup's limit of memory; absent without one."),
    "krun_container_oom_kills_total": (
        "counter",
        "Processes that the kernel killed for the limit of memory.",
    ),
    "krun_container_cpu_seconds_total": ("counter", "Processor time of the cgroup."),
    "krun_container_exits_total": ("counter", "How often threads left the guest."),
    "krun_container_calls_completed_total": ("counter", "System calls completed inside the guest."),
    "krun_container_calls_declined_total": ("counter", "System calls that could have been, and exited."),
    "krun_container_calls_refused_total": ("counter", "System calls that krun refuses by its table."),
    "krun_container_calls_unknown_total": ("counter", "System calls that krun does not know."),
    "krun_container_call_refused": ("gauge", "1 for each refused or unknown call that was made."),
    "krun_container_monitor_faults": (
        "gauge",
        "Monitors that ended by a fault of krun's or of the host's, at most 16.",
    ),
}
_REQUEST_S = 10
_UNLIMITED = 1 << 62  # of cgroup v1: the largest number of pages


class Samples:
    """Samples by family, in the order in which they come."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {name: [] for name in FAMILIES}

    def put(self, family: str, value: float, **labels: str) -> None:
        """Add a sample."""
        words = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        number = f"{value:.9g}" if value % 1 else str(int(value))
        self._lines[family].append(f"{family}{{{words}}} {number}")

    def text(self) -> str:
        """Return the exposition; a family without samples is left out."""
        out = []
        for name, lines in self._lines.items():
            if lines:
                kind, words = FAMILIES[name]
                out += [f"# HELP {name} {words}", f"# TYPE {name} {kind}", *lines]
        return "\n".join(out) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def main(opts: Options) -> int:
    """Print the metrics of the containers opts.ids, of all without ids; or write them to opts.file; or serve them on opts.listen until a
    signal ends krun.

    Errors: UsageError for both; NotFoundError for an id without a container; SysError.
    """
    if opts.file and opts.listen:
        raise UsageError("--file and --listen exclude each other")
    if opts.listen:
        return _serve(opts.listen, opts.root, opts.ids or [], opts.logger)
    text = collect(opts.root, opts.ids or [], opts.logger)
    if opts.file:
        _write(opts.file, text)
    else:
        sys.stdout.write(text)
    return 0


def collect(root: str, ids: list[str], log: Log) -> str:
    """Return the metrics of these containers, of all of the root if there are no ids. A container of all that goes meanwhile is left out.

    Errors: NotFoundError for one of the ids.
    """
    samples = Samples()
    samples.put("krun_build_info", 1, version=krun.__version__)
    for name in ids or st.ids(root):
        try:
            _container(samples, st.StateDir(root, name), log)
        except (NotFoundError, FileNotFoundError):
            if ids:
                raise
        except KrunError as error:
            log.warning(f"metrics of container {name}: {error.message}")
    return samples.text()


def _container(samples: Samples, statedir: st.StateDir, log: Log) -> None:
    state = statedir.load()
    name = state.id
    samples.put("krun_container_state", 1, id=name, state=st.status(state, statedir))
    path = f"{statedir.path}/{st.BOARD}"
    counters = board.counters(path)
    if len(counters) >= board.COUNTS:
        _calls(samples, name, counters)
    samples.put("krun_container_monitor_faults", len(board.last_words(path)), id=name)
    cgroup = Cgroup.load(state.cgroup_paths, log, state.manager)
    found = cgroup.stats()
    memory = (found.get("memory") or {}).get("usage") or {}
    if "usage" in memory:
        samples.put("krun_container_memory_usage_bytes", memory["usage"], id=name)
    if 0 < memory.get("limit", 0) < _UNLIMITED:
        samples.put("krun_container_memory_limit_bytes", memory["limit"], id=name)
    if memory:
        samples.put("krun_container_oom_kills_total", cgroup.oom_kills(), id=name)
    if "current" in (found.get("pids") or {}):
        samples.put("krun_container_processes", found["pids"]["current"], id=name)
    total = ((found.get("cpu") or {}).get("usage") or {}).get("total")
    if total is not None:
        samples.put("krun_container_cpu_seconds_total", total / 1e9, id=name)


def _calls(samples: Samples, name: str, counters: list[int]) -> None:
    samples.put("krun_container_exits_total", counters[board.EXITS], id=name)
    for way, number in board.WAYS.items():
        samples.put(
            "krun_container_calls_completed_total", counters[board.COMPLETED + number], id=name, way=way
        )
        samples.put(
            "krun_container_calls_declined_total", counters[board.DECLINED + number], id=name, way=way
        )
    samples.put("krun_container_calls_refused_total", counters[board.REFUSED], id=name)
    samples.put("krun_container_calls_unknown_total", counters[board.UNKNOWN], id=name)
    for call in board.refused(counters):
        samples.put("krun_container_call_refused", 1, id=name, call=call["call"], errno=call["errno"])


def _write(path: str, text: str) -> None:
    """Write the file as a whole, so that a reader (node_exporter's textfile collector) never sees half of it. Errors: SysError."""
    fresh = f"{path}.{os.getpid()}"
    made = False
    try:
        with open(fresh, "x") as file:
            made = True
            file.write(text)
        os.rename(fresh, path)
    except OSError as error:
        if made:
            os.unlink(fresh)
        raise SysError.of("write metrics", error, path) from None


def _serve(path: str, root: str, ids: list[str], log: Log) -> int:
    """Answer GET /metrics on a unix socket that only its owner may use, one request after the other. Errors: SysError, NotFoundError."""
    import http.server
    import signal
    import socketserver

    collect(root, ids, log)

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = _REQUEST_S

        def do_GET(self) -> None:
            try:
                data = collect(root, ids, log).encode() if self.path == "/metrics" else b"see /metrics\n"
                status = 200 if self.path == "/metrics" else 404
            except KrunError as error:
                data, status = f"{error.message}\n".encode(), 404
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *words: object) -> None:
            pass

    class Server(socketserver.UnixStreamServer):
        def handle_error(self, request: object, client_address: object) -> None:
            log.debug(f"metrics: a request failed: {sys.exc_info()[1]}")

    def stop(number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    _remove_stale(path)
    before = os.umask(0o177)
    try:
        server = Server(path, Handler)
    except OSError as error:
        raise SysError.of("listen on", error, path) from None
    finally:
        os.umask(before)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
        os.unlink(path)
    return 0


def _remove_stale(path: str) -> None:
    """Remove a socket of our user's at which nobody listens: that of a krun that was killed, and would keep its successor from serving."""
    import socket
    import stat

    try:
        info = os.lstat(path)
        if not stat.S_ISSOCK(info.st_mode) or info.st_uid != os.geteuid():
            return
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(_REQUEST_S)
            asking.connect(path)
    except ConnectionRefusedError:
        try:
            os.unlink(path)
        except OSError:
            pass  # the bind says it
    except OSError:
        pass

"""krun ps: the host processes of a container (each is one process of the payload)."""

import os
import sys

from krun.errors import KrunError, SysError, UsageError
from krun.fileio import split_lines
from krun.jsonio import dumps
from krun.oci import state as st

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.options import Options
    from krun.log import Log

# podman and containerd hand us no PATH.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main(opts: "Options") -> int:
    """Print the pids as JSON, or the host's `ps` (arguments opts.args, default -ef) cut down to them.

    Errors: NotFoundError, KrunError when ps cannot be run or shows no pid.
    """
    if opts.format not in (None, "", "table", "json"):
        raise UsageError(f"invalid format option: {opts.format}")
    pids = processes(st.StateDir(opts.root, opts.id).load(), opts.logger)
    if opts.format == "json":
        sys.stdout.write(dumps(pids) + "\n")
        return 0
    lines = split_lines(_host_ps(opts.args or ["-ef"]))
    titles = lines[0].split() if lines else []
    if "PID" not in titles:
        raise KrunError(f"couldn't find PID field in the output of ps {' '.join(opts.args)}")
    column = titles.index("PID")
    wanted = {str(pid) for pid in pids}
    kept = [
        line for line in lines[1:] if line.split()[column : column + 1] and line.split()[column] in wanted
    ]
    sys.stdout.write("".join(line + "\n" for line in [lines[0], *kept]))
    return 0


def processes(state: st.ContainerState, log: "Log") -> "list[int]":
    """Return the pids in the container's cgroup, sorted; without a cgroup the init process alone."""
    if state.cgroup_paths:
        from krun.oci.cgroup.group import Cgroup

        return sorted(Cgroup.load(state.cgroup_paths, log, state.manager).procs())
    return [state.pid] if st.alive(state) else []


def _host_ps(args: "list[str]") -> str:
    read_end, write_end = os.pipe()
    environ = {"PATH": os.environ.get("PATH") or _PATH, "LC_ALL": "C.UTF-8"}
    command = next(
        (path for part in environ["PATH"].split(":") if os.access(path := f"{part}/ps", os.X_OK)), "ps"
    )
    try:
        pid = os.posix_spawn(
            command, ["ps", *args], environ, file_actions=[(os.POSIX_SPAWN_DUP2, write_end, 1)]
        )
    except OSError as error:
        os.close(read_end)
        raise SysError.of("run ps of the host", error, command) from None
    finally:
        os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read().decode("utf-8", "surrogateescape")
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise KrunError(f"ps {' '.join(args)} failed on the host")
    return text

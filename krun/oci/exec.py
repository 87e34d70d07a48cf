"""`krun exec`: runs a further program in a VM of its own, in the container's namespaces and cgroup."""

import time

from krun.errors import KrunError
from krun.fileio import read_file
from krun.oci import caller, spec
from krun.oci.enter import ExecOptions, exec_process
from krun.oci.foreground import Foreground
from krun.oci.state import CREATING, PAUSED, STOPPED, StateDir, status
from krun.sysio import PR_SET_CHILD_SUBREAPER, prctl, socketpair, unix_connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.options import Options
    from krun.oci.spec import Process, Spec

EXEC_FAILED = 255  # the exit code of `runc exec` where no program was started


def main(opts: "Options") -> int:
    """Runs a program in a running container.

    Returns 0 if detached, else the program's exit code or 128 + signal. Raises KrunError with exit code 255.
    """
    try:
        return _exec(opts)
    except KrunError as e:
        raise KrunError(f"exec failed: {e}", EXEC_FAILED) from None


def _exec(opts: "Options") -> int:
    t0 = time.monotonic_ns()
    keep = caller.seal_descriptors(opts.preserve_fds, opts.logger.fileno(), False)
    statedir = StateDir(opts.root, opts.id)
    state = statedir.load()
    found = status(state, statedir)
    if found == STOPPED:
        raise KrunError("cannot exec in a stopped container")
    if found == CREATING:
        raise KrunError("cannot exec in a container that is being created")
    if found == PAUSED and not opts.ignore_paused:
        raise KrunError("cannot exec in a paused container (use --ignore-paused to override)")
    config = spec.parse(statedir.read(state.config), state.bundle)
    process = make_process(opts, config)
    detach = bool(opts.detach)
    caller.check_terminal(process, detach, opts.console_socket)
    front = None
    ours = console = -1
    if not detach:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        front = Foreground()
        if process.terminal:
            ours, console = socketpair()
    if opts.console_socket:
        console = unix_connect(opts.console_socket)
    options = ExecOptions(opts.root, opts.id, opts.logger)
    options.foreground = not detach
    options.keep, options.console, options.t0 = keep, console, t0
    options.cgroup, options.settings = opts.cgroup or [], opts.settings
    options.trace_log = opts.trace_log
    options.trace, options.pid_file, options.pidfd_socket = opts.trace, opts.pid_file, opts.pidfd_socket
    if front is not None and not process.terminal:
        options.stdio = front.take_streams()
    try:
        launched = exec_process(config, state, process, options)
    except KrunError:
        if front is not None:
            front.flush()
        raise
    if front is None:
        return 0
    return front.wait(launched.pid, launched.pidfd, ours)


def make_process(opts: "Options", config: "Spec") -> "Process":
    """Returns the process to run: --process, or the container's own with the command line's changes (runc, exec.go).

    Raises ConfigError, KrunError for a flag that is wrong.
    """
    if opts.process:
        return spec.parse_process(read_file(opts.process), opts.process)
    process = config.process
    if process is None:
        raise KrunError("process property must not be empty")
    if not opts.args:
        raise KrunError("process args cannot be empty")
    process.args = list(opts.args)
    process.terminal = bool(opts.tty)
    process.console_size = process.console_size if opts.tty else None
    if opts.cwd:
        process.cwd = opts.cwd
    process.env += opts.env or []
    for entry in opts.env or []:
        if "=" not in entry[1:]:
            raise KrunError(f'invalid environment variable "{entry}", use NAME=VALUE')
    if opts.user:
        process.uid, gid = parse_user(opts.user)
        process.gid = process.gid if gid is None else gid
    process.groups = process.groups + [parse_id(text, "gid") for text in opts.additional_gids or []]
    if opts.cap:
        add_caps(process, opts.cap)
    if opts.no_new_privs:
        process.no_new_privs = True
    if opts.apparmor:
        process.apparmor = opts.apparmor
    if opts.process_label:
        process.selinux = opts.process_label
    spec.check_process(process, "exec")
    return process


def parse_id(text: str, what: str) -> int:
    """Returns a numeric id, strictly read: digits only, within the range of ids.

    Lenient parsing made root of "1:" and the like (crun CVE-2026-30892, containerd CVE-2024-40635). Raises KrunError.
    """
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > (1 << 32) - 2:
        raise KrunError(f'parse {what} "{text}": not a number from 0 to 4294967294')
    return int(text)


def parse_user(text: str) -> "tuple[int, int | None]":
    """Returns (uid, gid or None) of "UID[:GID]". Raises KrunError."""
    user, colon, group = text.partition(":")
    return parse_id(user, "uid"), parse_id(group, "gid") if colon else None


def add_caps(process: "Process", names: "list[str]") -> None:
    """Adds capabilities to bounding, effective and permitted; never to inheritable by itself (CVE-2022-29162), to ambient
    only what is inheritable already. An unknown name stays: a warning tells of it (cred.warn_unavailable)."""
    caps = process.caps = {kind: list(values) for kind, values in (process.caps or {}).items()}
    for name in names:
        full = name.upper() if name.upper().startswith("CAP_") else f"CAP_{name.upper()}"
        for kind in ("bounding", "effective", "permitted"):
            if full not in caps.setdefault(kind, []):
                caps[kind].append(full)
        if full in (caps.get("inheritable") or ()) and full not in caps.setdefault("ambient", []):
            caps["ambient"].append(full)

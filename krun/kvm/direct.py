"""Runs one program under the monitor without a container, for tests of the monitor and for debugging.

`python -m krun.kvm.direct [--trace] [--count] [--local[=random]] [--sockets] [--log FILE] PROGRAM [ARG...]` replaces this process by
the monitor.
The exit status, the signals and the terminal are therefore the program's. The program sees the host's file system with the caller's rights.
"""

import os
import resource
import signal
import sys

from krun.kvm import board, boot, image
from krun.sysio import STACK_SOFT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def exec_monitor(
    program: str,
    argv: "Sequence[str]",
    flags: int = 0,
    log: str | None = None,
    board_fd: int = -1,
    path: str = image.MONITOR_PATH,
) -> None:
    """Replaces the calling process by a monitor that runs `program`.

    Args:
        program: path of the program; `argv`: its arguments, argv[0] included.
        flags: boot.FLAG_TRACE, boot.FLAG_COUNT, boot.FLAG_LOCAL, boot.FLAG_RANDOM, boot.FLAG_SOCKETS.
        log: file that the trace goes to; None: standard error.
        board_fd: an empty board (kvm/board.py); -1: one that nobody else has.
        path: of the monitor.
    Raises:
        KrunError: /dev/kvm cannot be opened. OSError: the monitor or the log file cannot be opened.
    """
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    block = boot.Block()
    block.add(boot.EXE_PATH, os.fsencode(program))
    monitor = os.open(path, os.O_PATH)
    block.fd(boot.FD_KVM, boot.open_kvm())
    block.fd(boot.FD_EXE, monitor)
    block.fd(boot.FD_PROC, os.open("/proc", os.O_RDONLY | os.O_DIRECTORY))
    if board_fd < 0:
        board_fd = os.memfd_create("krun-board")
        board.fill(board_fd)
    block.fd(boot.FD_BOARD, board_fd)
    if flags & (boot.FLAG_TRACE | boot.FLAG_COUNT) or log:
        log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log else os.dup(2)
        block.fd(boot.FD_LOG, log_fd)
    block.number(boot.FLAGS, boot.FLAG_FIRST | flags)
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if not 0 <= soft <= STACK_SOFT:  # as in oci/init.py
        block.number(boot.RLIMIT_STACK, soft & (1 << 64) - 1)
        resource.setrlimit(resource.RLIMIT_STACK, (STACK_SOFT if hard < 0 else min(STACK_SOFT, hard), hard))
    env = [k + b"=" + v for k, v in os.environb.items()]
    boot.start_monitor(monitor, boot.pass_block(block.done()), [os.fsencode(a) for a in argv], env)


def main(argv: list[str]) -> int:
    """Command line face; see the module's text. The environment variable KRUN_MONITOR names another build of the monitor (sanitizers); only
    here, never in the runtime, which measures by `exec_monitor`."""
    flags, log = 0, None
    while argv and argv[0].startswith("--"):
        option = argv.pop(0)
        if option == "--trace":
            flags |= boot.FLAG_TRACE
        elif option == "--count":
            flags |= boot.FLAG_COUNT
        elif option in ("--local", "--local=random"):
            flags |= boot.FLAG_LOCAL | (boot.FLAG_RANDOM if option.endswith("random") else 0)
        elif option == "--sockets":
            flags |= boot.FLAG_SOCKETS
        elif option == "--log" and argv:
            log = argv.pop(0)
        else:
            break
    if not argv or argv[0].startswith("--"):
        options = "[--trace] [--count] [--local[=random]] [--sockets] [--log FILE]"
        print(f"usage: python -m krun.kvm.direct {options} PROGRAM [ARG...]", file=sys.stderr)
        return 2
    exec_monitor(argv[0], argv, flags, log, path=os.environ.get("KRUN_MONITOR", image.MONITOR_PATH))
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

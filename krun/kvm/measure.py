"""Measures what a system call costs that leaves the guest, and one that the guest's code completes (docs/calls.md).

A program of ours, `krun-probe exits:`, runs under a monitor with our rights, without a container. Whether its calls were completed is told
by the board, which its monitor writes and no other process has.
"""

import os
from select import POLLIN, poll

from krun.jsonio import loads
from krun.kvm import board, boot, direct

_PROGRAM = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/conformance/krun-probe"
_MILLISECONDS = 10_000
_SIGKILL = 9


def exits() -> "tuple[int, int]":
    """Returns nanoseconds of a call with an exit, and of one that is completed in the guest; 0: none was completed.

    Raises OSError, ValueError: the program could not be run, or said something else.
    """
    board_fd = os.memfd_create("krun-board", os.MFD_CLOEXEC)
    here, there = os.pipe()
    try:
        board.fill(board_fd)
        pid = os.fork()
        if pid == 0:
            _become(there, board_fd)
        os.close(there)
        there = -1
        text = _said(here, pid)
        counters = os.pread(board_fd, board.COUNTS * 8, board.COUNTS_AT)
    finally:
        for fd in (board_fd, here, there):
            if fd >= 0:
                os.close(fd)
    found = loads(text)
    at = 8 * (board.COMPLETED + board.WAYS["fact"])
    completed = int.from_bytes(counters[at : at + 8], "little")
    return int(found["exit"]), int(found["own"]) if completed else 0


def _become(there: int, board_fd: int) -> None:
    """Becomes the monitor; does not return."""
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(there, 1)
        os.dup2(0, 2)
        direct.exec_monitor(_PROGRAM, ["krun-probe", "exits:"], boot.FLAG_LOCAL, board_fd=board_fd)
    finally:
        os._exit(1)


def _said(here: int, pid: int) -> bytes:
    """Returns what the program wrote before it ended; one that does not end is killed."""
    try:
        waiting = poll()
        waiting.register(here, POLLIN)
        text = b""
        while waiting.poll(_MILLISECONDS):
            part = os.read(here, 4096)
            if not part:
                break
            text += part
        else:
            os.kill(pid, _SIGKILL)
    finally:
        _, status = os.waitpid(pid, 0)
    if status:
        raise ValueError(f"{_PROGRAM}: status {os.waitstatus_to_exitcode(status)}")
    return text

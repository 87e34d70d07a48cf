"""What a change of ids takes from a process on its way into a container, and what krun says again (commit_creds())."""

from __future__ import annotations

import ctypes
import os
import signal
from types import SimpleNamespace

import pytest

from krun import sysio
from krun.oci import cred, init

PR_GET_PDEATHSIG = 2
PR_GET_DUMPABLE = 3


def facts_of_a_child(act) -> str:
    """What prctl(2) says in a child that dies with its parent, after act()."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            sysio.die_with_parent()
            act()
            libc, number = ctypes.CDLL(None), ctypes.c_int()
            libc.prctl(PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
            os.write(write_end, f"{number.value} {libc.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)}".encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as end:
        text = end.read().decode()
    assert os.waitpid(pid, 0)[1] == 0
    return text


def become_root() -> None:
    os.setresuid(0, 1000, 0)
    init.become_root(SimpleNamespace(groups_denied=False, proc=-1, readable=-1))  # type: ignore[arg-type]


def become_the_user() -> None:
    process = SimpleNamespace(caps={}, uid=1000, gid=1000, groups=[])
    cred.SetCapabilities(process).execute(SimpleNamespace(groups_denied=False))  # type: ignore[arg-type]


def test_a_change_of_ids_alone_clears_it():
    assert facts_of_a_child(lambda: os.setresuid(1000, 1000, 1000)).startswith("0 ")


@pytest.mark.parametrize("change", [become_root, become_the_user])
def test_a_process_with_new_ids_dies_with_its_parent_and_is_not_dumpable(change):
    assert facts_of_a_child(change) == f"{int(signal.SIGKILL)} 0"


def test_the_saved_id_is_nobodys_until_the_exec():
    """exec makes all three equal again (cap_bprm_creds_from_file()), and so it does for the file system id."""

    def ids(saved: int, program: bool) -> list[str]:
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(write_end, 1)
            try:
                sysio.setfsuid(sysio.setresuid_apart(saved))
                if program:
                    os.execv("/bin/grep", ["grep", "^Uid:", "/proc/self/status"])
                os.write(1, next(line for line in open("/proc/self/status", "rb") if line[:4] == b"Uid:"))
            finally:
                os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end) as end:
            text = end.read()
        os.waitpid(pid, 0)
        return text.removeprefix("Uid:").split()

    for uid in (0, 1000, sysio.APART[0]):
        other = next(number for number in sysio.APART if number != uid)
        assert ids(uid, program=False) == [str(uid), str(uid), str(other), str(other)]
        assert ids(uid, program=True) == [str(uid)] * 4

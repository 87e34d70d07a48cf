"""clone3 of krun: the child has neither krun's arguments nor its environment, the parent keeps both (krun/native/host/ns.c)."""

import subprocess
import sys

import pytest

SCRIPT = """
import os
from krun.sysio import clone3

def words():
    return [open(f"/proc/self/{name}", "rb").read() for name in ("cmdline", "environ")]

before = words()
pid, pidfd = clone3(0)
if pid == 0:
    seen = [text.rstrip(b"\\0") for text in words()]
    os._exit(0 if seen == [b"krun", b""] else 1)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(status, words() == before, b"a secret" in before[0], b"WORD=1" in before[1])
"""


def test_the_child_has_no_words_of_ours() -> None:
    """What /proc/PID/cmdline and environ show of the child, and of the parent afterwards."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "a secret"],
        env={"WORD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "0 True True True\n", done.stderr


HIDDEN = """
import os
from krun.errors import SysError
from krun.mountio import mount
from krun.sysio import CLONE_NEWNS, clone3, unshare

unshare(CLONE_NEWNS)
mount(None, "/", None, 1 << 18 | 1 << 14)  # private
mount("none", "/proc", "tmpfs", 0)
try:
    if clone3(0)[0] == 0:
        os._exit(0)
    print("a child")
except SysError as e:
    print(e)
"""


@pytest.mark.root
def test_no_child_without_a_proc_that_tells_where_the_words_are() -> None:
    """It would show them."""
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, "a secret"], capture_output=True, text=True, check=False
    )
    assert "no such file or directory" in done.stdout, done


BELOW = """
import os
from krun.sysio import CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWUTS, lib, pidfd_open, setns, unshare

uid, gid = os.geteuid(), os.getegid()
unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS)
with open("/proc/self/uid_map", "w") as file:
    file.write(f"0 {uid} 1")
with open("/proc/self/setgroups", "w") as file:
    file.write("deny")
with open("/proc/self/gid_map", "w") as file:
    file.write(f"0 {gid} 1")
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.close(go[1])
    unshare(CLONE_NEWUSER | CLONE_NEWNS)
    os.write(ready[1], b"1")
    os.read(go[0], 1)
    os._exit(0)
os.close(ready[1])
os.read(ready[0], 1)
proc = os.open("/proc", os.O_PATH)
names = (b"self/ns/mnt", b"self/ns/uts", b"self/ns/net")
before = [lib.kr_ns_below(proc, name) for name in names]
setns(pidfd_open(child), CLONE_NEWNS)
print(before, [lib.kr_ns_below(proc, name) for name in names], lib.kr_ns_below(proc, b"self/ns/none"))
os.write(go[1], b"1")
os.waitpid(child, 0)
"""


def test_whose_a_namespace_is() -> None:
    """Of three namespaces two are our own user namespace's and one that of one above, until we join a mount namespace of one below."""
    done = subprocess.run([sys.executable, "-c", BELOW], capture_output=True, text=True, check=False)
    assert done.stdout == "[0, 0, 0] [1, 0, 0] -2\n", done.stderr

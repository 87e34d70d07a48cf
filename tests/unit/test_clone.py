"""clone3 of krun: the child has neither krun's arguments nor its environment, the parent keeps both (krun/native/host/ns.c)."""

import subprocess
import sys

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

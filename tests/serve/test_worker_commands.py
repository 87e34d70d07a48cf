"""What a new worker of krun serve does with the commands of one that died (run/workermain.py)."""

import os
import signal
import subprocess

from krun.serve.run import workermain

WAIT = "echo ready; read word"


def test_commands_are_killed_and_payloads_are_not(as_root, tmp_path):
    """A payload may have the words of a command: in a pid namespace of its own, or as another user."""
    root = str(tmp_path)
    command = ["sh", "-c", WAIT, "--root", root, "create"]
    inside = ["unshare", "--pid", "--kill-child", "--fork", "sh", "-c"]
    inside += [f'sh -c "{WAIT}" --root "$ROOT" create; exit $?']
    other = ["sh", "-c", WAIT, "--root", f"{root}/other", "create"]
    started = [
        subprocess.Popen(
            words, user=user, env={**os.environ, "ROOT": root}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for words, user in ((command, None), (inside, None), (other, None), (command, 1000))
    ]
    try:
        for one in started:
            assert one.stdout and one.stdout.readline() == b"ready\n"
        workermain._end_commands(root)
        for one in started:
            one.communicate(b"word\n", timeout=20)
        assert [one.returncode for one in started] == [-signal.SIGKILL, 0, 0, 0]
    finally:
        for one in started:
            one.kill()
            one.wait()

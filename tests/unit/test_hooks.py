"""OCI hooks: input, environment, order, failure, time limit."""

from __future__ import annotations

import json
import os
import time

import pytest

from krun.errors import HookError
from krun.oci import hooks

STATE = {"ociVersion": "1.3.0", "id": "box", "status": "creating", "pid": 42, "bundle": "/b"}


def shell(script, **more):
    return {"path": "/bin/sh", "args": ["sh", "-c", script], **more}


def test_the_state_stands_on_standard_input(tmp_path):
    hooks.run({"prestart": [shell(f"cat > {tmp_path}/in")]}, "prestart", STATE)
    assert json.loads((tmp_path / "in").read_text()) == STATE


def test_a_state_larger_than_a_pipe(tmp_path):
    state = {**STATE, "annotations": {"x": "y" * 300_000}}
    hooks.run([shell(f"cat > {tmp_path}/in")], "prestart", state)
    assert json.loads((tmp_path / "in").read_text()) == state


def test_a_hook_that_does_not_read(tmp_path):
    for _ in range(20):
        hooks.run([{"path": "/bin/true"}], "prestart", {**STATE, "annotations": {"x": "y" * 200_000}})


def test_order_and_stop_at_the_first_failure(tmp_path):
    log = tmp_path / "log"
    wanted = [shell(f"echo {n} >> {log}; exit {code}") for n, code in ((1, 0), (2, 3), (3, 0))]
    with pytest.raises(HookError, match="error running createRuntime hook #1: /bin/sh: exit status 3"):
        hooks.run({"createRuntime": wanted}, "createRuntime", STATE)
    assert log.read_text() == "1\n2\n"


def test_poststop_runs_them_all(tmp_path):
    log = tmp_path / "log"
    wanted = [shell(f"echo {n} >> {log}; exit {code}") for n, code in ((1, 5), (2, 0), (3, 6))]
    errors = hooks.run_all(wanted, "poststop", STATE)
    assert log.read_text() == "1\n2\n3\n"
    assert [error.message[-1] for error in errors] == ["5", "6"]


def test_the_environment_is_exact(tmp_path, monkeypatch):
    monkeypatch.setenv("CALLER", "1")
    script = "/usr/bin/env -u PWD -u SHLVL -u _; exit 1"
    with pytest.raises(HookError, match="output: A=b=c D=$"):
        hooks.run([shell(script, env=["A=b=c", "D="])], "prestart", STATE)
    with pytest.raises(HookError, match="exit status 1$"):
        hooks.run([shell(script, env=[])], "prestart", STATE)
    with pytest.raises(HookError, match="exit status 9"):
        hooks.run([shell('test "$CALLER" = 1 && exit 9')], "prestart", STATE)


def test_arguments_are_exact(tmp_path):
    with pytest.raises(HookError, match="output: name-of-it one two"):
        hooks.run(
            [
                {
                    "path": "/bin/sh",
                    "args": ["name-of-it", "-c", 'echo $0 "$@"; exit 1', "name-of-it", "one", "two"],
                }
            ],
            "prestart",
            STATE,
        )


def test_time_limit_kills():
    begin = time.monotonic()
    with pytest.raises(HookError, match="timed out after 1 s and was killed"):
        hooks.run([shell("sleep 60", timeout=1)], "prestart", STATE)
    assert time.monotonic() - begin < 10


def test_a_child_left_behind_does_not_hold_us():
    begin = time.monotonic()
    hooks.run([shell("sleep 20 & exit 0")], "prestart", STATE)
    assert time.monotonic() - begin < 10


def test_what_cannot_be_run():
    with pytest.raises(HookError, match="hook #0: exec /nope: no such file or directory"):
        hooks.run([{"path": "/nope"}], "prestart", STATE)
    with pytest.raises(HookError, match="permission denied"):
        hooks.run([{"path": "/etc/passwd"}], "prestart", STATE)


def test_signals_death_and_defaults():
    with pytest.raises(HookError, match="signal 9"):
        hooks.run([shell("kill -9 $$")], "prestart", STATE)
    # Python ignores SIGPIPE; a hook must not: bits of SigIgn (13 and 25).
    script = "set -- $(grep SigIgn /proc/self/status); test $(( 0x$2 & 0x1001000 )) = 0"
    hooks.run([shell(script)], "prestart", STATE)


def test_output_is_bounded():
    with pytest.raises(HookError) as error:
        hooks.run([shell("head -c 1000000 /dev/zero | tr '\\0' x; exit 1")], "prestart", STATE)
    assert len(error.value.message) < 5000


def test_nothing_to_do_and_no_descriptor_left():
    before = os.listdir("/proc/self/fd")
    hooks.run(None, "prestart", STATE)
    hooks.run({}, "prestart", STATE)
    hooks.run({"prestart": [{"path": "/bin/true"}]}, "prestart", STATE)
    with pytest.raises(HookError):
        hooks.run([{"path": "/nope"}], "prestart", STATE)
    assert os.listdir("/proc/self/fd") == before


def test_a_timeout_beyond_the_milliseconds_of_poll():
    hooks.run([shell("true", timeout=(1 << 32) - 1)], "prestart", STATE)

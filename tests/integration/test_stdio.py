"""Standard input, output and error of `run` and `exec` in the foreground: the caller's files and terminal stay the caller's."""

import os
import pty
import subprocess

import pytest
from helpers.runtime import wait_for

KRUN_ONLY = pytest.mark.parametrize("runtime", ["krun"], indirect=True)
#: What a payload does to a host's file that it has as its output.
SPOIL = "chmod 666 /proc/self/fd/1; : > /proc/self/fd/1; echo said"


def words(runtime, *args):
    return [str(runtime.path), "--root", str(runtime.root), *map(str, args)]


def call(runtime, *args, **streams):
    """Runs a command; its stdio is /dev/null but for `streams`. Returns its status."""
    streams = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        **streams,
    }
    return subprocess.run(
        words(runtime, *args), timeout=60, check=False, env=runtime.environment, **streams
    ).returncode


@pytest.mark.parametrize("verb", ["run", "exec"])
def test_a_file_of_the_caller(runtime, bundle, tmp_path, verb):
    """The program opened it anew, changed its mode and took what was there away."""
    log = tmp_path / "log"
    log.write_text("of the host\n")
    log.chmod(0o600)
    if verb == "run":
        container = runtime.new(bundle.shell(SPOIL))
        arguments = container.argv("run")[3:]
    else:
        container = runtime.start(bundle.args("sleep", "1000"))
        arguments = ["exec", container.id, "sh", "-c", SPOIL]
    with log.open("a") as file:
        assert call(runtime, *arguments, stdout=file, stderr=file) == 0
    assert log.read_text() == "of the host\nsaid\n" and log.stat().st_mode & 0o777 == 0o600


def test_the_callers_terminal_after_the_end(runtime, bundle):
    """A process that an exec left behind read what the caller typed next, perhaps a password."""
    container = runtime.start(bundle.args("sleep", "1000"))
    master, terminal = pty.openpty()
    try:
        script = 'exec 3<&0; (read x <&3; echo "got $x" > /typed) > /dev/null 2>&1 & exit 0'
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
        assert call(runtime, "exec", container.id, "sh", "-c", script, **streams) == 0
        os.write(master, b"password\n")
        typed = bundle.rootfs / "typed"
        wait_for(lambda: typed.exists() and typed.read_text(), "the process still waits for input")
        assert typed.read_text() == "got \n"
    finally:
        os.close(master)
        os.close(terminal)


def test_input_output_and_error(runtime, bundle, tmp_path):
    """More than pipes hold, by files and by pipes."""
    container = runtime.start(bundle.args("sleep", "1000"))
    text = "".join(f"{number}\n" for number in range(60_000))
    (tmp_path / "in").write_text(text)
    script = "cat; echo problem >&2; exit 3"
    exec_it = words(runtime, "exec", container.id, "sh", "-c", script)
    piped = subprocess.run(exec_it, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (piped.returncode, piped.stderr, piped.stdout == text) == (3, "problem\n", True)
    with (
        (tmp_path / "in").open() as source,
        (tmp_path / "out").open("w") as out,
        (tmp_path / "err").open("w") as err,
    ):
        assert call(runtime, *exec_it[3:], stdin=source, stdout=out, stderr=err) == 3
    assert (tmp_path / "out").read_text() == text and (tmp_path / "err").read_text() == "problem\n"


@KRUN_ONLY
def test_output_and_error_in_one_file_keep_their_order(runtime, bundle, tmp_path):
    container = runtime.start(bundle.args("sleep", "1000"))
    script = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done"
    with (tmp_path / "both").open("w") as both:
        assert call(runtime, "exec", container.id, "sh", "-c", script, stdout=both, stderr=both) == 0
    assert (tmp_path / "both").read_text().split("\n")[:4] == ["out 1", "err 1", "out 2", "err 2"]


@KRUN_ONLY
@pytest.mark.parametrize("terminal", [False, True])
def test_a_reader_that_goes_away(runtime, bundle, terminal):
    """krun waited for ever for a chance to write what nobody reads, when the program on a terminal had ended."""
    container = runtime.start(bundle.args("sleep", "1000"))
    reader, writer = os.pipe()
    os.close(reader)
    script = "echo one; sleep 0.3; echo two; sleep 0.3; exit 7"
    options = ["--tty"] if terminal else []
    try:
        assert call(runtime, "exec", *options, container.id, "sh", "-c", script, stdout=writer) in (7, 141)
        if not terminal:
            assert call(runtime, "exec", container.id, "yes", stdout=writer) == 141
    finally:
        os.close(writer)


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_a_pipe_of_the_user_and_of_its_group(runtime, bundle):
    """As with crun; with runc the group stays the caller's."""
    bundle.process["user"] = {"uid": 1000, "gid": 1001}
    done = runtime.run(bundle.shell("stat -L -c %u:%g /proc/self/fd/1 /proc/self/fd/2")).ok()
    assert done.out == "1000:1001\n1000:1001\n"

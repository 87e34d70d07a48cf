"""process.terminal: the console socket, run on a terminal, exec -t."""

import array
import fcntl
import os
import pty
import select
import socket
import subprocess
import time
from pathlib import Path

import pytest
from helpers.runtime import SLOW, wait_for


class Console:
    """The socket that an engine listens on; receives the terminal's master."""

    def __init__(self, path):
        self.path = str(path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(1)
        self.listener.settimeout(20)
        self.master = -1

    def accept(self):
        connection, _ = self.listener.accept()
        fds = array.array("i")
        _, ancillary, _, _ = connection.recvmsg(4096, socket.CMSG_LEN(fds.itemsize))
        for _, _, data in ancillary:
            fds.frombytes(data[: fds.itemsize])
        self.master = fds[0]
        connection.close()

    def close(self):
        self.listener.close()
        if self.master >= 0:
            os.close(self.master)


def read_until(fd, words, seconds=20 * SLOW):
    """Read a terminal until `words` came, or its other side was closed."""
    data, end = b"", time.monotonic() + seconds
    while words not in data and time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                piece = os.read(fd, 4096)
            except OSError:
                break
            if not piece:
                break
            data += piece
    assert words in data, data
    return data


@pytest.fixture
def console(tmp_path):
    # A socket's path has at most 107 bytes.
    path = f"/tmp/kt-{os.getpid()}-{time.monotonic_ns()}.sock"
    console = Console(path)
    yield console
    console.close()
    os.unlink(path)


def test_console_socket(runtime, bundle, console):
    bundle.process["terminal"] = True
    container = runtime.create(
        bundle.shell("tty; echo type:; read a; echo got $a; exit 6"), "--console-socket", console.path
    )
    console.accept()
    container.call("start").ok()
    seen = read_until(console.master, b"type:")
    assert b"/dev/pts/0" in seen or b"/dev/console" in seen
    os.write(console.master, b"words\n")
    read_until(console.master, b"got words")
    assert container.wait() == 6


def test_console_is_the_controlling_terminal(runtime, bundle, console):
    bundle.process["terminal"] = True
    script = "trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.05; done"
    container = runtime.create(bundle.shell(script), "--console-socket", console.path)
    console.accept()
    container.call("start").ok()
    read_until(console.master, b"ready")
    os.write(console.master, b"\x03")
    read_until(console.master, b"interrupted")
    assert container.wait() == 4


def test_console_size(runtime, bundle, console):
    bundle.process["terminal"] = True
    bundle.process["consoleSize"] = {"height": 33, "width": 99}
    container = runtime.create(bundle.args("stty", "size"), "--console-socket", console.path)
    console.accept()
    container.call("start").ok()
    read_until(console.master, b"33 99")
    container.wait()


def test_dev_console(runtime, bundle, console):
    bundle.process["terminal"] = True
    container = runtime.create(
        bundle.shell("echo hi >/dev/console; test -c /dev/console && echo yes"),
        "--console-socket",
        console.path,
    )
    console.accept()
    container.call("start").ok()
    read_until(console.master, b"yes")
    container.wait()


def test_terminal_needs_a_console_socket(runtime, bundle):
    bundle.process["terminal"] = True
    done = runtime.new(bundle).create()
    assert done.status == 1 and "console" in done.err, done


def test_console_socket_needs_a_terminal(runtime, bundle, console):
    done = runtime.new(bundle).create("--console-socket", console.path)
    assert done.status == 1 and "console" in done.err, done


def spawn_on_terminal(argv, environment, output=None):
    master, slave = pty.openpty()
    process = subprocess.Popen(
        argv, stdin=slave, stdout=output or slave, stderr=slave, env=environment, start_new_session=True
    )
    os.close(slave)
    return process, master


def test_run_on_a_terminal(runtime, bundle):
    bundle.process["terminal"] = True
    container = runtime.new(bundle.shell("test -t 0 && test -t 1 && echo both; read a; echo got $a; exit 5"))
    argv = container.argv("run")
    process, master = spawn_on_terminal(argv, runtime.environment)
    read_until(master, b"both")
    os.write(master, b"line\n")
    read_until(master, b"got line")
    assert process.wait(20 * SLOW) == 5
    os.close(master)


@pytest.mark.parametrize("verb", ["run", "exec"])
def test_lines_end_with_lf_alone(runtime, bundle, verb):
    """Output that goes to a file is what the program wrote (runc: ClearONLCR); on a terminal its own settings add the CR."""
    # runc's exec sets the mode while the program runs already.
    script = "until stty -a 2>/dev/null | grep -q -- -onlcr; do sleep 0.05; done; echo without; stty onlcr; echo with"
    if verb == "run":
        bundle.process["terminal"] = True
        argv = runtime.new(bundle.shell(script)).argv("run")
    else:
        running = runtime.start(bundle.args("sleep", "1000"))
        base = [str(runtime.path), "--root", str(runtime.root), "exec", "--tty", running.id]
        argv = [*base, "sh", "-c", script]
    with open(runtime.work / "lines", "w+b") as output:
        process, master = spawn_on_terminal(argv, runtime.environment, output)
        assert process.wait(20 * SLOW) == 0
        os.close(master)
        output.seek(0)
        assert output.read() == b"without\nwith\r\n"
    if verb == "run":
        argv = runtime.new(bundle.shell("echo line")).argv("run")
    process, master = spawn_on_terminal(argv, runtime.environment)
    read_until(master, b"line\r\n" if verb == "run" else b"without\r\n")
    assert process.wait(20 * SLOW) == 0
    os.close(master)


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
@pytest.mark.parametrize("ends", [False, True])
def test_a_reader_that_stops(runtime, bundle, ends):
    """Whoever reads krun's output stops reading and does not close it: krun hears SIGTERM before and after the program's end.
    Only krun: runc waits for the reader."""
    bundle.process["terminal"] = True
    rest = "sleep 1; exit 3" if ends else "sleep 1000 & wait"
    container = runtime.new(bundle.shell(f"trap 'exit 3' TERM; head -c 300000 /dev/zero & {rest}"))
    reader, end = os.pipe()
    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, 4096)
    with subprocess.Popen(container.argv("run"), stdin=subprocess.DEVNULL, stdout=end) as process:
        try:
            wait_for(lambda: not select.select([], [end], [], 0)[1], "the pipe is not full")
            time.sleep(0.3)  # and krun has more for it
            if ends:
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
                wait_for(lambda: not children.read_text(), "krun has not collected the program")
            assert process.poll() is None
        finally:
            process.terminate()
            try:
                assert process.wait(20 * SLOW) == 3
            finally:
                process.kill()
                os.close(reader)
                os.close(end)


def test_exec_on_a_terminal(running):
    runtime = running.runtime
    argv = [
        str(runtime.path),
        "--root",
        str(runtime.root),
        "exec",
        "--tty",
        running.id,
        "sh",
        "-c",
        "tty; exit 3",
    ]
    process, master = spawn_on_terminal(argv, runtime.environment)
    read_until(master, b"/dev/pts/")
    assert process.wait(20 * SLOW) == 3
    os.close(master)


def test_exec_with_a_console_socket(running, console):
    options = (
        "--tty",
        "--detach",
        "--console-socket",
        console.path,
        "--pid-file",
        str(running.runtime.work / "p"),
    )
    running.exec("sh", "-c", "read a; echo got $a; exit 2", options=options).ok()
    console.accept()
    os.write(console.master, b"abc\n")
    read_until(console.master, b"got abc")
    _, status = os.waitpid(int((running.runtime.work / "p").read_text()), 0)
    assert os.waitstatus_to_exitcode(status) == 2


PLANTED = """
import os, sys
sys.path.insert(0, {tree!r})
from krun.oci.console import open_pty
from krun.oci.steps import Context
root = {root!r}
def mount(*words):
    assert os.spawnlp(os.P_WAIT, "mount", "mount", *words) == 0
os.makedirs(root + "/dev/pts")
mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666", "devpts", root + "/dev/pts")
place = os.open(root, os.O_PATH | os.O_DIRECTORY)
proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
mount("-t", "tmpfs", "tmpfs", "/proc")
if {planted}:
    os.makedirs("/proc/self/fd")
    for number in range(3, 40):
        os.symlink("/dev/pts/ptmx", f"/proc/self/fd/{{number}}")
ctx = Context(None, None, "x")
ctx.root, ctx.proc = place, proc
master, slave, name = open_pty(ctx, 0, None, None)
there = os.stat(root + "/dev/pts/ptmx")
print(name, os.path.samestat(os.fstat(master), there), os.fstat(slave).st_dev == there.st_dev)
"""


@pytest.mark.parametrize("planted", [True, False])
def test_the_terminal_is_of_the_containers_devpts_whatever_proc_says(tmp_path, planted, as_root):
    """A /proc of the container's own making names another ptmx (here the host's)."""
    tree = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    script = PLANTED.format(tree=tree, root=str(tmp_path / "root"), planted=planted)
    done = subprocess.run(
        ["unshare", "--mount", "/usr/bin/python3", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "/dev/pts/0 True True\n", done

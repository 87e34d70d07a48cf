"""Calls completed inside the guest (docs/calls.md): the administrator's switch, the annotation, the counters."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.settings import complete_calls

from krun.kvm import board

pytestmark = pytest.mark.parametrize("runtime", ["krun"], indirect=True)
CALLS = 5000
PVM = Path("/sys/module/kvm_pvm").is_dir()
ROOT = Path(__file__).resolve().parent.parent.parent


ECHOES = 2000
ECHO = f"""
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {{
    struct sockaddr_in a = {{.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM, 0), e = epoll_create1(0), c;
    char b[64];
    if (bind(l, (void *)&a, n) || listen(l, 8) || getsockname(l, (void *)&a, &n))
        return 1;
    if (fork() == 0) {{
        c = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c, (void *)&a, n))
            _exit(2);
        for (int i = 0; i < {ECHOES}; i++)
            if (write(c, "question", 8) != 8 || recv(c, b, 8, MSG_WAITALL) != 8)
                _exit(3);
        _exit(0);
    }}
    c = accept4(l, 0, 0, SOCK_NONBLOCK);
    struct epoll_event v = {{.events = EPOLLIN, .data.fd = c}};
    epoll_ctl(e, EPOLL_CTL_ADD, c, &v);
    for (int got = 0; epoll_wait(e, &v, 1, -1) == 1 && (got = read(c, b, sizeof b)) > 0;)
        if (write(c, b, got) != got)
            return 4;
    int status;
    return wait(&status) < 0 || status;
}}
"""


SAMPLES = f"""
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
int main(void) {{
    char c;
    int s = socket(AF_INET, SOCK_STREAM, 0), f = open("/dev/zero", O_RDONLY);
    for (int i = 0; i < {CALLS}; i++)
        if (getpid() != getpid() || read(f, &c, 1) != 1)
            return 1;
    return s < 0;
}}
"""


#: Serves files of its own to a child of its own. The path is the program's.
FILES = ECHO.replace(
    "#include <sys/socket.h>",
    "#include <fcntl.h>\n#include <sys/sendfile.h>\n#include <sys/socket.h>\n#include <sys/stat.h>",
).replace(
    "        if (write(c, b, got) != got)\n            return 4;\n",
    """    {
        struct stat st;
        off_t at = 0;
        int f = open("/tmp/file", O_RDONLY);
        if (f < 0 || fstat(f, &st) || st.st_size != 8 || sendfile(c, f, &at, 8) != 8 || at != 8 || close(f))
            return 4;
    }
""",
)


CONNECTIONS = 400
#: A server with a connection for each request: the calls of gunicorn's worker for one.
ACCEPTS = f"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
int main(void) {{
    struct sockaddr_in a = {{.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM, 0), c, off = 0;
    char b[64];
    if (bind(l, (void *)&a, n) || listen(l, 64) || getsockname(l, (void *)&a, &n))
        return 1;
    dprintf(1, "%d\\n", ntohs(a.sin_port));
    for (int i = 0; i < {CONNECTIONS}; i++) {{
        if ((c = accept4(l, 0, 0, SOCK_CLOEXEC)) < 0 || getsockname(c, (void *)&a, &n) || ioctl(c, FIONBIO, &off))
            return 2;
        if (fcntl(c, F_GETFD) != FD_CLOEXEC || fcntl(c, F_SETFD, FD_CLOEXEC) || recv(c, b, sizeof b, 0) != 8)
            return 3;
        if (getsockname(l, (void *)&a, &n) || send(c, "head", 4, 0) != 4 || send(c, "body", 4, 0) != 4 || close(c))
            return 4;
    }}
    return 0;
}}
"""
DIRECT = """
import sys
from krun.kvm import boot, direct
direct.exec_monitor(sys.argv[2], sys.argv[2:], boot.FLAG_LOCAL | boot.FLAG_SOCKETS, board_fd=int(sys.argv[1]))
"""


def wait_for_end(client):
    got = b""
    while more := client.recv(100):
        got += more
    client.close()
    return got


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    (folder / "calls.c").write_text(f"""
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {{
    for (int i = 0; i < {CALLS}; i++)
        if (syscall(SYS_getpid) != getpid())
            return 1;
    return 0;
}}
""")
    subprocess.run(["gcc", "-O1", "-static", "-o", folder / "calls", folder / "calls.c"], check=True)
    return folder / "calls"


def counts(container):
    done = container.call("events", options=("--stats",)).ok()
    return json.loads(done.out)["data"]["krun"]["calls"]


def spent(container):
    """Runs the program; returns how many exits and completed calls it took."""
    before = counts(container)
    container.exec("/calls").ok()
    after = counts(container)
    completed = after["completed"]["fact"] - before["completed"]["fact"]
    assert (after["sites"] > before["sites"]) == (after["patched"] > before["patched"]) == (completed > 0)
    return after["exits"] - before["exits"], completed


def start(runtime, bundle, program):
    bundle.mount("/calls", program, "bind", "ro")
    return runtime.start(bundle.args("sleep", "1000"))


@pytest.mark.parametrize("sockets", ["default", "off", "annotation", "lowat"])
def test_sockets(runtime, bundle, program, sockets):
    """Most reads of a server's connection and most sends are completed, unless somebody says no: then a turn of its loop is one
    exit. None in ring 0; no sends where the kernel may take less than there is room for (tcp_notsent_lowat)."""
    complete_calls(runtime, "local: on, sockets: off" if sockets == "off" else "local: on")
    if sockets == "annotation":
        bundle.config["annotations"] = {"io.krun.calls.sockets": "off"}
    if sockets == "lowat":
        bundle.linux["sysctl"] = {"net.ipv4.tcp_notsent_lowat": "16384"}
    folder = program.parent
    (folder / "echo.c").write_text(ECHO)
    subprocess.run(["gcc", "-O1", "-static", "-o", folder / "echo", folder / "echo.c"], check=True)
    bundle.mount("/echo", folder / "echo", "bind", "ro")
    container = start(runtime, bundle, program)
    before = counts(container)
    container.exec("/echo").ok()
    after = counts(container)
    for way in ("read", "queue"):
        completed = after["completed"][way] - before["completed"][way]
        wanted = PVM and (sockets == "default" or (sockets, way) == ("lowat", "read"))
        assert completed > ECHOES * 0.9 if wanted else completed == 0


def test_files(runtime, bundle, program):
    """A server of files: fstat, sendfile and close are completed, so that a request is little more than the exit of its open."""
    complete_calls(runtime, "local: on, sockets: on")
    folder = program.parent
    assert "sendfile(c, f" in FILES
    (folder / "files.c").write_text(FILES)
    subprocess.run(["gcc", "-O1", "-static", "-o", folder / "files", folder / "files.c"], check=True)
    bundle.mount("/files", folder / "files", "bind", "ro")
    container = start(runtime, bundle, program)
    container.exec("/bin/sh", "-c", "mkdir -p /tmp; echo -n 12345678 >/tmp/file").ok()
    before = counts(container)
    container.exec("/files").ok()
    after = counts(container)
    completed = after["completed"]["file"] - before["completed"]["file"]
    assert completed > ECHOES * 3 * 0.8 if PVM else completed == 0


def test_accepts(runtime, program):
    """A server with a connection for each request makes an exit for its accept, and none for the other nine calls. Its clients run natively,
    so all exits are the server's."""
    folder = program.parent
    (folder / "accepts.c").write_text(ACCEPTS)
    subprocess.run(["gcc", "-O1", "-static", "-o", folder / "accepts", folder / "accepts.c"], check=True)
    path = folder / "accepts.board"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    board.fill(fd)
    command = [sys.executable, "-c", DIRECT, str(fd), os.fspath(folder / "accepts")]
    server = subprocess.Popen(command, pass_fds=[fd], stdout=subprocess.PIPE, cwd=ROOT)
    os.close(fd)
    port = int(server.stdout.readline())
    for _ in range(CONNECTIONS // 20):
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for client in clients:
            client.sendall(b"question")
        assert [wait_for_end(client) for client in clients] == [b"headbody"] * 20
    assert server.wait() == 0
    counters = board.counters(os.fspath(path))
    completed = sum(counters[board.COMPLETED + way] for way in board.WAYS.values())
    if PVM:
        assert completed > CONNECTIONS * 6 and counters[board.EXITS] <= CONNECTIONS * 4
    else:
        assert completed == 0


def test_reads_of_files_leave_the_samples(runtime, bundle, program):
    """A thread with a TCP socket reads files, too: the places of its other calls are found and patched all the same."""
    complete_calls(runtime, "local: on, sockets: on")
    folder = program.parent
    (folder / "samples.c").write_text(SAMPLES)
    subprocess.run(["gcc", "-O1", "-static", "-o", folder / "samples", folder / "samples.c"], check=True)
    bundle.mount("/samples", folder / "samples", "bind", "ro")
    container = start(runtime, bundle, program)
    before = counts(container)
    container.exec("/samples").ok()
    assert (counts(container)["patched"] > before["patched"]) == PVM


def all_exits(container):
    exits, completed = spent(container)
    return exits >= 2 * CALLS and completed == 0


def few_exits(container):
    exits, completed = spent(container)
    # Interrupts take a call out of the guest now and then: how often depends on the load.
    return completed > CALLS and exits + completed >= 2 * CALLS


def test_auto_is_the_default(runtime, bundle, program):
    container = start(runtime, bundle, program)
    assert few_exits(container) if PVM else all_exits(container)


@pytest.mark.parametrize("word", ["on", "auto"])
def test_the_switch(runtime, bundle, program, word):
    """An exec goes by the configuration of its own moment. Where a system call enters ring 0 of the guest nothing is completed."""
    complete_calls(runtime, f"local: {word}")
    container = start(runtime, bundle, program)
    assert few_exits(container) if PVM else all_exits(container)
    complete_calls(runtime, "local: off")
    assert all_exits(container)


def test_the_annotation_takes_away(runtime, bundle, program):
    complete_calls(runtime, "local: on")
    bundle.config["annotations"] = {"io.krun.calls.local": "off"}
    assert all_exits(start(runtime, bundle, program))


def test_the_trace_is_complete(runtime, bundle, program):
    complete_calls(runtime, "local: on")
    container = start(runtime, bundle, program)
    log = runtime.work / "trace"
    done = container.exec("/calls", options=("--trace", os.fspath(log)))
    assert done.status == 0 and log.read_text().count("getpid()") >= 2 * CALLS

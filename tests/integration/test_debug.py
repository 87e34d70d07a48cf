"""`krun debug`: what the threads of a container do; nothing in it notices."""

import json
import os
import signal
import subprocess

import pytest
from helpers.runtime import wait_for

from krun.oci.state import process_fields

pytestmark = pytest.mark.parametrize("runtime", ["krun"], indirect=True)

#: Threads that spin, read a pipe, sleep for a second, wait in epoll; the first one reports on SIGUSR1 whether a call ended early or a
#: signal came.
PROGRAM = """
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long spins;
static volatile int signals, early, naps;
static int fds[2];
static void caught(int sig) { (void)sig; signals++; }
static void *spin(void *p) { pthread_setname_np(pthread_self(), "spin"); for (;;) spins++; return p; }
static void *reader(void *p) {
    char c;
    pthread_setname_np(pthread_self(), "reader");
    if (read(fds[0], &c, 1)) early++;
    return p;
}
static void *waiter(void *p) {
    struct epoll_event e;
    pthread_setname_np(pthread_self(), "waiter");
    int fd = epoll_create1(0);
    for (;;) if (epoll_wait(fd, &e, 1, -1) < 0) early++;
    return p;
}
static void *napper(void *p) {
    pthread_setname_np(pthread_self(), "napper");
    for (;;) {
        struct timespec t = {0, 50000000};
        if (nanosleep(&t, 0)) early++;
        naps++;
    }
    return p;
}
int main(void) {
    pthread_t t;
    sigset_t usr1;
    if (pipe(fds)) return 1;
    struct sigaction a = {.sa_handler = caught};
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, 0);
    for (int sig = 1; sig < 32; sig++)
        if (sig != SIGUSR1 && sig != SIGKILL && sig != SIGSTOP) sigaction(sig, &a, 0);
    void *(*const all[])(void *) = {spin, reader, waiter, napper};
    for (int i = 0; i < 4; i++) pthread_create(&t, 0, all[i], 0);
    for (;;) {
        int sig;
        sigwait(&usr1, &sig);
        printf("signals %d early %d\\n", signals, early);
        fflush(stdout);
    }
}
"""


@pytest.fixture
def container(runtime, bundle, tmp_path):
    (tmp_path / "p.c").write_text(PROGRAM)
    options = ["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-static", "-pthread"]
    subprocess.run(["gcc", *options, "-o", bundle.rootfs / "bin" / "p", tmp_path / "p.c"], check=True)
    return runtime.start(bundle.args("sh", "-c", "p >/out; exit 0"))


def look(container):
    return json.loads(container.call("debug", options=("--json",)).ok().out)


def program(container):
    """The threads of the program by name, once each is where it stays."""
    found = [one for process in look(container) if process["command"] == ["p"] for one in process["threads"]]
    threads = {one["name"]: one for one in found}
    calls = {name: one["call"] and one["call"]["name"] for name, one in threads.items()}
    there = {"spin": None, "reader": "read", "waiter": "epoll_wait", "p": "rt_sigtimedwait"}
    return threads if len(found) == 5 and calls.items() >= there.items() else None


def test_threads(container):
    threads = wait_for(lambda: program(container), "the threads")
    spin = threads["spin"]
    assert spin["registersAre"] == "current" and "/bin/p+" in spin["backtrace"][0]["in"]
    assert spin["registers"]["rip"] == spin["backtrace"][0]["address"]
    read = threads["reader"]
    assert read["call"]["args"][0] == "3" and read["call"]["args"][2] == "1" and read["call"]["number"] == 0
    assert read["call"]["descriptor"].startswith("pipe:[") and "pipe" in read["wait"]
    assert read["registers"]["rdi"] == "0x3" and len(read["stack"]) == 32
    assert len(read["backtrace"]) >= 2 and all("/bin/p+" in frame["in"] for frame in read["backtrace"])
    # The spinning thread's registers are those of now, not of its last exit.
    first = spin["registers"]["rax"]
    wait_for(lambda: program(container)["spin"]["registers"]["rax"] != first, "other registers")
    shell = next(process for process in look(container) if process["pid"] == 1)
    assert shell["threads"][0]["call"]["name"] == "wait4"
    text = container.call("debug").ok().out
    assert (
        "process 1 (on the host " in text
        and ": in read(3, 0x" in text
        and ": in the guest; R (running)" in text
    )
    assert "registers, current:" in text and " rip 0x" in text


def test_nothing_is_disturbed(container, bundle):
    wait_for(lambda: program(container), "the threads")
    for _ in range(20):
        look(container)
    (process,) = [process for process in look(container) if process["command"] == ["p"]]
    os.kill(process["hostPid"], signal.SIGUSR1)
    out = bundle.rootfs / "out"
    assert wait_for(out.read_text, "the report") == "signals 0 early 0\n"
    assert program(container)


def test_a_name_forges_nothing(runtime, bundle, tmp_path):
    """The kernel escapes the line feed of a thread's name and of a file's, and no other line end."""
    (tmp_path / "n.c").write_text(
        "#include <fcntl.h>\n#include <sys/mman.h>\n#include <sys/prctl.h>\n#include <unistd.h>\nint main(void) {\n"
        'int fd = open("/x\\r10000-7ffffffff000 r-xp 00000000 00:01 7 \\v", O_RDWR | O_CREAT, 0600);\n'
        "if (ftruncate(fd, 4096) || mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED) return 1;\n"
        'prctl(PR_SET_NAME, "a\\vNSpid:\\t777");\n'
        'if (!fork()) prctl(PR_SET_NAME, "b\\rNStgid:\\t77");\n'
        'open("/ready", O_CREAT, 0600); for (;;) pause(); }\n'
    )
    subprocess.run(["gcc", "-O1", "-static", "-o", bundle.rootfs / "bin" / "n", tmp_path / "n.c"], check=True)
    container = runtime.start(bundle.args("n"))
    names = ["a?NSpid:?777", "b?NStgid:?77"]
    found = wait_for(lambda: str(look(container)).count("77'") == 2 and look(container), "both processes")
    assert [[t["name"] for t in p["threads"]] for p in found] == [[name] for name in names]
    assert found[0]["pid"] == 1 and all(p["pid"] == p["threads"][0]["tid"] < 77 for p in found)


def test_states(runtime, bundle, container):
    threads = wait_for(lambda: program(container), "the threads")
    container.call("pause").ok()
    spin = program(container)["spin"]
    assert spin["registersAre"] == "those of its last exit" and spin["hostTid"] == threads["spin"]["hostTid"]
    container.call("resume").ok()
    created = runtime.create(bundle.args("sleep", "1000"))
    assert [one["registersAre"] for process in look(created) for one in process["threads"]] == ["none yet"]
    assert "has not begun" in created.call("debug").ok().out
    created.call("kill", "KILL").ok()
    wait_for(lambda: created.state()["status"] == "stopped", "its end")
    done = created.call("debug")
    assert done.status == 1 and "in the stopped state" in done.err


def test_a_first_thread_that_has_ended(runtime, bundle, tmp_path):
    """It has neither memory nor descriptors any more; the others are shown."""
    (tmp_path / "c.c").write_text(
        "#include <pthread.h>\n#include <unistd.h>\nstatic void *reader(void *p) { read(*(int *)p, p, 1); return p; }\n"
        "int main(void) { static int fds[2]; pthread_t t; if (pipe(fds)) return 1; pthread_create(&t, 0, reader, fds); pthread_exit(0); }\n"
    )
    subprocess.run(
        ["gcc", "-O1", "-static", "-pthread", "-o", bundle.rootfs / "bin" / "c", tmp_path / "c.c"], check=True
    )
    container = runtime.start(bundle.args("c"))

    init = container.state()["pid"]
    wait_for(lambda: process_fields(init)[0] == b"Z", "the end of the first thread")

    def reader():
        (process,) = look(container)
        assert process["command"] == ["c"]
        return [one for one in process["threads"] if one["call"] and one["call"]["name"] == "read"]

    (thread,) = wait_for(reader, "the other thread's call")
    assert thread["hostTid"] != init and thread["call"]["descriptor"].startswith("pipe:[")

"""Who may make, copy or replace a descriptor, and who may execute: what the payload's threads could meet under an ordinary number.

The rules are in krun/native/machine/fdtab.h: what is judged stands in a slot (kr_slot_put), what nobody may see is opened in kr_private or
between kr_fd_hide_begin and kr_fd_hide_end, and numbers are given and replaced by fdtab.c, fdname.c and fdslot.c alone.  A new use of one of these calls is
looked at by those rules and gets its entry here.
"""

import re
from collections import Counter
from pathlib import Path

from krun.native.build_native import MONITOR_FOLDERS

NATIVE = Path(__file__).resolve().parents[2] / "krun" / "native"
FOLDERS = MONITOR_FOLDERS

MAKERS = (
    "dup dup2 dup3 open openat openat2 creat open_by_handle_at open_tree socket socketpair accept accept4 pipe pipe2 memfd_create"
    " eventfd eventfd2 signalfd signalfd4 timerfd_create epoll_create epoll_create1 inotify_init1 pidfd_open pidfd_getfd"
    " execve execveat fork vfork clone clone3 recvmsg"
)
CALL = re.compile(r"__NR_(" + "|".join(MAKERS.split()) + r")\b|\b(F_DUPFD)(?:_CLOEXEC)?\b")

#: Files that name numbers of calls for other ends than making them.
NAMED = {
    "filter/jail.c": "rows and rules of the filter",
    "filter/profile.c": "rows of the filter",
    "process/trace.c": "how a call is written",
    "process/observe.c": "which calls do not return, or return twice",
    "monitor/run.c": "which calls block",
    "machine/window.h": "after which calls a program touches memory",
    "local/sockets.c": "which calls leave a socket read and sent on inside the guest",
    "local/opened.c": "which opens wait for nobody",
    "local/accepted.c": "after which calls what is known of a connection stays true",
    "local/enroll.c": "after which calls a socket is one that is read and sent on inside the guest",
}

#: file -> why it may -> call: how often.
ALLOWED = {
    "machine/fdtab.c": ("gives and replaces numbers, under fdtab_lock; the plug in place of a copy", {"dup3": 3}),
    "machine/fdname.c": ("the same, away from numbers that calls name; a comparison", {"dup2": 1, "dup3": 2, "F_DUPFD": 4}),
    "machine/fdslot.c": ("the same, for fixed numbers and slots", {"dup3": 2, "F_DUPFD": 2, "eventfd2": 1}),
    "sys/fd.c": ("dup2, dup3 for the payload: kr_fd_dup; kr_fd_dup_onto, or of a hidden copy onto a number that is written down",
                 {"dup2": 1, "dup3": 3, "F_DUPFD": 1}),
    "sys/file.c": ("F_DUPFD for the payload: kr_fd_dup", {"F_DUPFD": 2}),
    "sys/self.c": ("pidfd_getfd of the process itself: kr_fd_dup", {"F_DUPFD": 1}),
    "sys/tree.c": ("the payload's result, at the number that it would have had", {"F_DUPFD": 2, "open_tree": 1}),
    "view/answer.c": ("what another monitor is shown: O_PATH, made in a slot", {"openat2": 2}),
    "view/found.c": ("the payload's result; an O_PATH descriptor makes room for it", {"F_DUPFD": 3}),
    "view/found.h": ("the one open of the payload's path", {"openat2": 1}),
    "process/exec.c": ("the monitor's file by KR_EMPTY_PATH", {"execveat": 1}),
    "process/find.c": ("a check that executes nothing; a judged program from its slot", {"execveat": 1, "openat": 1}),
    "process/clone.c": ("the payload's clone, and kr_private's", {"clone3": 1, "clone": 1}),
    "view/ask.c": ("sockets of monitors, hidden as they are made", {"socket": 2, "accept4": 2, "recvmsg": 2}),
    "monitor/main.c": ("a word of an error; the plug, before anything of the payload's runs", {"F_DUPFD": 1, "openat": 1}),
    "process/holder.c": ("texts and listings of processes of the container, in kr_alone", {"openat": 2}),
    "process/hook.c": ("before anything of the payload's runs", {"dup3": 3, "pidfd_open": 1, "pipe2": 2, "clone": 1}),
    "view/owned.c": ("the payload's result: a judged entry of a procfs, from its slot", {"openat2": 1}),
    "view/proctext.c": ("texts that the payload may read", {"pipe2": 1, "memfd_create": 1, "openat2": 1}),
    "view/place.c": ("O_PATH, of what the container's own paths lead to", {"openat2": 1}),
    "sys/path.c": ("O_PATH, or by the number of a slot; names of calls",
                   {"openat2": 1, "openat": 1, "creat": 1, "execve": 1, "execveat": 1}),
    "sys/name.c": ("O_PATH of parents", {"openat2": 1}),
    "sys/cwd.c": ("O_PATH of the working directory", {"open": 1}),
    "sys/open.c": ("the payload's own: to read; or O_PATH, which kr_open_found judges and opens again", {"open_by_handle_at": 2}),
    "sys/pagemap.c": ("the kernel's file of the process itself, in a slot", {"openat2": 1}),
    "sys/event.c": ("the payload's own", {"signalfd4": 1}),
    "sys/socket.c": ("the payload's own", {"socket": 1, "recvmsg": 2}),
    "local/prefetch.c": ("of TCP, without room for control data", {"recvmsg": 1}),
    "local/queue.c": ("a comparison", {"recvmsg": 1}),
    "sys/uevent.c": ("hidden until it has its filter", {"socket": 2, "F_DUPFD": 2}),
    "process/core.c": ("the thread has a descriptor table of its own", {"openat": 2}),
    "process/corefile.c": ("the core file, as core.c", {"openat2": 2}),
    "process/coremem.c": ("as core.c", {"openat": 3}),
}  # fmt: skip

#: file -> why it may close by close(2) itself instead of kr_fd_shut -> how often.
CLOSES = {
    "machine/fdtab.c": ("under fdtab_lock; kr_fd_shut", 9),
    "machine/fdname.c": ("under fdtab_lock", 4),
    "machine/fdslot.c": ("plugs and placeholders, before anything of the payload's runs", 4),
    "process/core.c": ("the thread has a descriptor table of its own", 3),
    "process/corefile.c": ("as core.c", 1),
    "process/coremem.c": ("as core.c", 3),
    "process/holder.c": ("in kr_alone, while a lock is waited for", 4),
    "process/hook.c": ("before anything of the payload's runs", 10),
    "monitor/main.c": ("the boot block's descriptor, before anything of the payload's runs", 1),
    "view/procread.c": ("in kr_private", 2),
    "view/rules.c": ("in kr_private", 1),
    "sys/fd.c": ("close(2) for the payload", 1),
    "sys/name.c": ("a standard descriptor, in kr_alone", 1),
    "sys/path.c": ("a standard descriptor, in kr_alone", 1),
    "sys/unixaddr.c": ("a standard descriptor, in kr_alone", 1),
}  # fmt: skip


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def uses(text: str) -> "Counter[str]":
    return Counter(m[1] or m[2] for m in CALL.finditer(without_comments(text)))


def sources() -> "dict[str, str]":
    return {
        f"{folder}/{path.name}": path.read_text()
        for folder in FOLDERS
        for pattern in ("*.c", "*.h")
        for path in sorted((NATIVE / folder).glob(pattern))
    }


def test_every_maker_of_descriptors_is_listed() -> None:
    """Exactly the uses above, no more and no fewer."""
    found = {name: dict(uses(text)) for name, text in sources().items() if name not in NAMED}
    found = {name: calls for name, calls in found.items() if calls}
    assert found == {name: calls for name, (_, calls) in ALLOWED.items()}


def test_descriptors_are_closed_by_kr_fd_shut() -> None:
    """A thread of the payload may have closed the number meanwhile, and the number may be one of the monitor's: kr_fd_shut looks."""
    text = {name: without_comments(text) for name, text in sources().items() if name not in NAMED}
    found = {name: len(re.findall(r"\w+\(__NR_close\b", t)) for name, t in text.items()}
    assert {n: k for n, k in found.items() if k} == {n: k for n, (_, k) in CLOSES.items()}


#: The holders of hidden descriptors by file: the table keeps their addresses for longer than a task may live.
HOLDERS = {
    "machine/vm.c": ["&vm->fd", "&v->fd"],
    "sys/uevent.c": ["NULL"],
    "view/ask.c": ["&s->fd", "&s->fd"],
    "monitor/main.c": ["passing[i]", "&first_proc.exe_fd"],
}


def test_holders_of_hidden_descriptors() -> None:
    hide = re.compile(r"\bkr_fd_hide(?:_end)?\((?:[^;]*),\s+KR_FD_\w+_DROPS, ([^;]+)\);")
    sources = {
        str(file.relative_to(NATIVE)): file.read_text()
        for folder in FOLDERS
        for file in (NATIVE / folder).glob("*.c")
    }
    found = {name: hide.findall(text) for name, text in sources.items() if hide.search(text)}
    assert found == HOLDERS
    socks = [
        line
        for text in sources.values()
        for line in re.findall(r"^.*\bstruct kr_sock \w+[^)\n]*;$", text, re.M)
    ]
    assert socks and all(line.startswith("static ") for line in socks), socks


def test_the_pattern_sees() -> None:
    text = "kr_sys3(__NR_dup3, a, b, 0); kr_sys3(__NR_fcntl, fd, F_DUPFD_CLOEXEC, 3); /* __NR_openat */ f(__NR_execveat);"
    assert uses(text) == {"dup3": 1, "F_DUPFD": 1, "execveat": 1}


def test_the_kernel_executes_by_constants() -> None:
    """The only execveat that executes has the monitor's file, KR_EMPTY_PATH and AT_EMPTY_PATH; the other one has AT_EXECVE_CHECK."""
    calls = []
    for name in ("process/find.c", "process/exec.c"):
        text = " ".join(without_comments((NATIVE / name).read_text()).split())
        calls += re.findall(r"__NR_execveat, ([^;]*);", text)
    assert len(calls) == 2
    assert " AT_EMPTY_PATH | AT_EXECVE_CHECK)" in calls[0]
    assert calls[1].startswith("(u64)kr_boot.fd_exe, KR_EMPTY_PATH, ") and " AT_EMPTY_PATH, 0)" in calls[1]


def test_numbers_stay_close_on_exec() -> None:
    """Close-on-exec is all that keeps a dynamic number from the next program: kr_fd_call changes it, for what is the payload's at that
    moment; execve does for what it hands on, from its slot."""
    for name, text in sources().items():
        for call in re.findall(r"\w+\((?:[^;()]|\([^()]*\))*\bF_SETFD\b[^;]*;", without_comments(text)):
            assert call.startswith("kr_fd_call(") or (
                name,
                call.count("p->interp") + call.count("p->fd"),
            ) == (
                "process/exec.c",
                1,
            ), f"{name}: {call}"
    rows = (NATIVE / "sys/file.c").read_text(), (NATIVE / "sys/ioctl.c").read_text()
    assert "{2, NUMBER, 0}," in rows[0]
    assert rows[1].index("{0x5450, 0x5451, NUMBER, RAW}") < rows[1].index("{0x5400, 0x54ff, PTR, RAW}")


def test_no_open_by_a_path_of_the_image() -> None:
    """A plain open(2) or openat(2) starts at the monitor's procfs or a judged descriptor, and never names a file of the container."""
    for name, text in sources().items():
        if name in NAMED:
            continue
        for use in re.findall(r"__NR_open(?:at)?, ([^,]*, [^,]*),", without_comments(text)):
            start = " ".join(use.split())
            assert (
                start.startswith("kr_boot.fd_proc, ")
                or start == '".", O_PATH | O_DIRECTORY | O_CLOEXEC'
                or (name, start) == ("sys/path.c", "(u64)(s64)dir, (u64)rel")
            ), f"{name}: {start}"


#: file -> what is opened for writing by a flag in the source -> how often.
WRITES = {
    "process/corefile.c": ("a new file (O_EXCL), never one that was there", 1),
    "sys/path.c": ("truncate: kr_may_write, in a slot", 1),
}


def body(name: str, function: str) -> str:
    """The text of a function, on one line, without comments."""
    text = " ".join(without_comments((NATIVE / name).read_text()).split())
    return re.split(
        r"} (?=static |long |int |#define )",
        text[re.search(rf"\w+ {function}\(struct|\w+ {function}\(int", text).start() :],
    )[0]  # type: ignore[union-attr]


def test_one_rule_for_opens_to_write() -> None:
    """What is opened for writing in place of the payload goes through kr_write_refused (kr_may_write), in a slot or while no other
    thread shares the table: a file of binfmt_misc would replace the monitor at the next execve."""
    opens = {name: without_comments(text) for name, text in sources().items() if name not in NAMED}
    found = {
        n: len(re.findall(r"(?:openat2?|\.flags =)[^;]*\bO_(?:WRONLY|RDWR)\b", t)) for n, t in opens.items()
    }
    assert {n: k for n, k in found.items() if k} == {n: k for n, (_, k) in WRITES.items()}
    found_open, alone = body("view/found.c", "kr_open_found"), body("view/found.c", "kr_found_opened")
    assert (
        found_open.index("kr_slot_put(")
        < found_open.index("kr_write_refused((int)slot")
        < found_open.index("open_passed((int)slot")
    )
    assert found_open.count("open_passed(") == 1
    assert alone.index("why = v == KR_V_PASS ? kr_write_refused((int)fd") < alone.index("KR_V_PASS && !why")
    handle = body("sys/open.c", "handle_for_writing")
    assert (
        handle.count("__NR_open_by_handle_at") == 1
        and "O_PATH | O_CLOEXEC" in handle
        and "kr_open_found(t, fd" in handle
    )
    others = without_comments((NATIVE / "view/found.c").read_text())
    # Itself; open_passed and its open_at_once; a text of another process, read only.
    assert len(re.findall(r"\breopen\(", others)) == 4
    truncate, use = body("sys/path.c", "sys_truncate"), body("sys/path.c", "use")
    assert truncate.index("kr_slot_put(") < truncate.index("truncate_fd(")
    assert body("sys/path.c", "truncate_fd").index("kr_may_write(fd)") < body(
        "sys/path.c", "truncate_fd"
    ).index("O_WRONLY")
    assert use.index("kr_slot_put(") < use.index("kr_may_write((int)fd)") < use.index("kr_call_from(")
    callers = re.findall(r"\buse\(t, __NR_(\w+)", without_comments((NATIVE / "sys/path.c").read_text()))
    assert sorted(callers) == ["acct", "swapoff", "swapon"]


def test_close_is_made_once() -> None:
    """A call by kr_call_intr is made again where a question of another monitor has ended it by EINTR. The number of a close is free by
    then, or another thread's."""
    close = body("sys/fd.c", "sys_close")
    assert "kr_sys1(__NR_close," in close
    assert not re.search(r"kr_(?:forward|call_intr)\(", close)

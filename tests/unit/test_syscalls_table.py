"""The table of system calls (krun/native/table/syscalls.def): complete, consistent, and right about which arguments are pointers."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYS = ROOT / "krun" / "native" / "sys"
TABLE = ROOT / "krun" / "native" / "table"


def generator() -> ModuleType:
    """The script that writes docs/syscalls.md; its parser is the test's, too."""
    spec = importlib.util.spec_from_file_location("gen_syscalls_doc", TABLE / "gen_syscalls_doc.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


ROWS = generator().parse((TABLE / "syscalls.def").read_text())
BY_NAME = {row.name: row for row in ROWS}

#: Kinds that dispatch checks to lie in the window, and those that a handler checks.
POINTERS = {"PTR", "STR", "PATH", "IN", "OUT", "IO", "INV", "OUTV", "IOVEC", "MSGHDR", "MMSG", "RANGE"}
HANDLERS_OWN = {"ARG", "IOVEC", "MSGHDR", "MMSG", "NEWFD"}

#: Positions of the pointers in the kernel's prototypes -> forwarded calls. Written down from the manual pages (and
#: from the kernel for what they lack), not from the table: a pointer that the table takes for a number would reach
#: the host unchecked. RANGE counts as a number here.
PROTOTYPES = {
    "": """
        lseek sched_yield shmget pause alarm getpid shutdown listen semget msgget flock
        fsync fdatasync ftruncate fchdir fchmod fchown umask getuid getgid geteuid
        getegid setpgid getppid getpgrp setsid getpgid
        getsid getpriority setpriority sched_getscheduler
        sched_get_priority_max sched_get_priority_min vhangup sync gettid readahead epoll_create
        fadvise64 ioprio_set ioprio_get inotify_init
        inotify_rm_watch tee sync_file_range timerfd_create eventfd fallocate eventfd2
        epoll_create1 inotify_init1 syncfs membarrier fsmount pidfd_open process_mrelease
        set_mempolicy_home_node
    """,
    "0": """
        pipe uname getcwd sysinfo times
           sethostname setdomainname time mq_unlink pipe2
        getrandom memfd_create futex_wake
    """,
    "1": """
        read write pread64 pwrite64 getitimer semop msgsnd msgrcv
        getrusage syslog getgroups setgroups ustat fstatfs sched_setparam sched_getparam
        sched_rr_get_interval flistxattr fremovexattr
        clock_gettime clock_getres epoll_wait set_mempolicy timerfd_gettime sched_setattr
        sched_getattr lsm_set_self_attr
    """,
    "2": """
        shmctl sendfile msgctl sched_setscheduler sched_setaffinity sched_getaffinity
        pidfd_send_signal
    """,
    "3": """
        socketpair reboot epoll_ctl quotactl_fd
    """,
    "01": """
        nanosleep gettimeofday capget capset
           statmount listmount
        lsm_list_modules
    """,
    "03": """
        mq_open
    """,
    "04": """
        futex_wait
    """,
    "12": """
        setitimer accept getsockname getpeername fsetxattr fgetxattr timer_create mq_getsetattr
         accept4 cachestat lsm_get_self_attr
    """,
    "13": """
        wait4 semtimedop splice copy_file_range
    """,
    "14": """
        mq_timedsend
    """,
    "23": """
        clock_nanosleep migrate_pages timerfd_settime
    """,
    "24": """
        waitid
    """,
    "012": """
        getresuid getresgid add_key request_key getcpu
    """,
    "013": """
        get_mempolicy
    """,
    "134": """
        mq_timedreceive
    """,
    "145": """
        recvfrom
    """,
}


def test_numbers_ascend_and_names_are_unique() -> None:
    numbers = [row.number for row in ROWS]
    assert numbers == sorted(set(numbers))
    assert len(BY_NAME) == len(ROWS)


def test_no_call_is_missing() -> None:
    """Every number of Linux 6.18: 0 to 336 and 424 to 469 without a hole."""
    assert [row.number for row in ROWS] == [*range(337), *range(424, 470)]


def test_numbers_are_those_of_the_header(tmp_path: Path) -> None:
    """The compiler's own header agrees in number and name with all that it has."""
    text = subprocess.run(
        ["gcc", "-E", "-dM", "-include", "asm/unistd.h", "-xc", "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    header = {name: int(nr) for name, nr in re.findall(r"#define __NR_(\w+) (\d+)", text)}
    assert len(header) > 300
    assert {name: BY_NAME[name].number for name in header if name in BY_NAME} == header


def test_refusals_have_reasons() -> None:
    assert [row.name for row in ROWS if row.how.startswith("NO(") and len(row.note) < 10] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row(row: object) -> None:
    """Lengths refer to numbers of the same row, nested structures have handlers."""
    args = row.args  # type: ignore[attr-defined]
    for index, (kind, numbers) in enumerate(args):
        if kind in ("INV", "OUTV", "IOVEC", "MMSG", "RANGE"):
            length = numbers[0]
            assert length < len(args) and length != index
            assert args[length][0] in ("INT", "UINT", "SIZE")
        if kind in HANDLERS_OWN:
            assert not row.how.startswith("FWD")  # type: ignore[attr-defined]


def test_pointers_of_forwarded_calls() -> None:
    expected = {name: positions for positions, names in PROTOTYPES.items() for name in names.split()}
    found = {
        row.name: "".join(str(i) for i, (kind, _) in enumerate(row.args) if kind in POINTERS - {"RANGE"})
        for row in ROWS
        if row.how == "FWD"
    }
    assert found == expected


def test_handlers_exist() -> None:
    """sys_<name>() for every row that names one, and none without a row."""
    text = "\n".join(path.read_text() for path in sorted(SYS.glob("*.c")))
    text += "\n".join(f"long sys_{name}(" for name in re.findall(r"^VECTORED\((\w+)\)", text, flags=re.M))
    defined = set(re.findall(r"\blong sys_(\w+)\(", text)) - {"##name"}
    assert defined - {""} == {row.name for row in ROWS if row.how == "OWN"}


def test_no_path_is_forwarded() -> None:
    """The kernel would walk it with the monitor's rights, magic links included (krun/native/sys/path.h)."""
    paths = [row for row in ROWS if any(kind == "PATH" for kind, _ in row.args)]
    assert len(paths) > 70
    assert [row.name for row in paths if row.how == "FWD"] == []


#: Handlers that make the call on the payload's own pointer to a path only where the kernel reads none: these functions decide it.
PATH_HELPERS = r"kr_path_\w+|kr_names|kr_open\w*|kr_parent_open|kr_readlink|kr_execve|kr_copy_str"


def handlers(text: str) -> dict[str, str]:
    """Name -> body of each sys_ function of a source."""
    found = re.findall(r"^long sys_(\w+)\([^)]*\) \{(?:( [^\n]*\}$)|\n(.*?)^\})", text, re.M | re.S)
    return {name: short or long for name, short, long in found}


def test_handlers_find_their_paths() -> None:
    """A handler of a call with a path reaches one of the helpers, itself or through a function of its own file."""
    missing = []
    sources = {p.name: p.read_text() for p in SYS.glob("*.c")}
    bodies = {name: (file, body) for file, text in sources.items() for name, body in handlers(text).items()}
    for row in ROWS:
        if row.how != "OWN" or not any(kind == "PATH" for kind, _ in row.args):
            continue
        file, body = bodies[row.name]
        seen, todo = set(), [body]
        while todo:
            text = todo.pop()
            if re.search(rf"\b({PATH_HELPERS})\(", text):
                break
            for name in re.findall(r"\b(\w+)\(", text):
                callee = re.search(
                    rf"^static [^;{{]*\b{name}\([^;]*?\) \{{(.*?)^\}}", sources[file], re.M | re.S
                )
                if callee and name not in seen:
                    seen.add(name)
                    todo.append(callee.group(1))
        else:
            missing.append(row.name)
    assert missing == []


#: Call -> positions of the flags that the kernel declares `unsigned long` or `u64` (include/linux/syscalls.h). All other
#: flags are int or unsigned: dispatch cuts them, so that no handler judges bits that the kernel ignores.
LONG_FLAGS = {
    "mmap": "23",
    "mprotect": "2",
    "mremap": "3",
    "clone": "0",
    "mount": "3",
    "remap_file_pages": "24",
    "get_mempolicy": "4",
    "kexec_load": "3",
    "unshare": "0",
    "perf_event_open": "4",
    "fanotify_mark": "2",
    "process_vm_readv": "5",
    "process_vm_writev": "5",
    "kexec_file_load": "4",
    "pkey_mprotect": "2",
    "pkey_alloc": "01",
    "set_mempolicy_home_node": "3",
    "futex_wake": "1",
    "futex_wait": "2",
    "mseal": "2",
}


def test_only_these_flags_have_64_bits() -> None:
    found = {
        row.name: "".join(str(i) for i, (kind, _) in enumerate(row.args) if kind == "HEX")
        for row in ROWS
        if any(kind == "HEX" for kind, _ in row.args)
    }
    assert found == LONG_FLAGS

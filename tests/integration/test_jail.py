"""What a monitor that was taken over can do: system calls made from inside a running monitor (helpers/inject.c), judged by the kernel."""

import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from attacks import profile
from helpers.hostcalls import rows
from helpers.runtime import wait_for
from helpers.seccompagent import Agent, build
from helpers.seccompagent import profile as profile_of

NUMBERS = {name: number for number, (name, _) in rows().items()}
CAPABILITIES = [
    f"CAP_{name}" for name in "CHOWN DAC_OVERRIDE FOWNER SETGID SETUID SETPCAP NET_BIND_SERVICE KILL".split()
]
SIGSYS, EPERM, EBADF, ENOSYS, EINVAL, EFAULT = "killed 31", "-1", "-9", "-38", "-22", "-14"
WINDOW = 0x6A0000000000
KERNEL = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])


def since(release, wanted, before=ENOSYS):
    """What the kernel says from this release of Linux on, and what older ones say."""
    return wanted if release <= KERNEL else before


#: A call, its arguments ("exe" and "kvm": the monitor's own descriptors), what the kernel says whatever the profile is.
JAIL = [
    ("getppid", [], "0"),
    ("execve", [0, 0, 0], SIGSYS),
    ("execveat", [-100, 0, 0, 0, 0], SIGSYS),
    ("execveat", [0, 0x6D0000000000, 0, 0, 0x1000], SIGSYS),
    ("execveat", ["exe", 0, 0, 0, 0x1000], SIGSYS),
    ("execveat", [-1, 0x6D0000000000, 0, 0, 0x11000], since((6, 14), EBADF, EINVAL)),  # AT_EXECVE_CHECK
    ("fork", [], SIGSYS),
    ("ptrace", [16, 1, 0, 0], SIGSYS),
    ("bpf", [0, 0, 0], SIGSYS),
    ("io_uring_setup", [1, 0], SIGSYS),
    ("process_vm_writev", [1, 0, 0, 0, 0, 0], SIGSYS),
    ("pidfd_getfd", [-1, 0, 0], SIGSYS),
    ("seccomp", [1, 0, 0], SIGSYS),
    ("mmap", [0, 4096, 7, 0x22, -1, 0], EPERM),
    ("mmap", [0x7F0000000000, 4096, 3, 0x32, -1, 0], EPERM),
    ("mmap", [WINDOW - 4096, 8192, 3, 0x32, -1, 0], EPERM),
    ("mremap", [WINDOW, 4096, 4096, 1, 0], EPERM),
    ("mremap", [4096, 4096, 4096, 3, 0x7F0000000000], EPERM),
    ("mprotect", [0x10000, 4096, 5], EPERM),
    ("mprotect", [0x6D0000000000, 4096, 3], EPERM),
    ("personality", [0x400000], EPERM),
    ("prctl", [22, 2, 0, 0, 0], EPERM),
    ("ioctl", ["kvm", 0x4048AE9B, 0], EBADF),  # KVM_SET_GUEST_DEBUG
    ("ioctl", ["kvm", 0x4068AEA3, 0], EBADF),  # KVM_ENABLE_CAP
    ("ioctl", ["kvm", 0xAE00, 0], EBADF),  # KVM_GET_API_VERSION
    ("ioctl", ["kvm", 0xAE03, 9], None),  # KVM_CHECK_EXTENSION
    ("ioctl", ["exe", 0x5451, 0], EBADF),  # FIOCLEX
    ("close", ["kvm"], EBADF),
    ("close", ["exe"], EBADF),
    ("close_range", [0, 0xFFFFFFFF, 0], EBADF),
    ("dup2", [0, "exe"], EBADF),
    ("dup3", [0, "exe", 0], EBADF),
    ("dup3", ["kvm", 50, 0], EBADF),
    ("fcntl", ["kvm", 0, 50], EBADF),
    ("fcntl", ["exe", 2, 1], EBADF),
]

#: Calls that podman's default profile refuses, and what the kernel says of them without it.
PODMAN = [
    ("add_key", [0, 0, 0, 0, 0], EFAULT),
    ("personality", [0x1000000], "0"),
    ("futex_wake", [0, 0, 255, 0], since((6, 7), EINVAL)),
    ("vmsplice", [-1, 0, 0, 0], EBADF),
    ("fchmodat2", [-100, 0, 0, 0], since((6, 6), EFAULT)),
    ("chroot", [0], EFAULT),
    ("ustat", [0, 0], EINVAL),
]
#: The same of a profile that forbids new namespaces, as docker's does.
NAMESPACES = [
    ("unshare", [0], "0"),
    ("setns", [-1, 0], EBADF),
    ("clone", [0x10000200, 0, 0, 0, 0], EINVAL),  # CLONE_NEWUSER | CLONE_FS
    ("clone3", [0, 0], EINVAL),
    ("mount", [0, 0, 0, 0, 0], None),
]
NAMESPACES_PROFILE = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "architectures": ["SCMP_ARCH_X86_64"],
    "syscalls": [
        {"names": ["unshare", "setns", "mount"], "action": "SCMP_ACT_ERRNO"},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        *(
            {
                "names": ["clone"],
                "action": "SCMP_ACT_ERRNO",
                "args": [{"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}],
            }
            for flag in (0x10000000, 0x20000, 0x20000000)
        ),
    ],
}


@pytest.fixture(scope="module")
def inject(tmp_path_factory):
    program = tmp_path_factory.mktemp("inject") / "inject"
    source = Path(__file__).resolve().parents[1] / "helpers" / "inject.c"
    subprocess.run(
        ["gcc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True
    )

    def call(pid, name, args):
        files = {}
        for n in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):  # one of a start that is going on
                files[int(n)] = os.stat(f"/proc/{pid}/fd/{n}")
        kvm, exe = os.stat("/dev/kvm"), os.stat(f"/proc/{pid}/exe")
        numbers = {
            "kvm": next(n for n, f in files.items() if f.st_rdev == kvm.st_rdev),
            "exe": next(n for n, f in files.items() if (f.st_dev, f.st_ino) == (exe.st_dev, exe.st_ino)),
        }
        words = [str(numbers.get(a, a)) for a in args]
        done = subprocess.run(
            [program, str(pid), str(NUMBERS.get(name, name)), *words],
            capture_output=True,
            text=True,
            timeout=20,
        )
        assert done.returncode == 0, (name, args, done)
        return done.stdout.strip()

    return call


def filters(pid):
    """How many seccomp filters the kernel has for a process."""
    found = re.search(r"^Seccomp_filters:\t(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(found.group(1))


def sleepers(container, n):
    """The monitors of the container's programs, one for each call that may end it."""

    def monitors():
        pids = [pid for pid in container.processes() if pid != container.pid]
        return [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text() != "krun-notify\n"]

    wait_for(lambda: len(monitors()) >= n, "not all started")
    return monitors()


def start(runtime, bundle, n):
    """A container with n sleeping programs besides its init."""
    bundle.shell(f"for i in $(seq {n}); do sleep 1000 & done; wait")
    return runtime.start(bundle)


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_the_jail_holds_a_monitor(runtime, bundle, inject):
    container = start(runtime, bundle, len(JAIL))
    found = {}
    for (name, args, wanted), pid in zip(JAIL, sleepers(container, len(JAIL)), strict=True):
        got = inject(pid, name, args)
        if wanted is not None and got != wanted and name != "getppid":
            found[name, str(args)] = (got, wanted)
        if name == "getppid" or wanted is None:
            assert int(got) >= 0, (name, got)
    assert found == {}


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
@pytest.mark.parametrize("profiled", [False, True], ids=["without profile", "with profile"])
@pytest.mark.parametrize("kind", ["podman", "namespaces"])
def test_the_profile_holds_a_monitor(runtime, bundle, inject, kind, profiled):
    """A monitor that was taken over has the calls of a container with this profile; its programs fork as ever."""
    calls = PODMAN if kind == "podman" else NAMESPACES
    if profiled:
        bundle.linux["seccomp"] = profile.default(CAPABILITIES) if kind == "podman" else NAMESPACES_PROFILE
    container = start(runtime, bundle, len(calls))
    assert filters(container.pid) == (2 if profiled else 1)
    for (name, args, wanted), pid in zip(calls, sleepers(container, len(calls)), strict=True):
        got = inject(pid, name, args)
        if profiled:
            assert got in (EPERM, ENOSYS), (name, args, got)
        elif wanted is not None:
            assert got == wanted, (name, args, got)


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_programs_of_exec_are_held_too(runtime, bundle, inject):
    bundle.linux["seccomp"] = profile.default(CAPABILITIES)
    container = runtime.start(bundle.args("sleep", "1000"))
    pid = container.exec_detached("sleep", "1000")
    assert filters(pid) == 2
    assert inject(pid, "chroot", [0]) in (EPERM, ENOSYS)
    assert inject(pid, "execve", [0, 0, 0]) == SIGSYS
    container.call("kill", "KILL")


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_an_agent_holds_a_monitor(runtime, bundle, inject, tmp_path):
    """What the profile gives to an agent, the monitor itself cannot do without it: by no call that serves it, and by no number of
    krun's own (abi/notify.h) but by asking."""
    agent = Agent(build("seccomp_agent.c", tmp_path / "agent"), tmp_path)
    try:
        bundle.linux["seccomp"] = profile_of(agent.path, "mkdir", "mkdirat", "mount", "chroot")
        calls = {
            ("mkdir", 0, 0): EPERM,
            ("mkdirat", 0, 0): EPERM,
            ("mount", 0, 0): EPERM,
            ("chroot", 0, 0): EPERM,
            ("rmdir", 0, 0): EFAULT,
            # A call of the agent's: it lets chroot pass, and reads mkdir's name, which is none.
            (0x10000000 | NUMBERS["chroot"], 0, 0): str(0x8E5E000000000000 - (1 << 64)),
            (0x14000000, 0, 0): SIGSYS,
        }
        container = start(runtime, bundle, len(calls))
        found = {}
        for (name, *args), pid in zip(calls, sleepers(container, len(calls)), strict=True):
            found[name, *args] = inject(pid, name, args)
        assert found == calls
    finally:
        agent.close()

"""From inside a container: /dev/kvm, the monitor's file, descriptors and memory are out of reach."""

import hashlib
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.runtime import DIRECT, ROOT

#: What every runtime must answer; for krun all lines are checked.
WANTED = {
    "open /dev/kvm": "ENOENT",
    "mknod kvm": "EPERM",
    "descriptors": "0 1 2",
    "KVM ioctls": "",
    "/proc/self/fd": "",
    "/proc/1/fd": "",
    "/proc/thread-self/fd": "",
    "/proc/self/environ has KRUN": "no",
    "/proc/1/environ has KRUN": "no",
    "/proc/self/maps has krun": "no",
    "/proc/self/maps has kvm": "no",
    "/proc/self/smaps has kvm": "no",
    "/proc/1/cmdline has monitor": "no",
    "/proc/self/mountinfo has krun-monitor": "no",
    "exe": "/threat",
    "exe is the program": "yes",
    "content of exe is the program's": "yes",
    "write to exe": "ETXTBSY",
    "write to exe by descriptor": "ETXTBSY",
    "readable above the window by a system call": "none",
    "own mem above the window": "refused",
    "own process_vm_readv above the window": "refused",
    "child mem above the window": "refused",
    "child process_vm_readv above the window": "refused",
    "child's monitor by ptrace": "refused",
    "still served": "yes",
}


@pytest.fixture(scope="module")
def threat(tmp_path_factory):
    program = tmp_path_factory.mktemp("threat") / "threat"
    source = Path(__file__).with_name("threat.c")
    subprocess.run(
        ["gcc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True
    )
    return program


@pytest.mark.parametrize("user", ["root", "all capabilities"])
def test_a_hostile_program(runtime, bundle, threat, user):
    (bundle.rootfs / "threat").write_bytes(threat.read_bytes())
    (bundle.rootfs / "threat").chmod(0o755)
    wanted = dict(WANTED)
    if user == "all capabilities":
        names = (
            "CHOWN DAC_OVERRIDE FOWNER SETUID SETGID SYS_ADMIN SYS_PTRACE NET_ADMIN SYS_CHROOT MKNOD".split()
        )
        sets = bundle.process["capabilities"]
        for name in sets:
            sets[name] = [f"CAP_{c}" for c in names]
        # The node can be made, but the cgroup's device rules hold.
        wanted["mknod kvm"] = "done"
        wanted["open made kvm"] = "EPERM"
    before = [hashlib.sha256(p.read_bytes()).digest() for p in monitor_files()]
    done = runtime.run(bundle.args("/threat"))
    assert done.status == 0, done
    answers = dict(line.partition(":")[::2] for line in done.out.splitlines())
    answers = {name: text.strip() for name, text in answers.items()}
    if runtime.name == "runc":
        # Natively there is no monitor to hide: 0x6a00_0000_0000 and above is the program's own stack and heap.
        for name in [n for n in wanted if "above the window" in n or "ptrace" in n]:
            wanted.pop(name)
    else:
        # The program's file is the image's own, and the host does not execute it: writing to it is harmless.
        for name in ("write to exe", "write to exe by descriptor"):
            wanted.pop(name)
    assert {name: answers.get(name) for name in wanted} == wanted
    assert [hashlib.sha256(p.read_bytes()).digest() for p in monitor_files()] == before
    assert not [name for name in answers if name.startswith("process ")], done.out


def monitor_files():
    found = [ROOT / "krun" / "native" / "krun-monitor", ROOT / "build" / "bin" / "krun"]
    return [p for p in found if p.exists()]


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_the_monitor_is_bounded_on_the_host(running):
    """Not dumpable, no new privileges, under a filter of its own."""
    status = Path(f"/proc/{running.pid}/status").read_text()
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert lines["NoNewPrivs"] == "1" and lines["Seccomp"] == "2"


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_the_monitor_only_reads_its_procfs(running):
    """Its handle has none of the container's masks, so it is at least read-only."""
    import os

    handles = []
    for number in os.listdir(f"/proc/{running.pid}/fd"):
        path = f"/proc/{running.pid}/fd/{number}"
        if os.path.isdir(path) and os.path.exists(f"{path}/1/mountinfo"):
            handles.append(path)
    assert len(handles) == 1
    assert os.statvfs(handles[0]).f_flag & os.ST_RDONLY
    with pytest.raises(OSError, match="Read-only file system"):
        os.close(os.open(f"{handles[0]}/1/oom_score_adj", os.O_WRONLY))


def test_without_a_filter_no_payload(tmp_path):
    """A monitor that cannot install its own filter runs nothing: here an outer one forbids it."""
    script = f"""
import ctypes, os, struct, sys
sys.path.insert(0, {str(ROOT)!r})
from krun.kvm import direct
code = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, 317)
code += struct.pack("HBBI", 6, 0, 0, 0x50001) + struct.pack("HBBI", 6, 0, 0, 0x7fff0000)
held = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxQ", 4, ctypes.addressof(held))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0
direct.exec_monitor("/bin/echo", ["echo", "ran"], 0, {str(tmp_path / "log")!r})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 127 and done.stdout == "", done
    assert "installing the monitor's own seccomp filter" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_the_image_never_runs_natively(runtime, bundle):
    """The host process of a payload is the monitor: its executable is not a file of the image."""
    container = runtime.start(bundle.shell("sleep 1000 & sleep 1000; :"))
    from helpers.runtime import wait_for

    wait_for(lambda: len(container.processes()) >= 3, "not all started")
    import os

    for pid in container.processes():
        assert "rootfs" not in os.readlink(f"/proc/{pid}/exe"), pid
        assert "busybox" not in os.readlink(f"/proc/{pid}/exe"), pid


def test_numbers_of_the_monitor_are_refused_and_its_vforks_make_no_threads(tmp_path):
    """docs/limits.md: dup2 onto the monitor's number is EBADF; natively none is."""
    program = tmp_path / "descriptors"
    source = Path(__file__).with_name("descriptors.c")
    subprocess.run(
        ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program, source], check=True
    )
    native = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    assert native == [
        "thread of a vfork child: 0",
        "alone: none refused, most taken, other 0",
        "with a thread: none refused, most taken, other 0",
        "still served: yes",
    ]
    # A limit so high that the monitor's numbers lie below it.
    limit = min(10000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    direct = f"ulimit -S -n {limit}; exec {' '.join(DIRECT)} {program}"
    done = subprocess.run(["sh", "-c", direct], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines() == [
        "thread of a vfork child: EAGAIN",
        "alone: some refused, most taken, other 0",
        "with a thread: some refused, most taken, other 0",
        "still served: yes",
    ]

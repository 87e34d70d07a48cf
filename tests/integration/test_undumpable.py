"""krun's processes are dumpable at no moment on their way to the payload: nobody without CAP_SYS_PTRACE looks into them.

The eyes are a native process (proc_watch.c) of the payload's user, uid 0 with docker's capabilities or another uid without any, in one
pid namespace with krun, and nobody else's processes: the kernel answers it, no monitor. What the attack programs find depends on the
monitor as well.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from helpers.bundle import Bundle
from helpers.engines import remove, short_directory
from helpers.runtime import Runtime, wait_for

#: $1 the eyes with arguments, $2 a command to begin with, the rest: what krun does again and again; says how often that worked.
SCRIPT = """
eyes=$1; $2 >/dev/null; shift 2
$eyes >&2 & watcher=$!
runs=0
while kill -0 $watcher 2>/dev/null; do "$@" >/dev/null && runs=$((runs + 1)); done
wait $watcher; status=$?
echo $runs
exit $status
"""


@pytest.fixture(scope="module")
def eyes(tmp_path_factory):
    program = tmp_path_factory.mktemp("eyes") / "proc_watch"
    source = Path(__file__).with_name("proc_watch.c")
    subprocess.run(
        ["gcc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True
    )
    return program


def watch(eyes, krun: Runtime, *words, first=":", uid=0, name="", seconds=4):
    look = f"{eyes} {seconds} {uid} {name}"
    argv = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", SCRIPT, "sh", look, first]
    argv += [krun.path, "--root", krun.root, *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0, done.stderr


def inside(krun, eyes, pid_file):
    """Returns eyes in the user namespace of the process that `pid_file` names."""
    script = krun.work / "inside"
    program = shutil.copy2(eyes, krun.work / "eyes")
    script.write_text(f'#!/bin/sh\nexec nsenter --user --target "$(cat {pid_file})" {program} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def krun(as_root):
    # Open to the root of a user namespace, which pytest's directory is not.
    work = short_directory("eyes")
    work.chmod(0o711)
    runtime = Runtime("krun", work)
    try:
        yield runtime
    finally:
        runtime.clean()
        remove(work)


def in_spaces(bundle, spaces):
    if spaces == "user":
        bundle.namespaces(add=("user",))
        for kind in ("uidMappings", "gidMappings"):
            bundle.linux[kind] = [{"containerID": 0, "hostID": 100000, "size": 65536}]
    return bundle


@pytest.mark.parametrize("spaces", ["own", "user"])
def test_nobody_looks_into_a_process_on_its_way(krun, eyes, spaces):
    bundle = in_spaces(Bundle(krun.work / "bundle").args("/bin/true"), spaces)
    # Root of the host owns the container's user namespace, and may look at what has become part of that, natively too.
    name = "krun" if spaces == "user" else ""
    watch(eyes, krun, "run", "--bundle", bundle.write(), krun.new(bundle).id, name=name)


def test_nobody_looks_into_the_process_behind_an_id_mapped_mount(krun, eyes, tmp_path):
    """It has a user namespace of its own. Root of the host owns that, and has all capabilities in it, also from within a container."""
    bundle = Bundle(krun.work / "bundle").args("/bin/true")
    # Not below krun.work, which may be a tmpfs: one can be id-mapped since Linux 6.3 only.
    source = tmp_path / "source"
    source.mkdir()
    maps = [{"containerID": 0, "hostID": 1000, "size": 1000}]
    mount = {"type": "bind", "source": str(source), "options": ["rbind", "idmap"]}
    bundle.config["mounts"] += [
        {**mount, "destination": f"/m{n}", "uidMappings": maps, "gidMappings": maps} for n in range(8)
    ]
    watch(eyes, krun, "run", "--bundle", bundle.write(), krun.new(bundle).id, seconds=2)


def test_nobody_looks_into_an_execve_of_the_payload(krun, eyes):
    """The new image of the monitor is undumpable from its first instant; the payload has CAP_DAC_OVERRIDE."""
    loop = "grep ^Cap /proc/self/status; i=0; while [ $i -lt 400 ]; do i=$((i + 1)); /bin/true; done"
    bundle = Bundle(krun.work / "bundle").args("sh", "-c", loop)
    for name in ("bounding", "effective", "permitted"):
        bundle.process["capabilities"][name] += ["CAP_DAC_OVERRIDE"]
    watch(eyes, krun, "run", "--bundle", bundle.write(), krun.new(bundle).id)


def test_nobody_looks_into_an_exec(krun, eyes):
    container = krun.new(Bundle(krun.work / "bundle").args("sleep", "1000"))
    first = f"{krun.path} --root {krun.root} run --detach --bundle {container.bundle.write()} {container.id}"
    watch(eyes, krun, "exec", "--user", "0:0", container.id, "/bin/true", first=first)


@pytest.mark.parametrize("nnp", [False, True])
def test_a_user_does_not_look_into_its_start(krun, eyes, nnp):
    """The monitor's file can be read by whom it is executed for; nevertheless the new image is not dumpable."""
    bundle = Bundle(krun.work / "bundle").args("/bin/true")
    bundle.process["user"] = {"uid": 1000, "gid": 1000}
    bundle.process["noNewPrivileges"] = nnp
    watch(eyes, krun, "run", "--bundle", bundle.write(), krun.new(bundle).id, uid=1000)


@pytest.mark.parametrize("spaces", ["own", "user"])
def test_a_user_does_not_look_into_its_exec(krun, eyes, spaces):
    """In a user namespace only a process of the same one, by the rule of capabilities (cap_ptrace_access_check())."""
    container = krun.new(in_spaces(Bundle(krun.work / "bundle").args("sleep", "1000"), spaces))
    pid_file = krun.work / "pid"
    first = f"{krun.path} --root {krun.root} run --detach --pid-file {pid_file} --bundle {container.bundle.write()} {container.id}"
    if spaces == "user":
        eyes = inside(krun, eyes, pid_file)
    watch(eyes, krun, "exec", "--user", "1000:1000", container.id, "/bin/true", first=first, uid=1000)


@pytest.mark.parametrize("spaces", ["own", "user"])
def test_a_user_does_not_look_into_an_execve_of_the_payload(krun, eyes, spaces):
    """No id changes at an execve of the payload: the rights to the monitor's file alone make the new image undumpable."""
    bundle = in_spaces(Bundle(krun.work / "bundle").args("sh", "-c", "while :; do /bin/true; done"), spaces)
    bundle.process["user"] = {"uid": 1000, "gid": 1000}
    container = krun.new(bundle)
    pid_file = krun.work / "pid"
    first = f"{krun.path} --root {krun.root} run --detach --pid-file {pid_file} --bundle {bundle.write()} {container.id}"
    if spaces == "user":
        eyes = inside(krun, eyes, pid_file)
    watch(eyes, krun, "state", container.id, first=first, uid=1000, seconds=2)


def test_root_of_a_user_namespace_does_not_look_into_an_execve_of_the_payload(krun, eyes):
    """The file is that root's own there, and CAP_DAC_OVERRIDE is put down for the exec."""
    bundle = in_spaces(Bundle(krun.work / "bundle").args("sh", "-c", "while :; do /bin/true; done"), "user")
    for name in ("bounding", "effective", "permitted"):
        bundle.process["capabilities"][name] += ["CAP_DAC_OVERRIDE"]
    container = krun.new(bundle)
    pid_file = krun.work / "pid"
    first = f"{krun.path} --root {krun.root} run --detach --pid-file {pid_file} --bundle {bundle.write()} {container.id}"
    watch(inside(krun, eyes, pid_file), krun, "state", container.id, first=first, seconds=2)


def test_the_monitors_file_belongs_to_the_root_of_the_user_namespace(krun):
    """Of a new namespace, of one that is joined, and for a further process: else /proc/PID would not belong to that root."""
    first = krun.start(in_spaces(Bundle(krun.work / "bundle").args("sleep", "1000"), "user"))
    joined = Bundle(krun.work / "joined").args("sleep", "1000")
    second = krun.start(joined.namespace_path("user", f"/proc/{first.pid}/ns/user"))
    for pid in (first.pid, second.pid, first.exec_detached("sleep", "1000")):
        file, memory = os.stat(f"/proc/{pid}/exe"), os.stat(f"/proc/{pid}/environ")
        # The host's own file must not become that root's, by no mount: a monitor that was taken over could change it.
        assert os.readlink(f"/proc/{pid}/exe").startswith("/memfd:krun-monitor")
        assert (file.st_uid, file.st_gid, file.st_mode & 0o7777) == (100000, 100000, 0o111)
        assert memory.st_uid == 100000


@pytest.mark.parametrize(("value", "owner"), [(1, 0), (2, 65534)])
def test_where_memory_may_not_be_executed(krun, value, owner):
    """vm.memfd_noexec of a pid namespace: 1, only what is meant to be executed may be; 2, not even that."""
    if not Path("/proc/sys/vm/memfd_noexec").exists():
        pytest.skip("Linux before 6.3")
    bundle = in_spaces(Bundle(krun.work / "bundle").args("ls", "-ln", "/proc/self/environ"), "user")
    run = f"{krun.path} --root {krun.root} run --bundle {bundle.write()} {krun.new(bundle).id}"
    script = f"echo {value} >/proc/sys/vm/memfd_noexec && exec {run}"
    argv = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[2:4]) == (0, [str(owner)] * 2), done


@contextlib.contextmanager
def suid_dumpable(value):
    """fs.suid_dumpable is the whole machine's: as short as can be."""
    path = Path("/proc/sys/fs/suid_dumpable")
    before = path.read_text()
    path.write_text(value)
    try:
        yield
    finally:
        path.write_text(before)


def uids(pid):
    return next(
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Uid:")
    )


@pytest.mark.parametrize("value", ["1", "2"])
@pytest.mark.parametrize("runtime", ["runc", "krun"])
def test_a_change_of_ids_with_suid_dumpable(as_root, tmp_path, runtime, value):
    """The kernel makes a process that changes its ids dumpable then: a plain program stays so, a monitor does not."""
    runtime = Runtime(runtime, tmp_path)
    bundle = Bundle(tmp_path / "bundle").args("/ids")
    for name in ("bounding", "effective", "permitted"):
        bundle.process["capabilities"][name] = ["CAP_SETUID", "CAP_SETGID"]
    source = tmp_path / "ids.c"
    source.write_text(
        "#include <unistd.h>\n#include <signal.h>\nstatic void go(int s) { (void)s; }\n"
        "int main(void) { sigset_t none, one; sigemptyset(&none); sigemptyset(&one); sigaddset(&one, SIGUSR1);\n"
        'sigprocmask(SIG_BLOCK, &one, 0); signal(SIGUSR1, go); write(1, "ready", 5); sigsuspend(&none);\n'
        "setgid(1000); setuid(1000); for (;;) pause(); }\n"
    )
    subprocess.run(["gcc", "-static", "-O1", "-w", "-o", bundle.rootfs / "ids", source], check=True)
    look = [
        "setpriv",
        "--reuid=1000",
        "--regid=1000",
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
    ]
    try:
        container = runtime.start(bundle)
        pid = container.pid
        wait_for(lambda: "ready" in container.out(), "it waits")
        with suid_dumpable(value):
            os.kill(pid, signal.SIGUSR1)
            wait_for(lambda: "1000" in uids(pid), "other ids", 2)
        seen = subprocess.run(
            [*look, "readlink", f"/proc/{pid}/exe"], capture_output=True, text=True, check=False
        )
        expected = "/ids\n" if runtime.name == "runc" and value == "1" else ""
        assert seen.stdout == expected, seen
    finally:
        runtime.clean()

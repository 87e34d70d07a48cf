"""Bundles that attack the host while a container is made, used and deleted: docs/security.md has the table of classes.

Whatever krun answers, a tree of canary files outside of the root must keep its contents and metadata. Only krun is run: older runtimes
fall for some of them.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import struct
import subprocess
import threading

import pytest

pytestmark = pytest.mark.parametrize("runtime", ["krun"], indirect=True)


class Canary:
    """A directory of the host and what it looked like."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        (path / "file").write_text("canary\n")
        (path / "secret").write_text("SECRET-OF-THE-HOST\n")
        (path / "secret").chmod(0o600)
        os.chown(path / "file", 4321, 4321)
        (path / "dir").mkdir(mode=0o750)
        (path / "null").write_text("null\n")
        (path / "console").write_text("console\n")
        self.before = self.look()

    def look(self):
        found = {}
        for folder, _, files in sorted(os.walk(self.path)):
            for name in ["", *sorted(files)]:
                path = os.path.join(folder, name)
                st = os.lstat(path)
                text = b""
                if name and os.path.isfile(path):
                    with open(path, "rb") as f:
                        text = f.read()
                found[path] = (
                    oct(st.st_mode),
                    st.st_uid,
                    st.st_gid,
                    st.st_nlink,
                    hashlib.sha256(text).hexdigest(),
                )
        return found


@pytest.fixture
def canary(tmp_path):
    canary = Canary(tmp_path / "canary")
    with open("/proc/sys/kernel/core_pattern") as f:
        pattern = f.read()
    null = os.stat("/dev/null")
    kvm = os.stat("/dev/kvm")
    yield canary
    assert canary.look() == canary.before
    with open("/proc/sys/kernel/core_pattern") as f:
        assert f.read() == pattern
    assert (os.stat("/dev/null").st_mode, os.stat("/dev/null").st_rdev) == (null.st_mode, null.st_rdev)
    after = os.stat("/dev/kvm")
    assert (after.st_mode, after.st_uid, after.st_gid) == (kvm.st_mode, kvm.st_uid, kvm.st_gid)


def replace(path, target):
    """Puts a symbolic link where something was."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(target)


def without(bundle, *destinations):
    bundle.config["mounts"] = [
        m for m in bundle.config["mounts"] if not any(m["destination"].startswith(d) for d in destinations)
    ]
    return bundle


def whole_life(runtime, bundle):
    """create, start, exec, kill, delete as far as they go; all that was said."""
    container = runtime.new(bundle.args("sleep", "1000"))
    said = container.create()
    text = said.err
    if said.status == 0:
        text += container.call("start").err
        text += container.exec("true").err
        container.call("kill", "KILL")
    text += container.call("delete", "--force").err
    return said.status, text


@pytest.mark.parametrize("way", ["absolute", "relative"])
@pytest.mark.parametrize("mounted", [False, True], ids=["no /dev mount", "/dev mounted"])
def test_dev_is_a_link(runtime, bundle, canary, way, mounted):
    """runc CVE-2026-41579, crun CVE-2026-47766."""
    target = canary.path if way == "absolute" else os.path.relpath(canary.path, bundle.rootfs)
    replace(bundle.rootfs / "dev", target)
    if not mounted:
        without(bundle, "/dev")
    whole_life(runtime, bundle)


@pytest.mark.parametrize("name", ["null", "console", "ptmx", "zero", "fd", "pts", "shm"])
def test_links_in_dev_without_a_mount(runtime, bundle, canary, name):
    """CVE-2025-31133, CVE-2025-52565, CVE-2026-88264: no /dev mount, and a link where a node belongs."""
    without(bundle, "/dev")
    replace(bundle.rootfs / "dev" / name, canary.path / name)
    whole_life(runtime, bundle)


def test_masks_are_not_bound_from_the_images_null(runtime, bundle, canary):
    """CVE-2025-31133: /dev/null of the image leads to core_pattern, which then would be writable as a masked path."""
    without(bundle, "/dev")
    replace(bundle.rootfs / "dev" / "null", "/proc/sys/kernel/core_pattern")
    bundle.linux["maskedPaths"] = ["/proc/kcore", "/proc/version", "/etc/passwd"]
    done = runtime.run(
        bundle.shell("cat /proc/version; echo pwned > /proc/version; echo pwned > /etc/passwd; true")
    )
    assert "%" not in done.out and "Linux version" not in done.out


@pytest.mark.parametrize("name", ["proc", "sys"])
def test_proc_and_sys_are_links(runtime, bundle, canary, name):
    """CVE-2019-19921, CVE-2023-27561."""
    replace(bundle.rootfs / name, canary.path)
    status, text = whole_life(runtime, bundle)
    assert status != 0 and text.strip()


@pytest.mark.parametrize("target", ["/", "/sys/../..", "file", "dir"])
def test_mount_destination_is_a_link(runtime, bundle, canary, tmp_path, target):
    """CVE-2018-18837, CVE-2021-30465, CVE-2024-45310: mount points are looked up and made inside of the root only."""
    source = tmp_path / "source"
    source.mkdir()
    out = target if target.startswith("/") else f"{canary.path}/{target}"
    (bundle.rootfs / "out").symlink_to(out)
    (bundle.rootfs / "up").symlink_to("../" * 20 + str(canary.path)[1:])
    for destination in ("/out/a", "/up/b", "/up/dir/c"):
        bundle.mount(destination, source, "bind")
    whole_life(runtime, bundle)
    assert not os.path.exists(f"{canary.path}/b") and not os.path.exists("/a")


def test_race_at_a_mount_destination(runtime, make_bundle, canary, tmp_path):
    """CVE-2021-30465, CVE-2024-45310: another container swaps a directory and a link in a shared volume meanwhile."""
    volume, source = tmp_path / "volume", tmp_path / "source"
    for folder in (volume, source, volume / "a"):
        folder.mkdir()
    (volume / "b").symlink_to("../" * 20 + str(canary.path)[1:])
    (swapper,) = start_swappers(tmp_path, 1, volume / "a", volume / "b")
    try:
        for _ in range(15):
            bundle = make_bundle()
            bundle.mount("/volume", volume, "rbind")
            bundle.mount("/volume/a/made/deep", source, "bind")
            runtime.run(bundle.args("true"))
    finally:
        swapper.kill()
        swapper.wait()


def start_swappers(tmp_path, count, *names):
    """Processes that exchange two names without end."""
    program = tmp_path / "swap"
    subprocess.run(["gcc", "-O1", "-x", "c", "-", "-o", program], input=SWAP, text=True, check=True)
    return [
        subprocess.Popen([program, *(names or (tmp_path / "one", tmp_path / "two"))]) for _ in range(count)
    ]


SWAP = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
int main(int argc, char **argv) {
    for (;;)
        renameat2(AT_FDCWD, argv[1], AT_FDCWD, argv[2], RENAME_EXCHANGE);
}
"""


def test_a_walk_that_is_never_undisturbed(runtime, bundle, tmp_path):
    """openat2(2) answers EAGAIN at each ".." behind a rename on the host: links that take long to follow held `create` for ever."""
    root, last = bundle.rootfs, 39
    slow = root / "slow"
    slow.mkdir()
    (root / f"link{last}").mkdir()
    for number in range(last):
        (root / f"link{number}").symlink_to("/" + "slow/../" * 500 + f"link{number + 1}")
    (tmp_path / "one").touch()
    (tmp_path / "two").touch()
    swappers = start_swappers(tmp_path, 2)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", slow], check=True)
    try:
        # The kernel reads a long list of rights for each name that is looked up in such a directory.
        os.chown(slow, 12345, 12345)
        os.setxattr(slow, "system.posix_acl_access", long_list(8000))
        bundle.mount("/link0", "tmpfs", type="tmpfs")
        said = runtime.run(bundle.args("true"))
    finally:
        subprocess.run(["umount", slow], check=True)
        for one in swappers:
            one.kill()
            one.wait()
    assert said.status == 0 or "resource temporarily unavailable" in said.err


def long_list(entries):
    """An access control list (acl(5)) with the rights of so many users, as the kernel takes it."""
    kinds = [(1, 0xFFFFFFFF), *((2, 5000 + number) for number in range(entries))]
    kinds += [(kind, 0xFFFFFFFF) for kind in (4, 0x10, 0x20)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", kind, 7, owner) for kind, owner in kinds)


@pytest.mark.parametrize("user", [False, True])
def test_a_hosts_file_under_the_name_of_a_device(runtime, bundle, canary, user, request):
    """A link of the host's at a device's name is followed where nodes are bound, and what it leads to is looked at."""
    name = f"/tmp/krun-test-{os.getpid()}-device"  # the root of a user namespace may write to the rootfs's /tmp only
    os.symlink(canary.path / "secret", name)
    request.addfinalizer(lambda: os.unlink(name))
    for folder in canary.path.parents:
        if folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    bundle.linux["devices"] = [{"path": name, "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}]
    if user:
        bundle.namespaces(add=("user",))
        bundle.linux["uidMappings"] = bundle.linux["gidMappings"] = [
            {"containerID": 0, "hostID": 100000, "size": 65536}
        ]
        os.chown(canary.path / "secret", 100000, 0)
        canary.before = canary.look()
    done = runtime.run(bundle.shell(f"cat {name}"))
    assert "SECRET" not in done.out, done
    if user:
        assert "is not character device 1:3" in done.err, done
    else:
        assert done.ok().out == ""


def test_the_node_of_a_bound_device_stays_as_it_is(runtime, bundle):
    """The container's root is the host's, and owns the host's node. runc 1.1 lets it change the node."""
    bundle.namespaces(add=("user",))
    bundle.linux["uidMappings"] = bundle.linux["gidMappings"] = [
        {"containerID": 0, "hostID": 0, "size": 65536}
    ]
    name = f"/dev/krun-test-{os.getpid()}"
    bundle.linux["devices"] = [{"path": name, "type": "c", "major": 1, "minor": 5, "fileMode": 0o666}]
    os.mknod(name, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    try:
        done = runtime.run(
            bundle.shell(
                f"chmod 666 {name}; chown 1:1 {name}; head -c 2 {name} | wc -c; echo x > {name} && echo ok"
            )
        )
        after = os.stat(name)
    finally:
        os.unlink(name)
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (0o600, 0, 0), done
    assert done.out == "2\nok\n" and done.err.count("Read-only file system") == 2, done


def test_cwd_is_a_descriptor(runtime, bundle, canary):
    """CVE-2024-21626: a working directory through a descriptor that somebody forgot to close."""
    for number in range(3, 16):
        bundle.process["cwd"] = f"/proc/self/fd/{number}"
        done = runtime.run(
            bundle.shell("cat ../../../../../../../../../.." + str(canary.path) + "/secret; pwd")
        )
        assert "SECRET" not in done.out, (number, done)
    bundle.process["cwd"] = "/"
    container = runtime.start(bundle.args("sleep", "1000"))
    for number in range(3, 12):
        done = container.exec(
            "cat", "../" * 12 + str(canary.path)[1:] + "/secret", options=("--cwd", f"/proc/self/fd/{number}")
        )
        assert "SECRET" not in done.out, (number, done)


def test_no_descriptor_of_the_caller_gets_in(runtime, bundle, canary):
    """CVE-2016-9962, CVE-2024-21626: whatever the caller has open, run and exec start with 0, 1, 2."""
    held = [
        os.open(canary.path / "secret", os.O_RDONLY),
        os.open("/", os.O_PATH),
        os.open(canary.path, os.O_RDONLY),
    ]
    # Above what the shells of the containers use, wherever this process has room.
    numbers = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in held]
    for fd in numbers:
        os.set_inheritable(fd, True)
    argv = [str(runtime.path), "--root", str(runtime.root)]
    look = f"ls /proc/self/fd | tr '\\n' ' '; cat <&{numbers[0]}"
    try:
        container = runtime.new(bundle.shell(f"{look}; sleep 1000"))
        words = [*argv, "create", "--bundle", str(bundle.write()), container.id]
        with open(container.out_file, "wb") as out:
            subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, close_fds=False, check=True
            )
        subprocess.run([*argv, "start", container.id], close_fds=False, check=True)
        done = subprocess.run(
            [*argv, "exec", container.id, "sh", "-c", look],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            close_fds=False,
        )
        # ls has its own descriptor for the directory
        assert done.stdout.split() == ["0", "1", "2", "3"] and "SECRET" not in done.stdout + done.stderr
        from helpers.runtime import wait_for

        wait_for(lambda: "3" in container.out(), "no list")
        assert container.out().split()[:4] == ["0", "1", "2", "3"] and "SECRET" not in container.out()
        pid = container.state()["pid"]
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(
                FileNotFoundError
            ):  # the monitor's own for a moment: the shell is making its child
                assert str(canary.path) not in os.readlink(f"/proc/{pid}/fd/{fd}")
    finally:
        for fd in held + numbers:
            os.close(fd)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_stdio_that_the_caller_has_closed(runtime, bundle, closed, tmp_path):
    """No file that krun opens gets its number. With runc 1.1.5 the program's standard input is /sys/fs/cgroup of the host."""

    def call(*words):
        argv = ["sh", "-c", f'exec "$@" {closed}', "sh", runtime.path, "--root", runtime.root, *words]
        subprocess.run([str(word) for word in argv], check=True)

    container = runtime.new(bundle.args("sleep", "1000"))
    call("create", "--bundle", bundle.write(), container.id)
    call("start", container.id)
    call("exec", "--detach", "--pid-file", tmp_path / "pid", container.id, "sleep", "1000")
    container.pid = container.state()["pid"]
    container.children.append(int((tmp_path / "pid").read_text()))
    for pid in (container.pid, *container.children):
        for number in range(3):
            info = os.stat(f"/proc/{pid}/fd/{number}")
            if ("<&-", ">&-", "2>&-")[number] in closed.split():
                assert (info.st_rdev, info.st_dev) == (
                    os.makedev(1, 3),
                    os.stat(f"/proc/{pid}/root/dev/null").st_dev,
                )


def test_control_files_in_the_image_mean_nothing(runtime, bundle, canary):
    """crun CVE-2025-24965: nothing is read from, or written into, files of the image that have a runtime's name."""
    names = ".krun_config.json .krun_vm.json krun.json .krun krun-boot .dockerenv run/.containerenv".split()
    (bundle.rootfs / "run").mkdir(exist_ok=True)
    for i, name in enumerate(names):
        replace(bundle.rootfs / name, canary.path / ("file" if i % 2 else "new"))
    status, text = whole_life(runtime, bundle)
    assert status == 0, text
    assert not (canary.path / "new").exists()


def test_annotations_choose_nothing_of_the_hosts(runtime, bundle, canary):
    """Kata CVE-2020-27151, CRI-O CVE-2024-3154: no annotation names a path, a program or a property that is used."""
    path = str(canary.path / "file")
    keys = "krun.kernel krun.monitor run.oci.handler run.oci.hooks.stderr run.oci.systemd.force_cgroup_v1"
    keys += (
        " org.systemd.property.ExecStartPre io.katacontainers.config.hypervisor.path run.oci.seccomp_bpf_file"
    )
    bundle.config["annotations"] = dict.fromkeys(keys.split(), path)
    status, text = whole_life(runtime, bundle)
    assert status == 0, text


@pytest.mark.parametrize(
    "key", ["kernel.shm_rmid_forced=1+kernel.core_pattern", "kernel/core_pattern", "kernel.core_pattern"]
)
def test_sysctl_smuggles_nothing(runtime, bundle, canary, key):
    """CRI-O CVE-2022-0811."""
    bundle.linux["sysctl"] = {key: "|/canary %p"}
    status, _ = whole_life(runtime, bundle)
    assert status != 0


@pytest.mark.parametrize(
    "user", ["1x", " 1", "0x1", "4294967295", "4294967296", "-1", "1:", ":1", "1:2:3", "root", "1e0"]
)
def test_exec_user_is_a_number_or_nothing(runtime, bundle, canary, user):
    """crun CVE-2026-30892, containerd CVE-2024-40635: never root by accident."""
    container = runtime.start(bundle.args("sleep", "1000"))
    done = container.exec("id", "-u", options=(f"--user={user}",))
    assert done.status != 0 or done.out.strip() != "0", done


def test_the_state_directory_is_private_and_no_link(runtime, bundle, canary, tmp_path):
    """containerd CVE-2021-41103, Firecracker CVE-2026-1386."""
    container = runtime.create(bundle.args("true"))
    for path in (runtime.root, runtime.root / container.id):
        assert os.stat(path).st_mode & 0o077 == 0, path
    planted = runtime.new(bundle)
    (runtime.root / planted.id).symlink_to(canary.path / "dir")
    assert planted.create().status != 0
    (runtime.root / planted.id).unlink()


def test_the_root_becomes_a_link_before_delete(runtime, bundle, canary):
    """Kata CVE-2020-2024: nothing is unmounted or removed by a path below the root."""
    container = runtime.start(bundle.args("sleep", "1000"))
    container.call("kill", "KILL")
    container.wait()
    moved = bundle.rootfs.with_name("moved")
    bundle.rootfs.rename(moved)
    bundle.rootfs.symlink_to(canary.path)
    container.call("delete", "--force").ok()


def test_exec_ends_with_its_program(runtime, bundle, canary):
    """CRI-O CVE-2022-1708 and relatives: a child in the background does not keep exec."""
    container = runtime.start(bundle.args("sleep", "1000"))
    ended = threading.Event()
    done = []

    def call():
        done.append(container.exec("sh", "-c", "sleep 1000 >/dev/null 2>&1 </dev/null & echo made"))
        ended.set()

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    assert ended.wait(30) and done[0].out == "made\n"

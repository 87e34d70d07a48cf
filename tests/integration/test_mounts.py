"""mounts[], devices, masked and read-only paths, propagation, as the program sees them."""

import os
import stat
import subprocess
from pathlib import Path

import pytest


def mountinfo(text):
    """/proc/self/mountinfo: mount point -> (options, optional fields, type, source, super options)."""
    table = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        table[fields[4]] = (fields[5].split(","), fields[6:], *right.split())
    return table


def test_bind_of_a_directory(runtime, bundle, tmp_path):
    source = tmp_path / "data"
    source.mkdir()
    (source / "in").write_text("from the host\n")
    bundle.mount("/mnt/here", source, "rbind", "rw")
    done = runtime.run(bundle.shell("cat /mnt/here/in; echo back >/mnt/here/out")).ok()
    assert done.out == "from the host\n" and (source / "out").read_text() == "back\n"


def test_bind_of_a_file(runtime, bundle, tmp_path):
    source = tmp_path / "file"
    source.write_text("content\n")
    bundle.mount("/etc/one/file", source, "bind", "ro")
    done = runtime.run(bundle.shell("cat /etc/one/file; echo x >/etc/one/file"))
    assert done.out == "content\n" and done.status != 0 and "Read-only" in done.err


def test_relative_bind_source_is_in_the_bundle(runtime, bundle):
    (bundle.path / "data").mkdir()
    (bundle.path / "data" / "f").write_text("rel\n")
    assert runtime.run(bundle.mount("/mnt", "data", "bind").args("cat", "/mnt/f")).ok().out == "rel\n"


def test_missing_source(runtime, bundle):
    bundle.mount("/mnt/here", "/no/such", "bind")
    done = runtime.run(bundle)
    assert done.status == 1 and "/no/such" in done.err and "/mnt/here" in done.err, done
    if runtime.name == "krun":
        assert f"/mounts/{len(bundle.config['mounts']) - 1}," in done.err, done


@pytest.mark.parametrize("option", ["ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime"])
def test_bind_flags(runtime, bundle, tmp_path, option):
    source = tmp_path / "data"
    source.mkdir()
    bundle.mount("/mnt", source, "bind", option)
    seen = mountinfo(runtime.run(bundle.args("cat", "/proc/self/mountinfo")).ok().out)
    assert option in seen["/mnt"][0]


@pytest.fixture
def noexec(tmp_path):
    """A mount of the host's with options of its own."""
    source = tmp_path / "noexec"
    source.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nosuid,nodev,noexec", "none", source], check=True)
    yield source
    subprocess.run(["umount", "-l", source], check=True)


@pytest.mark.parametrize("options", [(), ("ro",), ("nosuid",), ("noatime",)])
def test_flags_of_the_source_that_are_not_named(runtime, bundle, noexec, options, observe):
    """A bind that sets a flag has those that it names; without one it has the source's."""
    bundle.mount("/mnt", noexec, "bind", *options)
    seen = mountinfo(runtime.run(bundle.args("cat", "/proc/self/mountinfo")).ok().out)["/mnt"][0]
    assert ("noexec" in observe(seen)) == (not options)


@pytest.mark.parametrize(
    ("options", "user"),
    [("rw", False), ("rw,exec,suid,dev", False), ("rw", True), ("ro", True), ("noexec", True), ("rrw", True)],
)
def test_what_a_mount_of_the_host_forbids(runtime, bundle, noexec, options, user):
    """podman's volumes have "rw": a read-only mount of the host became writable. With a user namespace no flag goes (runc: EPERM)."""
    subprocess.run(["mount", "-o", "remount,bind,ro,nosuid,nodev,noexec", noexec], check=True)
    (bundle.rootfs / "mnt").mkdir(exist_ok=True)
    if user:
        bundle.namespaces(add=("user",)).linux.update(uidMappings=USER, gidMappings=USER)
    bundle.mount("/mnt", noexec, "bind", *options.split(","))
    done = runtime.run(bundle.args("cat", "/proc/self/mountinfo"))
    if done.status:
        assert runtime.name == "runc" and user and "not permitted" in done.err, done
    else:
        assert {"ro", "nosuid", "nodev", "noexec"} <= set(mountinfo(done.out)["/mnt"][0])


def test_destination_that_begins_with_the_roots_path(runtime, bundle, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "f").write_text("there\n")
    bundle.mount(f"{bundle.rootfs}/mnt", tmp_path / "data", "bind")
    assert runtime.run(bundle.args("cat", "/mnt/f")).ok().out == "there\n"


USER = [{"containerID": 0, "hostID": 0, "size": 65536}]


@pytest.mark.parametrize(
    ("runtime", "user"), [("runc", False), ("krun", False), ("krun", True)], indirect=["runtime"]
)
def test_source_in_an_earlier_mount(runtime, bundle, tmp_path, user):
    """runc 1.1 opens the sources of a container with a user namespace before it mounts anything."""
    if user:
        bundle.namespaces(add=("user",)).linux.update(uidMappings=USER, gidMappings=USER)
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "data" / "sub" / "f").write_text("there\n")
    (tmp_path / "data" / "out").symlink_to("/etc")
    bundle.mount("/mnt", tmp_path / "data", "bind").mount("/home", bundle.rootfs / "mnt" / "sub", "bind")
    if user:  # a link is followed below the container's root, never on the host
        bundle.mount("/var", bundle.rootfs / "mnt" / "out", "bind")
    done = (
        runtime.run(bundle.shell("cat /home/f; grep -c . /var/passwd")).ok()
        if user
        else runtime.run(bundle.args("cat", "/home/f")).ok()
    )
    assert done.out == ("there\n2\n" if user else "there\n")


def test_a_read_only_file_system_with_places_in_it(runtime, bundle, observe):
    """runc makes /dev and tmpfs read-only at the end: later mounts and devices have their places in them."""
    next(m for m in bundle.config["mounts"] if m["destination"] == "/dev")["options"].append("ro")
    bundle.mount("/mnt", "tmpfs", "ro", type="tmpfs").mount("/mnt/below", bundle.path, "bind")
    done = runtime.run(
        bundle.shell(
            "ls /dev /mnt; ls /mnt/below; touch /dev/x /mnt/x 2>&1; grep -E ' /(dev|mnt) ' /proc/self/mounts | cut -d' ' -f2,4 | cut -d, -f1"
        )
    )
    assert "/dev ro" in observe(done.out) and "/mnt ro" in done.out and "config.json" in done.out


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_a_link_that_is_copied(runtime, bundle):
    """Option copy-symlink of crun, which does not run on cgroups of both versions."""
    (bundle.path / "link").symlink_to("/no/such")
    bundle.mount("/mnt/link", "link", "bind", "copy-symlink")
    for _ in range(2):  # the second time it is there
        assert runtime.run(bundle.args("readlink", "/mnt/link")).ok().out == "/no/such\n"


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
@pytest.mark.parametrize("user", [False, True])
def test_a_link_that_is_bound(runtime, bundle, tmp_path, user):
    """Option src-nofollow of crun: the link itself is bound, also one that lies in an earlier mount of the container."""
    tmp_path.chmod(0o755)
    (tmp_path / "link").symlink_to("/no/such")
    if user:
        bundle.namespaces(add=("user",)).linux.update(uidMappings=USER, gidMappings=USER)
    bundle.mount("/tmp/bound", tmp_path / "link", "bind", "src-nofollow")
    bundle.mount("/mnt", tmp_path, "bind").mount(
        "/tmp/again", bundle.rootfs / "mnt/link", "bind", "src-nofollow"
    )
    done = runtime.run(
        bundle.shell(
            "cd /tmp; readlink bound; readlink again; cut -d' ' -f5 /proc/self/mountinfo | grep -c ^/tmp/"
        )
    )
    assert done.ok().out == "/no/such\n/no/such\n2\n" and "has no effect" not in done.err


@pytest.mark.parametrize(("option", "field"), [("private", None), ("shared", "shared:"), ("slave", None)])
def test_bind_propagation(runtime, bundle, tmp_path, option, field):
    source = tmp_path / "data"
    source.mkdir()
    bundle.mount("/mnt", source, "bind", option)
    optional = mountinfo(runtime.run(bundle.args("cat", "/proc/self/mountinfo")).ok().out)["/mnt"][1]
    assert bool([f for f in optional if f.startswith("shared:")]) == bool(field)


def test_tmpfs(runtime, bundle):
    # A new directory: runc before 1.2 gives an existing one its old mode back.
    bundle.mount("/mnt/new", "tmpfs", "size=1m", "mode=700", "nosuid", "noexec", type="tmpfs")
    done = runtime.run(
        bundle.shell(
            "stat -c %a /mnt/new; cat /proc/self/mountinfo; dd if=/dev/zero of=/mnt/new/f bs=1k count=2000"
        )
    )
    mount = mountinfo("\n".join(line for line in done.out.splitlines() if " - " in line))["/mnt/new"]
    assert done.out.startswith("700\n") and mount[2] == "tmpfs" and "noexec" in mount[0]
    assert done.status != 0 and "No space left" in done.err


def test_tmpfs_on_a_new_directory(runtime, bundle):
    """The mode of a directory that is there shows through; one that the runtime makes has none to show."""
    for destination in ("/new", "/mnt"):
        bundle.mount(destination, "tmpfs", "nosuid", type="tmpfs")
    assert runtime.run(bundle.args("stat", "-c", "%a", "/new", "/mnt")).ok().out == "1777\n755\n"


def test_tmpcopyup(runtime, bundle):
    bundle.mount("/etc", "tmpfs", "tmpcopyup", type="tmpfs")
    done = runtime.run(bundle.shell("head -n1 /etc/passwd; echo x >/etc/new"))
    assert done.ok().out.startswith("root:") and not (bundle.rootfs / "etc" / "new").exists()


def test_tmpcopyup_keeps_the_mode_that_is_asked_for(runtime, bundle):
    """Where the directory is there already runc 1.1.5 sets back its mode, later ones do as krun."""
    (bundle.rootfs / "etc" / "deep").mkdir(mode=0o750)
    bundle.mount("/new", "tmpfs", "tmpcopyup", "mode=711", "uid=3", type="tmpfs")
    bundle.mount("/etc", "tmpfs", "tmpcopyup", "uid=3", type="tmpfs")
    done = runtime.run(bundle.args("stat", "-c", "%a %u", "/new", "/etc", "/etc/deep"))
    assert done.ok().out == "711 3\n755 3\n750 0\n"


def test_what_is_mounted(runtime, bundle, observe):
    """Mount points, types and flags, one by one, against runc's."""
    out = runtime.run(bundle.args("cat", "/proc/self/mountinfo")).ok().out
    rows = []
    for point, (options, _, kind, *_) in mountinfo(out).items():
        if not point.startswith("/sys/fs/cgroup/"):
            # krun closes what is masked a little more: read-only, noexec; over a file it binds the host's verified null device, runc the
            # container's own (CVE-2025-31133).
            masked = point in bundle.linux["maskedPaths"]
            # runc 1.1.5 leaves the tmpfs over the v1 hierarchies writable although config.json says ro; krun and newer runc do not.
            shown = sorted(set(options) - {"ro", "rw"} if point == "/sys/fs/cgroup" else options)
            rows.append((point, "masked", []) if masked else (point, kind, shown))
    assert {"/", "/proc", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/sys"} <= {r[0] for r in rows}
    observe(sorted(rows))


def test_cgroup_mount(runtime, bundle, observe):
    out = runtime.run(bundle.args("ls", "/sys/fs/cgroup")).ok().out
    observe(sorted(out.split()))


def test_cgroup_mount_is_read_only(runtime, bundle):
    done = runtime.run(bundle.shell("f=$(find /sys/fs/cgroup -name cgroup.procs | head -n1); echo 1 >$f"))
    assert done.status != 0 and "Read-only" in done.err, done


def test_default_devices(runtime, bundle):
    names = ["null", "zero", "full", "random", "urandom", "tty"]
    out = runtime.run(bundle.shell(f"cd /dev; stat -c '%n %F %t:%T %a' {' '.join(names)}")).ok().out
    wanted = {"null": "1:3", "zero": "1:5", "full": "1:7", "random": "1:8", "urandom": "1:9", "tty": "5:0"}
    assert out.splitlines() == [f"{n} character special file {wanted[n]} 666" for n in names]


def test_links_in_dev(runtime, bundle):
    out = runtime.run(
        bundle.shell(
            "cd /dev; readlink fd stdin stdout stderr ptmx || true; for i in fd stdin ptmx; do readlink $i; done"
        )
    )
    assert out.ok().out.split()[-3:] == ["/proc/self/fd", "/proc/self/fd/0", "pts/ptmx"]


def test_devices_work(runtime, bundle):
    script = (
        "echo x >/dev/null; head -c 4 /dev/zero | wc -c; head -c 8 /dev/urandom | wc -c; echo x >/dev/full"
    )
    done = runtime.run(bundle.shell(script))
    assert done.out.split() == ["4", "8"] and "No space left" in done.err


def test_listed_device(runtime, bundle):
    bundle.linux["devices"] = [
        {"path": "/dev/mine", "type": "c", "major": 1, "minor": 3, "fileMode": 0o640, "uid": 5, "gid": 6},
        {"path": "/dev/sub/pipe", "type": "p", "fileMode": 0o600},
    ]
    out = (
        runtime.run(bundle.shell("stat -c '%F %t:%T %a %u %g' /dev/mine; stat -c %F /dev/sub/pipe")).ok().out
    )
    assert out == "character special file 1:3 640 5 6\nfifo\n"


def test_masked_paths(runtime, bundle):
    (bundle.rootfs / "etc" / "secret").write_text("x")
    (bundle.rootfs / "hidden").mkdir()
    (bundle.rootfs / "hidden" / "f").write_text("x")
    bundle.linux["maskedPaths"] += ["/etc/secret", "/hidden", "/not/there"]
    done = runtime.run(bundle.shell("cat /etc/secret /proc/kcore; ls -A /hidden; echo end")).ok()
    assert done.out == "end\n"


def test_read_only_paths(runtime, bundle):
    bundle.linux["readonlyPaths"] += ["/etc", "/not/there"]
    done = runtime.run(
        bundle.shell("echo x >/etc/new; echo 1 >/proc/sys/kernel/shm_rmid_forced; echo end")
    ).ok()
    assert done.out == "end\n" and done.err.count("Read-only file system") == 2


def test_destination_behind_a_link_stays_in_the_root(runtime, bundle, tmp_path):
    """The image cannot send a mount out of its root."""
    outside = tmp_path / "outside"
    outside.mkdir()
    source = tmp_path / "data"
    source.mkdir()
    (source / "f").write_text("bound\n")
    (bundle.rootfs / "link").symlink_to(f"../../../../../..{outside}")
    done = runtime.run(bundle.mount("/link/here", source, "bind").args("cat", "/link/here/f"))
    assert done.ok().out == "bound\n"
    assert not (outside / "here").exists()


def test_proc_over_a_link_is_refused(runtime, bundle):
    (bundle.rootfs / "proc").rmdir()
    (bundle.rootfs / "proc").symlink_to("etc")
    done = runtime.run(bundle)
    assert done.status == 1 and "/proc" in done.err, done


@pytest.mark.parametrize("propagation", ["private", "slave", "shared"])
def test_rootfs_propagation(runtime, bundle, propagation):
    bundle.linux["rootfsPropagation"] = propagation
    optional = mountinfo(runtime.run(bundle.args("cat", "/proc/self/mountinfo")).ok().out)["/"][1]
    shared = any(f.startswith("shared:") for f in optional)
    # runc up to 1.1 leaves the root private even where shared is asked for.
    wanted = (False, propagation == "shared") if runtime.name == "runc" else (propagation == "shared",)
    assert shared in wanted


def test_unknown_mount_type(runtime, bundle):
    done = runtime.run(bundle.mount("/mnt", "x", type="nosuchfs"))
    assert done.status == 1 and "no such device" in done.err.lower(), done


def test_the_hosts_dev_null_is_as_it_was(runtime, bundle):
    """Masking binds /dev/null over files: the device of the host keeps its kind and mode."""
    runtime.run(bundle.shell("chmod 600 /dev/null; rm -f /dev/null")).ok()
    found = os.stat("/dev/null")
    assert stat.S_ISCHR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o666
    assert (os.major(found.st_rdev), os.minor(found.st_rdev)) == (1, 3)


@pytest.fixture
def null(runtime, tmp_path):
    """A null device that is the runtime's standard input, as /dev/null of the host is for a detached container."""
    path = tmp_path / "null"
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    path.chmod(0o666)
    before = runtime.stdin
    with path.open("r+b", buffering=0) as runtime.stdin:
        yield path
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
    runtime.stdin = before


#: A descriptor gives root of a container without a user namespace the inode: its mode.
CHANGE = "chmod 400 /proc/self/fd/0 && cat && echo >&0"


def test_the_callers_null_device_is_not_the_containers(runtime, bundle, null):
    container = runtime.start(bundle.shell(f'test "$(readlink /proc/self/fd/0)" = /dev/null && {CHANGE}'))
    assert container.wait() == 0


@pytest.mark.parametrize("own", ["true", "rm /dev/null; ln -s /proc/self/fd/0 /dev/null", "rm /dev/null"])
def test_the_callers_null_device_is_not_that_of_exec(runtime, bundle, null, own):
    if runtime.name != "krun":
        return  # runc replaces it at `create` only
    container = runtime.start(bundle.shell(f"{own}; while :; do sleep 1; done"))
    container.exec("/bin/sh", "-c", CHANGE).ok()


@pytest.fixture
def binfmt(tmp_path):
    """A mount of the host's binfmt_misc in a directory."""
    place = tmp_path / "host" / "binfmt"
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


# A write that reaches the file system is EINVAL: no entry has this form.
WRITE = "echo none >%s/register; ls %s | grep -c register"


def test_binfmt_misc_below_a_bind(runtime, bundle, binfmt):
    """Its entries decide which program starts in the monitor's place: it may be seen and not written."""
    bundle.mount("/host", binfmt.parent, "rbind")
    done = runtime.run(bundle.shell(WRITE.replace("%s", "/host/binfmt")))
    assert done.ok().out == "1\n"
    assert ("Invalid argument" if runtime.name == "runc" else "Read-only file system") in done.err


#: Writes the same while another thread shares the descriptors.
WRITER = r"""
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *wait_for_ever(void *argument) {
    for (;;)
        pause();
    return argument;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc != 2 || pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
        return 1;
    int fd = open(argv[1], O_WRONLY);
    if (fd < 0 || write(fd, "none", 4) < 0)
        fprintf(stderr, "%s\n", strerror(errno));
    return 0;
}
"""


def refusal(runtime) -> str:
    return "Invalid argument" if runtime.name == "runc" else "Read-only file system"


@pytest.mark.parametrize("threads", [False, True])
def test_binfmt_misc_that_the_payload_makes_writable(runtime, bundle, binfmt, threads):
    """With CAP_SYS_ADMIN the mount becomes writable again; the monitor looks at the file system of each file."""
    bundle.mount("/host", binfmt.parent, "rbind")
    for name in ("bounding", "effective", "permitted"):
        bundle.process["capabilities"][name] += ["CAP_SYS_ADMIN"]
    script = WRITE.replace("%s", "/host/binfmt")
    if threads:
        (bundle.path / "writer.c").write_text(WRITER)
        program = bundle.rootfs / "bin" / "writer"
        subprocess.run(["gcc", "-static", "-pthread", "-o", program, bundle.path / "writer.c"], check=True)
        script = "writer /host/binfmt/register; ls /host/binfmt | grep -c register"
    done = runtime.run(bundle.shell(f"mount -o remount,bind,rw /host/binfmt && {script}"))
    assert done.ok().out == "1\n" and refusal(runtime) in done.err


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_binfmt_misc_whose_directory_is_renamed(runtime, bundle, binfmt):
    """Somebody who shares the root directory moves it below /dev, where a mount seems to cover it, and back. runc leaves it writable."""
    bundle.mount("/host", binfmt.parent, "rbind")
    (bundle.rootfs / "host").mkdir()
    hook = bundle.path / "rename"
    hook.write_text(f"#!/bin/sh\nmv {bundle.rootfs}/host {bundle.rootfs}/dev/host\n")
    hook.chmod(0o755)
    bundle.config["hooks"] = {"createRuntime": [{"path": str(hook)}]}
    container = runtime.create(bundle)
    (bundle.rootfs / "dev/host").rename(bundle.rootfs / "host")
    rows = Path(f"/proc/{container.pid}/mountinfo").read_text().splitlines()
    [row] = [row.split() for row in rows if " - binfmt_misc " in row]
    assert (row[4], row[5].split(",")[0]) == ("/host/binfmt", "ro"), row


def test_binfmt_misc_that_the_host_mounts_later(runtime, bundle, tmp_path):
    place = tmp_path / "host"
    (place / "binfmt").mkdir(parents=True)
    subprocess.run(["mount", "--bind", "--make-shared", place, place], check=True)
    try:
        bundle.mount("/host", place, "rbind", "rslave")
        container = runtime.start(bundle.args("sleep", "1000"))
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", place / "binfmt"], check=True)
        done = container.exec("sh", "-c", WRITE.replace("%s", "/host/binfmt"))
        assert done.ok().out == "1\n" and refusal(runtime) in done.err
    finally:
        subprocess.run(["umount", "-R", "-l", place], check=True)


@pytest.mark.parametrize("how", ["type", "bind", "file"])
def test_binfmt_misc_of_the_containers_own(runtime, bundle, binfmt, how):
    if how == "type":
        bundle.mount("/mnt/own", "binfmt_misc", "rw", type="binfmt_misc")
    elif how == "bind":
        bundle.mount("/mnt/own", binfmt, "bind", "ro")
    else:
        bundle.mount("/mnt/own/register", binfmt / "register", "bind")
    done = runtime.run(bundle.shell(WRITE.replace("%s", "/mnt/own")))
    if runtime.name == "runc":
        assert done.ok().out == "1\n"
    else:
        assert done.status == 1 and "binfmt_misc is not served" in done.err


@pytest.mark.parametrize(
    ("destination", "allowed"), [("/p/sys", False), ("/p/self/attr", False), ("/p/cpuinfo", True)]
)
def test_a_link_of_the_image_leads_below_proc(runtime, bundle, tmp_path, destination, allowed):
    """CVE-2019-16884: the place counts, not the name of the destination."""
    (bundle.rootfs / "p").symlink_to("proc")
    source = tmp_path / "source"
    source.write_text("bound\n") if allowed else source.mkdir()
    done = runtime.run(bundle.mount(destination, source, "bind").args("cat", "/proc/cpuinfo"))
    if allowed:
        assert done.ok().out == "bound\n"
    else:
        assert done.status == 1 and "cannot be mounted because it is inside /proc" in done.err, done

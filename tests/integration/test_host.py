"""krun install and krun doctor on this host: each edit as the engine itself reads it, each broken prerequisite made for real in namespaces."""

import json
import os
import re
import signal
import tomllib

import pytest
from helpers.engines import LIMITS, Docker, Podman, command, remove, short_directory
from helpers.runtime import KRUN, find, wait_for

from krun.kvm import measure

pytestmark = [pytest.mark.root, pytest.mark.kvm]


@pytest.fixture
def work(as_root):
    path = short_directory("host")
    yield path
    remove(path)


def krun(*args):
    return command([str(KRUN), *map(str, args)])


def inside(script, *args, flags=("--mount",)):
    """Run a shell script in namespaces of its own: what it breaks is broken there only."""
    return command(["unshare", *flags, "sh", "-c", script, "sh", *map(str, args)])


# ---------------------------------------------------------------------------------------------------- install


@pytest.mark.engine
def test_podman_reads_the_drop_in(work, busybox_root):
    """In the place where podman looks by itself, under which a folder of ours is mounted."""
    (work / "etc").mkdir()
    podman = Podman(work / "etc")
    podman.load(busybox_root, "localhost/busybox:test")
    words = podman.argv("krun", "run", "--rm", "--network", "none", *LIMITS, "localhost/busybox:test")
    at = words.index("--runtime")
    words[at + 1] = "krun"
    (work / "drop").mkdir()
    script = """mount --bind "$1" /etc/containers && mkdir -p /etc/containers/containers.conf.d &&
    printf '{"default": [{"type": "insecureAcceptAnything"}]}' >/etc/containers/policy.json &&
    "$2" install podman --path "$2" >&2 && shift 2 && "$@" """
    done = inside(
        script,
        work / "drop",
        KRUN,
        *words,
        "sh",
        "-c",
        "echo by name; cat /proc/self/comm; test -e /dev/kvm || echo none",
    )
    try:
        assert "registered" in done.err and done.ok().out.startswith("by name\n"), done
        info = inside(
            'mount --bind "$1" /etc/containers && shift && "$@"',
            work / "drop",
            *words[:at],
            "--runtime",
            "krun",
            "info",
            "--format",
            "{{.Host.OCIRuntime.Path}}",
        )
        assert info.ok().out.strip() == str(KRUN)
        done = inside(
            'mount --bind "$1" /etc/containers && "$2" uninstall podman && ls /etc/containers/containers.conf.d',
            work / "drop",
            KRUN,
        ).ok()
        assert "krun removed" in done.out and "50-krun" not in done.out.splitlines()[-1], done
    finally:
        podman.close()


@pytest.mark.engine
def test_dockerd_reads_it_again_at_sighup(work):
    docker = Docker(work)
    file = work / "daemon.json"
    try:
        info = ("info", "--format", "{{json .Runtimes}}")
        first = json.loads(docker.call("runc", *info).ok().out)
        assert first["krun"]["path"] == first["kontain"]["path"] == str(KRUN)
        # It keeps what it knows, so the file without krun needs a restart, as uninstall says.
        done = krun("uninstall", "docker", "--file", file).ok()
        assert "restart dockerd" in done.out
        docker.daemon.stop()
        docker.start()
        assert "krun" not in docker.call("runc", *info).ok().out
        assert "kill -HUP" in krun("install", "docker", "--file", file, "--path", KRUN).ok().out
        os.kill(int((work / "docker.pid").read_text()), signal.SIGHUP)
        wait_for(lambda: "krun" in docker.call("runc", *info).out, "not read again")
        assert "nothing to change" in krun("install", "docker", "--file", file, "--path", KRUN).ok().out
    finally:
        docker.close()


CONTAINERD = """version = 2
disabled_plugins = ["io.containerd.grpc.v1.nothing"]
# an administrator's remark
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:test"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
"""


@pytest.mark.engine
def test_containerd_reads_the_file(work):
    find("containerd")
    file = work / "config.toml"
    file.write_text(CONTAINERD)
    shown = krun("install", "--dry-run", "--path", KRUN, "--file", file, "containerd").ok().out
    assert shown.startswith(f"--- {file}\n+++ {file}\n") and file.read_text() == CONTAINERD
    krun("install", "--path", KRUN, "--file", file, "containerd").ok()
    dump = command(["containerd", "--config", str(file), "config", "dump"]).ok().out
    runtimes = tomllib.loads(dump)["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]
    for name in ("krun", "kontain"):
        assert runtimes[name]["runtime_type"] == "io.containerd.runc.v2"
        assert runtimes[name]["options"]["BinaryName"] == str(KRUN)
        assert runtimes[name]["options"]["SystemdCgroup"] is True
    assert runtimes["runc"]["options"]["SystemdCgroup"] is True
    krun("uninstall", "--file", file, "containerd").ok()
    assert file.read_text() == CONTAINERD
    assert (work / "config.toml.krun-orig").read_text() == CONTAINERD


# ----------------------------------------------------------------------------------------------------- doctor

#: What is broken, by which commands, the level, a part of the cause, a part of the remedy.
BROKEN = (
    ("no device", "mount -t tmpfs none /dev", "error", "kvm", "/dev/kvm: no such file or directory", ""),
    (
        "a device without KVM behind it",
        "touch $W/x; mount --bind $W/x /dev/kvm",
        "error",
        "kvm",
        "/dev/kvm",
        "",
    ),
    (
        "no cgroups",
        "umount -R -l /sys/fs/cgroup",
        "error",
        "cgroups",
        "no controllers",
        "mount cgroup2",
    ),
    (
        "a full disk",
        "mkdir $W/s; mount -t tmpfs -o size=64k none $W/s; ROOT=$W/s/krun",
        "warning",
        "state",
        "less than 16 MiB",
        "make room",
    ),
    (
        "a state folder that cannot be written",
        "mkdir $W/s; mount -t tmpfs -o ro none $W/s; ROOT=$W/s/krun",
        "error",
        "state",
        "cannot be written",
        "--root",
    ),
    ("few files", "ulimit -n 512", "warning", "limits", "open files: 512 at most", "LimitNOFILE"),
    (
        "no monitor",
        "mount --bind /dev/null $NATIVE/krun-monitor",
        "error",
        "monitor",
        "is missing",
        "./dev setup",
    ),
    (
        "no file to copy the monitor from",
        "mount --bind /dev/null $NATIVE/krun-monitor.readable",
        "warning",
        "monitor",
        "no containers in user namespaces",
        "./dev setup",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b[0])
def test_doctor_names_cause_and_remedy(work, broken):
    _, commands, level, what, cause, remedy = broken
    native = os.path.dirname(str(KRUN.parent.parent.parent / "krun" / "native" / "x"))
    script = f"W={work}; NATIVE={native}; ROOT={work}/root; {commands}; exec {KRUN} --root $ROOT doctor --format json"
    done = inside(script)
    document = json.loads(done.out)
    found = [
        c for c in document["checks"] if c["check"] == what and c["level"] == level and cause in c["text"]
    ]
    assert found and found[0]["remedy"] and remedy in found[0]["remedy"], done.out
    assert (done.status == 1) is (not document["usable"]) and (level != "error" or done.status == 1)
    # Nothing but this is broken: the machine's own findings are the same without it.
    healthy = json.loads(command([str(KRUN), "--root", f"{work}/root", "doctor", "--format", "json"]).out)
    assert healthy["usable"]


def test_without_the_compiled_module_every_verb_says_so(work):
    native = KRUN.parent.parent.parent / "krun" / "native"
    broken = f"mount --bind /dev/null {native}/_krun.abi3.so; exec {KRUN.parent}/krun.py"
    done = inside(f"{broken} features")
    assert done.status == 1 and done.err.count("\n") == 1, done
    assert "_krun" in done.err and "./dev setup" in done.err
    # doctor tells it among the rest.
    done = inside(f"{broken} doctor")
    assert done.status == 1 and done.err == "", done
    assert re.search(r"^error +native module +.*_krun.*\n +-> \./dev setup", done.out, re.M), done


def test_doctor_as_an_ordinary_user(work):
    """A closed /dev/kvm: the group is named; /run cannot be written."""
    work.chmod(0o755)
    os.mknod(work / "kvm", 0o020600, os.stat("/dev/kvm").st_rdev)
    script = f"mount --bind {work}/kvm /dev/kvm; exec setpriv --reuid 65534 --regid 65534 --clear-groups {KRUN} --root /run/krun-none doctor"
    done = inside(script)
    assert done.status == 1, done
    assert (
        "/dev/kvm: permission denied" in done.out
        and "its mode is 600, its group root: be root, or" in done.out
    )
    assert "cannot be written" in done.out and "XDG_RUNTIME_DIR" in done.out


def test_doctor_without_user_namespaces(work):
    """The limit is one of each user namespace: it is set in a new one."""
    script = f"echo 0 >/proc/sys/user/max_user_namespaces && exec {KRUN} --root {work}/root doctor"
    done = inside(script, flags=("--user", "--map-root-user", "--mount"))
    assert (
        "not available: no uidMappings, no rootless" in done.out
        and "sysctl user.max_user_namespaces" in done.out
    ), done


def test_the_measurement_is_of_kruns_own_monitor(monkeypatch):
    """`create` of root measures: no environment names the program that does."""
    monkeypatch.setenv("KRUN_MONITOR", "/nonexistent")
    assert measure.exits()[0] > 0

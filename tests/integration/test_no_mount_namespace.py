"""A container without a mount namespace: its mounts are made in the caller's, its root is a chroot.

Each case runs in a mount namespace that unshare(1) makes: runc makes the propagation of the caller's tree "slave" and leaves its mounts.
"""

import os
import subprocess

import pytest
from helpers.bundle import Bundle


@pytest.fixture
def open_bundle(bundle: Bundle) -> Bundle:
    bundle.linux["maskedPaths"] = bundle.linux["readonlyPaths"] = []
    return bundle.namespaces(drop=("mount",))


def in_own_namespace(runtime, container, script):
    """The output of a shell script that has the runtime as $rt, the container's id as $id, its bundle as $bundle."""
    argv = ["unshare", "--mount", "sh", "-c", f'rt() {{ "$path" --root "$root" "$@"; }}\n{script}\n:']
    environment = {
        **runtime.environment,
        "path": str(runtime.path),
        "root": str(runtime.root),
        "id": container.id,
        "bundle": str(container.bundle.write()),
    }
    return subprocess.run(
        argv,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def test_run(runtime, open_bundle):
    container = runtime.new(
        open_bundle.shell(
            "readlink /proc/self/ns/mnt; ls -d /bin /etc/passwd; ls /work; cat /dev/null && mount | grep -c /dev/shm"
        )
    )
    out = in_own_namespace(
        runtime,
        container,
        "readlink /proc/self/ns/mnt; rt run --bundle $bundle $id; grep -c $bundle /proc/self/mountinfo",
    ).splitlines()
    assert out[0] == out[1], "another mount namespace"
    assert out[2:4] == ["/bin", "/etc/passwd"] and out[4] == "1", out
    # runc leaves root, /proc, /dev, ... mounted; nothing of krun's stays.
    assert (out[5] == "0") == (runtime.name == "krun"), out


def test_life(runtime, open_bundle):
    container = runtime.new(open_bundle.args("sleep", "1000"))
    out = in_own_namespace(
        runtime,
        container,
        """rt create --bundle $bundle --pid-file $bundle/pid $id >/dev/null
        rt start $id
        readlink /proc/$(cat $bundle/pid)/root
        echo $bundle/rootfs
        rt exec $id ls -d /var/lib/dpkg /etc/passwd 2>/dev/null
        echo .
        rt delete --force $id
        grep -c $bundle /proc/self/mountinfo""",
    ).splitlines()
    assert out[0] == out[1]
    # An exec of runc's lands in the host's tree, and its mounts stay.
    assert out[2:4] == (
        ["/etc/passwd", "."] if runtime.name == "krun" else ["/etc/passwd", "/var/lib/dpkg"]
    ), out
    assert (out[-1] == "0") == (runtime.name == "krun"), out


def test_own_namespace_by_path_is_inherited(runtime, open_bundle):
    """pivot_root in it would take the root of all who live there; that is what runc does."""
    if runtime.name == "runc":
        return
    open_bundle.namespace_path("mount", "/proc/self/ns/mnt")
    container = runtime.new(open_bundle.shell("readlink /proc/self/ns/mnt; ls /"))
    out = in_own_namespace(
        runtime, container, "readlink /proc/self/ns/mnt; rt run --bundle $bundle $id; ls -d /var/lib/dpkg"
    )
    words = out.split()
    assert words[0] == words[1] and "passwd" not in words and words[-1] == "/var/lib/dpkg"


@pytest.mark.parametrize("field", ["maskedPaths", "readonlyPaths"])
def test_masked_paths_are_refused(runtime, open_bundle, field):
    open_bundle.linux[field] = ["/proc/kcore"]
    done = runtime.run(open_bundle)
    assert done.status == 1 and "unable to restrict sys entries without a private MNT namespace" in done.err


def test_a_create_that_fails_takes_its_mounts_back(runtime, open_bundle):
    container = runtime.new(open_bundle.args("/nope"))
    out = in_own_namespace(
        runtime, container, "rt create --bundle $bundle $id >&2 || grep -c $bundle /proc/self/mountinfo"
    )
    assert (out == "0\n") == (runtime.name == "krun"), out


def test_killed_between_remembering_and_binding(runtime, open_bundle):
    """State that says "about to cover mount N": delete unmounts what lies there only if it is another mount."""
    if runtime.name == "runc":
        return
    container = runtime.new(open_bundle.args("sleep", "1000"))
    done = in_own_namespace(
        runtime,
        container,
        """rt create --bundle $bundle $id >/dev/null
        below=$(awk -v at="$bundle/rootfs" '$5 == at { print $2 }' /proc/self/mountinfo)
        sed -i "s/\\"root_mount\\": *[0-9]*/\\"root_mount\\":-$below/" $root/$id/state.json
        grep -c root_mount..-$below $root/$id/state.json
        rt delete --force $id
        grep -c $bundle /proc/self/mountinfo""",
    )
    assert done.split() == ["1", "0"], done


def test_the_hosts_mounts_are_as_before(runtime, open_bundle):
    if runtime.name == "runc":
        return
    with open("/proc/self/mountinfo") as file:
        before = file.read()
    assert runtime.run(open_bundle.args("true")).ok()
    with open("/proc/self/mountinfo") as file:
        assert file.read() == before
    assert os.path.isdir("/proc/self")

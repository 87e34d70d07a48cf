"""docs/kubernetes: the installer's script is run for real, in a root that plays the installer's image, on a root that plays a node."""

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from helpers.bundle import make_busybox_root
from helpers.engines import command, remove, short_directory
from helpers.runtime import KRUN, ROOT

pytestmark = [pytest.mark.root, pytest.mark.kvm]
FOLDER = ROOT / "docs" / "kubernetes"


def documents(name):
    return [d for d in yaml.safe_load_all((FOLDER / name).read_text()) if d]


def installer():
    (found,) = (d for d in documents("installer.yaml") if d["kind"] == "DaemonSet")
    return found["spec"]["template"]["spec"]


def test_names_fit_together():
    """What one file names another one makes: handlers, label, account, volume."""
    classes = documents("runtimeclass.yaml")
    from krun.cli.install import NAMES

    assert {c["handler"] for c in classes} == {c["metadata"]["name"] for c in classes} == set(NAMES)
    (pod,) = documents("example-pod.yaml")
    assert pod["spec"]["runtimeClassName"] in NAMES
    parts = {d["kind"]: d for d in documents("installer.yaml")}
    spec = installer()
    assert spec["serviceAccountName"] == parts["ServiceAccount"]["metadata"]["name"]
    (subject,) = parts["ClusterRoleBinding"]["subjects"]
    assert subject["name"] == parts["ServiceAccount"]["metadata"]["name"]
    assert parts["ClusterRoleBinding"]["roleRef"]["name"] == parts["ClusterRole"]["metadata"]["name"]
    daemon = parts["DaemonSet"]
    assert daemon["spec"]["selector"]["matchLabels"] == daemon["spec"]["template"]["metadata"]["labels"]
    volumes = {v["name"] for v in spec["volumes"]}
    for container in spec["initContainers"] + spec["containers"]:
        assert {m["name"] for m in container.get("volumeMounts", [])} <= volumes
        done = command(
            [
                "sh",
                "-n",
                "-c",
                container["command"][-1] if container["command"][-1] != "-c" else container["args"][0],
            ]
        )
        assert done.status == 0, done
    (label,) = json.loads(script("label").partition("--data '")[2].partition("'")[0])["metadata"]["labels"]
    assert all(label in c["scheduling"]["nodeSelector"] for c in classes)


def script(name):
    (container,) = (c for c in installer()["initContainers"] if c["name"] == name)
    assert container["command"] == ["/bin/sh", "-eu", "-c"]
    return container["args"][0]


#: `nsenter --target 1 --mount ... -- COMMAND`, where the node is a folder: the command in that root.
NSENTER = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec chroot /host "$@"
"""


@pytest.fixture
def machine(as_root):
    """A root with the image's files, and in its /host a node's: this machine's own /usr read-only, with an engine that notes its restarts."""
    work = short_directory("node")
    make_busybox_root(work)
    host = work / "host"
    for name in ("etc/containerd", "opt", "usr", "run", "tmp", "root", "proc", "dev", "sys", "node"):
        (host / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (host / name).symlink_to(f"usr/{name}")
    (work / "bin" / "nsenter").unlink()  # a link to busybox
    (work / "bin" / "nsenter").write_text(NSENTER)
    (work / "bin" / "nsenter").chmod(0o755)
    for name in ("containerd", "systemctl"):
        (host / "node" / name).write_text('#!/bin/sh\necho "$(basename "$0") $*" >>/node/calls\n')
        (host / "node" / name).chmod(0o755)
    (host / "etc/containerd/config.toml").write_text("version = 2\n")
    # The image's krun is a script there that runs this tree's: the installed one is proven by tests/suites/fresh.py.
    (work / "opt/krun/bin").mkdir(parents=True)
    (work / "opt/krun/bin/krun").write_text(f'#!/bin/sh\nexec {KRUN} "$@"\n')
    (work / "opt/krun/bin/krun").chmod(0o755)
    yield work
    remove(work)


def enter(work, text):
    """Run a script in the image's root, in a mount namespace whose mounts go with it."""
    tree = f"{work}/host{ROOT}"
    Path(tree).mkdir(parents=True, exist_ok=True)
    mounts = f"""set -e
    mount --bind /usr {work}/host/usr
    mount --bind {ROOT} {tree}
    mount --rbind /dev {work}/host/dev
    mount --rbind /sys {work}/host/sys
    mount -t proc proc {work}/host/proc
    export PATH=/node:/usr/sbin:/usr/bin:/sbin:/bin
    exec chroot {work} /bin/sh -eu -c "$1"
    """
    argv = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", mounts, "sh", text]
    return subprocess.run(
        argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False
    )


def test_the_installers_script(machine):
    text = script("install")
    host = machine / "host"
    for again in (False, True):
        done = enter(machine, text)
        assert done.returncode == 0, done
        config = (host / "etc/containerd/config.toml").read_text()
        table = tomllib.loads(config)["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]
        assert table["krun"]["options"]["BinaryName"] == "/opt/krun/bin/krun"
        assert (host / "opt/krun/bin/krun").exists() and (host / "opt/krun.old").exists() == again
        # Restarted once, by the first run only; crio is not there and is left alone.
        assert (host / "node/calls").read_text() == "systemctl restart containerd\n", done
    assert (host / "etc/containerd/config.toml.krun-orig").read_text() == "version = 2\n"
    assert not os.path.exists(host / "etc/crio")


def test_the_installer_ends_where_there_is_no_kvm(machine):
    """The node gets no label then: the pod's next container does not start."""
    done = enter(machine, "mount -t tmpfs none /host/dev; mknod /host/dev/null c 1 3\n" + script("install"))
    assert (
        done.returncode != 0 and "/dev/kvm" in done.stdout and not (machine / "host/node/calls").exists()
    ), done

"""An ordinary user with subordinate ids and a /dev/kvm that is the user's: runc first, then krun, then podman with each."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helpers.bundle import make_busybox_root
from helpers.engines import remove, runtimes, short_directory, tar_of
from helpers.runtime import cgroup_v2, find

pytestmark = pytest.mark.engine
USER = "krun-rootless"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def must(*argv):
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def home(as_root):
    """A user, a directory of the user's, a bundle root and a /dev/kvm node in it."""
    for tool in ("useradd", "newuidmap"):
        assert shutil.which(tool, path=PATH), f"{tool} is missing: install the packages passwd and uidmap"
    work = short_directory("rootless")
    must("useradd", "--create-home", "--home-dir", f"{work}/home", "--shell", "/bin/sh", USER)
    try:
        make_busybox_root(work / "rootfs")
        tar_of(work / "rootfs", work / "image.tar")
        os.mknod(work / "kvm", 0o020600, os.stat("/dev/kvm").st_rdev)
        (work / "run").mkdir(mode=0o700)
        must("chown", "-R", f"{USER}:{USER}", str(work))
        yield work
    finally:
        end_processes(os.stat(work / "home").st_uid)
        must("userdel", USER)
        remove(work)


def end_processes(uid):
    """podman leaves a process that holds its user namespace, and conmon what could not be stopped."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid == uid:
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass
    time.sleep(0.2)


@pytest.fixture
def call(home):
    """Run a command as the user, in a mount namespace where /dev/kvm is the user's; the host's stays as it is."""

    def call(*argv, timeout=60, cwd=home, around=":"):
        uid = os.stat(home).st_uid
        script = f'{around}; mount --bind {home}/kvm /dev/kvm && exec setpriv --reuid {uid} --regid {uid} --init-groups "$@"'
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", *map(str, argv)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd,
            env={"PATH": PATH, "HOME": f"{home}/home", "XDG_RUNTIME_DIR": f"{home}/run", "USER": USER},
        )

    return call


def subordinate(file):
    """Container 0 is the user, the rest from /etc/subuid or /etc/subgid."""
    for line in Path(file).read_text().splitlines():
        name, first, count = line.split(":")
        if name == USER:
            return int(first), int(count)
    raise AssertionError(f"{USER} is not in {file}")


@pytest.fixture(params=runtimes())
def runtime(request):
    return request.param


@pytest.fixture
def bundle(call, home, runtime):
    """What `spec --rootless` writes, with other arguments."""
    path = home / f"bundle-{runtime}"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    os.chown(path, os.stat(home).st_uid, -1)
    done = call(find(runtime), "spec", "--rootless", cwd=path)
    assert done.returncode == 0, done
    config = json.loads((path / "config.json").read_text())
    config["process"]["terminal"] = False
    config["root"]["path"] = str(home / "rootfs")

    def write(*args, **changes):
        config["process"]["args"] = list(args)
        for section, values in changes.items():
            config[section].update(values)
        (path / "config.json").write_text(json.dumps(config))
        return path

    return write


def test_run(call, bundle, runtime, home):
    path = bundle("sh", "-c", "id -u; cat /proc/self/uid_map; cat /proc/self/setgroups; exit 7")
    done = call(find(runtime), "run", "--bundle", path, f"rl-{runtime}")
    uid = os.stat(home).st_uid
    assert (done.returncode, done.stdout.split()) == (7, ["0", "0", str(uid), "1", "deny"]), done


def test_subordinate_ids(call, bundle, runtime, home):
    """Several ids need newuidmap and newgidmap, which may set what the user alone may not."""
    uid = os.stat(home).st_uid
    maps = {}
    for word in ("uid", "gid"):
        first, count = subordinate(f"/etc/sub{word}")
        own = {"containerID": 0, "hostID": uid, "size": 1}
        maps[f"{word}Mappings"] = [own, {"containerID": 1, "hostID": first, "size": count}]
    user = {"user": {"uid": 1000, "gid": 1000}}
    path = bundle("sh", "-c", "id -u; id -g; cat /proc/self/uid_map", linux=maps, process=user)
    done = call(find(runtime), "run", "--bundle", path, f"rs-{runtime}")
    assert done.returncode == 0, done
    assert done.stdout.split()[:2] == ["1000", "1000"], done
    assert len(done.stdout.splitlines()) == 4, done


def test_create_start_exec_kill_delete(call, bundle, runtime, home):
    path, id = bundle("sleep", "1000"), f"rc-{runtime}"
    # One shell: a mount namespace for each command would hide nothing, but the process is a child of nobody then.
    script = f"""set -e
    {find(runtime)} create --bundle {path} {id} </dev/null >{path}/out 2>&1
    {find(runtime)} start {id}
    {find(runtime)} exec {id} id -u
    {find(runtime)} exec {id} sh -c 'exit 5' || echo status $?
    {find(runtime)} state {id} | grep status
    {find(runtime)} kill {id} KILL
    while {find(runtime)} state {id} | grep -q running; do sleep 0.1; done
    {find(runtime)} delete {id}
    {find(runtime)} list -q"""
    done = call("sh", "-c", script)
    assert done.returncode == 0, (done, (path / "out").read_text())
    assert done.stdout.split() == ["0", "status", "5", '"status":', '"running",'], done


def delegated():
    """The directory of each hierarchy that a container is put into (cgroups(7)), where the user gets a group."""
    top = Path("/sys/fs/cgroup")
    return (
        [top] if cgroup_v2() else [path for path in top.iterdir() if path.is_dir() and not path.is_symlink()]
    )


def test_exec_is_in_the_groups_that_the_user_has_got(call, bundle, runtime, home):
    """The process between krun and its child put the child into no group of cgroup v2: no limit was in force."""
    name, id = f"krun-delegated-{runtime}", f"rg-{runtime}"
    groups = [path / name for path in delegated()]
    uid = os.stat(home).st_uid
    path = bundle("sleep", "1000", linux={"cgroupsPath": f"/{name}/c", "resources": {}})
    # A move within cgroup v2 needs the right to write to the group above both.
    script = f"""set -e
    {find(runtime)} run --detach --bundle {path} {id} </dev/null >{path}/out 2>&1
    {find(runtime)} exec {id} cat /proc/self/cgroup
    {find(runtime)} delete --force {id}"""
    try:
        for group in groups:
            group.mkdir()
            if (group / "cpuset.cpus").exists() and not cgroup_v2():
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (group / file).write_text((group.parent / file).read_text())
            if (group / "cgroup.controllers").exists():
                (group / "caller").mkdir()
            must("chown", "-R", str(uid), str(group))
        caller = next(group for group in groups if (group / "caller").exists()) / "caller"
        procs = caller / "cgroup.procs"
        done = call("sh", "-c", script, cwd=home, around=f"echo $$ > {procs}")
        assert done.returncode == 0, (done, (path / "out").read_text())
        lines = done.stdout.split()
        # With a cgroup namespace it is the root of what the process sees.
        assert lines and all(line.endswith((f"/{name}/c", ":/")) for line in lines), done
    finally:
        for group in groups:
            for below in (group / "c", group / "caller", group):
                if below.exists():
                    below.rmdir()


def test_no_kvm_for_the_user_is_an_error_with_the_remedy(call, bundle, runtime, home):
    if runtime != "krun":
        return
    os.chmod(home / "kvm", 0)
    try:
        done = call(find("krun"), "run", "--bundle", bundle("true"), "rn")
    finally:
        os.chmod(home / "kvm", 0o600)
    assert done.returncode == 1 and "/dev/kvm" in done.stderr and "group" in done.stderr, done


def test_podman(call, runtime, home):
    """Podman as the user. What podman itself cannot do on this machine is the same with both."""
    storage = home / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{home}/graph"\nrunroot = "{home}/run/containers"\n'
    )
    conf = home / "containers.conf"
    conf.write_text(
        '[engine]\nevents_logger = "file"\ncgroup_manager = "cgroupfs"\n[containers]\n'
        'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
    )
    policy = home / "home/.config/containers/policy.json"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}\n')
    must("chown", "-R", f"{USER}:", str(home / "home"))
    podman, uid = f"podman --runtime {find(runtime)}", os.stat(home).st_uid
    script = f"""export CONTAINERS_STORAGE_CONF={storage} CONTAINERS_CONF={conf}
    {podman} import {home}/image.tar localhost/box:test >/dev/null
    {podman} run --rm --network none localhost/box:test sh -c 'id -u; echo hello; exit 3'; echo run $?
    {podman} run --rm --network none --userns keep-id localhost/box:test sh -c 'test $(id -u) = {uid} && id -g | grep -c .'; echo keep $?
    {podman} run --rm --network none --userns keep-id --tmpfs /t --read-only -v {home}/home:/own:ro --cap-drop ALL localhost/box:test sh -c 'stat -c %u /own; touch /x 2>&1 | grep -c Read-only; touch /t/x' | sed s/{uid}/me/; echo options $?
    {podman} run -d --name c --network none localhost/box:test sleep 1000 >/dev/null; echo detached $?
    {podman} exec c sh -c 'id -u; exit 4'; echo exec $?
    {podman} stop --time 1 c >/dev/null; echo stop $?
    {podman} rm --force --time 0 c >/dev/null; echo rm $?"""
    done = call("sh", "-c", script, timeout=240)
    expected = [
        "0",
        "hello",
        "run 3",
        "1",
        "keep 0",
        "me",
        "1",
        "options 0",
        "detached 0",
        "0",
        "exec 4",
        "stop 0",
        "rm 0",
    ]
    print(done.stderr)
    assert done.stdout.splitlines() == expected, done

"""linux.namespaces: new ones, others by path, and user namespaces."""

import json
import os
import subprocess
import time

import pytest
from helpers.bundle import Bundle
from helpers.runtime import cgroup_v2, wait_for

KINDS = {"pid": "pid", "network": "net", "ipc": "ipc", "uts": "uts", "mount": "mnt"}


def test_new_ones(running):
    for kind in KINDS.values():
        assert os.readlink(f"/proc/{running.pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")


@pytest.mark.parametrize("dropped", ["pid", "network", "ipc", "uts"])
def test_kept_ones(runtime, bundle, dropped):
    if dropped == "uts":
        del bundle.config["hostname"]
    if dropped == "network":
        # sysfs of the host's network namespace: as containers with host network do.
        bundle.config["mounts"] = [m for m in bundle.config["mounts"] if m["type"] not in ("sysfs", "cgroup")]
    if dropped == "ipc":
        bundle.config["mounts"] = [m for m in bundle.config["mounts"] if m["type"] != "mqueue"]
    container = runtime.start(bundle.namespaces(drop=(dropped,)).args("sleep", "1000"))
    for type, kind in KINDS.items():
        same = os.readlink(f"/proc/{container.pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")
        assert same == (type == dropped), type


def test_cgroup_namespace(runtime, bundle):
    bundle.namespaces(add=("cgroup",))
    container = runtime.start(bundle.shell("cat /proc/self/cgroup; sleep 1000"))
    assert os.readlink(f"/proc/{container.pid}/ns/cgroup") != os.readlink("/proc/self/ns/cgroup")
    wait_for(lambda: container.out(), "no output")
    mine = [line for line in container.out().splitlines() if ":memory:" in line or line.startswith("0::")]
    assert mine and all(line.endswith(":/") or line.startswith("0::") for line in mine), container.out()


def test_a_user_makes_its_own(runtime, bundle):
    """bubblewrap, sandboxes of browsers, rootless engines: the maps belong to the process's user."""
    bundle.linux.pop("seccomp", None)
    bundle.process["user"] = {"uid": 1000, "gid": 1000}
    bundle.process["capabilities"] = {}
    done = runtime.run(
        bundle.shell(
            "unshare -Ur unshare -Urm sh -c 'id -u; cat /proc/self/?id_map; mount -t tmpfs x /tmp && echo mounted'"
        )
    ).ok()
    assert done.out.split() == ["0", "0", "0", "1", "0", "0", "1", "mounted"]


@pytest.mark.parametrize("type", ["network", "ipc", "uts", "pid"])
def test_by_path(runtime, bundle, type):
    holder = subprocess.Popen(["unshare", "--net", "--ipc", "--uts", "--pid", "--fork", "sleep", "1000"])
    try:
        child = wait_for(
            lambda: open(f"/proc/{holder.pid}/task/{holder.pid}/children").read().split(),
            "unshare has no child",
        )[0]
        path = f"/proc/{child}/ns/{KINDS[type]}"
        wait_for(lambda: os.readlink(path) != os.readlink(f"/proc/self/ns/{KINDS[type]}"), "no new namespace")
        if type == "uts":
            del bundle.config["hostname"]
        container = runtime.start(bundle.namespace_path(type, path).args("sleep", "1000"))
        assert os.readlink(f"/proc/{container.pid}/ns/{KINDS[type]}") == os.readlink(path)
        container.call("delete", "--force").ok()
        # A pid namespace ends only when all its processes have been waited for, and this one is our child.
        container.wait()
    finally:
        subprocess.run(["kill", "-KILL", str(child)], check=False)
        holder.wait()


@pytest.fixture
def bound_namespace(tmp_path):
    """A namespace of the host by another name: a bind mount."""
    made = []

    def bind(kind):
        path = tmp_path / kind
        path.write_text("")
        subprocess.run(["mount", "--bind", f"/proc/self/ns/{kind}", path], check=True)
        made.append(path)
        return str(path)

    yield bind
    for path in made:
        subprocess.run(["umount", path], check=True)


@pytest.mark.parametrize("name", ["/proc/self/ns/net", "/proc/thread-self/ns/net", "bound"])
def test_sysctl_of_the_hosts_network_by_a_path(runtime, bundle, bound_namespace, name):
    """A path that leads to the host's namespace is no namespace of the container's own."""
    key = "/proc/sys/net/ipv4/ip_default_ttl"
    before = open(key).read()
    bundle.namespace_path("network", bound_namespace("net") if name == "bound" else name)
    bundle.linux["sysctl"] = {"net.ipv4.ip_default_ttl": "77"}
    done = runtime.run(bundle)
    after = open(key).read()
    open(key, "w").write(before)
    assert done.status == 1 and "net.ipv4.ip_default_ttl" in done.err and after == before, done


@pytest.mark.parametrize(
    ("type", "field", "value", "words"),
    [
        ("ipc", "sysctl", {"kernel.msgmax": "4321"}, "not allowed in the hosts ipc namespace"),
        ("ipc", "sysctl", {"fs.mqueue.msg_max": "77"}, "not allowed in the hosts ipc namespace"),
        ("uts", "sysctl", {"kernel.domainname": "x"}, "not allowed without a UTS namespace"),
        ("uts", "hostname", "x", "unable to set hostname without a private UTS namespace"),
        ("uts", "domainname", "x", "unable to set domainname without a private UTS namespace"),
        ("mount", "maskedPaths", ["/proc/kcore"], "unable to restrict sys entries without a private MNT"),
    ],
    ids=["msgmax", "mqueue", "sysctl domainname", "hostname", "domainname", "masked"],
)
def test_what_a_path_to_the_hosts_namespace_does_not_allow(
    runtime, bundle, bound_namespace, type, field, value, words
):
    """runc compares network namespaces only: it sets the host's values and names."""
    if runtime.name == "runc":
        return
    files = ("msgmax", "domainname", "hostname")
    before = [open(f"/proc/sys/kernel/{name}").read() for name in files]
    kind = KINDS[type]
    bundle.config.pop("hostname")
    bundle.linux["maskedPaths"] = bundle.linux["readonlyPaths"] = []
    bundle.namespace_path(type, f"/proc/self/ns/{kind}" if type == "mount" else bound_namespace(kind))
    (bundle.config if field.endswith("name") else bundle.linux)[field] = value
    done = runtime.run(bundle)
    assert done.status == 1 and words in done.err, done
    assert before == [open(f"/proc/sys/kernel/{name}").read() for name in files]


@pytest.mark.parametrize("type", ["network", "ipc", "uts", "pid"])
def test_the_hosts_by_a_path_is_inherited(runtime, bundle, bound_namespace, type):
    bundle.config.pop("hostname")
    bundle.config["mounts"] = [
        m for m in bundle.config["mounts"] if m["type"] not in ("sysfs", "cgroup", "mqueue")
    ]
    kind = KINDS[type]
    container = runtime.start(bundle.namespace_path(type, bound_namespace(kind)).args("sleep", "1000"))
    assert os.readlink(f"/proc/{container.pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")
    assert (
        container.exec("readlink", f"/proc/self/ns/{kind}").ok().out
        == os.readlink(f"/proc/self/ns/{kind}") + "\n"
    )


def test_the_hosts_cgroup_namespace_by_a_path(runtime, bundle):
    """A mount of type cgroup shows the container's cgroup then, not the whole hierarchy of the host."""
    if runtime.name == "runc":
        return  # it shows the host's
    bundle.namespace_path("cgroup", "/proc/self/ns/cgroup")
    tree = "/sys/fs/cgroup" + ("" if cgroup_v2() else "/pids")
    mount = {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["ro"]}
    mounts = [m for m in bundle.config["mounts"] if m["destination"] != "/sys/fs/cgroup"]
    bundle.config["mounts"] = [*mounts, mount]
    container = runtime.start(bundle.shell(f"read -r first <{tree}/cgroup.procs; echo $first; sleep 1000"))
    wait_for(container.out, "no output")
    assert container.out() == "1\n"


def test_path_that_is_not_a_namespace(runtime, bundle):
    done = runtime.run(bundle.namespace_path("network", "/etc/passwd"))
    assert done.status == 1 and done.err


def test_loopback_is_up(runtime, bundle):
    out = runtime.run(bundle.args("ip", "addr")).ok().out
    assert "LOOPBACK,UP" in out and "inet 127.0.0.1/8" in out
    assert runtime.run(bundle.args("ping", "-c", "1", "127.0.0.1")).status in (0, 1)


def test_only_loopback(runtime, bundle):
    assert [
        line.split(":")[0].strip()
        for line in runtime.run(bundle.args("cat", "/proc/net/dev")).ok().out.splitlines()[2:]
    ] == ["lo"]


MAPS = [{"containerID": 0, "hostID": 100000, "size": 65536}]


@pytest.fixture
def user_bundle(bundle):
    bundle.namespaces(add=("user",))
    bundle.linux["uidMappings"] = MAPS
    bundle.linux["gidMappings"] = MAPS
    subprocess.run(["chown", "-hR", "100000:100000", str(bundle.rootfs)], check=True)
    # The path down to the root must be searchable for the mapped root.
    path = bundle.path
    while path != path.parent:
        if path.stat().st_mode & 0o001 == 0:
            path.chmod(path.stat().st_mode | 0o011)
        path = path.parent
    return bundle


def test_oom_score_in_a_user_namespace(runtime, user_bundle):
    """dockerd --userns-remap gives one; root in there has no right to the files of its process in /proc. exec as well."""
    user_bundle.process["oomScoreAdj"] = 321
    container = runtime.start(user_bundle.args("sleep", "1000"))
    assert open(f"/proc/{container.pid}/oom_score_adj").read() == "321\n"
    # The same value, as dockerd's exec has it (runc takes the container's, whatever the process says).
    process = {**user_bundle.process, "args": ["cat", "/proc/self/oom_score_adj"]}
    file = user_bundle.path / "process.json"
    file.write_text(json.dumps(process))
    assert container.call("exec", options=("--process", str(file))).ok().out == "321\n"


def test_user_namespace(runtime, user_bundle):
    container = runtime.start(
        user_bundle.shell("id -u; cat /proc/self/uid_map; touch /made; echo end; sleep 1000")
    )
    wait_for(lambda: "end" in container.out(), "no output")
    assert container.out().split()[:4] == ["0", "0", "100000", "65536"]
    assert os.stat(user_bundle.rootfs / "made").st_uid == 100000
    assert os.stat(f"/proc/{container.pid}").st_uid in (0, 100000)
    assert os.readlink(f"/proc/{container.pid}/ns/user") != os.readlink("/proc/self/ns/user")


@pytest.mark.parametrize("user", [0, 1000])
def test_output_is_opened_again_in_a_user_namespace(runtime, user_bundle, user):
    """The pipes of a foreground are the container's: those of the host's root could be opened by nobody in there."""
    user_bundle.process["user"] = {"uid": user, "gid": user}
    script = "echo one > /dev/stdout; echo two > /proc/self/fd/2"
    done = runtime.run(user_bundle.shell(script))
    assert (done.status, done.out, done.err) == (0, "one\n", "two\n")
    container = runtime.start(user_bundle.args("sleep", "1000"))
    done = container.exec("sh", "-c", script, options=("--user", str(user)))
    assert (done.status, done.out, done.err) == (0, "one\n", "two\n")


def test_user_namespace_with_another_user(runtime, user_bundle):
    user_bundle.process["user"] = {"uid": 1000, "gid": 1000}
    assert runtime.run(user_bundle.shell("id -u; id -g")).ok().out == "1000\n1000\n"


def test_exec_in_a_user_namespace(runtime, user_bundle):
    container = runtime.start(user_bundle.args("sleep", "1000"))
    assert container.exec("sh", "-c", "id -u; cat /proc/self/uid_map").ok().out.split() == [
        "0",
        "0",
        "100000",
        "65536",
    ]


@pytest.mark.parametrize("runtime", ["runc", "krun"], indirect=True)
def test_a_user_namespace_in_the_hosts_pid_namespace(runtime, user_bundle):
    """podman run --pid host --userns auto: /proc is the host's, bound. Only the host's root may make a procfs of it."""
    user_bundle.namespaces(drop=("pid",))
    mounts = [mount for mount in user_bundle.config["mounts"] if mount["type"] not in ("proc", "sysfs")]
    user_bundle.config["mounts"] = [
        {
            "destination": "/proc",
            "type": "bind",
            "source": "/proc",
            "options": ["rbind", "nosuid", "noexec", "nodev"],
        },
        *mounts,
    ]
    script = f"test -d /proc/{os.getpid()} && grep -c hypervisor /proc/cpuinfo >/dev/null; cat /proc/self/comm; id -u; ls /proc/self/fd | wc -l; sleep 1000"
    container = runtime.start(user_bundle.shell(script))
    wait_for(lambda: len(container.out().splitlines()) == 3, "it does not speak")
    assert container.out().splitlines()[:2] == ["cat", "0"]
    assert open(f"/proc/{container.pid}/uid_map").read().split() == ["0", "100000", "65536"]
    assert os.readlink(f"/proc/{container.pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
    if runtime.name == "krun":  # the procfs that the monitor keeps is read-only here, too
        kept = [
            fd
            for fd in os.listdir(f"/proc/{container.pid}/fd")
            if os.readlink(f"/proc/{container.pid}/fd/{fd}") == "/"
        ]
        assert kept and all(os.statvfs(f"/proc/{container.pid}/fd/{fd}").f_flag & os.ST_RDONLY for fd in kept)
    assert container.exec("sh", "-c", "id -u; cat /proc/self/comm").ok().out == "0\ncat\n"


@pytest.fixture
def outside():
    """A process with namespaces of its own that belong to the host's user namespace; its pid."""
    with subprocess.Popen(["unshare", "--net", "--uts", "--fork", "--time", "sleep", "1000"]) as process:
        try:
            at = f"/proc/{process.pid}/task/{process.pid}/children"
            child = wait_for(lambda: open(at).read().split(), "unshare has no child")[0]
            wait_for(lambda: open(f"/proc/{child}/comm").read() == "sleep\n", "it does not sleep")
            yield child
        finally:
            subprocess.run(["kill", "-KILL", child], check=False)


JOINED = {"network": "net", "uts": "uts", "time": "time"}


@pytest.mark.parametrize(
    ("runtime", "kinds"),
    [
        ("runc", ("network",)),
        ("krun", ("network",)),
        ("krun", ("network", "uts")),
        ("krun", ("network", "time")),
    ],
    indirect=["runtime"],
)
def test_namespaces_of_the_host_for_a_new_user_namespace(runtime, user_bundle, outside, kinds):
    """An engine's network namespace, and a user namespace for the container alone: they are joined before it is made. (runc 1.1 knows no
    time namespace, and asks for more where others are joined.)"""
    del user_bundle.config["hostname"]
    config = user_bundle.config
    config["mounts"] = [
        mount for mount in config["mounts"] if mount["type"] != "sysfs"
    ]  # the network's owner may mount it
    for kind in kinds:
        user_bundle.namespace_path(kind, f"/proc/{outside}/ns/{JOINED[kind]}")
    container = runtime.start(user_bundle.args("sleep", "1000"))
    for kind in kinds:
        mine, theirs = (os.readlink(f"/proc/{pid}/ns/{JOINED[kind]}") for pid in (container.pid, outside))
        assert mine == theirs, kind
    assert open(f"/proc/{container.pid}/uid_map").read().split() == ["0", "100000", "65536"]
    if (
        runtime.name == "krun"
    ):  # runc 1.1 enters the user namespace first, and then has no right to enter the others
        assert container.exec("id", "-u").ok().out == "0\n"


ALL = {**KINDS, "user": "user", "cgroup": "cgroup", "time": "time"}
BY_PATH = [
    ("user",),
    ("user", "network"),
    ("user", "network", "ipc", "uts"),
    ("user", "pid"),
    ("user", "mount"),
    ("mount",),
    ("pid", "mount", "network", "ipc", "uts"),
    ("cgroup", "time"),
    ("time",),
    ("user", "time"),
    ("user", "pid", "network", "ipc", "uts", "cgroup", "time"),
    ("user", "pid", "mount", "network", "ipc", "uts", "cgroup", "time"),
]


@pytest.fixture
def holder():
    """A process with a namespace of each kind of its own, ids mapped; its pid."""
    process = subprocess.Popen(
        [
            "unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--net", "--ipc", "--uts", "--cgroup", "--time",
            "sh", "-c", "mount -t proc proc /proc; exec sleep 1000",
        ]
    )  # fmt: skip
    child = 0
    try:
        child = int(
            wait_for(
                lambda: open(f"/proc/{process.pid}/task/{process.pid}/children").read().split(),
                "unshare has no child",
            )[0]
        )
        wait_for(lambda: open(f"/proc/{child}/comm").read() == "sleep\n", "it does not sleep")
        yield child
    finally:
        if child:
            subprocess.run(["kill", "-KILL", str(child)], check=False)
        process.wait()


@pytest.mark.parametrize("kinds", BY_PATH, ids="+".join)
@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_several_by_path(runtime, bundle, holder, kinds):
    """Those that are named are the holder's, the others new; exec is in the same. (runc 1.1 knows no time namespace, and
    refuses most of these.)"""
    del bundle.config["hostname"]
    bundle.config["mounts"] = [m for m in bundle.config["mounts"] if m["type"] != "cgroup"]
    if "user" in kinds:
        # The holder's root is the only id that is mapped: a mount of devpts for group 5 has no owner there.
        for mount in bundle.config["mounts"]:
            mount["options"] = [word for word in mount.get("options", []) if word != "gid=5"]
        bundle.linux["resources"] = {}
    if "mount" in kinds:
        # The root must be a mount there; the holder's tree goes with it, as with runc.
        bundle.linux["maskedPaths"] = bundle.linux["readonlyPaths"] = []
    new = tuple(k for k in ("pid", "network", "ipc", "uts", "mount") if k not in kinds)
    bundle.namespaces(drop=tuple(ALL), add=new)
    for kind in kinds:
        bundle.linux["namespaces"].append({"type": kind, "path": f"/proc/{holder}/ns/{ALL[kind]}"})
    theirs = {kind: os.readlink(f"/proc/{holder}/ns/{ALL[kind]}") for kind in ALL}
    container = runtime.start(bundle.args("sleep", "1000"))
    try:
        script = "for n in $0 $@; do readlink /proc/self/ns/$n; done"
        out = container.exec("sh", "-c", script, *ALL.values()).ok().out.split()
        inside = dict(zip(ALL, out, strict=True))
        for kind in ALL:
            mine = os.readlink(f"/proc/{container.pid}/ns/{ALL[kind]}")
            assert (mine == theirs[kind]) == (kind in kinds), kind
            assert inside[kind] == mine, kind
            if kind in new:
                assert mine != os.readlink(f"/proc/self/ns/{ALL[kind]}"), kind
    finally:
        container.call("delete", "--force").ok()
        # A pid namespace ends only when all its processes have been waited for, and this one is our child.
        container.wait()


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_a_neighbour_stops_what_is_being_created(runtime, bundle, tmp_path):
    """In a shared pid namespace it may send SIGSTOP to the process on its way, and `create` waits; `delete --force` ends that. After runc's the
    cgroups are there, and `runc create` waits."""
    hostile = runtime.start(bundle.shell("echo on; while :; do kill -STOP -1; done"))
    wait_for(lambda: "on" in hostile.out(), "no neighbour")
    other = Bundle(tmp_path / "other", root=bundle.rootfs)
    other.namespace_path("pid", f"/proc/{hostile.pid}/ns/pid")
    container = runtime.new(other.args("sleep", "1000"))
    null = subprocess.DEVNULL
    with subprocess.Popen(
        container.argv("create"), stdin=null, stdout=null, stderr=null, env=runtime.environment
    ) as create:
        try:
            wait_for((runtime.root / container.id).exists, "no state directory")
            time.sleep(1)
            assert create.poll() is None, "it was not stopped"
            container.call("delete", "--force").ok()
            assert create.wait(10) == 1 and container.left() == []
        finally:
            create.kill()
            container.call("delete", "--force")

"""Control groups: arithmetic and files without a host, then this host's own."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from pathlib import Path

import pytest

from krun import fileio
from krun.errors import KrunError, SysError
from krun.log import Log
from krun.oci.cgroup import bpf, convert, devices, files, systemd, tree, v1, v2
from krun.oci.cgroup import group as cgroups
from krun.oci.cgroup.stats import blkio_rows
from krun.oci.cgroup.tree import signal_all

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def test_a_number_that_is_no_longer_of_the_group_gets_no_signal(tmp_path, monkeypatch):
    """The host may have given it to another process since the group was listed."""
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(["cat"], stdin=pipe) as inside,
        subprocess.Popen(["cat"], stdin=pipe, stdout=pipe) as outside,
    ):
        try:
            procs = tmp_path / "cgroup.procs"
            procs.write_text(f"{inside.pid}\n{outside.pid}\n")
            listed = iter([procs.read_text(), f"{inside.pid}\n"])
            monkeypatch.setattr(tree, "read", lambda name, fd: next(listed))
            assert signal_all(str(tmp_path), 15) == 2
            assert inside.wait() == -15
            # A signal would come before anything else that it does.
            assert (outside.communicate(b"x"), outside.returncode) == ((b"x", None), 0)
        finally:
            inside.kill()
            outside.kill()


@pytest.mark.parametrize("looks", [3, 1000], ids=["a while", "for ever"])
def test_groups_that_are_renamed_while_they_are_listed(tmp_path, monkeypatch, looks):
    """A group that was not found is no empty group: kill would return, and the process would live."""
    (tmp_path / "n0").mkdir()
    (tmp_path / "n0/cgroup.procs").write_text(f"{os.getpid()}\n")
    names = iter(range(looks))

    def listed(cursor):
        found = [entry.name for entry in os.scandir(cursor.fd) if entry.is_dir()]
        if found and (number := next(names, None)) is not None:
            os.rename(tmp_path / f"n{number}", tmp_path / f"n{number + 1}")
            return found if number % 2 else []
        return found

    monkeypatch.setattr(tree.Cursor, "directories", listed)
    (tmp_path / "cgroup.procs").touch()
    lost = []
    assert len(list(tree.groups(str(tmp_path), lost))) == (2 if looks == 3 else 1)
    assert lost == ([] if looks == 3 else [str(tmp_path)])
    names = iter(()) if looks == 3 else names
    assert signal_all(str(tmp_path), 0) == 1


def test_paths_cannot_climb():
    assert files.clean("/a/../../b") == "/b"
    assert files.clean("../../x/./y") == "x/y"
    assert files.clean("//a//b/") == "/a/b"
    assert files.clean("") == ""


@pytest.mark.parametrize(
    ("shares", "weight"), [(0, 1), (2, 1), (1024, 100), (262144, 10000), (1 << 30, 10000)]
)
def test_weight_meets_the_fixed_points(shares, weight):
    assert convert.cpu_weight(shares) == weight


def test_weight_rises():
    values = [convert.cpu_weight(shares) for shares in range(2, 5000, 7)]
    assert values == sorted(values)


@pytest.mark.parametrize(
    ("limit", "swap", "want"),
    [
        (None, None, None),
        (100, None, None),
        (100, 100, "0"),
        (100, 150, "50"),
        (100, -1, "max"),
        (-1, None, "max"),
    ],
)
def test_swap_of_v2(limit, swap, want):
    assert convert.swap_max(swap, {"limit": limit}) == want


def test_swap_that_cannot_be():
    with pytest.raises(KrunError, match="without memory limit"):
        convert.swap_max(100, {"limit": None})
    with pytest.raises(KrunError, match="must be >= memory limit"):
        convert.swap_max(100, {"limit": 200})


# --- v2 by files: a directory plays the cgroup
# -----------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    for name in (
        "memory.max memory.low memory.swap.max memory.current cpu.weight cpu.max cpu.max.burst cpu.idle pids.max "
        "cpuset.cpus cpuset.mems io.weight io.max hugetlb.2MB.max hugetlb.2MB.rsvd.max rdma.max cgroup.controllers"
    ).split():
        (tmp_path / name).write_text("")
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "memory.current").write_text("5000\n")
    (tmp_path / "cpu.max").write_text("max 100000\n")
    return tmp_path


def limit(folder, resources):
    v2.limit({"": str(folder)}, resources, Log())
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_limit_of_no_processes_is_one(folder):
    """systemd refuses TasksMax=0."""
    assert limit(folder, {"pids": {"limit": 0}})["pids.max"] == "1"
    assert systemd.limits({"pids": {"limit": 0}}, True) == [("TasksMax", ("t", 1))]


def test_v2_writes_every_limit(folder):
    files = limit(
        folder,
        {
            "memory": {"limit": 9000, "swap": 10000, "reservation": 100},
            "cpu": {"shares": 1024, "quota": 5000, "period": 50000, "burst": 7, "cpus": "0-1", "mems": "0"},
            "pids": {"limit": -1},
            "blockIO": {"weight": 10, "throttleReadBpsDevice": [{"major": 8, "minor": 0, "rate": 1000}]},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 4096}],
            "rdma": {"mlx5_1": {"hcaHandles": 3, "hcaObjects": 4}},
            "unified": {"cgroup.controllers": "x"},
        },
    )
    assert (
        files["memory.max"] == "9000" and files["memory.swap.max"] == "1000" and files["memory.low"] == "100"
    )
    assert files["cpu.weight"] == "100" and files["cpu.max.burst"] == "7"
    assert files["cpu.max"].startswith("5000 50000")
    assert files["cpuset.cpus"] == "0-1" and files["pids.max"] == "max"
    assert files["io.weight"] == "default 1" and files["io.max"] == "8:0 rbps=1000"
    assert files["hugetlb.2MB.max"] == files["hugetlb.2MB.rsvd.max"] == "4096"
    assert files["rdma.max"] == "mlx5_1 hca_handle=3 hca_object=4"


def test_bytes_that_are_no_utf8_reach_the_file(tmp_path):
    """config.json may have them, as "\\udcff" (jsonio.py): the kernel refuses them, as it does with runc."""
    for name in ("put", "write"):
        (tmp_path / name).write_text("")
    files.put(f"{tmp_path}/put", "1\udcff")
    fileio.write_file(f"{tmp_path}/write", "1\udcff")
    assert (tmp_path / "put").read_bytes() == (tmp_path / "write").read_bytes() == b"1\xff"


def test_page_sizes_are_no_paths(folder):
    (folder / "hugetlb.").mkdir()
    with pytest.raises(KrunError, match="must not have a slash"):
        limit(folder, {"hugepageLimits": [{"pageSize": "/../pids", "limit": 1}]})
    assert (folder / "pids.max").read_text() == ""


def test_v2_period_alone_keeps_the_quota(folder):
    assert limit(folder, {"cpu": {"period": 20000}})["cpu.max"].startswith("max 20000")


def test_v2_refusals(folder):
    with pytest.raises(KrunError, match="rejecting memory limit 10, since current usage 5000"):
        limit(folder, {"memory": {"limit": 10, "checkBeforeUpdate": True}})
    with pytest.raises(KrunError, match="no slashes"):
        limit(folder, {"unified": {"../x": "1"}})
    with pytest.raises(KrunError, match="controller 'hugetlb' not available"):
        limit(folder, {"unified": {"hugetlb.1GB.max": "1"}})
    with pytest.raises(SysError, match="write cgroup file .*/memory.high: no such file or directory"):
        limit(folder, {"unified": {"memory.high": "1"}})
    with pytest.raises(KrunError, match="realtime"):
        limit(folder, {"cpu": {"realtimeRuntime": 5}})


# --- device rules
# ----------------------------------------------------------------------------------------------------


def test_rules_begin_with_nothing_and_end_with_the_defaults():
    rules = devices.device_rules({"devices": [{"allow": True, "type": "c", "major": 10, "minor": 232}]})
    assert rules[0] == (False, "a", None, None, "rwm")
    assert rules[1] == (True, "c", 10, 232, "rwm")
    assert rules[2:] == [(True, *rule) for rule in devices.DEFAULT_DEVICES]
    assert devices.device_rules(None)[0][0] is False
    for bad in ({"type": "x"}, {"access": "rz"}):
        with pytest.raises(KrunError, match="device rule"):
            devices.device_rules({"devices": [bad]})


def simulate(code: bytes, kind: int, access: int, major: int, minor: int) -> int:
    """A tiny interpreter of the instructions that assemble() uses."""
    registers = [0] * 6
    context = {0: kind | access << 16, 4: major, 8: minor}
    at = 0
    while True:
        op, regs = code[at * 8], code[at * 8 + 1]
        offset = int.from_bytes(code[at * 8 + 2 : at * 8 + 4], "little", signed=True)
        value = int.from_bytes(code[at * 8 + 4 : at * 8 + 8], "little", signed=True)
        target, source = regs & 15, regs >> 4
        at += 1
        match op:
            case 0x61:
                registers[target] = context[offset]
            case 0xBF:
                registers[target] = registers[source]
            case 0xB7:
                registers[target] = value
            case 0x57:
                registers[target] &= value
            case 0x77:
                registers[target] >>= value
            case 0x15:
                at += offset if registers[target] == value else 0
            case 0x55:
                at += offset if registers[target] != value else 0
            case 0x95:
                return registers[0]
            case _:
                raise AssertionError(hex(op))


def asked(rules, kind, access, major, minor):
    """What the rules mean: the last that speaks of the request."""
    wanted = {letter for letter, bit in (("m", 1), ("r", 2), ("w", 4)) if access & bit}
    for allow, rule_kind, rule_major, rule_minor, rule_access in reversed(rules):
        if rule_kind == "a" and rule_major is None and rule_minor is None:
            return allow
        same = rule_kind in ("a", "b" if kind == 1 else "c")
        same = same and rule_major in (None, major) and rule_minor in (None, minor)
        if same and (wanted <= set(rule_access) if allow else wanted & set(rule_access)):
            return allow
    return False


@pytest.mark.parametrize(
    "listed",
    [
        [],
        [{"allow": False, "access": "rwm"}],
        [{"allow": True}, {"allow": False, "type": "c", "major": 1, "access": "w"}],
        [
            {"allow": True, "type": "b", "access": "r"},
            {"allow": True, "type": "c", "major": 10, "access": "rw"},
        ],
        [{"allow": True, "type": "a", "major": 7, "minor": 1}, {"allow": False, "minor": 3, "access": "m"}],
        [{"allow": True, "type": "c", "major": (1 << 32) - 1, "minor": 1 << 31}],
    ],
)
def test_the_program_decides_as_the_rules(listed):
    rules = devices.device_rules({"devices": listed})
    for some in (rules, rules[: 1 + len(listed)]):
        code = bpf.assemble(some)
        for kind in (1, 2):
            for access in range(1, 8):
                for major in (1, 5, 7, 8, 10, 136):
                    for minor in (0, 1, 3, 9):
                        got = simulate(code, kind, access, major, minor)
                        assert got == asked(some, kind, access, major, minor), (kind, access, major, minor)


@root
def test_the_kernel_takes_the_program():
    tree = "/sys/fs/cgroup" if files.host_layout() == "v2" else files.HYBRID
    if not os.path.exists(tree + "/cgroup.procs"):
        pytest.skip("no cgroup v2 tree on this host")
    path = f"{tree}/krun-test-bpf-{os.getpid()}"
    os.mkdir(path)
    try:
        bpf.attach(path, devices.device_rules(None)[:1] + [(True, "c", 1, 3, "r")])
        script = f"echo 0 > {path}/cgroup.procs; : < /dev/null && echo r; (: > /dev/null) || echo no"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        assert done.stdout == "r\nno\n"
    finally:
        for _ in range(100):
            try:
                os.rmdir(path)
                break
            except OSError:
                time.sleep(0.01)


# --- this host
# -------------------------------------------------------------------------------------------------------


@pytest.fixture
def name():
    found = f"/krun-test-{os.getpid()}-{time.monotonic_ns()}"
    yield found
    assert not os.path.exists(f"/sys/fs/cgroup/pids{found}"), "left behind"
    assert not os.path.exists(f"/sys/fs/cgroup{found}"), "left behind"


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


RESOURCES = {
    "memory": {"limit": 64 << 20, "swap": 128 << 20, "reservation": 1 << 20},
    "cpu": {"shares": 512, "quota": 20000, "period": 100000},
    "pids": {"limit": 20},
}


@root
def test_life_of_a_cgroup(name, sleeper):
    cgroup = cgroups.create(name, RESOURCES, "box", Log())
    try:
        cgroup.join(sleeper.pid)
        assert cgroup.procs() == [sleeper.pid]
        again = cgroups.Cgroup.load(cgroup.paths, Log(), cgroup.manager)
        with pytest.raises(KrunError, match="is not empty: 1 process"):
            cgroups.create(name, None, "box", Log())
        again.freeze()
        assert again.frozen()
        with pytest.raises(KrunError, match="unexpectedly frozen"):
            cgroups.create(name, None, "box", Log())
        again.thaw()
        assert not again.frozen()
        again.apply({"pids": {"limit": -1}, "memory": {"limit": 32 << 20, "swap": 32 << 20}})
        stats = again.stats()
        assert stats["memory"]["usage"]["limit"] == 32 << 20
        assert stats["pids"] == {"current": 1}
        assert again.oom_kills() == 0
        begin = time.monotonic()
        again.freeze()
        again.kill()
        assert sleeper.wait() == -9, "a frozen process dies as well"
        assert time.monotonic() - begin < 5
        assert again.procs() == []
    finally:
        cgroup.kill()
        cgroup.destroy()
    cgroup.destroy()
    assert cgroup.procs() == [] and not cgroup.frozen()


@root
def test_what_the_payload_made_below_goes_too(name, sleeper):
    cgroup = cgroups.create(name, None, "box", Log())
    for path in cgroup.directories():
        os.makedirs(path + "/deep/deeper")
    cgroup.kill()
    cgroup.destroy()


def nest(path: str, depth: int, name: str) -> int:
    """Make groups in one another, of any depth. Return a descriptor of the innermost."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    return fd


def freezer_or_v2(cgroup: cgroups.Cgroup) -> str:
    return cgroup.paths.get("freezer") or cgroup.paths[""]


@root
@pytest.mark.parametrize(("depth", "name_below"), [(1500, "d"), (400, "n" * 200)], ids=["calls", "PATH_MAX"])
def test_groups_nested_deeper_than_calls_and_paths(name, sleeper, depth, name_below):
    """Every verb works, whatever the payload has made: a walk holds one descriptor and makes no call of its own."""
    cgroup = cgroups.create(name, None, "box", Log())
    try:
        innermost = nest(freezer_or_v2(cgroup), depth, name_below)
        files.put("cgroup.procs", sleeper.pid, innermost)
        os.close(innermost)
        assert cgroup.procs() == [sleeper.pid]
        cgroup.freeze()
        assert cgroup.frozen()
        cgroup.thaw()
        cgroup.stats()
        cgroup.kill(0)
        cgroup.kill()
        assert sleeper.wait() == -9
    finally:
        cgroup.kill()
        cgroup.destroy()
    assert not os.path.exists(freezer_or_v2(cgroup))


@root
def test_many_groups_beside_one_another(name, sleeper):
    cgroup = cgroups.create(name, None, "box", Log())
    try:
        top = freezer_or_v2(cgroup)
        for number in range(3000):
            os.mkdir(f"{top}/g{number}")
            os.mkdir(f"{top}/g{number}/below")
        files.put(f"{top}/g1234/below/cgroup.procs", sleeper.pid)
        assert cgroup.procs() == [sleeper.pid]
    finally:
        cgroup.kill()
        # What may be slept is used up by groups that are busy, not by groups that are many.
        cgroup.destroy(0.1)
    assert not os.path.exists(top)


@root
@pytest.mark.skipif(files.host_layout() == "v2", reason="a frozen process of v2 dies of SIGKILL")
def test_a_group_that_the_payload_has_frozen_itself(name, sleeper):
    """cgroup-v1/freezer-subsystem: the thaw of a parent leaves a child frozen that was frozen by itself."""
    cgroup = cgroups.create(name, None, "box", Log())
    try:
        below = cgroup.paths["freezer"] + "/a/b"
        os.makedirs(below)
        files.put(below + "/cgroup.procs", sleeper.pid)
        files.put(below + "/freezer.state", "FROZEN")
        files.put(cgroup.paths["freezer"] + "/a/freezer.state", "FROZEN")
        cgroup.kill()
        assert sleeper.wait() == -9
    finally:
        cgroup.kill()
        cgroup.destroy()


@root
def test_a_limit_that_cannot_be_set_leaves_nothing(name):
    with pytest.raises(KrunError):
        cgroups.create(name, {"cpu": {"period": 1}}, "box", Log())
    with pytest.raises(KrunError):
        cgroups.create(name, {"memory": {"limit": 100 << 20, "swap": 1 << 20}}, "box", Log())


@root
@pytest.mark.skipif(files.host_layout() == "v2", reason="v1 only")
def test_v1_refusals(name):
    for resources, words in (
        ({"unified": {"memory.max": "1"}}, "no cgroup v2"),
        ({"cpu": {"shares": 1}}, "the minimum allowed cpu-shares is 2"),
        ({"memory": {"swappiness": 101}}, "use 0 to 100"),
        ({"rdma": {"x": {"hcaHandles": 1}}}, "rdma cgroup controller is not mounted"),
    ):
        with pytest.raises(KrunError, match=words):
            cgroups.create(name, resources, "box", Log())


@root
@pytest.mark.skipif(files.host_layout() == "v2", reason="v1 only")
def test_v1_device_list(name):
    cgroup = cgroups.create(
        name, {"devices": [{"allow": True, "type": "c", "major": 10, "minor": 232}]}, "box", Log()
    )
    try:
        lines = files.read(cgroup.paths["devices"] + "/devices.list").split("\n")
        assert lines[0] == "c 10:232 rwm"
        assert len(lines) == 1 + len(devices.DEFAULT_DEVICES)
    finally:
        cgroup.destroy()


def test_v1_device_rules_are_written_in_order_through_one_descriptor_each(tmp_path, monkeypatch):
    for file in ("devices.allow", "devices.deny"):
        (tmp_path / file).touch()
    opened, written = {}, []
    plain_open, plain_write = os.open, os.write

    def opening(path, flags, *rest, **more):
        fd = plain_open(path, flags, *rest, **more)
        assert fd not in opened
        opened[fd] = os.path.basename(path)
        return fd

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(
        os, "write", lambda fd, data: (written.append((opened[fd], data.decode())), plain_write(fd, data))[1]
    )
    deny_all = {"allow": False, "access": "rwm"}
    listed = [deny_all, {"allow": True, "type": "c", "major": 10, "minor": 232}, deny_all]
    v1.devices(
        {"devices": str(tmp_path)}, devices.device_rules({"devices": listed}), rootless=False, log=Log()
    )
    assert written[:3] == [("devices.deny", "a"), ("devices.allow", "c 10:232 rwm"), ("devices.deny", "a")]
    assert written[3] == ("devices.allow", "c *:* m") and len(written) == 3 + len(devices.DEFAULT_DEVICES)
    assert sorted(opened.values()) == ["devices.allow", "devices.deny"]


@pytest.mark.parametrize("missing", ["devices.allow", "devices.deny"])
def test_v1_device_file_that_is_not_there_is_named(tmp_path, missing):
    for file in {"devices.allow", "devices.deny"} - {missing}:
        (tmp_path / file).touch()
    with pytest.raises(SysError, match=missing):
        v1.devices({"devices": str(tmp_path)}, devices.device_rules(None), rootless=False, log=Log())


@root
def test_destroy_says_who_is_in_the_way(name, sleeper):
    cgroup = cgroups.create(name, None, "box", Log())
    cgroup.join(sleeper.pid)
    with pytest.raises(SysError, match="remove cgroup .*1 process"):
        cgroup.destroy(0.05)
    cgroup.kill()
    cgroup.destroy()


def test_thaw_of_a_group_that_is_gone(tmp_path):
    """Its last process was killed, and systemd has taken the scope away; to freeze it is an error."""
    paths = {"": str(tmp_path / "gone")}
    v2.freeze(paths, False)
    with pytest.raises(SysError, match="no such file"):
        v2.freeze(paths, True)
    # Told to thaw, and gone before it has said so.
    half = tmp_path / "half"
    half.mkdir()
    (half / "cgroup.freeze").write_text("1")
    v2.freeze({"": str(half)}, False)


def test_disabled_has_nothing():
    cgroup = cgroups.create("/x", {"pids": {"limit": 1}}, "box", Log(), "disabled")
    cgroup.join(1)
    cgroup.kill()
    cgroup.destroy()
    assert cgroup.paths == {} and cgroup.procs() == [] and cgroup.stats() == {}
    with pytest.raises(KrunError, match="has no cgroup"):
        cgroup.freeze()
    with pytest.raises(KrunError, match="has no cgroup"):
        cgroup.apply({"pids": {"limit": 1}})


def test_places(monkeypatch):
    mountinfo = (
        "1 0 0:1 / / rw - ext4 /dev/a rw\n"
        "30 1 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "31 1 0:31 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "32 1 0:32 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd"
    )
    own = "3:cpu,cpuacct:/me\n2:memory:/docker/x/me\n1:name=systemd:/\n0::/"
    texts = {"/proc/self/mountinfo": mountinfo, "/proc/self/cgroup": own}
    for module in (files, v1):
        monkeypatch.setattr(module, "read", texts.__getitem__)
    monkeypatch.setattr(v1.os.path, "exists", lambda path: False)
    assert v1.place("/a/b") == {
        "cpu": "/sys/fs/cgroup/cpu,cpuacct/a/b",
        "cpuacct": "/sys/fs/cgroup/cpu,cpuacct/a/b",
        "memory": "/sys/fs/cgroup/memory/a/b",
        "name=systemd": "/sys/fs/cgroup/systemd/a/b",
    }
    assert v1.place("c")["cpu"] == "/sys/fs/cgroup/cpu,cpuacct/me/c"
    assert v1.place("c")["memory"] == "/sys/fs/cgroup/memory/me/c", "seen through a bind mount"
    monkeypatch.setattr(files, "read", {"/proc/self/cgroup": "0::/user/me"}.__getitem__)
    assert v2.place("c") == {"": "/sys/fs/cgroup/user/c"}
    assert v2.place("/c") == {"": "/sys/fs/cgroup/c"}


def test_lists_and_rows(tmp_path):
    assert files.cpu_list("0-2,5\n".strip()) == [0, 1, 2, 5]
    assert files.cpu_list("") == []
    (tmp_path / "io").write_text("8:0 Read 4096\n8:0 Total 4096\nTotal 4096\n")
    assert blkio_rows(str(tmp_path / "io"))[0] == {
        "major": 8,
        "minor": 0,
        "op": "Read",
        "value": 4096,
    }


def _trees(module: object, root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The place of a group in plain directories, of which the first one is there."""
    (root / "a").mkdir()
    if module is v2:
        monkeypatch.setattr(v2, "MOUNT", str(root))
        return {"": f"{root}/a/b/c"}
    return {"memory": f"{root}/a/b/c"}


@pytest.mark.parametrize("driver", [v1, v2])
def test_make_gives_what_it_made_deepest_first(driver, tmp_path, monkeypatch) -> None:
    paths = _trees(driver, tmp_path, monkeypatch)
    log = Log()
    assert driver.make(paths, log) == [f"{tmp_path}/a/b/c", f"{tmp_path}/a/b"]
    assert driver.make(paths, log) == []


@pytest.mark.parametrize("driver", [v1, v2])
def test_make_that_fails_leaves_nothing(driver, tmp_path, monkeypatch) -> None:
    paths = _trees(driver, tmp_path, monkeypatch)
    real = os.mkdir

    def mkdir(path: str, mode: int) -> None:
        if path.endswith("/c") and os.path.isdir(os.path.dirname(path)):
            raise OSError(errno.ENOSPC, "no room")
        real(path, mode)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(SysError, match=r"make cgroup .*/a/b/c"):
        driver.make(paths, Log())
    assert os.listdir(tmp_path / "a") == []


def test_a_cgroup_that_is_gone_is_not_called_a_missing_controller(tmp_path):
    with pytest.raises(SysError, match="the cgroup does not exist"):
        files.write(str(tmp_path / "gone"), "freezer.state", "FROZEN")
    with pytest.raises(SysError, match="does not offer this controller"):
        files.write(str(tmp_path), "freezer.state", "FROZEN")


def test_a_cgroup_that_goes_while_it_is_frozen_is_an_error_of_krun(monkeypatch):
    def freeze(paths: object, stop: bool) -> None:
        raise FileNotFoundError(errno.ENOENT, "gone", "/gone/freezer.state")

    monkeypatch.setattr(v1, "freeze", freeze)
    with pytest.raises(SysError, match="freeze cgroup"):
        cgroups.Cgroup({"freezer": "/gone"}, Log()).freeze()

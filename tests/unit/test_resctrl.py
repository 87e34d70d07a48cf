"""linux.intelRdt against a tree that has the files of resctrl: no machine here has the real one."""

from __future__ import annotations

import os
import subprocess

import pytest

from krun.errors import ConfigError, KrunError, SysError
from krun.log import Log
from krun.oci import resctrl
from krun.oci.state import ContainerState

SCHEMATA = "    L3:0=fffff;1=fffff\n    MB:0= 100;1= 100\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A resctrl tree: mkdir fills a directory, rmdir takes it with its files, as the kernel does."""
    tree = tmp_path / "resctrl"
    real = os.mkdir

    def fill(path):
        for name, text in (("schemata", SCHEMATA), ("tasks", "")):
            with open(f"{path}/{name}", "w") as file:
                file.write(text)
        real(f"{path}/mon_groups")
        real(f"{path}/mon_data")
        for node in ("mon_L3_00", "mon_L3_01"):
            real(f"{path}/mon_data/{node}")
            for name, value in (("llc_occupancy", 4096), ("mbm_total_bytes", 7), ("mbm_local_bytes", 5)):
                with open(f"{path}/mon_data/{node}/{name}", "w") as file:
                    file.write(f"{value}\n")

    def mkdir(path, mode=0o777, **more):
        real(path, mode, **more)
        if str(path).startswith(str(tree)):
            fill(path)

    def rmdir(path, **more):
        assert str(path).startswith(str(tree) + "/")
        if not os.path.isdir(path):
            raise FileNotFoundError(2, "gone", path)
        subprocess.run(["rm", "-r", path], check=True)

    def write(path, text, dirfd=None):
        # A write replaces what such a file shows.
        assert os.path.isfile(path)
        with open(path, "w") as file:
            file.write(text)

    real(tree)
    fill(tree)
    real(tree / "info")
    for name, files in {
        "L3": {"cbm_mask": "fffff", "min_cbm_bits": "1", "num_closids": "16"},
        "MB": {"bandwidth_gran": "10", "delay_linear": "1", "min_bandwidth": "10", "num_closids": "8"},
        "L3_MON": {"num_rmids": "144"},
    }.items():
        real(tree / "info" / name)
        for file, text in files.items():
            (tree / "info" / name / file).write_text(text + "\n")
    (tree / "info" / "last_cmd_status").write_text("ok\n")
    monkeypatch.setattr(os, "mkdir", mkdir)
    monkeypatch.setattr(os, "rmdir", rmdir)
    monkeypatch.setattr(resctrl, "write_file", write)
    return str(tree)


@pytest.fixture
def state():
    return ContainerState(id="c1")


def create(wanted, state, root):
    saved = []
    resctrl.check(wanted)
    resctrl.create(wanted, state, lambda: saved.append(list(state.intel_rdt_made)), root)
    return saved


def read(path):
    with open(path) as file:
        return file.read()


def test_a_class_of_its_own(root, state):
    """Without closID: a directory with the container's id; on disk before it is made; gone with the container."""
    saved = create({"l3CacheSchema": "L3:0=7f0;1=1f", "memBwSchema": "MB:0=20;1=70"}, state, root)
    path = f"{root}/c1"
    assert saved == [[path]] and state.intel_rdt == path
    assert read(f"{path}/schemata") == "L3:0=7f0;1=1f\nMB:0=20;1=70\n"
    resctrl.join(state, 4711)
    assert read(f"{path}/tasks") == "4711" and read(f"{root}/tasks") == ""
    resctrl.remove(state, Log())
    assert not os.path.exists(path)
    resctrl.remove(state, Log())


def test_bandwidth_of_the_cache_schema_gives_way(root, state):
    create({"closID": "gold", "l3CacheSchema": "L3:0=f\nMB:0=50", "memBwSchema": "MB:0=20"}, state, root)
    assert read(f"{root}/gold/schemata") == "L3:0=f\nMB:0=20\n"


def test_schemata_come_last(root, state):
    create({"closID": "gold", "l3CacheSchema": "L3:0=f", "schemata": ["L2:0=3", "MB:0=30"]}, state, root)
    assert read(f"{root}/gold/schemata") == "L3:0=f\nL2:0=3\nMB:0=30\n"


def test_a_class_that_is_there(root, state):
    """It is joined, compared, not written, not removed."""
    os.mkdir(f"{root}/gold")
    saved = create({"closID": "gold", "l3CacheSchema": "L3:0=0fffff", "memBwSchema": "MB:1=100"}, state, root)
    assert saved == [] and state.intel_rdt_made == [] and read(f"{root}/gold/schemata") == SCHEMATA
    resctrl.remove(state, Log())
    assert os.path.isdir(f"{root}/gold")


@pytest.mark.parametrize(
    ("field", "text"),
    [("l3CacheSchema", "L3:0=f"), ("l3CacheSchema", "L3:7=fffff"), ("memBwSchema", "MB:0=20")],
)
def test_a_class_that_is_there_and_differs(root, state, field, text):
    os.mkdir(f"{root}/gold")
    with pytest.raises(KrunError, match="config.json wants"):
        create({"closID": "gold", field: text}, state, root)
    assert read(f"{root}/gold/schemata") == SCHEMATA and state.intel_rdt_made == []


def test_the_default_class(root, state):
    create({"closID": "/"}, state, root)
    resctrl.join(state, 5)
    assert state.intel_rdt == root and read(f"{root}/tasks") == "5" and read(f"{root}/schemata") == SCHEMATA


def test_a_class_that_must_be_there(root, state):
    with pytest.raises(KrunError, match="closID gold has no directory"):
        create({"closID": "gold"}, state, root)
    assert not os.path.exists(f"{root}/gold")


def test_monitoring(root, state):
    os.mkdir(f"{root}/gold")
    saved = create({"closID": "gold", "enableMonitoring": True}, state, root)
    group = f"{root}/gold/mon_groups/c1"
    assert saved == [[group]] and os.path.isdir(group)
    resctrl.join(state, 9)
    assert read(f"{group}/tasks") == "9" and read(f"{root}/gold/tasks") == "9"
    shown = resctrl.stats(state, root)
    assert shown["mbm_stats"] == [{"mbm_total_bytes": 7, "mbm_local_bytes": 5}] * 2
    assert shown["cmt_stats"] == [{"llc_occupancy": 4096}] * 2
    assert shown["l3_cache_info"] == {"cbm_mask": "fffff", "min_cbm_bits": 1, "num_closids": 16}
    assert shown["mem_bw_schema"] == "MB:0= 100;1= 100"
    resctrl.remove(state, Log())
    assert not os.path.exists(group) and os.path.isdir(f"{root}/gold")


def test_both_directories_are_removed_innermost_first(root, state):
    saved = create({"enableMonitoring": True}, state, root)
    assert saved[-1] == [f"{root}/c1/mon_groups/c1", f"{root}/c1"]
    resctrl.remove(state, Log())
    assert not os.path.exists(f"{root}/c1")


def test_made_by_somebody_else_meanwhile(root, state, monkeypatch):
    real = os.mkdir

    def race(path, mode=0o777, **more):
        real(path, mode, **more)
        raise FileExistsError(17, "there", path)

    monkeypatch.setattr(os, "mkdir", race)
    create({"closID": "gold", "l3CacheSchema": "L3:0=fffff"}, state, root)
    assert state.intel_rdt_made == []


def test_no_class_is_left(root, state, monkeypatch):
    def full(path, mode=0o777, **more):
        raise OSError(28, "full", path)

    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(SysError, match="all classes of service are in use"):
        create({"closID": "gold", "l3CacheSchema": "L3:0=fffff"}, state, root)
    assert state.intel_rdt_made == []


def test_the_kernels_words_for_a_bad_schema(root, state, monkeypatch):
    with open(f"{root}/info/last_cmd_status", "w") as file:
        file.write("Mask f0f has non-consecutive 1-bits\n")

    def refuse(path, text, dirfd=None):
        raise SysError("write", path, 22)

    monkeypatch.setattr(resctrl, "write_file", refuse)
    with pytest.raises(SysError, match="non-consecutive 1-bits"):
        create({"l3CacheSchema": "L3:0=f0f"}, state, root)
    assert state.intel_rdt_made == [f"{root}/c1"]  # undo removes it


@pytest.mark.parametrize(
    ("field", "value", "feature"),
    [
        ("l3CacheSchema", "L3:0=f", "L3"),
        ("memBwSchema", "MB:0=10", "MB"),
        ("enableMonitoring", True, "L3_MON"),
    ],
)
def test_a_feature_that_the_host_lacks(root, state, field, value, feature):
    os.rmdir(f"{root}/info/{feature}")
    with pytest.raises(ConfigError, match=f"/linux/intelRdt/{field}: this host's resctrl has no {feature}"):
        create({field: value}, state, root)


@pytest.mark.parametrize("name", [".", "..", "a/b", "/a", "info", "mon_groups", "mon_data", "a\nb"])
def test_names_that_lead_elsewhere(name):
    with pytest.raises(ConfigError, match="/linux/intelRdt/closID: invalid intelRdt.ClosID"):
        resctrl.check({"closID": name})


@pytest.mark.parametrize("text", ["L3:0=f", "MB:0=1\nMB:1=2"])
def test_bandwidth_is_one_line(text):
    with pytest.raises(ConfigError, match="/linux/intelRdt/memBwSchema: must be one line"):
        resctrl.check({"memBwSchema": text})


def test_no_resctrl(state, monkeypatch):
    monkeypatch.setattr(resctrl, "read_file", lambda path: b"1 0 0:1 / / rw - ext4 /dev/vda rw\n")
    with pytest.raises(KrunError, match="intelRdt is specified in config, but Intel RDT is not enabled"):
        resctrl.create({}, state, lambda: None)


def test_where_it_is_mounted(monkeypatch):
    line = b"1 0 0:1 / / rw - ext4 /dev/vda rw\n9 1 0:9 / /sys/fs/res\\040ctrl rw shared:3 - resctrl resctrl rw\n"
    monkeypatch.setattr(resctrl, "read_file", lambda path: line)
    assert resctrl.find_root() == "/sys/fs/res ctrl"

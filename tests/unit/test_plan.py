"""The plan: pure, ordered, printable; mount options; capabilities; exec's parsing of ids."""

from __future__ import annotations

import json
from typing import Any

import pytest

from krun import mountio, sysio
from krun.errors import ConfigError, KrunError
from krun.oci import cred, devices, exec, mountopts, namespaces, plan, sched, spec, steps


def config(**change: Any) -> dict[str, Any]:
    return {
        "ociVersion": "1.3.0",
        "root": {"path": "/r"},
        "process": {"args": ["x"], "cwd": "/", **change.pop("process", {})},
        "mounts": change.pop("mounts", []),
        "hostname": change.pop("hostname", ""),
        "linux": {
            "namespaces": [{"type": t} for t in change.pop("types", ("mount", "pid", "uts"))],
            **change,
        },
    }


def build(**change: Any) -> plan.Plan:
    return plan.build(spec.parse(json.dumps(config(**change)).encode(), "/b"))


def test_clone_flags() -> None:
    made = build(types=("mount", "pid", "uts", "cgroup", "time", "network"))
    assert (
        made.clone_flags == sysio.CLONE_NEWNS | sysio.CLONE_NEWPID | sysio.CLONE_NEWUTS | sysio.CLONE_NEWNET
    )
    assert made.new_cgroup_ns and made.new_time_ns


def test_plan_makes_no_system_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a system call in plan")

    parsed = spec.parse(
        json.dumps(config(hostname="h", maskedPaths=["/a"], readonlyPaths=["/b"])).encode(), "/b"
    )
    for name in ("open", "stat", "access", "mkdir"):
        monkeypatch.setattr(f"os.{name}", refuse)
    lines = plan.build(parsed).describe()
    assert any(line == "names: hostname h" for line in lines)
    assert lines.index("paths: mask paths /a") > lines.index("pivot: pivot_root, detach the old root")


def test_describe_is_one_line_each() -> None:
    made = build(
        mounts=[
            {"destination": "/proc", "type": "proc"},
            {"destination": "/x", "source": "y", "options": ["rbind"]},
        ],
        hostname="h",
        sysctl={"kernel.domainname": "d"},
        process={
            "terminal": True,
            "oomScoreAdj": 3,
            "rlimits": [{"type": "RLIMIT_CPU", "soft": 1, "hard": 2}],
        },
    )
    for line in made.describe():
        assert "\n" not in line and line
    assert "mounts: bind /b/y on /x (rbind)" in made.describe()


@pytest.mark.parametrize(
    ("words", "on", "off"),
    [
        (["ro"], mountio.MOUNT_ATTR_RDONLY, 0),
        (["ro", "rw"], 0, mountio.MOUNT_ATTR_RDONLY),
        (["nosuid", "nodev", "noexec"], 0xE, 0),
        (["noatime"], mountio.MOUNT_ATTR_NOATIME, mountio.MOUNT_ATTR_ATIME),
        (["noatime", "strictatime"], mountio.MOUNT_ATTR_STRICTATIME, mountio.MOUNT_ATTR_ATIME),
        (["strictatime", "noatime"], mountio.MOUNT_ATTR_NOATIME, mountio.MOUNT_ATTR_ATIME),
    ],
)
def test_attributes(words: list[str], on: int, off: int) -> None:
    options = mountopts.parse(words)
    assert (options.set, options.clear) == (on, off)


def test_options_are_sorted_by_what_they_act_on() -> None:
    options = mountopts.parse(
        ["rbind", "rro", "rslave", "private", "mode=755", "sync", "newinstance", "tmpcopyup", "a=b,c"]
    )
    assert options.bind and options.recursive and options.copy_up
    assert options.rec_set == mountio.MOUNT_ATTR_RDONLY
    assert options.propagation == [mountio.MS_SLAVE | mountio.MS_REC, mountio.MS_PRIVATE]
    assert options.data == [("mode", "755"), ("sync", None), ("newinstance", None), ("a", "b"), ("c", None)]


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ({"destination": "/a", "options": ["bind"]}, "a bind mount needs a source"),
        ({"destination": "/a", "source": "/s"}, "/mounts/0/type: is missing"),
        ({"destination": "/a", "source": "/s", "options": ["bind", "idmap"]}, "without mappings"),
    ],
)
def test_wrong_mounts(mount: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build(mounts=[mount])


def test_no_devices_in_a_bound_dev() -> None:
    bound = build(mounts=[{"destination": "/dev", "source": "/dev", "options": ["rbind"]}])
    assert not any(isinstance(step, devices.MakeDevices) for step in bound.stages["devices"])
    assert any(isinstance(step, devices.MakeDevices) for step in build().stages["devices"])


def test_parent_opens_sources_of_user_namespaces() -> None:
    maps = [{"containerID": 0, "hostID": 1000, "size": 10}]
    mount = {"destination": "/x", "source": "/y", "options": ["bind"]}
    made = build(types=("mount", "user"), uidMappings=maps, gidMappings=maps, mounts=[mount])
    assert [step.source for step in made.parent_sources] == ["/y"]
    assert not build(mounts=[mount]).parent_sources


@pytest.mark.parametrize(
    ("path", "want"), [("/a/../b", "/b"), ("a//b/.", "/a/b"), ("//x", "/x"), ("../..", "/"), ("", "/")]
)
def test_clean(path: str, want: str) -> None:
    assert steps.clean(path) == want


def test_capability_mask() -> None:
    assert cred.mask(["CAP_CHOWN", "CAP_SETPCAP", "CAP_BOGUS"]) == 1 | 1 << 8
    assert len(cred.CAPABILITIES) == 41
    assert cred.NUMBERS["CAP_CHECKPOINT_RESTORE"] == 40


@pytest.mark.parametrize(
    "text", ["", "1:", ":1", " 1", "0x1", "1 ", "-1", "+1", "4294967295", "4294967296", "root", "1:2:3", "٣"]
)
def test_strict_user(text: str) -> None:
    with pytest.raises(KrunError, match="not a number"):
        exec.parse_user(text)


def test_user() -> None:
    assert exec.parse_user("0") == (0, None)
    assert exec.parse_user("1000:4294967294") == (1000, 4294967294)


def test_exec_never_adds_to_inheritable() -> None:
    process = spec.parse_process(
        b'{"args": ["x"], "cwd": "/", "capabilities": {"inheritable": ["CAP_KILL"]}}'
    )
    exec.add_caps(process, ["net_admin", "CAP_KILL"])
    assert process.caps is not None
    assert process.caps["inheritable"] == ["CAP_KILL"]
    assert process.caps["ambient"] == ["CAP_KILL"]
    for kind in ("bounding", "effective", "permitted"):
        assert process.caps[kind] == ["CAP_NET_ADMIN", "CAP_KILL"]
    # Told of, not refused (cred.warn_unavailable), as by runc.
    exec.add_caps(process, ["bogus"])
    assert process.caps["bounding"][-1] == "CAP_BOGUS"


def test_number_list() -> None:
    assert sched.number_list("0-2,7", "/p") == [0, 1, 2, 7]
    assert sched.number_list("", "/p") == []
    for wrong in ("2-1", "a", "1-", "-1", "1-2-3"):
        with pytest.raises(ConfigError):
            sched.number_list(wrong, "/p")


def test_namespace_order_and_maps() -> None:
    assert namespaces.JOIN_ORDER[0] == "user" and namespaces.JOIN_ORDER[-1] == "mount"
    found = spec.IdMap({"containerID": 0, "hostID": 5, "size": 6})
    assert namespaces.map_text([found]) == "0 5 6\n"

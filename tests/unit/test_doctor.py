"""krun doctor: every finding has a cause and, unless all is well, a remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from krun.cli import doctor, fast
from krun.cli.health import installation, kernel
from krun.errors import KrunError, UsageError
from krun.kvm import boot, measure, remedy


def call(line):
    opts = fast.parse(line.split())[1]
    opts.root = "/run/krun"
    return doctor.main(opts)


def test_json_and_text_say_the_same(capsys):
    code = call("doctor -f json")
    document = json.loads(capsys.readouterr().out)
    assert document["usable"] is (code == 0)
    names = [check["check"] for check in document["checks"]]
    checks = set(names)
    assert len(names) == len(checks), names
    assert {
        "kernel",
        "kvm",
        "monitor",
        "launcher",
        "python",
        "privileges",
        "cgroups",
        "user namespaces",
        "seccomp",
        "limits",
        "state",
    } <= checks
    for check in document["checks"]:
        assert check["level"] in ("ok", "warning", "error") and check["text"]
        assert check["remedy"] or check["level"] == "ok"
    assert call("doctor") == code
    assert len(capsys.readouterr().out.splitlines()) >= len(document["checks"])
    with pytest.raises(UsageError):
        call("doctor --format xml")


@pytest.mark.parametrize(
    ("error", "cpuinfo", "words"),
    [
        (FileNotFoundError(2, "x"), "flags : vmx", "modprobe kvm_intel"),
        (FileNotFoundError(2, "x"), "flags : hypervisor", "nested virtualization"),
        (FileNotFoundError(2, "x"), "flags : fpu", "firmware"),
        (PermissionError(13, "x"), "", "ask the device rules"),
        (OSError(16, "x"), "", "load kvm_intel"),
    ],
)
def test_no_kvm_has_a_remedy_that_fits(monkeypatch, error, cpuinfo, words):
    def refuse(path, flags):
        raise error

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(kernel, "read", lambda path: "")
    monkeypatch.setattr(remedy, "_cpu_flags", lambda: cpuinfo.split())
    (finding,) = kernel.kvm("")
    assert finding.level == "error" and finding.text.startswith("/dev/kvm: ") and words in finding.remedy
    monkeypatch.setattr(boot, "open_tree", lambda *words: refuse("", 0))
    with pytest.raises(KrunError) as caught:
        boot.open_kvm()
    assert finding.remedy in str(caught.value)  # one remedy for one cause


@pytest.mark.parametrize(
    ("mode", "uid", "words"),
    [
        (0o660, 0, "these allow it, so ask the device rules"),
        (
            0o660,
            1000,
            "its mode is 660, its group daemon: be root, or join the group (usermod -aG daemon USER",
        ),
        (0o600, 1000, "let the group open it (chmod 660 /dev/kvm"),
        (0o666, 1000, "these allow it"),
    ],
)
def test_the_remedy_looks_at_the_node(monkeypatch, mode, uid, words):
    monkeypatch.setattr(os, "stat", lambda path: SimpleNamespace(st_mode=mode, st_uid=0, st_gid=1))
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(os, "getegid", lambda: uid)
    monkeypatch.setattr(os, "getgroups", lambda: [uid])
    assert words in remedy.kvm_remedy(13)


def test_a_check_that_breaks_is_not_the_end(monkeypatch):
    def broken(_root):
        raise OSError(5, "odd")
        yield

    monkeypatch.setattr(doctor, "CHECKS", (("odd", broken), ("kernel", kernel.kernel)))
    first, *rest = doctor.examine("/run/krun")
    assert first.what == "odd" and first.level == "warning" and rest


def test_old_kernel(monkeypatch):
    real = os.uname()
    fake = type("U", (), {"release": "5.4.0-1-x", "machine": real.machine})
    monkeypatch.setattr(os, "uname", lambda: fake)
    assert next(kernel.kernel("")).level == "error"


def privileges(arguments: list[str] = (), before: str = "pass") -> list[tuple[str, str]]:
    """(level, text) of the privileges check, in a process of its own that gave something up."""
    code = (
        f"import json, os, prctl\n{before}\nfrom krun.cli.health import rights\n"
        "print(json.dumps([(f.level, f.text) for f in rights.privileges('/run/krun')]))"
    )
    done = subprocess.run(
        [*arguments, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    return [tuple(found) for found in json.loads(done.stdout)]


def test_privileges_of_root_are_enough() -> None:
    assert ("ok", "root's, as krun needs them") in privileges()


@pytest.mark.parametrize(
    ("before", "level", "words"),
    [
        ("prctl.cap_effective.mknod = False", "error", "root without CAP_MKNOD"),
        ("prctl.cap_effective.sys_nice = False", "warning", "no real-time scheduling"),
        ("prctl.capbset.sys_time = False", "warning", "bounding set: CAP_SYS_TIME"),
        ("prctl.securebits.no_setuid_fixup = True", "error", "secure bits 0x4"),
        ("prctl.set_no_new_privs(1); os.setresuid(65534, 65534, 65534)", "error", "no_new_privs is set"),
        ("os.setresuid(65534, 65534, 65534)", "ok", "an ordinary user's"),
    ],
)
def test_privileges_that_were_given_up_are_named(before: str, level: str, words: str) -> None:
    # Imported before the ids change: the tree may be closed to others.
    found = privileges(before="import krun.cli.health.rights\n" + before)
    assert any(one == level and words in text for one, text in found), found


def test_the_launcher_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "krun"
    for content, level in ((b"#!/bin/sh", "warning"), (b"\x7fELF....", "ok")):
        script.write_bytes(content)
        monkeypatch.setattr(sys, "argv", [str(script)])
        found = list(installation.launcher("/run/krun"))
        assert [(one.level, str(script) in one.text, bool(one.remedy)) for one in found] == [
            (level, True, level == "warning")
        ]


@pytest.mark.parametrize(
    ("value", "itlb", "words"),
    [
        ("never", "Not affected", None),
        ("", "Not affected", None),
        ("N", "Not affected", "kvm.nx_huge_pages=never saves it"),
        ("N", "Not affected", "counts in its limit of pids"),
        ("N", "Not affected", "echo never >/sys/module/kvm/parameters/nx_huge_pages"),
        ("N", "KVM: Vulnerable", "keep it"),
        ("Y", "KVM: Mitigation: Split huge pages", "keep it"),
        ("Y", "", "keep it"),
    ],
)
def test_huge_pages_are_advised_with_their_price(monkeypatch, value, itlb, words):
    files = {
        "/sys/module/kvm/parameters/nx_huge_pages": value,
        "/sys/devices/system/cpu/vulnerabilities/itlb_multihit": itlb,
    }
    monkeypatch.setattr(kernel, "read", lambda path: files[path])
    found = list(kernel.worker_threads("/run/krun"))
    if words is None:
        assert not found
    else:
        (one,) = found
        assert one.level == "ok" and words in one.text and "CVE-2018-12207" in one.text


@pytest.mark.parametrize(
    ("filesystems", "findings"),
    [("nodev\tsysfs\nnodev\tdebugfs\n\text4", 1), ("nodev\tsysfs\nnodev\ttracefs\n\text4", 0), ("", 0)],
)
def test_statistics_of_kvm_are_told_of_where_there_are_any(monkeypatch, filesystems, findings):
    monkeypatch.setattr(kernel, "read", {"/proc/filesystems": filesystems}.__getitem__)
    found = list(kernel.statistics("/run/krun"))
    assert len(found) == findings
    assert all(one.level == "ok" and "debugfs=off" in one.text and "kvm_stat" in one.text for one in found)


@pytest.mark.parametrize(
    ("exits", "level", "words"),
    [
        ((23200, 900), "ok", "takes 23.2 us, one that is completed in it 0.9 us: calls.local: auto means on"),
        ((1500, 0), "ok", "takes 1.5 us, and none can be completed in it: calls.local: auto means off"),
        (ValueError("krun-probe: status 1"), "warning", "krun-probe: status 1; calls.local: auto means off"),
    ],
)
def test_what_a_call_costs_and_what_auto_means(monkeypatch, exits, level, words):
    def measured():
        if isinstance(exits, Exception):
            raise exits
        return exits

    monkeypatch.setattr(measure, "exits", measured)
    monkeypatch.setattr(kernel.os, "access", lambda path, mode: True)
    (one,) = kernel.exits("/run/krun")
    assert one.level == level and words in one.text

"""krun doctor: every finding has a cause and, unless all is well, a remedy."""

from __future__ import annotations

import json
import os

import pytest

from krun.cli import doctor, fast
from krun.errors import UsageError


def call(line):
    opts = fast.parse(line.split())[1]
    opts.root = "/run/krun"
    return doctor.main(opts)


def test_json_and_text_say_the_same(capsys):
    code = call("doctor -f json")
    document = json.loads(capsys.readouterr().out)
    assert document["usable"] is (code == 0)
    checks = {check["check"] for check in document["checks"]}
    assert {
        "kernel",
        "kvm",
        "monitor",
        "python",
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
        (PermissionError(13, "x"), "", "usermod -aG kvm"),
        (OSError(16, "x"), "", "load kvm_intel"),
    ],
)
def test_no_kvm_has_a_remedy_that_fits(monkeypatch, error, cpuinfo, words):
    def refuse(path, flags):
        raise error

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(doctor, "_read", lambda path: cpuinfo)
    (finding,) = doctor._kvm("")
    assert finding.level == "error" and finding.text.startswith("/dev/kvm: ") and words in finding.remedy


def test_a_check_that_breaks_is_not_the_end(monkeypatch):
    def broken(_root):
        raise OSError(5, "odd")
        yield

    monkeypatch.setattr(doctor, "CHECKS", (("odd", broken), ("kernel", doctor._kernel)))
    first, *rest = doctor.examine("/run/krun")
    assert first.what == "odd" and first.level == "warning" and rest


def test_old_kernel(monkeypatch):
    real = os.uname()
    fake = type("U", (), {"release": "5.4.0-1-x", "machine": real.machine})
    monkeypatch.setattr(os, "uname", lambda: fake)
    assert next(doctor._kernel("")).level == "error"

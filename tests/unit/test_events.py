"""What a payload can put into the statistics of `krun events`."""

from __future__ import annotations

import builtins
import json
import os
from pathlib import Path

import pytest

from krun.jsonio import dumps
from krun.oci import events
from krun.oci.cgroup.stats import hugetlb_stats
from krun.oci.state import ContainerState

HEAD = b"Inter-|   Receive |  Transmit\n face |bytes    packets errs drop|bytes    packets errs drop\n"
ROW = b"  %b: 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n"


def test_names_of_interfaces_are_the_payloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dev_valid_name(): any bytes but NUL, "/", ":" and white space. One that is no UTF-8 ended `krun events`."""
    file = tmp_path / "dev"
    file.write_bytes(HEAD + b"".join(ROW % name for name in (b"lo", b"eth0", b"\xff\xfe", b"a\x1cb")))
    monkeypatch.setattr(os, "readlink", lambda path: path)
    opened = builtins.open
    monkeypatch.setattr(events, "open", lambda path, **given: opened(file, **given), raising=False)
    found = events._interfaces(ContainerState(id="x", pid=7))
    assert found is not None
    assert [row["Name"] for row in json.loads(dumps(found))] == ["eth0", "��", "a\x1cb"]
    assert found[0]["RxBytes"] == 1 and found[0]["TxDropped"] == 8


def test_groups_of_the_payload_are_no_page_sizes(tmp_path: Path) -> None:
    """A payload that may write its cgroup makes a group of such a name below it."""
    for name in ("limit_in_bytes", "usage_in_bytes", "max_usage_in_bytes", "failcnt"):
        (tmp_path / f"hugetlb.2MB.{name}").write_text("7\n")
    (tmp_path / "hugetlb.9MB.limit_in_bytes").mkdir()
    (tmp_path / "hugetlb.8MB.limit_in_bytes").symlink_to("hugetlb.2MB.limit_in_bytes")
    found = hugetlb_stats(str(tmp_path), "limit_in_bytes", "usage_in_bytes")
    assert found == {"2MB": {"usage": 7, "max": 7, "failcnt": 7}}

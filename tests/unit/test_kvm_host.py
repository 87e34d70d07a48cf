"""What this host's KVM answers is asked once (krun/kvm/host.py): the file counts only if it is ours alone, and of this boot and this KVM."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest
from helpers.runtime import wait_for

from krun.errors import KrunError
from krun.kvm import boot, host, measure
from krun.oci.state import StateDir

CPUID = (2).to_bytes(4, "little") + bytes(4) + bytes(range(40)) * 2


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def warning(self, line: str) -> None:
        self.lines.append(line)

    def debug(self, line: str) -> None:
        pass


class Kvm:
    """Stands for KVM and for the measurement."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = self.measured = 0
        self.exits: tuple[int, int] | Exception = (23000, 800)
        self.log = Log()
        monkeypatch.setattr(host, "_ask", self.ask)
        monkeypatch.setattr(measure, "exits", self.measure)

    def ask(self, _: int) -> bytes:
        self.asked += 1
        return CPUID

    def measure(self) -> tuple[int, int]:
        self.measured += 1
        if isinstance(self.exits, Exception):
            raise self.exits
        return self.exits

    def know(self, root: Path, measured: bool = False) -> host.Known:
        open_root = StateDir(str(root), "c").open_root
        return host.know(str(root), open_root, -1, self.log, measured)  # type: ignore[arg-type]


@pytest.fixture
def kvm(monkeypatch: pytest.MonkeyPatch) -> Kvm:
    return Kvm(monkeypatch)


def test_kvm_is_asked_once(kvm: Kvm, tmp_path: Path) -> None:
    assert [kvm.know(tmp_path / "new").cpuid for _ in range(3)] == [CPUID] * 3
    assert (kvm.asked, kvm.measured) == (1, 0)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["@kvm"]
    assert (tmp_path / "new" / "@kvm").stat().st_mode & 0o777 == 0o600


def test_exits_are_measured_once_and_only_if_somebody_asks(kvm: Kvm, tmp_path: Path) -> None:
    assert not kvm.know(tmp_path).measured
    found = [kvm.know(tmp_path, True) for _ in range(2)] + [kvm.know(tmp_path)]
    assert (kvm.asked, kvm.measured) == (1, 1)
    assert all(
        (one.exit_ns, one.own_ns, one.measured, one.pays()) == (23000, 800, True, True) for one in found
    )


def test_a_measurement_that_fails_is_given_up_after_some_and_means_off(kvm: Kvm, tmp_path: Path) -> None:
    kvm.exits = ValueError("status 1")
    assert not any(kvm.know(tmp_path, True).pays() for _ in range(5))
    assert kvm.measured == 3 and len(kvm.log.lines) == 1
    assert "status 1; calls.local: auto means off until the next boot" in kvm.log.lines[0]


def test_a_measurement_that_failed_once_is_made_anew(kvm: Kvm, tmp_path: Path) -> None:
    """A caller with few descriptors or processes decides for itself only."""
    kvm.exits = OSError(24, "too many open files")
    assert not kvm.know(tmp_path, True).pays()
    kvm.exits = (23000, 800)
    assert all(kvm.know(tmp_path, True).pays() for _ in range(2)) and kvm.measured == 2


def test_of_several_commands_one_measures(kvm: Kvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for its figures: beside each other they would disturb each other."""
    inside: list[host.Known] = []

    def measure_and_let_others_in() -> tuple[int, int]:
        monkeypatch.setattr(measure, "exits", kvm.measure)
        others = [Thread(target=lambda: inside.append(kvm.know(tmp_path, True))) for _ in range(4)]
        for other in others:
            other.start()
        sleep(0.02)
        assert not inside
        return kvm.measure()

    monkeypatch.setattr(measure, "exits", measure_and_let_others_in)
    assert kvm.know(tmp_path, True).pays()
    wait_for(lambda: len(inside) == 4, "the others do not go on")
    assert all(one.pays() for one in inside) and kvm.measured == 1


def test_directories_above_the_root_are_nobody_elses(kvm: Kvm, tmp_path: Path) -> None:
    """It is made here first, before create makes the container's: with a umask of 0 everybody could put another root in its place."""
    before = os.umask(0)
    try:
        kvm.know(tmp_path / "a" / "b" / "root")
    finally:
        os.umask(before)
    modes = [
        path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/root")
    ]
    assert modes == [0o755, 0o755, 0o700]


def test_the_file_has_no_containers_name(kvm: Kvm, tmp_path: Path) -> None:
    """`krun create .kvm` said that the container exists."""
    kvm.know(tmp_path)
    for path in tmp_path.iterdir():
        with pytest.raises(KrunError, match="invalid"):
            StateDir(str(tmp_path), path.name)


@pytest.mark.root
@pytest.mark.parametrize("of", ["another user", "everybody", "a link's"])
def test_nothing_is_written_into_a_root_that_create_refuses(kvm: Kvm, tmp_path: Path, of: str) -> None:
    root = there = tmp_path / "root"
    root.mkdir()
    if of == "another user":
        os.chown(root, 1000, 1000)
    elif of == "everybody":
        root.chmod(0o777)
    else:
        root = tmp_path / "link"
        root.symlink_to(there)
    assert kvm.know(root).cpuid == CPUID
    assert not list(there.iterdir())


def _other_boot(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8] ^= 1
    path.write_bytes(data)


def _other_kvm(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[48] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "spoil",
    [
        _other_boot,
        _other_kvm,
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
        lambda path: path.write_bytes(b""),
        lambda path: path.chmod(0o620),
        lambda path: path.chmod(0o604),
        lambda path: os.chown(path, 1000, 0),
        lambda path: (path.rename(path.with_name("x")), path.symlink_to("x")),
        lambda path: (path.unlink(), os.mkfifo(path, 0o600)),
    ],
)
def test_a_file_that_is_not_to_be_trusted_is_made_anew(kvm: Kvm, tmp_path: Path, spoil: Any) -> None:
    kvm.know(tmp_path)
    spoil(tmp_path / "@kvm")
    assert kvm.know(tmp_path).cpuid == CPUID and kvm.asked == 2
    assert kvm.know(tmp_path).cpuid == CPUID and kvm.asked == 2


@pytest.mark.parametrize("why", ["no key", "no room", "refused"])
def test_without_a_file_kvm_is_asked_each_time_and_nothing_is_measured(
    kvm: Kvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    root, wanted = tmp_path, CPUID
    if why == "no key":
        monkeypatch.setattr(host, "_key", lambda: b"")
    elif why == "no room":
        (tmp_path / "file").write_text("")
        root = tmp_path / "file"
    else:
        monkeypatch.setattr(host, "_ask", lambda _: b"")
        wanted = b""
    assert [kvm.know(root, True).cpuid for _ in range(2)] == [wanted] * 2 and kvm.measured == 0
    assert not (root / "@kvm").exists()


def test_this_hosts_kvm_answers(tmp_path: Path) -> None:
    fd = boot.open_kvm()
    try:
        known = host.know(str(tmp_path), StateDir(str(tmp_path), "c").open_root, fd, Log())  # type: ignore[arg-type]
    finally:
        os.close(fd)
    leaves = [int.from_bytes(known.cpuid[at : at + 4], "little") for at in range(8, len(known.cpuid), 40)]
    assert {0, 1, 7, 0x80000001} <= set(leaves)


def test_exits_are_measured() -> None:
    """A call that is completed is a gain; where none is, its time is not told."""
    exit_ns, own_ns = measure.exits()
    assert exit_ns > 0 and 0 <= own_ns < exit_ns


def known(exit_ns: int, own_ns: int) -> host.Known:
    found = host.Known()
    found.measured, found.exit_ns, found.own_ns = True, exit_ns, own_ns
    return found


@pytest.mark.parametrize(
    ("local", "sockets", "known", "wanted"),
    [
        ("off", "off", known(23000, 800), 0),
        ("off", "on", known(23000, 800), 0),
        ("on", "off", known(0, 0), boot.FLAG_LOCAL),
        ("on", "on", known(0, 0), boot.FLAG_LOCAL | boot.FLAG_SOCKETS),
        ("auto", "off", known(23000, 800), boot.FLAG_LOCAL),
        ("auto", "on", known(23000, 800), boot.FLAG_LOCAL | boot.FLAG_SOCKETS),
        ("auto", "on", known(23000, 0), 0),  # nothing is completed: VMX, SVM
        ("auto", "on", known(1500, 300), 0),  # an exit is cheap
        ("auto", "on", known(23000, 25000), 0),
        ("auto", "on", known(0, 0), 0),
        ("auto", "on", None, 0),
    ],
)
def test_the_flags_of_completed_calls(
    local: str, sockets: str, known: host.Known | None, wanted: int
) -> None:
    assert host.local_flags(local, sockets, known) == wanted

"""The relay of seccomp notifications (krun/oci/relay.py, unotify.py): its numbers are those of the sources, and what a monitor may do by itself."""

from __future__ import annotations

import fcntl
import os
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from krun.errors import KrunError
from krun.kvm.calls import CALLS
from krun.oci import listener, relay, unotify

NATIVE = Path(__file__).parents[2] / "krun/native"
NUMBERS = {name: number for number, (name, _, _) in CALLS.items()}
MKDIR, MOUNT, MKDIRAT = (NUMBERS[name] for name in ("mkdir", "mount", "mkdirat"))


def test_numbers_are_those_of_the_header() -> None:
    text = (NATIVE / "abi/notify.h").read_text()
    found = {
        name: int(value, 0)
        for name, value in re.findall(r"#define KR_NOTIFY_(\w+) (\w+?)u?(?:LL)?\n", text, re.I)
    }
    ours = {name: value for name, value in vars(unotify).items() if name in found}
    assert ours == {name: found[name] for name in ours}
    assert {"BASE", "LAST", "CALL", "MOVED", "DONE", "PASS", "AGAIN", "MOVE", "CLOEXEC", "FD_BITS"} <= set(
        ours
    )
    # No kernel has such a call: its numbers end far below, and x32's bit is not set.
    assert max(CALLS) < 0x1000 < relay.BASE and relay.LAST < 0x40000000


def test_what_serves_what_is_the_profile_s_table() -> None:
    body = re.search(r"served\[\] = \{(.*?)\n\};", (NATIVE / "filter/profile.c").read_text(), re.S)
    assert body
    table: dict[int, list[int]] = {}
    for call, by in re.findall(r"\{__NR_(\w+), __NR_(\w+)\}", body[1]):
        table.setdefault(NUMBERS[by], []).append(NUMBERS[call])
    assert {by: list(calls) for by, calls in unotify.SERVED_BY.items()} == table


def test_requests_are_the_kernel_s() -> None:
    header = Path("/usr/include/linux/seccomp.h").read_text()
    assert "SECCOMP_IOCTL_NOTIF_ADDFD" in header
    sizes = {"RECV": 80, "SEND": 24, "ID_VALID": 8, "ADDFD": 24}
    for number, (name, size) in enumerate(sizes.items()):
        way = 3 if number < 2 else 1
        assert getattr(relay, name) == way << 30 | size << 16 | 0x21 << 8 | number


class Kernel:
    """The kernel's listener: what it gives, and what it is answered. A thread in `gone` no longer waits."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int, int, tuple[int, ...]]] = []
        self.answers: list[tuple[int, int, int, int]] = []
        self.gone: set[int] = set()

    def ioctl(self, fd: int, request: int, argument: Any) -> int:
        assert fd == 99
        if request == relay.RECV:
            number, thread, nr, args = self.waiting.pop(0)
            padded = [*args, 0, 0, 0, 0, 0, 0][:6]
            argument[:] = struct.pack("=QIIiIQ6Q", number, thread, 0, nr, 0xC000003E, 0x1234, *padded)
        elif request == relay.SEND:
            number, value, error, flags = struct.unpack("=QqiI", argument)
            if number in self.gone:
                raise OSError(2, "gone")
            self.answers.append((number, value & 0xFFFFFFFFFFFFFFFF, error, flags))
        elif request == relay.ID_VALID:
            if int.from_bytes(argument, "little") in self.gone:
                raise OSError(2, "gone")
        return 0


class File:
    """The agent's file."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, int, bytes]] = []
        self.closed = False

    def answer(self, unique: int, result: int, data: bytes = b"") -> None:
        self.answers.append((unique, result, data))

    def wake(self) -> None:
        pass


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> tuple[relay.Relay, Kernel, File]:
    kernel, file = Kernel(), File()
    monkeypatch.setattr(fcntl, "ioctl", kernel.ioctl)
    made = relay.Relay(-1, -1)
    made.listener = 99
    made.file = file  # type: ignore[assignment]
    return made, kernel, file


def told(kernel: Kernel, made: relay.Relay, number: int, thread: int, nr: int, *args: int) -> None:
    kernel.waiting.append((number, thread, nr, args))
    made.receive()


def call(nr: int, tag: int = 1, kind: int = relay.CALL) -> int:
    return relay.BASE | kind << 24 | tag << 12 | nr


def ask(made: relay.Relay, file: File, request: int, data: bytes, unique: int = 7) -> int | None:
    """The result of a request of the agent's; None: it waits."""
    before = len(file.answers)
    made.request(relay.Request(unique, 1, request, data))
    return file.answers[-1][1] if len(file.answers) > before else None


def send(
    made: relay.Relay, file: File, number: int, value: int = 0, error: int = 0, flags: int = 0
) -> int | None:
    return ask(made, file, relay.SEND, struct.pack("=QqiI", number, value, error, flags))


def receive(made: relay.Relay, file: File) -> tuple[int, ...]:
    assert ask(made, file, relay.RECV, bytes(80)) == 0
    return struct.unpack("=QIIiIQ6Q", file.answers[-1][2])


def test_a_monitor_s_own_call_needs_an_agent_s_word(rig: tuple[relay.Relay, Kernel, File]) -> None:
    """A monitor that was taken over makes the call that the profile gives to the agent, without asking: EPERM, before, during and after
    another call's service, and on another thread."""
    made, kernel, file = rig

    def raw(number: int, nr: int, thread: int = 10) -> bool:
        told(kernel, made, number, thread, nr)
        assert kernel.answers[-1] in ((number, 0, 0, 1), (number, 0, -1, 0))
        return kernel.answers[-1][3] == 1

    assert not raw(1, MOUNT)
    told(kernel, made, 2, 10, call(MKDIR), 5, 6)
    assert not raw(3, MKDIR) and not raw(4, MKDIRAT)
    assert receive(made, file)[:4] == (2, 10, 0, MKDIR)
    assert send(made, file, 2, flags=1) == 0 and kernel.answers[-1] == (2, relay.PASS, 0, 0)
    assert raw(5, MKDIR) and raw(6, MKDIRAT) and not raw(7, MOUNT) and not raw(8, MKDIR, thread=11)
    told(kernel, made, 9, 10, call(MKDIR, kind=unotify.DONE))
    assert not raw(10, MKDIR) and not raw(11, MKDIRAT)
    told(kernel, made, 12, 10, call(MKDIR, tag=2), 5, 6)
    receive(made, file)
    assert send(made, file, 12, flags=1) == 0 and raw(13, MKDIRAT)
    told(kernel, made, 14, 10, call(MOUNT, tag=3))
    assert not raw(15, MKDIRAT), "the next call ends the word for the one before"


def test_no_answer_is_one_of_the_relay_s_own(rig: tuple[relay.Relay, Kernel, File]) -> None:
    """An agent that hands a value of the program's on must not say CONTINUE by it."""
    made, kernel, file = rig
    for number, value in enumerate((relay.PASS, relay.AGAIN, relay.MOVE | 5), 1):
        told(kernel, made, number, 10, call(MKDIR, tag=number))
        receive(made, file)
        assert send(made, file, number, value - (1 << 64)) == 0
        assert kernel.answers[-1] == (number, 0, -5, 0)
        assert not made.passed


def test_an_interruption_that_is_not_the_program_s(rig: tuple[relay.Relay, Kernel, File]) -> None:
    """The thread tells of the same call again: the agent is not asked twice, and its answer waits for the thread."""
    made, kernel, file = rig
    told(kernel, made, 1, 10, call(MKDIR), 5)
    number = receive(made, file)[0]
    kernel.gone.add(1)
    assert send(made, file, number, 33) is None
    told(kernel, made, 2, 10, call(MKDIR), 5)
    assert kernel.answers == [(2, 33, 0, 0)] and file.answers[-1][1] == 0
    assert not made.by_id and not made.by_thread and not made.queue

    # Another tag, or other arguments: the program has made another call.
    told(kernel, made, 3, 10, call(MKDIR, tag=2), 5)
    number = receive(made, file)[0]
    kernel.gone.add(3)
    assert send(made, file, number, 33) is None
    told(kernel, made, 4, 10, call(MKDIR, tag=3), 5)
    assert file.answers[-1][1] == -2
    assert receive(made, file)[0] == 4
    assert len(kernel.answers) == 1


def test_an_answer_that_nobody_waits_for(
    rig: tuple[relay.Relay, Kernel, File], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, kernel, file = rig
    told(kernel, made, 1, 10, call(MKDIR))
    receive(made, file)
    kernel.gone.add(1)
    assert send(made, file, 1, flags=1) is None
    now = relay.time.monotonic()
    monkeypatch.setattr(relay.time, "monotonic", lambda: now + 10)
    made._expire()
    assert file.answers[-1][1] == -2 and not made.by_id and not made.passed


def test_what_a_monitor_says_of_a_move(
    rig: tuple[relay.Relay, Kernel, File], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that is none does not end the relay; the agent's request fails."""
    made, kernel, file = rig
    monkeypatch.setattr(relay, "take", lambda thread, number: os.open("/dev/null", os.O_RDONLY))
    for number, (said, heard) in enumerate(
        [(100, 100), (1 << 63, -5), (1 << 40, -5), ((1 << 64) - 9, -9)], 1
    ):
        told(kernel, made, number, 10, call(MKDIR, tag=number))
        receive(made, file)
        assert ask(made, file, relay.ADDFD, struct.pack("=QIIII", number, 1, 0, 100, 0)) is None
        assert kernel.answers[-1][1] == relay.MOVE | 100 << relay.FD_BITS
        told(kernel, made, 100 + number, 10, call(MKDIR, tag=number, kind=relay.MOVED), said)
        assert file.answers[-1][1] == heard and kernel.answers[-1] == (100 + number, relay.AGAIN, 0, 0)


def test_calls_of_threads_that_end_do_not_pile_up(rig: tuple[relay.Relay, Kernel, File]) -> None:
    """An agent that receives nothing, and threads that are killed while they wait."""
    made, kernel, _ = rig
    for number in range(1, 5000):
        told(kernel, made, number, number, call(MKDIR))
        if number != 7:
            kernel.gone.add(number)
    assert len(made.by_id) < 1100 and len(made.queue) < 1100 and 7 in made.by_id


def test_a_host_without_fuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what is missing and what to do."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(listener, "DEVICE", "/dev/no-such-fuse")
    with pytest.raises(
        KrunError, match=r"/dev/no-such-fuse does not exist; load the kernel's module \(modprobe fuse\)"
    ):
        listener.mount()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(KrunError, match="needs a krun that is root"):
        listener.mount()


def test_numbers_that_nobody_has_end_no_relay(
    rig: tuple[relay.Relay, Kernel, File], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's descriptor is -1; a monitor that was taken over says that it has moved one to a number of more than 32 bits."""
    made, kernel, file = rig
    told(kernel, made, 1, 10, call(MOUNT))
    receive(made, file)
    for source in (0xFFFFFFFF, 0x80000000):
        data = unotify.STRUCT_ADDFD.pack(1, 0, source, 0, 0)
        made.request(relay.Request(7, os.getpid(), relay.ADDFD, data))
        assert file.answers[-1][:2] == (7, -9)
    for number, word in enumerate((1 << 40, 1 << 31, 1 << 63, (1 << 64) - (1 << 32)), 2):
        monkeypatch.setattr(relay, "take", lambda *_: os.open("/dev/null", os.O_RDONLY))
        made.request(relay.Request(8, 1, relay.ADDFD, unotify.STRUCT_ADDFD.pack(1, unotify.SETFD, 0, 5, 0)))
        told(kernel, made, 10 * number, 10, call(MOUNT, kind=relay.MOVED), word)
        assert file.answers[-1][:2] == (8, -5)
        told(kernel, made, 10 * number + 1, 10, call(MOUNT))


def test_a_request_that_is_gone_again_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller was killed between the relay's poll(2) and its read(2)."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(listener, "DEVICE", "/dev/null")
    monkeypatch.setattr(listener, "new_mount", lambda *_: -1)
    device, _ = listener.mount()
    try:
        assert fcntl.fcntl(device, fcntl.F_GETFL) & os.O_NONBLOCK
    finally:
        os.close(device)

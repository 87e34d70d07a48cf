"""The systemd driver: names, properties, the wire; with a small bus that plays systemd."""

from __future__ import annotations

import os
import socket
import threading
import time
import types

import pytest

from krun.errors import KrunError, SysError
from krun.log import Log
from krun.oci import kill, teardown
from krun.oci.cgroup import dbus, group, systemd
from krun.oci.state import ContainerState, StateDir


def test_slices():
    assert systemd.expand("-.slice") == ""
    assert systemd.expand("a.slice") == "/a.slice"
    assert systemd.expand("a-b-c.slice") == "/a.slice/a-b.slice/a-b-c.slice"
    for bad in ("a", "a/b.slice", "-a.slice", "a--b.slice", ".slice"):
        with pytest.raises(KrunError, match="invalid slice name"):
            systemd.expand(bad)


def test_places(monkeypatch):
    monkeypatch.setattr(systemd, "_require", lambda: None)
    base = "/sys/fs/cgroup"
    assert systemd.place("machine.slice:libpod:x", "id", False, True) == (
        "libpod-x.scope",
        {"": base + "/machine.slice/libpod-x.scope"},
    )
    assert systemd.place("", "id", False, True)[1] == {"": base + "/system.slice/krun-id.scope"}
    assert systemd.place("a-b.slice::n", "id", False, True)[1] == {"": base + "/a.slice/a-b.slice/n.scope"}
    for bad in ("/a/b", "a:b", "a:b:", "a:b/c:d"):
        with pytest.raises(KrunError, match='format "slice:prefix:name"'):
            systemd.place(bad, "id", False, True)


def test_without_systemd(monkeypatch):
    monkeypatch.setattr(systemd.os.path, "isdir", lambda path: False)
    with pytest.raises(KrunError, match="systemd is not running on this host"):
        systemd.place("a.slice:b:c", "id", False, True)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nope/bus")
    with pytest.raises(SysError, match="at /nope/bus: no such file or directory"):
        systemd.start_scope("u.scope", 1, {}, False, "/a.slice/u.scope", True)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "tcp:host=x")
    with pytest.raises(KrunError, match="no unix socket"):
        systemd.start_scope("u.scope", 1, {}, False, "/a.slice/u.scope", True)
    systemd.stop_unit("u.scope", False, Log())  # nobody answers: the directories are removed by hand


def test_properties():
    resources = {
        "memory": {"limit": 100, "swap": 150, "reservation": -1},
        "cpu": {"shares": 1024, "quota": 12345, "period": 50000, "cpus": "0,9"},
        "pids": {"limit": -1},
        "blockIO": {"weight": 1000},
    }
    assert systemd.limits(resources, True) == [
        ("MemoryMax", ("t", 100)),
        ("MemoryLow", ("t", (1 << 64) - 1)),
        ("MemorySwapMax", ("t", 50)),
        ("CPUWeight", ("t", 100)),
        ("CPUQuotaPerSecUSec", ("t", 250000)),
        ("CPUQuotaPeriodUSec", ("t", 50000)),
        ("AllowedCPUs", ("ay", b"\x01\x02")),
        ("TasksMax", ("t", (1 << 64) - 1)),
        ("IOWeight", ("t", 10000)),
    ]
    v1 = [name for name, _ in systemd.limits(resources, False)]
    assert v1 == ["MemoryLimit", "CPUShares", "CPUQuotaPerSecUSec", "TasksMax", "BlockIOWeight"]


def test_unified_properties():
    unified = {
        "memory.high": "max",
        "pids.max": "7",
        "io.weight": "default 200",
        "cpu.max": "50000 200000",
        "cpuset.cpus": "1-2",
    }
    assert systemd.limits({"unified": {**unified, "memory.oom.group": "1"}}, True) == [
        ("MemoryHigh", ("t", (1 << 64) - 1)),
        ("TasksMax", ("t", 7)),
        ("IOWeight", ("t", 200)),
        ("CPUQuotaPerSecUSec", ("t", 250000)),
        ("CPUQuotaPeriodUSec", ("t", 200000)),
        ("AllowedCPUs", ("ay", b"\x06")),
    ]
    assert systemd.limits({"unified": {"cpu.max": "max"}}, True)[0] == (
        "CPUQuotaPerSecUSec",
        ("t", (1 << 64) - 1),
    )
    assert systemd.limits({"unified": unified}, False) == []
    for bad in ({"pids.max": "many"}, {"cpu.max": "1 0"}, {"cpu.max": ""}):
        with pytest.raises(KrunError, match="is no value of this file"):
            systemd.limits({"unified": bad}, True)


@pytest.mark.parametrize(
    ("resources", "name"),
    [
        ({"cpu": {"quota": 1 << 62, "period": 1}}, "CPUQuotaPerSecUSec"),
        ({"blockIO": {"weight": 5}}, "IOWeight"),
        ({"unified": {"cpu.max": "5 -5"}}, "CPUQuotaPerSecUSec"),
        ({"unified": {"memory.max": str(1 << 70)}}, "MemoryMax"),
    ],
)
def test_a_value_beyond_64_bits_is_an_error_with_a_name(resources, name):
    with pytest.raises(KrunError, match=f"unit property {name}: -?[0-9]+ is out of range"):
        systemd.limits(resources, True)


@pytest.mark.parametrize(("kind", "value"), [("u", 1 << 32), ("y", -1), ("s", "a\udcff")])
def test_a_value_that_has_no_wire_form_is_an_error(kind, value):
    with pytest.raises(KrunError, match=f"marshal D-Bus type {kind}"):
        dbus.marshal(kind, [value], bytearray())


@pytest.mark.parametrize(
    ("signature", "values"),
    [
        ("", []),
        ("yubitxsog", [1, 2, True, -3, 4, -5, "ä", "/a/b", "a(sv)"]),
        ("asau", [["a", "", "bc"], [1, 2]]),
        ("a(yv)", [[(1, ("s", "x")), (2, ("t", 1 << 63))]]),
        ("sa(sv)a(sa(sv))", ["u", [("PIDs", ("au", [7])), ("D", ("b", False))], []]),
        ("yat", [1, []]),
    ],
)
def test_the_wire_goes_both_ways(signature, values):
    def plain(kind, value):
        if kind == "v":
            return plain(*value)
        if kind[0] == "a":
            return [plain(kind[1:], element) for element in value]
        if kind[0] == "(":
            return tuple(plain(k, v) for k, v in zip(dbus.split(kind[1:-1]), value, strict=True))
        return value

    out = bytearray()
    dbus.marshal(signature, values, out)
    want = [plain(kind, value) for kind, value in zip(dbus.split(signature), values, strict=True)]
    assert dbus.Reader(bytes(out)).values(signature) == want


def test_known_bytes():
    """D-Bus specification, "Marshaling": the example of an array of INT64."""
    out = bytearray()
    dbus.marshal("ax", [[5]], out)
    assert out == b"\x08\0\0\0" + b"\0\0\0\0" + b"\x05\0\0\0\0\0\0\0"


#: systemd's unique name on the bus.
OWNER = ":1.2"


class Bus(threading.Thread):
    """One connection: answers Hello and the rest as systemd would; keeps what it was asked."""

    def __init__(self, path: str, results: list[str]) -> None:
        super().__init__(daemon=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.results = results
        self.asked: list[tuple[str, list]] = []
        #: What another client of the bus sends before each answer.
        self.noise = b""
        #: Of the unit that is there, b"": there is none.
        self.invocation = b""
        #: Other properties of that unit.
        self.properties: dict[str, tuple[str, object]] = {}

    def run(self) -> None:
        while True:
            connection = self.listener.accept()[0]
            try:
                self.serve(connection)
            except (KrunError, OSError, AssertionError):
                pass
            connection.close()

    def serve(self, sock: socket.socket) -> None:
        reader = dbus.Connection(False)
        reader._socket = sock
        reader._deadline = time.monotonic() + 60
        assert reader._exactly(1) == b"\0"
        uid = str(os.geteuid()).encode().hex().encode()
        assert reader._line() == b"AUTH EXTERNAL " + uid
        sock.sendall(b"OK 0123\r\n")
        assert reader._line() == b"BEGIN"
        serial = 0
        while True:
            start = reader._exactly(16)
            size, number = int.from_bytes(start[4:8], "little"), int.from_bytes(start[8:12], "little")
            fields = int.from_bytes(start[12:16], "little")
            rest = reader._exactly(fields + -fields % 8 + size)
            head = dbus.Reader(start + rest)
            head.at = 12
            header = dict(head.one("a(yv)"))
            values = dbus.Reader(rest[len(rest) - size :]).values(header.get(8, ""))
            self.asked.append((header[3], values))
            sock.sendall(self.noise)
            if header[3] in ("StartTransientUnit", "StopUnit"):
                result = self.results.pop(0)
                if result.startswith("error:"):
                    serial += 1
                    error = [(5, ("u", number)), (4, ("s", result[6:])), (7, ("s", OWNER)), (8, ("g", "s"))]
                    sock.sendall(self.message(3, serial, error, "s", ["no"]))
                    continue
                # The signal comes before the answer: it must not be lost.
                job = f"/job/{serial}"
                serial += 1
                signal = [(1, ("o", dbus.OBJECT)), (2, ("s", dbus.MANAGER)), (3, ("s", "JobRemoved"))]
                # Another client of the bus says that the job has failed.
                for sender, told in ((":1.66", "forged"), (OWNER, result)):
                    fields = [*signal, (7, ("s", sender)), (8, ("g", "uoss"))]
                    sock.sendall(self.message(4, serial, fields, "uoss", [1, job, values[0], told]))
                    serial += 1
                self.answer(sock, serial, number, OWNER, "o", [job])
            elif header[3] == "GetUnit" and not self.invocation:
                serial += 1
                gone = "org.freedesktop.systemd1.NoSuchUnit"
                fields = [(5, ("u", number)), (4, ("s", gone)), (7, ("s", OWNER)), (8, ("g", "s"))]
                sock.sendall(self.message(3, serial, fields, "s", ["no"]))
            else:
                serial += 1
                signature, found = {
                    "GetNameOwner": ("s", [OWNER]),
                    "GetUnit": ("o", ["/unit"]),
                    "Get": (
                        "v",
                        [self.properties.get("".join(map(str, values[1:])), ("ay", list(self.invocation)))],
                    ),
                }.get(header[3], ("", []))
                if header[3] == "GetUnit":
                    self.answer(sock, serial, number, ":1.66", "o", ["/forged"])
                assert header[3] != "Get" or header[1] == "/unit"
                sender = dbus.BUS if header[6] == dbus.BUS else OWNER
                self.answer(sock, serial, number, sender, signature, found)

    def answer(
        self, sock: socket.socket, serial: int, number: int, sender: str, signature: str, values: list
    ) -> None:
        fields = [(5, ("u", number)), (7, ("s", sender)), (8, ("g", signature))]
        sock.sendall(self.message(2, serial, fields, signature, values))

    @staticmethod
    def message(kind: int, serial: int, fields: list, signature: str, values: list) -> bytes:
        body = bytearray()
        dbus.marshal(signature, values, body)
        out = bytearray((ord("l"), kind, 0, 1))
        dbus.marshal("uua(yv)", [len(body), serial, fields], out)
        out.extend(bytes(-len(out) % 8))
        return bytes(out + body)


@pytest.fixture
def bus(tmp_path, monkeypatch):
    def start(*results: str) -> Bus:
        found = Bus(str(tmp_path / "bus"), list(results))
        found.start()
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path}/bus")
        return found

    return start


def test_a_scope_is_started(bus):
    found = bus("done")
    found.invocation = b"\x01\xab"
    invocation = systemd.start_scope(
        "krun-x.scope", 42, {"pids": {"limit": 9}}, False, "/sys/fs/cgroup/a.slice/krun-x.scope", True
    )
    name, (unit, mode, properties, others) = found.asked[-3]
    calls = "Hello GetNameOwner AddMatch Subscribe StartTransientUnit GetUnit Get"
    assert ([call for call, _ in found.asked], invocation) == (calls.split(), "01ab")
    assert (name, unit, mode, others) == ("StartTransientUnit", "krun-x.scope", "replace", [])
    properties = dict(properties)
    assert properties["PIDs"] == [42] and properties["Slice"] == "a.slice" and properties["TasksMax"] == 9
    assert properties["Delegate"] is True and properties["DefaultDependencies"] is False


def foreign(signature: str, values: list, extra: tuple = ()) -> bytes:
    """A signal of another client, whom the bus lets send any signal to anybody (dbus-daemon(1), its default policy)."""
    fields = [(1, ("o", "/")), (2, ("s", "a.b")), (3, ("s", "C")), (7, ("s", ":1.66")), (8, ("g", signature))]
    return Bus.message(4, 1, [*fields, *extra], signature, values)


def swapped(message: bytes) -> bytes:
    """A message of a machine, or a client, of the other byte order; only its lengths count."""
    return (
        b"B" + message[1:4] + message[4:8][::-1] + message[8:12][::-1] + message[12:16][::-1] + message[16:]
    )


@pytest.mark.parametrize(
    "noise",
    [
        foreign("u", [1]).replace(b"\x01u\0", b"\x01h\0"),
        foreign("u", [1]).replace(b"\x01u\0", b"\x01?\0"),
        foreign("u", [1], ((77, ("u", 1)),)).replace(b"\x01u\0", b"\x01h\0"),
        foreign("s", ["x"])[:-6] + bytes(6),
        swapped(foreign("s", ["x"])),
        foreign("s", ["x" * (3 << 20)]),
    ],
    ids=["a descriptor", "no type", "in the header", "cut", "order", "large"],
)
def test_messages_of_others_on_the_bus_change_nothing(bus, noise):
    """A body was read before its sender was looked at: any user of the bus made create, kill and delete fail."""
    found = bus("done")
    found.noise = noise
    found.invocation = b"\x07"
    assert systemd.start_scope("u.scope", 42, {}, False, "/a.slice/u.scope", True) == "07"


def test_messages_of_others_do_not_put_off_the_end(bus, monkeypatch):
    monkeypatch.setattr(dbus, "_WAIT_S", 1.0)
    ended = threading.Event()

    def flood(self: Bus, sock: socket.socket, *rest: object) -> None:
        while not ended.is_set():
            sock.sendall(foreign("u", [1]))
            ended.wait(0.01)

    monkeypatch.setattr(Bus, "answer", flood)
    bus()
    failed: list[str] = []

    def call() -> None:
        with pytest.raises(KrunError) as error:
            systemd.set_properties("u.scope", {"pids": {"limit": 1}}, True)
        failed.append(error.value.message)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(20)
    ended.set()
    assert failed == ["call Hello of systemd: no answer within 1 s"]


@pytest.mark.parametrize("kind", ["scope", "slice"])
def test_an_update_that_fails_puts_the_properties_back(bus, tmp_path, monkeypatch, kind):
    """systemd would set the new limits again at its next reload. It has written the files, too, before krun looks at them."""
    found = bus()
    found.invocation = b"\x07"
    unlimited = (1 << 64) - 1
    found.properties = {"MemoryMax": ("t", unlimited), "TasksMax": ("t", 7), "AllowedCPUs": ("ay", [3])}
    (tmp_path / "memory.max").write_text("max")
    told = systemd.set_properties

    def as_systemd(*rest):
        before = told(*rest)
        (tmp_path / "memory.max").write_text("100")
        return before

    def refuse(*_):
        raise SysError("write", "pids.max", 22)

    monkeypatch.setattr(systemd, "set_properties", as_systemd)
    monkeypatch.setattr(group, "_driver", lambda paths: types.SimpleNamespace(limit=refuse))
    cgroup = group.Cgroup.load({"": str(tmp_path)}, Log(), f"systemd:u.{kind}:07")
    resources = {"memory": {"limit": 100}, "pids": {"limit": 9}, "cpu": {"cpus": "0"}}
    with pytest.raises(SysError, match="write pids.max"):
        cgroup.apply(resources)
    given = [dict(values[2]) for call, values in found.asked if call == "SetUnitProperties"]
    assert [(g["MemoryMax"], g["TasksMax"], list(g["AllowedCPUs"])) for g in given] == [
        (100, 9, [1]),
        (unlimited, 7, [3]),
    ]
    asked = {values[0] for call, values in found.asked if call == "Get"}
    assert asked == {f"org.freedesktop.systemd1.{kind.title()}"}
    assert (tmp_path / "memory.max").read_text() == "max"


def test_a_unit_left_failed_is_reset(bus):
    found = bus("error:org.freedesktop.systemd1.UnitExists", "done")
    systemd.start_scope("u.scope", 42, {}, False, "/a.slice/u.scope", False)
    assert [call for call, _ in found.asked].count("ResetFailedUnit") == 1


def test_properties_asked_for_stand_instead_of_ours(bus):
    found = bus("done")
    asked = [("CollectMode", ("s", "inactive")), ("TimeoutStopUSec", ("t", 5))]
    systemd.start_scope("u.scope", 42, {}, False, "/a.slice/u.scope", True, asked)
    properties = next(values[2] for call, values in found.asked if call == "StartTransientUnit")
    assert [value for name, value in properties if name == "CollectMode"] == ["inactive"]
    assert ("TimeoutStopUSec", 5) in [tuple(p) for p in properties]


def test_failures_are_one_line(bus):
    found = bus("failed", "error:org.x.Denied", "error:org.freedesktop.systemd1.NoSuchUnit")
    with pytest.raises(KrunError, match=r"systemd job StartTransientUnit of unit u.scope: failed"):
        systemd.start_scope("u.scope", 42, {}, False, "/a.slice/u.scope", True)
    with pytest.raises(KrunError, match=r"start systemd unit u.scope: no \(org.x.Denied\)"):
        systemd.start_scope("u.scope", 42, {}, False, "/a.slice/u.scope", True)
    systemd.stop_unit("u.scope", False, Log())
    assert found.asked[-1][0] == "StopUnit"


def test_whose_unit_it_is(bus):
    found = bus()
    for running, ours, expected in (
        (b"", "01", False),
        (b"\x01", "01", False),
        (b"\x02", "01", True),
        (b"\x02", "", False),
    ):
        found.invocation = running
        assert systemd.is_foreign("u.scope", ours, False, Log()) is expected
    assert {call for call, _ in found.asked} == {"Hello", "GetNameOwner", "GetUnit", "Get"}


def test_a_unit_is_ours_from_its_start_on(bus, monkeypatch):
    """Before, and where the start fails because the name is taken, a teardown must find nothing to kill or stop."""
    told = []
    monkeypatch.setattr(group, "_driver", lambda paths: types.SimpleNamespace(make=lambda *_: None, limit=lambda *_: None,
                                                                              devices=lambda *_: None))  # fmt: skip
    monkeypatch.setattr(group, "enter", lambda path, pid: None)
    found = bus(
        "error:org.freedesktop.systemd1.UnitExists", "error:org.freedesktop.systemd1.UnitExists", "done"
    )
    found.invocation = b"\x07"
    cgroup = group.Cgroup({"": "/a.slice/u.scope"}, Log(), "systemd:u.scope")
    cgroup.pending = ({}, False, [])
    with pytest.raises(KrunError, match="start systemd unit u.scope"):
        cgroup.join(42, lambda: told.append(cgroup.manager))
    assert told == [] and "StopUnit" not in [call for call, _ in found.asked]
    cgroup.join(42, lambda: told.append(cgroup.manager))
    assert told == ["systemd:u.scope:07"] and not cgroup.foreign()
    found.invocation = b"\x08"
    assert cgroup.foreign()


def test_kill_all_leaves_a_foreign_unit_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(group.Cgroup, "kill", lambda *_: pytest.fail("killed"))
    monkeypatch.setattr(group.Cgroup, "foreign", lambda self: True)
    statedir = StateDir(str(tmp_path / "root"), "x")
    statedir.create()
    statedir.save(ContainerState(id="x", manager="systemd:u.scope:07", cgroup_paths={"": "/a.slice/u.scope"}))
    kill.signal_container(statedir, 9, True, Log())


def test_teardown_leaves_a_foreign_unit_alone(monkeypatch):
    """The name of a unit is in the state: its unit was never started, or has ended, and another one has the name."""
    monkeypatch.setattr(group.Cgroup, "kill", lambda *_: pytest.fail("killed"))
    monkeypatch.setattr(group.Cgroup, "destroy", lambda *_: pytest.fail("removed"))
    monkeypatch.setattr(group.Cgroup, "foreign", lambda self: True)
    config = {"linux": {"cgroupsPath": "a.slice:krun:x"}}
    for manager, paths in (("systemd:u.scope", {}), ("systemd:u.scope:07", {"": "/a.slice/u.scope"})):
        state = ContainerState(id="x", manager=manager, cgroup_paths=paths)
        teardown._destroy_cgroup(state, config, Log())

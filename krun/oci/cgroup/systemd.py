"""The systemd cgroup driver: makes a transient scope for each container over D-Bus.

systemd owns the cgroup tree of a host that it manages; other programs must ask it (systemd.io, CGROUP_DELEGATION; interface:
org.freedesktop.systemd1(5)).
"""

import os

from krun.errors import KrunError
from krun.oci.cgroup.controllers import CONTROLLERS
from krun.oci.cgroup.convert import bitmap, per_second
from krun.oci.cgroup.dbus import MANAGER, OBJECT, SYSTEMD, BusError, Connection
from krun.oci.cgroup.files import MOUNT, UNLIMITED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from krun.log import Log

    Property = tuple[str, tuple[str, Any]]  # name, (signature, value)


def place(spec_cgroups_path: str, id: str, rootless: bool, v2: bool) -> "tuple[str, dict[str, str]]":
    """Return the unit's name and where its cgroups will be: {"": directory} for v2, else controller to
    directory.

    Arguments: spec_cgroups_path, "slice:prefix:name", "" = system.slice (user.slice without root), krun, the
    id.
    Errors: KrunError for another form, or when no systemd answers.
    """
    user = rootless and os.geteuid() != 0
    parts = spec_cgroups_path.split(":") if spec_cgroups_path else ["", "krun", id]
    if len(parts) != 3 or "/" in spec_cgroups_path or not parts[2]:
        raise KrunError(
            'expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups, '
            f'got "{spec_cgroups_path}" instead'
        )
    parent, prefix, name = parts
    parent = parent or ("user.slice" if user else "system.slice")
    unit = name if name.endswith(".slice") else f"{prefix}-{name}.scope" if prefix else f"{name}.scope"
    base = ""
    if user:
        with Connection(True) as bus:
            base = bus.get(OBJECT, MANAGER, "ControlGroup").rstrip("/")
    else:
        _require()
    if name.endswith(".slice"):
        inner = base + expand(name)
    else:
        inner = f"{base}{expand(parent)}/{unit}"
    if v2:
        return unit, {"": MOUNT + inner}
    from krun.oci.cgroup import v1

    return unit, v1.place(inner)


def expand(unit: str) -> str:
    """Return the path of a slice: "a-b.slice" is "/a.slice/a-b.slice", "-.slice" is "" (systemd.slice(5)).

    Errors: KrunError for a name that is no slice.
    """
    stem = unit.removesuffix(".slice")
    if unit == "-.slice":
        return ""
    if stem == unit or not stem or "/" in stem or "" in stem.split("-"):
        raise KrunError(f"invalid slice name: {unit}")
    words = stem.split("-")
    return "".join("/" + "-".join(words[: count + 1]) + ".slice" for count in range(len(words)))


def _require() -> None:
    # sd_booted(3)
    if not os.path.isdir("/run/systemd/system"):
        raise KrunError(
            "use systemd cgroups: systemd is not running on this host (no /run/systemd/system); "
            "use the cgroupfs manager instead"
        )


def start_scope(
    unit: str,
    pid: int,
    resources: "dict[str, Any]",
    rootless: bool,
    path: str,
    v2: bool,
    asked: "Sequence[Property]" = (),
) -> str:
    """Start the transient unit with a process in it and wait until it stands. Return its invocation id, "" if systemd tells none.

    Arguments: path, the unit's cgroup directory: its parent names the slice; asked, properties of the caller's that go
    before ours. Errors: KrunError, SysError.
    """
    properties: list[Property] = [
        ("Description", ("s", f"krun container {unit}")),
        ("DefaultDependencies", ("b", False)),
        # The payload may make groups below: systemd keeps its hands off them.
        ("Delegate", ("b", True)),
        ("CPUAccounting", ("b", True)),
        ("MemoryAccounting", ("b", True)),
        ("TasksAccounting", ("b", True)),
        ("IOAccounting" if v2 else "BlockIOAccounting", ("b", True)),
        ("CollectMode", ("s", "inactive-or-failed")),
    ]
    if not unit.endswith(".slice"):
        parent = os.path.basename(os.path.dirname(path))
        properties.append(("Slice", ("s", parent if parent.endswith(".slice") else "-.slice")))
        properties.append(("PIDs", ("au", [pid])))
    properties += limits(resources, v2)
    names = [name for name, _ in asked]
    properties = [(name, value) for name, value in properties if name not in names] + list(asked)
    with Connection(rootless and os.geteuid() != 0) as bus:
        arguments: tuple[Any, ...] = (unit, "replace", properties, [])
        try:
            bus.job("StartTransientUnit", "ssa(sv)a(sa(sv))", arguments)
        except BusError as error:
            if not error.name.endswith(".UnitExists"):
                raise KrunError(f"start systemd unit {unit}: {error.message}") from None
            # Left failed by a container of the same name.
            bus.call(OBJECT, MANAGER, "ResetFailedUnit", "s", (unit,))
            try:
                bus.job("StartTransientUnit", "ssa(sv)a(sa(sv))", arguments)
            except BusError as again:
                raise KrunError(f"start systemd unit {unit}: {again.message}") from None
        return _invocation(bus, unit) or ""


def _invocation(bus: Connection, unit: str) -> "str | None":
    """Return the id of this run of a unit, in hexadecimal, "" if systemd tells none; None if there is no such unit."""
    try:
        path = bus.call(OBJECT, MANAGER, "GetUnit", "s", (unit,))[0]
        return bytes(bus.get(path, SYSTEMD + ".Unit", "InvocationID")).hex()
    except BusError as error:
        return None if error.name.endswith(".NoSuchUnit") else ""


def is_foreign(unit: str, invocation: str, rootless: bool, log: "Log") -> bool:
    """Tell whether a unit of this name runs that is not the one that was started: ours has ended, and its name was free.

    Arguments: unit; invocation, what start_scope has returned, "" says nothing; rootless; log. A bus without an answer says nothing
    either.
    """
    if not invocation:
        return False
    try:
        with Connection(rootless and os.geteuid() != 0) as bus:
            return _invocation(bus, unit) not in (None, "", invocation)
    except KrunError as error:
        log.debug(f"look at systemd unit {unit}: {error.message}")
        return False


def stop_unit(unit: str, rootless: bool, log: "Log") -> None:
    """Stop a unit and forget it. A unit that is gone already, or a bus without an answer, is no error,
    because the caller removes the directories in any case."""
    try:
        with Connection(rootless and os.geteuid() != 0) as bus:
            try:
                bus.job("StopUnit", "ss", (unit, "replace"))
                bus.call(OBJECT, MANAGER, "ResetFailedUnit", "s", (unit,))
            except BusError as error:
                if not error.name.endswith(".NoSuchUnit"):
                    log.debug(f"stop systemd unit {unit}: {error.message}")
    except KrunError as error:
        log.debug(f"stop systemd unit {unit}: {error.message}")


def set_properties(unit: str, resources: "dict[str, Any]", v2: bool) -> "list[Property]":
    """Tell systemd of new limits, or a reload would bring the old ones back. Return the old ones. Errors: KrunError; all are the old
    ones then.
    """
    properties = limits(resources, v2)
    if not properties:
        return []
    with Connection(os.geteuid() != 0) as bus:
        try:
            before = _present(bus, unit, properties)
            bus.call(OBJECT, MANAGER, "SetUnitProperties", "sba(sv)", (unit, True, properties))
        except BusError as error:
            raise KrunError(f"set properties of systemd unit {unit}: {error.message}") from None
    return before


def _present(bus: Connection, unit: str, properties: "list[Property]") -> "list[Property]":
    """Return these properties of a unit as they are, except those that this systemd cannot tell."""
    path = bus.call(OBJECT, MANAGER, "GetUnit", "s", (unit,))[0]
    kind = SYSTEMD + (".Slice" if unit.endswith(".slice") else ".Scope")
    found: list[Property] = []
    for name, (signature, _) in properties:
        try:
            found.append((name, (signature, bus.get(path, kind, name))))
        except BusError:
            pass
    return found


def put_back(unit: str, properties: "list[Property]", log: "Log") -> None:
    """Set what set_properties has returned. A failure is a warning: the caller has an error of its own."""
    try:
        with Connection(os.geteuid() != 0) as bus:
            bus.call(OBJECT, MANAGER, "SetUnitProperties", "sba(sv)", (unit, True, properties))
    except KrunError as error:
        log.warning(f"systemd unit {unit} keeps the new limits: {error.message}")


def limits(resources: "dict[str, Any]", v2: bool) -> "list[Property]":
    """Return linux.resources as unit properties (systemd.resource-control(5)), as far as systemd has words for them.

    Errors: KrunError for a value that cannot be.
    """
    found: list[Property] = []
    for controller in CONTROLLERS:
        section = resources.get(controller.member)
        for setting in controller.settings if section else ():
            unit = setting.unit_v2 if v2 else setting.unit_v1
            value = setting.given(section)
            if unit is None or (value is None and not (setting.unset and setting.key)):
                continue
            try:
                number = unit[1](value, section)
            except ValueError:
                raise KrunError(f"unit property {unit[0]}: {value!r} is no list of numbers") from None
            if number is not None:
                found.append((unit[0], ("ay" if isinstance(number, bytes) else "t", number)))
    if v2:
        found += _unified(resources.get("unified") or {})
    for name, (kind, number) in found:
        if kind == "t" and not 0 <= number <= UNLIMITED:
            raise KrunError(f"unit property {name}: {number} is out of range")
    return found


def _unified(unified: "dict[str, str]") -> "list[Property]":
    """Return linux.resources.unified as properties, as far as systemd has words for it; the files get all of it.

    Errors: KrunError for a value that its file would not take either.
    """
    words = {s.v2: s.unit_v2[0] for row in CONTROLLERS for s in row.settings if s.unit_v2}
    found: list[Property] = []
    for name, text in unified.items():
        text = str(text).strip()
        try:
            if name == "cpu.max":  # two properties
                quota, _, period = text.partition(" ")
                micros = int(period or "100000")
                rate = UNLIMITED if quota == "max" else per_second(int(quota), micros)
                found += [("CPUQuotaPerSecUSec", ("t", rate)), ("CPUQuotaPeriodUSec", ("t", micros))]
            elif name.startswith("cpuset.") and name in words:
                found.append((words[name], ("ay", bitmap(text))))
            elif name in words:
                number = text.removeprefix("default ") if name == "io.weight" else text
                found.append((words[name], ("t", UNLIMITED if number == "max" else int(number))))
        except (ValueError, ZeroDivisionError):
            raise KrunError(f"unified resource {name!r}: {text!r} is no value of this file") from None
    return found

"""krun update: changes the limits of a container."""

import os
import sys

from krun.errors import KrunError, SysError, UsageError
from krun.oci import resctrl
from krun.oci import state as st
from krun.oci.cgroup.controllers import CONTROLLERS
from krun.oci.cgroup.group import Cgroup
from krun.oci.spec import parse_resources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.cli.options import Options
    from krun.log import Log

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}


def main(opts: "Options") -> int:
    """Apply --resources, or else the single flags, to container opts.id.

    Errors: NotFoundError, KrunError "container not running", UsageError for a bad size, ConfigError for bad
    JSON.
    """
    resources = _read(opts.resources, opts.logger) if opts.resources else from_flags(opts)
    statedir = st.StateDir(opts.root, opts.id)
    with statedir.lock():
        state = statedir.load()
        if st.status(state, statedir) == st.STOPPED:
            raise KrunError("container not running")
        Cgroup.load(state.cgroup_paths, opts.logger, state.manager).apply(resources)
        _schemata(state, opts)
    return 0


def from_flags(opts: "Options") -> "dict[str, Any]":
    """Return the flags as linux.resources."""
    resources: dict[str, Any] = {}
    for controller in CONTROLLERS:
        for setting in controller.settings:
            value = getattr(opts, setting.flag) if setting.flag else None
            if value is None or value == "":
                continue
            if setting.size:
                value = size(value, setting.flag.replace("_", "-"))
            resources.setdefault(controller.member, {})[setting.key] = value
    if opts.kernel_memory or opts.kernel_memory_tcp:
        opts.logger.warning("kernel memory settings are ignored and will be removed")
    return resources


def size(text: str, flag: str) -> int:
    """Return a size in bytes: digits, a fraction, and b, k, m, g, t or p, with "b" or "ib" after it, in any
    case; -1 = no limit. Errors: UsageError."""
    if text == "-1":
        return -1
    digits = text.rstrip("bBiIkKmMgGtTpP ")
    unit = text[len(digits) :].strip().lower().removesuffix("b").removesuffix("i")
    whole, point, fraction = digits.partition(".")
    if (
        unit not in _UNITS
        or not digits.isascii()
        or not whole.isdigit()
        or (point and not fraction.isdigit())
        or (unit == "" and point)
    ):
        raise UsageError(f"invalid value for {flag}: {text!r}, use a number with b, k, m, g or t, or -1")
    scale = 1 << _UNITS[unit]
    return int(whole) * scale + (int(fraction) * scale // 10 ** len(fraction) if fraction else 0)


def _read(path: str, log: "Log") -> "dict[str, Any]":
    if path == "-":
        data = sys.stdin.buffer.read()
    else:
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise SysError.of("read resources", error, path) from None
    resources = parse_resources(data, "standard input" if path == "-" else path)
    if resources.pop("devices", None):
        # Device rules are part of the container's boundary and stay as create set them, as in runc.
        log.debug("update: devices are ignored")
    return resources


def _schemata(state: st.ContainerState, opts: "Options") -> None:
    lines = [text for text in (opts.l3_cache_schema, opts.mem_bw_schema) if text]
    if not lines:
        return
    if not state.intel_rdt or not os.path.isdir(state.intel_rdt):
        raise KrunError("set resctrl schema: this container has no resctrl group (linux.intelRdt)")
    resctrl.write_schemata(state.intel_rdt, lines)

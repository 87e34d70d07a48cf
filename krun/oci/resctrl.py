"""linux.intelRdt: a directory of the resctrl file system for the container (config-linux.md, "IntelRdt";
kernel Documentation/arch/x86/resctrl.rst).

closID names a class of service. If its directory does not exist, krun makes it and removes it with the container. If it
exists, krun keeps it, and its schemata must equal the requested ones. Monitoring uses a directory of the container below it.
"""

import os

from krun.errors import ConfigError, KrunError, SysError
from krun.fileio import read_file, split_lines, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from krun.log import Log
    from krun.oci.state import ContainerState

_AT = "/linux/intelRdt"
# Names that resctrl keeps for itself in its root.
_OWN = ("info", "mon_groups", "mon_data")


def check(wanted: "dict[str, Any]") -> None:
    """Checks linux.intelRdt without looking at the host. Raises ConfigError."""
    name = wanted.get("closID") or ""
    if name != "/" and (name in (".", "..", *_OWN) or "/" in name or "\0" in name or "\n" in name):
        raise ConfigError(f"{_AT}/closID", f'invalid intelRdt.ClosID "{name}"')
    bandwidth = wanted.get("memBwSchema") or ""
    if bandwidth and (not bandwidth.startswith("MB:") or "\n" in bandwidth):
        raise ConfigError(f"{_AT}/memBwSchema", "must be one line that starts with MB:")


def find_root() -> str:
    """Returns where resctrl is mounted (proc(5), mountinfo), "" if nowhere."""
    for line in split_lines(read_file("/proc/self/mountinfo").decode("utf-8", "surrogateescape")):
        left, _, right = line.partition(" - ")
        if right.startswith("resctrl "):
            # Blanks and the like stand as octal numbers.
            escaped = left.split(" ")[4].encode("utf-8", "surrogateescape")
            return escaped.decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")
    return ""


def lines_of(wanted: "dict[str, Any]") -> "tuple[list[str], list[str]]":
    """Returns (lines of l3CacheSchema and memBwSchema, which are also compared; lines of schemata, written after them)."""
    bandwidth = wanted.get("memBwSchema") or ""
    cache = [line.strip() for line in (wanted.get("l3CacheSchema") or "").split("\n") if line.strip()]
    if bandwidth:
        cache = [line for line in cache if not line.startswith("MB:")]
    return cache + ([bandwidth] if bandwidth else []), list(wanted.get("schemata") or ())


def create(
    wanted: "dict[str, Any]", state: "ContainerState", save: "Callable[[], None]", root: str = ""
) -> None:
    """Makes or finds the container's directory and writes its schemata.

    Arguments: wanted, linux.intelRdt, checked; state, whose intel_rdt and intel_rdt_made are set; save, writes the
    state to disk: before each directory is made, so that `delete` removes it even if krun is killed; root, where
    resctrl is mounted, for tests. Raises KrunError, SysError. On an error the directories stay for `remove`.
    """
    root = root or find_root()
    if not root:
        raise KrunError(
            "intelRdt is specified in config, but Intel RDT is not enabled: no resctrl file system is mounted"
        )
    _check_features(wanted, root)
    name = wanted.get("closID") or state.id
    compared, others = lines_of(wanted)
    path = root if name == "/" else f"{root}/{name}"
    made = False
    if not os.path.isdir(path):
        if wanted.get("closID") and not compared and not others:
            raise KrunError(
                f"intelRdt: closID {name} has no directory in {root}, and no schema to make one with"
            )
        made = _make(path, state, save)
    state.intel_rdt = path
    if not made and compared:
        _compare(path, compared)
    if (made and compared) or others:
        write_schemata(path, [*compared, *others], root)
    if wanted.get("enableMonitoring"):
        _make(f"{path}/mon_groups/{state.id}", state, save)


def _check_features(wanted: "dict[str, Any]", root: str) -> None:
    """A field that the processor (or the mount) does not support is an error that names the field."""
    try:
        have = os.listdir(f"{root}/info")
    except OSError as e:
        raise SysError("read", f"{root}/info", e.errno or 0) from None
    for field, features in (
        ("l3CacheSchema", ("L3", "L3CODE", "L3DATA")),
        ("memBwSchema", ("MB",)),
        ("enableMonitoring", ("L3_MON",)),
    ):
        if wanted.get(field) and not any(feature in have for feature in features):
            raise ConfigError(f"{_AT}/{field}", f"this host's resctrl has no {features[0]}")


def _make(path: str, state: "ContainerState", save: "Callable[[], None]") -> bool:
    """Makes a directory that goes with the container. Returns False if somebody else has just made it."""
    state.intel_rdt_made.insert(0, path)
    save()
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        state.intel_rdt_made.remove(path)
        save()
        return False
    except OSError as e:
        # Nothing was made: a directory of that name that comes later is not ours to remove.
        state.intel_rdt_made.remove(path)
        save()
        raise SysError(
            "make resctrl group",
            path,
            e.errno or 0,
            "all classes of service are in use" if e.errno == 28 else "",
        ) from None
    return True


def _compare(path: str, wanted: "list[str]") -> None:
    """Raises KrunError unless the schemata of a directory that was there are what is asked for."""
    have: dict[str, dict[str, str]] = {}
    for line in split_lines(read_file(f"{path}/schemata").decode()):
        kind, _, values = line.strip().partition(":")
        have[kind] = _domains(values)
    for line in wanted:
        kind, _, values = line.partition(":")
        for domain, value in _domains(values).items():
            found = have.get(kind, {}).get(domain)
            if found is None or _number(kind, found) != _number(kind, value):
                raise KrunError(
                    f"intelRdt: {path} has {kind}:{domain}={found or 'none'}, config.json wants {value}: "
                    "choose another closID"
                )


def _domains(values: str) -> "dict[str, str]":
    return {
        key.strip(): value.strip() for key, _, value in (part.partition("=") for part in values.split(";"))
    }


def _number(kind: str, text: str) -> "int | str":
    """The kernel pads values; masks are hexadecimal, bandwidths are not."""
    try:
        return int(text, 10 if kind == "MB" else 16)
    except ValueError:
        return text


def write_schemata(path: str, lines: "list[str]", root: str = "") -> None:
    """Writes lines into the schemata of a group. Raises SysError with the kernel's own words (info/last_cmd_status)."""
    try:
        write_file(f"{path}/schemata", "".join(line.rstrip("\n") + "\n" for line in lines))
    except SysError as e:
        raise SysError(e.op, e.path, e.errno, _last_status(root or find_root())) from None


def _last_status(root: str) -> str:
    try:
        words = read_file(f"{root}/info/last_cmd_status", 512).decode("utf-8", "replace").strip()
    except SysError:
        return ""
    return "" if words == "ok" else words


def join(state: "ContainerState", pid: int) -> None:
    """Puts a process into the container's groups (its further ones follow by birth). Raises SysError."""
    for path in (state.intel_rdt, *(made for made in state.intel_rdt_made if "/mon_groups/" in made)):
        if path:
            write_file(f"{path}/tasks", str(pid))


def remove(state: "ContainerState", log: "Log") -> None:
    """Removes the directories that this container made, the innermost first. Raises SysError."""
    for path in state.intel_rdt_made:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            log.debug(f"resctrl group {path} is gone already")
        except OSError as e:
            raise SysError("remove resctrl group", path, e.errno or 0) from None


def stats(state: "ContainerState", root: str = "") -> "dict[str, Any]":
    """Returns what `events` shows, with runc's names: schemata of the root and of the group, what the cache and the
    bandwidth controller offer, and the counters of the group that is monitored. {} without a group."""
    root = root or (find_root() if state.intel_rdt else "")
    if not root or not state.intel_rdt:
        return {}
    shown: dict[str, Any] = {}
    for prefix, feature, key, members in (
        ("L3:", "L3", "l3_cache", ("cbm_mask", "min_cbm_bits", "num_closids")),
        ("MB:", "MB", "mem_bw", ("bandwidth_gran", "delay_linear", "min_bandwidth", "num_closids")),
    ):
        words = {member: _read(f"{root}/info/{feature}/{member}") for member in members}
        if not any(words.values()):
            continue
        shown[f"{key}_info"] = {
            member: word if member == "cbm_mask" else int(word) for member, word in words.items() if word
        }
        shown[f"{key}_schema_root"] = _line(f"{root}/schemata", prefix)
        shown[f"{key}_schema"] = _line(f"{state.intel_rdt}/schemata", prefix)
    monitored = next((path for path in state.intel_rdt_made if "/mon_groups/" in path), state.intel_rdt)
    nodes = [f"{monitored}/mon_data/{name}" for name in _names(f"{monitored}/mon_data")]
    for key, files in (
        ("mbm_stats", ("mbm_total_bytes", "mbm_local_bytes")),
        ("cmt_stats", ("llc_occupancy",)),
    ):
        found = [{file: int(_read(f"{node}/{file}") or 0) for file in files} for node in nodes]
        if nodes and _read(f"{nodes[0]}/{files[0]}"):
            shown[key] = found
    return shown


def _names(path: str) -> "list[str]":
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        return read_file(path, 1 << 16).decode().strip()
    except SysError:
        return ""


def _line(path: str, prefix: str) -> str:
    return next((line.strip() for line in split_lines(_read(path)) if line.strip().startswith(prefix)), "")

"""The administrator's configuration, /etc/krun/krun.yaml (docs/configuration.md): a table of keys, checked as a whole.

Without the file this costs one open(2) that fails. PyYAML is imported only if the file is there.
"""

import os
from stat import S_ISREG

from krun.errors import KrunError, SysError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATH = "/etc/krun/krun.yaml"
_LIMIT = 64 << 10  # bytes; a larger file is a mistake

# Key, the types of its value, the words that it may be ("" = any), the attribute of Settings.
KEYS: "tuple[tuple[str, type, tuple[str, ...], str], ...]" = (
    ("log.file", str, (), "log_file"),
    ("log.format", str, ("text", "json"), "log_format"),
    ("log.level", str, ("error", "warning", "debug"), "log_level"),
    ("hooks.allowed", bool, (), "hooks_allowed"),
    ("calls.local", str, ("off", "on", "auto"), "calls_local"),
    ("calls.sockets", str, ("off", "on"), "calls_sockets"),
)


class Settings:
    """The values of the file. log_file, log_format, log_level: defaults of --log, --log-format, --log-level, None = krun's own;
    hooks_allowed: whether a container may have hooks; calls_local: whether system calls are completed inside the guest;
    calls_sockets: whether those on TCP sockets are."""

    __slots__ = ("log_file", "log_format", "log_level", "hooks_allowed", "calls_local", "calls_sockets")

    def __init__(self) -> None:
        self.log_file: str | None = None
        self.log_format: str | None = None
        self.log_level: str | None = None
        self.hooks_allowed = True
        self.calls_local, self.calls_sockets = "auto", "on"


def load(path: str = "") -> Settings:
    """Reads the file. Argument: path, "" = PATH. Returns the defaults if there is none.

    Raises KrunError with file, key and remedy: a file that others than root may write, a file that is not YAML, a key that
    is not known, a value of another type. SysError if the file cannot be read.
    """
    path = path or PATH
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return Settings()
    except OSError as e:
        raise SysError("open configuration", path, e.errno or 0, "make it readable: chmod 0644") from None
    try:
        _check_owner(path, os.fstat(fd))
        _check_owner(os.path.dirname(path), os.stat(os.path.dirname(path)))
        data = os.read(fd, _LIMIT + 1)
    except OSError as e:
        raise SysError("read configuration", path, e.errno or 0) from None
    finally:
        os.close(fd)
    if len(data) > _LIMIT:
        raise KrunError(f"read configuration {path}: larger than {_LIMIT >> 10} KiB")
    return parse(data, path)


def _check_owner(path: str, info: os.stat_result) -> None:
    """Refuses what another user than root can change: the file decides what krun does as root."""
    if info.st_uid != 0 and not _overflow(info.st_uid):
        raise KrunError(f"read configuration {path}: owned by uid {info.st_uid}; chown root:root {path}")
    if info.st_mode & 0o022:
        raise KrunError(
            f"read configuration {path}: mode {info.st_mode & 0o7777:04o} lets others write; chmod go-w {path}"
        )
    if path.endswith(".yaml") and not S_ISREG(info.st_mode):
        raise KrunError(f"read configuration {path}: not a regular file")


def _overflow(uid: int) -> bool:
    """Tells whether a uid stands for one that our user namespace does not map: the host's root then looks like this, too
    (user_namespaces(7)). The caller runs with an ordinary user's rights there."""
    try:
        with open("/proc/sys/kernel/overflowuid") as file:
            overflow = int(file.read())
        with open("/proc/self/uid_map") as file:
            identity = file.read().split() == ["0", "0", "4294967295"]
    except (OSError, ValueError):
        return False
    return uid == overflow and not identity


def parse(data: bytes, path: str) -> Settings:
    """Returns the settings of a document. Arguments: data; path, for errors. Raises KrunError."""
    import yaml

    try:
        document = yaml.safe_load(data.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as e:
        raise KrunError(f"read configuration {path}: not YAML: {e}") from None
    found = Settings()
    if document is None:
        return found
    known = {key: (kind, words, attribute) for key, kind, words, attribute in KEYS}
    for key, value in _flat(document, path):
        if key not in known:
            raise KrunError(f"read configuration {path}: unknown key {key}; use {', '.join(known)}")
        kind, words, attribute = known[key]
        if "on" in words and type(value) is bool:  # YAML 1.1 reads the bare words on and off as booleans
            value = "on" if value else "off"
        if type(value) is not kind:
            name = "true or false" if kind is bool else "a string"
            raise KrunError(f"read configuration {path}: {key} must be {name}")
        if words and value not in words:
            raise KrunError(f"read configuration {path}: {key} is {value!r}; use {', '.join(words)}")
        setattr(found, attribute, value)
    if found.log_file is not None and not found.log_file.startswith(("/", "file:/", "journald:", "syslog:")):
        raise KrunError(
            f"read configuration {path}: log.file must be an absolute path, journald:ID or syslog:ID"
        )
    return found


def _flat(document: "Any", path: str) -> "list[tuple[str, Any]]":
    """Returns the pairs of "section.key" and value. Raises KrunError for a document of another shape."""
    pairs = []
    if not isinstance(document, dict):
        raise KrunError(f"read configuration {path}: must be a mapping of sections")
    for section, values in document.items():
        if not isinstance(values, dict):
            raise KrunError(f"read configuration {path}: {section} must be a mapping of keys")
        pairs += [(f"{section}.{key}", value) for key, value in values.items()]
    return pairs

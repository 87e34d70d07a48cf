"""The errors that krun reports. An error has a class of its own only if a caller branches on it; every message is one line."""

import os

TYPE_CHECKING = False


def one_line(text: str) -> str:
    """Return `text` with every run of white space (line ends included) made one blank: logs hold one line per
    error. Control characters are shown (`\\x1b`): an image chooses names, and a message goes to an administrator's terminal.
    """
    text = " ".join(text.split())
    if text.isprintable():
        return text
    return "".join(f"\\x{ord(c):02x}" if c < " " or "\x7f" <= c < "\xa0" else c for c in text)


def strerror(number: int) -> str:
    """Return the C library's words for errno `number` with a small first letter, as Go prints them.

    containerd, podman and dockerd look for "no such file or directory", "permission denied", ... in a runtime's error.
    runc is a Go program, and Go's errno strings begin with a small letter; strerror(3) begins with a capital one.
    """
    words = os.strerror(number)
    # "RFS specific error", "RPC struct is bad": an abbreviation keeps its capitals.
    if len(words) > 1 and words[1].isupper():
        return words
    return words[:1].lower() + words[1:]


class KrunError(Exception):
    """Something the user asked for cannot be done. `exit_code` is what the process ends with."""

    exit_code = 1

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        """Take `message` (lower case, one line: what, on what, why, remedy) and the exit code if not 1."""
        super().__init__(one_line(message))
        if exit_code is not None:
            self.exit_code = exit_code

    @property
    def message(self) -> str:
        """The one line."""
        return str(self.args[0])


class SysError(KrunError):
    """A system call failed: operation, object, errno (positive; 0 = no errno, `text` says it all), words of
    ours.
    """

    def __init__(self, op: str, path: str, errno: int, text: str = "") -> None:
        parts = [f"{op} {path}" if op and path else op or path]
        if errno:
            parts.append(strerror(errno))
        if text:
            parts.append(text)
        super().__init__(": ".join(part for part in parts if part))
        self.op = op
        self.path = path
        self.errno = errno
        self.text = text

    @classmethod
    def of(cls, op: str, error: OSError, path: str = "", text: str = "") -> "SysError":
        """Make one from Python's own OSError; the path is taken from the error unless it is given."""
        where = path or os.fsdecode(error.filename or "") if not isinstance(error.filename, int) else path
        return cls(op, where, error.errno or 0, text)


class ConfigError(KrunError):
    """config.json (or another document) says something wrong: JSON pointer of the place (RFC 6901), what is
    wrong.
    """

    def __init__(self, pointer: str, text: str) -> None:
        super().__init__(f"{pointer}: {text}" if pointer else text)
        self.pointer = pointer
        self.text = text


class NotFoundError(KrunError):
    """The container does not exist (containerd and CRI-O match the words "does not exist")."""


class HookError(KrunError):
    """A hook could not be run, failed, or took too long."""


class UsageError(KrunError):
    """The command line is wrong."""

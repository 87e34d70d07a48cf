"""Messages between `krun` and its child, and from the monitor: one type byte, then NUL-separated UTF-8 fields.

    parent (talk)                               child (init), then the monitor it becomes
      clone3 ------------------------------------->
      write id maps          <---- M -----         in a new user namespace only
                              ---- A ---->
      move into the cgroup   <---- C -----         the child goes on mounting meanwhile
                              ---- A ---->
      prestart, createRuntime <--- H -----         only if there are such hooks
                              ---- A ---->
                             <---- R -----         by the monitor: VM ready, waits in start.fifo; of exec: program loaded
      raises the error       <---- E -----         at any time: step, operation, path, errno, text

The socket is SOCK_SEQPACKET: one message is one read(2). result.fifo carries the same bytes (docs/architecture.md).
"""

import os

from krun.errors import KrunError, SysError

MAPS = "M"
CGROUP = "C"
HOOKS = "H"
GO = "A"
READY = "R"
OK = "O"
ERROR = "E"
CLOSED = ""

LIMIT = 4096  # PIPE_BUF: a FIFO takes it whole


class ChildError(SysError):
    """An error that the child or the monitor met; `step` is where."""

    def __init__(self, step: str, op: str, path: str, errno: int, text: str) -> None:
        super().__init__(op, path, errno, text)
        self.step = step


def encode(kind: str, *fields: str) -> bytes:
    """Returns the bytes of a message, cut to LIMIT; NUL in a field becomes a blank."""
    parts = [field.replace("\0", " ").encode("utf-8", "surrogateescape") for field in fields]
    return (kind.encode() + b"\0".join(parts))[:LIMIT]


def send(fd: int, kind: str, *fields: str) -> None:
    """Sends one message. Raises SysError; a receiver that is gone is EPIPE, never a signal (Python ignores SIGPIPE)."""
    data = encode(kind, *fields)
    while True:
        try:
            os.write(fd, data)
            return
        except InterruptedError:
            continue
        except OSError as e:
            raise SysError("send", "sync message", e.errno or 0) from None


def receive(fd: int) -> "tuple[str, list[str]]":
    """Receives one message: (type, fields); type is CLOSED when the other side is gone. Raises SysError."""
    while True:
        try:
            data = os.read(fd, LIMIT)
            break
        except InterruptedError:
            continue
        except ConnectionResetError:
            return CLOSED, []
        except OSError as e:
            raise SysError("receive", "sync message", e.errno or 0) from None
    if not data:
        return CLOSED, []
    return chr(data[0]), data[1:].decode("utf-8", "surrogateescape").split("\0")


def error_of(fields: "list[str]") -> ChildError:
    """Returns the error of an E message; a short one is padded."""
    step, op, path, number, text = (fields + [""] * 5)[:5]
    return ChildError(step, op, path, int(number) if number.isdigit() else 0, text)


def error_fields(step: str, error: BaseException) -> "tuple[str, str, str, str, str]":
    """Returns the fields of the E message for an exception."""
    if isinstance(error, SysError):
        return step, error.op, error.path, str(error.errno), error.text
    if isinstance(error, KrunError):
        return step, "", "", "0", str(error)
    if isinstance(error, OSError):
        return step, "", str(error.filename or ""), str(error.errno or 0), ""
    return step, "", "", "0", f"{type(error).__name__}: {error}"


def explain(error: KrunError) -> KrunError:
    """Puts runc's words before an error of the child: callers show the whole line, and compare parts of it."""
    if isinstance(error, ChildError):
        if error.step.endswith((" program", "exec")) or error.message.startswith("exec: "):
            return KrunError(f"unable to start container process: {error.message}")
        return KrunError(f"unable to start container process: error during container init: {error.message}")
    return error


def stages(fields: "list[str]") -> "dict[str, int]":
    """Returns the stage times of an R or O message: name to nanoseconds of CLOCK_MONOTONIC."""
    found = {}
    for field in fields:
        name, _, value = field.partition("=")
        if value.isdigit():
            found[name] = int(value)
    return found

"""krun debug ID: the threads of all processes of a container: registers, call, wait, stack; as text or JSON. No process notices.

docs/debugging.md has the verb, krun/kvm/inspect.py the way.
"""

from __future__ import annotations

import os
import struct
import sys

from krun.errors import KrunError
from krun.jsonio import dumps
from krun.kvm import inspect, strace
from krun.kvm.watch import Record
from krun.oci import ps
from krun.oci import state as st

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.cli.options import Options


def main(opts: Options) -> int:
    """Print what the threads of the container opts.id do. Errors: NotFoundError; KrunError for a container that does not run."""
    statedir = st.StateDir(opts.root, opts.id)
    state = statedir.load()
    status = st.status(state, statedir)
    if status not in (st.CREATED, st.RUNNING, st.PAUSED):
        raise KrunError(f"cannot look into container {opts.id} in the {status} state")
    found = []
    for pid in ps.processes(state, opts.logger):
        try:
            found.append(_process(pid))
        except (ProcessLookupError, FileNotFoundError):
            continue  # it has just ended
        except OSError as error:
            raise KrunError(
                f"cannot look into process {pid} of container {opts.id}: {error.strerror}: run krun as root, with CAP_SYS_PTRACE"
            ) from None
    if opts.json:
        sys.stdout.write(dumps(found, 2) + "\n")
    else:
        sys.stdout.write("".join(_text(process) for process in found))
    return 0


def _process(pid: int) -> dict[str, Any]:
    process = inspect.Process(pid)
    try:
        with open(f"{process.folder}/cmdline", "rb") as file:
            words = file.read(4096).split(b"\0")[:-1]
        with open(f"/proc/{pid}/status", errors="replace", newline="\n") as file:
            inside = inspect.last_number(file.read(), "NStgid")
        return {
            "pid": inside,
            "hostPid": pid,
            "command": [inspect.printable(word.decode(errors="replace")) for word in words],
            "threads": [_thread(process, one) for one in process.threads()],
        }
    finally:
        process.close()


def _thread(process: inspect.Process, one: dict[str, Any]) -> dict[str, Any]:
    call = None if one["call"] is None else _call(process, one)
    stack = one["stack"]
    words = struct.unpack(f"<{len(stack) // 8}Q", stack[: len(stack) & ~7])
    return {
        "tid": one["tid"],
        "hostTid": one["hostTid"],
        "name": one["name"],
        "state": one["state"],
        "call": call,
        "wait": one["wait"],
        "kernelStack": one["kernelStack"],
        "registersAre": "current"
        if one["fresh"]
        else "those of its last exit"
        if one["begun"]
        else "none yet",
        "registers": {name: hex(value) for name, value in one["registers"].items()},
        "backtrace": [{"address": hex(at), "in": process.name_of(at)} for at in one["frames"]],
        "stack": [hex(word) for word in words],
    }


def _call(process: inspect.Process, one: dict[str, Any]) -> dict[str, Any]:
    """Return a call's number, name, arguments as text, and the file of its first descriptor."""
    number, args = one["call"], one["args"]
    head = struct.pack("<IIQQqIIII6Q", 0, 96, 0, 0, 0, 0, 0, number, 0, *args)
    record = Record(head.ljust(512, b"\0"))
    kinds = strace.CALLS.get(number, ("", "", ""))[2].split()
    for i, kind in enumerate(kinds):
        if kind in ("PATH", "STR") and args[i]:
            data = process.read(args[i], 200).split(b"\0")[0] if args[i] < inspect.WINDOW_END else b""
            record.items[i] = (data, len(data))
    found: dict[str, Any] = {
        "number": number,
        "name": strace.call_name(number),
        "args": strace.arguments(record),
    }
    if "FD" in kinds:
        try:
            # A thread may have a table of its own.
            folder = f"/proc/{process.pid}/task/{one['hostTid']}/fd"
            link = os.readlink(f"{folder}/{args[kinds.index('FD')] & 0xFFFFFFFF}")
            found["descriptor"] = inspect.printable(link)
        except OSError:
            pass
    return found


def _text(process: dict[str, Any]) -> str:
    out = [f"process {process['pid']} (on the host {process['hostPid']}): {' '.join(process['command'])}"]
    for thread in process["threads"]:
        call = thread["call"]
        where = (
            f"in {call['name']}({', '.join(call['args'])})"
            if call
            else "has not begun"
            if thread["registersAre"] == "none yet"
            else "in the guest"
        )
        if call and "descriptor" in call:
            where += f" on {call['descriptor']}"
        if thread["wait"]:
            where += f", waits in {thread['wait']}"
        out.append(
            f"  thread {thread['tid']} (on the host {thread['hostTid']}) {thread['name']!r}: {where}; {thread['state']}"
        )
        out.append(f"    registers, {thread['registersAre']}:")
        items = [f"{name:>7} {int(value, 16):#018x}" for name, value in thread["registers"].items()]
        out += ["    " + " ".join(items[i : i + 4]) for i in range(0, len(items), 4)]
        out += [f"    #{i} {frame['address']} {frame['in']}" for i, frame in enumerate(thread["backtrace"])]
        stack = thread["stack"]
        at = int(thread["registers"].get("rsp", "0"), 16)
        out += [f"    {at + 8 * i:#x}: {' '.join(stack[i : i + 4])}" for i in range(0, len(stack), 4)]
    return "\n".join(out) + "\n"

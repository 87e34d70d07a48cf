"""krun trace ID: the system calls of a running container, as text like strace's or as lines of JSON, until a signal or the container
ends it. docs/debugging.md has the verb, krun/kvm/watch.py the way to the monitors.
"""

from __future__ import annotations

import os
import select
import signal
import time

from krun.errors import KrunError, SysError, UsageError
from krun.jsonio import dumps
from krun.kvm import strace
from krun.kvm.watch import ENDS, KILLED, PIDS, RECORDS, SIGNAL, Filter, Watch
from krun.oci import state as st
from krun.oci.kill import open_init

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from krun.cli.options import Options
    from krun.kvm.watch import Record
    from krun.log import Log

_SHORTEST_S, _LONGEST_S = 0.002, 0.05  # between two looks at the ring
_PIECE = 4096  # PIPE_BUF: a pipe that poll(2) calls writable takes as much without waiting (pipe(7))


def main(opts: Options) -> int:
    """Trace the container opts.id: calls, opts.pid, opts.errno, opts.failed choose; opts.json, opts.output, opts.string say how.

    Errors: UsageError; NotFoundError; KrunError for a container that does not run, or that somebody else traces; SysError.
    """
    wanted = _filter(opts)
    statedir = st.StateDir(opts.root, opts.id)
    state = statedir.load()
    found = st.status(state, statedir)
    if found not in (st.CREATED, st.RUNNING, st.PAUSED):
        raise KrunError(f"cannot trace container {opts.id} in the {found} state")
    pidfd = open_init(state)
    if pidfd < 0:
        raise KrunError(f"cannot trace container {opts.id} in the {st.STOPPED} state")
    read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(write)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    watch = Watch(f"{statedir.path}/{st.BOARD}", opts.id, wanted)
    try:
        # Behind the attaching: a trace that is refused must not empty the file of the first one.
        out = _open(opts.output) if opts.output else os.dup(1)
        opts.logger.debug(f"tracing container {opts.id}")
        _follow(watch, Writer(out, bool(opts.json), _clock(state.pid), read, wanted.signals), pidfd, read)
    except OSError as error:
        raise SysError.of("write trace file", error, opts.output or "on stdout") from None
    finally:
        watch.close()
    _report(watch, opts.logger)
    return 0


def _filter(opts: Options) -> Filter:
    pids = opts.pid or []
    if len(pids) > PIDS:
        raise UsageError(f"--pid: at most {PIDS} processes")
    try:
        numbers = [int(pid) for pid in pids]
    except ValueError:
        raise UsageError(f"--pid: not a number: {', '.join(pids)}") from None
    if any(not 0 < pid < 1 << 22 for pid in numbers):
        raise UsageError(f"--pid: not a process id: {', '.join(pids)}")
    errnos = strace.errnos_of(opts.errno or []) if opts.errno or opts.failed else None
    shown = 32 if opts.string is None else opts.string
    if not 0 <= shown <= 200:
        raise UsageError("--string: 0 to 200 bytes")
    calls, signals = strace.without_signals(opts.expression or [])
    return Filter(strace.numbers_of(calls), numbers, errnos, shown, signals and errnos is None)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SysError.of("open trace file", error, path) from None


def _clock(pid: int) -> int:
    """Return what is to be added to CLOCK_MONOTONIC of the container (time_namespaces(7)) for the time of day, ns."""
    offset = 0
    try:
        with open(f"/proc/{pid}/timens_offsets") as file:
            for line in file:
                name, seconds, nanoseconds = line.split()
                if name == "monotonic":
                    offset = int(seconds) * 10**9 + int(nanoseconds)
    except (OSError, ValueError):
        pass
    return time.time_ns() - time.monotonic_ns() - offset


class Writer:
    """Writes records as lines."""

    def __init__(self, fd: int, json: bool, clock: int, stop: int, signals: bool = False) -> None:
        """Arguments: clock, as _clock returns it; stop, a descriptor that becomes readable when writing is to wait no longer;
        signals, whether the ends of threads are shown.
        """
        self._fd = fd
        self._stop = stop
        self._json = json
        self._clock = clock
        self._signals = signals

    def write(self, records: list[Record]) -> bool:
        """Write the records. Return whether all were written: not if a signal came while the output took no more (a pipe that
        nobody reads, a stopped terminal). Errors: OSError (EPIPE: nobody reads).
        """
        data = "".join([self._line(record) for record in records]).encode()
        while data:
            if not self._is_writable():
                return False
            try:
                data = data[os.write(self._fd, data[:_PIECE]) :]
            except BlockingIOError:  # somebody else writes to it, too
                continue
        return True

    def _is_writable(self) -> bool:
        """Wait until the output takes more or a signal has come: write(2) would begin anew after a signal (PEP 475)."""
        if select.select([], [self._fd], [], 0)[1]:
            return True
        return self._stop not in select.select([self._stop], [self._fd], [])[0]

    def _line(self, record: Record) -> str:
        if self._json:
            return "".join([dumps(fields) + "\n" for fields in self._fields(record)])
        at = self._clock + record.began
        who = f"{record.pid}" if record.pid == record.tid else f"{record.pid}/{record.tid}"
        hour = time.strftime("%H:%M:%S", time.localtime(at // 10**9))
        return "".join(
            [f"[{who}] {hour}.{at % 10**9 // 1000:06} {text}\n" for text in _texts(record, self._signals)]
        )

    def _fields(self, record: Record) -> Iterator[dict[str, object]]:
        head = {"time": self._clock + record.began, "pid": record.pid, "tid": record.tid}
        if record.kind & SIGNAL:
            yield {**head, "signal": strace.signal_name(record.number), "info": strace.signal_info(record)}
        elif record.kind & KILLED:
            yield {**head, "killed": strace.signal_name(record.number)}
        elif not record.kind & ENDS:
            yield {
                **head,
                "call": strace.call_name(record.number),
                "args": strace.arguments(record),
                "result": None if record.gone else record.result,
                "error": strace.failure(record) or None,
                "took": record.took,
            }
        if self._signals and strace.is_end(record):
            yield {**head, "exited": record.args[0] & 0xFF}


def _texts(record: Record, signals: bool) -> Iterator[str]:
    """Return the lines of a record."""
    if record.kind & SIGNAL:
        words = ", ".join([f"{name}={value}" for name, value in strace.signal_info(record).items()])
        yield f"--- {strace.signal_name(record.number)} {{{words}}} ---"
    elif record.kind & KILLED:
        yield f"+++ killed by {strace.signal_name(record.number)} +++"
    elif not record.kind & ENDS:
        text = f"{strace.call_name(record.number)}({', '.join(strace.arguments(record))}) = {strace.result(record)}"
        yield text if record.gone else f"{text} <{record.took / 1e9:.6f}>"
    if signals and strace.is_end(record):
        yield f"+++ exited with {record.args[0] & 0xFF} +++"


def _follow(watch: Watch, writer: Writer, pidfd: int, stop: int) -> None:
    """Write what comes until the container or a signal ends it, or nobody reads the output.

    What is in the ring at the end is written, and no more: others may go on, faster than this.
    """
    poll = select.poll()
    for fd in (pidfd, stop):
        poll.register(fd, select.POLLIN)
    pause, ended, left = _SHORTEST_S, False, RECORDS
    while left > 0:
        records = watch.read()
        try:
            if not writer.write(records):
                return
        except BrokenPipeError:
            return
        if records:
            pause = _SHORTEST_S
        elif ended:
            return
        else:
            pause = min(pause * 1.5, _LONGEST_S)
        if ended:
            left -= len(records)
        ended = ended or bool(poll.poll(0 if len(records) >= 64 else pause * 1000))


def _report(watch: Watch, log: Log) -> None:
    if watch.lost:
        log.warning(f"{watch.lost} records were lost: the reader was too slow; choose fewer calls with -e")
    if watch.blind:
        log.warning(
            f"{watch.blind} processes are not shown: their limit of address space has no room (RLIMIT_AS)"
        )
    if watch.suspended:
        log.warning(f"the trace was suspended {watch.suspended} times: nobody read it for too long")

"""The relay of seccomp notifications: a process that stands between the listener of a container's filters and the agent of
linux.seccomp.listenerPath (docs/architecture.md, "Seccomp notifications").

The agent has a file (oci/fusefile.py) that answers its requests as the kernel's listener does (seccomp_unotify(2)). The relay has the
kernel's listener. The monitors' threads tell it of calls by system calls that the kernel does not have (native/abi/notify.h), so the
kernel itself says who calls, ends the wait at a signal, and puts descriptors into the caller's table.

What comes from a monitor is six arguments, a number and the thread's id; nothing of a monitor's memory is read.
"""

import fcntl
import os
import select
import time
from errno import EBADF, EINPROGRESS, EINTR, EINVAL, EIO, ENOENT, EPERM

from krun.oci.fusefile import File, Request
from krun.oci.unotify import (
    ADDFD,
    AGAIN,
    BASE,
    CALL,
    CLOEXEC,
    CONTINUE,
    FD_BITS,
    ID_VALID,
    LAST,
    MOVE,
    MOVED,
    NOTIF,
    PASS,
    RECV,
    RESERVED,
    RESP,
    SEND,
    SEND_NOW,
    SERVED_BY,
    SETFD,
    STRUCT_ADDFD,
    Note,
    process_of,
    take,
)
from krun.sysio import recv_fd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# How long an answer waits for a thread that no longer waits itself (s): one that a monitor's stop or question has interrupted tells of
# the call again at once, one that a signal has interrupted does not. After a word of the relay's the thread surely comes back.
_PATIENCE = 1.0
_LONG = 10.0
# How often such a thread is looked for (s).
_LOOK = 0.1
# How many calls are known at least when those of threads that have ended are looked for.
_SWEEP = 1024
# How long the file of a container that has ended waits for its agent (s).
_AFTERLIFE = 30.0


class Relay:
    """State of the process. sock: gets the kernel's listener from the first monitor; device: of the file."""

    def __init__(self, sock: int, device: int) -> None:
        self.sock = sock
        self.listener = -1
        self.over = 0.0  # when the last process of the container had ended
        self.file = File(device, self.request, self.interrupted, self.events)
        self.by_id: dict[int, Note] = {}
        self.by_thread: dict[int, Note] = {}
        self.queue: list[Note] = []  # not yet received
        self.receivers: list[Request] = []  # wait for a notification
        self.passed: dict[int, int] = {}  # thread: call that the agent has let pass, until it has been served
        self.limit = _SWEEP
        self.poll = select.poll()
        for fd in (sock, device):
            if fd >= 0:
                self.poll.register(fd, select.POLLIN)

    # --- the loop

    def run(self) -> None:
        """Serves until nobody needs it any more."""
        while not self.file.closed:
            if self.sock < 0 and self.listener < 0 and time.monotonic() > self.over + _AFTERLIFE:
                return
            for fd, events in self.poll.poll(self._timeout()):
                if fd == self.file.device:
                    self.file.serve()
                elif fd == self.sock:
                    self.take_listener()
                elif events & select.POLLIN:
                    self.receive()
                else:
                    self.end()
            self._expire()

    def _timeout(self) -> "int | None":
        times = [note.deadline for note in self.by_id.values() if note.deadline]
        if self.sock < 0 and self.listener < 0:
            times.append(self.over + _AFTERLIFE)
        return max(0, int((min(times) - time.monotonic()) * 1000) + 1) if times else None

    def _expire(self) -> None:
        now = time.monotonic()
        for note in [note for note in self.by_id.values() if note.deadline and note.deadline < now]:
            if now < note.until and process_of(note.thread) >= 0:
                note.deadline = now + _LOOK
            else:
                self.drop(note)

    def take_listener(self) -> None:
        """The first monitor passes the kernel's listener, or has ended before its program began."""
        try:
            _, self.listener = recv_fd(self.sock, 1)
        finally:
            self.poll.unregister(self.sock)
            os.close(self.sock)
            self.sock = -1
            if self.listener >= 0:
                self.poll.register(self.listener, select.POLLIN)
            else:
                self.end()

    def end(self) -> None:
        """The container's last process has ended."""
        if self.listener >= 0:
            self.poll.unregister(self.listener)
            os.close(self.listener)
        self.listener = -1
        self.over = time.monotonic()
        for note in list(self.by_id.values()):
            self.drop(note)
        for request in self.receivers:
            self.file.answer(request.unique, -ENOENT)
        self.receivers = []
        self.file.wake()

    # --- the container's side

    def receive(self) -> None:
        """Takes one notification of the kernel's."""
        buffer = bytearray(NOTIF.size)
        try:
            fcntl.ioctl(self.listener, RECV, buffer)
        except OSError:
            return  # its thread no longer waits
        number, thread, _, nr, arch, _, *args = NOTIF.unpack(buffer)
        if not BASE <= nr <= LAST:
            self.of_monitor(number, thread, nr)
            return
        kind, tag, nr = nr >> 24 & 3, nr >> 12 & 0xFFF, nr & 0xFFF
        note = self.by_thread.get(thread)
        if kind == CALL:
            self.passed.pop(thread, None)
            if note is None or (note.tag, note.nr, note.args) != (tag, nr, tuple(args)):
                if note is not None:
                    self.drop(note)
                if len(self.by_id) + len(self.passed) >= self.limit:
                    self.sweep()
                note = Note(number, thread, tag, nr, arch, tuple(args))
                self.by_id[number] = self.by_thread[thread] = note
                self.queue.append(note)
                self.deliver()
            else:
                self.again(note, number)
        elif kind == MOVED:
            if note is not None and note.moving is not None:
                note.kernel = number
                result = args[0] - (1 << 64) if args[0] >> 63 else args[0]
                self.moved(note, note.moving, result if -4096 < result < 1 << FD_BITS else -EIO)
            else:
                self.respond(number, AGAIN)
        else:
            self.passed.pop(thread, None)
            if note is not None:
                self.drop(note)
            self.respond(number, 0)

    def sweep(self) -> None:
        """Forgets threads that have ended while they waited, or while their call was served: nothing else tells of them."""
        for note in [note for note in self.by_id.values() if not note.later and note.moving is None]:
            if not self.waits(note):
                self.drop(note)
        for thread in [thread for thread in self.passed if process_of(thread) < 0]:
            del self.passed[thread]
        self.limit = max(_SWEEP, 2 * (len(self.by_id) + len(self.passed)))

    def of_monitor(self, number: int, thread: int, nr: int) -> None:
        """A call of the monitor itself that the profile gives to the agent: it passes while a call that the agent has let pass is being
        served by it. Any other is not made by the monitor's code."""
        if not (self.may_serve(thread, nr) or self.may_serve(process_of(thread), nr, True)):
            self.respond(number, 0, -EPERM)
            return
        self.respond(number, 0, 0, CONTINUE)

    def may_serve(self, thread: int, nr: int, relatives: bool = False) -> bool:
        """Tells whether a call that the thread (or one of the process) serves just now is served by `nr`."""
        if thread < 0:
            return False
        if relatives:  # a thread that the monitor makes for a moment (native/process/private.c)
            calls = [call for other, call in self.passed.items() if process_of(other) == thread]
        else:
            calls = [self.passed[thread]] if thread in self.passed else []
        return any(nr == call or call in SERVED_BY.get(nr, ()) for call in calls)

    def again(self, note: Note, number: int) -> None:
        """The thread waits again, after an interruption that is not the payload's."""
        note.kernel = number
        note.deadline = 0.0
        if note.moving is not None:  # the word about the move is lost
            unique, _ = note.moving
            note.moving = None
            self.file.answer(unique, -EINPROGRESS)
        later, note.later = note.later, []
        for action in later:
            action(True)
        if not note.told and note not in self.queue and note.id in self.by_id:
            self.queue.append(note)
            self.deliver()

    def drop(self, note: Note) -> None:
        """The call has been answered, or nobody waits for an answer any more."""
        self.by_id.pop(note.id, None)
        if self.by_thread.get(note.thread) is note:
            del self.by_thread[note.thread]
        if note in self.queue:
            self.queue.remove(note)
        if note.moving is not None:
            self.file.answer(note.moving[0], -ENOENT)
            note.moving = None
        later, note.later = note.later, []
        for action in later:
            action(False)

    def respond(self, number: int, value: int, error: int = 0, flags: int = 0) -> bool:
        """Answers a notification of the kernel's. Returns whether its thread waited."""
        if value >= 1 << 63:
            value -= 1 << 64
        try:
            fcntl.ioctl(self.listener, SEND, RESP.pack(number, value, error, flags))
            return True
        except OSError:
            return False

    # --- the agent's side

    def events(self) -> int:
        """Returns what poll(2) says of the file."""
        if self.sock < 0 and self.listener < 0:
            return select.POLLHUP
        found = 0
        if self.queue:
            found |= select.POLLIN | select.POLLRDNORM
        if any(note.told for note in self.by_id.values()):
            found |= select.POLLOUT | select.POLLWRNORM
        return found

    def request(self, request: Request) -> None:
        """An ioctl(2) of the agent's."""
        if request.cmd == RECV:
            self.on_recv(request)
        elif request.cmd == SEND:
            self.on_send(request)
        elif request.cmd == ID_VALID:
            self.on_valid(request)
        elif request.cmd & ~0x3FFF0000 == ADDFD & ~0x3FFF0000 and request.cmd >> 30 == 1:
            self.on_addfd(request)
        else:
            self.file.answer(request.unique, -EINVAL)

    def interrupted(self, unique: int) -> None:
        """A signal of the agent's ends its wait."""
        for request in self.receivers:
            if request.unique == unique:
                self.receivers.remove(request)
                self.file.answer(unique, -EINTR)
                return

    def on_recv(self, request: Request) -> None:
        if any(request.data):
            self.file.answer(request.unique, -EINVAL)
        elif self.sock < 0 and self.listener < 0:
            self.file.answer(request.unique, -ENOENT)
        else:
            self.receivers.append(request)
            self.deliver()

    def deliver(self) -> None:
        """Gives waiting notifications to waiting receivers."""
        while self.receivers and self.queue:
            note = self.queue.pop(0)
            if not self.waits(note):
                self.pause(note)
                continue
            note.told = True
            request = self.receivers.pop(0)
            data = NOTIF.pack(note.id, note.thread, 0, note.nr, note.arch, 0, *note.args)
            self.file.answer(request.unique, 0, data)
        self.file.wake()

    def waits(self, note: Note) -> bool:
        """Tells whether the thread waits for its answer just now."""
        if not note.kernel or self.listener < 0:
            return False
        try:
            fcntl.ioctl(self.listener, ID_VALID, note.kernel.to_bytes(8, "little"))
            return True
        except OSError:
            return False

    def pause(
        self, note: Note, action: "Callable[[bool], None] | None" = None, patience: float = _PATIENCE
    ) -> None:
        """The thread does not wait just now: `action` follows when it does again, or will not."""
        note.kernel = 0
        if action is not None:
            note.later.append(action)
        if not note.deadline:
            now = time.monotonic()
            note.deadline, note.until = now + _LOOK, now + patience

    def on_valid(self, request: Request) -> None:
        number = int.from_bytes(request.data[:8], "little")
        note = self.by_id.get(number)
        if note is None or not note.told:
            self.file.answer(request.unique, -ENOENT)
        elif note.moving is not None or self.waits(note):
            self.file.answer(request.unique, 0)
        else:
            self.pause(note, lambda waits: self.file.answer(request.unique, 0 if waits else -ENOENT))

    def _named(self, request: Request, number: int) -> "Note | None":
        """Returns the notification that an answer is for; None: the request has been answered."""
        note = self.by_id.get(number)
        if note is None:
            self.file.answer(request.unique, -ENOENT)
        elif not note.told or note.moving is not None:
            self.file.answer(request.unique, -EINPROGRESS)
        else:
            return note
        return None

    def on_send(self, request: Request) -> None:
        if len(request.data) < RESP.size:
            self.file.answer(request.unique, -EINVAL)
            return
        number, value, error, flags = RESP.unpack_from(request.data)
        if flags & ~CONTINUE or (flags and (value or error)):
            self.file.answer(request.unique, -EINVAL)
            return
        note = self._named(request, number)
        if note is None:
            return
        if note.later:  # answers keep their order
            self.pause(note, lambda waits: self._send_later(request, waits))
            return
        if flags:
            self.passed[note.thread] = note.nr
            sent = self.respond(note.kernel, PASS)
        elif error:
            sent = self.respond(note.kernel, 0, error)
        elif value >> 48 & 0xFFFF == RESERVED:
            sent = self.respond(note.kernel, 0, -EIO)
        else:
            sent = self.respond(note.kernel, value)
        if sent:
            self.drop(note)
            self.file.answer(request.unique, 0)
        else:
            self.passed.pop(note.thread, None)
            self.pause(note, lambda waits: self._send_later(request, waits))

    def _send_later(self, request: Request, waits: bool) -> None:
        if waits:
            self.on_send(request)
        else:
            self.file.answer(request.unique, -ENOENT)

    # --- descriptors

    def on_addfd(self, request: Request) -> None:
        data = request.data
        if len(data) < STRUCT_ADDFD.size or any(data[STRUCT_ADDFD.size :]):
            self.file.answer(request.unique, -EINVAL)
            return
        number, flags, source, new, new_flags = STRUCT_ADDFD.unpack_from(data)
        if flags & ~(SETFD | SEND_NOW) or new_flags & ~os.O_CLOEXEC or (new and not flags & SETFD):
            self.file.answer(request.unique, -EINVAL)
            return
        fd = take(request.pid, source)
        if fd < 0:
            self.file.answer(request.unique, fd)
            return
        try:
            self._add(request, number, flags, fd, new, new_flags)
        finally:
            os.close(fd)

    def _add(self, request: Request, number: int, flags: int, fd: int, new: int, new_flags: int) -> None:
        note = self._named(request, number)
        if note is None:
            return

        def later(waits: bool) -> None:
            if waits:
                self.on_addfd(request)
            else:
                self.file.answer(request.unique, -ENOENT)

        if flags & SETFD and new >> FD_BITS:
            self.file.answer(request.unique, -EBADF)
            return
        if note.later or not note.kernel:
            self.pause(note, later)
            return
        # SETFD is the monitor's to do: the kernel would replace a descriptor of the monitor's, too.
        direct = flags if not flags & SETFD else 0
        try:
            # A bytearray: then the call's own result is returned.
            order = bytearray(STRUCT_ADDFD.pack(note.kernel, direct, fd, 0, new_flags))
            at = fcntl.ioctl(self.listener, ADDFD, order)
        except OSError as e:
            if e.errno in (ENOENT, EINPROGRESS):
                self.pause(note, later)
            else:
                self.file.answer(request.unique, -(e.errno or EIO))
            return
        if not flags & SETFD:
            if flags & SEND_NOW:
                self.drop(note)
            self.file.answer(request.unique, at)
            return
        kernel = note.kernel
        note.kernel = 0
        note.moving = (request.unique, flags)
        self.pause(note, patience=_LONG)
        if not self.respond(kernel, MOVE | at | new << FD_BITS | (CLOEXEC if new_flags else 0)):
            note.moving = None
            self.pause(note)
            self.file.answer(request.unique, -ENOENT)

    def moved(self, note: Note, moving: "tuple[int, int]", result: int) -> None:
        """The thread has moved the agent's descriptor, or could not. result: a descriptor or -errno."""
        unique, flags = moving
        note.moving = None
        note.deadline = 0.0
        kernel = note.kernel
        if flags & SEND_NOW and result >= 0:
            self.respond(kernel, result)
            self.drop(note)
        else:
            self.respond(kernel, AGAIN)
            self.pause(note, patience=_LONG)
        self.file.answer(unique, result)

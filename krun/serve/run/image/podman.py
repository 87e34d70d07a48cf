"""Images of podman's storage: asked for, pulled, mounted; those that krun serve pulled itself are removed again by the collector.

What it pulled has a note in the store (`pulled/`). An image that podman had before, under whatever name, gets none and is never
removed. A removal is of the name that was pulled and without force: podman keeps an image that has another name or a container
of podman's. But podman removes a mounted image at once. Therefore
* podman counts the mounts, this file's are one for each image, and where others are left (another server's) the image stays;
* the lock of an image's id is held from the question whether it is in use until it has gone, and from before its mount until it
  is pinned.
The mounts of a worker that was killed count until the machine starts again; so long its images stay.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

from krun.serve import private
from krun.serve.reference import Reference
from krun.serve.run.errors import StartError
from krun.serve.run.image import config as image_config
from krun.serve.run.image.config import Image

#: containers-transports(5): to podman "oci:tmp" is the directory `tmp` of the worker's, and no image of a registry.
_TRANSPORTS = frozenset(
    "containers-storage dir docker docker-archive docker-daemon oci oci-archive ostree sif tarball".split()
)
_PULL_SECONDS = 600
_ASK_SECONDS = 60


class Podman:
    """Arguments: directory of the notes; given, podman's command, None for the one of PATH; pull, whether it may fetch; lock, the
    lock of a name.
    """

    def __init__(
        self, directory: str, given: "list[str] | None", pull: bool, lock: Callable[[str], threading.Lock]
    ) -> None:
        self.directory = directory
        self.pull = pull
        self._given = given
        self._lock = lock
        self._mounted: dict[str, tuple[str, int]] = {}  # id -> path, mounts that podman has counted
        self._asked: set[int] = set()  # pids of commands that run
        private.directory(directory)

    @property
    def command(self) -> list[str]:
        """Podman's command, [] where there is none. Asked each time: podman may be installed while the server runs."""
        found = shutil.which("podman")
        return self._given or ([found] if found else [])

    def find(self, reference: Reference, hold: Callable[[str], object]) -> Image | None:
        """Inspect, else pull, then mount; the mount is of the whole image, read-only by use. The caller has the reference's lock.

        Argument: hold, pins a path of this file's until the caller has noted who uses the image. Raises StartError.
        """
        if not self.command or reference.name in _TRANSPORTS:
            return None
        where = str(reference)
        note = self.note(reference)
        hold(note)
        status, out, message = self._run("image", "inspect", "--format", "json", where)
        if status:
            if not self.pull:
                return None
            before = self._run("images", "--all", "--quiet", "--no-trunc")[1].split()
            status, _, message = self._run("pull", "--quiet", where, seconds=_PULL_SECONDS)
            if status:
                raise StartError("ContainerMissing", f'Unable to fetch image "{where}": {message}')
            status, out, message = self._run("image", "inspect", "--format", "json", where)
        else:
            before = None
        try:
            (document,) = json.loads(out)
            digest, own, name = document["Digest"], document["Config"], document["Id"]
        except (ValueError, KeyError, TypeError):
            raise StartError(
                "ErrImagePull", f'Unable to fetch image "{where}": {message or "podman says nothing of it"}'
            ) from None
        with self._lock(name):
            hold(self._pin(name))
            path = self._mount(name, where, before is not None)
            if before is not None and name not in {one.removeprefix("sha256:") for one in before}:
                self._write(note, where, document, path)
        return Image(digest, image_config.of(own, where), [path])

    def _mount(self, id: str, where: str, anew: bool) -> str:
        """Return the mount of an image; `anew` also where there is one, which may be of an image that has gone."""
        path, count = self._mounted.get(id, ("", 0))
        if anew or not os.path.isdir(path):
            status, out, message = self._run("image", "mount", id)
            path = out.strip()
            if status or not os.path.isdir(path):
                raise StartError("ErrImagePull", f"mount image {where} by podman: {message}")
            self._mounted[id] = (path, count + 1)
        return path

    def _unmount(self, id: str) -> None:
        for _ in range(self._mounted.pop(id, ("", 0))[1]):
            self._run("image", "unmount", id)

    def _is_mounted(self, id: str) -> bool:
        """Whether podman knows of a mount, of whomever; also where podman cannot be asked."""
        status, out, _ = self._run("image", "mount", "--format", "json")
        try:
            return bool(status) or id in {one["id"] for one in json.loads(out or "[]") or []}
        except (ValueError, KeyError, TypeError):
            return True

    def note(self, reference: Reference) -> str:
        """Return the path of the note of a reference, whether it is there or not."""
        return os.path.join(self.directory, hashlib.sha256(str(reference).encode()).hexdigest()[:32])

    def _pin(self, id: str) -> str:
        return os.path.join(self.directory, f"id.{id}")

    def _write(self, note: str, where: str, document: Any, path: str) -> None:
        data = (document.get("GraphDriver") or {}).get("Data") or {}
        content = {
            "reference": where,
            "id": document["Id"],
            "size": int(document.get("Size") or 0),
            "path": path,
            "place": data.get("UpperDir") or path,
        }
        scratch = f"{note}.{os.urandom(4).hex()}"
        with open(scratch, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.rename(scratch, note)

    def entries(self) -> list[str]:
        """Return the paths of all notes."""
        return [os.path.join(self.directory, name) for name in os.listdir(self.directory) if "." not in name]

    def read(self, note: str) -> dict[str, Any]:
        """Return a note: "reference", "id", "size" (bytes), "path" of the mount, "place" in podman's storage. {}: there is none."""
        try:
            with open(note, encoding="utf-8") as file:
                content: dict[str, Any] = json.load(file)
            return content
        except (OSError, ValueError):
            return {}

    def discard(self, note: str, busy: Callable[[tuple[str, str]], bool]) -> bool:
        """Remove an image that was pulled; returns whether podman has removed its name.

        Argument: busy, whether one of two paths is pinned or in use. Raises OSError.
        """
        content = self.read(note)
        reference, id = content.get("reference", ""), content.get("id", "")
        with _tried(self._lock(reference)) as own, _tried(self._lock(id)) as image:
            if not (own and image) or busy((note, self._pin(id))):
                return False
            status, out, _ = self._run("image", "inspect", "--format", "{{.Id}}", reference)
            gone = False
            if not status and out.strip() == id:
                self._unmount(id)
                gone = not self._is_mounted(id) and self._run("rmi", reference)[0] == 0
                if not gone:
                    return False  # another server's, or a container of podman's: the next round tries again
            # The name is gone, or somebody has given it to another image: it is not this note's any more.
            os.unlink(note)
            return gone

    def close(self) -> None:
        """Give the images back: no instance uses them any more."""
        for id in list(self._mounted):
            self._unmount(id)

    def _run(self, *words: str, seconds: float = _ASK_SECONDS) -> tuple[int, str, str]:
        """Run podman; returns its status, output and last line of error."""
        process = subprocess.Popen(
            [*self.command, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._asked.add(process.pid)
        try:
            out, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _kill(process.pid)
            process.communicate()
            return 125, "", f"podman {words[0]} took more than {seconds:.0f} s"
        finally:
            self._asked.discard(process.pid)
        lines = errors.strip().splitlines()
        return process.returncode, out, lines[-1] if lines else ""

    def interrupt(self) -> None:
        """Kill the commands that run: the worker ends. From any thread."""
        for pid in list(self._asked):
            _kill(pid)


@contextlib.contextmanager
def _tried(lock: threading.Lock) -> Iterator[bool]:
    """Take a lock if nobody has it: a pull may take minutes. Tells whether it has been taken."""
    taken = lock.acquire(blocking=False)
    try:
        yield taken
    finally:
        if taken:
            lock.release()


def _kill(pid: int) -> None:
    """Kill a command with its helpers: it leads a session of its own."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has just ended

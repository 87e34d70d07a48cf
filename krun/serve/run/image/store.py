"""The images of a server: a table of sources that are asked in turn, and the directories of unpacked layers.

An image is named by its reference. The directory of images holds, at the path of the reference (`reg.example/hello:v1`, or
without the tag), an OCI layout, an archive (`.tar`), or a root directory (`rootfs`, beside it `config.json` with the `config`
object of an image configuration). Where podman is installed its storage is asked next, and podman pulls what it has not (podman.py).
Runs in the worker's threads, because unpacking takes seconds.
"""

import contextlib
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from krun.errors import KrunError
from krun.serve import private
from krun.serve.reference import Reference, parse
from krun.serve.run import usage
from krun.serve.run.errors import StartError
from krun.serve.run.image import config as image_config
from krun.serve.run.image import layout, plain, unpack
from krun.serve.run.image.config import Image
from krun.serve.run.image.podman import Podman
from krun.serve.run.trash import Trash

_REMOVE_SECONDS = 600.0
#: What the store makes itself, and the collector removes.
_KINDS = ("layers", "layouts")


class Store:
    """The images that containers are made of.

    Arguments: directory, of the store's own data (layers, layouts of archives); sources, directories of images; limit, bytes
    that one unpacked layer may have; pull, whether podman may fetch an image from a registry; podman, its command, None for the
    one of PATH.
    """

    def __init__(
        self,
        directory: str,
        sources: list[str],
        *,
        limit: int = 16 << 30,
        pull: bool = True,
        podman: "list[str] | None" = None,
    ) -> None:
        self.directory = directory
        self.sources = sources
        self.limit = limit
        self.podman = Podman(os.path.join(directory, "pulled"), podman, pull, self._lock)
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()
        self._pins: Counter[str] = Counter()  # entries that a call of `using` has in hand
        for name in (*_KINDS, "links", "used"):
            private.directory(os.path.join(directory, name))
        self.trash = Trash(os.path.join(directory, "trash"))
        self._tidy()

    def link(self, reference: str, path: str) -> None:
        """Give a reference to a directory or an archive of this machine (`krun deploy DIR`). Raises StartError, OSError."""
        target = os.path.join(self.directory, "links", _parsed(reference).path.replace("/", "\\"))
        scratch = f"{target}.{os.urandom(4).hex()}"
        os.symlink(os.path.abspath(path), scratch)
        os.rename(scratch, target)

    def resolve(self, text: str) -> Image:
        """Return an image with its layers unpacked. Raises StartError with a reason and a message for the developer."""
        with self.using(text) as image:
            return image

    @contextlib.contextmanager
    def using(self, text: str) -> Iterator[Image]:
        """The same; nothing of the image is collected before the end of the context."""
        held: list[str] = []
        try:
            yield self._find(_parsed(text), held, text)
        finally:
            with self._guard:
                self._pins.subtract(held)
                self._pins += Counter()  # without those that nobody holds

    def _find(self, reference: Reference, held: list[str], text: str) -> Image:
        with self._lock(str(reference)):
            for place in (self._linked, self._named):
                found = place(reference)
                if found is not None:
                    return self._at(*found, reference, held)
            image = self.podman.find(reference, lambda path: self._pin(path, held))
            if image is not None:
                if os.path.exists(note := self.podman.note(reference)):
                    self.touch(note)
                return image
        places = [f"the images in {path}" for path in self.sources] + (
            ["podman's storage"] if self.podman.command else []
        )
        # The code of a registry that does not know a manifest (OCI distribution-spec, "Error Codes"): Knative's clients look for it.
        raise StartError(
            "ContainerMissing",
            f'Unable to fetch image "{text}": MANIFEST_UNKNOWN: it is not in {" or in ".join(places) or "any source"}',
        )

    def interrupt(self) -> None:
        """Kill the commands of podman that run: the worker ends. From any thread."""
        self.podman.interrupt()

    def close(self) -> None:
        """Give podman's images back: no instance uses them any more."""
        self.podman.close()

    def _lock(self, name: str) -> threading.Lock:
        """The lock of an image: two starts of the same new image unpack it once."""
        with self._guard:
            return self._locks.setdefault(name, threading.Lock())

    # -------------------------------------------------------------------------------------------------- entries

    def parts(self, text: str) -> set[str]:
        """Return the paths of what an image has in this store now; nothing is unpacked. Empty for what is no image here."""
        try:
            reference = _parsed(text)
            found = self._linked(reference) or self._named(reference)
            if found is None:
                return {self.podman.note(reference)}
            path, named = found
            parts = set()
            if os.path.isfile(path):
                path = self._layout_of(path)
                parts.add(path)
            if not os.path.isfile(os.path.join(path, "index.json")):
                return parts
            manifest = layout.read(path, reference.tag, reference.digest, text, sole=named)
            return parts | {self._layer(digest) for digest in manifest.layers}
        except (KrunError, OSError):
            return set()

    def entries(self) -> list[str]:
        """Return the paths of all that can be removed: whole unpacked layers, layouts of archives, notes of what podman has pulled."""
        return self.podman.entries() + [
            os.path.join(self.directory, kind, name)
            for kind in _KINDS
            for name in os.listdir(os.path.join(self.directory, kind))
            if "." not in name
        ]

    def _pulled(self, path: str) -> dict[str, Any]:
        return self.podman.read(path) if os.path.dirname(path) == self.podman.directory else {}

    def name(self, path: str) -> str:
        """Return what an entry is called in logs."""
        return str(self._pulled(path).get("reference") or os.path.relpath(path, self.directory))

    def layer_of(self, path: str) -> str:
        """Return the path by which instances know an entry: of an image of podman's its mount, else its own."""
        return str(self._pulled(path).get("path") or path)

    def size(self, path: str, seconds: float) -> int:
        """Return the bytes of an entry. Raises KrunError after `seconds`."""
        pulled = self._pulled(path)
        return int(pulled["size"]) if pulled else usage.of_directory(path, seconds)

    def is_here(self, path: str) -> bool:
        """Whether an entry lies on the file system of the store, and so its removal makes room there."""
        try:
            place = self._pulled(path).get("place") or path
            return os.stat(place).st_dev == os.stat(self.directory).st_dev
        except OSError:
            return False

    def _stamp(self, path: str) -> str:
        return os.path.join(self.directory, "used", os.path.relpath(path, self.directory).replace("/", "."))

    def touch(self, path: str) -> None:
        """Note that an entry is in use now. Raises OSError."""
        fd = os.open(self._stamp(path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.utime(fd)
        finally:
            os.close(fd)

    def last_used(self, path: str) -> float:
        """Return when an entry was in use last (s since the epoch); now for one of which nothing is known. Raises OSError."""
        try:
            return os.stat(self._stamp(path)).st_mtime
        except FileNotFoundError:
            self.touch(path)
            return os.stat(self._stamp(path)).st_mtime

    def discard(self, path: str, used: Callable[[str], bool]) -> bool:
        """Remove an entry unless it is in use; returns whether it has gone. Raises SysError, OSError."""
        if os.path.dirname(path) == self.podman.directory:
            return self._discard_pulled(path, used)
        with self._guard:
            if self._pins[path] or used(path):
                return False
            self.trash.put(path)
        self.trash.wait(_REMOVE_SECONDS)  # the collector looks at the file system's free space next
        self._forget(path)
        return True

    def _discard_pulled(self, path: str, used: Callable[[str], bool]) -> bool:
        def busy(paths: tuple[str, str]) -> bool:
            with self._guard:
                return any(self._pins[one] for one in paths) or used(path)

        gone = self.podman.discard(path, busy)
        if not os.path.exists(path):
            self._forget(path)
        return gone

    def _forget(self, path: str) -> None:
        try:
            os.unlink(self._stamp(path))
        except FileNotFoundError:
            pass  # it has never been in use

    def _pin(self, path: str, held: list[str]) -> None:
        with self._guard:
            self._pins[path] += 1
        held.append(path)

    def _hold(self, path: str, held: list[str]) -> str:
        """Pin an entry before it is looked at: from here on it is not collected."""
        self._pin(path, held)
        self.touch(path)
        return path

    def _tidy(self) -> None:
        """Remove what a crash has left: half-unpacked entries, and those that were being removed."""
        self.trash.start()
        for kind in _KINDS:
            parent = os.path.join(self.directory, kind)
            for name in os.listdir(parent):
                if "." in name:
                    self.trash.put(os.path.join(parent, name))

    def _layer(self, digest: str) -> str:
        return os.path.join(self.directory, "layers", digest.replace(":", "-"))

    def _layout_of(self, archive: str) -> str:
        """The layout of an archive, whose identity is inode, size and time of change."""
        status = os.stat(archive)
        name = f"{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}-{status.st_ctime_ns:x}"
        return os.path.join(self.directory, "layouts", name)

    # -------------------------------------------------------------------------------------------------- sources

    def _linked(self, reference: Reference) -> tuple[str, bool] | None:
        """The path that a reference has been given, and whether the name given had the tag."""
        names = [reference.path] if reference.tag else [reference.path, f"{reference.path}:latest"]
        for name in names:
            path = os.path.join(self.directory, "links", name.replace("/", "\\"))
            if os.path.islink(path):
                return os.readlink(path), name == reference.path
        return None

    def _named(self, reference: Reference) -> tuple[str, bool] | None:
        """The same, of the directories of images."""
        names = (
            [reference.path, reference.name]
            if reference.tag != "latest"
            else [reference.name, reference.path]
        )
        for source in self.sources:
            for name in names:
                for path in (os.path.join(source, name), os.path.join(source, f"{name}.tar")):
                    if (
                        os.path.isfile(path)
                        or os.path.isfile(os.path.join(path, "index.json"))
                        or _is_root(path)
                    ):
                        _check_way(source, name)
                        return path, name == reference.path
        return None

    def _at(self, path: str, named: bool, reference: Reference, held: list[str]) -> Image:
        """Return the image of a path: an archive, a layout or a root directory. named: the path's own name has the tag."""
        if os.path.isfile(path):
            return self._from_archive(path, reference, named, held)
        if os.path.isfile(os.path.join(path, "index.json")):
            return self._from_layout(path, reference, named, held)
        return _from_root(path, reference)

    def _from_archive(self, path: str, reference: Reference, named: bool, held: list[str]) -> Image:
        """An archive is turned into a layout once."""
        directory = self._hold(self._layout_of(path), held)
        if not os.path.isdir(directory):
            scratch = f"{directory}.{os.urandom(4).hex()}"
            try:
                layout.unpack_archive(path, scratch, str(reference), self.limit)
                os.rename(scratch, directory)
            finally:
                self.trash.put(scratch)
        return self._from_layout(directory, reference, named, held)

    def _from_layout(self, path: str, reference: Reference, named: bool, held: list[str]) -> Image:
        where = str(reference)
        manifest = layout.read(path, reference.tag, reference.digest, where, sole=named)
        layers: list[str] = []
        for digest in manifest.layers:
            target = self._hold(self._layer(digest), held)
            with self._lock(digest):
                if not os.path.isdir(target):
                    try:
                        unpack.unpack(layout.blob(path, digest, where), digest, target, self.limit)
                    except (KrunError, OSError) as error:
                        raise StartError(
                            "ErrImagePull", f'Unable to fetch image "{where}": {error}'
                        ) from None
            layers.insert(0, target)
        return Image(manifest.digest, manifest.config, layers)


def _check_way(source: str, name: str) -> None:
    """Look at the directories between one of images and an image. Raises StartError, OSError: one belongs to another user.

    It may be an image, whose owner lays a link in it to any directory of the host, and deploys it as the image of a longer name; a look
    at the links themselves would be too early, because the owner of a directory can exchange what is in it.
    """
    owner = os.stat(source).st_uid
    path = source
    for part in name.split("/")[:-1]:
        path = os.path.join(path, part)
        uid = os.stat(path).st_uid
        if uid != owner and not private.trusted(uid):
            raise StartError(
                "ErrImagePull",
                f"image {name}: {path} belongs to user {uid}, and is not looked into; give it to root",
            )


def _is_root(path: str) -> bool:
    """Whether a path is a directory with a root; one that is a link is refused later, with its reason."""
    root = os.path.join(path, "rootfs")
    return os.path.isdir(root) or os.path.islink(root)


def _parsed(text: str) -> Reference:
    try:
        return parse(text)
    except ValueError as error:
        raise StartError("InvalidImageName", str(error)) from None


def _from_root(path: str, reference: Reference) -> Image:
    """An image that is a directory: `rootfs`, and `config.json` where it has one; its digest is the name and time.

    The operator's own links lead to the directory (`krun deploy`); in it, no link of its owner's is followed: `rootfs` -> / would
    give the host's files to the instance. The mount follows no link at the last name either (sandbox.py).
    """
    root = directory = os.path.realpath(path)
    if _is_root(directory):
        root = os.path.join(directory, "rootfs")
        if os.path.islink(root):
            raise StartError(
                "ErrImagePull", f"image {reference}: {root} is a symbolic link; it must be a directory"
            )
    own: Any = None
    try:
        own = json.loads(plain.read(directory, "config.json"))
    except FileNotFoundError:
        pass
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise StartError(
            "ErrImagePull", f"image {reference}: cannot read {directory}/config.json: {why}"
        ) from None
    if isinstance(own, dict) and isinstance(own.get("config"), dict):
        own = own["config"]  # a whole image configuration
    return Image("", image_config.of(own, str(reference)), [root])

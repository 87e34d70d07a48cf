"""Layers: from a tar archive to a directory that overlayfs takes as a lower layer.

The archive is hostile. A child process unpacks it inside a chroot of the layer's own directory, so that no symlink,
hard link or name of the archive leads anywhere else; confined.py bounds what it takes.
Whiteouts of the image specification (layer.md) become those of overlayfs (Documentation/filesystems/overlayfs.rst).
"""

import bz2  # noqa: F401  the child cannot import after its chroot
import contextlib
import gzip
import hashlib
import io
import lzma  # noqa: F401
import os
import stat
import tarfile
import zlib
from typing import IO, cast

from krun.errors import KrunError, strerror
from krun.serve.run.image import confined, plain
from krun.serve.run.image.archive import Budget, Member, copy, members
from krun.treeio import remove_tree

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_OPAQUE_XATTR = "trusted.overlay.opaque"
_CHUNK = 1 << 20


class _Bounded(io.RawIOBase):
    """A file that ends with an error where it is longer than the limit: headers count, too."""

    def __init__(self, file: "_Hashed | gzip.GzipFile", limit: int) -> None:
        self.file = file
        self.limit = self.left = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        data = self.file.read(min(len(buffer), _CHUNK))
        self.left -= len(data)
        if self.left < 0:
            raise KrunError(f"it is larger than the limit for images, {self.limit} bytes")
        buffer[: len(data)] = data
        return len(data)


def unpack(blob: str, digest: str, target: str, limit: int) -> None:
    """Unpack a layer into a new directory.

    Arguments: blob, path of the archive (plain or gzip); digest, "sha256:..." of the blob; target, the directory, made here
    under another name first, so that it is whole where it exists; limit, bytes that the unpacked layer may have.
    Raises KrunError; the directory is not there then.
    """
    scratch = f"{target}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        os.mkdir(scratch, 0o755)
        with os.fdopen(plain.open_regular(blob), "rb") as file:
            hashed = _Hashed(file, limit)
            try:
                confined.run(lambda: _unpack(file, hashed, digest, limit), limit, scratch, [file.fileno()])
            except KrunError as error:
                raise KrunError(f"unpack layer {digest}: {error.message}") from None
        try:
            os.rename(scratch, target)
        except OSError:
            if not os.path.isdir(target):
                raise
            remove_tree(scratch)  # another start was faster
    except BaseException as error:
        with contextlib.suppress(OSError):  # what stays is removed by the next worker
            remove_tree(scratch)
        if isinstance(error, OSError):
            raise KrunError(f"unpack layer {digest}: {strerror(error.errno or 0)}") from None
        raise


class _Hashed:
    """A file whose bytes are counted in a digest as they are read, in their order. It may grow while it is read."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self.file = file
        self.left = self.limit = limit
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(min(size, _CHUNK) if size >= 0 else _CHUNK)
        self.left -= len(data)
        if self.left < 0:
            raise KrunError(f"its file is larger than the limit for images, {self.limit} bytes")
        self.sha256.update(data)
        return data

    def digest(self) -> str:
        """Reads the rest, and returns the digest of the whole."""
        while self.read():
            pass
        return f"sha256:{self.sha256.hexdigest()}"


def _unpack(file: IO[bytes], hashed: _Hashed, digest: str, limit: int) -> None:
    """Unpack an archive, and look whether it is the one of the digest.

    In this order and in one reading: the blob's owner may write it while it is read, and the directory is the layer of each image
    that names the digest.
    """
    failure: Exception | None = None
    try:
        extract(file, hashed, limit)
    except Exception as error:
        failure = error
    got = hashed.digest()
    if got != digest:
        raise KrunError(f"its file has the digest {got}")
    if failure is not None:
        raise failure


def extract(file: IO[bytes], hashed: _Hashed, limit: int) -> None:
    """Unpack an archive into the root directory of this process, in one pass.

    Arguments: file, at its begin; hashed, by which it is read; limit, as in unpack.

    Later members win over earlier ones (tar's own rule). Times of directories are set at the end, because each new entry
    changes them. Raises tarfile.TarError, OSError, KrunError.
    """
    head = file.read(2)
    file.seek(0)
    content: _Hashed | gzip.GzipFile = hashed
    if head == b"\x1f\x8b":
        content = gzip.GzipFile(fileobj=cast("IO[bytes]", hashed))
    directories: list[tuple[str, int]] = []
    budget = Budget(limit)
    stream = io.BufferedReader(_Bounded(content, limit), _CHUNK)
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=Member) as archive:
        for member in members(archive):
            path = os.path.normpath("/" + member.name)
            if path == "/":
                if member.isdir():
                    os.chmod("/", stat.S_IMODE(member.mode))
                    os.chown("/", member.uid, member.gid)
                continue
            budget.entry()
            parent, name = os.path.split(path)
            parent = os.path.realpath(parent)  # inside the chroot; a symlink may lead to nothing yet
            path = os.path.join(parent, name)
            _make_parents(parent, budget)
            if name.startswith(_WHITEOUT):
                _whiteout(parent, name)
            else:
                _member(archive, member, path, budget)
                if member.isdir():
                    directories.append((path, int(member.mtime)))
    for path, mtime in directories:
        if os.path.isdir(path) and not os.path.islink(path):  # a later member may have replaced it
            os.utime(path, (mtime, mtime))


def _make_parents(path: str, budget: Budget) -> None:
    """Make the directories that an entry needs: one name may have 2000, each of which is counted."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for one in reversed(missing):
        budget.entry()
        os.mkdir(one, 0o755)


def _whiteout(parent: str, name: str) -> None:
    """Hide what lower layers have at a name, or all of a directory. Raises KrunError for the name of a directory itself."""
    if name == _OPAQUE:
        os.setxattr(parent, _OPAQUE_XATTR, b"y")
        return
    if name.startswith(_WHITEOUT * 2):
        return  # aufs' own files, which no runtime unpacks (moby, pkg/archive/whiteouts.go)
    hidden = name[len(_WHITEOUT) :]
    if hidden in ("", ".", ".."):
        raise KrunError(f"a whiteout is named {name!a}")
    _clear(os.path.join(parent, hidden))
    os.mknod(os.path.join(parent, hidden), stat.S_IFCHR, 0)


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, budget: Budget) -> None:
    """Make one file system object, its owner before its mode (chown(2) clears set-user-ID bits)."""
    if not (member.isdir() and os.path.isdir(path) and not os.path.islink(path)):
        _clear(path)
    if member.isdir():
        if not os.path.isdir(path):
            os.mkdir(path)
    elif member.issym():
        os.symlink(member.linkname, path)
    elif member.islnk():
        os.link(os.path.normpath("/" + member.linkname), path, follow_symlinks=False)
        return
    elif member.isreg():
        with open(path, "xb") as target:
            copy(archive, member, target, budget)
    elif member.isfifo():
        os.mkfifo(path)
    elif member.ischr() or member.isblk():
        kind = stat.S_IFCHR if member.ischr() else stat.S_IFBLK
        os.mknod(path, kind, os.makedev(member.devmajor, member.devminor))
    else:
        return  # a kind that the image specification does not name
    os.lchown(path, member.uid, member.gid)
    for key, value in member.pax_headers.items():
        if key.startswith("SCHILY.xattr.") and not key.startswith("SCHILY.xattr.trusted."):
            data = value.encode("utf-8", "surrogateescape")
            os.setxattr(path, key[len("SCHILY.xattr.") :], data, follow_symlinks=False)
    if not member.issym():
        os.chmod(path, stat.S_IMODE(member.mode))
        if not member.isdir():
            os.utime(path, (int(member.mtime), int(member.mtime)))


def _clear(path: str) -> None:
    """Remove what an earlier member left at the path."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            remove_tree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass


assert zlib  # imported for the child as well

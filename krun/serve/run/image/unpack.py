"""Layers: from a tar archive to a directory that overlayfs takes as a lower layer.

The archive is hostile. A child process unpacks it inside a chroot of the layer's own directory, so that no symlink,
hard link or name of the archive leads anywhere else; it has no capability but those of a file's owner and mode.
Whiteouts of the image specification (layer.md) become those of overlayfs (Documentation/filesystems/overlayfs.rst).
"""

import bz2  # noqa: F401  the child cannot import after its chroot
import gzip
import hashlib
import io
import lzma  # noqa: F401
import os
import shutil
import stat
import tarfile
import zlib
from typing import IO

from krun.errors import KrunError, strerror

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_OPAQUE_XATTR = "trusted.overlay.opaque"
_CHUNK = 1 << 20


class _Verified(io.RawIOBase):
    """A file that hashes what is read of it, and ends with an error where it is longer than the limit."""

    def __init__(self, file: "IO[bytes] | gzip.GzipFile", limit: int) -> None:
        self.file = file
        self.left = limit
        self.hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        data = self.file.read(min(len(buffer), _CHUNK))
        self.left -= len(data)
        if self.left < 0:
            raise KrunError("the layer is larger than the limit for images")
        self.hash.update(data)
        buffer[: len(data)] = data
        return len(data)


def unpack(blob: str, digest: str, target: str, limit: int) -> None:
    """Unpack a layer into a new directory.

    Arguments: blob, path of the archive (plain or gzip); digest, "sha256:..." of the blob; target, the directory, made here
    under another name first, so that it is whole where it exists; limit, bytes that the unpacked layer may have.
    Raises KrunError; the directory is not there then.
    """
    scratch = f"{target}.{os.getpid()}.{os.urandom(4).hex()}"
    os.mkdir(scratch, 0o755)
    try:
        with open(blob, "rb") as file:
            got = hashlib.file_digest(file, "sha256").hexdigest()
            if f"sha256:{got}" != digest:
                raise KrunError(f"the layer {digest} has the digest sha256:{got}")
            file.seek(0)
            _in_child(file, scratch, limit)
        try:
            os.rename(scratch, target)
        except OSError:
            if not os.path.isdir(target):
                raise
            shutil.rmtree(scratch, ignore_errors=True)  # another start was faster
    except BaseException as error:
        shutil.rmtree(scratch, ignore_errors=True)
        if isinstance(error, OSError):
            raise KrunError(f"unpack layer {digest}: {strerror(error.errno or 0)}") from None
        raise


def _in_child(file: IO[bytes], directory: str, limit: int) -> None:
    """Unpack in a child that is confined to the directory; the child's one line of error comes back through a pipe."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            os.umask(0)
            os.chroot(directory)
            os.chdir("/")
            extract(file, limit)
            status = 0
        except BaseException as error:
            text = strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            os.write(writing, f"{type(error).__name__}: {text}".encode("utf-8", "replace")[:1000])
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read(1000).decode("utf-8", "replace")
    _, result = os.waitpid(pid, 0)
    if result:
        raise KrunError(
            f"unpack layer: {text or f'the child ended with status {os.waitstatus_to_exitcode(result)}'}"
        )


def extract(file: IO[bytes], limit: int) -> None:
    """Unpack an archive into the root directory of this process, in one pass.

    Later members win over earlier ones (tar's own rule). Times of directories are set at the end, because each new entry
    changes them. Raises tarfile.TarError, OSError, KrunError.
    """
    head = file.read(2)
    file.seek(0)
    plain: IO[bytes] | gzip.GzipFile = gzip.GzipFile(fileobj=file) if head == b"\x1f\x8b" else file
    directories: list[tuple[str, int]] = []
    with tarfile.open(fileobj=io.BufferedReader(_Verified(plain, limit), _CHUNK), mode="r|") as archive:
        for member in archive:
            path = os.path.normpath("/" + member.name)
            if path == "/":
                if member.isdir():
                    os.chmod("/", stat.S_IMODE(member.mode))
                    os.chown("/", member.uid, member.gid)
                continue
            parent, name = os.path.split(path)
            parent = os.path.realpath(parent)  # inside the chroot; a symlink may lead to nothing yet
            path = os.path.join(parent, name)
            os.makedirs(parent, 0o755, exist_ok=True)
            if name == _OPAQUE:
                os.setxattr(parent, _OPAQUE_XATTR, b"y")
            elif name.startswith(_WHITEOUT):
                _clear(os.path.join(parent, name[len(_WHITEOUT) :]))
                os.mknod(os.path.join(parent, name[len(_WHITEOUT) :]), stat.S_IFCHR, 0)
            else:
                _member(archive, member, path)
                if member.isdir():
                    directories.append((path, int(member.mtime)))
    for path, mtime in directories:
        os.utime(path, (mtime, mtime))


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
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
        source = archive.extractfile(member)
        assert source is not None
        with open(path, "xb") as target:
            shutil.copyfileobj(source, target, _CHUNK)
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
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass


assert zlib  # imported for the child as well

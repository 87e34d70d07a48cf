"""Tar archives of strangers: what tarfile trusts and must not, and what an archive may take.

Read in the child of confined.py, whose limits bound what is not looked at here.
"""

import tarfile
from collections.abc import Iterator
from typing import IO, Any, cast

from krun.errors import KrunError

_LARGEST_HEADER = 1 << 20  # bytes of a PAX header or a long name; Go's archive/tar reads no larger one either
_MOST_ENTRIES = 1_000_000
_BLOCK = 4096  # of the file systems that layers are on
_CHUNK = 1 << 20
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class Member(tarfile.TarInfo):
    """An entry whose header is checked before tarfile uses its size: a negative one leads back to the same header for ever."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """Process a header of 512 bytes; every Python calls this for each. Raises KrunError, tarfile.HeaderError."""
        if self.size < 0:
            raise KrunError("an entry has a negative size")
        if self.type in _HEADERS and self.size > _LARGEST_HEADER:
            raise KrunError(f"an extended header has {self.size} bytes; at most {_LARGEST_HEADER} are taken")
        return cast(tarfile.TarInfo, super()._proc_member(archive))  # type: ignore[misc]

    def _apply_pax_info(self, *arguments: Any) -> None:
        """Take over what a PAX header says; tarfile takes a wrong size for the end of the archive. Raises KrunError."""
        super()._apply_pax_info(*arguments)  # type: ignore[misc]
        if self.size < 0:
            raise KrunError("an entry has a negative size")


class Budget:
    """What may be written yet. Arguments: limit, bytes; entries, the most that are made."""

    def __init__(self, limit: int, entries: int = _MOST_ENTRIES) -> None:
        self.limit = limit
        self.left = limit
        self.entries = self.most = entries

    def entry(self, size: int = _BLOCK) -> None:
        """Count an entry or a directory that it needs, with the bytes that it takes beside its data. Raises KrunError."""
        self.entries -= 1
        if self.entries < 0:
            raise KrunError(f"it has more than {self.most} entries")
        self.data(size)

    def data(self, size: int) -> None:
        """Count bytes of data. Raises KrunError."""
        self.left -= size
        if self.left < 0:
            raise KrunError(f"it is larger than the limit for images, {self.limit} bytes")


def members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the entries, none of which is kept. Raises KrunError, OSError, tarfile.TarError."""
    for member in archive:
        # The list grows by each entry, also for a stream.
        cast(Any, archive).members.clear()
        yield member


def copy(archive: tarfile.TarFile, member: tarfile.TarInfo, target: "IO[bytes]", budget: Budget) -> None:
    """Write the data of a regular file. A sparse one keeps its holes: what it claims to hold costs nothing.

    Raises KrunError, OSError, tarfile.TarError.
    """
    sparse = cast("list[tuple[int, int]] | None", member.sparse)
    # Not extractfile(): it would make 8 TiB of zeros of a hole. The parts of a sparse file stand one behind the other.
    source = cast("IO[bytes]", archive.fileobj)
    source.seek(member.offset_data)
    end = 0
    for offset, size in [(0, member.size)] if sparse is None else sparse:
        if not size:
            continue
        if offset < end or size < 0 or offset + size > member.size:
            raise KrunError("the map of a sparse file is malformed")
        end = offset + size
        if sparse is not None:
            target.seek(offset)
        while size:
            data = source.read(min(size, _CHUNK))
            if not data:
                raise KrunError("the data of a file is shorter than its header says")
            budget.data(len(data))
            target.write(data)
            size -= len(data)
    if sparse is not None:
        target.truncate(member.size)

"""Layers and archives that are made to take the disk, the memory or the time of the host, or to reach out of their directory."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from krun.errors import KrunError
from krun.serve.run import sandbox
from krun.serve.run.errors import StartError
from krun.serve.run.image import confined, layout
from krun.serve.run.image.store import Store
from krun.serve.run.image.unpack import unpack

LIMIT = 4 << 20
END = b"\0" * 1024


def entry(name: str, data: bytes = b"", **fields: Any) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info.tobuf() + data + b"\0" * (-len(data) % 512)


def sparse(size: int, data: bytes, offset: int) -> bytes:
    """A file of GNU's old sparse format: `data` at `offset`, holes up to `size`."""
    head = bytearray(entry("sparse", data)[:512])
    head[156:157] = tarfile.GNUTYPE_SPARSE
    head[257:265] = b"ustar  \0"
    head[345:512] = bytes(167)
    for place, number in ((386, offset), (398, len(data)), (483, size)):
        head[place : place + 12] = tarfile.itn(number, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
    return checked(head) + data + b"\0" * (-len(data) % 512)


def checked(head: bytearray) -> bytes:
    """A header with its checksum."""
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def negative() -> bytes:
    head = bytearray(entry("x"))
    head[124:136] = tarfile.itn(-512, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
    return checked(head)


def extended(text: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return entry("PaxHeader", text, type=kind)


def record(key: str, value: str) -> bytes:
    size = len(key) + len(value) + 3
    while len(str(size)) + len(key) + len(value) + 3 != size:
        size = len(str(size)) + len(key) + len(value) + 3
    return f"{size} {key}={value}\n".encode()


def sparse_map(entries: int) -> bytes:
    """A file of the sparse format 1.0 whose map never ends."""
    text = record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0")
    text += record("GNU.sparse.name", "s") + record("GNU.sparse.realsize", "0")
    return extended(text) + entry("s", b"%d\n" % entries + b"0\n" * entries)


def layer(tmp_path: Path, data: bytes, limit: int = LIMIT) -> None:
    """Unpack a layer to tmp_path/layer."""
    (tmp_path / "blob").write_bytes(data)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    unpack(str(tmp_path / "blob"), digest, str(tmp_path / "layer"), limit)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a sparse file of 8 TiB": (lambda: sparse(8 << 40, b"x" * 512, 0), "file too large"),
    "a map that leads back": (lambda: sparse(1024, b"x" * 2048, 0), "map of a sparse file is malformed"),
    "a map without an end": (lambda: gzip.compress(sparse_map(16_000_000), 1), "need more than 8 MiB of memory"),
    "a bomb": (lambda: gzip.compress(entry("zeros", bytes(LIMIT + 1)), 1), "larger than the limit for images"),
    "a name of 4000 directories": (
        lambda: b"".join(extended(record("path", f"{i}/" + "d/" * 1900 + "x")) + entry("x") for i in range(9)),
        "larger than the limit for images",
    ),
    "a header of a gigabyte": (
        lambda: entry("PaxHeader", type=tarfile.XHDTYPE, size=1 << 30), "extended header has 1073741824 bytes",
    ),
    "a long name of a gigabyte": (
        lambda: entry("x", type=tarfile.GNUTYPE_LONGNAME, size=1 << 30), "extended header has 1073741824 bytes",
    ),
    "a negative size": (negative, "negative size"),
    "a negative size by PAX": (lambda: extended(record("size", "-1024")) + entry("x"), "negative size"),
    "headers without an end": (lambda: extended(record("a", "b")) * 2000, "RecursionError"),
    "a whiteout of the directory": (lambda: entry("d/x") + entry("d/.wh."), "whiteout is named"),
    "a whiteout of the directory above": (lambda: entry("d/x") + entry("d/.wh..."), "whiteout is named"),
    "a hard link to outside": (
        lambda: entry("x", type=tarfile.LNKTYPE, linkname="../../../../../etc/passwd"), "no such file",
    ),
    "a file that is too short": (lambda: entry("x", size=4096)[:512], "shorter than its header says"),
}  # fmt: skip


@pytest.mark.root
@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_layer_is_one_line_and_leaves_nothing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined, "_MEMORY", 8 << 20)
    make, message = HOSTILE[name]
    data = make()
    # Something has been unpacked before: it goes with the layer.
    before = entry("d/x", b"data")
    with pytest.raises(KrunError, match=message) as caught:
        layer(
            tmp_path,
            data if data[:2] == b"\x1f\x8b" else before + data + END,
            # The memory is to end before the archive does, also where this process has some to reuse.
            LIMIT if "memory" not in message else 64 << 20,
        )
    assert "\n" not in str(caught.value) and os.listdir(tmp_path) == ["blob"]


@pytest.mark.root
@pytest.mark.usefixtures("as_root")
def test_a_layer_that_its_owner_writes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest was that of another reading: the directory became the layer of all images that name it."""
    run = confined.run

    def later(*given: Any) -> None:
        (tmp_path / "blob").write_bytes(entry("etc/passwd", b"evil") + END)
        run(*given)

    monkeypatch.setattr(confined, "run", later)
    with pytest.raises(KrunError, match="its file has the digest sha256:"):
        layer(tmp_path, entry("etc/passwd", b"good") + END)
    assert os.listdir(tmp_path) == ["blob"]


@pytest.mark.parametrize("lay", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_a_file_of_a_layout_that_is_none(tmp_path: Path, lay: Callable[[Path], object]) -> None:
    """Who looked at a FIFO waited for its writer; a device is not opened at all."""
    digest = f"sha256:{'a' * 64}"
    (tmp_path / "blobs/sha256").mkdir(parents=True)
    (tmp_path / "index.json").write_text(f'{{"manifests":[{{"digest":"{digest}"}}]}}')
    lay(tmp_path / "blobs/sha256" / ("a" * 64))
    with pytest.raises(StartError, match="no regular file"):
        layout.read(str(tmp_path), "", "", "image")
    with pytest.raises(KrunError, match="no regular file"):
        unpack(layout.blob(str(tmp_path), digest, "image"), digest, str(tmp_path / "layer"), LIMIT)
    (tmp_path / "index.json").unlink()
    lay(tmp_path / "index.json")
    with pytest.raises(StartError, match="no regular file"):
        layout.read(str(tmp_path), "", "", "image")
    assert not (tmp_path / "layer").exists()


@pytest.mark.root
@pytest.mark.usefixtures("as_root")
def test_what_is_unusual_and_right(tmp_path: Path) -> None:
    """A sparse file keeps its holes; a later entry replaces a deep directory; aufs' files are left out."""
    deep = extended(record("path", "d/" * 600 + "x")) + entry("x")
    layer(
        tmp_path,
        sparse(LIMIT, b"x" * 512, 1 << 20) + deep + entry("d", b"file") + entry(".wh..wh.plnk") + END,
    )
    made = tmp_path / "layer"
    assert sorted(os.listdir(made)) == ["d", "sparse"] and (made / "d").read_bytes() == b"file"
    info = (made / "sparse").stat()
    assert info.st_size == LIMIT and info.st_blocks * 512 <= 64 << 10
    with open(made / "sparse", "rb") as file:
        file.seek((1 << 20) - 1)
        assert file.read(514) == b"\0" + b"x" * 512 + b"\0"


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: entry("index.json", b"{}") + negative(), "negative size"),  # tarfile looped for ever
        (lambda: gzip.compress(entry("a.tar", bytes(LIMIT + 1)), 1), "file too large"),
        (lambda: b"".join(entry(f"{i}") for i in range(10_001)), "has more than 10000 entries"),
        (lambda: entry("manifest.json", b"[" * 100_000), "RecursionError"),
    ],
    ids=["negative size", "bomb", "entries", "nested json"],
)
def test_a_hostile_archive(tmp_path: Path, make: Callable[[], bytes], message: str) -> None:
    data = make()
    (tmp_path / "x.tar").write_bytes(data if data[:2] == b"\x1f\x8b" else data + END)
    with pytest.raises(StartError, match=message):
        layout.unpack_archive(str(tmp_path / "x.tar"), str(tmp_path / "out"), "image", LIMIT)


@pytest.mark.parametrize(
    "index", [b"[" * 100_000, b'{"manifests":[{"annotations":["a"]}]}', b'{"manifests":[{"platform":"x"}]}']
)
def test_a_hostile_index(tmp_path: Path, index: bytes) -> None:
    (tmp_path / "index.json").write_bytes(index)
    with pytest.raises(StartError, match=r"cannot read its index\.json|names no manifests"):
        layout.read(str(tmp_path), "", "", "image")


@pytest.mark.parametrize(
    ("name", "lay", "message"),
    [
        ("rootfs", lambda path: path.symlink_to("/"), "rootfs is a symbolic link; it must be a directory"),
        ("config.json", lambda path: path.symlink_to("/dev/zero"), "Too many levels of symbolic links"),
        ("config.json", os.mkfifo, "no regular file"),
        ("config.json", lambda path: path.write_bytes(b" " * ((4 << 20) + 1)), "larger than 4194304 bytes"),
        ("config.json", lambda path: path.write_text("[" * 100000), "recursion"),
    ],
)
def test_a_hostile_directory(tmp_path: Path, name: str, lay: Callable[[Path], object], message: str) -> None:
    """Who owns the directory of an image brings no other file of the host into an instance, and does not make the worker wait."""
    image = tmp_path / "images/hello"
    (image / "rootfs").mkdir(parents=True)
    (image / "config.json").write_text('{"Entrypoint":["/x"]}')
    # The operator's own link to the directory is followed (krun deploy).
    (tmp_path / "images/linked").symlink_to(image)
    store = Store(str(tmp_path / "store"), [str(tmp_path / "images")], pull=False, podman=[])
    found = store.resolve("linked")
    assert os.path.samefile(*found.layers, image / "rootfs") and found.config.entrypoint == ["/x"]
    os.rename(image / name, tmp_path / "old")
    lay(image / name)
    with pytest.raises(StartError, match=message):
        store.resolve("hello")


@pytest.mark.root
@pytest.mark.usefixtures("as_root")
def test_an_image_inside_of_an_image_of_another_user(tmp_path: Path) -> None:
    """Its owner laid a link in it to the directory of another container, which has a rootfs, and deployed it."""
    (tmp_path / "bundle/rootfs").mkdir(parents=True)
    (tmp_path / "images/hello/rootfs").mkdir(parents=True)
    (tmp_path / "images/hello/leak").symlink_to(tmp_path / "bundle")
    store = Store(str(tmp_path / "store"), [str(tmp_path / "images")], pull=False, podman=[])
    assert store.resolve("hello/leak").layers == [str(tmp_path / "bundle/rootfs")]
    os.chown(tmp_path / "images/hello", 1000, 1000)
    with pytest.raises(StartError, match="images/hello belongs to user 1000, and is not looked into"):
        store.resolve("hello/leak")
    assert store.resolve("hello").layers == [str(tmp_path / "images/hello/rootfs")]
    # All of it is one user's: `--images` of a developer.
    os.chown(tmp_path / "images", 1000, 1000)
    assert store.resolve("hello/leak").layers == [str(tmp_path / "bundle/rootfs")]


def test_a_layer_that_has_become_a_link(tmp_path: Path) -> None:
    """Its owner has replaced it after it was looked at: the host's root is no layer."""
    (tmp_path / "rootfs").symlink_to("/")
    with pytest.raises(NotADirectoryError):
        sandbox._overlay(str(tmp_path), [str(tmp_path / "rootfs")])


def test_the_child_has_no_descriptor_of_the_worker(tmp_path: Path) -> None:
    """Who takes the reader of a hostile archive over gets no network namespace; who waits for the end of a pipe does not wait for it."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    said = tmp_path / "said"

    def show() -> None:
        links = [f"/proc/self/fd/{number}" for number in range(3, 1024)]
        # Looked at before `said` is opened.
        said.write_text(
            " ".join([os.path.basename(os.readlink(link)) for link in links if os.path.lexists(link)])
        )

    with open(tmp_path / "archive", "w") as file:
        confined.run(show, LIMIT, keep=[file.fileno()])
    os.close(reading)
    os.close(writing)
    first, second = sorted(said.read_text().split())
    assert first == "archive" and second.startswith("pipe:")  # the child's own message


def test_the_child_of_a_worker_that_dies_ends(tmp_path: Path) -> None:
    """It went on writing into the store of the next worker."""
    reading, writing = os.pipe()
    worker = os.fork()
    if worker == 0:
        confined.run(
            lambda: os.write(writing, b"x") and io.FileIO(os.pipe()[0]).read(), LIMIT, keep=[writing]
        )
        os._exit(0)
    os.close(writing)
    assert os.read(reading, 1) == b"x"
    os.kill(worker, 9)
    os.waitpid(worker, 0)
    assert os.read(reading, 1) == b""
    os.close(reading)

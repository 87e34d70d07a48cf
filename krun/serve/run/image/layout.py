"""OCI image layouts and archives (image-spec, image-layout.md; `docker save`'s format), read with every digest checked."""

import hashlib
import json
import os
import re
import tarfile
from collections.abc import Callable
from typing import IO, Any, NamedTuple

from krun.errors import KrunError, strerror
from krun.serve.run.errors import StartError
from krun.serve.run.image import archive, confined, plain
from krun.serve.run.image import config as image_config

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LARGEST_JSON = 4 << 20
_INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_LAYER = re.compile(
    r"application/vnd\.(oci\.image\.layer\.(nondistributable\.)?v1\.tar(\+gzip)?|docker\.image\.rootfs\.diff\.tar(\.gzip)?)"
)
_DEEPEST = 4  # indexes that name indexes
_MOST_LAYERS = 500  # overlayfs takes no more (fs/overlayfs, OVL_MAX_STACK)
_MOST_BLOBS = 10_000  # entries of an archive
_BLOBS_LIMIT = 4


class Manifest(NamedTuple):
    """The digest of a manifest, its image's configuration, and the digests of its layers, the lowest first."""

    digest: str
    config: image_config.Config
    layers: list[str]


def blob(directory: str, digest: Any, where: str) -> str:
    """Return the path of a blob of a layout. Raises StartError for a digest that is malformed or of another algorithm."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise StartError("ErrImagePull", f"image {where}: malformed or unsupported digest {digest!r}")
    return os.path.join(directory, "blobs", "sha256", digest[len("sha256:") :])


def read(directory: str, tag: str, digest: str, where: str, *, sole: bool = False) -> Manifest:
    """Read the manifest that a layout has for this machine.

    Arguments: directory; tag, matched with the annotation org.opencontainers.image.ref.name ("" takes "latest", or the only
    one); digest, of the manifest or an index, or ""; where, the image's name for messages; sole, the only manifest is taken
    whatever it is called there, because the layout's own file name has the tag. Raises StartError.
    """
    try:
        with os.fdopen(plain.open_regular(os.path.join(directory, "index.json")), "rb") as file:
            index = json.loads(file.read(_LARGEST_JSON))
    except (KrunError, OSError, ValueError, RecursionError) as error:
        raise StartError("ErrImagePull", f"image {where}: cannot read its index.json: {error}") from None
    entry = _choose(_entries(index, where), tag, digest, where, sole)
    for _ in range(_DEEPEST):
        document = _json_blob(directory, entry.get("digest"), where)
        if entry.get("mediaType") not in _INDEX_TYPES and "manifests" not in document:
            return _manifest(directory, entry["digest"], document, where)
        entry = _for_this_machine(_entries(document, where), where)
    raise StartError("ErrImagePull", f"image {where}: its indexes are nested more than {_DEEPEST} deep")


def unpack_archive(path: str, directory: str, where: str, limit: int) -> None:
    """Turn a tar archive of an OCI layout, or of `docker save`, into a layout in a new directory.

    Only regular files with the names of a layout are taken. Argument: limit, bytes that a blob may have; all have _BLOBS_LIMIT
    times as many. Raises StartError; the caller removes the directory.
    """
    os.makedirs(os.path.join(directory, "blobs", "sha256"))
    try:
        with os.fdopen(plain.open_regular(path), "rb") as file:
            confined.run(lambda: _unpack_archive(file, directory, limit), limit, keep=[file.fileno()])
    except (KrunError, OSError) as error:
        text = error.message if isinstance(error, KrunError) else strerror(error.errno or 0)
        raise StartError("ErrImagePull", f"image {where}: cannot read the archive {path}: {text}") from None


def _unpack_archive(source: IO[bytes], directory: str, limit: int) -> None:
    old: dict[str, str] = {}  # names in a docker archive -> digests
    links: dict[str, str] = {}
    manifests: Any = None
    index = False
    budget = archive.Budget(limit * _BLOBS_LIMIT, _MOST_BLOBS)
    with tarfile.open(fileobj=source, tarinfo=archive.Member) as file:
        for member in archive.members(file):
            budget.entry(0)
            name = os.path.normpath(member.name)
            # `docker save` before 25 stores a layer twice, the second time as a link to the first.
            if member.issym() or member.islnk():
                base = os.path.dirname(member.name) if member.issym() else ""
                links[name] = os.path.normpath(os.path.join(base, member.linkname))
            elif not member.isreg():
                continue
            elif name == "index.json":
                index = True
                with open(os.path.join(directory, name), "xb") as out:
                    out.write(_read_json(file, member))
            elif name == "manifest.json":
                manifests = json.loads(_read_json(file, member))
            elif name.startswith("blobs/sha256/") or name.endswith((".tar", ".json")):
                old[name] = _copy_blob(lambda out: archive.copy(file, member, out, budget), directory)  # noqa: B023
        for name, target in links.items():
            if target in old:
                old[name] = old[target]
    if not index:
        _index_of_docker(directory, manifests, old)


def _read_json(file: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    source = file.extractfile(member)
    assert source is not None
    return source.read(_LARGEST_JSON)


def _copy_blob(write: Callable[[IO[bytes]], object], directory: str) -> str:
    """Make a file of what `write` writes, at the place of its own digest, which is returned."""
    scratch = os.path.join(directory, "blobs", "sha256", "scratch")
    with open(scratch, "w+b") as file:
        write(file)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    os.rename(scratch, os.path.join(directory, "blobs", "sha256", digest))
    return f"sha256:{digest}"


def _index_of_docker(directory: str, manifests: Any, names: dict[str, str]) -> None:
    """Write the index.json and the manifest of an archive that has only docker's manifest.json."""
    try:
        (entry, *_) = manifests
        config = names[os.path.normpath(entry["Config"])]
        layers = [names[os.path.normpath(name)] for name in entry["Layers"]]
    except (TypeError, ValueError, KeyError) as error:
        raise KrunError(f"no index.json and no usable manifest.json: {error}") from None
    kind = "application/vnd.oci.image."
    manifest = {
        "schemaVersion": 2,
        "config": {"mediaType": kind + "config.v1+json", "digest": config},
        "layers": [{"mediaType": kind + "layer.v1.tar", "digest": layer} for layer in layers],
    }
    digest = _copy_blob(lambda out: out.write(json.dumps(manifest).encode()), directory)
    with open(os.path.join(directory, "index.json"), "x") as file:
        json.dump({"manifests": [{"mediaType": kind + "manifest.v1+json", "digest": digest}]}, file)


def _entries(index: Any, where: str) -> list[dict[str, Any]]:
    entries = index.get("manifests") if isinstance(index, dict) else None
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict)
        and isinstance(entry.get("annotations") or {}, dict)
        and isinstance(entry.get("platform") or {}, dict)
        for entry in entries
    ):
        raise StartError("ErrImagePull", f"image {where}: its index names no manifests")
    return entries


def _choose(entries: list[dict[str, Any]], tag: str, digest: str, where: str, sole: bool) -> dict[str, Any]:
    """Return the entry of a digest, or else of a tag, or the only one."""
    if digest:
        wanted = [entry for entry in entries if entry.get("digest") == digest]
    else:
        names = {tag or "latest"}
        wanted = [
            e
            for e in entries
            if (e.get("annotations") or {}).get("org.opencontainers.image.ref.name") in names
        ]
        if not wanted and (sole or not tag) and len(entries) == 1:
            wanted = entries
        # An archive of `skopeo copy` names the whole reference.
        if (
            not wanted
            and len(entries) == 1
            and "org.opencontainers.image.ref.name" not in (entries[0].get("annotations") or {})
        ):
            wanted = entries
    if not wanted:
        raise StartError(
            "ErrImagePull", f"image {where}: the layout has no manifest for {digest or tag or 'latest'}"
        )
    return wanted[0]


def _for_this_machine(entries: list[dict[str, Any]], where: str) -> dict[str, Any]:
    for entry in entries:
        platform = entry.get("platform") or {}
        if platform.get("architecture", "amd64") == "amd64" and platform.get("os", "linux") == "linux":
            return entry
    raise StartError("ErrImagePull", f"image {where}: no manifest for linux/amd64 in its index")


def _json_blob(directory: str, digest: Any, where: str) -> dict[str, Any]:
    path = blob(directory, digest, where)
    try:
        with os.fdopen(plain.open_regular(path), "rb") as file:
            data = file.read(_LARGEST_JSON + 1)
        document = json.loads(data)
    except (KrunError, OSError, ValueError, RecursionError) as error:
        raise StartError("ErrImagePull", f"image {where}: cannot read blob {digest}: {error}") from None
    if (
        len(data) > _LARGEST_JSON
        or "sha256:" + hashlib.sha256(data).hexdigest() != digest
        or not isinstance(document, dict)
    ):
        raise StartError("ErrImagePull", f"image {where}: the blob {digest} is not what its digest says")
    return document


def _manifest(directory: str, digest: str, document: dict[str, Any], where: str) -> Manifest:
    layers = document.get("layers")
    config = document.get("config")
    if (
        not isinstance(layers, list)
        or not isinstance(config, dict)
        or not all(isinstance(x, dict) for x in layers)
    ):
        raise StartError("ErrImagePull", f"image {where}: its manifest is malformed")
    if len(layers) > _MOST_LAYERS:
        raise StartError(
            "ErrImagePull",
            f"image {where}: it has {len(layers)} layers; overlayfs takes at most {_MOST_LAYERS}",
        )
    for layer in layers:
        if not _LAYER.fullmatch(str(layer.get("mediaType"))):
            raise StartError(
                "ErrImagePull",
                f"image {where}: layers of type {layer.get('mediaType')} are not supported; use gzip, or podman's storage",
            )
        blob(directory, layer.get("digest"), where)
    own = _json_blob(directory, config.get("digest"), where)
    machine = (own.get("os", "linux"), own.get("architecture", "amd64"))
    if machine != ("linux", "amd64"):
        raise StartError(
            "ErrImagePull",
            f"image {where}: it is for {'/'.join(map(str, machine))}, this machine is linux/amd64",
        )
    return Manifest(digest, image_config.of(own.get("config"), where), [layer["digest"] for layer in layers])

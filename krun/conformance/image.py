"""The probe as an image: an archive of an OCI layout, for `skopeo copy oci-archive:FILE docker://REGISTRY/NAME` or a directory of
images of krun serve.

Sources: OCI image specification, image-layout.md, manifest.md, config.md. The same bytes come out at each call, so that the digest stays.
"""

import hashlib
import io
import json
import os
import tarfile
from typing import Any

from krun.conformance.cases import IMAGE_UID
from krun.errors import KrunError

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_PASSWD = "root:x:0:0:root:/:\nnonroot:x:65532:65532:nonroot:/:\n"


def write(path: str, probe: str) -> None:
    """Write the archive. Arguments: its path; path of the probe. Raises KrunError where one cannot be read or written."""
    try:
        with open(probe, "rb") as file:
            program = file.read()
        blobs: dict[str, bytes] = {}
        layer = _blob(blobs, _layer(program), _LAYER)
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/probe"], "User": str(IMAGE_UID), "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _blob(blobs, json.dumps(config).encode(), _CONFIG),
            "layers": [layer],
        }
        index = {"schemaVersion": 2, "manifests": [_blob(blobs, json.dumps(manifest).encode(), _MANIFEST)]}
        with tarfile.open(path, "w") as tar:
            _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
            _add(tar, "index.json", json.dumps(index).encode())
            for digest, data in blobs.items():
                _add(tar, f"blobs/{digest.replace(':', '/')}", data)
    except OSError as error:
        raise KrunError(f"write the probe's image {path}: {error.strerror}: {error.filename}") from None


def _blob(blobs: dict[str, bytes], data: bytes, media: str) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    blobs[digest] = data
    return {"mediaType": media, "digest": digest, "size": len(data)}


def _layer(program: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, mode in (("etc", 0o755), ("tmp", 0o1777), ("proc", 0o755), ("sys", 0o755), ("dev", 0o755)):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            tar.addfile(folder)
        _add(tar, "etc/passwd", _PASSWD.encode())
        _add(tar, "probe", program, 0o755)
    return out.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(os.fspath(name))
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))

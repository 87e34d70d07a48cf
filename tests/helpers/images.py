"""OCI images from directories: as a tar for `ctr images import`, and served by a registry of our own on the loopback."""

from __future__ import annotations

import ctypes
import hashlib
import http.server
import io
import json
import os
import socket
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
CLONE_NEWNET = 0x40000000


class Image:
    """One layer, made of the directory `root`; `config` is the image's (Entrypoint, Cmd, User, ...)."""

    def __init__(self, name: str, root: Path, config: dict[str, Any]) -> None:
        self.name = name
        self.blobs: dict[str, bytes] = {}
        argv = ["tar", "-C", str(root), "--numeric-owner", "--sort=name", "-cf", "-", "."]
        layer = self._blob(subprocess.run(argv, check=True, capture_output=True).stdout)
        parts = {"type": "layers", "diff_ids": [layer["digest"]]}
        document = {"architecture": "amd64", "os": "linux", "config": config, "rootfs": parts}
        settings = self._blob(json.dumps(document).encode())
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {**settings, "mediaType": CONFIG},
            "layers": [{**layer, "mediaType": LAYER}],
        }
        self.descriptor = {**self._blob(json.dumps(manifest).encode()), "mediaType": MANIFEST}

    def _blob(self, data: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[digest] = data
        return {"digest": digest, "size": len(data)}

    def write(self, path: Path) -> Path:
        """The tar of an image layout, which `ctr images import` takes."""
        named = {**self.descriptor, "annotations": {"io.containerd.image.name": self.name}}
        files = {
            "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
            "index.json": json.dumps({"schemaVersion": 2, "manifests": [named]}).encode(),
            **{f"blobs/{digest.replace(':', '/')}": data for digest, data in self.blobs.items()},
        }
        with tarfile.open(path, "w") as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return path


class Registry:
    """Serves images for pulling, under the paths and tags given, in the network namespace of process `pid`."""

    def __init__(self, images: dict[str, Image], pid: int) -> None:
        self.images = images
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.answer(True)

            def do_HEAD(self) -> None:
                self.answer(False)

            def answer(self, body: bool) -> None:
                kind, data = registry.find(self.path.partition("?")[0])
                self.send_response(200 if kind else 404)
                self.send_header("Content-Length", str(len(data)))
                if kind:
                    self.send_header("Content-Type", kind)
                    self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(data).hexdigest()}")
                self.end_headers()
                if body:
                    self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.server.socket.close()
        # A socket belongs to the namespace it was made in, whoever uses it.
        maker = threading.Thread(target=self._socket_in, args=(pid,))
        maker.start()
        maker.join()
        self.server.server_bind()
        self.server.server_activate()
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def _socket_in(self, pid: int) -> None:
        fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        assert ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        os.close(fd)
        self.server.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def find(self, path: str) -> tuple[str, bytes]:
        """The media type and bytes of a path of the distribution API; ("", b"") for what is not there."""
        if path.rstrip("/") == "/v2":
            return "application/json", b"{}"
        name, _, what = path.removeprefix("/v2/").rpartition("/")
        name, _, kind = name.rpartition("/")
        for key, image in self.images.items():
            repository, _, tag = key.rpartition(":")
            if repository != name:
                continue
            if kind == "manifests" and what in (tag, image.descriptor["digest"]):
                return MANIFEST, image.blobs[image.descriptor["digest"]]
            if kind == "blobs" and what in image.blobs:
                return "application/octet-stream", image.blobs[what]
        return "", b""

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def _store(directory: Path, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    path = directory / "blobs/sha256"
    path.mkdir(parents=True, exist_ok=True)
    (path / digest).write_bytes(data)
    return f"sha256:{digest}"


def make_layout(directory: Path, layers: list[bytes], own: dict[str, Any], **extra: Any) -> str:
    """Write an OCI layout; returns the digest of its manifest."""
    kind = "application/vnd.oci.image."
    blob = _store(
        directory, json.dumps({"os": "linux", "architecture": "amd64", "config": own} | extra).encode()
    )
    manifest = {"schemaVersion": 2, "config": {"mediaType": kind + "config.v1+json", "digest": blob},
                "layers": [{"mediaType": kind + "layer.v1.tar", "digest": _store(directory, layer)} for layer in layers]}  # fmt: skip
    digest = _store(directory, json.dumps(manifest).encode())
    (directory / "index.json").write_text(
        json.dumps({"manifests": [{"mediaType": kind + "manifest.v1+json", "digest": digest}]})
    )
    return digest

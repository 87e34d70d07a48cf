#!/usr/bin/python3
"""tools/runenv.py: base images made of this machine's Debian packages, and images of a program without a Dockerfile. No registry.

    runenv.py make NAME...                                 build/runenv/NAME, and localhost/runenv/NAME in podman's storage
    runenv.py pack NAME DIRECTORY IMAGE [-- COMMAND...]    IMAGE: NAME and one more layer, DIRECTORY as /app
    runenv.py list                                         the names, with their packages

An image is an OCI layout (image-spec, image-layout.md). The packages of a base image and all that they depend on are copied
from this machine if it has them installed; otherwise apt-get downloads them, and nothing is installed. Maintainer scripts do
not run: a base image has no apt, and what a script would have made is made here (FILES) or is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent.parent
BASES = ROOT / "build" / "runenv"
DPKG = Path("/var/lib/dpkg")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TYPE = "application/vnd.oci.image."
#: Raised when images of the same packages come out otherwise than before.
VERSION = 1
EPOCH = "1970-01-01T00:00:00Z"
#: What RUN of a Dockerfile needs.
SHELL = ("dash", "coreutils", "sed", "grep", "findutils")


class Base(NamedTuple):
    """A base image: what it is for, its packages, its environment, and the command of an image that is packed without one."""

    purpose: str
    packages: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


#: THE table of base images.
TABLE: dict[str, Base] = {
    "static": Base("static programs: no package, no shell", command=("/app/server",)),
    "c": Base("compile C", (*SHELL, "gcc", "libc6-dev")),
    "go": Base("compile Go", (*SHELL, "golang-go"), ("CGO_ENABLED=0", "GOCACHE=/tmp/go", "GO111MODULE=on")),
    "python": Base("Python", ("python3",), command=("python3", "/app/app.py")),
    # gunicorn listens on $PORT by itself.
    "flask": Base("Python with flask and gunicorn", ("python3-flask", "gunicorn"), command=("gunicorn", "app:app")),
    "node": Base("Node with express", ("nodejs", "node-express"), command=("node", "/app/server.js")),
    "jdk": Base("compile Java", (*SHELL, "default-jdk-headless"), (f"PATH=/usr/lib/jvm/default-java/bin:{PATH}",)),
    "java": Base("Java", ("default-jre-headless",), (f"PATH=/usr/lib/jvm/default-java/bin:{PATH}",),
                 ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "/app", "Server")),
}  # fmt: skip

FOLDERS = (
    "dev",
    "etc",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr",
    "var",
    "var/log",
    "var/tmp",
    "home",
    "app",
)
MERGED = ("bin", "sbin", "lib", "lib64")
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\napp:x:65532:65532:app:/app:/bin/sh\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\napp:x:65532:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
#: Documentation for people; the licences (/usr/share/doc/*/copyright) stay.
LEFT_OUT = re.compile(
    r"usr/share/(?:man|info|locale|lintian|groff|linda|bug|menu|doc-base)(?:/|$)|usr/share/doc/[^/]+/(?!copyright$)"
)


def fail(text: str) -> NoReturn:
    sys.exit(f"runenv: {text}")


def say(text: str) -> None:
    print(f"runenv: {text}", file=sys.stderr, flush=True)


# -------------------------------------------------------------------------------------------------------- packages


class Package(NamedTuple):
    """A package that dpkg has: deb-control(5)'s fields that are needed here."""

    name: str
    version: str
    architecture: str
    needs: str
    conffiles: dict[str, str]


def installed() -> tuple[dict[str, Package], dict[str, str]]:
    """Returns the installed packages of this machine, and which of them provides which virtual package."""
    packages: dict[str, Package] = {}
    virtual: dict[str, str] = {}
    for stanza in (DPKG / "status").read_text(errors="replace").split("\n\n"):
        fields = {
            key.lower(): value.strip()
            for key, value in re.findall(r"^([\w-]+):(.*(?:\n[ \t].*)*)", stanza, flags=re.M)
        }
        if not fields.get("status", "").endswith(" ok installed") or fields["architecture"] not in (
            "amd64",
            "all",
        ):
            continue
        conffiles = dict(line.split()[:2] for line in fields.get("conffiles", "").splitlines())
        needs = ", ".join(filter(None, (fields.get("pre-depends"), fields.get("depends"))))
        name = fields["package"]
        packages[name] = Package(name, fields["version"], fields["architecture"], needs, conffiles)
        for word in _names(fields.get("provides", "")):
            virtual.setdefault(word[0], name)
    return packages, virtual


def _names(text: str) -> list[list[str]]:
    """Returns a relation's groups of alternatives: "a (>= 1) | b:any, c" is [[a, b], [c]]."""
    groups = [re.findall(r"(?:^|\|)\s*([a-z0-9][a-z0-9.+-]+)", group) for group in text.split(",")]
    return [group for group in groups if group]


def closure(names: tuple[str, ...]) -> list[Package] | None:
    """Returns the packages and all that they depend on, None if this machine has not all of them installed."""
    packages, virtual = installed()
    found: dict[str, Package] = {}
    waiting = [[name] for name in names]
    while waiting:
        group = waiting.pop()
        name = next((virtual.get(one, one) if one not in packages else one for one in group
                     if one in packages or one in virtual), None)  # fmt: skip
        if name is None:
            return None
        if name not in found:
            found[name] = packages[name]
            waiting += _names(packages[name].needs)
    return sorted(found.values())


def copied(packages: list[Package]) -> Iterator[tuple[Path, str]]:
    """Yields (path on this machine, name in the image) of the files of installed packages.

    A configuration file that somebody has changed is left out, because it is this machine's and not the package's.
    """
    for package in packages:
        lists = [DPKG / "info" / f"{package.name}{end}.list" for end in ("", f":{package.architecture}")]
        listed = next((path for path in lists if path.exists()), None)
        if listed is None:
            fail(
                f"read the files of package {package.name}: {lists[0]} is missing; apt-get install --reinstall {package.name}"
            )
        for line in listed.read_text().splitlines():
            path, name = Path(line), line.strip("/")
            if line == "/." or LEFT_OUT.match(name):
                continue
            if not os.path.lexists(path):
                # dpkg.cfg(5), path-exclude: images of Debian leave documents out.
                if name.startswith(("usr/share/doc/", "etc/")):
                    continue
                fail(
                    f"copy {line} of package {package.name}: it is missing; apt-get install --reinstall {package.name}"
                )
            digest = package.conffiles.get(line)
            if digest and (
                not path.is_file()
                or hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() != digest
            ):
                say(f"{line} was changed on this machine and is left out")
                continue
            yield path, name


def downloaded(names: tuple[str, ...], scratch: Path) -> tuple[list[str], Iterator[tuple[Path, str]]]:
    """Downloads packages and all that they depend on; returns NAME=VERSION of each, and their files as `copied` does.

    apt-get sees an empty status file, so it takes everything from one release, whatever this machine has.
    """
    archives, root = scratch / "archives", scratch / "root"
    (archives / "partial").mkdir(parents=True)
    root.mkdir()
    status = scratch / "status"
    status.touch()
    command = ["apt-get", "-q", "-y", "-o", f"Dir::State::status={status}", "-o", f"Dir::Cache::archives={archives}",
               "-o", "APT::Sandbox::User=root", "--no-install-recommends", "--download-only", "install", *names]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        subprocess.run(["apt-get", "-q", "update"], capture_output=True)
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        fail(
            f"download {' '.join(names)}: apt-get: {' '.join(done.stderr.split())[-600:]}; is the network there?"
        )
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    versions = []
    for deb in sorted(archives.glob("*.deb")):
        versions.append("=".join(deb.name.split("_")[:2]).replace("%3a", ":"))
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as reader:
            unpacked = subprocess.run(
                ["tar", "--extract", "--keep-directory-symlink", "--numeric-owner", "-C", str(root)],
                stdin=reader.stdout,
            )
        if reader.returncode or unpacked.returncode:
            fail(
                f"unpack {deb.name}: tar ended with {unpacked.returncode}, dpkg-deb with {reader.returncode}"
            )

    def files() -> Iterator[tuple[Path, str]]:
        for folder, directories, plain in os.walk(root):
            for one in sorted(directories + plain):
                path = Path(folder, one)
                name = str(path.relative_to(root))
                if name not in MERGED and not LEFT_OUT.match(name):
                    yield path, name

    return versions, files()


# ---------------------------------------------------------------------------------------------------------- layouts


class Layer:
    """A layer that is being written: every name once, everything owned as on disk, no times, no set-user-id bits."""

    def __init__(self, path: Path) -> None:
        self._tar = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)
        self._seen: set[str] = set()

    def __enter__(self) -> Layer:
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    def folder(self, name: str, mode: int = 0o755) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.mode = tarfile.DIRTYPE, mode
        self._put(info)

    def link(self, name: str, target: str) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
        self._put(info)

    def text(self, name: str, data: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(data), 0o644
        self._put(info, io.BytesIO(data))

    def path(self, path: Path, name: str) -> None:
        """Adds a file, directory or link of this machine; sockets, FIFOs and devices are left out."""
        first, _, rest = name.partition("/")
        name = f"usr/{first}/{rest}" if first in MERGED and rest else name
        if name in self._seen or name in MERGED:
            return
        status = path.lstat()
        info = self._tar.gettarinfo(str(path), name)
        if info is None or not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
            return
        # A directory's set-group-id bit and a sticky bit stay.
        info.mode = status.st_mode & (0o1777 if stat.S_ISREG(status.st_mode) else 0o3777)
        info.uname = info.gname = ""
        if info.isreg():
            with path.open("rb") as file:
                self._put(info, file)
        else:
            self._put(info)

    def _put(self, info: tarfile.TarInfo, file: Any = None) -> None:
        if info.name not in self._seen:
            self._seen.add(info.name)
            info.mtime = 0
            self._tar.addfile(info, file)


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Layout:
    """An OCI layout that is being made; `finish` puts it in its place in one step."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.parent.mkdir(parents=True, exist_ok=True)
        self._scratch = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        self._blobs = self._scratch / "blobs" / "sha256"
        self._blobs.mkdir(parents=True)
        self.layers: list[dict[str, Any]] = []

    def take(self, path: Path) -> None:
        """Adds a layer that is a file; the file is moved."""
        size, digest = path.stat().st_size, digest_of(path)
        path.chmod(0o644)
        os.rename(path, self._blobs / digest)
        self.layers.append({"mediaType": TYPE + "layer.v1.tar", "digest": f"sha256:{digest}", "size": size})

    def base(self, base: Path) -> dict[str, Any]:
        """Begins with the layers of another layout; returns its configuration."""
        manifest, config = read(base)
        for layer in manifest["layers"]:
            name = layer["digest"].partition(":")[2]
            try:
                os.link(base / "blobs/sha256" / name, self._blobs / name)
            except OSError:
                shutil.copyfile(base / "blobs/sha256" / name, self._blobs / name)
            self.layers.append(layer)
        own: dict[str, Any] = config["config"]
        return own

    def _json(self, value: object, media: str) -> dict[str, Any]:
        data = json.dumps(value).encode()
        digest = hashlib.sha256(data).hexdigest()
        (self._blobs / digest).write_bytes(data)
        return {"mediaType": TYPE + media, "digest": f"sha256:{digest}", "size": len(data)}

    def finish(self, config: dict[str, Any], tag: str, notes: dict[str, str]) -> None:
        """Writes configuration, manifest and index, and replaces what was in the layout's place."""
        parts = {"type": "layers", "diff_ids": [layer["digest"] for layer in self.layers]}
        # buildah wants one entry of history for each layer.
        history = [{"created": EPOCH, "created_by": "tools/runenv.py"} for _ in self.layers]
        document = {"created": EPOCH, "architecture": "amd64", "os": "linux", "config": config,
                    "rootfs": parts, "history": history}  # fmt: skip
        manifest = {
            "schemaVersion": 2,
            "mediaType": TYPE + "manifest.v1+json",
            "config": self._json(document, "config.v1+json"),
            "layers": self.layers,
            "annotations": notes,
        }
        entry = self._json(manifest, "manifest.v1+json")
        entry["annotations"] = {"org.opencontainers.image.ref.name": tag}
        (self._scratch / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        (self._scratch / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
        self._scratch.chmod(0o755)
        if self.place.exists():
            old = Path(tempfile.mkdtemp(prefix=".old.", dir=self.place.parent))
            os.rename(self.place, old / "layout")
            os.rename(self._scratch, self.place)
            shutil.rmtree(old)
        else:
            os.rename(self._scratch, self.place)

    def drop(self) -> None:
        """Removes what was not finished."""
        shutil.rmtree(self._scratch, ignore_errors=True)


def read(layout: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a layout's manifest and configuration."""

    def blob(entry: dict[str, Any]) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(
            (layout / "blobs/sha256" / entry["digest"].partition(":")[2]).read_text()
        )
        return value

    manifest = blob(json.loads((layout / "index.json").read_text())["manifests"][0])
    return manifest, blob(manifest["config"])


# ------------------------------------------------------------------------------------------------------------ verbs


def skeleton(layer: Layer) -> None:
    """What every base image has: folders, users, the certificates of Debian's authorities."""
    for name in FOLDERS:
        layer.folder(name, 0o1777 if name in ("tmp", "var/tmp") else 0o755)
    for name in MERGED:
        layer.folder(f"usr/{name}")
        layer.link(name, f"usr/{name}")
    for name, text in FILES.items():
        layer.text(name, text.encode())
    layer.text("etc/os-release", Path("/etc/os-release").read_bytes())
    authorities = sorted(Path("/usr/share/ca-certificates/mozilla").glob("*.crt"))
    for name in ("etc/ssl", "etc/ssl/certs"):
        layer.folder(name)
    layer.text("etc/ssl/certs/ca-certificates.crt", b"".join(one.read_bytes() for one in authorities))


def make(name: str) -> Path:
    """Makes a base image unless it is there with the same packages; returns its layout."""
    base, place = TABLE[name], BASES / name
    recipe = hashlib.sha256(repr((VERSION, base, FOLDERS, FILES)).encode()).hexdigest()[:16]
    local = closure(base.packages)
    versions = [f"{one.name}={one.version}" for one in local or ()]
    notes = read(place)[0].get("annotations", {}) if (place / "index.json").exists() else {}
    # A downloaded image has the packages of its day; ./dev clean, or its removal, makes a new one.
    if notes.get("krun.recipe") == recipe and (
        local is None or notes.get("krun.packages") == " ".join(versions)
    ):
        return place
    layout = Layout(place)
    try:
        with tempfile.TemporaryDirectory(prefix=".packages.", dir=place.parent) as scratch:
            if local is not None:
                files = copied(local)
            else:
                say(f"{name}: downloading {' '.join(base.packages)}")
                versions, files = downloaded(base.packages, Path(scratch))
            with Layer(Path(scratch) / "layer") as layer:
                skeleton(layer)
                for path, target in files:
                    layer.path(path, target)
            layout.take(Path(scratch) / "layer")
        config: dict[str, Any] = {"WorkingDir": "/app", "User": "65532"}
        config["Env"] = [*(() if any(one.startswith("PATH=") for one in base.env) else (f"PATH={PATH}",)), *base.env]  # fmt: skip
        if base.command:
            config["Cmd"] = list(base.command)
        if SHELL[0] in base.packages:
            config["User"] = "0"
        layout.finish(config, f"localhost/runenv/{name}:latest",
                      {"krun.recipe": recipe, "krun.packages": " ".join(versions)})  # fmt: skip
    finally:
        layout.drop()
    return place


def into_podman(name: str, place: Path) -> None:
    """Puts a base image into podman's storage, for FROM of a Dockerfile; nothing where there is no podman."""
    if shutil.which("podman") is None:
        say(f"{name}: {place} (podman is not installed: a Dockerfile cannot name it)")
        return
    with tempfile.TemporaryFile(dir=place.parent) as archive:
        subprocess.run(["tar", "-C", str(place), "-cf", "-", "."], stdout=archive, check=True)
        archive.seek(0)
        done = subprocess.run(["podman", "load", "--quiet"], stdin=archive, capture_output=True, text=True)
    if done.returncode:
        fail(f"podman load {place}: {' '.join(done.stderr.split())[-600:]}")
    say(f"{name}: localhost/runenv/{name} in podman's storage, {place}")


def pack(name: str, folder: Path, image: Path, command: list[str]) -> None:
    """Makes an image of a base and a directory."""
    if not folder.is_dir():
        fail(f"pack {folder}: it is no directory")
    if (
        image.exists()
        and not (image / "index.json").exists()
        and (not image.is_dir() or any(image.iterdir()))
    ):
        fail(f"write image {image}: something else is there; give another name or remove it")
    if image.resolve().is_relative_to(folder.resolve()):
        fail(f"write image {image}: it is inside of {folder}, which it would hold")
    layout = Layout(image)
    try:
        config = layout.base(make(name))
        with tempfile.TemporaryDirectory(prefix=".layer.", dir=image.parent) as scratch:
            with Layer(Path(scratch) / "layer") as layer:
                layer.folder("app")
                for at, directories, plain in os.walk(folder):
                    directories.sort()
                    for one in sorted(directories + plain):
                        path = Path(at, one)
                        layer.path(path, f"app/{path.relative_to(folder)}")
            layout.take(Path(scratch) / "layer")
        if command:
            config["Cmd"] = command
        if not config.get("Cmd"):
            fail(f"pack {folder}: {name} is for compilers and has no command; give one behind --")
        layout.finish(config, "latest", {})
    finally:
        layout.drop()
    say(f"{image}: /app is {folder}, command {json.dumps(config['Cmd'])}; krun deploy {image}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="runenv.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="print the base images")
    one = verbs.add_parser("make", help="make base images")
    one.add_argument("name", nargs="+", choices=TABLE)
    two = verbs.add_parser("pack", help="make an image without a Dockerfile")
    two.add_argument("name", choices=TABLE)
    two.add_argument("directory", type=Path)
    two.add_argument("image", type=Path)
    two.add_argument("command", nargs="*")
    options = parser.parse_args()
    if options.verb == "list":
        for name, base in TABLE.items():
            print(f"{name:8}{base.purpose}: {' '.join(base.packages) or '-'}")
        return 0
    if os.geteuid() != 0:
        fail("files keep their owners, so it must run as root: sudo tools/runenv.py ...")
    BASES.mkdir(parents=True, exist_ok=True)
    if options.verb == "make":
        for name in options.name:
            into_podman(name, make(name))
    else:
        pack(options.name, options.directory, options.image.absolute(), options.command)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Parts of krun serve's instances that need no root: references, quantities, users, volumes, layouts, logs, probes."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import io
import json
import os
import signal
import socket
import tarfile
from pathlib import Path
from typing import Any

import pytest
from helpers.images import make_layout

from krun.errors import KrunError
from krun.serve.reference import parse
from krun.serve.run import bundle, etcfiles, logfile, logs, resources, sandbox, seccomp, user, volumes, wire
from krun.serve.run.environment import environment
from krun.serve.run.errors import StartError
from krun.serve.run.image import config, layout
from krun.serve.run.image.store import Store
from krun.serve.run.probe import Prober
from krun.serve.run.rootdir import RootDir
from krun.serve.run.worker import Worker


@pytest.mark.parametrize(
    "text, name, tag",
    [
        ("hello", "hello", ""),
        ("reg.example/a/b:v1", "reg.example/a/b", "v1"),
        ("localhost:5000/x", "localhost:5000/x", ""),
        ("a__b-c.d", "a__b-c.d", ""),
        ("[::1]:5000/x:latest", "[::1]:5000/x", "latest"),
    ],
)
def test_reference(text: str, name: str, tag: str) -> None:
    assert parse(text)[:2] == (name, tag)
    assert parse(f"{text}@sha256:{'a' * 64}").digest == "sha256:" + "a" * 64


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/etc",
        "../x",
        "a/../b",
        "a//b",
        "A",
        "a:b:c",
        "x@sha256:12",
        "x@md5:" + "a" * 32,
        "a b",
        "a\n",
        "-a",
        "a/.b",
        "a" * 300,
    ],
)
def test_reference_refused(text: str, tmp_path: Path) -> None:
    store = Store(str(tmp_path), [], podman=["/bin/false"])
    with pytest.raises(StartError, match="could not parse reference") as caught:
        store.resolve(text)
    assert caught.value.reason == "InvalidImageName"


@pytest.mark.parametrize(
    "wanted, expected",
    [
        ({}, {}),
        ({"limits": {"cpu": "1", "memory": "128Mi"}, "requests": {"cpu": "125m"}},
         {"cpu": {"shares": 128, "period": 100000, "quota": 100000}, "memory": {"limit": 134217728}}),
        ({"limits": {"cpu": "1m"}}, {"cpu": {"shares": 2, "period": 100000, "quota": 1000}}),
        ({"requests": {"cpu": 2}}, {"cpu": {"shares": 2048}}),
        ({"limits": {"memory": "1e3"}}, {"memory": {"limit": 1000}}),
        ({"limits": {"memory": "0.5Ki"}}, {"memory": {"limit": 512}}),
    ],
)  # fmt: skip
def test_resources(wanted: dict[str, Any], expected: dict[str, Any]) -> None:
    assert resources.cgroup_values(wanted) == expected


@pytest.mark.parametrize("text", ["", "x", "1Kb", "1.2.3", "--1", "1e", "NaN", "1 Mi"])
def test_quantity_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        resources.cgroup_values({"limits": {"cpu": text}})


@pytest.mark.parametrize(
    "text, expected",
    [
        ("$(A)", "1"),
        ("x$(A)$(B)y", "x1$(B)y"),
        ("$$(A)", "$(A)"),
        ("$", "$"),
        ("$(A", "$(A"),
        ("$$$(A)", "$1"),
        ("$A", "$A"),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    assert bundle.expand(text, {"A": "1"}) == expected


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(
        "root:x:0:0:r:/root:/bin/sh\nbad line\nweb:x:33:34:w:/var/www:/bin/sh\n"
    )
    (tmp_path / "etc/group").write_text("root:x:0:\nextra:x:50:web,other\nweb:x:34:web\n")
    return tmp_path


@pytest.mark.parametrize(
    "image, context, expected",
    [
        ("", {}, (0, 0, [])),
        ("web", {}, (33, 34, [50])),
        ("web:extra", {}, (33, 50, [34])),
        ("33", {}, (33, 34, [50])),
        ("1000", {}, (1000, 0, [])),
        ("1000:2000", {}, (1000, 2000, [])),
        ("web", {"runAsUser": 2020}, (2020, 0, [])),
        ("", {"runAsUser": 0, "runAsGroup": 7}, (0, 7, [])),
    ],
)
def test_user(root: Path, image: str, context: dict[str, Any], expected: tuple[int, int, list[int]]) -> None:
    with RootDir(str(root)) as directory:
        found = user.of(directory, image, context)
    assert (found["uid"], found["gid"], found["additionalGids"]) == expected


@pytest.mark.parametrize(
    "image, context, message",
    [
        ("nobody", {}, "unable to find user nobody"),
        ("web:none", {}, "unable to find group none"),
        ("", {"runAsNonRoot": True}, "runAsNonRoot"),
        ("99999999999", {}, "out of range"),
        ("9" * 5000, {}, "out of range"),
        ("web:" + "9" * 5000, {}, "out of range"),
    ],
)
def test_user_refused(root: Path, image: str, context: dict[str, Any], message: str) -> None:
    with RootDir(str(root)) as directory, pytest.raises(StartError, match=message):
        user.of(directory, image, context)


def test_numbers_of_an_image_that_int_refuses(root: Path) -> None:
    """A line with one is as a line with none; of ports likewise."""
    for name in ("passwd", "group"):
        with open(root / f"etc/{name}", "a") as file:
            file.write(f"x:x:{'9' * 5000}:{'9' * 5000}:web:/:/\n")
    with RootDir(str(root)) as directory:
        assert user.of(directory, "web:extra", {})["gid"] == 50
        with pytest.raises(StartError, match="unable to find user x"):
            user.of(directory, "x", {})
    assert config.of({"ExposedPorts": {"9" * 5000 + "/tcp": {}, "80": {}}}, "i").ports == [80]


def test_a_lease_on_the_termination_log_holds_up_nobody(tmp_path: Path) -> None:
    """Another container of the instance may hold one: an open that waits for its end waits for 45 s."""
    path = tmp_path / "termination-log"
    path.write_text("bye")
    assert sandbox._message(str(path)) == "bye"
    holder = os.open(path, os.O_RDWR)
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        os.write(told, b"x")
        signal.pause()
    # The lease is the open file's, which the child alone is to keep.
    os.close(holder)
    try:
        os.read(ready, 1)
        signal.alarm(20)
        assert sandbox._message(str(path)) == ""
    finally:
        signal.alarm(0)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(told)


def test_the_passwd_of_an_image_leads_nowhere_else(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An image whose /etc/passwd is a symlink to the host's, a FIFO, or a directory is read as one without."""
    canary = tmp_path_factory.mktemp("host") / "passwd"
    canary.write_text("canary:x:77:77:c:/:/bin/sh\n")
    (root / "etc/passwd").unlink()
    for make in (
        lambda path: os.symlink(str(canary), path),
        lambda path: os.symlink("../" * 20 + str(canary).lstrip("/"), path),
        lambda path: os.mkfifo(path),
        lambda path: os.mkdir(path),
    ):
        make(root / "etc/passwd")
        with RootDir(str(root)) as directory, pytest.raises(StartError, match="unable to find user canary"):
            user.of(directory, "canary", {})
        os.rmdir(root / "etc/passwd") if (root / "etc/passwd").is_dir() else os.unlink(root / "etc/passwd")


def test_env_of_objects() -> None:
    objects = {
        ("ConfigMap", "c"): {"data": {"a": "1", "b": "2"}},
        ("Secret", "s"): {"data": {"k": base64.b64encode(b"v").decode()}},
    }
    container = {
        "envFrom": [
            {"configMapRef": {"name": "c"}, "prefix": "P_"},
            {"secretRef": {"name": "none", "optional": True}},
        ],
        "env": [
            {"name": "P_b", "value": "own"},
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "O", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "none", "optional": True}}},
            {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"}}},
        ],
    }
    pod = {"metadata": {"labels": {"x": "y"}}}
    found = environment(container, lambda kind, name: objects.get((kind, name)), pod)
    assert {entry["name"]: entry["value"] for entry in found} == {
        "P_a": "1",
        "P_b": "own",
        "S": "v",
        "N": "y",
    }


@pytest.mark.parametrize(
    "entry, message",
    [
        (
            {"name": "X", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}},
            'secret "none" not found',
        ),
        (
            {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "none"}}},
            "couldn't find key none in ConfigMap c",
        ),
        ({"name": "X", "valueFrom": {"resourceFieldRef": {}}}, "resourceFieldRef is not supported"),
    ],
)
def test_env_refused(entry: dict[str, Any], message: str) -> None:
    def lookup(kind: str, name: str) -> dict[str, Any] | None:
        return {"data": {}} if (kind, name) == ("ConfigMap", "c") else None

    with pytest.raises(StartError, match=message) as caught:
        environment({"env": [entry]}, lookup, {})
    assert caught.value.reason == "CreateContainerConfigError"


def test_a_volume_changes_at_once(tmp_path: Path) -> None:
    """A reader of `..data` sees all old files or all new ones; files that are gone go, and so do their links."""

    def file(text: str) -> list[Any]:
        return [base64.b64encode(text.encode()).decode(), 0o640]

    volumes.publish(str(tmp_path), {"a": file("1"), "sub/b": file("2")})
    assert (tmp_path / "a").read_text() == "1" and (tmp_path / "sub/b").read_text() == "2"
    assert (tmp_path / "a").stat().st_mode & 0o7777 == 0o640
    volumes.publish(str(tmp_path), {"a": file("3")})
    assert (tmp_path / "a").read_text() == "3"
    assert sorted(name for name in os.listdir(tmp_path) if not name.startswith("..")) == ["a"]
    assert len([name for name in os.listdir(tmp_path) if name.startswith("..2")]) == 1


@pytest.mark.parametrize("path", ["../x", "/x", "", "a/../../x", "..x"])
def test_paths_of_volume_items(path: str) -> None:
    volume = {"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": path}]}}
    with pytest.raises(StartError, match="invalid path"):
        volumes.plan([volume], lambda kind, name: {"data": {"a": "1"}}, {})


def test_projected_volume_the_last_source_wins() -> None:
    own = {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}, {"configMap": {"name": "none", "optional": True}},
                       {"serviceAccountToken": {"path": "t", "audience": "x"}}]}  # fmt: skip
    objects = {"c": {"data": {"a": "1", "b": "2"}}, "s": {"data": {"a": base64.b64encode(b"3").decode()}}}
    facts = {"token": lambda audience, seconds: f"{audience}.{seconds}", "pod": {}}
    (planned,) = volumes.plan([{"name": "v", "projected": own}], lambda kind, name: objects.get(name), facts)
    texts = {path: base64.b64decode(entry[0]) for path, entry in planned["files"].items()}
    assert texts == {"a": b"3", "b": b"2", "t": b"x.3600"}
    assert planned["files"]["t"][1] == 0o600


def test_log_entries_rotate_and_are_read_back(tmp_path: Path) -> None:
    log = logfile.LogFile(str(tmp_path / "0.log"), limit=400)
    log.write("stdout", b"one\ntw")
    log.write("stderr", b"err\n")
    log.write("stdout", b"o\n")
    for number in range(20):
        log.write("stdout", f"line {number}\n".encode())
    log.write("stdout", b"unfinished")
    log.close()
    assert (tmp_path / "0.log").stat().st_size <= 400 and (tmp_path / "0.log.1").exists()

    async def text(**options: Any) -> bytes:
        return b"".join([data async for data in logs.read(str(tmp_path), **options)])

    whole = asyncio.run(text())
    assert whole.endswith(b"line 18\nline 19\nunfinished")
    assert asyncio.run(text(tail=2)) == b"line 19\nunfinished"
    assert asyncio.run(text(tail=0)) == b""
    with pytest.raises(KrunError, match="no log of a previous start"):
        logs.read(str(tmp_path), previous=True)
    assert logfile.tail(str(tmp_path / "0.log"), 2, 100) == "line 19\nunfinished"


def test_the_log_of_the_start_before_is_there_at_each_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker.__new__(Worker)
    worker.directory = str(tmp_path)
    directory = str(tmp_path / "logs/one/main")
    for number in range(2):
        log = worker.open_log("one", "main", number)
        log.write("stdout", b"%d\n" % number)
        log.close()
    seen = []

    def unlink(path: str) -> None:
        seen.extend(logs.files(directory, previous=True))
        os.remove(path)

    monkeypatch.setattr(os, "unlink", unlink)
    worker.open_log("one", "main", 2).close()
    assert seen == [f"{directory}/1.log"] and os.listdir(directory) != []
    assert not os.path.exists(f"{directory}/0.log")


def test_a_long_line_is_partial_entries(tmp_path: Path) -> None:
    log = logfile.LogFile(str(tmp_path / "0.log"))
    log.write("stdout", b"x" * 40000 + b"\nend\n")
    log.close()
    raw = (tmp_path / "0.log").read_bytes().splitlines()
    assert [line.split(b" ")[2] for line in raw] == [b"P", b"P", b"F", b"F"]
    assert (
        b"".join(entry[2] for entry in logfile.entries((tmp_path / "0.log").read_bytes()))
        == b"x" * 40000 + b"\nend\n"
    )


def test_host_servers_are_never_loopback(tmp_path: Path) -> None:
    assert not [server for server in etcfiles.host_servers() if server.startswith(("127.", "::1"))]
    files = etcfiles.write(str(tmp_path), "name", "10.1.2.3", ["ns.local"], ["10.0.0.1"])
    assert Path(files["/etc/resolv.conf"]).read_text().startswith("search ns.local\nnameserver 10.0.0.1\n")
    assert "10.1.2.3\tname\n" in Path(files["/etc/hosts"]).read_text()
    assert Path(files["/etc/resolv.conf"]).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
def test_wire(size: int) -> None:
    """A message of any length, with descriptors beside it."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with left, right, open("/dev/null") as null:
        wire.send(left, {"text": "x" * size}, [null.fileno()])
        received = wire.receive(right)
        assert received is not None
        message, fds = received
        assert len(message["text"]) == size and len(fds) == 1
        assert os.fstat(fds[0]).st_rdev == os.fstat(null.fileno()).st_rdev
        os.close(fds[0])
        left.close()
        assert wire.receive(right) is None


# --------------------------------------------------------------------------------------------------------- images


def test_layout(tmp_path: Path) -> None:
    digest = make_layout(
        tmp_path,
        [b"one", b"two"],
        {"Entrypoint": ["/x"], "Cmd": None, "ExposedPorts": {"80/tcp": {}, "53/udp": {}}},
    )
    found = layout.read(str(tmp_path), "", "", "image")
    assert found.digest == digest and found.config.entrypoint == ["/x"] and found.config.ports == [80]
    assert found.layers == [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in (b"one", b"two")]
    assert layout.read(str(tmp_path), "any", digest, "image") == found


def test_the_sole_image_of_a_layout_whose_file_name_has_the_tag(tmp_path: Path) -> None:
    """`krun deploy DIR` links DIR as NAME:TIME, while the tool that made the layout called its image latest."""
    made = tmp_path / "dev.local/hello:20261122"
    digest = make_layout(made, [], {"Cmd": ["/a"]})
    index = json.loads((made / "index.json").read_text())
    index["manifests"][0]["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (made / "index.json").write_text(json.dumps(index))
    images = Store(str(tmp_path / "store"), [str(tmp_path)], podman=["false"])
    assert images.resolve("dev.local/hello:20261122").digest == digest
    # A name without the tag says nothing about the one that is asked for.
    os.rename(made, tmp_path / "dev.local/hello")
    with pytest.raises(StartError, match="no manifest for 20261122"):
        images.resolve("dev.local/hello:20261122")


def test_podman_that_is_installed_while_the_server_runs_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    images = Store(str(tmp_path / "store"), [])
    with pytest.raises(StartError, match="it is not in any source"):
        images.resolve("localhost/hello")
    (tmp_path / "podman").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "podman").chmod(0o755)
    with pytest.raises(StartError, match='Unable to fetch image "localhost/hello"'):
        images.resolve("localhost/hello")
    assert images.podman.command == [str(tmp_path / "podman")]


@pytest.mark.parametrize("name", ["dir:tmp", "oci:tmp", "oci-archive:a.tar", "docker-daemon:x", "sif:x"])
def test_a_name_that_podman_would_take_for_a_path_of_the_host(tmp_path: Path, name: str) -> None:
    script = tmp_path / "podman"
    script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexit 1\n')
    script.chmod(0o755)
    with pytest.raises(StartError, match="Unable to fetch image"):
        Store(str(tmp_path / "store"), [], podman=[str(script)]).resolve(name)
    assert not (tmp_path / "asked").exists()


def test_layout_refuses_what_its_digest_does_not_say(tmp_path: Path) -> None:
    digest = make_layout(tmp_path, [b"one"], {})
    path = tmp_path / "blobs/sha256" / digest[7:]
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(StartError, match="is not what its digest says"):
        layout.read(str(tmp_path), "", "", "image")


@pytest.mark.parametrize(
    "digest",
    ["sha256:../../../etc/passwd", "sha256:" + "A" * 64, "md5:x", None, 7, "sha256:" + "a" * 64 + "/.."],
)
def test_layout_refuses_digests_that_are_paths(tmp_path: Path, digest: Any) -> None:
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [{"digest": digest}]}))
    with pytest.raises(StartError, match="malformed or unsupported digest"):
        layout.read(str(tmp_path), "", "", "image")


def test_layout_of_another_machine(tmp_path: Path) -> None:
    make_layout(tmp_path, [], {}, architecture="arm64")
    with pytest.raises(StartError, match="linux/arm64, this machine is linux/amd64"):
        layout.read(str(tmp_path), "", "", "image")


@pytest.mark.parametrize(
    "own",
    [[], "x", {"Env": "x"}, {"Env": [1]}, {"Entrypoint": {}}, {"User": 7}, {"Cmd": ["a\0b"]}, {"Labels": []}],
)
def test_malformed_config_of_an_image(own: Any) -> None:
    with pytest.raises(StartError) as caught:
        config.of(own, "image")
    assert caught.value.reason == "ErrImagePull"


def test_archive_of_docker_save(tmp_path: Path) -> None:
    """The layout of `docker save` before version 25: manifest.json, no index; a layer that stands twice is a link."""
    own = json.dumps({"os": "linux", "architecture": "amd64", "config": {"Cmd": ["/a"]}}).encode()
    archive = tmp_path / "image.tar"
    with tarfile.open(archive, "w") as file:

        def add(name: str, data: bytes) -> None:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))

        add("one/layer.tar", b"layer")
        link = tarfile.TarInfo("two/layer.tar")
        link.type, link.linkname = tarfile.SYMTYPE, "../one/layer.tar"
        file.addfile(link)
        add("config.json", own)
        add(
            "manifest.json",
            json.dumps([{"Config": "config.json", "Layers": ["one/layer.tar", "two/layer.tar"]}]).encode(),
        )
        add("../../escape.json", b"{}")
    layout.unpack_archive(str(archive), str(tmp_path / "out"), "image", 1 << 20)
    found = layout.read(str(tmp_path / "out"), "", "", "image")
    assert found.config.command == ["/a"] and len(found.layers) == 2 and found.layers[0] == found.layers[1]
    assert not (tmp_path / "escape.json").exists()


@pytest.mark.parametrize("data", [b"", b"not a tar", b"\x1f\x8b broken"])
def test_broken_archive(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.tar").write_bytes(data)
    with pytest.raises(StartError, match="cannot read the archive|no index.json"):
        layout.unpack_archive(str(tmp_path / "x.tar"), str(tmp_path / "out"), "image", 1 << 20)


# --------------------------------------------------------------------------------------------------------- probes


class _Fake:
    """An instance whose port is a socket of this process: answers is what the program says to each connection."""

    def __init__(self, answers: list[bytes | None]) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.answers = answers
        self.asked: list[bytes] = []
        self.statuses = [0]
        self.silent: list[socket.socket] = []

    def connect(self, port: int) -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(self.listener.getsockname() if self.answers else ("127.0.0.1", 1))
        return sock

    async def exec(self, container: str, argv: list[str], timeout: float) -> int:
        return self.statuses.pop(0)

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        while self.answers:
            sock, _ = await loop.sock_accept(self.listener)
            answer = self.answers.pop(0)
            if answer is None:
                self.silent.append(sock)
            else:
                self.asked.append(await loop.sock_recv(sock, 4096))
                await loop.sock_sendall(sock, answer)
                sock.close()


async def _once(answers: list[bytes | None], probe: dict[str, Any], fake: _Fake | None = None) -> str:
    fake = fake or _Fake(answers)
    serving = asyncio.ensure_future(fake.serve())
    prober = Prober(fake, probe, "readiness", lambda good, message: None)
    try:
        return "ok" if await prober._try(0.3) else prober.message
    finally:
        serving.cancel()
        fake.listener.close()


@pytest.mark.parametrize(
    "answer, expected",
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", "ok"),
        (b"HTTP/1.0 302 Found\r\n\r\n", "ok"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "HTTP probe failed with statuscode: 404"),
        (b"HTTP/1.1 500 x\r\n\r\n", "HTTP probe failed with statuscode: 500"),
        (b"SSH-2.0-x\r\n", "HTTP probe failed with a malformed answer: b'SSH-2.0-x'"),
        (b"", "HTTP probe failed with a malformed answer: b''"),
        (None, "readiness probe: no answer within 0.3 s"),
        (b"HTTP/1.1 " + b"9" * 5000 + b" x\r\n", "HTTP probe failed with a malformed answer: b'HTTP/1.1'"),
    ],
)
def test_http_probe(answer: bytes | None, expected: str) -> None:
    assert asyncio.run(_once([answer], {"httpGet": {"path": "/x"}})) == expected


def test_probes_of_the_other_kinds() -> None:
    assert asyncio.run(_once([None], {"tcpSocket": {"port": 0}})) == "ok"
    assert asyncio.run(_once([None], {})) == "ok"
    assert "connection refused" in asyncio.run(_once([], {"tcpSocket": {"port": 0}}))
    fake = _Fake([None])
    fake.statuses = [3]
    assert (
        asyncio.run(_once([], {"exec": {"command": ["x"]}}, fake)) == "exec probe failed with exit status 3"
    )
    assert "no port named" in asyncio.run(_once([None], {"httpGet": {"port": "none"}}))
    # No try ends the prober: a program that was ready once would stay so, and one that hangs would not be restarted.
    fake.statuses = []
    assert "IndexError" in asyncio.run(_once([], {"exec": {"command": ["x"]}}, fake))


def test_thresholds() -> None:
    """A liveness probe reports each run of failureThreshold failures; readiness reports changes only."""

    async def run(kind: str, statuses: list[int]) -> list[bool]:
        fake = _Fake([None])
        fake.statuses = statuses
        seen: list[bool] = []
        probe = {
            "exec": {"command": ["x"]},
            "periodSeconds": 0.01,
            "failureThreshold": 2,
            "successThreshold": 1,
        }
        prober = Prober(fake, probe, kind, lambda good, message: seen.append(good))
        prober.start()
        for _ in range(200):
            await asyncio.sleep(0.01)
            if not fake.statuses:
                break
        prober.stop()
        fake.listener.close()
        return seen

    assert asyncio.run(run("readiness", [0, 1, 0, 1, 1, 1, 1, 0])) == [True, False, True]
    assert asyncio.run(run("liveness", [0, 1, 1, 1, 1, 0])) == [False, False, True]
    assert asyncio.run(run("startup", [1, 0])) == [True]


def test_errors_are_one_line() -> None:
    error = StartError("ContainerMissing", "two\nlines")
    assert isinstance(error, KrunError) and error.message == "two lines"


def test_seccomp_conditions() -> None:
    """Rules with conditions on capabilities, architectures and kernels hold or fall for one container."""
    allow = {"action": "SCMP_ACT_ALLOW", "args": None, "comment": "x"}
    source = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 38,
        "syscalls": [
            allow | {"names": ["read"], "includes": {}, "excludes": {}},
            allow | {"names": ["mount"], "includes": {"caps": ["CAP_SYS_ADMIN"]}},
            allow | {"names": ["clone"], "excludes": {"caps": ["CAP_SYS_ADMIN"]}},
            allow | {"names": ["arch_prctl"], "includes": {"arches": ["amd64"]}},
            allow | {"names": ["sync_file_range2"], "includes": {"arches": ["ppc64le"]}},
            allow | {"names": ["ptrace"], "includes": {"minKernel": "4.8"}},
            allow | {"names": ["later"], "includes": {"minKernel": "99.1"}},
        ],
    }

    def names(capabilities: set[str]) -> list[str]:
        found = seccomp.resolve(source, capabilities, "6.1.0-9-amd64")
        assert found["defaultErrnoRet"] == 38 and set(found["syscalls"][0]) == {"names", "action"}
        return [name for rule in found["syscalls"] for name in rule["names"]]

    assert names(set()) == ["read", "clone", "arch_prctl", "ptrace"]
    assert names({"CAP_SYS_ADMIN"}) == ["read", "mount", "arch_prctl", "ptrace"]


@pytest.mark.parametrize("kind", ["Localhost", "x"])
def test_seccomp_of_other_types(kind: str) -> None:
    with pytest.raises(StartError, match="use RuntimeDefault or Unconfined"):
        seccomp.profile({"type": kind}, [])
    assert seccomp.profile(None, []) is None and seccomp.profile({"type": "Unconfined"}, []) is None

"""Instances by a real runtime: runc first, then krun. A static server in C is the payload; no registry, no engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.images import Image, Registry, make_layout
from helpers.instances import ended, get, ready, run, runner, spec, until
from helpers.notify import build_linger

from krun.serve.run.errors import StartError
from krun.serve.run.spec import ContainerExit

pytestmark = [pytest.mark.root, pytest.mark.kvm, pytest.mark.usefixtures("as_root")]


def test_environment_user_and_files(directory: Path, runtime: str, images: Path) -> None:
    """What the contract says of the environment, the user, standard input, and the files."""

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            instance = await r.start(
                spec(
                    "one",
                    port=8801,
                    container={
                        "args": ["serve"],
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}],
                    },
                )
            )
            await ready(instance)
            env = dict(line.split("=", 1) for line in (await get(instance, "/env")).splitlines())
            assert (
                env["PORT"] == "8801"
                and env["K_SERVICE"] == "svc"
                and env["K_CONFIGURATION"] == "cfg"
                and env["K_REVISION"] == "rev"
            )
            assert (
                env["FROM_IMAGE"] == "yes"
                and env["A"] == "1"
                and env["B"] == "12"
                and env["HOSTNAME"] == "one"
            )
            assert await get(instance, "/uid") == "1000"
            assert await get(instance, "/stdin") == "eof"
            for path, want in {"/tmp": "d1777", "/var/log": "d1777", "/dev/log": "s0666", "/etc/hosts": "f0644",
                               "/etc/resolv.conf": "f0644", "/dev/termination-log": "f0666", "/dev/null": "c0666"}.items():  # fmt: skip
                assert await get(instance, f"/stat{path}") == want, path
            assert await get(instance, "/stat/dev/console") == "none"
            assert "localhost" in await get(instance, "/read/etc/hosts")
            assert (
                await get(instance, "/write/tmp/x") == "ok"
                and await get(instance, "/write/var/log/x") == "ok"
            )
            assert (await get(instance, "/write/proc/sys/kernel/hostname")).startswith("error")

    run(test)


def test_read_only_root_keeps_the_temporary_directory(directory: Path, runtime: str, images: Path) -> None:
    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            instance = await r.start(
                spec("ro", container={"securityContext": {"readOnlyRootFilesystem": True, "runAsUser": 0}})
            )
            await ready(instance)
            assert (
                await get(instance, "/write/x") == "error 30" and await get(instance, "/write/tmp/x") == "ok"
            )
            assert await get(instance, "/uid") == "0"

    run(test)


def test_stop_is_term_then_kill(directory: Path, runtime: str, images: Path) -> None:
    """SIGTERM first; a program that ignores it is killed at the end of its grace; its log outlives it."""

    async def test() -> None:
        exits: list[ContainerExit] = []
        async with runner(directory, runtime, images) as r:
            for id, args in (("polite", ["serve"]), ("stubborn", ["ignore-term"])):
                instance = await r.start(spec(id, container={"args": args}))
                instance.on_exit = lambda _, exit: exits.append(exit)
                await ready(instance)
                begin = time.monotonic()
                await instance.stop(1.0)
                assert (time.monotonic() - begin >= 1.0) == (id == "stubborn")
            assert [(exit.code, exit.signal) for exit in exits] == [(3, 0), (137, 9)]
            assert b"terminated\n" in b"".join([data async for data in r.logs("polite", "user-container")])

    run(test)


def test_restart_in_place(directory: Path, runtime: str, images: Path) -> None:
    """A container that ends is started again in the same network; its exit and last words are told."""

    async def test() -> None:
        exits: list[ContainerExit] = []
        async with runner(directory, runtime, images) as r:
            instance = await r.start(spec("crash", container={"args": ["fail"]}))
            instance.on_exit = lambda _, exit: exits.append(exit)
            await until(lambda: instance.restarts.get("user-container", 0) >= 2, "two restarts")
            assert exits[0].code == 7 and exits[0].reason == "ExitCode7" and exits[0].message == "X marks"
            first = b"".join([data async for data in instance.logs("user-container", previous=True)])
            assert first == b"X marks\n"

    run(test)


def test_termination_message(directory: Path, runtime: str, images: Path) -> None:
    async def test() -> None:
        exits: list[ContainerExit] = []
        async with runner(directory, runtime, images) as r:
            instance = await r.start(spec("word", container={"args": ["last-word"]}))
            instance.on_exit = lambda _, exit: exits.append(exit)
            await until(lambda: exits, "an exit")
            assert exits[0].message == "from the file" and exits[0].code == 9

    run(test)


def test_memory_limit(directory: Path, runtime: str, images: Path) -> None:
    """A program that takes more than its limit is killed, and the reason says so."""

    async def test() -> None:
        exits: list[ContainerExit] = []
        async with runner(directory, runtime, images) as r:
            instance = await r.start(
                spec("oom", container={"args": ["eat"], "resources": {"limits": {"memory": "32Mi"}}})
            )
            instance.on_exit = lambda _, exit: exits.append(exit)
            await until(lambda: exits, "an exit", 60)
            assert exits[0].reason == "OOMKilled" and exits[0].code == 137

    run(test)


def test_volumes(directory: Path, runtime: str, images: Path) -> None:
    """A ConfigMap is read-only, a single file by subPath, an emptyDir is writable and shared by the containers."""
    objects = {("ConfigMap", "c"): {"data": {"key": "value"}}}

    async def test() -> None:
        mounts = [{"name": "c", "mountPath": "/c"}, {"name": "c", "mountPath": "/one", "subPath": "key"}, {"name": "e", "mountPath": "/e"},
                  {"name": "e", "mountPath": "/sub", "subPath": "a/b"}]  # fmt: skip
        own = {"name": "user-container", "image": "dev.local/payload", "volumeMounts": mounts}
        side = {
            "name": "side",
            "image": "dev.local/payload",
            "volumeMounts": mounts[2:3],
            "env": [{"name": "PORT", "value": "9000"}],
        }
        volumes = [
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "e", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        ]
        async with runner(directory, runtime, images) as r:
            instance = await r.start(
                spec(
                    "vol",
                    containers=[own, side],
                    volumes=volumes,
                    lookup=lambda kind, name: objects.get((kind, name)),
                )
            )
            await ready(instance)
            assert (
                await get(instance, "/read/c/key") == "value" and await get(instance, "/read/one") == "value"
            )
            assert await get(instance, "/write/c/x") == "error 30"
            assert await get(instance, "/write/e/x") == "ok" and await get(instance, "/write/sub/y") == "ok"
            assert await get(instance, "/stat/e/a/b/y") == "f0644"
            await ready(instance, {"tcpSocket": {"port": 9000}})  # the other container, in the same network
            objects[("ConfigMap", "c")] = {"data": {"key": "new"}}
            await instance.publish("c")
            assert await get(instance, "/read/c/key") == "new"

    run(test)


def test_a_subpath_does_not_follow_the_payloads_symlink(
    directory: Path, runtime: str, images: Path, tmp_path: Path
) -> None:
    """CVE-2017-1002101: a container plants a symlink in an emptyDir; the next one mounts that path."""
    canary = tmp_path / "canary"
    canary.write_text("secret")

    async def test() -> None:
        own = {
            "name": "user-container",
            "image": "dev.local/payload",
            "volumeMounts": [{"name": "e", "mountPath": "/e"}],
        }
        async with runner(directory, runtime, images) as r:
            instance = await r.start(spec("link", containers=[own], volumes=[{"name": "e", "emptyDir": {}}]))
            await ready(instance)
            assert await get(instance, f"/symlink/e/out={tmp_path}") == "ok"
            second = {"name": "second", "image": "dev.local/payload", "env": [{"name": "PORT", "value": "9001"}],
                      "volumeMounts": [{"name": "e", "mountPath": "/e", "subPath": "out"}]}  # fmt: skip
            instance._prepared["second"] = second | {"platformEnv": {}}
            with pytest.raises(StartError):
                await instance.start_container("second")

    run(test)
    assert canary.read_text() == "secret"


@pytest.mark.parametrize(
    "container, reason, message",
    [
        (
            {"image": "dev.local/none"},
            "ContainerMissing",
            'Unable to fetch image "dev.local/none": MANIFEST_UNKNOWN',
        ),
        ({"image": "dev.local/x:y:z"}, "InvalidImageName", "could not parse reference"),
        ({"command": ["/none"]}, "CreateContainerError", "no such file or directory"),
        (
            {"securityContext": {"runAsNonRoot": True, "runAsUser": 0}},
            "CreateContainerConfigError",
            "runAsNonRoot",
        ),
        (
            {"volumeMounts": [{"name": "none", "mountPath": "/x"}]},
            "CreateContainerConfigError",
            "there is no such volume",
        ),
        ({"resources": {"limits": {"memory": "much"}}}, "CreateContainerConfigError", "is no quantity"),
    ],
)
def test_starts_that_fail(
    directory: Path, runtime: str, images: Path, container: dict[str, Any], reason: str, message: str
) -> None:
    """The reason is a word for the condition, and nothing is left."""

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            with pytest.raises(StartError, match=message) as caught:
                await r.start(spec("fails", container=container))
            assert caught.value.reason == reason
            assert r.instances == {} and os.listdir(directory / "instances") == []

    run(test)


def test_instances_outlive_the_server(directory: Path, runtime: str, images: Path) -> None:
    """The server goes without a word; the next one finds the instance, its exit code and its log."""

    async def test() -> None:
        async with runner(directory, runtime, images, keep=True) as r:
            instance = await r.start(spec("stays"))
            await ready(instance)
            dies = await r.start(spec("dies", container={"args": ["serve"]}))
            await ready(dies)
            pid = dies.pids["user-container"]
        os.kill(pid, signal.SIGTERM)
        await asyncio.sleep(0.3)
        async with runner(directory, runtime, images) as r:
            found = {entry["id"]: entry for entry in r.found}  # type: ignore[attr-defined]
            assert (
                set(found) == {"stays", "dies"}
                and found["dies"]["containers"]["user-container"]["exit"]["code"] == 3
            )
            instance = await r.adopt(found["stays"], spec("stays"))
            assert await get(instance, "/uid") == "1000"
            await (await r.adopt(found["dies"], spec("dies"))).stop(0)

    run(test)


def test_a_dead_worker_takes_its_instances_with_it(directory: Path, runtime: str, images: Path) -> None:
    """SIGKILL of the worker: the server hears of it, and the next worker takes down what was left."""

    async def test() -> None:
        exits: list[ContainerExit] = []
        lost = asyncio.Event()
        async with runner(directory, runtime, images, keep=True) as r:
            instance = await r.start(spec("orphan"))
            await ready(instance)
            instance.on_exit = lambda _, exit: exits.append(exit)
            r.on_lost = lost.set
            pid = instance.pids["user-container"]
            answer, _ = await r.worker.call("hello")
            os.kill(answer["pid"], signal.SIGKILL)
            await asyncio.wait_for(lost.wait(), 10)
            assert exits and instance.state == "exited"
        async with runner(directory, runtime, images) as r:
            assert r.found == []  # type: ignore[attr-defined]
            await until(lambda: ended(pid), "the orphan's end")

    run(test)


def test_many_at_once(directory: Path, runtime: str, images: Path) -> None:
    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            instances = await asyncio.gather(*(r.start(spec(f"many-{number}")) for number in range(12)))
            await asyncio.gather(*(ready(instance) for instance in instances))
            assert [await get(instance, "/uid") for instance in instances] == ["1000"] * 12
            await asyncio.gather(*(instance.stop(5) for instance in instances))

    run(test)


def test_layers(directory: Path, runtime: str, images: Path, tmp_path: Path) -> None:
    """An OCI archive of two layers: a whiteout hides a file of the lower one, a symlink to / leads into the image only."""

    def layer(name: str, add: Callable[[tarfile.TarFile], None]) -> bytes:
        with tarfile.open(tmp_path / name, "w") as file:
            add(file)
        return (tmp_path / name).read_bytes()

    def entry(file: tarfile.TarFile, name: str, **fields: Any) -> None:
        info = tarfile.TarInfo(name)
        for key, value in fields.items():
            setattr(info, key, value)
        file.addfile(info)

    def lower(file: tarfile.TarFile) -> None:
        file.add(images / "dev.local/payload/rootfs/payload", "payload")
        entry(file, "gone")
        entry(file, "dir", type=tarfile.DIRTYPE, mode=0o750, uid=5)
        entry(file, "dir/old")
        entry(file, "out", type=tarfile.SYMTYPE, linkname=str(tmp_path))
        entry(file, "out/planted")  # through the symlink: it must stay below the layer's root
        entry(file, "../../up")

    def upper(file: tarfile.TarFile) -> None:
        entry(file, ".wh.gone")
        entry(file, "dir/.wh..wh..opq")
        entry(file, "dir/new")

    store = images / "reg.example/layered"
    make_layout(store, [layer("lower", lower), layer("upper", upper)], {"Entrypoint": ["/payload"]})

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            instance = await r.start(spec("layers", container={"image": "reg.example/layered:latest"}))
            await ready(instance)
            assert await get(instance, "/stat/gone") == "none"
            assert (
                await get(instance, "/stat/dir/old") == "none"
                and await get(instance, "/stat/dir/new") == "f0644"
            )
            assert await get(instance, "/stat/up") == "f0644"

    run(test)
    assert not (tmp_path / "planted").exists()


def test_seccomp_profile(directory: Path, runtime: str, images: Path) -> None:
    """RuntimeDefault: the program runs under a filter (proc_pid_status(5), Seccomp: 2)."""

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            context = {"seccompProfile": {"type": "RuntimeDefault"}}
            instance = await r.start(spec("filtered", container={"securityContext": context}))
            await ready(instance)
            assert "Seccomp:\t2" in await get(instance, "/read/proc/self/status")
            with pytest.raises(StartError, match="Localhost is not supported"):
                await r.start(
                    spec("local", container={"securityContext": {"seccompProfile": {"type": "Localhost"}}})
                )

    run(test)


def test_a_fork_bomb_and_a_flood_of_output_stay_their_own(
    directory: Path, runtime: str, images: Path
) -> None:
    """A bomb meets its limit of processes, a flood its log's; another instance answers meanwhile, and all end at once."""

    async def test() -> None:
        async with runner(directory, runtime, images, pidsLimit=24) as r:
            bomb = await r.start(spec("bomb", container={"args": ["bomb"]}))
            flood = await r.start(spec("flood", container={"args": ["flood"]}))
            other = await r.start(spec("other"))
            await ready(other)
            log = directory / "logs/bomb/user-container/0.log"
            await until(lambda: b"no more" in log.read_bytes(), "the limit")
            logs = directory / "logs/flood/user-container"
            await until(lambda: (logs / "0.log.1").exists(), "the rotation")
            size = 0
            for file in logs.iterdir():
                with contextlib.suppress(FileNotFoundError):  # 0.log.new, while it gets its name
                    size += file.stat().st_size
            assert size <= 2 * (10 << 20)
            assert await get(other, "/uid") == "1000"
            for instance in (bomb, flood):
                await instance.stop(0)

    run(test)


def test_files_of_the_platform_count_as_local_storage(directory: Path, runtime: str, images: Path) -> None:
    """What a payload writes into /etc/hosts or its termination log lies on the host's disk, and no limit saw it."""

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            instance = await r.start(spec("one"))
            await ready(instance)
            (pid,) = instance.pids.values()
            before = await r.usage("one")
            for name in ("etc/hosts", "dev/termination-log"):
                with open(f"/proc/{pid}/root/{name}", "ab") as file:
                    file.write(bytes(1 << 20))
            after = await r.usage("one")
            for found in (before, after):
                found["container"] = sum(found["containers"].values())
            assert after["files"] - before["files"] >= 1 << 20
            assert after["container"] - before["container"] >= 1 << 20
            await instance.stop(0)

    run(test)


def test_a_socket_in_dev_log_whose_close_waits_for_hours(directory: Path, runtime: str, images: Path) -> None:
    """Descriptors that come with a message are closed by who reads it. The worker did: then no instance could be started or ended."""
    build_linger(images / "dev.local/payload/rootfs/linger")

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            hostile = await r.start(spec("hostile", container={"command": ["/linger", "/dev/log", "1000"]}))
            log = directory / "logs/hostile/user-container/0.log"
            await until(lambda: b"chatter" in log.read_bytes(), "the first message")
            for number in range(3):
                other = await r.start(spec(f"other-{number}"))
                await ready(other)
                await other.stop(0)
            await hostile.stop(0)

    run(test)


def test_an_image_of_podmans_storage(directory: Path, runtime: str, images: Path, tmp_path: Path) -> None:
    """An image that podman has, and one that it pulls from a registry; both are unmounted when the worker ends."""
    run_root = tempfile.mkdtemp(prefix="krun-p")  # podman takes at most 50 characters
    podman = ["podman", "--root", str(tmp_path / "p"), "--runroot", run_root, "--storage-driver", "vfs"]
    root = images / "dev.local/payload/rootfs"
    archive = tmp_path / "root.tar"
    subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
    argv = [
        *podman,
        "import",
        "--change",
        "USER 77",
        "--change",
        'ENTRYPOINT ["/payload"]',
        str(archive),
        "reg.example/stored:v1",
    ]
    subprocess.run(argv, check=True, capture_output=True)
    registry = Registry({"team/pulled:v1": Image("pulled", root, {"Entrypoint": ["/payload"]})}, os.getpid())
    conf = tmp_path / "registries.conf"
    conf.write_text(f'[[registry]]\nlocation = "127.0.0.1:{registry.port}"\ninsecure = true\n')
    command = ["env", f"CONTAINERS_REGISTRIES_CONF={conf}", *podman]

    async def test() -> None:
        async with runner(directory, runtime, images, pull=True, podman=command) as r:
            stored = await r.start(spec("stored", container={"image": "reg.example/stored:v1"}))
            await ready(stored)
            assert await get(stored, "/uid") == "77" and stored.digests["user-container"].startswith(
                "sha256:"
            )
            name = f"127.0.0.1:{registry.port}/team/pulled:v1"
            pulled = await r.start(spec("pulled", container={"image": name}))
            await ready(pulled)
            with pytest.raises(StartError, match="Unable to fetch image") as caught:
                await r.start(spec("none", container={"image": name.replace("pulled", "none")}))
            assert caught.value.reason == "ContainerMissing"
            old = {"least_age": 0.0, "most_age": 1e-6, "high": 100, "low": 100}
            assert (await r.collect_images([], old))["removed"] == []  # in use
            for instance in (stored, pulled):
                await instance.stop(0)
            assert (await r.collect_images([name], old))["removed"] == []  # a revision names it
            told = (await r.collect_images([], old))["removed"]
            assert [(entry[0], entry[2]) for entry in told] == [(name, "age")] and told[0][1] > 0
            listed = subprocess.run(
                [*podman, "images", "--format", "{{.Repository}}"], check=True, capture_output=True, text=True
            )
            assert listed.stdout.split() == ["reg.example/stored"]

    try:
        run(test)
        left = subprocess.run([*podman, "image", "mount"], check=True, capture_output=True, text=True)
        assert left.stdout.strip() == ""
    finally:
        registry.close()
        subprocess.run([*podman, "rmi", "--all", "--force"], capture_output=True)
        shutil.rmtree(run_root, ignore_errors=True)

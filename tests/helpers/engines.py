"""Container engines with everything of their own: data, state, sockets, configuration; nothing of the host's is touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

from helpers.runtime import Result, find, wait_for

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}

#: On a machine without CAP_SYS_RESOURCE the engines' default limits cannot be set, with any runtime.
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")


def command(
    argv: list[str],
    *,
    input: str | None = None,
    timeout: float = 120,
    environment: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> Result:
    stdin: Any = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        errors="replace",
        env=environment or ENVIRONMENT,
        timeout=timeout,
        cwd=cwd,
        **stdin,
    )
    return Result(argv, done.returncode, done.stdout, done.stderr)


def tar_of(root: Path, tar: Path) -> Path:
    subprocess.run(["tar", "-C", str(root), "--numeric-owner", "-cf", str(tar), "."], check=True)
    return tar


class Daemon:
    """A daemon in the background; ended by its pid."""

    def __init__(self, argv: list[str], log: Path, environment: dict[str, str]) -> None:
        self.log = log
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )

    def until(self, ready: Any, what: str) -> None:
        def check() -> Any:
            if self.process.poll() is not None:
                raise AssertionError(f"{what} ended: {self.log.read_text(errors='replace')[-3000:]}")
            return ready()

        try:
            wait_for(check, f"{what} is not ready", 60)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.log.read_text(errors='replace')[-3000:]}") from None

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Podman:
    """podman with its own storage; the runtime by absolute path."""

    kind = "podman"
    INFRA = "localhost/infra:test"

    def __init__(self, work: Path, manager: str = "cgroupfs") -> None:
        self.work = work
        self.manager = manager
        find("podman")
        (work / "containers.conf").write_text(
            f'[engine]\nevents_logger = "file"\ncgroup_manager = "{manager}"\n'
            # What holds a pod: the engine's own is built from a package that may not be there.
            f'infra_image = "{self.INFRA}"\n'
            f'tmp_dir = "{work}/tmp"\nstatic_dir = "{work}/static"\nvolume_path = "{work}/volumes"\n'
            # For containers that take no --ulimit: those that hold pods, and those of play kube.
            '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
        )
        (work / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}\n')
        (work / "registries.conf").write_text(
            'unqualified-search-registries = []\nshort-name-mode = "disabled"\n'
        )
        self.environment = {
            **ENVIRONMENT,
            "CONTAINERS_CONF": f"{work}/containers.conf",
            "CONTAINERS_REGISTRIES_CONF": f"{work}/registries.conf",
        }

    def argv(self, runtime: str, *args: str) -> list[str]:
        folders = [
            "--root",
            f"{self.work}/root",
            "--runroot",
            f"{self.work}/run",
            "--tmpdir",
            f"{self.work}/tmp",
        ]
        return ["podman", *folders, "--cgroup-manager", self.manager, "--runtime", str(find(runtime)), *args]

    def run_options(self, runtime: str) -> list[str]:
        """What `run` and `create` need besides."""
        return []

    def call(self, runtime: str, *args: str, input: str | None = None, timeout: float = 120) -> Result:
        return command(self.argv(runtime, *args), input=input, timeout=timeout, environment=self.environment)

    def load(self, root: Path, image: str) -> None:
        tar = tar_of(root, self.work / "image.tar")
        self.call("runc", "import", "--change", "CMD=/bin/sh", str(tar), image).ok()
        entry = 'ENTRYPOINT ["/bin/sleep", "100000"]'
        self.call("runc", "import", "--change", entry, str(tar), self.INFRA).ok()
        tar.unlink()

    def close(self) -> None:
        self.call("runc", "pod", "rm", "--all", "--force")
        self.call("runc", "rm", "--all", "--force", "--time", "0")
        subprocess.run(["umount", "-l", f"{self.work}/root/overlay"], stderr=subprocess.DEVNULL, check=False)


class Docker:
    """A private dockerd (with the containerd that it starts), both runtimes registered by absolute path.

    settings: more of daemon.json, or other values than those here; before: shell commands that the daemon begins with, in
    mount and network namespaces of its own.
    """

    kind = "docker"

    def __init__(self, work: Path, settings: dict[str, Any] | None = None, before: str = "") -> None:
        self.work = work
        self.before = before
        # A remapped root must be able to pass.
        work.chmod(0o711)
        self.socket = work / "docker.sock"
        self.environment = {
            **ENVIRONMENT,
            "DOCKER_HOST": f"unix://{self.socket}",
            "DOCKER_CONFIG": f"{work}/client",
        }
        find("dockerd")
        config = {
            "data-root": f"{work}/data",
            "exec-root": f"{work}/exec",
            "pidfile": f"{work}/docker.pid",
            "hosts": [f"unix://{self.socket}"],
            "iptables": False,
            "ip6tables": False,
            "bridge": "none",
            "ip-masq": False,
            "ip-forward": False,
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            **(settings or {}),
        }
        (work / "daemon.json").write_text(json.dumps(config))
        if "krun" in runtimes():
            # As an administrator does it.
            words = ["install", "docker", "--file", f"{work}/daemon.json", "--path", str(find("krun"))]
            command([str(find("krun")), *words]).ok()
        self.start()

    def start(self) -> None:
        self.daemon = Daemon(self.daemon_argv(), self.work / "dockerd.log", ENVIRONMENT)
        self.daemon.until(lambda: self.call("runc", "info").status == 0, "dockerd")

    def daemon_argv(self) -> list[str]:
        argv = ["dockerd", "--config-file", f"{self.work}/daemon.json"]
        if not self.before:
            return argv
        return ["unshare", "--mount", "--net", "sh", "-c", f'set -e; {self.before}; exec "$@"', "sh", *argv]

    def argv(self, runtime: str, *args: str) -> list[str]:
        return ["docker", "--host", f"unix://{self.socket}", *args]

    def run_options(self, runtime: str) -> list[str]:
        """What `run` and `create` need besides."""
        return ["--runtime", runtime]

    def call(self, runtime: str, *args: str, input: str | None = None, timeout: float = 120) -> Result:
        return command(self.argv(runtime, *args), input=input, timeout=timeout, environment=self.environment)

    def load(self, root: Path, image: str) -> None:
        tar = tar_of(root, self.work / "image.tar")
        self.call("runc", "import", "--change", 'CMD ["/bin/sh"]', str(tar), image).ok()
        tar.unlink()

    def close(self) -> None:
        for id in self.call("runc", "ps", "-aq").out.split():
            self.call("runc", "rm", "--force", id)
        self.daemon.stop()


ENGINES: dict[str, Any] = {"podman": Podman, "docker": Docker}


class Containerd:
    """A private containerd; containers by `ctr run --rootfs`."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.address = f"{work}/containerd.sock"
        find("containerd")
        (work / "config.toml").write_text(
            f'version = 2\nroot = "{work}/root"\nstate = "{work}/state"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
            f'[grpc]\naddress = "{self.address}"\n[ttrpc]\naddress = "{self.address}.ttrpc"\n'
        )
        argv = ["containerd", "--config", f"{work}/config.toml"]
        self.daemon = Daemon(argv, work / "containerd.log", ENVIRONMENT)
        self.daemon.until(lambda: self.call("version").status == 0, "containerd")

    def call(self, *args: str, input: str | None = None, timeout: float = 120) -> Result:
        return command(["ctr", "--address", self.address, *args], input=input, timeout=timeout)

    def close(self) -> None:
        for task in self.call("task", "ls", "-q").out.split():
            self.call("task", "rm", "--force", task)
        for container in self.call("container", "ls", "-q").out.split():
            self.call("container", "rm", container)
        self.daemon.stop()


def runtimes() -> list[str]:
    return os.environ.get("KRUN_TEST_RUNTIMES", "runc,krun").split(",")


def short_directory(name: str) -> Path:
    """A directory with a short path: sockets have at most 107 bytes."""
    path = Path(f"/tmp/krun-{name}-{os.getpid()}")
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700)
    return path


def remove(path: Path) -> None:
    """Take away a work directory with what is still mounted under it (lazily) and the shims still running from it."""
    for _ in range(50):
        pids = [p for p in os.listdir("/proc") if p.isdigit() and _command(p).find(str(path)) >= 0]
        if not pids:
            break
        time.sleep(0.1)
    for pid in pids:
        os.kill(int(pid), signal.SIGKILL)
    with open("/proc/self/mountinfo") as f:
        points = [line.split()[4] for line in f if line.split()[4].startswith(f"{path}/")]
    for point in reversed(points):
        subprocess.run(["umount", "-l", point], check=False)
    shutil.rmtree(path, ignore_errors=True)


def _command(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_text(errors="replace")
    except OSError:
        return ""


class Session:
    """A command on a terminal of ours, with a size that can change, as a person's."""

    def __init__(self, argv: list[str], rows: int = 24, columns: int = 80) -> None:
        self.master, slave = os.openpty()
        self.text = ""
        termios.tcsetwinsize(self.master, (rows, columns))
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=ENVIRONMENT, start_new_session=True
        )
        os.close(slave)

    def type(self, line: str) -> None:
        os.write(self.master, f"{line}\n".encode())

    def resize(self, rows: int, columns: int) -> None:
        """As a terminal emulator does; the client is in no foreground group of the terminal, so it is told by pid."""
        termios.tcsetwinsize(self.master, (rows, columns))
        self.process.send_signal(signal.SIGWINCH)

    def until(self, words: str, seconds: float = 30) -> str:
        """Read until `words` have come."""
        os.set_blocking(self.master, False)

        def come() -> bool:
            try:
                self.text += os.read(self.master, 65536).decode(errors="replace")
            except OSError:  # nothing yet, or EIO: the other side is closed
                pass
            return words in self.text

        try:
            wait_for(come, f"{words!r} does not come", seconds)
        except AssertionError as e:
            raise AssertionError(f"{e}: {self.text!r}") from None
        return self.text

    def end(self) -> int:
        try:
            return self.process.wait(30)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            os.close(self.master)

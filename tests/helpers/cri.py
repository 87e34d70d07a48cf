"""A private containerd with its CRI plug-in, in network and ipc namespaces of its own; both runtimes are handlers of it.

krun is registered in its configuration by `krun install`, as on a node.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from helpers.bundle import make_busybox_root
from helpers.engines import ENVIRONMENT, Daemon, command, runtimes
from helpers.images import Image, Registry
from helpers.runtime import ROOT, Result, find, wait_for

PROGRAMS = ROOT / "tests" / "suites" / "cri_images"
TOOLS = ROOT / "build" / "cri" / "bin"
CNI = Path("/usr/lib/cni")
PAUSE, BUSYBOX = "localhost/pause:test", "localhost/busybox:test"

CONFIG = """version = 2
root = "{work}/root"
state = "{work}/state"
[grpc]
  address = "{work}/c.sock"
[ttrpc]
  address = "{work}/c.sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{work}/certs.d"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{work}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
"""


def compile_static(source: Path, program: Path) -> None:
    program.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-O2", "-static", "-o", str(program), str(source)], check=True)


class Cri:
    """The engine; `work` is an empty directory with a short path."""

    def __init__(self, work: Path) -> None:
        self.work = work
        for tool in ("containerd", "ip", "nsenter"):
            find(tool)
        assert CNI.is_dir(), f"{CNI} is missing: install the package containernetworking-plugins"
        (work / "config.toml").write_text(CONFIG.format(work=work, pause=PAUSE, cni=CNI, runc=find("runc")))
        if "krun" in runtimes():
            file = str(work / "config.toml")
            command(
                [str(find("krun")), "install", "containerd", "--file", file, "--path", str(find("krun"))]
            ).ok()
        self._network()
        # The bridge, the rules of portmap, the ports and the shared memory of critest are of these namespaces, and go with
        # them.
        script = 'ip link set lo up && exec containerd --config "$1"'
        argv = ["unshare", "--net", "--ipc", "sh", "-c", script, "sh", f"{work}/config.toml"]
        self.daemon = Daemon(argv, work / "containerd.log", ENVIRONMENT)
        self.pid = self.daemon.process.pid
        self.registry: Registry | None = None
        self.daemon.until(lambda: self.ctr("version").status == 0, "containerd")
        self._images()

    def _network(self) -> None:
        ipam = {
            "type": "host-local",
            "dataDir": f"{self.work}/ipam",
            "ranges": [[{"subnet": "10.188.77.0/24"}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        plugins = [
            {"type": "bridge", "bridge": "cri0", "isGateway": True, "ipam": ipam},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ]
        (self.work / "cni").mkdir()
        (self.work / "cni" / "10-test.conflist").write_text(
            json.dumps({"cniVersion": "0.4.0", "name": "test", "plugins": plugins})
        )

    def _images(self) -> None:
        roots = self.work / "images"
        compile_static(PROGRAMS / "pause.c", roots / "pause" / "pause")
        make_busybox_root(roots / "busybox")
        (roots / "busybox" / "var" / "run").mkdir()
        for name, root, config in (
            (PAUSE, roots / "pause", {"Entrypoint": ["/pause"]}),
            (BUSYBOX, roots / "busybox", {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]}),
        ):
            tar = Image(name, root, config).write(self.work / "image.tar")
            self.ctr("images", "import", str(tar)).ok()
            tar.unlink()
        wait_for(
            lambda: self.crictl("images", "-q").out.count("\n") == 2, "the images are not seen by the plug-in"
        )

    def serve(self, images: dict[str, Image]) -> None:
        """Let every image that is pulled, whatever its host, come from here: path and tag to image."""
        self.registry = Registry(images, self.pid)
        hosts = self.work / "certs.d" / "_default" / "hosts.toml"
        hosts.parent.mkdir(parents=True)
        url = f"http://127.0.0.1:{self.registry.port}"
        hosts.write_text(f'server = "{url}"\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n')

    def inside(self, *args: str) -> list[str]:
        """The argv of a command in the engine's network and ipc namespaces."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", f"--ipc=/proc/{self.pid}/ns/ipc", *args]

    def ctr(self, *args: str) -> Result:
        return command(["ctr", "--address", f"{self.work}/c.sock", "--namespace", "k8s.io", *args])

    def argv(self, *args: str) -> list[str]:
        endpoint = f"unix://{self.work}/c.sock"
        words = ["--config", f"{self.work}/no-crictl.yaml", "--timeout", "60s"]
        if not Path(words[1]).exists():
            Path(words[1]).write_text("timeout: 60\n")
        return self.inside(
            str(TOOLS / "crictl"), *words, "--runtime-endpoint", endpoint, "--image-endpoint", endpoint, *args
        )

    def crictl(self, *args: str, input: str | None = None, timeout: float = 120) -> Result:
        return command(self.argv(*args), input=input, timeout=timeout)

    def clean(self) -> None:
        """Take every pod away."""
        for pod in self.crictl("pods", "-q").out.split():
            self.crictl("stopp", pod)
            self.crictl("rmp", "--force", pod)

    def close(self) -> None:
        self.clean()
        if self.registry is not None:
            self.registry.close()
        self.daemon.stop()
        # The shims end with their last container, a moment after the engine.
        time.sleep(0.1)

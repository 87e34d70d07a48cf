"""A Kubernetes cluster of one node: etcd, API server, scheduler, controllers and kubelet of the real project, on a containerd of its own.

All of it runs in the engine's network namespace (helpers/cri.py), with its files in the engine's directory. Both runtimes are RuntimeClasses.
The programs are built by tests/suites/kubernetes.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from helpers.cri import Cri
from helpers.engines import ENVIRONMENT, Daemon, command, runtimes
from helpers.runtime import Result, cgroup_directories, cgroup_v2

SERVICES = "10.188.79.0/24"
#: The node's address, of a bridge of the namespace: kubelet takes none of the loopback.
ADDRESS = "10.188.78.1"
TOKEN = "token-of-the-test"
NODE = "node"
CGROUP = "kt-k8s"
KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
KUBELET: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "cgroupRoot": f"/{CGROUP}",
    "enforceNodeAllocatable": ["pods"],
    "failSwapOn": False,
    "makeIPTablesUtilChains": False,
    "resolvConf": "",
    "address": ADDRESS,
    "readOnlyPort": 0,
    "healthzPort": 0,
    "localStorageCapacityIsolation": True,
    "evictionHard": {"memory.available": "10Mi"},
    "imageGCHighThresholdPercent": 100,
    "serializeImagePulls": False,
    "syncFrequency": "5s",
}


class Node:
    """The cluster. `programs` is the directory of the programs."""

    def __init__(self, engine: Cri, programs: Path) -> None:
        self.engine, self.programs = engine, programs
        self.work = engine.work / "k8s"
        self.work.mkdir()
        self.daemons: list[Daemon] = []
        self.kubeconfig = self.work / "kubeconfig"
        #: For kubectl, which keeps a cache at home.
        self.environment = {**ENVIRONMENT, "HOME": str(self.work)}
        self.kubeconfig.write_text(KUBECONFIG.format(token=TOKEN))
        (self.work / "tokens.csv").write_text(f"{TOKEN},admin,admin,system:masters\n")
        key = self.work / "sa.key"
        command(["openssl", "genrsa", "-out", str(key), "2048"]).ok()
        for words in ("link add node0 type bridge", f"addr add {ADDRESS}/24 dev node0", "link set node0 up"):
            command(engine.inside("ip", *words.split())).ok()
        # Service addresses are routed to the node; nothing answers there but the API server's own, by a rule.
        command(engine.inside("ip", "route", "add", SERVICES, "dev", "node0")).ok()
        # kubelet makes the groups below its root, and wants the root to be there in every hierarchy.
        for hierarchy in Path("/sys/fs/cgroup").iterdir() if not cgroup_v2() else [Path("/sys/fs/cgroup")]:
            if not hierarchy.is_symlink():
                (hierarchy / CGROUP).mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (hierarchy / file).exists() and not cgroup_v2():
                    (hierarchy / CGROUP / file).write_text((hierarchy / file).read_text())
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def daemon(self, name: str, *words: str) -> Daemon:
        argv = self.engine.inside(str(self.programs / name), *words)
        daemon = Daemon(argv, self.work / f"{name}.log", {**ENVIRONMENT, "KUBECONFIG": str(self.kubeconfig)})
        self.daemons.append(daemon)
        return daemon

    def _start(self) -> None:
        etcd = "http://127.0.0.1:2379"
        self.daemon("etcd", "--data-dir", f"{self.work}/etcd", "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
                    "--listen-peer-urls", "http://127.0.0.1:2380", "--unsafe-no-fsync", "--log-level", "error")  # fmt: skip
        server = self.daemon(
            "kube-apiserver", "--etcd-servers", etcd, "--service-cluster-ip-range", SERVICES, "--cert-dir", f"{self.work}/certs",
            "--token-auth-file", f"{self.work}/tokens.csv", "--authorization-mode", "RBAC", "--bind-address", "127.0.0.1",
            "--advertise-address", ADDRESS, "--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file",
            f"{self.work}/sa.key", "--service-account-signing-key-file", f"{self.work}/sa.key", "--allow-privileged",
            "--kubelet-preferred-address-types", "InternalIP",
        )  # fmt: skip
        server.until(lambda: self.kubectl("get", "--raw", "/readyz").status == 0, "kube-apiserver")
        flags = ["--kubeconfig", str(self.kubeconfig), "--leader-elect=false"]
        self.daemon("kube-scheduler", *flags, "--secure-port=0")
        self.daemon("kube-controller-manager", *flags, "--secure-port=0", "--service-account-private-key-file",
                    f"{self.work}/sa.key", "--root-ca-file", f"{self.work}/certs/apiserver.crt")  # fmt: skip
        for name in runtimes():
            self.apply(
                {
                    "apiVersion": "node.k8s.io/v1",
                    "kind": "RuntimeClass",
                    "metadata": {"name": name},
                    "handler": name,
                }
            )
        config = self.work / "kubelet.json"
        endpoint = f"unix://{self.engine.work}/c.sock"
        config.write_text(json.dumps({**KUBELET, "containerRuntimeEndpoint": endpoint}))
        self.kubelet = self._kubelet()

    def _kubelet(self) -> Daemon:
        kubelet = self.daemon("kubelet", "--config", f"{self.work}/kubelet.json", "--kubeconfig", str(self.kubeconfig), "--root-dir",
                              f"{self.work}/kubelet", "--hostname-override", NODE, "--node-ip", ADDRESS, "--cert-dir",
                              f"{self.work}/kubelet-certs")  # fmt: skip
        kubelet.until(lambda: "True" in self.kubectl("get", "node", NODE, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}").out,
                      "kubelet")  # fmt: skip
        return kubelet

    def restart_kubelet(self) -> None:
        self.daemons.remove(self.kubelet)
        self.kubelet.stop()
        self.kubelet = self._kubelet()

    def kubectl(self, *words: str, **more: Any) -> Result:
        argv = self.engine.inside(
            str(self.programs / "kubectl"),
            "--kubeconfig",
            str(self.kubeconfig),
            "--request-timeout",
            "60s",
            *words,
        )
        return command(argv, environment=self.environment, **more)

    def apply(self, *documents: dict[str, Any]) -> None:
        for document in documents:
            self.kubectl("apply", "-f", "-", input=json.dumps(document)).ok()

    def close(self) -> None:
        """Ends the programs, then what they would have taken away. remove_cgroups follows, once the pods are gone."""
        for daemon in reversed(self.daemons):
            daemon.stop()
        self.engine.clean()
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            mount = line.split()[4]
            if mount.startswith(f"{self.work}/"):
                subprocess.run(["umount", "--lazy", mount], check=False)

    def remove_cgroups(self) -> None:
        for root in cgroup_directories(CGROUP):
            for directory, _, _ in os.walk(root, topdown=False):
                os.rmdir(directory)

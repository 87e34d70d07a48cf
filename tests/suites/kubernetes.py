"""A real Kubernetes node: each row of ROWS with runc and with krun as RuntimeClass, and the answers compared.

    kubernetes.py [--directory DIR] [--build-only] [ROW...]

The programs of Kubernetes VERSION and etcd ETCD come from the Go module proxy and are built into DIRECTORY once (6 minutes on 2 cores, 3 GB).
The cluster is tests/helpers/node.py: one node with real control plane and kubelet, containerd with both runtimes, CNI's bridge; no kube-proxy, no DNS.
The status is 1 if an answer differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from helpers.cri import BUSYBOX, Cri
from helpers.engines import Daemon, remove, runtimes, short_directory
from helpers.node import NODE, Node
from helpers.runtime import ROOT, wait_for
from suites import cri

VERSION, ETCD = "1.32.3", "3.5.17"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
SECONDS = 120


# ------------------------------------------------------------------------------------------------------------------- build


def go(*words: str, cwd: Path) -> str:
    """Runs go, one compiler at a time and politely. Errors: SystemExit with go's output."""
    environment = {**os.environ, "GOFLAGS": "-p=1 -mod=mod -buildvcs=false", "CGO_ENABLED": "0"}
    argv = ["nice", "-n", "19", shutil.which("go") or "/usr/local/go/bin/go", *words]
    done = subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(argv[3:])}: exit code {done.returncode}\n{done.stdout}{done.stderr}"[-4000:]
        )
    return done.stdout


def staging(name: str, cwd: Path) -> str:
    """The version of a module that Kubernetes keeps in its own tree: the newest that the proxy can prove."""
    major, patch = VERSION.rsplit(".", 1)
    last: SystemExit | None = None
    for number in range(int(patch), -1, -1):
        version = f"v0.{major.removeprefix('1.')}.{number}"
        try:
            go("mod", "download", f"{name}@{version}", cwd=cwd)
        except SystemExit as e:
            last = e
            continue
        return version
    raise SystemExit(f"kubernetes: no version of {name}: {last}")


def build(directory: Path) -> Path:
    """Builds what is missing; returns the folder of the programs."""
    programs = directory / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion=v{VERSION}"
    missing = [name for name in PROGRAMS if not (programs / name).exists()]
    if missing:
        source = directory / "kubernetes"
        source.mkdir(exist_ok=True)
        module = f"k8s.io/kubernetes@v{VERSION}"
        (source / "go.mod").write_text("module node\n\ngo 1.23.0\n")
        text = Path(json.loads(go("mod", "download", "-json", module, cwd=source))["GoMod"]).read_text()
        names = re.findall(r"^(?:replace)?\s*(\S+) => \./staging", text, re.MULTILINE)
        replaced = [f"-replace={name}={name}@{staging(name, source)}" for name in names]
        go("mod", "edit", f"-require={module}", *replaced, cwd=source)
        for name in missing:
            print(f"kubernetes: building {name}", flush=True)
            go(
                "build",
                "-ldflags",
                flags,
                "-o",
                str(programs / name),
                f"k8s.io/kubernetes/cmd/{name}",
                cwd=source,
            )
    if not (programs / "etcd").exists():
        print("kubernetes: building etcd", flush=True)
        source = directory / "etcd"
        source.mkdir(exist_ok=True)
        (source / "go.mod").write_text("module node\n\ngo 1.23.0\n")
        go("get", f"go.etcd.io/etcd/server/v3@v{ETCD}", cwd=source)
        go("build", "-o", str(programs / "etcd"), "go.etcd.io/etcd/server/v3", cwd=source)
    return programs


# -------------------------------------------------------------------------------------------------------------------- rows


class Case:
    """One row with one runtime: objects in a namespace of their own."""

    def __init__(self, node: Node, runtime: str, name: str) -> None:
        self.node, self.runtime, self.space = node, runtime, f"{name}-{runtime}"
        node.kubectl("create", "namespace", self.space).ok()

    def kubectl(self, *words: str, **more: Any) -> str:
        """kubectl's standard output; "exit code N: error" where it fails."""
        done = self.node.kubectl("-n", self.space, *words, **more)
        return done.out if done.status == 0 else f"exit code {done.status}: {done.out}{done.err}"

    def spec(self, *containers: dict[str, Any], **more: Any) -> dict[str, Any]:
        """A pod's specification. Containers need `command`; image and name have defaults."""
        full = [
            {"name": f"c{i}", "image": BUSYBOX, "imagePullPolicy": "Never", **container}
            for i, container in enumerate(containers)
        ]
        return {
            "runtimeClassName": self.runtime,
            "terminationGracePeriodSeconds": 3,
            "containers": full,
            **more,
        }

    def pod(self, *containers: dict[str, Any], **more: Any) -> None:
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "p"}}}
        self.create({**document, "spec": self.spec(*containers, **more)})

    def create(self, document: dict[str, Any]) -> None:
        # The account that pods get by default is made a moment after the namespace.
        wait_for(
            lambda: self.kubectl("get", "serviceaccount", "default", "-o", "name").startswith("service"),
            "no account",
        )
        answer = self.kubectl("apply", "-f", "-", input=json.dumps(document))
        assert not answer.startswith("exit code"), answer

    def get(self, path: str, kind: str = "pod/p") -> str:
        return self.kubectl("get", kind, "-o", f"jsonpath={{{path}}}")

    def until(self, path: str, value: str, kind: str = "pod/p") -> None:
        """Waits for a field of an object."""
        end = time.monotonic() + SECONDS
        while (seen := self.get(path, kind)) != value:
            if time.monotonic() > end:
                raise AssertionError(
                    f"{kind} {path} is {seen!r}, not {value!r}\n{self.kubectl('describe', kind)}"
                )
            time.sleep(0.3)

    def close(self) -> None:
        self.node.kubectl("delete", "namespace", self.space, "--timeout", "100s", timeout=150).ok()


def sh(script: str, **more: Any) -> dict[str, Any]:
    """A container that runs a shell script."""
    return {"command": ["sh", "-c", script], **more}


STOP = "trap 'echo got TERM; exit 0' TERM; while :; do sleep 0.2; done"
TERMINATED = ".status.containerStatuses[0].state.terminated"


def web(c: Case) -> list[str]:
    """Probes of three kinds, hooks, volumes, init and side containers, logs, exec, cp, port-forward, an orderly end."""
    for kind in ("configmap", "secret generic"):
        c.kubectl("create", *kind.split(), "both", "--from-literal=text.txt=words")
    serve = f"echo poststart is later; cat /cm/text.txt /secret/text.txt /share/init; echo $POD $CPU; httpd -p 8080 -h /www; {STOP}"
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("share", "cm", "secret", "www")]
    c.pod(
        sh(
            f"echo served > /www/index.html; {serve}",
            env=[
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
            ],
            startupProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1},
            readinessProbe={"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1},
            livenessProbe={"exec": {"command": ["test", "-e", "/www/index.html"]}, "periodSeconds": 1},
            lifecycle={
                "postStart": {"exec": {"command": ["sh", "-c", "echo poststart > /share/post"]}},
                "preStop": {"exec": {"command": ["sh", "-c", "echo prestop > /proc/1/fd/1"]}},
            },
            resources={"limits": {"memory": "64Mi", "cpu": "500m"}},
            volumeMounts=mounts,
        ),
        sh("until wget -q -O - http://127.0.0.1:8080/; do sleep 0.2; done; exec sleep 100000"),
        initContainers=[
            {
                "name": "init",
                "image": BUSYBOX,
                "imagePullPolicy": "Never",
                "volumeMounts": mounts[:1],
                **sh("echo init > /share/init"),
            },
            {
                "name": "side",
                "image": BUSYBOX,
                "imagePullPolicy": "Never",
                "restartPolicy": "Always",
                **sh(STOP),
            },
        ],
        volumes=[
            {"name": "share", "emptyDir": {}},
            {"name": "cm", "configMap": {"name": "both"}},
            {"name": "secret", "secret": {"secretName": "both"}},
            {"name": "www", "emptyDir": {"medium": "Memory"}},
        ],
    )
    c.until(".status.conditions[?(@.type=='Ready')].status", "True")
    seen = [c.kubectl("logs", "p", "-c", name) for name in ("c0", "c1")]
    seen.append(c.kubectl("exec", "p", "-c", "c0", "--", "cat", "/share/post"))
    seen.append(c.kubectl("exec", "p", "-c", "c0", "--", "sh", "-c", "exit 7")[:12])
    seen.append(c.kubectl("exec", "-i", "p", "-c", "c0", "--", "wc", "-c", input="12345"))
    file = c.node.work / f"copied-{c.runtime}"
    file.write_text("there and back\n")
    seen.append(c.kubectl("cp", str(file), "p:/tmp/copy", "-c", "c0"))
    c.kubectl("cp", "p:/tmp/copy", f"{file}.back", "-c", "c0")
    seen.append(Path(f"{file}.back").read_text())
    argv = c.node.engine.inside(
        str(c.node.programs / "kubectl"), "--kubeconfig", str(c.node.kubeconfig), "-n", c.space
    )
    forward = Daemon(
        [*argv, "port-forward", "--address", "127.0.0.1", "p", "18080:8080"],
        c.node.work / "forward.log",
        c.node.environment,
    )
    try:
        get = c.node.engine.inside("busybox", "wget", "-q", "-O", "-", "http://127.0.0.1:18080/")
        wait_for(
            lambda: subprocess.run(get, capture_output=True, text=True).stdout == "served\n",
            "port-forward",
            30,
        )
    finally:
        forward.stop()
    seen.append(c.kubectl("debug", "p", "--image", BUSYBOX, "--image-pull-policy", "Never", "--target", "c0", "-c", "d", "--",
                          "sh", "-c", "cat /proc/1/comm; wget -q -O - http://127.0.0.1:8080/"))  # fmt: skip
    c.until(".status.ephemeralContainerStatuses[0].state.terminated.reason", "Completed")
    seen.append(c.kubectl("logs", "p", "-c", "d"))
    log = c.node.work / f"end-{c.runtime}.log"
    follow = Daemon([*argv, "logs", "-f", "p", "-c", "c0", "--tail", "0"], log, c.node.environment)
    time.sleep(1)
    c.kubectl("delete", "pod", "p")
    follow.process.wait(30)
    return [*seen, log.read_text()]


def ends(c: Case) -> list[str]:
    """Exit codes, out of memory, the termination log, restarts by policy, a program that is missing."""
    seen = []
    containers = {
        "code": sh("echo last words > /dev/termination-log; exit 3"),
        "memory": sh(
            "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done", resources={"limits": {"memory": "32Mi"}}
        ),
        "signal": sh("kill -9 $$"),
        "missing": {"command": ["/no/such/program"]},
    }
    for name, container in containers.items():
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
        c.create({**document, "spec": c.spec(container, restartPolicy="Never")})
    for name in containers:
        c.until(".status.phase", "Failed", f"pod/{name}")
        fields = [c.get(f"{TERMINATED}.{field}", f"pod/{name}") for field in ("reason", "exitCode")]
        seen.append(f"{name}: {' '.join(fields)}")
    seen.append(c.get(f"{TERMINATED}.message", "pod/code"))
    script = "test -e /state/once && exec sleep 100000; touch /state/once; exit 4"
    mount = [{"name": "state", "mountPath": "/state"}]
    c.pod(
        sh(script, volumeMounts=mount), restartPolicy="OnFailure", volumes=[{"name": "state", "emptyDir": {}}]
    )
    c.until(".status.containerStatuses[0].restartCount", "1")
    c.until(".status.containerStatuses[0].ready", "true")
    return [*seen, c.get(".status.containerStatuses[0].lastState.terminated.exitCode")]


def liveness(c: Case) -> list[str]:
    """A failing probe restarts the container."""
    probe = {
        "exec": {"command": ["test", "-e", "/tmp/alive"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
        "initialDelaySeconds": 1,
    }
    c.pod(sh(f"touch /tmp/alive; (sleep 2; rm /tmp/alive) & {STOP}", livenessProbe=probe))
    c.until(".status.containerStatuses[0].restartCount", "1")
    return [
        c.get(".status.containerStatuses[0].lastState.terminated.reason"),
        c.kubectl("logs", "p", "--previous"),
    ]


def job(c: Case) -> list[str]:
    """Completions in parallel."""
    spec = c.spec(sh("echo worked"), restartPolicy="Never")
    document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    c.create({**document, "spec": {"completions": 4, "parallelism": 2, "template": {"spec": spec}}})
    c.until(".status.conditions[?(@.type=='Complete')].status", "True", "job/j")
    return [c.get(".status.succeeded", "job/j"), c.kubectl("logs", "-l", "job-name=j")]


def rollout(c: Case) -> list[str]:
    """A Deployment: a rolling update, its history, scale to nothing."""
    labels = {"matchLabels": {"app": "d"}}
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": c.spec(sh(f"echo version $V; {STOP}", env=[{"name": "V", "value": "1"}])),
    }
    c.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
              "spec": {"replicas": 3, "selector": labels, "template": template}})  # fmt: skip
    seen = [c.kubectl("rollout", "status", "deployment/d", "--timeout", "100s").splitlines()[-1]]
    c.kubectl("set", "env", "deployment/d", "V=2")
    seen.append(c.kubectl("rollout", "status", "deployment/d", "--timeout", "100s").splitlines()[-1])
    wait_for(
        lambda: c.kubectl("get", "pods", "-l", "app=d", "-o", "name").count("\n") == 3, "old pods stay", 60
    )
    seen.append(c.kubectl("logs", "-l", "app=d"))
    c.kubectl("scale", "deployment/d", "--replicas", "0")
    wait_for(lambda: "pod" not in c.kubectl("get", "pods", "-l", "app=d", "-o", "name"), "pods stay", 60)
    return seen


def rights(c: Case) -> list[str]:
    """The security context: users, groups, capabilities, no_new_privs, a read-only root, the runtime's seccomp profile."""
    script = "id; touch /x 2>&1; touch /data/y && stat -c %g /data/y; grep -E '^(Cap(Eff|Bnd)|NoNewPrivs)' /proc/self/status; unshare -n true 2>&1; echo $?"
    mount = [{"name": "data", "mountPath": "/data"}]
    c.pod(
        sh(script, volumeMounts=mount, securityContext={"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}, "seccompProfile": {"type": "RuntimeDefault"}}),
        restartPolicy="Never", volumes=[{"name": "data", "emptyDir": {}}],
        securityContext={"runAsUser": 1000, "runAsGroup": 1001, "fsGroup": 1002, "supplementalGroups": [1003], "runAsNonRoot": True},
    )  # fmt: skip
    c.until(".status.phase", "Succeeded")
    return [c.kubectl("logs", "p")]


def shared(c: Case) -> list[str]:
    """One pid namespace for the pod: a signal to the neighbour's program ends its container."""
    c.pod({"command": ["sleep", "54321"]}, sh("sleep 1; kill -TERM $(ps -o pid,args | awk '/sleep 5432[1]/ {print $1}'); exec sleep 100000"),
          shareProcessNamespace=True, restartPolicy="Never")  # fmt: skip
    c.until(f"{TERMINATED}.exitCode", "143")
    return [c.get(f"{TERMINATED}.reason")]


def volumes(c: Case) -> list[str]:
    """A read-only host path, a subPath, a projected token, the downward API."""
    host = c.node.work / f"host-{c.runtime}"
    (host / "below").mkdir(parents=True)
    (host / "below" / "file").write_text("of the host\n")
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    script = "cat /host/below/file /sub/file; touch /host/x 2>&1; wc -c < /var/run/secrets/kubernetes.io/serviceaccount/namespace; cat /down/labels"
    c.pod(
        sh(script, volumeMounts=[
            {"name": "host", "mountPath": "/host", "readOnly": True}, {"name": "host", "mountPath": "/sub", "subPath": "below"},
            {"name": "down", "mountPath": "/down"}]),
        restartPolicy="Never",
        volumes=[{"name": "host", "hostPath": {"path": str(host)}}, {"name": "down", "downwardAPI": {"items": items}}],
    )  # fmt: skip
    c.until(".status.phase", "Succeeded")
    return [c.kubectl("logs", "p").replace(str(len(c.space)), "LENGTH")]


def restart(c: Case) -> list[str]:
    """kubelet ends and comes back: the container goes on, and is still its own."""
    c.pod(sh(STOP))
    c.until(".status.containerStatuses[0].ready", "true")
    before = c.get(".status.containerStatuses[0].containerID")
    c.node.restart_kubelet()
    c.until(".status.containerStatuses[0].ready", "true")
    same = c.get(".status.containerStatuses[0].containerID") == before
    return [str(same), c.kubectl("exec", "p", "--", "echo", "after")]


def stats(c: Case) -> list[str]:
    """What the metrics server asks kubelet for: memory and CPU of the pod."""
    c.pod(sh(STOP))
    c.until(".status.containerStatuses[0].ready", "true")

    def found() -> bool:
        summary = json.loads(
            c.node.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/stats/summary").ok().out
        )
        pods = [pod for pod in summary["pods"] if pod["podRef"]["namespace"] == c.space]
        return any(
            k["cpu"].get("usageCoreNanoSeconds") and k["memory"].get("workingSetBytes")
            for pod in pods
            for k in pod["containers"]
        )

    wait_for(found, "no figures", 60)
    return ["figures"]


def in_a_vm(c: Case) -> list[str]:
    """The pod's program has a VM with krun, and none with runc."""
    c.pod(sh(STOP))
    c.until(".status.containerStatuses[0].ready", "true")
    id = c.get(".status.containerStatuses[0].containerID").rpartition("/")[2]
    pid = json.loads(c.node.engine.crictl("inspect", id).ok().out)["info"]["pid"]
    opened = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    assert ("anon_inode:kvm-vm" in opened) == (c.runtime == "krun"), f"{c.runtime}: {opened}"
    return ["as it should be"]


ROWS: tuple[Callable[[Case], list[str]], ...] = (
    in_a_vm, web, ends, liveness, job, rollout, rights, shared, volumes, stats, restart,
)  # fmt: skip


def run(node: Node, row: Callable[[Case], list[str]], runtime: str) -> list[str]:
    case = Case(node, runtime, row.__name__.replace("_", "-"))
    try:
        return row(case)
    except AssertionError as e:
        return [f"failed: {e}"]
    finally:
        case.close()


def compare(node: Node, rows: list[Callable[[Case], list[str]]]) -> int:
    """Prints a line a row; 1 if answers differ or a row failed."""
    worse = 0
    for row in rows:
        begin = time.monotonic()
        seen = {runtime: run(node, row, runtime) for runtime in runtimes()}
        first = seen[runtimes()[0]]
        good = all(answers == first for answers in seen.values()) and not any(
            a.startswith("failed") for a in first
        )
        print(
            f"{'equal' if good else 'DIFFERENT'}  {row.__name__}: {row.__doc__} ({time.monotonic() - begin:.0f} s)",
            flush=True,
        )
        if not good:
            worse = 1
            for runtime, answers in seen.items():
                print(f"  {runtime}: {answers}", flush=True)
    return worse


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "kubernetes")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("row", nargs="*", help="only these rows")
    options = parser.parse_args()
    programs = build(options.directory)
    if options.build_only:
        return 0
    cri.build("crictl")
    work = short_directory("k8s")
    engine = node = None
    try:
        engine = Cri(work)
        node = Node(engine, programs)
        return compare(node, [row for row in ROWS if not options.row or row.__name__ in options.row])
    finally:
        if node is not None:
            node.close()
        if engine is not None:
            engine.close()
        if node is not None:
            node.remove_cgroups()
        remove(work)


if __name__ == "__main__":
    sys.exit(main())

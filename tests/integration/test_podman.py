"""What podman has and docker has not: pods, play kube, checkpoints; runc first.  The rest is in test_engines.py."""

import json
import shutil

import pytest
from helpers.engines import LIMITS, Podman, command, remove, runtimes, short_directory
from helpers.runtime import SYSTEM_PATH, wait_for
from helpers.seccompagent import Agent, build, profile

pytestmark = pytest.mark.engine
IMAGE = "localhost/busybox:test"


@pytest.fixture(scope="module")
def engine(as_root, busybox_root):
    work = short_directory("podman")
    podman = Podman(work)
    try:
        podman.load(busybox_root, IMAGE)
        yield podman
        podman.close()
    finally:
        remove(work)


@pytest.fixture(params=runtimes())
def podman(request, engine):
    def call(*args, **more):
        return engine.call(request.param, *args, **more)

    call.name = request.param
    yield call
    call("pod", "rm", "--all", "--force")
    call("rm", "--all", "--force", "--time", "0")


def test_pod_of_two(podman):
    """They share the pod's network, ipc and uts namespaces; stopping and starting the pod again works."""
    podman(
        "pod",
        "create",
        "--name",
        "pod",
        "--network",
        "none",
        "--hostname",
        "in-pod",
        "--share",
        "net,ipc,uts",
    ).ok()
    script = "echo hello | nc -l -p 7000; sleep 1000"
    podman("run", "-d", "--pod", "pod", "--name", "server", *LIMITS, IMAGE, "sh", "-c", script).ok()
    script = "hostname; for i in $(seq 50); do nc 127.0.0.1 7000 </dev/null && exit; sleep 0.1; done; exit 1"
    done = podman("run", "--rm", "--pod", "pod", *LIMITS, IMAGE, "sh", "-c", script).ok()
    assert done.out == "in-pod\nhello\n"
    podman("pod", "pause", "pod").ok()
    podman("pod", "unpause", "pod").ok()
    podman("pod", "stop", "--time", "0", "pod").ok()
    podman("pod", "start", "pod").ok()
    assert podman("exec", "server", "hostname").ok().out == "in-pod\n"
    podman("pod", "rm", "--force", "pod").ok()
    assert podman("ps", "-aq").ok().out == ""


POD = """apiVersion: v1
kind: Pod
metadata:
  name: kube
spec:
  hostname: kube
  volumes:
    - name: shared
      hostPath: {{path: {path}}}
  containers:
    - name: one
      image: localhost/busybox:test
      command: ["/bin/sh", "-c", "echo from one >/shared/f; exec /bin/sleep 1000"]
      volumeMounts: [{{name: shared, mountPath: /shared}}]
      resources: {{limits: {{memory: 64Mi}}}}
    - name: two
      image: localhost/busybox:test
      command: ["/bin/sh", "-c", "PATH=/bin; while ! cat /shared/f; do sleep 0.1; done; id -u; sleep 1000"]
      securityContext: {{runAsUser: 1000, readOnlyRootFilesystem: true, capabilities: {{drop: [ALL]}}}}
      volumeMounts: [{{name: shared, mountPath: /shared}}]
"""


def test_play_kube(podman, engine, tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "pod.yaml").write_text(POD.format(path=tmp_path))
    podman("play", "kube", "--network", "none", str(tmp_path / "pod.yaml")).ok()
    wait_for(lambda: "1000" in podman("logs", "kube-two").out, "not up")
    assert podman("logs", "kube-two").out == "from one\n1000\n"
    assert podman("inspect", "--format", "{{.HostConfig.Memory}}", "kube-one").ok().out.strip() == str(
        64 << 20
    )
    podman("play", "kube", "--down", str(tmp_path / "pod.yaml")).ok()
    assert podman("pod", "ps", "-q").ok().out == ""


def test_checkpoint_is_refused(podman, same):
    """By podman itself without criu; where criu is installed runc can do it, and krun's answer is one line."""
    podman("run", "-d", "--name", "c", "--network", "none", *LIMITS, IMAGE, "sleep", "1000").ok()
    done = podman("container", "checkpoint", "c")
    if podman.name == "runc" and shutil.which("criu", path=SYSTEM_PATH):
        return
    assert done.status != 0 and done.err.count("\n") == 1, done
    assert json.loads(podman("inspect", "--format", "{{json .State}}", "c").ok().out)["Running"]
    if not shutil.which("criu", path=SYSTEM_PATH):
        same(done.status, "checkpoint")


def test_containers_share_namespaces_by_name(podman):
    options = ("-d", "--name", "a", "--ipc", "shareable", "--network", "none")
    podman("run", *options, *LIMITS, IMAGE, "sh", "-c", "sleep 1000").ok()
    words = (
        "--pid",
        "container:a",
        "--ipc",
        "container:a",
        "--network",
        "container:a",
        "--uts",
        "container:a",
    )
    script = "for n in pid ipc net uts; do readlink /proc/self/ns/$n; done"
    seen = podman("run", "--rm", *words, *LIMITS, IMAGE, "sh", "-c", script).ok().out
    assert seen == podman("exec", "a", "sh", "-c", script).ok().out and seen.count("[") == 4


#: What the hook of a GPU's vendor does (nvidia-cdi-hook create-symlinks): it finds the root by the state on its stdin.
LINK = """import json, os, sys
bundle = json.load(sys.stdin)["bundle"]
root = json.load(open(f"{bundle}/config.json"))["root"]["path"]
os.symlink("mine", os.path.join(bundle, root, sys.argv[1]))
"""


def test_a_device_of_cdi(podman, engine, tmp_path):
    """A node with another name and rights, a mount, variables and hooks of two kinds, from a specification in /etc/cdi."""
    tmp_path.chmod(0o755)
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "lib.so").write_text("of the host\n")
    (tmp_path / "link.py").write_text(LINK)
    hook = {"path": "/usr/bin/python3", "args": ["python3", f"{tmp_path}/link.py"]}
    device = {
        "env": ["VISIBLE=one"],
        "deviceNodes": [
            {"path": "/dev/mine", "hostPath": "/dev/fuse", "permissions": "r", "uid": 7, "fileMode": 0o644}
        ],
        "mounts": [
            {
                "hostPath": f"{tmp_path}/library",
                "containerPath": "/usr/lib/vendor",
                "options": ["ro", "nosuid", "nodev", "bind"],
            }
        ],
        "hooks": [
            {"hookName": "createContainer", **hook, "args": [*hook["args"], "inside"]},
            {"hookName": "createRuntime", "path": "/bin/sh", "args": ["sh", "-c", f"cat >{tmp_path}/state"]},
        ],
    }
    specification = {
        "cdiVersion": "0.5.0",
        "kind": "example.com/gpu",
        "devices": [{"name": "one", "containerEdits": device}],
        "containerEdits": {"env": ["ALWAYS=yes"]},
    }
    (tmp_path / "etc" / "cdi").mkdir(parents=True)
    (tmp_path / "etc" / "cdi" / "example.json").write_text(json.dumps(specification))
    script = (
        "stat -c '%n %F %t:%T %a %u' /dev/mine; (: </dev/mine) && (: >/dev/mine) 2>&1; cat /usr/lib/vendor/lib.so;"
        "touch /usr/lib/vendor/x 2>&1; echo $VISIBLE $ALWAYS; readlink /inside"
    )
    words = [
        "run",
        "--rm",
        "--network",
        "none",
        "--device",
        "example.com/gpu=one",
        *LIMITS,
        IMAGE,
        "sh",
        "-c",
        script,
    ]
    # The directories of CDI are fixed in this podman: an /etc of its own, below which the host's is.
    mount = f'mount -t overlay -o lowerdir={tmp_path}/etc:/etc overlay /etc && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", mount, "sh", *engine.argv(podman.name, *words)]
    done = command(argv, environment=engine.environment).ok()
    assert done.out.splitlines() == [
        "/dev/mine character special file a:e5 644 7",
        "sh: can't create /dev/mine: Operation not permitted",
        "of the host",
        "touch: /usr/lib/vendor/x: Read-only file system",
        "one yes",
        "mine",
    ]
    state = json.loads((tmp_path / "state").read_text())
    assert state["status"] in ("creating", "created") and state["pid"] > 0


def test_a_profile_with_an_agent(podman, engine, tmp_path, same):
    """SCMP_ACT_NOTIFY by --security-opt: run, and exec with a listener of its own."""
    agent = Agent(build("seccomp_agent.c", tmp_path / "agent"), tmp_path)
    try:
        file = tmp_path / "profile.json"
        file.write_text(json.dumps(profile(agent.path, "mkdir", listenerMetadata="of podman")))
        options = ("--security-opt", f"seccomp={file}", "--network", "none", *LIMITS)
        script = "mkdir /tmp/deny; mkdir /tmp/passed && ls -d /tmp/passed; sleep 1000"
        podman("run", "-d", "--name", "c", *options, IMAGE, "sh", "-c", script).ok()
        agent.until("passed")
        done = podman(
            "exec", "c", "sh", "-c", "mkdir /tmp/value; echo $?; mkdir /tmp/inner && ls -d /tmp/inner"
        )
        same((done.out, done.err), "exec")
        podman("rm", "--force", "--time", "0", "c").ok()
        agent.until("hang-up", 2)
        same(sorted(agent.calls()), "the agent")
        assert [state["metadata"] for state in agent.states()] == ["of podman"] * 2
    finally:
        agent.close()

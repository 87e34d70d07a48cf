"""`exec`: further programs in a running container."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from helpers.runtime import wait_for


@pytest.mark.parametrize("verb", ["exec", "update"])
def test_a_document_that_is_no_json_is_named(running, verb):
    """A name that is no string: the scanner's error had no class without the json package."""
    file = running.runtime.work / "document.json"
    file.write_text("{x")
    words = ("exec", "--process", file, running.id) if verb == "exec" else ("update", "-r", file, running.id)
    done = running.runtime.call(*words)
    assert done.status == (255 if verb == "exec" else 1), done
    if running.runtime.name == "krun":
        assert f"{file}: invalid JSON at line 1 column 2" in done.err, done


def test_unknown_container(runtime, observe):
    done = runtime.call("exec", "no-such", "true")
    assert "exec failed: container does not exist" in done.err
    observe(done.status)


def test_unknown_capability(running):
    """A warning, as for create."""
    done = running.exec("true", options=("--cap", "CAP_NO_SUCH")).ok()
    assert "ignoring unknown or unavailable capabilities: [CAP_NO_SUCH]" in done.err


def test_output_and_exit_code(running):
    done = running.exec("/bin/sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.status, done.out, done.err) == (7, "out\n", "err\n")


def test_stdin(running):
    assert running.exec("tr", "a-z", "A-Z", input="words\n").ok().out == "WORDS\n"


def test_it_is_in_the_containers_namespaces(running):
    assert running.exec("hostname").ok().out == "krun-test\n"
    listed = running.exec("sh", "-c", "ls -d /proc/[0-9]*").ok().out.split()
    assert "/proc/1" in listed and len(listed) <= 5


def test_it_is_in_the_containers_cgroup(running):
    container = Path(f"/proc/{running.pid}/cgroup").read_text()
    pid = running.exec_detached("sleep", "1000")
    assert Path(f"/proc/{pid}/cgroup").read_text() == container


def test_exec_sees_the_containers_processes_and_they_see_it(running, observe):
    """exe, cwd, descriptors and maps of the other side, as the kernel shows them to those who may trace it."""
    look = "readlink /proc/1/exe /proc/1/cwd /proc/1/root; ls /proc/1/fd | wc -l; grep -c stack /proc/1/maps"
    observe(running.exec("sh", "-c", look).ok().out.split()[1:])
    running.exec_detached("sleep", "1000")
    find = (
        "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' <$p/cmdline) in 'sleep 1000 ') readlink $p/cwd;"
        " cmp -s $p/exe /proc/self/exe && echo same; ls $p/fd | wc -l;; esac; done"
    )
    seen = running.exec("sh", "-c", find).ok().out
    assert "same" in seen
    observe(seen)


def test_detach(running):
    """The reported pid is the exec's own host process: reparented, it ends with the program's status."""
    pid = running.exec_detached("sh", "-c", "sleep 0.1; exit 5")
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 5


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_exec_is_a_virtual_machine_of_its_own(running):
    pid = running.exec_detached("sleep", "1000")

    def has_vm():
        names = []
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
            except OSError:
                pass
        return any("kvm-vm" in n for n in names)

    wait_for(has_vm, "no VM in the process of exec")


def test_cwd_env_and_user(running):
    options = ("--cwd", "/tmp", "--env", "A=b c", "--user", "1000:1000")
    done = running.exec("sh", "-c", 'pwd; echo "$A"; id -u; id -g', options=options).ok()
    assert done.out.split("\n")[:4] == ["/tmp", "b c", "1000", "1000"]


def test_environment_of_the_container_is_kept(runtime, bundle):
    bundle.process["env"].append("FROM_CONFIG=yes")
    container = runtime.start(bundle.args("sleep", "1000"))
    assert container.exec("sh", "-c", 'echo "$FROM_CONFIG"').ok().out == "yes\n"


def test_process_file(running):
    process = {
        "terminal": False,
        "user": {"uid": 7, "gid": 8, "additionalGids": [9]},
        "args": ["sh", "-c", 'id -u; id -g; id -G; pwd; echo "$X"; exit 4'],
        "env": ["PATH=/bin", "X=1"],
        "cwd": "/home",
    }
    file = running.runtime.work / "process.json"
    file.write_text(json.dumps(process))
    done = running.runtime.call("exec", "--process", file, running.id)
    assert (done.status, done.out.split()) == (4, ["7", "8", "8", "9", "/home", "1"]), done


@pytest.mark.parametrize(("program", "words"), [("/no/such", "no such file"), ("nosuch", "not found")])
def test_program_that_cannot_be_started(running, program, words):
    done = running.exec(program)
    assert done.status not in (0, 137) and words in done.err.lower(), done
    assert running.state()["status"] == "running"


def test_exec_killed_by_a_signal(running):
    assert running.exec("sh", "-c", "kill -KILL $$").status == 137


def test_exec_in_a_stopped_container(runtime, bundle):
    container = runtime.start(bundle)
    container.wait()
    done = container.exec("true")
    assert done.status != 0 and "stopped" in done.err, done


def test_exec_ends_with_the_container(running):
    pid = running.exec_detached("sleep", "1000")
    running.call("kill", "KILL").ok()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -9
    assert running.wait() == 137


def test_many_at_once(running):
    """Twenty one after another in one container: nothing piles up in it."""
    for i in range(20):
        assert running.exec("echo", str(i)).ok().out == f"{i}\n"
    assert running.processes() == [running.pid]


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_no_file_of_the_image_stands_for_proc(runtime, bundle):
    """A FIFO in the image's /proc holds an exec into a user namespace for ever, if exec opens it. runc needs a /proc mount."""
    bundle.config["mounts"] = [m for m in bundle.config["mounts"] if m["destination"] != "/proc"]
    bundle.linux["maskedPaths"] = bundle.linux["readonlyPaths"] = []
    bundle.namespaces(add=("user",))
    for kind in ("uidMappings", "gidMappings"):
        bundle.linux[kind] = [{"containerID": 0, "hostID": 0, "size": 65536}]
    for name in ("self", "thread-self"):
        (bundle.rootfs / "proc" / name).mkdir()
        os.mkfifo(bundle.rootfs / "proc" / name / "setgroups")
    container = runtime.start(bundle.args("sleep", "1000"))
    assert runtime.call("exec", container.id, "id", "-u", timeout=10).ok().out == "0\n"


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_an_init_that_has_left_its_user_namespace(runtime, bundle):
    """Exec follows the init. What it may do in that namespace is nothing in the container's, where the first sleep is."""
    for name in ("bounding", "effective", "permitted"):
        bundle.process["capabilities"][name].append("CAP_SETFCAP")  # for `unshare -r`
    bundle.linux.pop("seccomp", None)
    container = runtime.start(
        bundle.args("sh", "-c", "sleep 1000 & echo $!; exec unshare -Ur sh -c 'echo left; sleep 1000'")
    )
    wait_for(lambda: "left" in container.out(), "the init has not left its namespace")
    outside = container.out().split()[0]
    assert container.exec("cat", f"/proc/{outside}/comm").ok().out == "sleep\n"
    assert container.exec("readlink", f"/proc/{outside}/cwd").status == 1
    assert container.exec("readlink", "/proc/self/cwd").ok().out == "/\n"


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_ids_that_the_namespace_of_the_init_has_not(runtime, bundle):
    """The remedy is told. runc does not follow the init, and runs the program with the container's ids."""
    for name in ("bounding", "effective", "permitted"):
        bundle.process["capabilities"][name].append("CAP_SETFCAP")  # for `unshare -r`
    bundle.linux.pop("seccomp", None)
    container = runtime.start(bundle.args("unshare", "-Ur", "sh", "-c", "echo left; sleep 1000"))
    wait_for(lambda: "left" in container.out(), "the init has not left its namespace")
    said = container.exec("true", options=("--user", "1000"))
    assert said.status == 255 and "the container's init has entered a user namespace of its own" in said.err
    assert "let a child of the init enter the namespace" in said.err
    container.exec("true", options=("--user", "0")).ok()


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_the_callers_groups_are_not_the_programs(runtime, bundle):
    """The init makes a user namespace that denies setgroups(2): exec's process kept the groups that krun's caller has on the host,
    and read what they may read. runc does not follow the init there."""
    for name in ("bounding", "effective", "permitted"):
        bundle.process["capabilities"][name].append("CAP_SETFCAP")  # for `unshare -r`
    bundle.linux.pop("seccomp", None)
    container = runtime.start(bundle.args("unshare", "-Ur", "sh", "-c", "echo left; sleep 1000"))
    wait_for(lambda: "left" in container.out(), "the init has not left its namespace")
    words = [str(runtime.path), "--root", str(runtime.root), "exec", container.id]
    done = subprocess.run(
        ["setpriv", "--groups", "0,4,6", *words, "cat", "/proc/self/setgroups", "/proc/self/status"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    groups = next(line for line in done.stdout.splitlines() if line.startswith("Groups:"))
    assert done.stdout.startswith("deny\n") and groups.split() == ["Groups:"], done

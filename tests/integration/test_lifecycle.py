"""create, start, state, kill, delete, list, ps by hand, as an engine uses them, and what each refuses."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from helpers.bundle import CONFIG
from helpers.runtime import find, wait_for


def descriptors(pid):
    """What the descriptors of a process are, for those that are not files."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    return found


def test_create_does_not_start_the_program(runtime, bundle):
    container = runtime.create(bundle.shell("echo started; touch /started"))
    state = container.state()
    assert (state["status"], state["pid"]) == ("created", container.pid)
    os.kill(container.pid, 0)
    assert container.out() == "" and not (bundle.rootfs / "started").exists()
    container.call("start").ok()
    assert container.wait() == 0
    assert container.out() == "started\n" and (bundle.rootfs / "started").exists()
    container.call("delete").ok()
    assert container.left() == []


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_a_created_container_is_a_virtual_machine(created):
    """At create the VM exists already: its descriptors are in the reported pid."""
    found = descriptors(created.pid)
    assert any("kvm-vm" in name for name in found) and any("kvm-vcpu" in name for name in found), found


def test_reported_pid_is_in_the_namespaces(created):
    for kind in ("pid", "net", "ipc", "uts", "mnt"):
        assert os.readlink(f"/proc/{created.pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"), kind


def test_create_and_start_by_separate_processes_then_the_exit_code(runtime, bundle):
    container = runtime.start(bundle.shell("sleep 0.1; exit 7"))
    assert container.wait() == 7
    assert container.state()["status"] == "stopped"
    container.call("delete").ok()


def test_unreaped_init_reads_as_stopped(runtime, bundle):
    """Nobody has waited for it yet: a zombie is not running."""
    container = runtime.start(bundle.args("true"))
    wait_for(lambda: container.state()["status"] == "stopped", "still not stopped")
    stat = Path(f"/proc/{container.pid}/stat").read_text()
    assert stat.rpartition(")")[2].split()[0] == "Z"
    container.call("delete").ok()
    assert container.wait() == 0


@pytest.mark.parametrize(
    ("name", "number"),
    [("KILL", 9), ("SIGKILL", 9), ("9", 9), ("TERM", 15), ("HUP", 1), ("sigint", 2)],
)
def test_kill_by_name_and_number(runtime, bundle, name, number):
    bundle.namespaces(drop=("pid",))
    container = runtime.start(bundle.args("sleep", "1000"))
    container.call("kill", name).ok()
    assert container.wait() == 128 + number


def test_kill_without_a_signal_is_term(runtime, bundle):
    container = runtime.start(
        bundle.shell("trap 'echo term; exit 3' TERM; echo up; while :; do sleep 0.05; done")
    )
    wait_for(lambda: "up" in container.out(), "trap not set")
    container.call("kill").ok()
    assert container.wait() == 3 and "term" in container.out()


def test_a_signal_that_the_program_ignores_does_not_end_it(runtime, bundle):
    container = runtime.start(bundle.shell("trap '' TERM; echo up; sleep 1000"))
    wait_for(lambda: "up" in container.out(), "trap not set")
    container.call("kill", "TERM").ok()
    assert container.state()["status"] == "running"


def test_stop_and_continue(running):
    running.call("kill", "STOP").ok()
    wait_for(
        lambda: Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T",
        "not stopped",
    )
    running.call("kill", "CONT").ok()
    wait_for(
        lambda: Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[0] in "SR",
        "not going",
    )


def test_kill_all(runtime, bundle):
    container = runtime.start(bundle.shell("sleep 1000 & sleep 1000 & echo up; wait"))
    wait_for(lambda: "up" in container.out(), "not up")
    container.call("kill", "--all", "KILL").ok()
    assert container.wait() == 137
    wait_for(lambda: container.processes() == [], "processes left")


@pytest.fixture(scope="session")
def leaderless(tmp_path_factory):
    path = tmp_path_factory.mktemp("leader") / "leader"
    subprocess.run(["gcc", "-static", "-o", path, Path(__file__).with_name("leader.c")], check=True)
    return path


@pytest.fixture
def without_leader(runtime, bundle, leaderless):
    """A running container whose program's first thread has ended, and whose second one stays."""
    container = runtime.start(bundle.mount("/leader", leaderless, "bind", "ro").args("/leader"))
    wait_for(
        lambda: Path(f"/proc/{container.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z",
        "the first thread stays",
    )
    return container


def test_kill_all_of_a_program_whose_first_thread_has_ended(without_leader):
    without_leader.call("kill", "--all", "KILL").ok()
    assert without_leader.wait() == 137


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_a_program_whose_first_thread_has_ended_runs(without_leader):
    """runc 1.1 says that it is stopped, and its `delete` forgets the process."""
    assert without_leader.state()["status"] == "running"
    assert json.loads(without_leader.call("ps", "--format=json").ok().out) == [without_leader.pid]
    done = without_leader.call("delete")
    assert done.status == 1 and "is not stopped: running" in done.err, done
    without_leader.call("pause").ok()
    assert without_leader.state()["status"] == "paused"
    without_leader.call("resume").ok()
    assert "exec failed: cannot exec" in without_leader.exec("true").err
    without_leader.call("delete", "--force").ok()
    assert without_leader.wait() == 137 and without_leader.left() == []


def test_kill_of_a_created_container(created):
    created.call("kill", "KILL").ok()
    assert created.wait() == 137
    assert created.state()["status"] == "stopped"
    created.call("delete").ok()


@pytest.mark.parametrize("signal", ["TERM", "INT", "HUP"])
def test_a_signal_ends_a_created_container(created, signal):
    """As process 1 without a handler it would not hear of it; the init of runc has handlers."""
    created.call("kill", signal).ok()
    created.wait()
    assert created.state()["status"] == "stopped" and created.call("start").status == 1
    created.call("delete").ok()


def test_a_signal_that_init_ignores_by_default_does_not_end_it(running):
    running.call("kill", "TERM").ok()
    assert running.exec("true").ok() and running.state()["status"] == "running"


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
@pytest.mark.parametrize("before", ["TERM", "KILL"])
def test_kill_in_the_hosts_pid_namespace(runtime, bundle, before):
    """SIGKILL ends all processes of the container, also when its init has gone: runc does so from 1.2 on."""
    bundle.namespaces(drop=("pid",))
    container = runtime.start(bundle.shell("sleep 1000 & echo up; wait"))
    wait_for(lambda: "up" in container.out(), "not up")
    container.call("kill", before).ok()
    container.wait()
    container.call("kill", "KILL").ok()
    wait_for(lambda: container.processes() == [], "processes left")


def test_delete_of_a_created_container(created):
    """Against the letter of the specification, as runc and crun do; containerd's shim depends on it."""
    created.call("delete").ok()
    assert created.left() == []


def test_delete_force_of_a_running_container(running):
    running.call("delete", "--force").ok()
    assert running.wait() == 137 and running.left() == []


def test_delete_force_of_an_unknown_container_is_no_error(runtime):
    runtime.call("delete", "--force", "no-such-container").ok()


def test_id_can_be_used_again(runtime, bundle):
    container = runtime.create(bundle)
    container.call("delete").ok()
    container.wait()
    container.status = None
    container.create().ok()
    container.call("start").ok()
    assert container.wait() == 0
    container.call("delete").ok()


def test_start_twice(running):
    done = running.call("start")
    assert done.status == 1 and "cannot start" in done.err, done
    assert running.state()["status"] == "running"


def test_start_of_a_stopped_container(runtime, bundle):
    container = runtime.start(bundle)
    container.wait()
    done = container.call("start")
    assert done.status == 1 and "stopped" in done.err, done


def test_delete_of_a_running_container(running):
    done = running.call("delete")
    assert done.status == 1 and "is not stopped: running" in done.err, done
    assert running.state()["status"] == "running"


def test_kill_of_a_stopped_container(runtime, bundle):
    container = runtime.start(bundle)
    container.wait()
    done = container.call("kill", "TERM")
    # podman and the containerd shim look for these words.
    assert done.status == 1 and (
        "container not running" in done.err or "process already finished" in done.err
    ), done


def test_unknown_signal(running):
    done = running.call("kill", "NOSUCH")
    assert done.status == 1 and "NOSUCH" in done.err and running.state()["status"] == "running"


@pytest.mark.parametrize("verb", ["state", "start", "kill", "delete"])
def test_unknown_container(runtime, verb):
    done = runtime.call(verb, "no-such-container")
    # Callers look for these words.
    assert done.status == 1 and "does not exist" in done.err, done


def test_exec_in_an_unknown_container(runtime):
    done = runtime.call("exec", "no-such-container", "true")
    assert done.status != 0 and "does not exist" in done.err, done


@pytest.mark.parametrize("verb", ["state", "start", "kill", "delete", "create", "exec"])
def test_id_is_needed(runtime, verb):
    done = runtime.call(verb)
    assert done.status == 1 and done.out + done.err != ""


def test_id_in_use(runtime, bundle, created):
    done = runtime.call("create", "--bundle", bundle.write(), created.id)
    assert done.status == 1 and ("already" in done.err or "exists" in done.err), done
    assert created.state()["status"] == "created"


@pytest.mark.parametrize("id", ["a/b", "..", ".", "a b", "ä"])
def test_unusable_id(runtime, bundle, id):
    done = runtime.call("create", "--bundle", bundle.write(), id)
    assert done.status == 1 and "invalid" in done.err.lower(), done


def test_missing_bundle(runtime, tmp_path):
    done = runtime.call("create", "--bundle", tmp_path / "nothing", "some-id")
    assert done.status == 1 and "no such file or directory" in done.err.lower(), done


def test_bundle_without_a_configuration(runtime, tmp_path):
    (tmp_path / "empty").mkdir()
    done = runtime.call("create", "--bundle", tmp_path / "empty", "some-id")
    assert done.status == 1 and "config.json" in done.err, done


def test_configuration_that_is_not_json(runtime, bundle):
    bundle.write()
    (bundle.path / "config.json").write_text('{"ociVersion": "1.0.2", ')
    done = runtime.call("create", "--bundle", bundle.path, "some-id")
    assert done.status == 1 and done.err, done


def test_unknown_keys_are_ignored(runtime, bundle):
    bundle.config["someDay"] = {"x": [1]}
    bundle.process["alsoNew"] = True
    bundle.config["annotations"] = {"org.example.key": "value"}
    runtime.run(bundle).ok()


@pytest.mark.parametrize("program", ["/no/such", "nosuch", "/etc/passwd"])
def test_create_refuses_a_program_that_cannot_run_and_leaves_nothing(runtime, bundle, program):
    container = runtime.new(bundle.args(program))
    done = container.create()
    assert done.status == 1, done
    assert (
        "no such file or directory" in done.err
        or "executable file not found" in done.err
        or ("permission denied" in done.err)
    ), done
    assert container.left() == []


def test_create_fails_for_a_missing_mount_source_and_leaves_nothing(runtime, bundle):
    container = runtime.new(bundle.mount("/mnt", "/no/such/source", "bind"))
    done = container.create()
    assert done.status == 1 and "no such file or directory" in done.err.lower(), done
    assert container.left() == []


def test_create_fails_for_a_missing_root(runtime, bundle):
    bundle.config["root"]["path"] = "nothing"
    container = runtime.new(bundle)
    done = container.create()
    assert done.status == 1 and "no such file or directory" in done.err.lower(), done
    assert container.left() == []


def test_cwd_is_made(runtime, bundle):
    bundle.process["cwd"] = "/new/place"
    assert runtime.run(bundle.args("pwd")).ok().out == "/new/place\n"


def test_configuration_is_read_at_create_only(runtime, bundle):
    container = runtime.create(bundle.shell("echo first"))
    bundle.shell("echo second").write()
    container.call("start").ok()
    assert container.wait() == 0 and container.out() == "first\n"


def test_list(runtime, bundle, make_bundle):
    first = runtime.create(bundle)
    second = runtime.start(make_bundle().args("sleep", "1000"))
    table = json.loads(runtime.call("list", "--format", "json").ok().out)
    seen = {row["id"]: row["status"] for row in table}
    assert seen == {first.id: "created", second.id: "running"}
    assert sorted(runtime.call("list", "-q").ok().out.split()) == sorted([first.id, second.id])
    text = runtime.call("list").ok().out.splitlines()
    assert text[0].split() == ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"] and len(text) == 3


@pytest.mark.parametrize("there", [True, False])
def test_list_of_nothing(runtime, there):
    """A root that is not there has no containers: no error, and the listing does not make it."""
    if there:
        runtime.root.mkdir()
    assert json.loads(runtime.call("list", "--format", "json").ok().out) in (None, [])
    assert runtime.call("list", "-q").ok().out == ""
    if runtime.name == "krun":  # runc makes it
        assert runtime.root.exists() == there


def test_ps(runtime, bundle):
    container = runtime.start(bundle.shell("sleep 1000 & sleep 1000; :"))
    wait_for(lambda: len(container.processes()) == 3, "not all started")
    pids = json.loads(runtime.call("ps", "--format", "json", container.id).ok().out)
    assert sorted(pids) == sorted(container.processes()) and container.pid in pids
    rows = runtime.call("ps", container.id).ok().out.splitlines()
    assert "PID" in rows[0].split() and len(rows) == 4


def test_log_in_json(runtime, bundle):
    log = runtime.work / "log.json"
    done = runtime.call(
        "--log", log, "--log-format", "json", "create", "--bundle", "/no/such/bundle", "some-id"
    )
    assert done.status == 1
    line = json.loads(log.read_text().splitlines()[-1])
    assert line["level"] == "error" and "no such file or directory" in line["msg"].lower()
    assert {"level", "msg", "time"} <= set(line)


def test_version(runtime):
    done = runtime.call("--version").ok()
    assert done.out.startswith(f"{runtime.name} version ") and "spec: 1." in done.out


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_features(runtime):
    features = json.loads(runtime.call("features").ok().out)
    assert features["ociVersionMin"].startswith("1.") and features["ociVersionMax"].startswith("1.")
    assert "createRuntime" in features["hooks"] and "rbind" in features["mountOptions"]
    assert "pid" in features["linux"]["namespaces"] and features["linux"]["cgroup"]["v2"] is True


def test_spec_makes_a_configuration_that_runs(runtime, bundle):
    runtime.call("spec", "--bundle", bundle.path).ok()
    config = json.loads((bundle.path / "config.json").read_text())
    assert config["process"]["args"] == ["sh"] and config["process"]["terminal"] is True
    config["process"]["terminal"] = False
    bundle.config = config
    assert runtime.run(bundle.shell("echo ok")).ok().out == "ok\n"


def test_the_pid_lives_as_long_as_the_container(running):
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == 137 and running.state()["status"] == "stopped"
    running.call("delete").ok()


def test_no_descriptor_of_the_caller_is_kept(runtime, bundle):
    """containerd leaks descriptors into create: whoever waits for their end must not wait for the container."""
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    container = runtime.new(bundle.args("sleep", "1000"))
    log = runtime.work / "out"
    argv = container.argv("create")
    files = [(os.POSIX_SPAWN_OPEN, fd, str(log), os.O_RDWR | os.O_CREAT, 0o600) for fd in (0, 1, 2)]
    pid = os.posix_spawn(argv[0], argv, runtime.environment, file_actions=files)
    assert os.waitpid(pid, 0)[1] == 0, log.read_text()
    os.close(write_end)
    container.pid = container.state()["pid"]
    os.set_blocking(read_end, False)
    assert os.read(read_end, 1) == b"", "the container holds the pipe"
    os.close(read_end)


def test_empty_environment_and_strange_directory(runtime, bundle, tmp_path):
    """Engines call with as good as no environment; an empty XDG_RUNTIME_DIR counts as unset."""
    runtime.environment = {"XDG_RUNTIME_DIR": ""}
    here = os.getcwd()
    os.chdir("/")
    try:
        assert runtime.run(bundle.args("echo", "ok")).ok().out == "ok\n"
    finally:
        os.chdir(here)


def test_the_bundles_of_these_tests_are_what_runc_spec_writes(tmp_path):
    subprocess.run([find("runc"), "spec"], cwd=tmp_path, check=True)
    config = json.loads((tmp_path / "config.json").read_text())
    config["ociVersion"], config["hostname"] = CONFIG["ociVersion"], CONFIG["hostname"]
    config["root"]["readonly"] = False
    config["process"].update(terminal=False, args=["true"])
    capabilities = config["process"]["capabilities"]
    capabilities.setdefault("ambient", capabilities["bounding"])
    linux = config["linux"]
    linux["namespaces"] = [n for n in linux["namespaces"] if n["type"] != "cgroup"]
    assert config == CONFIG


def test_run_ends_after_another_container_has_its_id(runtime, bundle, make_bundle):
    """`run` in the foreground is held up; meanwhile its container is deleted, and another one gets the id."""
    if runtime.name == "runc":
        return  # it removes the other container's state, whose processes go on
    container = runtime.new(bundle.args("sleep", "1000"))
    argv = container.argv("run")
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as run:
        wait_for(lambda: container.call("state").out.find('"running"') > 0, "it does not run")
        run.send_signal(signal.SIGSTOP)
        container.call("delete", "--force").ok()
        other = make_bundle().args("sleep", "1000")
        container.bundle = other
        container.create().ok()
        container.call("start").ok()
        run.send_signal(signal.SIGCONT)
        assert run.wait(20) == 137
    assert container.state()["status"] == "running"
    container.exec("true").ok()


def test_start_of_run_after_its_container_is_gone(runtime, bundle):
    """poststop hooks run once, by whoever takes the container down."""
    if runtime.name == "runc":
        return
    said = bundle.path / "said"
    hook = {"path": "/bin/sh", "args": ["sh", "-c", f"cat >/dev/null; echo poststop >>{said}"]}
    bundle.config["hooks"] = {"poststop": [hook]}
    container = runtime.new(bundle.args("sleep", "1000"))
    argv = container.argv("run")
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as run:
        wait_for(lambda: container.call("state").out.find('"running"') > 0, "it does not run")
        container.call("delete", "--force").ok()
        assert run.wait(20) == 137
    assert said.read_text() == "poststop\n"

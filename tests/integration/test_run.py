"""`run`: output, input, exit codes, and the program it cannot start."""

import json
import stat

import pytest
from helpers.runtime import wait_for


def test_output_of_the_program(runtime, bundle):
    done = runtime.run(bundle.args("echo", "hello", "from  krun")).ok()
    assert (done.out, done.err) == ("hello from  krun\n", "")


def test_stdout_and_stderr_stay_apart(runtime, bundle):
    done = runtime.run(bundle.shell("echo out; echo err >&2")).ok()
    assert (done.out, done.err) == ("out\n", "err\n")


def test_stdin_reaches_the_program(runtime, bundle):
    done = runtime.run(bundle.args("tr", "a-z", "A-Z"), input="some words\n").ok()
    assert done.out == "SOME WORDS\n"


def test_much_output_is_whole(runtime, bundle):
    done = runtime.run(bundle.shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")).ok()
    assert done.out == "".join(f"line {i}\n" for i in range(20000))


@pytest.mark.parametrize("status", [0, 1, 7, 125, 255])
def test_exit_code(runtime, bundle, status):
    assert runtime.run(bundle.shell(f"exit {status}")).status == status


@pytest.mark.parametrize(("signal", "status"), [("KILL", 137), ("TERM", 143), ("ABRT", 134), ("SEGV", 139)])
def test_death_by_signal_is_128_plus_its_number(runtime, bundle, signal, status):
    # A pid namespace's init ignores what it sends itself: without that namespace.
    bundle.namespaces(drop=("pid",)).shell(f"kill -{signal} $$; sleep 5")
    assert runtime.run(bundle).status == status


@pytest.mark.parametrize("signal", [13, 25])
def test_no_signal_is_ignored_that_python_ignores(runtime, bundle, signal):
    # SIGPIPE and SIGXFSZ: an ignored signal would stay ignored over execve(2).
    done = runtime.run(bundle.namespaces(drop=("pid",)).shell(f"kill -{signal} $$; echo ignored"))
    assert (done.status, done.out) == (128 + signal, "")


def test_pipes_and_substitution(runtime, bundle):
    script = 'for i in 3 1 2; do echo $i; done | sort | tr "\\n" " "; echo "$(echo a; echo b | cat)"; wc -l </etc/group'
    assert runtime.run(bundle.shell(script)).ok().out == "1 2 3 a\nb\n2\n"


def test_background_jobs(runtime, bundle):
    script = "(sleep 0.05; exit 3) & p=$!; (exit 4) & q=$!; wait $p; echo $?; wait $q; echo $?"
    assert runtime.run(bundle.shell(script)).ok().out == "3\n4\n"


def test_script_with_an_interpreter_line(runtime, bundle):
    script = bundle.rootfs / "bin" / "hi"
    script.write_text('#!/bin/sh -e\necho "$0" "$@"\n')
    script.chmod(0o755)
    assert runtime.run(bundle.args("hi", "a b", "c")).ok().out == "/bin/hi a b c\n"


def test_trap_and_kill_inside(runtime, bundle):
    script = "trap 'echo got; exit 9' USR1; kill -USR1 $$; sleep 5"
    done = runtime.run(bundle.shell(script))
    assert (done.out, done.status) == ("got\n", 9)


def test_init_is_pid_1(runtime, bundle):
    assert runtime.run(bundle.shell("echo $$")).ok().out == "1\n"


def test_writes_stay_in_the_root(runtime, bundle):
    runtime.run(
        bundle.shell("echo data >/etc/new; chmod 640 /etc/new; mkdir /d; ln -s new /etc/link; mv /tmp /t")
    ).ok()
    new = bundle.rootfs / "etc" / "new"
    assert new.read_text() == "data\n" and stat.S_IMODE(new.stat().st_mode) == 0o640
    assert (bundle.rootfs / "d").is_dir() and (bundle.rootfs / "etc" / "link").is_symlink()


def test_read_only_root(runtime, bundle):
    bundle.config["root"]["readonly"] = True
    done = runtime.run(bundle.shell("echo x >/etc/new"))
    assert done.status != 0 and "Read-only file system" in done.err


def test_detach_leaves_it_running(runtime, bundle):
    container = runtime.new(bundle.args("sleep", "1000"))
    pid_file = runtime.work / "pid"
    runtime.call(
        "run", "--detach", "--bundle", bundle.write(), "--pid-file", str(pid_file), container.id
    ).ok()
    container.pid = int(pid_file.read_text())
    assert container.state()["status"] == "running" and container.state()["pid"] == container.pid
    container.call("kill", "KILL").ok()
    assert container.wait() == 137
    container.call("delete").ok()


def test_run_deletes_its_container(runtime, bundle):
    container = runtime.new(bundle)
    runtime.call("run", "--bundle", bundle.write(), container.id).ok()
    assert runtime.call("state", container.id).status != 0
    assert container.left() == []


def test_orphans_end_with_init(runtime, bundle):
    """The pid namespace dies with its init: nothing of the container goes on."""
    container = runtime.new(bundle.shell("sleep 1000 & sleep 1000 & echo up"))
    assert runtime.call("run", "--bundle", bundle.write(), container.id).ok().out == "up\n"
    wait_for(lambda: container.processes() == [], "orphans still run")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("/no/such", ("no such file or directory",)),
        ("nosuch", ("executable file not found in $path",)),
        ("/etc/passwd", ("permission denied",)),
        # The second since runc 1.2.
        ("/etc", ("permission denied", "is a directory")),
    ],
)
def test_program_that_cannot_be_started(runtime, bundle, program, words):
    done = runtime.run(bundle.args(program))
    assert done.status not in (0, 137) and any(w in done.err.lower() for w in words), done


def test_file_in_path_that_may_not_be_executed(runtime, bundle):
    """It counts as none: engines tell 127 from 126 by these words."""
    bundle.process["env"] = ["PATH=/etc"]
    done = runtime.run(bundle.args("passwd"))
    assert done.status not in (0, 137) and "executable file not found in $path" in done.err.lower(), done


def test_not_an_executable_format(runtime, bundle):
    """Found out at the latest when the program should start: an error, not a success."""
    file = bundle.rootfs / "bin" / "text"
    file.write_text("just text\n")
    file.chmod(0o755)
    done = runtime.run(bundle.args("/bin/text"))
    assert done.status != 0 and "exec format error" in done.err.lower(), done


def test_environment_is_the_configs_alone(runtime, bundle):
    bundle.process["env"] = ["PATH=/bin", "A=1", "EMPTY=", "SPACE=a b"]
    out = runtime.run(bundle.args("env")).ok().out.splitlines()
    # runc adds HOME from /etc/passwd.
    assert sorted(out) == ["A=1", "EMPTY=", "HOME=/root", "PATH=/bin", "SPACE=a b"]


def test_state_while_running(runtime, bundle):
    container = runtime.start(bundle.args("sleep", "1000"))
    state = container.state()
    wanted = {"ociVersion", "id", "pid", "status", "bundle"}
    assert wanted <= set(state), json.dumps(state)
    assert (state["id"], state["status"], state["bundle"]) == (container.id, "running", str(bundle.path))

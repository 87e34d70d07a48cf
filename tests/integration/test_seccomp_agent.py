"""SCMP_ACT_NOTIFY: an agent that is written for the kernel's listener (helpers/seccomp_agent.c) sees with krun what it sees with runc,
and so does the program (helpers/seccomp_program.c)."""

import os
from pathlib import Path

import pytest
from helpers.runtime import wait_for
from helpers.seccompagent import Agent, build, profile


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    return build("seccomp_agent.c", folder / "agent"), build(
        "seccomp_program.c", folder / "program", "-static"
    )


@pytest.fixture
def agent(programs, tmp_path):
    made = Agent(programs[0], tmp_path)
    yield made
    made.close()


@pytest.fixture
def asked(bundle, agent, programs):
    """A bundle whose profile has the agent; its program is helpers/seccomp_program.c."""
    (bundle.rootfs / "program").write_bytes(programs[1].read_bytes())
    (bundle.rootfs / "program").chmod(0o755)
    (bundle.rootfs / "tmp").mkdir(exist_ok=True)
    bundle.config["root"]["readonly"] = False
    bundle.linux["seccomp"] = profile(agent.path)
    return bundle


WORDS = ["answers", "memory", "descriptors", "threads", "processes"]


@pytest.mark.parametrize("word", WORDS)
def test_what_an_agent_does(runtime, asked, agent, observe, word):
    """Values, errnos, CONTINUE; memory both ways; descriptors with each flag; threads, fork, vfork, execve."""
    done = runtime.run(asked.args("/program", word)).ok()
    agent.until("hang-up")
    observe(done.out, "the program")
    observe(agent.calls(), "the agent")


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_a_signal_waits_for_a_received_call(runtime, asked, agent):
    """SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (Linux 5.19), which runc 1.1.5 does not know."""
    asked.linux["seccomp"]["flags"] = ["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]
    container = runtime.start(asked.args("/program", "eintr"))
    agent.until("waiting")
    wait_for(lambda: _pending(container.pid), "no signal is pending")
    agent.answer_late()
    assert container.wait() == 0 and container.out() == "caught\ninterrupted: 33, caught 1\n"


def _pending(pid: int) -> bool:
    text = Path(f"/proc/{pid}/status").read_text()
    return any(int(line.split()[1], 16) for line in text.split("\n") if line.startswith("ShdPnd"))


@pytest.mark.parametrize("word", ["eintr", "restart"])
def test_a_signal_ends_the_wait(runtime, asked, agent, observe, word):
    """The answer to a call that a signal has ended is ENOENT; with SA_RESTART the agent hears of the call again."""
    container = runtime.start(asked.args("/program", word))
    agent.until("waiting")
    wait_for(lambda: "caught" in container.out(), "not caught")
    agent.answer_late()
    if word == "restart":
        agent.until("waiting", 2)
        agent.answer_late()
    assert container.wait() == 0
    agent.until("hang-up")
    observe(container.out())
    observe(agent.calls())


@pytest.mark.parametrize("word", ["fork-while-waiting", "looked-at"])
def test_what_the_program_does_not_notice_the_agent_does_not(runtime, asked, agent, observe, word):
    """A fork of another thread, and a look at the waiting process's /proc: with krun these interrupt the thread."""
    container = runtime.start(asked.args("/program", word))
    agent.until("waiting")
    wait_for(lambda: "done" in container.out(), "the others are not done")
    agent.answer_late()
    assert container.wait() == 0
    agent.until("hang-up")
    observe(container.out())
    observe(agent.calls())


def test_what_the_agent_lets_pass_is_this_call(runtime, asked, agent):
    """An interrupted call is made again by the program's instruction, which the program has changed meanwhile."""
    asked.linux["seccomp"] = profile(agent.path, "nanosleep", "getpgrp")
    assert runtime.run(asked.args("/program", "changed")).ok().out == "unheard: 0\n"


def test_the_caller_is_killed(runtime, asked, agent, observe):
    container = runtime.start(asked.args("/program", "killed"))
    wait_for(lambda: "killed" in container.out(), "not killed")
    agent.answer_late()
    assert container.wait() == 0
    agent.until("hang-up")
    observe(container.out())
    observe(agent.calls())


def test_all_at_once(runtime, asked, agent, observe):
    """Threads, processes, signals each 3 ms, questions of other monitors: each call is answered once, and rightly."""
    done = runtime.run(asked.args("/program", "stress")).ok()
    assert done.out == "stress: 0 bad, signals 1\n", (done, agent.calls())
    observe(done.out)


def test_the_process_ends_meanwhile(runtime, asked, agent, observe):
    container = runtime.start(asked.args("/program", "exits"))
    agent.until("waiting")
    assert container.wait() == 5
    agent.answer_late()
    agent.until("hang-up")
    observe(agent.calls())


def test_the_agent_ends(runtime, asked, agent, observe):
    """ENOSYS for the call that waits, and for all that follow."""
    observe(runtime.run(asked.args("/program", "agent-dies")).ok().out)
    observe(agent.calls())


def test_the_message_for_the_agent(runtime, asked, agent, observe):
    """The ContainerProcessState of create and of exec; each brings a listener of its own."""
    asked.linux["seccomp"]["listenerMetadata"] = "a word"
    asked.config["annotations"] = {"org.example.key": "value"}
    container = runtime.start(asked.args("/program", "wait"))
    first = agent.states()
    assert len(first) == 1 and first[0]["pid"] == container.pid == first[0]["state"]["pid"]
    done = container.exec("/program", "one").ok()
    agent.until("hang-up")
    assert "there" in done.out and "mkdir /tmp/one 750: 0" in agent.calls()
    states = agent.states()
    assert len(states) == 2 and states[1]["pid"] != container.pid
    versions = {state.pop("ociVersion") for state in states}
    for state in states:
        state.pop("pid")
        versions.add(state["state"].pop("ociVersion"))
        assert state["state"].pop("pid") == container.pid
        assert state["state"].pop("id") == container.id
        assert state["state"].pop("bundle") == str(asked.path)
    assert len(versions) == 1
    observe(states)
    container.call("kill", "KILL").ok()
    container.wait()  # before Linux 6.11 a process gives its filters back when it has been waited for (release_task())
    agent.until("hang-up", 2)


@pytest.mark.parametrize("verb", ["run", "create"])
def test_no_agent(runtime, asked, agent, verb):
    """Nothing runs, and nothing is left, without an agent."""
    agent.close()
    os.unlink(agent.path)
    asked.args("/program", "one")
    done = runtime.run(asked) if verb == "run" else runtime.new(asked).create()
    assert done.status == 1 and str(agent.path) in done.err, done
    assert not (asked.rootfs / "tmp/one").exists()


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_every_call_is_notified(runtime, asked, agent):
    """What the agent lets pass is served, whatever host's calls serve it; the kernel's copy of the profile has the relay decide on
    these. runc's own start would need the agent for hundreds of calls of Go's."""
    from krun.kvm.calls import CALLS

    names = [name for name, _, _ in CALLS.values() if name != "write"]
    asked.linux["seccomp"] = profile(agent.path, *names, default="SCMP_ACT_ERRNO")
    asked.linux["seccomp"]["syscalls"].append({"names": ["write"], "action": "SCMP_ACT_ALLOW"})
    script = """set -e
cd /tmp; mkdir a; mkdir -p b/c; echo x > a/x; ln -s x a/l; ln a/x a/h; cat a/l; mv a/x b/y; chmod 600 b/y; chown 1:1 b/y
mknod b/p p; touch -d @5 b/y; stat -c '%a %u %g %Y' b/y; rm -r a; rmdir b/c; (exit 3) || echo $?; sleep 0.01 & wait
mount -t tmpfs none /mnt; echo z > /mnt/z; umount /mnt; ls /mnt | wc -l; hostname h; hostname; kill -0 $$; ulimit -n 99; ulimit -n
"""
    asked.process["capabilities"] = {
        kind: ["CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_CHOWN", "CAP_FOWNER", "CAP_DAC_OVERRIDE"]
        for kind in ("bounding", "effective", "permitted")
    }
    (asked.rootfs / "mnt").mkdir(exist_ok=True)
    done = runtime.run(asked.shell(script)).ok()
    assert done.out == "x\n600 1 1 5\n3\n0\nh\n99\n", done
    agent.until("hang-up")


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_the_relay_goes_with_its_container(runtime, asked, agent):
    """One process for each container and exec, which holds nothing else; none is left when the agent has closed its file."""
    container = runtime.start(asked.args("/program", "wait"))
    relays = _relays(agent.path)
    assert len(relays) == 1
    links = sorted(os.readlink(f"/proc/{relays[0]}/fd/{n}") for n in os.listdir(f"/proc/{relays[0]}/fd"))
    assert links[:5] == ["/dev/fuse", "/dev/null", "/dev/null", "/dev/null", "anon_inode:seccomp notify"], (
        links
    )
    container.call("kill", "KILL").ok()
    container.wait()
    agent.until("hang-up")
    wait_for(lambda: not _relays(agent.path), "the relay is still there")


def _relays(path) -> list[int]:
    """The processes krun-notify whose container has this agent."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if Path(f"/proc/{name}/comm").read_text() == "krun-notify\n":
                    if Path(f"/proc/{name}/cmdline").read_bytes().find(os.fsencode(path.parent)) >= 0:
                        found.append(int(name))
            except OSError:
                continue
    return found

"""A container's teardown and clone without a host: what is tried when something fails, and what stays."""

from __future__ import annotations

import os
import subprocess
from errno import EAGAIN, EBUSY, ENOENT, ESRCH
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from krun import sysio
from krun.errors import KrunError, SysError
from krun.log import Log
from krun.oci import enter, spawn, state, sync, talk, teardown, wake
from krun.oci import exec as exec_verb
from krun.oci.cgroup import group


@pytest.fixture
def statedir(tmp_path: Path) -> state.StateDir:
    made = state.StateDir(str(tmp_path / "root"), "box")
    made.create()
    return made


def fails(message: str) -> Any:
    def step(state: Any, config: Any, log: Any) -> None:
        raise KrunError(message)

    return step


def test_everything_is_tried_and_the_state_stays_while_anything_does(
    statedir: state.StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    hook = {"path": "/usr/bin/touch", "args": ["touch", f"{tmp_path}/poststop"]}
    config = {"hooks": {"poststop": [hook]}}
    with monkeypatch.context() as patch:
        patch.setattr(teardown, "_destroy_cgroup", fails("the cgroup is busy"))
        patch.setattr(teardown, "_detach_root", fails("the root is busy"))
        with pytest.raises(KrunError, match="the cgroup is busy"):
            teardown.take_down(statedir, state.ContainerState(id="box"), config, Log())
    assert "the root is busy" in capfd.readouterr().err
    assert statedir.exists() and not (tmp_path / "poststop").exists()
    teardown.take_down(statedir, state.ContainerState(id="box"), config, Log())
    assert not statedir.exists() and (tmp_path / "poststop").exists()


def test_a_create_that_came_to_nothing_runs_no_poststop_hook(
    statedir: state.StateDir, tmp_path: Path
) -> None:
    hook = {"path": "/usr/bin/touch", "args": ["touch", f"{tmp_path}/poststop"]}
    config = {"hooks": {"poststop": [hook]}}
    teardown.take_down(statedir, state.ContainerState(id="box"), config, Log(), hooks=False)
    assert not statedir.exists() and not (tmp_path / "poststop").exists()


def test_a_unit_that_was_not_made_is_not_stopped(
    statedir: state.StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd refused the scope because another container has one of that name."""
    from krun.oci.container import Container

    touched: list[str] = []
    monkeypatch.setattr(group.Cgroup, "kill", lambda self, signal=9: touched.append("kill"))
    monkeypatch.setattr(group.Cgroup, "destroy", lambda self, wait=5.0: touched.append("destroy"))
    paths = {"": "/sys/fs/cgroup/system.slice/other.scope"}
    recorded = state.ContainerState(id="box", cgroup_paths=paths, manager="systemd:other.scope")
    container = Container(SimpleNamespace(hooks={}), statedir, recorded, Log())  # type: ignore[arg-type]
    container.cgroup = group.Cgroup(paths, Log(), "systemd:other.scope")
    container.cgroup.pending = ({}, False, [])
    container.undo()
    assert touched == [] and not statedir.exists()


@pytest.mark.parametrize("why", [EAGAIN, EBUSY], ids=["no room for two", "its groups have controllers"])
def test_a_cgroup_that_nobody_is_born_in_is_joined_later(monkeypatch: pytest.MonkeyPatch, why: int) -> None:
    asked: list[int] = []

    def clone_inside(
        flags: int, pid_ns: int, others: Any, root: int, cgroup: int, keep: Any, name: str
    ) -> int:
        asked.append(cgroup)
        if cgroup >= 0:
            raise SysError("clone3", "", why)
        return 7

    monkeypatch.setattr(spawn, "clone_inside", clone_inside)
    child = SimpleNamespace(birth_root=-1, in_cgroup=True, held=list, ctx=SimpleNamespace(cgroup_fd=5))
    child.join_all, child.join_fds = None, {}
    assert spawn._clone_inside(child, 0, 4, "") == 7  # type: ignore[arg-type]
    assert asked == [5, -1] and not child.in_cgroup


@pytest.mark.parametrize(
    ("groups", "late", "joined"),
    [
        ("0::/kt/box/init\n", "/sys/fs/cgroup/kt/box", "/sys/fs/cgroup/kt/box/init"),
        ("4:pids:/kt/box\n0::/kt/box/init\n", "/sys/fs/cgroup/kt/box", "/sys/fs/cgroup/kt/box/init"),
        ("0::/kt/box\n", "/sys/fs/cgroup/kt/box", ""),
        ("0::/kt/boxes/other\n", "/sys/fs/cgroup/kt/box", ""),
        ("0::/../elsewhere\n", "/sys/fs/cgroup/kt/box", ""),
        ("0::/kt/box/init\n", "/sys/fs/cgroup/kt/box/chosen", ""),  # by --cgroup
    ],
)
def test_exec_joins_the_group_of_the_init_where_nobody_may_be_in_the_containers(
    monkeypatch: pytest.MonkeyPatch, groups: str, late: str, joined: str
) -> None:
    written: list[str] = []

    def write_file(path: str, text: str) -> None:
        written.append(path)
        if path == f"{late}/cgroup.procs":
            raise SysError("write", path, EBUSY)

    monkeypatch.setattr(talk, "write_file", write_file)
    monkeypatch.setattr(talk, "read_file", lambda path: groups.encode())
    recorded = state.ContainerState(id="box", pid=1, cgroup_paths={"": "/sys/fs/cgroup/kt/box"})
    conversation = talk.ExecTalk(spawn.Launched(7, -1), -1, False, [], recorded, late, [])
    if joined:
        conversation.on_cgroup()
        assert written[1:] == [f"{joined}/cgroup.procs"]
    else:
        with pytest.raises(SysError):
            conversation.on_cgroup()
        assert written == [f"{late}/cgroup.procs"]


def test_exec_reads_nothing_by_a_number_that_may_be_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The init ends while exec looks at it, and a process of the host gets its number: the host's namespaces must not be entered."""
    namespaces = enter.differing_namespaces
    own = os.getpid()
    theirs = state.ContainerState(id="box", pid=own, start_time=state.process_start_time(own))
    reused = []

    def read_after_the_end(pid: int) -> int:
        reused.append(pid)
        return namespaces(pid)

    monkeypatch.setattr(enter, "differing_namespaces", read_after_the_end)
    monkeypatch.setattr(enter, "process_start_time", lambda pid: theirs.start_time + (1 if reused else 0))
    monkeypatch.setattr(enter, "open_root", lambda state: -1)
    monkeypatch.setattr(enter.labels, "check_lsm", lambda *words: "")
    monkeypatch.setattr(enter, "build_exec", lambda *words: SimpleNamespace(new_cgroup_ns=False))
    for name in ("open_for_child", "open_cgroup"):
        monkeypatch.setattr(enter, name, lambda *words: None)
    monkeypatch.setattr(enter, "cgroup_paths", lambda *words: {})
    monkeypatch.setattr(enter, "open_board", lambda *words: -1)
    monkeypatch.setattr(enter.seccomp, "compile_filter", lambda *words: b"")
    monkeypatch.setattr(enter.cred, "warn_unavailable", lambda *words: None)
    monkeypatch.setattr(enter, "_spawn_on", lambda cpus, child, flags: pytest.fail("a process was started"))
    process: Any = SimpleNamespace(cpu_initial="", cpu_final="")
    config: Any = SimpleNamespace(seccomp=None)
    with pytest.raises(KrunError, match="cannot exec in a stopped container"):
        enter.exec_process(config, theirs, process, enter.ExecOptions("/nowhere", "box", Log()))


def test_a_directory_that_another_create_fills_is_left(statedir: state.StateDir) -> None:
    """Between mkdir and lock, a `delete` may have removed ours, and another create have made its own."""
    with statedir.lock():
        statedir.check_empty()
        statedir.write(state.STATE_FILE, b"{}")
        with pytest.raises(KrunError, match="already exists"):
            statedir.check_empty()
    assert statedir.exists()


def test_another_container_with_the_id_is_left(statedir: state.StateDir) -> None:
    from krun.oci.container import Container

    ours = state.ContainerState(id="box", created="2026-01-01T00:00:00.000000001Z", pid=5)
    statedir.save(state.ContainerState(id="box", created="2026-01-01T00:00:00.000000002Z", pid=5))
    container = Container(SimpleNamespace(hooks={}), statedir, ours, Log())  # type: ignore[arg-type]
    container.destroy()
    assert statedir.load().created.endswith("2Z")
    statedir.save(ours)
    container.destroy()
    container.destroy()
    assert not statedir.exists()


def test_start_of_a_container_that_is_just_dying(statedir: state.StateDir) -> None:
    """Its process has closed its files, and is no zombie yet: a pid namespace waits for its last processes."""
    os.mkfifo(f"{statedir.path}/{state.START_FIFO}")
    recorded = state.ContainerState(
        id="box", pid=os.getpid(), start_time=state.process_start_time(os.getpid())
    )
    statedir.save(recorded)
    with pytest.raises(KrunError, match="cannot start a container that has stopped"):
        wake.start(statedir, "", Log())


def test_exec_while_create_is_at_work(statedir: state.StateDir) -> None:
    """No pid is known yet."""
    opts = SimpleNamespace(preserve_fds=None, logger=Log(), root=statedir.root, id="box", ignore_paused=False)
    statedir.save(state.ContainerState(id="box"))
    with statedir.lock(), pytest.raises(KrunError, match="cannot exec in a container that is being created"):
        exec_verb._exec(opts)  # type: ignore[arg-type]


def test_a_child_that_dies_while_its_request_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """`delete --force`, or the end of the pid namespace: the answer finds nobody, and the reason is how the child went."""
    ours, theirs = sysio.socketpair()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        sync.send(theirs, sync.CGROUP)
        os._exit(7)
    os.close(theirs)
    conversation = talk.Conversation(spawn.Launched(pid, -1), ours)
    monkeypatch.setattr(
        talk.Conversation, "on_cgroup", lambda self: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    )
    with pytest.raises(KrunError, match="ended with code 7 before it was ready"):
        conversation.run()
    os.close(ours)


def test_what_takes_long_to_close_is_closed_while_the_child_works() -> None:
    """The child looks after the answer to its request: until then it waits, and a close would hold it up."""
    ours, theirs = sysio.socketpair()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        os.close(writing)
        sync.send(theirs, sync.CGROUP)
        answered = sync.receive(theirs)[0] == sync.GO
        closed = os.read(reading, 1) == b""
        sync.send(theirs, sync.READY)
        os._exit(0 if answered and closed else 1)
    os.close(theirs)
    os.close(reading)
    later = [writing]
    conversation = talk.ExecTalk(
        spawn.Launched(pid, -1), ours, False, [], state.ContainerState(id="box"), "", later
    )
    conversation.run()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 and not later
    os.close(ours)


@pytest.mark.parametrize(
    "error",
    [SysError("setns", "pid namespace", ESRCH), KrunError("the container's process died of signal 9")],
)
def test_exec_beside_an_init_that_dies_says_that_the_container_is_stopped(error: KrunError) -> None:
    """An init without namespaces is no zombie yet: it waits for its relatives."""
    with subprocess.Popen(["sleep", "0.05"]) as init:
        pidfd = os.pidfd_open(init.pid)
        try:
            told = enter._if_stopped(error, pidfd).message
        finally:
            os.close(pidfd)
    assert told == f"cannot exec in a stopped container: {error.message}"


def test_exec_says_nothing_of_an_init_that_lives() -> None:
    pidfd = os.pidfd_open(os.getpid())
    error = SysError("find program", "x", ENOENT)
    try:
        assert enter._if_stopped(error, pidfd) is error
    finally:
        os.close(pidfd)


def test_start_of_a_monitor_that_dies_before_it_is_woken_says_that_it_has_stopped() -> None:
    reader, begin = os.pipe()
    os.close(reader)
    try:
        with pytest.raises(KrunError, match="cannot start a container that has stopped"):
            wake.wake(begin, -1, -1)
    finally:
        os.close(begin)


@pytest.mark.root
def test_hooks_where_krun_could_not_come_back_to(tmp_path: Path) -> None:
    """An ordinary user's krun, called in a directory of root's: create with a hook ended with EACCES."""
    bundle: Any = SimpleNamespace(hooks={"prestart": [{"path": "/bin/true"}]}, bundle="/")
    container: Any = SimpleNamespace(spec=bundle, state=state.ContainerState(id="box"))
    (tmp_path / "private").mkdir(mode=0o700)
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(tmp_path / "private")
            os.setresuid(1000, 1000, 1000)
            talk.CreateTalk(container, spawn.Launched(1, -1), -1, True, []).on_hooks()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0

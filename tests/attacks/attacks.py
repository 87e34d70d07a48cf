"""The attacks: one row a program (NAME.c), how each is run, and what counts as won.

A new attack is a file and a row.  By hand:

    .venv/bin/python tests/attacks/attacks.py [--tree DIR] [--seconds S] [NAME...]

runs rows in containers of `krun run`'s kind and prints a line for each; --tree names another built checkout of krun (the one
before a mend, where the attack has to win).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [p for p in (str(ROOT), str(ROOT / "tests")) if p not in sys.path]

from helpers.bundle import Bundle  # noqa: E402
from helpers.runtime import Container, Runtime, wait_for  # noqa: E402
from helpers.settings import CALLS, complete_calls  # noqa: E402

from attacks import profile  # noqa: E402
from attacks.oracle import Canaries, Monitor, Watcher  # noqa: E402

BUILD = ROOT / "build" / "attacks"
CFLAGS = "-std=gnu11 -O1 -g -static -pthread -Wall -Wextra -Wno-unused-result -Wno-clobbered".split()
WON = 42

#: Docker's and podman's default set (podman's lacks MKNOD and NET_RAW).
CAPABILITIES = [
    f"CAP_{name}"
    for name in (
        "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT"
        " KILL AUDIT_WRITE"
    ).split()
]


@dataclasses.dataclass(frozen=True)
class User:
    """Who attacks."""

    name: str
    uid: int
    capabilities: tuple[str, ...]


ROOT_USER = User("root", 0, tuple(CAPABILITIES))
USER = User("user", 1000, ())
#: As --cap-add SYS_PTRACE: undumpable processes of its user namespace hide nothing from it.
TRACER = User("tracer", 0, (*CAPABILITIES, "CAP_SYS_PTRACE"))
#: As --cap-add SYS_PTRACE,SYS_ADMIN: may enter namespaces, those of processes that it may trace.
ADMINISTRATOR = User("administrator", 0, (*CAPABILITIES, "CAP_SYS_PTRACE", "CAP_SYS_ADMIN"))
#: A user of whom the host has no other process: RLIMIT_NPROC counts the processes of all containers.
LONELY = User("lonely", 4711, ())
BOTH = (ROOT_USER, USER)

#: Changes the bundle before it is written.
Prepare = Callable[[Bundle], None]
#: Goes on beside the attack, in a thread, until the event is set.
Beside = Callable[["Run", threading.Event], None]


@dataclasses.dataclass(frozen=True)
class Attack:
    """A row of the table."""

    name: str
    users: tuple[User, ...] = BOTH
    #: Seconds in `./dev test`; `./dev fuzz` gives more.
    seconds: float = 5
    args: tuple[str, ...] = ()
    prepare: tuple[Prepare, ...] = ()
    beside: tuple[Beside, ...] = ()
    #: Also under podman and docker, with the engine's defaults.
    engines: bool = False
    #: Calls are completed inside the guest (calls.local, calls.sockets: on, docs/calls.md).
    local: bool = False


# ---- ingredients


def limit(name: str, soft: int, hard: int) -> Prepare:
    """A resource limit, as --ulimit."""

    def prepare(bundle: Bundle) -> None:
        limits = [row for row in bundle.process.get("rlimits", ()) if row["type"] != name]
        bundle.process["rlimits"] = [*limits, {"type": name, "soft": soft, "hard": hard}]

    return prepare


def unfiltered(bundle: Bundle) -> None:
    """Without a seccomp profile: docker's allows only a few values of personality(2)."""
    bundle.linux.pop("seccomp")


def checkpointer(bundle: Bundle) -> None:
    """What CRIU has in a container: the next SysV id is its choice (kernel.shm_next_id)."""
    unfiltered(bundle)
    bundle.linux["readonlyPaths"] = []
    for name in ("bounding", "effective", "permitted"):
        bundle.process["capabilities"][name] += ["CAP_SYS_ADMIN", "CAP_CHECKPOINT_RESTORE"]


def administrator(bundle: Bundle) -> None:
    """As --cap-add SYS_ADMIN --security-opt seccomp=unconfined: mount(2) works."""
    unfiltered(bundle)
    for name in ("bounding", "effective", "permitted"):
        bundle.process["capabilities"][name] += ["CAP_SYS_ADMIN"]


def searcher(bundle: Bundle) -> None:
    """As --cap-add DAC_READ_SEARCH --security-opt seccomp=unconfined: open_by_handle_at(2) works; with every device."""
    unfiltered(bundle)
    bundle.linux["resources"]["devices"] = [{"allow": True, "access": "rwm"}]
    for name in ("bounding", "effective", "permitted"):
        bundle.process["capabilities"][name] += ["CAP_DAC_READ_SEARCH"]


def host_pid_namespace(bundle: Bundle) -> None:
    """As --pid=host: krun's own processes are in sight."""
    bundle.namespaces(drop=("pid",))


def root_renamed(bundle: Bundle) -> None:
    """Between the mounts and the masks, somebody who shares the root directory renames /proc and makes another."""
    hook, root = bundle.path / "rename", bundle.rootfs
    hook.write_text(f"#!/bin/sh\nmv {root}/proc {root}/renamed && mkdir {root}/proc\n")
    hook.chmod(0o755)
    bundle.config["hooks"] = {"createRuntime": [{"path": str(hook)}]}


def few_tasks(bundle: Bundle) -> None:
    """As --pids-limit."""
    bundle.linux.setdefault("resources", {})["pids"] = {"limit": 40}


def host_socket_name(bundle: Bundle) -> None:
    """Where host_socket listens."""
    bundle.process["env"].append(
        f"HOST_SOCKET=/tmp/krun-host-{os.getpid()}-{bundle.process['user']['uid']}.sock"
    )


def user_namespace(bundle: Bundle) -> None:
    """As --userns-remap: the container's root is an ordinary user of the host, and may all in its own namespace."""
    bundle.namespaces(add=("user",))
    for kind in ("uidMappings", "gidMappings"):
        bundle.linux[kind] = [{"containerID": 0, "hostID": 100000, "size": 65536}]
    # Its root must be able to pass the directories that a test has made.
    for folder in bundle.path.parents:
        if folder in (Path("/tmp"), Path("/")):
            break
        folder.chmod(folder.stat().st_mode | 0o011)


class NothingWorked(AssertionError):
    """What should have gone on beside the attack did not: that the attack lost proves nothing."""


def exec_true(run: Run, end: threading.Event, user: str = "0:0") -> None:
    """`krun exec` of something harmless, again and again; the attack may make some of them fail, but not all."""
    done = []
    while not end.is_set():
        done.append(run.container.exec("/bin/true", options=("--user", user)))
    if len(done) > 2 and not any(result.status == 0 for result in done):
        raise NothingWorked(f"no exec has worked: {done[:1]}")


def exec_as_user(run: Run, end: threading.Event) -> None:
    """The same as the attacker's user: the kernel's rule lets the attacker look at it."""
    exec_true(run, end, "1000:1000")


def create_beside(run: Run, end: threading.Event) -> None:
    """A second container that is created into the pid namespace of the first, and deleted, again and again."""
    done = []
    while not end.is_set():
        bundle = Bundle(run.work / "beside", root=run.bundle.rootfs)
        bundle.namespace_path("pid", f"/proc/{run.container.pid}/ns/pid")
        second = run.runtime.new(bundle.args("/bin/true"))
        run.ids.append(second.id)
        done.append(second.create())
        second.call("delete", "--force")
        reap_adopted(run.work / f"{second.id}.pid")
    if len(done) > 2 and not any(result.status == 0 for result in done):
        raise NothingWorked(f"no create has worked: {done[:1]}")


def bystander(run: Run, end: threading.Event) -> None:
    """A process of the host with the attacker's user and no capability: the kernel lets the attacker look at it."""
    command = ["setpriv", f"--reuid={run.user.uid}", f"--regid={run.user.uid}", "--clear-groups"]
    command += ["--inh-caps=-all", "--bounding-set=-all", "/usr/bin/sleep", "600"]
    with subprocess.Popen(command, cwd="/", stdin=subprocess.DEVNULL) as process:
        end.wait()
        if process.poll() is not None:
            raise NothingWorked(f"the bystander has ended: {process.returncode}")
        process.kill()


def host_socket(run: Run, end: threading.Event) -> None:
    """A socket of the host that greets everybody who connects."""
    name = next(word.split("=")[1] for word in run.bundle.process["env"] if word.startswith("HOST_SOCKET="))
    with socket.socket(socket.AF_UNIX) as listener:
        Path(name).unlink(missing_ok=True)
        listener.bind(name)
        try:
            os.chmod(name, 0o777)
            listener.listen(100)
            listener.settimeout(0.05)
            while not end.is_set():
                with contextlib.suppress(OSError):
                    with listener.accept()[0] as caller:
                        caller.send(b"HOST")
        finally:
            Path(name).unlink()


def reap_adopted(pid_file: Path) -> None:
    """Waits for the init of a deleted container.  Until that is done the pid namespace that it was in does not end."""
    try:
        os.waitpid(int(pid_file.read_text()), 0)
    except (OSError, ValueError):
        pass  # it was never made, or is nobody's child here


# ---- the table

ATTACKS = (
    Attack("control_peace", seconds=2, engines=True),
    # Memory and the loader.
    Attack("elf_segment_beyond", engines=True),
    Attack("elf_mutated"),
    Attack("layout_stack_limit", seconds=8, engines=True),
    Attack("layout_stack_race"),
    Attack("layout_personality", prepare=(unfiltered,)),
    Attack("map_edges"),
    Attack("shm_reused_id", users=(ROOT_USER,), prepare=(checkpointer,)),
    # Descriptors and execve.
    Attack("clone_vfork_leader_exits"),
    Attack("clone_copies_vcpu"),
    Attack("fd_rights_of_another_file"),
    Attack("fd_close_races_vcpu"),
    Attack("fd_keeps_vcpu", seconds=10),
    Attack("fd_leases", (ROOT_USER,), 2),
    Attack("exec_forged_boot", engines=True),
    Attack("exec_own_monitor", engines=True),
    Attack("exec_number_sweep"),
    Attack("exec_target_swapped"),
    Attack("exec_filter_lost"),
    Attack("exec_binfmt_misc", seconds=2, prepare=(unfiltered,)),
    # Paths and /proc.
    Attack("fd_symlink_stat", engines=True),
    Attack("path_links_hidden", seconds=10, engines=True),
    Attack("path_truncate_mem", engines=True),
    Attack("path_read_temporary"),
    Attack("path_swap_open"),
    Attack("proc_list_swap"),
    Attack("proc_outer_number"),
    Attack("proc_equal_number", (*BOTH, TRACER), seconds=8, prepare=(unfiltered,)),
    Attack("proc_detached_list", seconds=2, prepare=(unfiltered,)),
    Attack("proc_detached_list", (ROOT_USER,), 2, prepare=(administrator,)),
    Attack("proc_map_names", seconds=2, engines=True),
    Attack("landlock_answers", seconds=2, engines=True),
    Attack("ask_domain_race", seconds=4),
    Attack("proc_stat_addresses", seconds=2),
    Attack("cred_dumpable", (ROOT_USER,), 2),
    Attack("cred_exec_dumpable", (ROOT_USER,), 1),
    Attack("proc_own_rights", seconds=1),
    Attack("proc_owned_moment", (USER,), 3),
    Attack("proc_own_rights", (TRACER,), 1, args=("trace",)),
    Attack("path_helper_cwd"),
    Attack("fd_handle_race", (ROOT_USER,), 2, prepare=(searcher,)),
    Attack("path_map_room", seconds=1),
    Attack("path_quota_walk", seconds=1, prepare=(unfiltered,)),
    Attack("path_mount_magic", (ROOT_USER,), prepare=(administrator,)),
    Attack("signal_helper_threads"),
    Attack("signal_child_fault", engines=True),
    Attack("signal_last_words"),
    Attack("path_host_links", prepare=(host_pid_namespace,), beside=(bystander,)),
    Attack(
        "path_host_socket", prepare=(host_pid_namespace, host_socket_name), beside=(bystander, host_socket)
    ),
    Attack("path_host_bind", prepare=(host_pid_namespace,), beside=(bystander,)),
    Attack(
        "path_host_connect",
        (ROOT_USER,),
        4,
        (),
        (host_pid_namespace, host_socket_name),
        (bystander, host_socket),
    ),
    Attack("fd_overlay_layers", seconds=3, prepare=(unfiltered,)),
    Attack("ask_stolen_name", prepare=(unfiltered,)),
    Attack("ask_linger", seconds=3),
    Attack("ask_linger", (ROOT_USER,), 3, ("crowd",), (few_tasks,)),
    Attack("ask_busy", (ROOT_USER,), 2),
    Attack("ask_busy", (ROOT_USER,), 2, ("stopped",)),
    Attack("ask_half_namespace", (LONELY,), seconds=2, prepare=(unfiltered,)),
    Attack("ask_clone_namespace", seconds=1),
    Attack("setns_flags", seconds=2, prepare=(unfiltered,)),
    Attack("clone_tid_address", seconds=1, engines=True),
    # Calls completed inside the guest.
    Attack("local_scribble", local=True),
    Attack("local_sites", local=True),
    Attack("local_file", prepare=(unfiltered,), local=True),
    Attack("local_queue", prepare=(unfiltered,), local=True),
    Attack("local_jump_engine", seconds=10, local=True),
    Attack("local_filter_tsync", prepare=(unfiltered,), local=True),
    Attack("local_ids", (ROOT_USER,), prepare=(unfiltered,), local=True),
    Attack("clone_copies_vcpu", local=True),
    Attack("signal_child_fault", local=True),
    # Locks of the monitor.
    Attack("lock_heir_numbers", prepare=(unfiltered,), seconds=3),
    Attack("lock_heir_numbers", (ROOT_USER,), 8, args=("time",), prepare=(unfiltered,)),
    Attack("lock_stopped_holder", (ROOT_USER,), 3),
    # Relatives that are killed: few descriptors, so that what one keeps is missed soon.
    Attack("bury_alive", prepare=(limit("RLIMIT_NOFILE", 128, 128),)),
    Attack("ask_number_heard"),
    # krun's own processes.
    Attack("krun_proc_scan", (ROOT_USER, TRACER), 10, args=("exec",), beside=(exec_true,)),
    Attack("krun_proc_words", (*BOTH, TRACER), 4, beside=(exec_true,)),
    Attack("krun_proc_net", seconds=4, beside=(exec_true,)),
    Attack("krun_proc_net", (ROOT_USER,), 6, ("userns",), (user_namespace,), (exec_true,)),
    Attack("krun_proc_mounts", (USER,), 3, beside=(exec_true,)),
    Attack("krun_proc_mounts", BOTH, 3, ("userns",), (user_namespace,), (exec_true,)),
    Attack("krun_exec_namespace", (USER,), 4, beside=(exec_true,)),
    Attack("krun_exec_setns", (ADMINISTRATOR,), 3, beside=(exec_true,)),
    Attack("krun_exec_setns", (ADMINISTRATOR,), 3, ("moved",), beside=(exec_true,)),
    Attack("krun_exec_setns", (ADMINISTRATOR,), 3, ("userns",), (user_namespace,), (exec_true,)),
    Attack("krun_proc_words", (ROOT_USER, TRACER), 4, beside=(create_beside,)),
    Attack("proc_auxv_early", (USER,), 4, beside=(exec_as_user,)),
    Attack("proc_environ_early", (ROOT_USER,), 4),
    Attack("krun_proc_scan", (ROOT_USER,), 10, args=("create",), beside=(create_beside,)),
    Attack("krun_proc_scan", (ROOT_USER, TRACER), 10, ("userns",), (user_namespace,), (exec_true,)),
    Attack("krun_limits", (ROOT_USER,), 8, beside=(exec_true, create_beside)),
    Attack("mask_root_renamed", seconds=1, prepare=(root_renamed,)),
    # What the host tells everybody.
    Attack("uevent_vms", seconds=3, engines=True),
    # The kernel's help: filters, native code.
    Attack("jail_exec", seconds=6, engines=True),
    Attack("jail_kvm"),
    # What is written for others.
    Attack("core_of_others", users=(ROOT_USER,), seconds=2, engines=True),
    Attack("core_sysctl_caught", users=(ROOT_USER,), seconds=3),
)


# ---- building


def build(attacks: tuple[Attack, ...] = ATTACKS) -> None:
    """Compiles what is out of date; raises with the compiler's words."""
    BUILD.mkdir(parents=True, exist_ok=True)

    def compile_one(name: str) -> str:
        source, binary = HERE / f"{name}.c", BUILD / name
        newest = max(p.stat().st_mtime for p in (source, *HERE.glob("*.h")))
        if binary.exists() and binary.stat().st_mtime >= newest:
            return ""
        # A test that runs at the same time executes the whole file or the one before.
        fresh = BUILD / f".{name}.{os.getpid()}"
        done = subprocess.run(
            ["gcc", *CFLAGS, "-o", fresh, source], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            fresh.rename(binary)
        return done.stderr

    with ThreadPoolExecutor(2) as pool:
        said = "".join(pool.map(compile_one, sorted({a.name for a in attacks})))
    if said:
        raise RuntimeError(f"attacks do not build without a word:\n{said}")


# ---- running


@dataclasses.dataclass
class Run:
    """One attack by one user in a container made by hand."""

    attack: Attack
    user: User
    seconds: float
    work: Path
    runtime: Runtime
    bundle: Bundle
    container: Container
    #: The ids of all containers that belong to it: what the watcher looks at.
    ids: list[str]


def make_bundle(attack: Attack, user: User, seconds: float, work: Path, canaries: Path) -> Bundle:
    bundle = Bundle(work / "bundle")
    shutil.copy2(BUILD / attack.name, bundle.rootfs / "attack")
    bundle.args("/attack", *attack.args)
    process = bundle.process
    process["env"] = ["PATH=/bin", "HOME=/tmp", *environment(seconds, canaries)]
    process["user"] = {"uid": user.uid, "gid": user.uid}
    process["noNewPrivileges"] = True
    for name in process["capabilities"]:
        held = name in ("bounding", "effective", "permitted")
        process["capabilities"][name] = list(user.capabilities) if held else []
    bundle.linux["seccomp"] = profile.default(list(user.capabilities))
    bundle.linux["resources"].update({"pids": {"limit": 400}, "memory": {"limit": 512 << 20}})
    for prepare in attack.prepare:
        prepare(bundle)
    return bundle


def environment(seconds: float, canaries: Path) -> list[str]:
    return [f"ATTACK_SECONDS={seconds:g}", f"ATTACK_CANARIES={canaries}"]


def run(attack: Attack, user: User, work: Path, *, seconds: float = 0, tree: Path = ROOT) -> list[str]:
    """Runs the attack; returns how it won, an empty list if it did not."""
    seconds = seconds or attack.seconds
    work.mkdir(parents=True, exist_ok=True)
    runtime, monitor, canaries = Runtime("krun", work), Monitor(tree), Canaries()
    runtime.path = tree / "build" / "bin" / "krun"
    runtime.environment["ATTACK_HOST_WORD"] = "of krun's own environment"
    if attack.local or CALLS:
        complete_calls(runtime, "local: on, sockets: on" if attack.local else CALLS)
    try:
        bundle = make_bundle(attack, user, seconds, work, canaries.path)
        container = runtime.create(bundle)
        this = Run(attack, user, seconds, work, runtime, bundle, container, [container.id])
        watcher = Watcher(monitor, this.ids)
        watcher.start()
        try:
            # The created container is a monitor that waits: some attacks are over before the watcher's next look.
            wait_for(lambda: watcher.samples, "the watcher has seen no process: it proves nothing")
            with beside(this):
                container.call("start").ok()
                try:
                    status = container.wait(seconds + 60)
                except AssertionError as e:
                    status, hang = -1, [str(e)]
                else:
                    hang = []
        finally:
            seen = watcher.stop()
        said = container.out()
        won = hang + seen + verdict(status, said) + canaries.problems(said)
        if not monitor.unchanged():
            won.append("the monitor's file is not what it was")
        return won
    finally:
        runtime.clean()
        canaries.remove()


def verdict(status: int, said: str) -> list[str]:
    """What the program itself said, and how it ended."""
    won = [line for line in said.splitlines() if "WON: " in line or "fatal" in line or "broken: " in line]
    if status == WON and not won:
        won.append(f"exit status {status} without a word")
    elif status != 0 and not won:
        won.append(f"exit status {status}: neither won nor lost: {said[-500:]!r}")
    return won


@contextmanager
def beside(run: Run) -> Iterator[None]:
    """The row's ingredients, each in a thread, while the container runs."""
    end = threading.Event()
    failed: list[BaseException] = []

    def guarded(what: Beside) -> None:
        try:
            what(run, end)
        except BaseException as e:  # is raised by the caller, below
            if isinstance(e, NothingWorked) or (not end.is_set() and run.container.status is None):
                failed.append(e)

    threads = [threading.Thread(target=guarded, args=(b,), daemon=True) for b in run.attack.beside]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]


def adopt_children() -> None:
    """As conmon and the containerd shim: the inits of created containers become children of this process."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Run attacks by hand; the status is the number that won.")
    parser.add_argument("--tree", type=Path, default=ROOT, help="a built checkout of krun")
    parser.add_argument("--seconds", type=float, default=0, help="instead of the rows' own")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(argv)
    chosen = tuple(a for a in ATTACKS if not options.names or a.name in options.names)
    build(chosen)
    work, count = Path(f"/tmp/krun-attacks-{os.getpid()}"), 0
    try:
        for n, (attack, user) in enumerate((a, u) for a in chosen for u in a.users):
            begun = time.monotonic()
            won = run(attack, user, work / str(n), seconds=options.seconds, tree=options.tree.resolve())
            words = "; ".join(won[:4]) or "lost"
            print(f"{attack.name} {user.name} {time.monotonic() - begun:.1f} s: {words}", flush=True)
            count += bool(won)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return min(count, 100)


if __name__ == "__main__":
    adopt_children()
    sys.exit(main(sys.argv[1:]))

"""The checks of the rows: pure functions over the facts that drive.py returns.

A check returns (verdict, what was seen): True, False, or None where the runtime or the host does not offer the thing. It raises
Absent where the container did not come so far; the row fails with the runtime's own words then.
"""

import stat
from typing import Any

from krun.conformance import cases
from krun.conformance.facts import Absent, Facts, Verdict, answer, fact, state

_EROFS, _EACCES, _EPERM, _ENOENT = 30, 13, 1, 2
_START = 1.0  # seconds, RC-02


def _errno(found: dict[str, Any]) -> int:
    return int(found.get("errno", 0))


def _all(problems: list[str], fine: str) -> Verdict:
    return Verdict(not problems, "; ".join(problems) or fine)


def _refused(facts: Facts, case: str, instruction: str) -> Verdict:
    errno = _errno(answer(facts, case, instruction))
    return Verdict(errno in (_EROFS, _EACCES, _EPERM), f"{instruction}: {_word(errno)}")


def _word(errno: int) -> str:
    return f"errno {errno}" if errno else "succeeds"


def _mounts(facts: Facts, case: str) -> dict[str, tuple[list[str], list[str]]]:
    """Mount point -> options and optional fields (proc(5), mountinfo); the last one on a point is the one that is seen."""
    found = {}
    for line in answer(facts, case, "read:/proc/self/mountinfo")["text"].splitlines():
        words = line.split(" ")
        if "-" in words:
            found[words[4]] = (words[5].split(","), words[6 : words.index("-")])
    return found


def _status(facts: Facts, key: str) -> str:
    for line in answer(facts, "user", "read:/proc/self/status")["text"].splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return str(value.strip())
    raise Absent(f"user: /proc/self/status has no line {key}")


# ------------------------------------------------------------------------------------------------ lifecycle


def version(facts: Facts) -> Verdict:
    found = str(state(facts, "life", "created").get("ociVersion", ""))
    words = answer(facts, "user", "self:")["args"][-len(cases.WORDS) :]
    problems = [] if found.startswith("1.") else [f"state: ociVersion {found or 'missing'}"]
    # The probe prints bytes, each as the character of its number.
    if words != [word.encode().decode("latin-1") for word in cases.WORDS]:
        problems.append(f"the last arguments are {words}")
    return _all(problems, f"state: ociVersion {found}; arguments arrive byte for byte")


def starts_fast(facts: Facts) -> Verdict:
    seconds = fact(facts, "image", "seconds")
    return Verdict(seconds < _START, f"create and start to the first output: {seconds} s")


def reclaimed(facts: Facts) -> Verdict:
    problems = []
    for case in cases.CASES:
        found = facts[case]
        if "delete" in found["errors"]:
            problems.append(f"{case}: delete: {found['errors']['delete']}")
        problems += [f"{case}: left behind: {path}" for path in fact(facts, case, "left")]
        if "deleted" in found["states"]:
            problems.append(f"{case}: state still answers after delete")
    return _all(problems, "delete at once after the end; no state, cgroup or mount is left")


def pid_one(facts: Facts) -> Verdict:
    pid = answer(facts, "user", "self:")["pid"]
    return Verdict(pid == 1 or None, f"getpid() is {pid}")


def terminated(facts: Facts) -> Verdict:
    signo = answer(facts, "life", "signal:0").get("signal")
    return Verdict(signo == 15, f"kill TERM: the program gets signal {signo}")


def killed(facts: Facts) -> Verdict:
    ended = fact(facts, "life", "ended")
    alive = fact(facts, "life", "lives_after_term")
    problems = [] if alive else ["the program ended at TERM, which it handles"]
    if ended != {"code": 0, "signal": 9}:
        problems.append(f"it ended with {ended}")
    return _all(problems, "handles TERM, lives on, ends by signal 9")


def failure_seen(facts: Facts) -> Verdict:
    problems = []
    if facts["user"].get("stderr") != f"{cases.MARK}-stderr\n":
        problems.append(f"stderr holds {facts['user'].get('stderr', '')[:80]!r}")
    ended = fact(facts, "user", "ended")
    if ended != {"code": cases.EXIT, "signal": 0}:
        problems.append(f"exit {cases.EXIT} came as {ended}")
    return _all(problems, f"words on stderr and exit code {cases.EXIT} arrive")


def lifecycle(facts: Facts) -> Verdict:
    problems = []
    for when in ("created", "running", "stopped"):
        found = state(facts, "life", when).get("status")
        if found != when:
            problems.append(f"state is {found} where {when} is due")
    if not fact(facts, "life", "silent_before_start"):
        problems.append("the program ran before start")
    return _all(problems, "created, running, stopped; the program waits for start")


def hooks(facts: Facts) -> Verdict:
    """The runtime runs poststart while the container runs startContainer: these two have no order (runc)."""
    found = fact(facts, "life", "hooks")
    fine = sorted(found) == sorted(cases.HOOKS) and found.index("startContainer") in (3, 4)
    order = [[kind for kind in kinds if kind != "startContainer"] for kinds in (found, cases.HOOKS)]
    return Verdict(fine and order[0] == order[1], f"hooks ran: {', '.join(found) or 'none'}")


def annotations(facts: Facts) -> Verdict:
    name, value = cases.ANNOTATION
    seen = state(facts, "user", "created").get("annotations") or {}
    return Verdict(seen.get(name) == value, f"state: annotations {seen}")


# ------------------------------------------------------------------------------------------------ process


def termination_log(facts: Facts) -> Verdict:
    errno = _errno(answer(facts, "user", f"write:/dev/termination-log {cases.MARK}"))
    text = facts["user"].get("termination", "")
    return Verdict(not errno and text == cases.MARK, f"write {_word(errno)}; the host reads {text[:80]!r}")


def no_interface(facts: Facts) -> Verdict:
    problems = [
        f"{path} is there" for path in cases.SOCKETS if not _errno(answer(facts, "user", f"stat:{path}"))
    ]
    extra = [fd for fd in answer(facts, "user", "self:")["fds"] if fd > 2]
    if extra:
        problems.append(f"descriptors {extra} are open")
    program = answer(facts, "user", "link:/proc/self/exe").get("target")
    if program != "/probe":
        problems.append(f"/proc/self/exe is {program}")
    return _all(
        problems, "no socket, state or device of a runtime; descriptors 0 to 2; /proc/self/exe is the program"
    )


def state_and_kill(facts: Facts) -> Verdict:
    pid = state(facts, "life", "running").get("pid", 0)
    return Verdict(isinstance(pid, int) and pid > 1, f"state: pid {pid}")


def stdin_eof(facts: Facts) -> Verdict:
    found = answer(facts, "user", "stdin:")
    return Verdict(found.get("length") == 0, f"read(0): {found.get('length', _word(_errno(found)))} bytes")


def output(facts: Facts) -> Verdict:
    answer(facts, "user", f"stderr:{cases.MARK}-stderr")
    lines = len(facts["user"]["answers"])
    errors = facts["user"].get("stderr", "")
    return Verdict(
        errors == f"{cases.MARK}-stderr\n" and lines > 1, f"{lines} lines of stdout; stderr: {errors[:80]!r}"
    )


def pipes(facts: Facts) -> Verdict:
    found = answer(facts, "user", "pipe:")
    fine = found.get("length") == 4 and found.get("status") == 0
    return Verdict(fine, "a child's bytes come through a pipe" if fine else f"fork and pipe: {found}")


def device_links(facts: Facts) -> Verdict:
    problems = []
    for path, target in cases.LINKS.items():
        found = answer(facts, "user", f"link:{path}")
        if found.get("target") != target:
            problems.append(f"{path} leads to {found.get('target', _word(_errno(found)))}")
    return _all(problems, ", ".join(cases.LINKS))


def _environment(facts: Facts, names: list[str]) -> Verdict:
    entries = answer(facts, "user", "self:")["env"]
    wanted = [f"{name}={cases.ENVIRONMENT[name]}" for name in names]
    missing = [f"{entry} is missing" for entry in wanted if entries.count(entry) != 1]
    return _all(missing, ", ".join(wanted))


def port(facts: Facts) -> Verdict:
    return _environment(facts, ["PORT"])


def revision(facts: Facts) -> Verdict:
    return _environment(facts, ["K_REVISION", "K_CONFIGURATION", "K_SERVICE"])


def no_terminal(facts: Facts) -> Verdict:
    problems = []
    if any(answer(facts, "user", "self:")["tty"]):
        problems.append("a standard stream is a terminal")
    if not _errno(answer(facts, "user", "stat:/dev/console")):
        problems.append("/dev/console is there")
    return _all(problems, "no stream is a terminal; no /dev/console")


def linux_process(facts: Facts) -> Verdict:
    problems = []
    for name, wanted in (("CapBnd", (1 << 0) | (1 << 5)), ("CapEff", 0), ("NoNewPrivs", 1)):
        value = int(_status(facts, name), 16)
        if value != wanted:
            problems.append(f"{name} is {value:#x}, not {wanted:#x}")
    score = answer(facts, "user", "read:/proc/self/oom_score_adj").get("text", "").strip()
    if score != str(cases.OOM_SCORE):
        problems.append(f"oom_score_adj is {score}")
    words = _limit(facts)
    if words != [str(number) for number in cases.NOFILE]:
        problems.append(f"RLIMIT_NOFILE is {words}")
    return _all(problems, "capabilities, no_new_privs, oom_score_adj and RLIMIT_NOFILE are the operator's")


def _limit(facts: Facts) -> list[str]:
    for line in answer(facts, "user", "read:/proc/self/limits").get("text", "").splitlines():
        if line.startswith("Max open files"):
            return list(line.split()[3:5])
    return []


def runs_as_user(facts: Facts) -> Verdict:
    found = answer(facts, "user", "self:")
    ids = tuple(found[name] for name in ("uid", "euid", "gid", "egid"))
    wanted = (cases.UID, cases.UID, cases.GID, cases.GID)
    problems = [] if ids == wanted else [f"uid, euid, gid, egid are {ids}, not {wanted}"]
    problems += [] if found.get("cwd") == "/" else [f"the directory is {found.get('cwd')}"]
    problems += [f"extra groups {found['groups']}"] if set(found["groups"]) - {cases.GID} else []
    return _all(problems, f"uid {cases.UID}, gid {cases.GID}, directory /")


def runs_as_image_user(facts: Facts) -> Verdict:
    uid = answer(facts, "image", "self:")["uid"]
    return Verdict(uid == cases.IMAGE_UID, f"uid {uid}")


# ------------------------------------------------------------------------------------------------ files


def root_readonly(facts: Facts) -> Verdict:
    errno = _errno(answer(facts, "readonly", "make:/"))
    temporary = _errno(answer(facts, "readonly", "make:/tmp"))
    return Verdict(
        errno == _EROFS and not temporary, f"mkdir in /: {_word(errno)}; in /tmp: {_word(temporary)}"
    )


def volume(facts: Facts) -> Verdict:
    text = answer(facts, "readonly", "read:/config/key").get("text")
    errno = _errno(answer(facts, "readonly", "write:/config/key x"))
    return Verdict(text == cases.MARK and errno == _EROFS, f"read {text!r}, write: {_word(errno)}")


def resolver(facts: Facts) -> Verdict:
    mode = answer(facts, "user", "stat:/etc/resolv.conf").get("mode", 0)
    text = answer(facts, "user", "read:/etc/resolv.conf").get("text", "")
    fine = stat.S_ISREG(mode) and mode & 0o644 == 0o644 and "options" in text
    return Verdict(fine, f"/etc/resolv.conf: {stat.filemode(mode)}, {len(text)} bytes")


def etc_files(facts: Facts) -> Verdict:
    problems = []
    for name, word in (("hosts", "localhost"), ("hostname", "conformance"), ("resolv.conf", "options")):
        found = answer(facts, "user", f"read:/etc/{name}")
        if word not in found.get("text", ""):
            problems.append(f"/etc/{name}: {found.get('text', _word(_errno(found)))[:80]!r}")
    return _all(problems, "/etc/hosts, /etc/hostname and /etc/resolv.conf are the platform's")


def file_systems(facts: Facts) -> Verdict:
    mounts = _mounts(facts, "user")
    problems = [
        f"{path} is no mount" for path in ("/proc", "/sys", "/dev/pts", "/dev/shm") if path not in mounts
    ]
    for name, numbers in cases.DEVICES.items():
        found = answer(facts, "user", f"stat:/dev/{name}")
        if (found.get("major"), found.get("minor")) != numbers or not stat.S_ISCHR(found.get("mode", 0)):
            problems.append(f"/dev/{name} is {found}")
    if _errno(answer(facts, "user", "stat:/dev/ptmx")):
        problems.append("/dev/ptmx is missing")
    return _all(problems, f"/proc, /sys, /dev/pts, /dev/shm; {', '.join(cases.DEVICES)}, ptmx")


def _directory(facts: Facts, path: str, mode: int) -> Verdict:
    found = answer(facts, "user", f"stat:{path}")
    errno = _errno(answer(facts, "user", f"make:{path}"))
    has = found.get("mode", 0)
    fine = stat.S_ISDIR(has) and has & mode == mode and not errno
    return Verdict(
        fine, f"{path}: {stat.filemode(has)}; mkdir, create and rename by uid {cases.UID}: {_word(errno)}"
    )


def temporary(facts: Facts) -> Verdict:
    return _directory(facts, "/tmp", 0o777)


def var_log(facts: Facts) -> Verdict:
    return _directory(facts, "/var/log", 0)


def dev_log(facts: Facts) -> Verdict:
    errno = _errno(answer(facts, "user", f"syslog:{cases.MARK}"))
    text = facts["user"].get("syslog", "")
    return Verdict(not errno and text == cases.MARK, f"send: {_word(errno)}; the host receives {text[:80]!r}")


def platform_mounts(facts: Facts) -> Verdict:
    wanted = {"/", *fact(facts, "user", "destinations")}
    own = ("/proc/", "/sys/")  # maskedPaths, readonlyPaths, and the hierarchies of control groups
    extra = [point for point in _mounts(facts, "user") if point not in wanted and not point.startswith(own)]
    devices = {f"/dev/{name}" for name in (*cases.DEVICES, "ptmx")}
    extra = [point for point in extra if point not in devices]
    return _all([f"{point} is mounted" for point in extra], "the mounts of config.json and no others")


# ------------------------------------------------------------------------------------------------ isolation


def namespaces(facts: Facts) -> Verdict:
    problems = []
    for kind, host in facts["host"]["namespaces"].items():
        own = answer(facts, "user", f"link:/proc/self/ns/{kind}").get("target")
        if own == host or not own:
            problems.append(f"{kind}: {'the same as the host' if own else 'not readable'}")
    return _all(problems, "pid, ipc, uts, mnt and net are the container's own")


def devices(facts: Facts) -> Verdict:
    problems = []
    errno = _errno(answer(facts, "root", "device:1:1"))
    if errno not in (_EPERM, _EACCES):
        problems.append(f"root opens a node 1:1 (/dev/mem): {_word(errno)}")
    allowed = {*cases.DEVICES, "ptmx", "pts", "shm", "mqueue", "fd", "stdin", "stdout", "stderr", "core"}
    allowed |= {"log", "termination-log"}
    extra = sorted(set(answer(facts, "user", "list:/dev").get("names", [])) - allowed)
    problems += [f"/dev/{name} is there" for name in extra]
    return _all(problems, f"only default devices; root's node 1:1: {_word(errno)}")


def _control(facts: Facts, name: str) -> str | None:
    text = answer(facts, "root", f"read:{cases.GROUP}/{name}").get("text")
    return text.strip() if isinstance(text, str) else None


def limits(facts: Facts) -> Verdict:
    """The two layouts of control groups (runtime contract, "Control groups"): files of v2 where cgroup.controllers is there."""
    if not _errno(answer(facts, "root", f"stat:{cases.GROUP}/cgroup.controllers")):
        wanted = {
            "memory.max": str(cases.MEMORY),
            "cpu.max": f"{cases.QUOTA} {cases.PERIOD}",
            "cpu.weight": None,
        }
    else:
        wanted = {
            "memory/memory.limit_in_bytes": str(cases.MEMORY),
            "cpu/cpu.cfs_period_us": str(cases.PERIOD),
            "cpu/cpu.cfs_quota_us": str(cases.QUOTA),
            "cpu/cpu.shares": "128",
        }
    problems, seen = [], []
    for name, value in wanted.items():
        found = _control(facts, name)
        seen.append(f"{name} {found}")
        if found is None or (value is not None and found != value):
            problems.append(f"{name} is {found}, not {value or 'a number'}")
    return _all(problems, ", ".join(seen))


def host_limits(facts: Facts) -> Verdict:
    """As the host sees them, which does not depend on what the container shows."""
    found = fact(facts, "root", "group")
    wanted = {
        "memory.limit_in_bytes": str(cases.MEMORY),
        "cpu.cfs_period_us": str(cases.PERIOD),
        "cpu.cfs_quota_us": str(cases.QUOTA),
    }
    if "memory.max" in found:
        wanted = {"memory.max": str(cases.MEMORY), "cpu.max": f"{cases.QUOTA} {cases.PERIOD}"}
    problems = [f"{name} is {found.get(name)}" for name, value in wanted.items() if found.get(name) != value]
    return _all(problems, "on the host: " + ", ".join(f"{name} {value}" for name, value in wanted.items()))


def paused(facts: Facts) -> Verdict:
    problems = []
    if (status := state(facts, "pause", "paused").get("status")) != "paused":
        problems.append(f"state is {status}")
    if not fact(facts, "pause", "silent_while_paused"):
        problems.append("the program runs while it is paused")
    if answer(facts, "pause", "signal:0").get("signal") != 15:
        problems.append("it does not go on")
    return _all(problems, "pause stops the program, resume lets it go on")


def groups_readonly(facts: Facts) -> Verdict:
    problems, seen = [], []
    for name in ("memory/memory.limit_in_bytes", "memory.max"):
        errno = _errno(answer(facts, "root", f"write:{cases.GROUP}/{name} 9"))
        if errno != _ENOENT:
            seen.append(f"root writes {name}: {_word(errno)}")
            problems += [] if errno in (_EROFS, _EACCES, _EPERM) else seen[-1:]
    if not seen:
        return Verdict(False, f"no control file below {cases.GROUP}")
    return _all(problems, "; ".join(seen))


def sysctl(facts: Facts) -> Verdict:
    return _refused(facts, "root", cases.DOMAIN)


def seccomp(facts: Facts) -> Verdict:
    errno = _errno(answer(facts, "user", f"call:{cases.DENIED_CALL}"))
    return Verdict(errno == cases.DENIED_ERRNO, f"a call that the profile refuses: {_word(errno)}")


def propagation(facts: Facts) -> Verdict:
    shared = [
        path
        for path, (_, tags) in _mounts(facts, "user").items()
        if any(t.startswith("shared:") for t in tags)
    ]
    return _all([f"{path} is shared" for path in shared], "no mount is shared with the host")


def masked(facts: Facts) -> Verdict:
    problems = []
    for instruction, key in (
        ("read:/proc/kcore", "text"),
        ("read:/proc/timer_list", "text"),
        ("list:/sys/firmware", "names"),
    ):
        found = answer(facts, "root", instruction)
        if found.get(key):
            problems.append(f"{instruction} gives {len(found[key])} bytes or names")
    return _all(problems, "/proc/kcore, /proc/timer_list and /sys/firmware are empty or missing for root")


def readonly_paths(facts: Facts) -> Verdict:
    mounts = _mounts(facts, "root")
    problems = []
    for path in cases.READONLY:
        if not _errno(answer(facts, "root", f"stat:{path}")) and "ro" not in mounts.get(path, ([], []))[0]:
            problems.append(f"{path} is writable")
    return _all(problems, f"{', '.join(cases.READONLY)} are read-only mounts")

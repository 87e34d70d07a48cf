"""The monitor's filters (filter/jail.c, filter/profile.c) are what its sources need, and no more: the lists are compared with the calls that
each handler reaches (helpers/hostcalls.py)."""

import re
from pathlib import Path

from helpers.hostcalls import NATIVE, functions, reach, rows

from krun.native.build_native import MONITOR_FOLDERS

ROOT = Path(__file__).resolve().parents[2]
JAIL = (NATIVE / "filter" / "jail.c").read_text()
PROFILE = (NATIVE / "filter" / "profile.c").read_text()

MADE = functions()
ROWS = {name: (number, how) for number, (name, how) in rows().items()}
OWN = [name for name, (_, how) in ROWS.items() if how == "OWN"]
#: Where the monitor's own code begins, besides the handlers: its start, a thread's loop (and with it signals), assembly.
ROOTS = ["kr_main", "kr_run", *(name for name in MADE if name.endswith((".c", ".S")))]
#: What no source names, for the kernel itself makes it: it goes on with a sleep so.
OF_THE_KERNEL = {"restart_syscall"}


def words(text: str, name: str) -> list[str]:
    """The names of calls in the body of a table."""
    body = re.search(rf"\b{name}\[\] = {{\n(.*?)^}}", text, re.M | re.S)
    assert body, name
    return [w.lower() for w in re.findall(r"\b(?:__)?NR_(\w+)", re.sub(r"/\*.*?\*/", "", body.group(1)))]


def asked_with_a_bad_path() -> set[str]:
    """kr_path_error() makes the payload's own call, so that the kernel says what is wrong with it, but for some."""
    text = (NATIVE / "sys" / "path.c").read_text()
    first = re.search(r"int path_comes_first\(long nr\) {(.*?)\n}", text, re.S)
    assert first
    table = (NATIVE / "table" / "syscalls.def").read_text()
    paths = set(re.findall(r"^SYS\(\d+, (\w+), (?:OWN|FWD),.*?A\([^\"]*\bPATH\b", table, re.M))
    assert {"open", "execve", "truncate"} <= paths
    return paths - set(re.findall(r"__NR_(\w+)", first.group(1)))


def host_calls() -> set[str]:
    """Every call that a monitor may make on the host."""
    calls = (
        {name for name, (_, how) in ROWS.items() if how == "FWD"} | OF_THE_KERNEL | asked_with_a_bad_path()
    )
    for root in [*ROOTS, *(f"sys_{name}" for name in OWN)]:
        calls |= reach(MADE, root)
    return calls


def test_the_jail_kills_what_the_table_has_and_no_source_makes() -> None:
    """Once the jail is on, that is: seccomp(2) is made before."""
    killed = set(re.findall(r"\{__NR_(\w+), KILL\}", JAIL))
    assert killed == {name for name in ROWS if ROWS[name][1] == "OWN"} - host_calls() | {"seccomp"}


def test_the_jail_allows_what_the_sources_make() -> None:
    listed = dict(re.findall(r"\{__NR_(\w+), (ALLOW|RULE|KILL)\}", JAIL))
    allowed = {name for name, (_, how) in ROWS.items() if how != "NO"} | set(listed)
    allowed -= {name for name, what in listed.items() if what == "KILL"}
    assert host_calls() - {"seccomp"} <= allowed
    #: Nothing is listed that the table allows anyhow, or that nobody makes.
    for name, what in listed.items():
        if what == "ALLOW":
            assert name in host_calls(), name


def test_every_rule_is_in_the_list() -> None:
    """A call with a rule on its arguments is not allowed by its number as well."""
    rules = re.findall(r"\{__NR_(\w+), rule_\w+\}", JAIL)
    assert sorted(rules) == sorted(re.findall(r"\{__NR_(\w+), RULE\}", JAIL))


def test_the_profile_lets_pass_what_other_calls_are_served_by() -> None:
    """What the monitor needs for itself always passes, what serves another call only where the profile has that one."""
    base = OF_THE_KERNEL.union(*(reach(MADE, root) for root in ROOTS))
    base |= {
        "fchdir",
        "setfsgid",
    }  # the first serves 34 others; the second only asks, for access and changes of ids
    # Made for what only a payload's own clone3 asks (kr_host_clone): the profile decides.
    base.remove("clone3")
    # Best effort, at the start of a program: where the profile forbids them, the ids are the kernel's (process/ids.c).
    base -= {"setresuid", "setresgid"}
    always, sometimes = words(PROFILE, "needed"), words(PROFILE, "needed_if")
    assert sorted(always) == sorted(base - set(sometimes))
    assert set(sometimes) <= base
    # What would give a monitor more than its container has is bound to arguments.
    bound = {"socket", "clone", "clone3", "unshare", "setns", "mount", "ptrace", "bpf", "prctl", "ioctl"}
    assert not set(always) & bound
    pairs = words(PROFILE, "served")
    listed = list(zip(pairs[::2], pairs[1::2], strict=True))
    found = {(name, by) for name in OWN for by in reach(MADE, f"sys_{name}") - {name, "clone3"} - base}
    assert set(listed) == found
    assert [by for _, by in listed] == sorted((by for _, by in listed), key=lambda name: ROWS[name][0])
    assert not {by for _, by in listed} & bound


def test_kvm_requests_are_those_of_the_sources() -> None:
    body = re.search(r"kvm_requests\[\] = {\n(.*?)^}", JAIL, re.M | re.S)
    assert body
    listed = re.findall(r"\(u32\)(KVM_\w+)", body.group(1))
    header = Path("/usr/include/linux/kvm.h").read_text()
    requests = set(re.findall(r"^#define\s+(KVM_\w+)\s+_IO", header, re.M))
    assert {"KVM_RUN", "KVM_ENABLE_CAP", "KVM_SET_GUEST_DEBUG"} <= requests
    used: set[str] = set()
    for path in (p for d in MONITOR_FOLDERS for p in (NATIVE / d).iterdir()):
        if path.suffix in (".c", ".h") and path.name not in ("jail.c", "profile.c"):
            text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
            text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
            used |= set(re.findall(r"\bKVM_\w+", text)) & requests
    assert sorted(listed) == sorted(used) and listed[0] == "KVM_RUN"


def test_the_counts_of_the_security_page() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    listed = dict(re.findall(r"\{__NR_(\w+), (ALLOW|RULE|KILL)\}", JAIL))
    through = {name for name, (_, how) in ROWS.items() if how != "NO"} | set(listed)
    through -= {name for name, what in listed.items() if what == "KILL"}
    checked = [name for name, what in listed.items() if what == "RULE"]
    found = re.search(
        r"(\d+) of (\d+) calls, (\d+) of them with rules on arguments, and (\d+) of KVM's requests", text
    )
    assert found, "docs/security.md does not give the jail's counts"
    kvm = len(re.findall(r"\(u32\)KVM_\w+", JAIL))
    assert [int(n) for n in found.groups()] == [len(through), len(ROWS), len(checked), kvm]
    limited = set(words(PROFILE, "needed_if"))
    needed = re.search(r"allows (\d+) calls that a monitor needs .* (\d+) of them pass only with", text)
    assert needed and [int(n) for n in needed.groups()] == [
        len({*words(PROFILE, "needed"), *limited}),
        len(limited),
    ]
    assert f"The prefix allows {len(set(words(PROFILE, 'served')[1::2]))} more calls" in text

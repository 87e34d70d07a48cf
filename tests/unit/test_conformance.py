"""krun conformance over recorded facts: they pass, each row fails on the facts of a runtime that is wrong, the formats say so."""

from __future__ import annotations

import copy
import json
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from krun.conformance import cases, cli, report
from krun.conformance.facts import Facts
from krun.conformance.rows import PROFILES, ROWS
from krun.errors import KrunError, UsageError

DATA = Path(__file__).parent / "data" / "conformance"
RECORDED = {path.stem: json.loads(path.read_text()) for path in sorted(DATA.glob("*.json"))}
RUNC = RECORDED["runc"]
GROUP = cases.GROUP


def put(case: str, *path: Any) -> Callable[[Facts], None]:
    """A change of the facts: the last of `path` goes where the others lead, below the case."""
    *parents, last, value = path

    def change(facts: Facts) -> None:
        where: Any = facts[case]
        for key in parents:
            where = where[key]
        where[last] = value

    return change


def say(case: str, instruction: str, **found: Any) -> Callable[[Facts], None]:
    """Another answer of the probe."""
    return put(case, "answers", instruction, found)


def mount(case: str, line: str) -> Callable[[Facts], None]:
    """One more line in the container's mountinfo."""

    def change(facts: Facts) -> None:
        facts[case]["answers"]["read:/proc/self/mountinfo"]["text"] += line + "\n"

    return change


def own(case: str, **found: Any) -> Callable[[Facts], None]:
    return lambda facts: facts[case]["answers"]["self:"].update(found)


#: Row -> changes; each alone makes the row fail (None: makes it N-A).
WRONG: dict[str, list[Callable[[Facts], None]]] = {
    "RC-01": [
        put("life", "states", "created", "ociVersion", "2.0.0"),
        own("user", args=["/probe", "two", "words"]),
    ],
    "RC-02": [put("image", "seconds", 1.5)],
    "RC-06": [
        put("life", "left", ["/sys/fs/cgroup/memory/x"]),
        put("user", "errors", "delete", "busy"),
        put("root", "states", "deleted", {"status": "stopped"}),
    ],
    "RC-07": [own("user", pid=17)],
    "RC-10": [say("life", "signal:0", signal=1), lambda facts: facts["life"]["answers"].pop("signal:0")],
    "RC-11": [put("life", "lives_after_term", False), put("life", "ended", {"code": 0, "signal": 15})],
    "RC-13": [put("user", "stderr", ""), put("user", "ended", {"code": 0, "signal": 0})],
    "RC-15": [
        put("life", "states", "created", "status", "running"),
        lambda facts: facts["life"]["states"].pop("stopped"),
        put("life", "silent_before_start", False),
    ],
    "RC-19": [
        put("user", "termination", ""),
        say("user", f"write:/dev/termination-log {cases.MARK}", errno=2),
    ],
    "RC-20": [
        say("user", "stat:/dev/kvm", mode=0o20666),
        own("user", fds=[0, 1, 2, 5]),
        say("user", "link:/proc/self/exe", target="/usr/sbin/runc"),
    ],
    "RC-21": [put("life", "states", "running", "pid", 0)],
    "RC-24": [
        put("life", "hooks", [*cases.HOOKS[1:], cases.HOOKS[0]]),
        put("life", "hooks", list(cases.HOOKS[:-1])),
        put("life", "hooks", []),
    ],
    "RC-25": [say("user", "stdin:", length=4), say("user", "stdin:", errno=9)],
    "RC-26": [put("user", "stderr", ""), put("user", "stderr", f"{cases.MARK}-stderr\n{{}}")],
    "RC-27": [say("user", "pipe:", errno=38), say("user", "pipe:", length=0, status=256)],
    "RC-28": [say("user", "link:/dev/fd", target="/proc/fd"), say("user", "link:/dev/stdin", errno=2)],
    "RC-57": [
        say("user", "stat:/etc/resolv.conf", mode=0o100600),
        say("user", "read:/etc/resolv.conf", text=""),
    ],
    "RC-59": [say("readonly", "make:/"), say("readonly", "make:/tmp", errno=30)],
    "RC-61": [say("readonly", "read:/config/key", errno=2), say("readonly", "write:/config/key x")],
    "RC-63": [own("user", tty=[1, 0, 0]), say("user", "stat:/dev/console", mode=0o20600)],
    "RC-64": [
        say("user", "read:/proc/self/oom_score_adj", text="0\n"),
        say("user", "read:/proc/self/limits", text="Max open files 1 2 files\n"),
        say("user", "read:/proc/self/status", text="CapBnd:\tff\nCapEff:\t0\nNoNewPrivs:\t1\n"),
        say("user", "read:/proc/self/status", text="CapBnd:\t21\nCapEff:\t0\nNoNewPrivs:\t0\n"),
        say("user", "read:/proc/self/status", text="CapBnd:\t21\n"),
    ],
    "RC-65": [own("user", env=["PORT=80"]), own("user", env=["PORT=8801", "PORT=8801"])],
    "RC-66": [own("user", env=["K_SERVICE=conformance"])],
    "RC-69": [own("user", uid=0), own("user", egid=0), own("user", cwd="/tmp"), own("user", groups=[0])],
    "RC-70": [own("image", uid=0)],
    "RC-73": [
        say("user", "stat:/dev/full", errno=2),
        say("user", "stat:/dev/ptmx", errno=2),
        say("user", "read:/proc/self/mountinfo", text=""),
    ],
    "RC-74": [say("user", "make:/tmp", errno=30), say("user", "stat:/tmp", mode=0o40755)],
    "RC-75": [say("user", "make:/var/log", errno=13), say("user", "stat:/var/log", mode=0o100644)],
    "RC-76": [say("user", f"syslog:{cases.MARK}", errno=2), put("user", "syslog", "")],
    "RC-77": [say("user", "read:/etc/hosts", text=""), say("user", "read:/etc/hostname", errno=2)],
    "RC-78": [mount("user", "1 2 0:1 / /secret rw - tmpfs tmpfs rw")],
    "RC-79": [
        lambda facts: facts["host"]["namespaces"].update(
            pid=facts["user"]["answers"]["link:/proc/self/ns/pid"]["target"]
        ),
        say("user", "link:/proc/self/ns/net", errno=2),
    ],
    "RC-80": [
        say("root", "device:1:1"),
        say("user", "list:/dev", names=["null", "sda"]),
    ],
    "RC-81": [
        put("root", "group", "cpu.cfs_quota_us", "-1"),
        put("root", "group", {}),
        put("root", "group", None),
    ],
    "RC-82": [
        say("root", f"write:{GROUP}/memory/memory.limit_in_bytes 9"),
        say("root", f"write:{GROUP}/memory/memory.limit_in_bytes 9", errno=2),
    ],
    "RC-84": [say("root", f"read:{GROUP}/memory/memory.limit_in_bytes", errno=2)],
    "RC-85": [
        put("pause", "states", "paused", "status", "running"),
        put("pause", "silent_while_paused", False),
        lambda facts: facts["pause"]["answers"].pop("signal:0"),
    ],
    "RC-86": [say("root", cases.DOMAIN)],
    "RC-87": [say("user", f"call:{cases.DENIED_CALL}", errno=1)],
    "RC-88": [mount("user", "1 2 0:1 / /data rw shared:7 - tmpfs tmpfs rw")],
    "RC-89": [
        say("root", "read:/proc/kcore", text="ELF"),
        say("root", "read:/proc/timer_list", text="x"),
        say("root", "list:/sys/firmware", names=["acpi"]),
    ],
    "RC-90": [mount("root", "1 2 0:1 / /proc/irq rw - proc proc rw")],
    "RC-91": [put("user", "states", "created", "annotations", {})],
}


def one(number: str, facts: Facts) -> report.Result:
    """The result of one row, in the profile that has it."""
    found = [r for p in PROFILES for r in report.judge(facts, p) if r.row.number == number]
    return found[-1]


def test_three_runtimes_are_recorded() -> None:
    assert set(RECORDED) == {"runc", "crun", "krun"}


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("profile", PROFILES)
def test_recorded_facts_pass(name: str, profile: str) -> None:
    results = report.judge(RECORDED[name], profile)
    assert [r for r in results if r.status != report.PASS] == []
    assert report.exit_code(results) == 0


def test_numbers_are_in_order_and_once() -> None:
    numbers = [row.number for row in ROWS]
    assert numbers == sorted(set(numbers))
    assert set(WRONG) == set(numbers), "each row has facts that make it fail"


@pytest.mark.parametrize(
    "number, index", [(n, i) for n, changes in WRONG.items() for i in range(len(changes))]
)
def test_a_row_fails(number: str, index: int) -> None:
    facts = copy.deepcopy(RUNC)
    WRONG[number][index](facts)
    result = one(number, facts)
    assert result.status == (report.NOT_APPLICABLE if number == "RC-07" else report.FAIL), result.seen
    assert result.seen and "\n" not in result.seen
    failing = report.judge(facts, "current")
    binds = any(r.status == report.FAIL and r.level in ("MUST", "MUST NOT", "OCI") for r in failing)
    assert report.exit_code(failing) == int(binds)


@pytest.mark.parametrize("row", ROWS, ids=[row.number for row in ROWS])
def test_a_container_that_does_not_start_fails_the_row_with_the_runtimes_words(row: Any) -> None:
    dead = {
        "states": {},
        "errors": {"run": "no such namespace"},
        "stderr": "",
        "answers": {},
        "left": ["/x"],
        "hooks": [],
    }
    facts = {"host": RUNC["host"], **{name: copy.deepcopy(dead) for name in cases.CASES}}
    result = one(row.number, facts)
    assert result.status == report.FAIL
    assert "no such namespace" in result.seen or row.number in ("RC-06", "RC-24")


def test_limits_of_control_groups_v2() -> None:
    facts = copy.deepcopy(RUNC)
    values = {"memory.max": "134217728", "cpu.max": "100000 100000", "cpu.weight": "5"}
    say("root", f"stat:{GROUP}/cgroup.controllers", mode=0o100444)(facts)
    for name, value in values.items():
        say("root", f"read:{GROUP}/{name}", text=value + "\n")(facts)
    assert one("RC-84", facts).status == report.PASS
    say("root", f"read:{GROUP}/cpu.weight", errno=2)(facts)
    assert one("RC-84", facts).status == report.FAIL


def test_profiles_differ() -> None:
    texts = {p: {r.row.number: r.level for r in report.judge(RUNC, p)} for p in PROFILES}
    assert texts["2019"].keys() - texts["current"].keys() == {"RC-19", "RC-76"}
    assert (texts["2019"]["RC-75"], texts["current"]["RC-75"]) == ("MUST", "MAY")
    facts = copy.deepcopy(RUNC)
    put("user", "syslog", "")(facts)
    assert [report.exit_code(report.judge(facts, p)) for p in PROFILES] == [1, 0]


def test_formats() -> None:
    facts = copy.deepcopy(RUNC)
    own("user", uid=0, pid=9)(facts)
    results = report.judge(facts, "current")
    lines = report.table(results, "/runc", "current").splitlines()
    assert lines[-1].startswith("/runc, profile current: ") and ", 1 FAIL, 1 N-A" in lines[-1]
    assert [line for line in lines if line.startswith("RC-69  MUST       FAIL")]
    whole = json.loads(report.as_json(results, "/runc", "current"))
    assert whole["summary"] == {"PASS": len(results) - 2, "FAIL": 1, "N-A": 1}
    assert [r["number"] for r in whole["rows"]] == [r.row.number for r in results]
    suite = xml.etree.ElementTree.fromstring(report.junit(results, "/runc", "current"))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (str(len(results)), "1", "1")
    [failure] = suite.findall("testcase/failure")
    assert "2020" in str(failure.get("message"))


def test_junit_survives_what_a_container_prints() -> None:
    facts = copy.deepcopy(RUNC)
    put("user", "stderr", "\x00\x1b[31m<&\"'\ud800]]>")(facts)
    suite = xml.etree.ElementTree.fromstring(report.junit(report.judge(facts, "current"), '/r"<', "current"))
    assert suite.findall("testcase/failure")


@pytest.mark.parametrize(
    "given, error",
    [
        ({"profile": "2020"}, UsageError),
        ({"format": "xml"}, UsageError),
        ({"runtime": None}, UsageError),
        ({"runtime": "/no/such"}, KrunError),
    ],
)
def test_wrong_words(given: dict[str, Any], error: type[Exception]) -> None:
    from krun.cli import table, verbs

    opts = table.blank(verbs.verb("conformance"))
    opts.runtime = "runc"
    for name, value in given.items():
        setattr(opts, name, value)
    with pytest.raises(error):
        cli.main(opts)

"""The checks of a platform's rows: pure functions over the facts that drive.py returns; those of a runtime serve where the probe's
answers are the same.
"""

import re
from typing import Any

from krun.conformance.cases import MARK
from krun.conformance.facts import Absent, Check, Facts, Verdict, answer, fact
from krun.conformance.platform import cases

_START = 1.0  # seconds, RC-02
_LATE = 30  # seconds beyond the grace that a platform may take
_NODE = r'(?:[0-9.]+|"\[[0-9a-fA-F:.]+\](?::\d+)?"|unknown|_[\w.-]+)'
_FORWARDED = re.compile(rf"(?i)(?:^|[;,]\s*)for={_NODE}")


def _all(problems: list[str], fine: str) -> Verdict:
    return Verdict(not problems, "; ".join(problems) or fine)


def refuses(number: str) -> Check:
    """Return the check that the forbidden fields of a row are refused, or are not in what would be stored."""

    def check(facts: Facts) -> Verdict:
        problems, fine = [], []
        for index, one in enumerate(cases.FORBIDDEN):
            if one.row != number:
                continue
            key = f"{number} {index}"
            found = facts["platform"]["refused"].get(key)
            if found is None:
                raise Absent(f"{one.name}: {facts['platform']['errors'].get(key, 'not asked')}")
            if found["code"] >= 500:
                problems.append(f"{one.name}: status {found['code']}")
            elif found["kind"] != ("Status" if found["code"] >= 400 else "Service"):
                problems.append(f"{one.name}: status {found['code']} with an object of kind {found['kind']}")
            elif found["code"] >= 400:
                fine.append(f"{one.name}: refused")
            elif _kept(one.value, found["stored"]):
                problems.append(f"{one.name} is taken")
            else:
                fine.append(f"{one.name}: dropped")
        return _all(problems, ", ".join(fine))

    return check


def _kept(value: Any, stored: Any) -> bool:
    """Whether what was asked for is in what would be stored; a default in its place is not."""
    if isinstance(value, dict) and isinstance(stored, dict):
        return all(_kept(item, stored.get(key)) for key, item in value.items())
    if isinstance(value, list) and isinstance(stored, list):
        return len(value) == len(stored) and all(_kept(a, b) for a, b in zip(value, stored, strict=True))
    return bool(value == stored)


def both(first: Check, second: Check) -> Check:
    """Return the check that two statements hold."""

    def check(facts: Facts) -> Verdict:
        a, b = first(facts), second(facts)
        return Verdict(bool(a.ok and b.ok), f"{a.seen}; {b.seen}")

    return check


# ------------------------------------------------------------------------------------------------ life


def starts_fast(facts: Facts) -> Verdict:
    seconds = fact(facts, "zero", "seconds")
    return Verdict(seconds < _START, f"first answer from zero after {seconds} s")


def stops_idle(facts: Facts) -> Verdict:
    began, left, idle = (fact(facts, "zero", name) for name in ("began", "left", "idle"))
    return Verdict(
        began > 0 and left == 0,
        f"{began} instances, {left} {idle} s after the last request, with a window of {cases.WINDOW} s",
    )


def active_while_asked(facts: Facts) -> Verdict:
    found = fact(facts, "zero", "long")
    fine = found["status"] == 200 and found["same"]
    return Verdict(
        fine,
        f"a request of {cases.SLEEP} s, window {cases.WINDOW} s: status {found['status']}, same instance: {found['same']}",
    )


def terminated(facts: Facts) -> Verdict:
    text = fact(facts, "stubborn", "log")
    return Verdict("signal 15" in text, f"at the deletion the program logs: {' '.join(text.split()[-6:])}")


def killed(facts: Facts) -> Verdict:
    lived = fact(facts, "stubborn", "log").count("alive ")
    return Verdict(
        1 <= lived <= cases.GRACE + _LATE,
        f"a program that ignores TERM lives on for {lived} s; the grace is {cases.GRACE} s",
    )


def failure_seen(facts: Facts) -> Verdict:
    text = fact(facts, "fails", "stderr")
    told = [
        c
        for c in fact(facts, "fails", "conditions")
        if c["status"] == "False" and str(cases.CODE) in str(c["reason"])
    ]
    logged = f"{MARK}-stderr" in text or any(f"{MARK}-stderr" in str(c["message"]) for c in told)
    return Verdict(
        logged,
        f"stderr of a program that failed: {'there' if logged else 'nowhere'}; conditions: {[c['reason'] for c in told]}",
    )


def termination_message(facts: Facts) -> Verdict:
    told = [
        str(c["message"])[:120] for c in fact(facts, "message", "conditions") if MARK in str(c["message"])
    ]
    return Verdict(bool(told), f"the revision's condition says: {told[0] if told else 'nothing of it'}")


def logs(facts: Facts) -> Verdict:
    text = fact(facts, "user", "log")
    missing = [word for word in ("stdout", "stderr") if f"{MARK}-{word}" not in text]
    return _all([f"{word} is not in the log" for word in missing], "standard output and error are in the log")


# ------------------------------------------------------------------------------------------------ requests


def stalls(facts: Facts) -> Verdict:
    found = fact(facts, "zero", "burst")
    return Verdict(
        found == [200] * len(found),
        f"{found.count(200)} of {len(found)} requests at once to no instance: 200",
    )


def _seen(facts: Facts, case: str) -> str:
    head = fact(facts, case, "request")
    if not head:
        raise Absent(f"{case}: no request came to the program: {facts[case]['errors'].get('run', '')}")
    return str(head)


def _values(facts: Facts, case: str, name: str) -> list[str]:
    lines = [line.partition(":") for line in _seen(facts, case).split("\r\n")[1:]]
    return [value.strip() for key, _, value in lines if key.lower() == name.lower()]


def _version(case: str, wanted: str) -> Check:
    def check(facts: Facts) -> Verdict:
        version = _seen(facts, case).split("\r\n")[0].rpartition(" ")[2]
        return Verdict(version == wanted, f"the program sees {version}")

    return check


http1 = _version("root", "HTTP/1.1")
h2c = _version("h2c", "HTTP/2.0")


def h2c_upgrade(facts: Facts) -> Verdict:
    code = fact(facts, "image", "upgrade")
    return Verdict(code == 101, f"Upgrade: h2c is answered with {code}")


def default_port(facts: Facts) -> Verdict:
    ports = [entry for entry in answer(facts, "image", "self:")["env"] if entry.startswith("PORT=")]
    return Verdict(len(ports) == 1, f"without ports: {', '.join(ports) or 'no PORT'}, and requests arrive")


def chosen_port(facts: Facts) -> Verdict:
    ports = [entry for entry in answer(facts, "user", "self:")["env"] if entry.startswith("PORT=")]
    return Verdict(
        ports == [f"PORT={cases.USER_PORT}"],
        f"containerPort {cases.USER_PORT}: {', '.join(ports) or 'no PORT'}",
    )


def fields_unchanged(facts: Facts) -> Verdict:
    problems = []
    for name in dict.fromkeys(name for name, _ in cases.FIELDS):
        wanted = [value for key, value in cases.FIELDS if key == name]
        found = _values(facts, "user", name)
        # RFC 9110, section 5.3: a proxy may join values of one name by commas.
        if found != wanted and found != [", ".join(wanted)] and name != cases.TRACE[0]:
            problems.append(f"{name}: {found}")
    return _all(problems, f"{len(cases.FIELDS) - 1} fields arrive, one of them twice, one not ASCII")


def host(facts: Facts) -> Verdict:
    wanted = str(fact(facts, "user", "url")).partition("://")[2].partition("/")[0]
    found = _values(facts, "user", "Host")
    return Verdict(
        len(found) == 1 and found[0].partition(":")[0] == wanted.partition(":")[0],
        f"Host: {', '.join(found)}",
    )


def forwarded(facts: Facts) -> Verdict:
    found = ", ".join(_values(facts, "user", "Forwarded"))
    return Verdict(bool(_FORWARDED.search(found)), f"Forwarded: {found or 'missing'}")


def x_forwarded(facts: Facts) -> Verdict:
    chain, proto = _values(facts, "user", "X-Forwarded-For"), _values(facts, "user", "X-Forwarded-Proto")
    fine = bool(chain) and proto in (["http"], ["https"])
    return Verdict(
        fine,
        f"X-Forwarded-For: {', '.join(chain) or 'missing'}; X-Forwarded-Proto: {', '.join(proto) or 'missing'}",
    )


def traced(facts: Facts) -> Verdict:
    found = _values(facts, "user", cases.TRACE[0])
    # W3C Trace Context: the trace's id stays, a hop may put its own parent id there.
    fine = len(found) == 1 and found[0].split("-")[:2] == cases.TRACE[1].split("-")[:2]
    return Verdict(fine, f"traceparent: {', '.join(found) or 'missing'}")


# ------------------------------------------------------------------------------------------------ deployment


def _ready(names: tuple[str, ...], fine: str) -> Check:
    def check(facts: Facts) -> Verdict:
        problems = [
            f"{name}: {facts[name]['errors'].get('run', 'not ready')}"
            for name in names
            if facts[name].get("ready") != "True"
        ]
        return _all(problems, fine)

    return check


no_probe = _ready(("image",), "a service without a probe becomes ready")
probe_kinds = _ready(("user", "root"), "tcpSocket and httpGet are taken, and become ready")


def probe_defaults(facts: Facts) -> Verdict:
    containers = (fact(facts, "image", "posted") or {}).get("containers") or [{}]
    found = containers[0].get("readinessProbe") or {}
    fine = (
        "tcpSocket" in found and not found.get("initialDelaySeconds") and found.get("successThreshold") == 1
    )
    return Verdict(fine, f"readinessProbe of a service without one: {found}")


def validated(facts: Facts) -> Verdict:
    pods = fact(facts, "image", "pods")
    return Verdict(pods >= 1, f"{pods} instances before the first request")


def validated_without_traffic(facts: Facts) -> Verdict:
    found = fact(facts, "image", "second")
    return Verdict(
        found["ready"] == "True",
        f"a revision with no traffic: Ready={found['ready']}, {found['pods']} instances",
    )


def unready_fails(facts: Facts) -> Verdict:
    told = [c for c in fact(facts, "unready", "conditions") if c["type"] == "Ready"]
    fine = bool(told) and told[0]["status"] == "False" and bool(told[0]["reason"])
    return Verdict(
        fine,
        f"never ready: {told[0]['status'] if told else 'no condition'}, {told[0]['reason'] if told else ''}",
    )


# ------------------------------------------------------------------------------------------------ environment


def names(facts: Facts) -> Verdict:
    entries = answer(facts, "user", "self:")["env"]
    wanted = {"K_SERVICE": "user", "K_CONFIGURATION": "user", "K_REVISION": fact(facts, "user", "revision")}
    problems = [
        f"{name}={value} is missing"
        for name, value in wanted.items()
        if entries.count(f"{name}={value}") != 1
    ]
    return _all(problems, ", ".join(f"{name}={value}" for name, value in wanted.items()))


def etc_files(facts: Facts) -> Verdict:
    problems = []
    for name, pattern in (
        ("hosts", r"\blocalhost\b"),
        ("hostname", r"\S"),
        ("resolv.conf", r"(?m)^(nameserver|options|search)"),
    ):
        text = answer(facts, "user", f"read:/etc/{name}").get("text", "")
        if not re.search(pattern, text):
            problems.append(f"/etc/{name}: {text[:80]!r}")
    return _all(problems, "/etc/hosts, /etc/hostname and /etc/resolv.conf are there")

"""Facts of a run, and what a check says of them. A fact that is not there is Absent: the row fails with the reason."""

from collections.abc import Callable
from typing import Any, NamedTuple

_LONGEST = 2000  # characters of what is shown of a fact


def shown(text: str, most: int = _LONGEST) -> str:
    """Return a text of what is checked as one line for a terminal: it may have sequences that the terminal obeys, or no end."""
    line = " ".join(text[: most * 2].split())
    line = "".join(char if char.isprintable() else "?" for char in line)
    return line if len(line) <= most else f"{line[:most]}..."


class Verdict(NamedTuple):
    """What a check says: True, False or None (not applicable), and what was seen in one line."""

    ok: bool | None
    seen: str


class Absent(Exception):
    """A fact is not there. The text says which, and why the container did not come so far."""


Facts = dict[str, Any]
Check = Callable[[Facts], Verdict]


def fact(facts: Facts, case: str, name: str) -> Any:
    """Return a fact of a case. Raises Absent with the case's first error."""
    if name not in facts[case]:
        raise Absent(f"{case}: no {name}: {why(facts, case)}")
    return facts[case][name]


def answer(facts: Facts, case: str, instruction: str) -> dict[str, Any]:
    """Return the probe's answer to an instruction. Raises Absent."""
    answers = facts[case].get("answers", {})
    if instruction not in answers:
        raise Absent(f"{case}: no answer to {instruction}: {why(facts, case)}")
    found: dict[str, Any] = answers[instruction]
    return found


def state(facts: Facts, case: str, when: str) -> dict[str, Any]:
    """Return the state that the runtime gave when it was due to be `when`. Raises Absent."""
    states = facts[case]["states"]
    if when not in states:
        words = facts[case]["errors"].get(f"state {when}") or why(facts, case)
        raise Absent(f"{case}: no state of the {when} container: {words}")
    found: dict[str, Any] = states[when]
    return found


def why(facts: Facts, case: str) -> str:
    """Return the words of a case's first error."""
    found = facts[case]
    return found["errors"].get("run") or found.get("stderr", "").strip()[:200] or "the probe ended before"

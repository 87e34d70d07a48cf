"""What becomes of an instance without requests: the annotations serve.krun.dev/idle and serve.krun.dev/idle-delay.

The policies beyond "run" are an execution model of their own, which the runtime contract allows where it is opt-in and
documented (knative/specs, runtime-contract.md, "State", "Lifecycle": RC-14 to RC-16 of docs/serve.md).
"""

from typing import NamedTuple

from krun.serve import units
from krun.serve.model.fielderror import Errors, invalid_key, invalid_value, out_of_bounds

GROUP = "serve.krun.dev"
POLICY = f"{GROUP}/idle"
DELAY = f"{GROUP}/idle-delay"
RUN, FREEZE, PARK, STOP = "run", "freeze", "park", "stop"
#: Policies that can be chosen. "park" is known and refused: it needs snapshots.
POLICIES = (RUN, FREEZE, STOP)
_SECOND = 10**9
_DELAY_MOST = 3600 * _SECOND


class Idle(NamedTuple):
    """A policy, and the seconds without a request after which it applies."""

    policy: str = RUN
    delay: float = 10.0


def problem(policy: str) -> str:
    """Returns why `policy` cannot be chosen, or ""."""
    if policy == PARK:
        return "park needs snapshots of instances, which krun cannot take yet"
    return "" if policy in POLICIES else f"expected one of {', '.join(POLICIES)}"


def errors(notes: dict[str, str]) -> Errors:
    """Returns the errors of the annotations of this group in `notes` (paths are the keys)."""
    found = Errors(
        invalid_key(key, "") for key in notes if key.startswith(GROUP + "/") and key not in (POLICY, DELAY)
    )
    if POLICY in notes and (text := problem(notes[POLICY])):
        found.add(invalid_value(notes[POLICY], POLICY, text))
    if DELAY in notes:
        try:
            length = units.duration(notes[DELAY])
        except ValueError:
            return found.add(invalid_value(notes[DELAY], DELAY))
        if not 0 <= length <= _DELAY_MOST:
            found.add(out_of_bounds(notes[DELAY], "0s", units.duration_text(_DELAY_MOST), DELAY))
    return found


def misplaced(notes: dict[str, str]) -> Errors:
    """Returns an error for each annotation of this group on an object that must have none."""
    text = 'annotations of serve.krun.dev must be put under "spec.template.metadata.annotations" to work'
    return Errors(invalid_key(key, "", text) for key in notes if key.startswith(GROUP + "/"))


def of(notes: dict[str, str], default: Idle) -> Idle:
    """Returns the policy of a revision with the annotations `notes`; what cannot be read is as if it were not there."""
    policy, delay = notes.get(POLICY, default.policy), default.delay
    try:
        delay = units.duration(notes[DELAY]) / 1e9 if DELAY in notes else delay
    except ValueError:
        pass
    return Idle(policy if policy in POLICIES else default.policy, delay)

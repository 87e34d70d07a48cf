"""What runc has shown, for krun to show the same. The values live in pytest's session, and runc's case is always there:
conftest.py selects and orders the twins (`pair`).
"""

from __future__ import annotations

from typing import Any

import pytest

STORE = pytest.StashKey[dict[str, Any]]()
#: Fixtures by whose parameter a case has a twin, if it also uses one of COMPARES.
RUNTIME_FIXTURES = ("runtime", "box", "podman")
COMPARES = ("observe", "same")


class Observed:
    """The comparison of one case. name: of the case, the runtime left out."""

    def __init__(self, store: dict[str, Any], name: str, runtime: str, reference: bool) -> None:
        self.store, self.name, self.runtime, self.reference = store, name, runtime, reference
        self.count = 0

    def __call__(self, value: Any, what: str = "") -> Any:
        """With runc remember a value, with another runtime demand the same; without runc on this machine only return it."""
        self.count += 1
        key = f"{self.name}: {what or self.count}"
        if self.runtime == "runc":
            self.store[key] = value
        elif self.reference:
            assert key in self.store, f"{key}: runc's case did not come this far or did not run: run it, too"
            assert value == self.store[key], f"differs from runc: {what or self.count}"
        return value


def observed(request: pytest.FixtureRequest, runtime: str, reference: bool) -> Observed:
    """The comparison of a running case; argument: reference, whether runc takes part in this run."""
    store = request.session.stash.setdefault(STORE, {})
    return Observed(store, twin(request.node, "*"), runtime, reference)


def runtime_of(item: pytest.Item) -> str | None:
    """The runtime of a case that compares, None for others."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if not set(COMPARES) & set(getattr(item, "fixturenames", ())):
        return None
    return next((parameters[name] for name in RUNTIME_FIXTURES if name in parameters), None)


def twin(item: pytest.Item, runtime: str) -> str:
    """The id of the same case with another runtime."""
    mine = runtime_of(item)
    if mine is None:
        return item.nodeid
    head, _, tail = item.nodeid.partition("[")
    words = tail.rstrip("]").split("-")
    words[words.index(mine)] = runtime
    return f"{head}[{'-'.join(words)}]"


def pair(collected: list[pytest.Item], selected: list[pytest.Item]) -> list[pytest.Item]:
    """The cases to run: before each case of another runtime its twin of runc's, selected (-k, -m) or not."""
    by_id = {item.nodeid: item for item in collected}
    order: dict[str, pytest.Item] = {}
    for item in selected:
        if runtime_of(item) not in (None, "runc"):
            other = twin(item, "runc")
            if other in by_id:
                order.setdefault(other, by_id[other])
        order.setdefault(item.nodeid, item)
    return list(order.values())

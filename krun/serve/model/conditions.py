"""Conditions of status, with Knative's rules for the condition that sums the others up.

Source: knative.dev/pkg apis/condition_set_impl (condition_set.go), knative/specs common/error-signalling.md. False
dominates, then Unknown; among equals the newest transition wins; Ready copies reason and message.
"""

from typing import Any

from krun.serve.model.values import now

Condition = dict[str, Any]


class Conditions:
    """The conditions of one status. `ready` is the sum of `dependents`; others are information only.

    The list in `status` is replaced, never changed in place, so that an older copy of the object stays valid.
    """

    __slots__ = ("status", "ready", "dependents", "clock")

    def __init__(
        self, status: dict[str, Any], *dependents: str, ready: str = "Ready", clock: str | None = None
    ) -> None:
        self.status = status
        listed = status.get("conditions") or ()
        if not all("type" in one and "status" in one for one in listed):
            # An earlier server took them from a client.
            status["conditions"] = [one for one in listed if "type" in one and "status" in one]
        self.ready = ready
        self.dependents = dependents
        self.clock = clock

    def get(self, name: str) -> Condition | None:
        """Returns the condition `name`, or None."""
        return find(self.status, name)

    def state(self, name: str) -> str:
        """Returns True, False or Unknown, as a word; Unknown if it is not there."""
        found = self.get(name)
        return str(found["status"]) if found else "Unknown"

    def initialize(self) -> "Conditions":
        """Sets what is missing: to Unknown, or to True if the sum is already True."""
        happy = self.get(self.ready)
        if happy is None:
            self._set(self.ready, "Unknown")
        value = "True" if happy and happy["status"] == "True" else "Unknown"
        for name in self.dependents:
            if self.get(name) is None:
                self._set(name, value)
        return self

    def true(self, name: str, reason: str = "", message: str = "") -> None:
        """Sets `name` to True and the sum to what the dependents give."""
        self._set(name, "True", reason, message)
        self._recompute(name)

    def false(self, name: str, reason: str, message: str) -> None:
        """Sets `name` to False, and the sum if it depends on `name`."""
        self._set(name, "False", reason, message)
        if name in self.dependents:
            self._set(self.ready, "False", reason, message)

    def unknown(self, name: str, reason: str = "", message: str = "") -> None:
        """Sets `name` to Unknown, and the sum if it depends on `name` and no dependent is False."""
        self._set(name, "Unknown", reason, message)
        if any(self.state(other) == "False" for other in self.dependents):
            if self.state(self.ready) != "False":
                self._set(self.ready, "False", reason, message)
            return
        if name in self.dependents:
            self._set(self.ready, "Unknown", reason, message)

    def copy(self, name: str, source: Condition | None) -> None:
        """Sets `name` to the status, reason and message of another object's condition; nothing if there is none."""
        if source is None:
            return
        reason, message = source.get("reason", ""), source.get("message", "")
        if source["status"] == "True":
            self.true(name)
        elif source["status"] == "False":
            self.false(name, reason, message)
        else:
            self.unknown(name, reason, message)

    def _severity(self, name: str) -> str:
        return "" if name == self.ready or name in self.dependents else "Info"

    def _set(self, name: str, value: str, reason: str = "", message: str = "") -> None:
        fresh: Condition = {"type": name, "status": value}
        severity = self._severity(name)
        if severity:
            fresh["severity"] = severity
        if reason:
            fresh["reason"] = reason
        if message:
            fresh["message"] = message
        others = []
        for known in self.status.get("conditions", ()):
            if known["type"] != name:
                others.append(known)
            elif {key: item for key, item in known.items() if key != "lastTransitionTime"} == fresh:
                return
        fresh["lastTransitionTime"] = self.clock or now()
        self.status["conditions"] = sorted([*others, fresh], key=lambda item: item["type"])

    def _recompute(self, changed: str) -> None:
        unhappy = self._unhappy()
        if unhappy is not None:
            self._set(self.ready, unhappy["status"], unhappy.get("reason", ""), unhappy.get("message", ""))
        elif changed != self.ready:
            self._set(self.ready, "True")

    def _unhappy(self) -> Condition | None:
        if not self.dependents:
            return None
        found = [item for name in self.dependents if (item := self.get(name)) is not None]
        found.sort(key=lambda item: str(item.get("lastTransitionTime", "")), reverse=True)
        for value in ("False", "Unknown"):
            for item in found:
                if item["status"] == value:
                    return item
        if len(found) < len(self.dependents):
            return {"status": "Unknown"}
        return None


def find(status: dict[str, Any] | None, name: str) -> Condition | None:
    """Returns the condition `name` of a status object, or None."""
    for item in (status or {}).get("conditions") or ():
        if item.get("type") == name:
            found: Condition = item
            return found
    return None


def is_ready(obj: dict[str, Any]) -> bool:
    """Whether the newest generation was observed and Ready is True."""
    return _observed(obj) and (find(obj.get("status"), "Ready") or {}).get("status") == "True"


def is_failed(obj: dict[str, Any]) -> bool:
    """Whether the newest generation was observed and Ready is False."""
    return _observed(obj) and (find(obj.get("status"), "Ready") or {}).get("status") == "False"


def _observed(obj: dict[str, Any]) -> bool:
    status = obj.get("status") or {}
    return bool(status.get("observedGeneration") == obj.get("metadata", {}).get("generation"))

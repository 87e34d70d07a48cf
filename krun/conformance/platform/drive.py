"""Runs the cases on a platform and returns the facts: plain data, which the checks judge.

Order: 1 a namespace, the ConfigMap, the services, 2 manifests that must be refused (as dry runs), 3 each service ready or failed,
4 logs and pods before any request, 5 the probe's answers, fields and protocols, 6 a long request, then scale to zero and many requests
at once, 7 a revision without traffic, 8 a deletion with its signal, 9 everything is deleted. A failure is a fact of its case; step
9 is done all the same. What the platform sends may have any shape: `dig` reads it.
"""

import json
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

from krun.conformance.cases import MARK
from krun.conformance.facts import shown
from krun.conformance.platform import cases
from krun.conformance.platform.client import Answer, Client, dig
from krun.errors import KrunError

Facts = dict[str, Any]
_SERVING = "/apis/serving.knative.dev/v1/namespaces"
_READY = 120.0  # seconds for all services
_ZERO = 180.0  # seconds for an idle service: the window, Knative's grace of 30 s, a slow machine
_LAST = 60.0  # seconds beyond the grace for a program to be killed
_MANY = 20  # requests at once to a service at zero
_POLL = 0.2
_PODS = 10  # of a service, whose logs are read: each takes its time
_NAME = re.compile(r"[a-z0-9.-]{1,253}")
_LOGGED = 30.0  # seconds for a line to come into the log
_LATEST = "unready"  # fails after the progress deadline: looked at last
MERGE = "application/merge-patch+json"


def run(client: Client, image: str) -> Facts:
    """Run all cases. Arguments: the platform; reference of the probe's image there. Returns case -> facts, and "platform".

    Raises KrunError where the platform has no API, or refuses a namespace.
    """
    name = f"krun-conformance-{os.getpid()}-{os.urandom(2).hex()}"
    run = _Run(client, image, name)
    code, value = client.ask(
        "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    if code != 201:
        raise KrunError(f"make the namespace {name}: status {code}: {shown(str(dig(value, 'message')))}")
    try:
        run.deploy()
        run.refusals()
        run.settle([name for name in cases.CASES if name != _LATEST])
        run.look()
        run.ask()
        run.scale()
        run.idle_revision()
        run.end()
        run.settle([_LATEST])
    finally:
        run.clean()
    return run.facts


class _Run:
    """The cases on their way. Arguments: as `run`'s; namespace."""

    def __init__(self, client: Client, image: str, namespace: str) -> None:
        self.client = client
        self.image = image
        self.namespace = namespace
        self.core = f"/api/v1/namespaces/{namespace}"
        self.path = f"{_SERVING}/{namespace}"
        self.facts: Facts = {name: {"answers": {}, "errors": {}, "states": {}} for name in cases.CASES}
        self.facts["platform"] = {"refused": {}, "errors": {}}
        self.platform = self.facts["platform"]

    # ------------------------------------------------------------------------------------- deployment

    def deploy(self) -> None:
        """The ConfigMap and all services."""
        volume = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "probe"},
            "data": {"key": MARK},
        }
        self._try("platform", "configmap", "POST", f"{self.core}/configmaps", volume)
        for name in cases.CASES:
            obj = self._try(name, "run", "POST", f"{self.path}/services", cases.service(name, self.image))
            self.facts[name]["posted"] = dig(obj, "spec", "template", "spec")

    def _try(
        self, case: str, what: str, method: str, path: str, body: Any = None, media: str = "application/json"
    ) -> Any:
        """Ask; a failure is a fact of the case. Returns the answer's object, or None."""
        try:
            code, value = self.client.ask(method, path, body, media)
        except KrunError as error:
            self.facts[case]["errors"][what] = str(error)
            return None
        if code >= 400 or value is None:
            self.facts[case]["errors"][what] = f"status {code}: {shown(str(dig(value, 'message')), 300)}"
            return None
        return value

    def refusals(self) -> None:
        """Post what a developer must not set, as dry runs: what the platform would store, or its words."""
        for index, one in enumerate(cases.FORBIDDEN):
            key = f"{one.row} {index}"
            obj = cases.forbidden(index, self.image)
            try:
                code, value = self.client.ask(
                    "POST", f"{self.path}/services?dryRun=All&fieldValidation=Ignore", obj
                )
            except KrunError as error:
                self.platform["errors"][key] = str(error)
                continue
            stored = dig(value, "spec", "template", "spec", *one.path)
            self.platform["refused"][key] = {
                "code": code,
                "kind": dig(value, "kind"),
                "message": dig(value, "message"),
                "stored": stored,
            }

    def settle(self, names: list[str]) -> None:
        """Wait until each of the services is ready or failed."""
        end = time.monotonic() + _READY
        left = [name for name in names if "run" not in self.facts[name]["errors"]]
        while left and time.monotonic() < end:
            for name in list(left):
                obj = self._try(name, "get", "GET", f"{self.path}/services/{name}")
                ready = _condition(obj, "Ready")
                if ready in ("True", "False"):
                    left.remove(name)
                    self.facts[name]["ready"] = ready
                    self._remember(name, obj)
            time.sleep(_POLL)
        for name in left:
            self.facts[name]["errors"]["run"] = f"it is neither ready nor failed after {_READY:g} s"

    def _remember(self, name: str, obj: Any) -> None:
        found = self.facts[name]
        found["url"] = dig(obj, "status", "url")
        found["revision"] = dig(obj, "status", "latestCreatedRevisionName")
        revision = self._try(name, "revision", "GET", f"{self.path}/revisions/{found['revision']}")
        listed = dig(revision, "status", "conditions")
        found["conditions"] = [
            {key: dig(one, key) for key in ("type", "status", "reason", "message")}
            for one in (listed if isinstance(listed, list) else [])
        ]
        if found.get("ready") == "False" and cases.CASES[name].ready:
            found["errors"]["run"] = f"it failed: {found['conditions']}"[:400]

    # ------------------------------------------------------------------------------------- looking

    def look(self) -> None:
        """Pods before any request; the log of the program that has failed."""
        for name in cases.CASES:
            self.facts[name]["pods"] = len(self._pods(name))
        self.facts["fails"]["stderr"] = self._log("fails")

    def _pods(self, name: str, revision: str = "") -> list[str]:
        key, value = ("revision", revision) if revision else ("service", name)
        selector = quote(f"serving.knative.dev/{key}={value}")
        listed = dig(self._try(name, "pods", "GET", f"{self.core}/pods?labelSelector={selector}"), "items")
        names = [dig(one, "metadata", "name") for one in (listed if isinstance(listed, list) else [])]
        return [one for one in names if isinstance(one, str) and _NAME.fullmatch(one)]

    def _log(self, name: str, query: str = "", seconds: float = 10.0) -> str:
        """The logs of a service's pods, of the run before too."""
        texts = []
        for pod in self._pods(name)[:_PODS]:
            for previous in ("", "&previous=true"):
                path = f"{self.core}/pods/{quote(pod)}/log?container=user-container{previous}{query}"
                try:
                    texts.append(self.client.text(path, seconds))
                except KrunError as error:
                    self.facts[name]["errors"][f"log{previous}"] = str(error)
        return "".join(texts)

    # ------------------------------------------------------------------------------------- asking

    def ask(self) -> None:
        """The probe's answers to the instructions; the fields and protocols that it sees; its log."""
        for name, case in cases.CASES.items():
            if case.ready and "run" not in self.facts[name]["errors"]:
                for instruction in case.asked or []:
                    self._instruct(name, instruction)
                    if "run" in self.facts[name]["errors"]:
                        break
        for name in ("user", "image", "root", "h2c"):
            answer = self._request(name, "/request", [*cases.FIELDS])
            self.facts[name]["request"] = _head(answer)
        upgrade = [
            ("Connection", "Upgrade, HTTP2-Settings"),
            ("Upgrade", "h2c"),
            ("HTTP2-Settings", "AAMAAABkAAQAAP__"),
        ]
        answer = self._request("image", "/request", upgrade)
        self.facts["image"]["upgrade"] = answer.status if answer else None
        self._request("user", f"/log/{MARK}-stdout")
        self._request("user", f"/do/stderr:{MARK}-stderr")
        end = time.monotonic() + _LOGGED
        while time.monotonic() < end:
            self.facts["user"]["log"] = self._log("user")
            if all(f"{MARK}-{word}" in self.facts["user"]["log"] for word in ("stdout", "stderr")):
                break
            time.sleep(_POLL)
        self.facts["user"]["syslog"] = MARK if _is_line(self.facts["user"]["log"], MARK) else ""

    def _instruct(self, name: str, instruction: str) -> None:
        answer = self._request(name, "/do/" + quote(instruction, safe=":"))
        try:
            found = json.loads(answer.body) if answer else None
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and found.pop("do", None) == instruction:
            self.facts[name]["answers"][instruction] = found
        elif answer:
            self.facts[name]["errors"]["run"] = (
                f"{instruction}: status {answer.status}: {answer.body[:100]!r}"
            )

    def _request(
        self, name: str, path: str, fields: "list[tuple[str, str]] | None" = None
    ) -> "Answer | None":
        """Send a request to a service. Returns its answer, or None; the failure is a fact then."""
        host = str(self.facts[name].get("url") or "").partition("://")[2].partition("/")[0]
        if not host:
            return None
        try:
            return self.client.request(host, path, fields)
        except KrunError as error:
            self.facts[name]["errors"]["run"] = str(error)
            return None

    # ------------------------------------------------------------------------------------- scale

    def scale(self) -> None:
        """A request that is longer than the window; the end of the last instance; many requests to none."""
        found = self.facts["zero"]
        began = self._pods("zero") if self._request("zero", "/request") else []
        found["began"] = len(began)
        answer = self._request("zero", f"/sleep/{cases.SLEEP * 1000}")
        found["long"] = {"status": answer.status if answer else None, "same": self._pods("zero") == began}
        idle = time.monotonic()
        while self._pods("zero") and time.monotonic() < idle + _ZERO:
            time.sleep(_POLL)
        found["left"] = len(self._pods("zero"))
        found["idle"] = round(time.monotonic() - idle, 1)
        begin = time.monotonic()
        with ThreadPoolExecutor(_MANY) as pool:
            made = list(pool.map(lambda _: self._timed(begin), range(_MANY)))
        found["burst"] = [status for status, _ in made]
        served = [seconds for status, seconds in made if status == 200]
        if served:
            found["seconds"] = round(min(served), 3)

    def _timed(self, begin: float) -> tuple["int | None", float]:
        answer = self._request("zero", "/request")
        return answer.status if answer else None, time.monotonic() - begin

    def idle_revision(self) -> None:
        """A second revision of "image", while all traffic stays with the first."""
        found = self.facts["image"]
        first = found.get("revision")
        change = {
            "spec": {
                "template": {"metadata": {"annotations": {"example.com/second": "yes"}}},
                "traffic": [{"revisionName": first, "percent": 100}],
            }
        }
        self._try("image", "patch", "PATCH", f"{self.path}/services/image", change, MERGE)
        end = time.monotonic() + _READY
        while time.monotonic() < end:
            obj = self._try("image", "get", "GET", f"{self.path}/services/image")
            second = dig(obj, "status", "latestCreatedRevisionName")
            if isinstance(second, str) and second != first:
                revision = self._try("image", "second", "GET", f"{self.path}/revisions/{second}")
                ready = _condition(revision, "Ready")
                if ready in ("True", "False"):
                    found["second"] = {"ready": ready, "pods": len(self._pods("image", second))}
                    return
            time.sleep(_POLL)

    def end(self) -> None:
        """Delete the stubborn service, and follow its log to its end."""
        pods = self._pods("stubborn")
        if not pods:
            return
        path = f"{self.core}/pods/{quote(pods[0])}"
        begun = threading.Event()
        log = f"{path}/log?container=user-container&follow=true"
        thread = threading.Thread(target=self._follow, args=(log, begun))
        thread.start()
        begun.wait(_LOGGED)  # the program has printed a line at its start
        self._try("stubborn", "delete", "DELETE", f"{self.path}/services/stubborn")
        thread.join()

    def _follow(self, path: str, begun: threading.Event) -> None:
        try:
            self.facts["stubborn"]["log"] = self.client.text(path, cases.GRACE + _LAST, begun.set)
        except KrunError as error:
            self.facts["stubborn"]["errors"]["follow"] = str(error)
        finally:
            begun.set()

    def clean(self) -> None:
        """Delete the services, wait for the end of their pods, delete the namespace."""
        for name in cases.CASES:
            self._try("platform", f"delete {name}", "DELETE", f"{self.path}/services/{name}")
        end = time.monotonic() + _LAST
        while time.monotonic() < end:
            if not dig(self._try("platform", "pods", "GET", f"{self.core}/pods"), "items"):
                break
            time.sleep(_POLL)
        self._try("platform", "delete", "DELETE", f"/api/v1/namespaces/{self.namespace}")


def _condition(obj: Any, name: str) -> Any:
    """Return the status of a condition that speaks of the object's generation, else None."""
    if dig(obj, "status", "observedGeneration") != dig(obj, "metadata", "generation"):
        return None
    listed = dig(obj, "status", "conditions")
    for one in listed if isinstance(listed, list) else []:
        if dig(one, "type") == name:
            return dig(one, "status")
    return None


def _head(answer: "Answer | None") -> str:
    """Return the head of the request as the probe saw it."""
    try:
        head = dig(json.loads(answer.body), "head") if answer else ""
    except (ValueError, RecursionError):
        head = ""
    return head if isinstance(head, str) else ""


def _is_line(text: str, word: str) -> bool:
    """Whether a message of syslog(3) is in a log: alone, or behind what the platform puts before it."""
    return any(line == word or line.endswith((f" {word}", f":{word}")) for line in text.splitlines())

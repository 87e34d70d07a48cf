"""Watches as clients read them: one JSON object a line, for as long as they listen.

Sources: Kubernetes API concepts, "Efficient detection of changes", "Watch bookmarks", "Streaming lists". The stream begins
with the current objects if the client gives no resourceVersion (or asks by sendInitialEvents), and with the events after
that version otherwise; kn relies on the replay.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

from krun.serve.model import meta
from krun.serve.model.kinds import Kind
from krun.serve.model.status import ApiError, bad_request
from krun.serve.store import selectors
from krun.serve.store.store import Store
from krun.serve.store.watch import Event

Object = dict[str, Any]
#: Seconds between two bookmarks of an idle watch.
_BOOKMARK = 60.0
#: Seconds after which a watch without timeoutSeconds ends; clients begin a new one.
_LONGEST = 1800.0


class WatchQuery:
    """The parameters of a watch. Errors: ApiError 400."""

    def __init__(self, query: Callable[[str], str]) -> None:
        self.labels = query("labelSelector")
        self.fields = query("fieldSelector")
        self.version = _number(query("resourceVersion"), "resourceVersion")
        self.initial = query("sendInitialEvents") in ("true", "1")
        self.bookmarks = query("allowWatchBookmarks") in ("true", "1")
        if self.initial and query("resourceVersionMatch") != "NotOlderThan":
            raise bad_request("sendInitialEvents: resourceVersionMatch must be NotOlderThan")
        seconds = _number(query("timeoutSeconds"), "timeoutSeconds")
        self.seconds = float(seconds) if seconds else _LONGEST * (1 + random.random())
        # Now, because the head of the answer is sent before the stream begins.
        selectors.labels(self.labels)
        selectors.fields(self.fields)
        if not self.version and not query("sendInitialEvents"):
            self.initial = True


def _number(text: str, name: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise bad_request(f"{name}: {text[:32]!r} is no number")
    return int(text)


async def stream(
    store: Store, kind: Kind, namespace: str | None, query: WatchQuery, show: Callable[[Object], Object]
) -> AsyncIterator[bytes]:
    """Yields the lines of a watch. `show` gives an object the form that the client asked for.

    An error (410: the events after the version are no longer kept) is a line of type ERROR, which ends the stream.
    """
    match_labels, match_fields = selectors.labels(query.labels), selectors.fields(query.fields)

    def matches(obj: Object) -> bool:
        return (match_labels is None or match_labels(obj)) and (match_fields is None or match_fields(obj))

    since = store.rv if query.initial else query.version
    try:
        watch = store.watch(kind, namespace, since)
    except ApiError as error:
        yield _line("ERROR", error.status())
        return
    filtered = match_labels is not None or match_fields is not None
    seen: set[str] = set()
    if query.initial or filtered:
        # Which objects the client knows: one that stops matching is told as DELETED.
        current = store.list(kind, namespace, query.labels, query.fields)
        seen = {meta.uid(obj) for obj in current} if filtered else set()
        if not query.initial:
            current.clear()
    end = asyncio.get_running_loop().time() + query.seconds
    try:
        if query.initial:
            # Each is let go when it is told: a watch lives for half an hour.
            current.reverse()
            while current:
                yield _line("ADDED", show(current.pop()))
            if query.bookmarks:
                yield _line("BOOKMARK", show(_bookmark(kind, since, initial=True)))
        while True:
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                return
            try:
                async with asyncio.timeout(min(left, _BOOKMARK)):
                    event = await anext(watch)
            except TimeoutError:
                if query.bookmarks:
                    yield _line("BOOKMARK", show(_bookmark(kind, store.rv)))
                continue
            except StopAsyncIteration:
                return
            except ApiError as error:
                yield _line("ERROR", error.status())
                return
            line = _tell(event, matches(event.obj), seen if filtered else None, show)
            if line:
                yield line
    finally:
        watch.close()


def _tell(event: Event, matching: bool, seen: set[str] | None, show: Callable[[Object], Object]) -> bytes:
    """Returns the line of an event: an object that enters the selection is ADDED, one that leaves it DELETED."""
    uid, type = meta.uid(event.obj), event.type
    if seen is None:
        return _line(type, show(event.obj))
    if type == "DELETED":
        if not matching and uid not in seen:
            return b""
        seen.discard(uid)
    elif matching:
        if type == "MODIFIED" and uid not in seen:
            type = "ADDED"
        seen.add(uid)
    elif uid in seen:
        seen.discard(uid)
        type = "DELETED"
    else:
        return b""
    return _line(type, show(event.obj))


def _line(type: str, obj: Object) -> bytes:
    return json.dumps({"type": type, "object": obj}, separators=(",", ":")).encode() + b"\n"


def _bookmark(kind: Kind, version: int, initial: bool = False) -> Object:
    data: Object = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial:
        data["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": data}

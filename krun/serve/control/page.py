"""The status page: what runs, in one document without scripts. Read-only; a browser asks for it again every 5 seconds."""

import time
from html import escape
from itertools import islice
from typing import Any

from krun import __version__
from krun.serve.control.member import Member
from krun.serve.control.pagehtml import age, bar, chart, document, link, mark, summary, table
from krun.serve.control.pools import Pools
from krun.serve.http.types import Response
from krun.serve.model import conditions, meta
from krun.serve.model.kinds import REVISION, SERVICE
from krun.serve.store.store import Store

Object = dict[str, Any]
#: Rows of one table; more are counted only, so that the page of a thousand services is answered in a few milliseconds.
_ROWS = 200
#: Seconds that a chart shows: at most, and at least while the server is young.
_CHART, _YOUNG = 300.0, 60.0
_HEADERS = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
_READY = {"True": ("Ready", "good"), "False": ("Failed", "bad"), "Unknown": ("Pending", "wait")}
_NO_SERVICE = (
    "<p>No service yet. Make one:</p><pre><code>krun deploy IMAGE|DIR --name hello\n"
    "kn service create hello --image IMAGE</code></pre>"
)
_LEGEND = (
    '<footer>Charts: <i class="dot line"></i>ready instances <i class="dot area"></i>requests being served or waiting.'
    ' Start phases: <i class="dot s0"></i>until the containers run <i class="dot s1"></i>until the probes succeed.'
    ' The page is read-only; <a href="/metrics">metrics</a>.</footer>'
)


def page(store: Store, pools: Pools, started: float) -> Response:
    """Returns the page. `started`: when the server began, seconds of the steady clock."""
    all_pools = list(pools.pools.values())
    members = [member for pool in all_pools for member in pool.members.values()]
    ready = sum(member.ready for member in members)
    serving = sum(pool.queue.in_flight for pool in all_pools)
    waiting = sum(pool.queue.queued for pool in all_pools)
    asleep = sum(not pool.members for pool in all_pools)
    services = store.list(SERVICE)
    good = sum(conditions.is_ready(obj) for obj in services)
    cards = [
        (str(len(services)), "Services", f"{good} ready"),
        (str(store.count(REVISION)), "Revisions", f"{asleep} at zero"),
        (str(len(members)), "Instances", f"{ready} ready"),
        (str(serving), "Requests", f"{waiting} waiting"),
    ]
    body = [
        summary(cards),
        _services(services),
        _revisions(store, pools, min(max(time.monotonic() - started, _YOUNG), _CHART)),
        _instances(pools),
        _LEGEND,
    ]
    aside = f"version {escape(__version__)}, up {age(time.monotonic() - started)}"
    return Response(200, list(_HEADERS), document("krun serve", aside, body))


def _name(obj: Object) -> str:
    return _qualified(meta.namespace(obj), meta.name(obj))


def _qualified(namespace: str, name: str) -> str:
    return f'<span class="soft">{escape(namespace)}/</span><b>{escape(name)}</b>'


def _ready(obj: Object) -> str:
    found = conditions.find(obj.get("status"), "Ready") or {}
    word, kind = _READY.get(str(found.get("status")), _READY["Unknown"])
    return mark(
        word, kind, ": ".join(part for part in (found.get("reason", ""), found.get("message", "")) if part)
    )


def _services(services: list[Object]) -> str:
    rows = []
    for obj in services[:_ROWS]:
        status = obj.get("status") or {}
        url = status.get("url", "")
        rows.append([_name(obj), _ready(obj), link(url, url), _traffic(status.get("traffic") or [])])
    heads = ("Service", "Status", "URL", "Traffic")
    return table("Services", heads, rows, len(services), _NO_SERVICE)


def _traffic(targets: list[Object]) -> str:
    """Returns the shares of a route; a tag leads to its own host."""
    parts = []
    for one in targets:
        share = one.get("percent") or 0
        tag = f" {link(one.get('url', ''), '#' + one['tag'])}" if one.get("tag") else ""
        latest = ' <span class="soft">latest</span>' if one.get("latestRevision") else ""
        parts.append((float(share), f"{share} % {escape(one.get('revisionName', ''))}{latest}{tag}"))
    return bar(parts, 100.0) if parts else ""


def _revisions(store: Store, pools: Pools, span: float) -> str:
    """Returns the table of revisions. span: seconds that the charts show."""
    rows = []
    now = pools.loop.time()
    for obj in islice(store.each(REVISION), _ROWS):
        key = (meta.namespace(obj), meta.name(obj))
        pool, scaler = pools.pools.get(key), pools.scalers.get(key)
        image = f'<span class="why">{escape(str(obj["spec"]["containers"][0].get("image", "")))}</span>'
        if pool is None or scaler is None:
            rows.append([_name(obj) + image, _ready(obj), "", "", ""])
            continue
        wanted = pool.state.wanted
        scale = f"{pool.ready} of {wanted}" if wanted or pool.members else mark("at zero", "idle")
        queue = pool.queue
        requests = str(queue.in_flight)
        if queue.queued:
            requests += f' <span class="soft">+ {queue.queued} waiting</span>'
        picture = chart(scaler.history, now, span)
        rows.append([_name(obj) + image, _ready(obj), scale, requests, picture])
    heads = ("Revision", "Status", "Ready instances", "Requests", "Scale over time")
    return table("Revisions", heads, rows, store.count(REVISION), "<p>none</p>")


def _state(member: Member) -> str:
    """Returns the mark of a member's state (member.py)."""
    if member.leaving:
        return mark("leaving", "idle")
    if member.frozen:
        return mark("frozen", "idle")
    if member.ready:
        return mark("ready", "good")
    return mark("unready", "bad") if member.ready_seconds else mark("starting", "wait")


def _phases(member: Member, longest: float) -> str:
    """Returns the phases of a start, on the scale of the slowest one of the page."""
    parts = []
    if member.start_seconds:
        parts.append((member.start_seconds, f"{member.start_seconds * 1000:.0f} ms containers run"))
    if member.ready_seconds:
        probed = member.ready_seconds - member.start_seconds
        parts.append(
            (probed, f"{probed * 1000:.0f} ms probes, ready after {member.ready_seconds * 1000:.0f} ms")
        )
    return bar(parts, longest) if parts else '<span class="soft">has just been asked for</span>'


def _instances(pools: Pools) -> str:
    found = [(pool, member) for pool in pools.pools.values() for member in pool.members.values()]
    shown = found[:_ROWS]
    longest = max((max(one.start_seconds, one.ready_seconds) for _, one in shown), default=0.0)
    now = pools.loop.time()
    rows = []
    for pool, member in shown:
        restarts = sum(member.instance.restarts.values()) if member.instance else 0
        rows.append(
            [
                _qualified(pool.namespace, member.name),
                _state(member),
                _phases(member, longest),
                str(restarts),
                str(member.backend.in_flight if member.backend else 0),
                age(now - member.wanted),
            ]
        )
    heads = ("Instance", "State", "Start phases", "Restarts", "Requests", "Age")
    return table("Instances", heads, rows, len(found), "<p>none: every service is at zero</p>")

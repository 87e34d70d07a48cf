"""The status page: what runs, in one document without scripts. Every text of an object is escaped: names are hostile, too."""

import time
from collections import deque
from html import escape
from typing import Any

from krun.serve.control.pools import Pools
from krun.serve.http.types import Response
from krun.serve.model import conditions, meta
from krun.serve.model.kinds import REVISION, SERVICE
from krun.serve.store.store import Store

Object = dict[str, Any]
#: Rows of one table; more are counted only, so that the page of a thousand services is answered in a few milliseconds.
_ROWS = 200
_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;width:100%;margin:0 0 2em}th,td{text-align:left;padding:.3em .6em;"
    "border-bottom:1px solid #ddd;vertical-align:top}th{color:#666;font-weight:600}"
    ".True{color:#176b2c}.False{color:#a4161a}.Unknown{color:#8a6100}svg{display:block}"
)
_HEADERS = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


def page(store: Store, pools: Pools, started: float) -> Response:
    """Returns the page. `started`: when the server began, seconds since 1970."""
    body = [
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>krun serve</title>",
        "<meta http-equiv=refresh content=5>",
        f"<style>{_STYLE}</style></head><body><h1>krun serve</h1>",
        f"<p>up {int(time.time() - started)} s, {store.count(SERVICE)} services, {store.count(REVISION)} revisions,"
        f" {sum(len(pool.members) for pool in pools.pools.values())} instances</p>",
        *_services(store),
        *_revisions(store, pools),
        *_instances(pools),
        "</body></html>",
    ]
    return Response(200, list(_HEADERS), "".join(body).encode("utf-8", "replace"))


def _table(title: str, heads: tuple[str, ...], rows: list[list[str]], total: int) -> list[str]:
    """Returns a table; cells are HTML."""
    out = [f"<h2>{title}</h2>"]
    if not rows:
        return [*out, "<p>none</p>"]
    out.append("<table><tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>")
    out += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    out.append("</table>")
    if total > len(rows):
        out.append(f"<p>and {total - len(rows)} more</p>")
    return out


def _ready(obj: Object) -> str:
    found = conditions.find(obj.get("status"), "Ready") or {}
    state = found.get("status", "Unknown")
    text = escape(
        ": ".join(part for part in (found.get("reason", ""), found.get("message", "")) if part)[:300]
    )
    return f"<span class={escape(state, True)}>{escape(state)}</span> {text}"


def _services(store: Store) -> list[str]:
    rows = []
    for obj in store.list(SERVICE)[:_ROWS]:
        status = obj.get("status") or {}
        url = status.get("url", "")
        link = (
            f'<a href="{escape(url, True)}">{escape(url)}</a>'
            if url.startswith(("http://", "https://"))
            else ""
        )
        shares = [
            f"{escape(one.get('tag', ''))} {one.get('percent', 0)} % {escape(one.get('revisionName', ''))}"
            for one in status.get("traffic") or ()
        ]
        name = escape(f"{meta.namespace(obj)}/{meta.name(obj)}")
        rows.append([name, link, "<br>".join(shares), _ready(obj)])
    return _table("Services", ("Name", "URL", "Traffic", "Ready"), rows, store.count(SERVICE))


def _revisions(store: Store, pools: Pools) -> list[str]:
    rows = []
    for obj in store.list(REVISION)[:_ROWS]:
        key = (meta.namespace(obj), meta.name(obj))
        pool, scaler = pools.pools.get(key), pools.scalers.get(key)
        image = escape(str(obj["spec"]["containers"][0].get("image", "")))
        if pool is None or scaler is None:
            rows.append([escape("/".join(key)), image, "", "", "", _ready(obj)])
            continue
        scale = f"{pool.ready} of {pool.state.wanted}"
        requests = f"{pool.queue.in_flight} + {pool.queue.queued} waiting"
        rows.append([escape("/".join(key)), image, scale, requests, _chart(scaler.history), _ready(obj)])
    heads = ("Name", "Image", "Ready instances", "Requests", "Last minutes", "Ready")
    return _table("Revisions", heads, rows, store.count(REVISION))


def _chart(history: deque[tuple[float, int, int]]) -> str:
    """Returns an SVG of the ready instances (line) and the requests (area) of the last minutes."""
    if len(history) < 2:
        return ""
    width, height = 160, 32
    first, last = history[0][0], history[-1][0]
    span, top = max(last - first, 1.0), max(max(max(one[1], one[2]) for one in history), 1)

    def points(column: int) -> str:
        return " ".join(
            f"{(one[0] - first) / span * width:.1f},{height - one[column] / top * (height - 2):.1f}"
            for one in history
        )

    return (
        f'<svg width="{width}" height="{height}" role="img"><polygon fill="#cfe3ff" points="0,{height} {points(2)}'
        f' {width},{height}"/><polyline fill="none" stroke="#1b5fc1" stroke-width="1.5" points="{points(1)}"/>'
        f"<title>at most {top}</title></svg>"
    )


def _instances(pools: Pools) -> list[str]:
    rows: list[list[str]] = []
    total = 0
    for pool in pools.pools.values():
        for member in pool.members.values():
            total += 1
            if len(rows) >= _ROWS:
                continue
            state = (
                "leaving"
                if member.leaving
                else "frozen"
                if member.frozen
                else "ready"
                if member.ready
                else "starting"
            )
            restarts = sum(member.instance.restarts.values()) if member.instance else 0
            rows.append(
                [
                    escape(f"{pool.namespace}/{member.name}"),
                    state,
                    f"{member.start_seconds * 1000:.0f} ms",
                    f"{member.ready_seconds * 1000:.0f} ms",
                    str(restarts),
                    str(member.backend.in_flight if member.backend else 0),
                ]
            )
    heads = ("Name", "State", "Started after", "Ready after", "Restarts", "Requests")
    return _table("Instances", heads, rows, total)

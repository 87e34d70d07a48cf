"""Tables: what kubectl prints.  Source: Kubernetes API concepts, "Receiving resources as Tables"; meta/v1 Table."""

import re
import time
from typing import Any

from krun.serve.model import conditions, meta
from krun.serve.model.kinds import Column, Kind
from krun.serve.model.values import parse_time

Object = dict[str, Any]
_NAME = Column("Name", "string", "metadata.name")


def wanted(accept: bytes | None) -> str:
    """Returns the version of meta.k8s.io (v1, v1beta1) if an Accept field prefers a table, else ""."""
    for part in (accept or b"").decode("latin-1").split(","):
        fields = dict(item.strip().partition("=")[::2] for item in part.split(";")[1:])
        if fields.get("as") == "Table" and fields.get("v") in ("v1", "v1beta1"):
            return fields["v"]
        if part.split(";")[0].strip() == "application/json" and "as" not in fields:
            return ""
    return ""


def columns(kind: Kind) -> tuple[Column, ...]:
    """Returns the columns of a kind; the name is always the first."""
    if kind.columns and kind.columns[0].title in ("Name", "Last Seen"):
        return kind.columns
    return (_NAME, *kind.columns)


def table(
    kind: Kind, objects: list[Object], version: str, include: str, metadata: Object, header: bool = True
) -> Object:
    """Returns a Table of `objects`. `include`: Metadata, Object or None, what a row carries of its object."""
    listed = columns(kind)
    definitions = [
        {
            "name": column.title,
            "type": "string" if column.type == "date" else column.type,
            "format": "name" if column.title == "Name" else "",
            "description": "",
            "priority": 0,
        }
        for column in listed
    ]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": definitions if header else None,
        "rows": [_row(obj, listed, version, include) for obj in objects],
    }


def _row(obj: Object, listed: tuple[Column, ...], version: str, include: str) -> Object:
    row: Object = {"cells": [_cell(obj, column) for column in listed]}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": obj["metadata"],
        }
    return row


def _cell(obj: Object, column: Column) -> Any:
    path = column.path
    if not path.startswith("@"):
        value: Any = obj
        for part in re.split(r"(?<!\\)\.", path):
            value = value.get(part.replace("\\.", ".")) if isinstance(value, dict) else None
        return value if value is not None else "" if column.type == "string" else None
    special = _SPECIAL.get(path)
    if special is not None:
        return special(obj)
    name, _, field = path[1:].partition(".")
    found = conditions.find(obj.get("status"), name) or {}
    return found.get(field, "")


def _age(obj: Object) -> str:
    return age(obj["metadata"].get("creationTimestamp", ""))


def age(text: str) -> str:
    """Returns the time since `text` in kubectl's short form (duration.HumanDuration)."""
    began = parse_time(text)
    if not began:
        return "<unknown>"
    seconds = int(max(time.time() - began, 0))
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        rest = seconds % 60
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        rest = minutes % 60
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    return f"{days}d" if days < 730 else f"{days // 365}y"


def _containers(obj: Object) -> str:
    statuses = (obj.get("status") or {}).get("containerStatuses") or []
    return f"{sum(bool(one.get('ready')) for one in statuses)}/{len(statuses)}"


def _restarts(obj: Object) -> int:
    statuses = (obj.get("status") or {}).get("containerStatuses") or []
    return sum(int(one.get("restartCount", 0)) for one in statuses)


def _ports(obj: Object) -> str:
    ports = (obj.get("spec") or {}).get("ports") or []
    return ",".join(f"{one.get('port')}/{one.get('protocol', 'TCP')}" for one in ports) or "<none>"


def _data(obj: Object) -> int:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def _involved(obj: Object) -> str:
    ref = obj.get("involvedObject") or {}
    return f"{str(ref.get('kind', '')).lower()}/{ref.get('name', '')}"


def _seen(obj: Object) -> str:
    return age(obj.get("lastTimestamp") or meta.meta(obj).get("creationTimestamp", ""))


_SPECIAL = {
    "@age": _age,
    "@containers": _containers,
    "@restarts": _restarts,
    "@ports": _ports,
    "@data": _data,
    "@involved": _involved,
    "@seen": _seen,
}

"""The options of a Pod's log (core/v1 PodLogOptions), checked as Kubernetes' ValidatePodLogOptions checks them."""

import re
import time
from datetime import datetime
from typing import Any

from krun.serve.model import status

_TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)")
Object = dict[str, Any]
_MOST = (1 << 63) - 1


def options(query: dict[str, list[str]]) -> dict[str, Any]:
    """Returns the arguments of run.logs.read for a request's query. Errors: ApiError 400, 422."""
    tail = _number(query, "tailLines", 0)
    limit = _number(query, "limitBytes", 1)
    seconds = _number(query, "sinceSeconds", 1)
    text = query.get("sinceTime", [""])[-1]
    since = _nanoseconds(text) if text else 0
    if text and seconds is not None:
        raise _invalid(
            "sinceSeconds", "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        )
    if seconds is not None:
        since = max(0, time.time_ns() - seconds * 10**9)
    flags = {
        name: query.get(name, [""])[-1] in ("true", "1") for name in ("follow", "previous", "timestamps")
    }
    return {"tail": tail, "limit": limit, "since": since, **flags}


def container_of(pod: Object, wanted: str) -> str:
    """Returns the container that a request names, the first one for "". Errors: ApiError, the pod has none of the name."""
    names = [one["name"] for one in pod["spec"]["containers"]]
    if wanted and wanted not in names:
        raise status.bad_request(f"container {wanted[:64]} is not valid for pod {pod['metadata']['name']}")
    return wanted or names[0]


def no_previous(container: str, pod: str) -> status.ApiError:
    """The container has not started twice, or the log of its last start but one has gone (kubelet_pods.go)."""
    return status.bad_request(f'previous terminated container "{container}" in pod "{pod}" not found')


def _number(query: dict[str, list[str]], name: str, least: int) -> int | None:
    text = query.get(name, [""])[-1]
    if not text:
        return None
    if not re.fullmatch(r"-?[0-9]{1,19}", text) or int(text) > _MOST:
        raise status.bad_request(f"{name}: {text[:32]!r} is no number")
    if int(text) < least:
        words = "must be greater than or equal to 0" if least == 0 else "must be greater than 0"
        raise _invalid(name, f"Invalid value: {int(text)}: {words}")
    return int(text)


def _nanoseconds(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 time, 0 of an earlier one. Errors: ApiError 400."""
    match = _TIME.fullmatch(text)
    if match:
        try:
            seconds = int(datetime.fromisoformat(match[1] + match[3].upper()).timestamp())
            return max(0, seconds * 10**9 + int((match[2] or "0").ljust(9, "0")))
        except (ValueError, OverflowError):
            pass
    raise status.bad_request(f"sinceTime: {text[:40]!r} is no time of RFC 3339")


def _invalid(field: str, text: str) -> status.ApiError:
    return status.ApiError(422, "Invalid", f'PodLogOptions "" is invalid: {field}: {text}')

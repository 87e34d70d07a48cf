"""Values of objects: times, and the JSON that the store wrote. Source: RFC 3339."""

import json
import time
from datetime import UTC, datetime
from typing import Any


def now() -> str:
    """Returns the present time as objects carry it: RFC 3339, whole seconds, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def parse_time(text: str) -> float:
    """Returns the seconds since 1970 of an RFC 3339 time; 0.0 if `text` is none."""
    try:
        value = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (ValueError, AttributeError):
        return 0.0
    return value.replace(tzinfo=value.tzinfo or UTC).timestamp()


def parse_json(text: bytes) -> dict[str, Any]:
    """Returns the object of a JSON text that the store wrote."""
    found: dict[str, Any] = json.loads(text)
    return found

"""Bodies of requests: JSON, YAML (apply-patch) and protobuf, with the bounds that a hostile body meets."""

import json
import math
from typing import Any

from krun.serve import yamltext
from krun.serve.api import protobuf
from krun.serve.model.status import ApiError, bad_request, unsupported

#: Bytes of a body; the API server of Kubernetes takes 3 MiB as well.
LIMIT = 3 << 20
_DEPTH = 64
#: Values in a body. Each is looked at some twenty times on the loop: 200000 of them took 10 s. A patch of 10000 operations has 40001.
_VALUES = 50000
_JSON = ("application/json", "application/merge-patch+json", "application/json-patch+json")
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def media_type(header: bytes | None) -> str:
    """Returns the media type of a Content-Type field, without parameters, in small letters."""
    return (header or b"").split(b";")[0].strip().lower().decode("latin-1")


def decode(data: bytes, media: str) -> tuple[Any, list[str]]:
    """Returns the value of a body and the paths of duplicate fields (the last one holds).

    Errors: ApiError 400, the body is not what its type says; 415, the type is not served.
    """
    if media == protobuf.MEDIA:
        value = protobuf.decode(data)
        check(value, False)
        return value, []
    if media in (APPLY, "application/yaml"):
        return _yaml(data), []
    if media in _JSON or media == STRATEGIC:
        return _json(data)
    raise unsupported(media or "no Content-Type")


def _json(data: bytes) -> tuple[Any, list[str]]:
    duplicates: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(items)
        if len(out) != len(items):
            seen: set[str] = set()
            for name, _ in items:
                if name in seen:
                    duplicates.append(name)
                seen.add(name)
        return out

    try:
        text = data.decode("utf-8")
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=_constant, parse_float=_float)
    except UnicodeDecodeError:
        raise bad_request("decode body: it is not UTF-8") from None
    except RecursionError:
        raise bad_request("decode body: it is nested too deep") from None
    except ValueError as error:
        raise bad_request(f"decode body: {error}") from None
    check(value, "\\ud" in text.lower())
    return value, duplicates


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:32]} is no number that JSON can carry")
    return value


def _yaml(data: bytes) -> Any:
    # JSON is YAML, and the clients that matter send JSON here: it is decoded first, because YAML is a hundred times slower.
    try:
        return _json(data)[0]
    except ApiError:
        pass
    try:
        # Dates, sets and numeric keys are YAML and no JSON.
        value = json.loads(json.dumps(yamltext.load(data), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise bad_request(f"decode body: {error}") from None
    check(value, True)
    return value


def check(value: Any, surrogates: bool, values: int = _VALUES) -> None:
    """Bounds depth and values, and refuses lone surrogates: no UTF-8 text can carry them on. Errors: ApiError 400."""
    level, count = [value], 0
    for _ in range(_DEPTH):
        level = [
            child
            for one in level
            if isinstance(one, dict | list)
            for child in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            break
        count += len(level)
        if count > values:
            raise bad_request(f"decode body: it has more than {values} values")
    else:
        raise bad_request(f"decode body: it is nested deeper than {_DEPTH} levels")
    if surrogates:
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise bad_request("decode body: a string holds half of a surrogate pair") from None

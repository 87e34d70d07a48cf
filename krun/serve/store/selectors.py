"""Label and field selectors, as clients write them in queries.

Source: k8s.io/apimachinery pkg/labels/selector.go (grammar: =, ==, !=, in, notin, key, !key), pkg/fields.
"""

import re
from collections.abc import Callable
from typing import Any

from krun.serve.model.status import ApiError, bad_request

Matcher = Callable[[dict[str, Any]], bool]
_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?(?:/[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUALS = re.compile(rf"({_KEY})\s*(==|=|!=)\s*([A-Za-z0-9_.-]*)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_LIMIT = 4096


def _split(text: str) -> list[str]:
    """Splits at commas outside of parentheses."""
    out, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            out.append(text[start:index])
            start = index + 1
    return [*out, text[start:]]


def _wrong(text: str) -> ApiError:
    return bad_request(f"unable to parse requirement: {text!r} is no selector")


def labels(text: str) -> Matcher | None:
    """Returns a function that tells whether an object's labels match, None for an empty selector.

    Errors: ApiError 400.
    """
    if not text.strip():
        return None
    if len(text) > _LIMIT:
        raise bad_request(f"label selector of {len(text)} characters; at most {_LIMIT} are read")
    rules = [_rule(part.strip()) for part in _split(text)]

    def match(obj: dict[str, Any]) -> bool:
        found = obj.get("metadata", {}).get("labels") or {}
        return all(rule(found) for rule in rules)

    return match


def _rule(part: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.fullmatch(part):
        key, wanted = found.group(1), {item.strip() for item in found.group(3).split(",")}
        if found.group(2) == "in":
            return lambda have: have.get(key) in wanted
        return lambda have: have.get(key) not in wanted
    if found := _EQUALS.fullmatch(part):
        key, value = found.group(1), found.group(3)
        if found.group(2) == "!=":
            return lambda have: have.get(key) != value
        return lambda have: have.get(key) == value
    if found := _EXISTS.fullmatch(part):
        key, absent = found.group(2), bool(found.group(1))
        return lambda have: (key in have) != absent
    raise _wrong(part)


def fields(text: str) -> Matcher | None:
    """Returns a function that tells whether the named fields have the given values, None for an empty selector.

    Any dotted path of an object may be named (Kubernetes allows a few for each kind). Errors: ApiError 400.
    """
    if not text.strip():
        return None
    if len(text) > _LIMIT:
        raise bad_request(f"field selector of {len(text)} characters; at most {_LIMIT} are read")
    rules = []
    for part in text.split(","):
        if not part.strip():
            continue
        found = re.fullmatch(r"\s*([A-Za-z0-9_.\-/]+)\s*(==|=|!=)\s*(.*?)\s*", part)
        if found is None:
            raise bad_request(f"invalid field selector: {part!r}")
        rules.append((found.group(1).split("."), found.group(2) == "!=", found.group(3)))

    def match(obj: dict[str, Any]) -> bool:
        return all((_value(obj, path) == value) != negated for path, negated, value in rules)

    return match


def _value(obj: Any, path: list[str]) -> str:
    for name in path:
        if not isinstance(obj, dict):
            return ""
        obj = obj.get(name)
    return "" if obj is None else str(obj)

"""Quantities of Kubernetes and durations of Go, for every part of krun serve.

Sources: k8s.io/apimachinery pkg/api/resource/quantity.go; Go package time, ParseDuration and Duration.String.
"""

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

_SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))((?:[eE][+-]?[0-9]{1,2})|[numkMGTPE]|[KMGTPE]i)?"
)
_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def quantity(value: "str | int | float") -> Fraction:
    """Returns the number that a quantity ("100m", "1.5Gi", 2) means. Errors: ValueError."""
    text = str(value)
    if len(text) > 64:
        raise ValueError(f"quantity of {len(text)} characters")
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    number, suffix = match.group(1), match.group(2) or ""
    try:
        if suffix[:1] in ("e", "E") and suffix not in _SUFFIXES:
            return Fraction(Decimal(number + suffix))
        return Fraction(Decimal(number)) * _SUFFIXES[suffix]
    except (InvalidOperation, KeyError) as error:
        raise ValueError(f"{text!r} is no quantity") from error


def duration(text: str) -> int:
    """Returns the nanoseconds of a Go duration ("1h2m", "1.5s", "-3ms", "0"). Errors: ValueError."""
    rest = text
    sign = 1
    if rest[:1] in ("-", "+"):
        sign = -1 if rest[0] == "-" else 1
        rest = rest[1:]
    if rest == "0":
        return 0
    if not rest or len(text) > 64:
        raise ValueError(f"{text!r} is no duration")
    total = 0
    while rest:
        match = _DURATION_PART.match(rest)
        if match is None or not (match.group(1) or match.group(2)):
            raise ValueError(f"{text!r} is no duration")
        unit = _UNITS[match.group(3)]
        total += int(match.group(1) or 0) * unit
        fraction = match.group(2) or ""
        if fraction:
            total += int(fraction) * unit // 10 ** len(fraction)
        rest = rest[match.end() :]
    if total >= 2**63:
        raise ValueError(f"{text!r} is too long a duration")
    return sign * total


def seconds(text: str) -> float:
    """Returns the seconds of a Go duration. Errors: ValueError, in Go's words."""
    try:
        return duration(text) / 1e9
    except ValueError:
        raise ValueError(f'time: invalid duration "{text}"') from None


def duration_text(nanoseconds: int) -> str:
    """Returns a duration as Go prints it: 1h0m0s, 1.5s, 0s."""
    if nanoseconds == 0:
        return "0s"
    sign = "-" if nanoseconds < 0 else ""
    rest = abs(nanoseconds)
    if rest < 10**9:
        unit, size = next((u, s) for u, s in (("ms", 10**6), ("µs", 10**3), ("ns", 1)) if rest >= s)
        return f"{sign}{_trimmed(rest, size)}{unit}"
    minutes, left = divmod(rest, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    out = f"{_trimmed(left, 10**9)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{out}"
    return f"{sign}{minutes}m{out}" if minutes else sign + out


def _trimmed(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    if not rest:
        return str(whole)
    digits = len(str(size)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")

"""Values of unit properties in the text form of annotations (GLib's GVariant text, as busctl and gdbus take it).

runc's docs/systemd.md: the annotation `org.systemd.property.NAME` with such a value sets the property NAME of the container's
unit; a NAME that ends in Sec, as unit files have it, means the USec property.
"""

from krun.errors import KrunError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "org.systemd.property."
#: Properties that determine the place of the container: only krun sets them, or it would not find the container again.
OWN = ("PIDs", "Slice", "Delegate", "DelegateSubgroup")

_WORDS = {
    "boolean": "b", "byte": "y", "int16": "n", "uint16": "q", "int32": "i", "uint32": "u", "int64": "x",
    "uint64": "t", "double": "d", "string": "s", "objectpath": "o", "signature": "g",
}  # fmt: skip
_RANGES = {
    "y": (0, 1 << 8),
    "n": (-(1 << 15), 1 << 15),
    "q": (0, 1 << 16),
    "i": (-(1 << 31), 1 << 31),
    "u": (0, 1 << 32),
    "x": (-(1 << 63), 1 << 63),
    "t": (0, 1 << 64),
}


def from_annotations(annotations: "dict[str, str]") -> "list[tuple[str, tuple[str, Any]]]":
    """Return the properties that annotations ask for: name, (D-Bus signature, value).

    Errors: KrunError for a name that is none or is krun's own, and for a value that cannot be read.
    """
    found = []
    for key in sorted(annotations):
        if not key.startswith(PREFIX):
            continue
        name = key[len(PREFIX) :]
        if len(name) < 3 or not (name.isascii() and name.isalnum()):
            raise KrunError(f"annotation {key}: {name!r} is not the name of a systemd property")
        if name in OWN:
            raise KrunError(f"annotation {key}: the runtime sets this property itself")
        try:
            kind, value = parse(annotations[key])
            if name.endswith("Sec") and name[-4:-3].islower():
                name, kind, value = name[:-3] + "USec", "t", _microseconds(kind, value)
        except ValueError as error:
            raise KrunError(f"annotation {key}: {annotations[key]!r}: {error}") from None
        found.append((name, (kind, value)))
    return found


def _microseconds(kind: str, value: "Any") -> int:
    if kind not in (*_RANGES, "d") or value < 0:
        raise ValueError("want a number of seconds")
    # Compared as it is: int() of an infinite number is an OverflowError.
    if not value * 1_000_000 < 1 << 64:
        raise ValueError("more microseconds than 64 bits hold")
    return int(value * 1_000_000)


def parse(text: str) -> "tuple[str, Any]":
    """Return (signature, value) of a scalar or an array of scalars: `true`, `7`, `uint64 7`, `@t 7`, `'x'`, `['a', 'b']`.

    Errors: ValueError that says what was wanted.
    """
    kind, rest = "", text.strip()
    if rest.startswith("@"):
        kind, _, rest = rest[1:].partition(" ")
        if kind not in _WORDS.values() and not (kind[:1] == "a" and kind[1:] in _WORDS.values()):
            raise ValueError(f"type {kind!r} is not supported")
    word, _, after = rest.partition(" ")
    if word in _WORDS and not kind:
        kind, rest = _WORDS[word], after
    rest = rest.strip()
    if rest.startswith("["):
        return _array(kind, rest)
    if kind.startswith("a"):
        raise ValueError("want an array in brackets")
    kind, value, end = _scalar(kind, rest)
    if rest[end:].strip():
        raise ValueError(f"text after the value: {rest[end:].strip()!r}")
    return kind, value


def _array(kind: str, text: str) -> "tuple[str, list[Any]]":
    if kind and not kind.startswith("a"):
        raise ValueError("an array where its type says none")
    values: list[Any] = []
    inner, rest = kind[1:], text[1:].lstrip()
    while not rest.startswith("]"):
        if values:
            if not rest.startswith(","):
                raise ValueError("want a comma or ] in the array")
            rest = rest[1:].lstrip()
        word, _, after = rest.partition(" ")
        if word in _WORDS and not inner:
            inner, rest = _WORDS[word], after.lstrip()
        inner, value, end = _scalar(inner, rest)
        values.append(value)
        rest = rest[end:].lstrip()
    if rest[1:].strip():
        raise ValueError(f"text after the value: {rest[1:].strip()!r}")
    if not inner:
        raise ValueError("an empty array needs its type, as in @as []")
    return "a" + inner, values


def _scalar(kind: str, text: str) -> "tuple[str, Any, int]":
    """Return signature, value and where in the text it ends; kind, "" = as the text looks."""
    if text[:1] in ("'", '"'):
        if kind not in ("", "s", "o", "g"):
            raise ValueError(f"a string where type {kind} is wanted")
        value, end = _string(text)
        # A surrogate is no text for D-Bus (UnicodeEncodeError is a ValueError), and a signature's length is one byte.
        if len(value.encode()) > 255 and kind == "g" or kind == "g" and not value.isascii():
            raise ValueError("a signature has at most 255 characters of ASCII")
        return kind or "s", value, end
    end = 0
    while end < len(text) and text[end] not in " ,]":
        end += 1
    word = text[:end]
    if word in ("true", "false"):
        if kind not in ("", "b"):
            raise ValueError(f"a boolean where type {kind} is wanted")
        return "b", word == "true", end
    if kind == "d" or (not kind and "." in word):
        return "d", float(word), end
    kind = kind or "i"
    if kind not in _RANGES:
        raise ValueError(f"{word!r} where type {kind} is wanted")
    number = int(word, 0)
    low, high = _RANGES[kind]
    if not low <= number < high:
        raise ValueError(f"{word} does not fit into type {kind}")
    return kind, number, end


def _string(text: str) -> "tuple[str, int]":
    out: list[str] = []
    quote, at = text[0], 1
    while at < len(text):
        char = text[at]
        if char == quote:
            return "".join(out), at + 1
        if char == "\\":
            at += 1
            if at == len(text):
                break
            char = {"n": "\n", "t": "\t"}.get(text[at], text[at])
        if char == "\0":
            raise ValueError("a NUL in a string")
        out.append(char)
        at += 1
    raise ValueError("a string without its closing quote")

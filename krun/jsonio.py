"""JSON without the json package, whose imports (chiefly re) take 5 ms: the package's C scanner, and a small exact
writer.

`_json` is private to Python. Therefore only this file names it, and every use falls back to the json package.
"""

from krun.errors import ConfigError, KrunError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WHITE = " \t\n\r"  # RFC 8259 section 2: nothing else is white space between tokens


class _Duplicate(ValueError):
    """An object names a member twice (OCI config.md: names must be unique)."""


def _pairs(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Duplicate(f'name "{name}" stands twice in one object')
            seen.add(name)
    return members


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


class _Context:
    """The settings of the C scanner: the attributes of json.JSONDecoder that it reads."""

    strict = True
    object_hook = None
    object_pairs_hook = staticmethod(_pairs)
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_constant)
    memo: "dict[str, str]" = {}


def _no_scanner(text: str, index: int) -> "tuple[Any, int]":
    raise ValueError("no C scanner")


_scan: "Callable[[str, int], tuple[Any, int]] | None" = None
_quote: "Callable[[str], str] | None" = None


def _find() -> "Callable[[str, int], tuple[Any, int]]":
    """Load the scanner, on first use: a shared object cannot be part of the launcher's memory (native/launcher)."""
    global _scan, _quote
    _scan = _no_scanner
    try:
        import _json

        _scan = _json.make_scanner(_Context())  # type: ignore[arg-type]
        _quote = _json.encode_basestring_ascii
    except (ImportError, AttributeError, TypeError):  # another Python: slower, equally right
        pass
    return _scan


def loads(data: "bytes | str", name: str = "") -> "Any":
    """Parse one JSON document.

    Arguments: data, UTF-8 without a byte order mark (RFC 8259 section 8.1); name, what the document is called
    in errors.
    Returns dict, list, str, int, float, bool or None. Errors: ConfigError with line and column for bad
    syntax, bad UTF-8, half of a surrogate pair, a name that stands twice in one object, NaN or Infinity, and for nesting deeper than
    the interpreter's stack.
    """
    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
        start = 0
        size = len(text)
        while start < size and text[start] in _WHITE:
            start += 1
        value, end = (_scan or _find())(text, start)
        if end != size and text[end:].strip(_WHITE):
            raise ValueError("extra data")
        # A surrogate's escape. Go's encoder writes \u0026 and the like for harmless characters.
        if "\\ud" in text or "\\uD" in text:
            _refuse_half_characters(value, name)
        return value
    except RecursionError:
        raise ConfigError("", _called(name, "nested too deeply")) from None
    except (ValueError, StopIteration, SystemError):
        # SystemError: the scanner's own error class is that of the json package, which has not been imported.
        return _loads_again(data, name)


def _refuse_half_characters(value: "Any", name: str) -> None:
    """Refuse strings that no byte string stands for, such as "\\ud800" (RFC 8259 section 8.2); those of dumps have some. Errors:
    ConfigError."""
    todo = [value]
    while todo:
        part = todo.pop()
        if type(part) is str:
            try:
                part.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError:
                raise ConfigError("", _called(name, f"{part!r} has half of a surrogate pair")) from None
        elif type(part) is dict:
            todo += part
            todo += part.values()
        elif type(part) is list:
            todo += part


def _called(name: str, text: str) -> str:
    return f"{name}: {text}" if name else text


def _loads_again(data: "bytes | str", name: str) -> "Any":
    """Parse with the json package, because its error texts are good or because there is no C scanner."""
    import json

    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_constant)
        _refuse_half_characters(value, name)
        return value
    except UnicodeDecodeError as error:
        raise ConfigError("", _called(name, f"not UTF-8 at byte {error.start}")) from None
    except json.JSONDecodeError as error:
        words = error.msg[:1].lower() + error.msg[1:]
        raise ConfigError(
            "", _called(name, f"invalid JSON at line {error.lineno} column {error.colno}: {words}")
        ) from None
    except RecursionError:
        raise ConfigError("", _called(name, "nested too deeply")) from None
    except ValueError as error:
        raise ConfigError("", _called(name, f"invalid JSON: {error}")) from None


def _quote_string(text: str) -> str:
    if _scan is None:
        _find()
    if _quote is not None:
        return _quote(text)
    import json

    return json.dumps(text)


def dumps(value: "Any", indent: "int | str | None" = None) -> str:
    """Write `value` as JSON text, byte for byte as json.dumps does (without `indent`: separators "," and
    ":").

    Only ASCII comes out, so that a name that is not UTF-8 (os.fsdecode's surrogates) survives a round trip.
    Arguments: value, of dict with str names, list, tuple, str, int, float, bool, None; indent, blanks per
    level.
    Errors: KrunError for any other type and for NaN or an infinity.
    """
    out: list[str] = []
    step = "" if indent is None else " " * indent if isinstance(indent, int) else indent
    _write(out.append, value, "" if indent is None else "\n", step)
    return "".join(out)


def _write(put: "Callable[[str], None]", value: "Any", line: str, step: str) -> None:
    """Put `value` out in pieces; `line` is the line end and indentation of the enclosing level ("" =
    compact).
    """
    kind = type(value)
    if kind is str:
        put(_quote_string(value))
    elif value is None:
        put("null")
    elif value is True:
        put("true")
    elif value is False:
        put("false")
    elif kind is int:
        put(int.__repr__(value))
    elif kind is float:
        if value != value or value in (float("inf"), float("-inf")):
            raise KrunError(f"write JSON: {value!r} has no JSON form")
        put(float.__repr__(value))
    elif kind is dict:
        if not value:
            put("{}")
            return
        inner = line + step if line else ""
        separator = "{" + inner
        colon = ": " if line else ":"
        for name, member in value.items():
            if type(name) is not str:
                raise KrunError(f"write JSON: member name {name!r} is not a string")
            put(separator)
            put(_quote_string(name))
            put(colon)
            _write(put, member, inner, step)
            separator = "," + inner
        put(line + "}")
    elif kind is list or kind is tuple:
        if not value:
            put("[]")
            return
        inner = line + step if line else ""
        separator = "[" + inner
        for member in value:
            put(separator)
            _write(put, member, inner, step)
            separator = "," + inner
        put(line + "]")
    else:
        raise KrunError(f"write JSON: {kind.__name__} has no JSON form")

"""Field errors: what is wrong, at which paths of the object, in Knative's words.

Source: knative.dev/pkg apis/field_error.go. The words of a message are an interface: upstream's conformance tests and
users' scripts match them. Errors with the same message and details are joined, and all are sorted, as there.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class FieldError:
    """One message with the paths that it is about; `warning` does not refuse the object."""

    message: str
    paths: list[str] = field(default_factory=list)
    details: str = ""
    warning: bool = False


class Errors:
    """A collection of field errors. A method that changes paths returns the collection itself."""

    __slots__ = ("items",)

    def __init__(self, items: Iterable[FieldError] = ()) -> None:
        self.items = list(items)

    def __bool__(self) -> bool:
        return any(not item.warning for item in self.items)

    def add(self, *others: "Errors | FieldError | None") -> "Errors":
        """Takes the errors of `others` in."""
        for other in others:
            if isinstance(other, FieldError):
                self.items.append(other)
            elif other is not None:
                self.items.extend(other.items)
        return self

    def at(self, *prefix: "str | int") -> "Errors":
        """Puts `prefix` (field names; numbers are indexes) before every path."""
        parts = [f"[{part}]" if isinstance(part, int) else part for part in prefix]
        for item in self.items:
            item.paths = [flatten([*parts, path]) for path in item.paths]
        return self

    def key(self, name: str) -> "Errors":
        """Puts the map key [`name`] before every path; dots in a key are kept."""
        for item in self.items:
            item.paths = [f"[{name}]" + ("." + path if path else "") for path in item.paths]
        return self

    def text(self) -> str:
        """Returns the message that a client gets: joined, sorted, one error a line (details on the next)."""
        return "\n".join(_line(item) for item in self.merged() if not item.warning)

    def warnings(self) -> list[str]:
        """Returns one line for each warning."""
        return [_line(item).replace("\n", " ") for item in self.merged() if item.warning]

    def merged(self) -> list[FieldError]:
        """Returns the errors with equal ones joined, sorted by message, details, level."""
        # Sets: one message may be about tens of thousands of paths.
        found: dict[tuple[str, str, bool], set[str]] = {}
        for item in self.items:
            found.setdefault((item.message, item.details, item.warning), set()).update(item.paths)
        return [
            FieldError(message, sorted(paths), details, warning)
            for (message, details, warning), paths in sorted(found.items(), key=lambda one: one[0])
        ]


def flatten(parts: list[str]) -> str:
    """Joins path parts with dots; an index joins its field: ["spec", "[0].name"] is spec[0].name."""
    out: list[str] = []
    for part in parts:
        for piece in part.split("."):
            if not piece:
                continue
            if out and piece[0] == "[" and piece[-1] == "]":
                out[-1] += piece
            else:
                out.append(piece)
    return ".".join(out)


def _line(item: FieldError) -> str:
    text = f"{item.message}: {', '.join(item.paths)}"
    return f"{text}\n{item.details}" if item.details else text


def missing(*paths: str) -> FieldError:
    """Fields that must be set."""
    return FieldError("missing field(s)", list(paths))


def disallowed(*paths: str) -> FieldError:
    """Fields that must not be set."""
    return FieldError("must not set the field(s)", list(paths))


def invalid_value(value: object, path: str, *details: str) -> FieldError:
    """A value that a field may not have."""
    return FieldError(f"invalid value: {go(value)}", [path], ", ".join(details))


def missing_one_of(*paths: str) -> FieldError:
    """None of a group of which one must be set."""
    return FieldError("expected exactly one, got neither", list(paths))


def multiple_one_of(*paths: str) -> FieldError:
    """More than one of a group of which one must be set."""
    return FieldError("expected exactly one, got both", list(paths))


def invalid_key(key: str, path: str, *details: str) -> FieldError:
    """A name that may not be used."""
    return FieldError(f"invalid key name {quote(key)}", [path], ", ".join(details))


def out_of_bounds(value: object, low: object, high: object, path: str) -> FieldError:
    """A number outside of its bounds."""
    return FieldError(f"expected {go(low)} <= {go(value)} <= {go(high)}", [path])


def quote(text: str) -> str:
    """Returns `text` as Go's %q prints it (ASCII control characters and quotes escaped)."""
    out = ['"']
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif char in "\n\t\r":
            out.append({"\n": "\\n", "\t": "\\t", "\r": "\\r"}[char])
        elif char < " " or char == "\x7f":
            out.append(f"\\x{ord(char):02x}")
        else:
            out.append(char)
    return "".join(out) + '"'


def go(value: object) -> str:
    """Returns `value` as Go's %v prints it: true, false, lists in brackets without commas."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return "[" + " ".join(go(item) for item in value) + "]"
    return str(value)

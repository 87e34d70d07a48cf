"""References to images, as the distribution specification and its reference implementation write them."""

import re
from typing import NamedTuple

from krun.serve.run.errors import StartError

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DOMAIN = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_LONGEST = 255


class Reference(NamedTuple):
    """A parsed reference: name with its domain, tag ("" where none is given), digest ("" likewise)."""

    name: str
    tag: str
    digest: str

    @property
    def path(self) -> str:
        """The name and tag, as the path of the image below a directory of images: no "..", no leading slash."""
        return f"{self.name}:{self.tag}" if self.tag else self.name

    def __str__(self) -> str:
        return self.path + (f"@{self.digest}" if self.digest else "")


def parse(text: str) -> Reference:
    """Return the parts of a reference. Raises StartError (InvalidImageName) for a text that is none.

    Source: distribution/reference's grammar. Only sha256 digests are taken, because no other is verified.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None or len(match["name"]) > _LONGEST:
        raise StartError("InvalidImageName", f"could not parse reference: {text!r}")
    return Reference(match["name"], match["tag"] or "", match["digest"] or "")

"""References to images: as a worker resolves them, and as Knative's webhook lets them pass.

The webhook lets more pass than an image's store resolves; such a revision fails with InvalidImageName, as on Kubernetes.
Sources: github.com/distribution/reference, regexp.go; github.com/google/go-containerregistry pkg/name, WeakValidation.
"""

import re
from typing import NamedTuple

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
    """Returns the parts of a reference. Errors: ValueError.

    Source: distribution/reference's grammar. Only sha256 digests are taken, because no other is verified.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None or len(match["name"]) > _LONGEST:
        raise ValueError(f"could not parse reference: {text!r}")
    return Reference(match["name"], match["tag"] or "", match["digest"] or "")


_TAG = re.compile(r"[\w.-]{1,128}", re.ASCII)
_REPOSITORY = re.compile(r"[a-z0-9_./-]{2,255}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REGISTRY = re.compile(r"[A-Za-z0-9.\-]+(:[0-9]+)?|\[[0-9a-fA-F:]+\](:[0-9]+)?")


def weak_problem(text: str) -> str:
    """Returns what is wrong with an image reference; "" if it may be used (weak validation, as Knative's webhook).

    The words are ours; the webhook prints the words of go-containerregistry behind "image: ..., error: ".
    """
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return f"could not parse reference: {text}"
    name, colon, tag = rest.rpartition(":")
    if colon and "/" not in tag:
        if not _TAG.fullmatch(tag):
            return f"could not parse reference: {text}"
        rest = name
    first, slash, others = rest.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        if not _REGISTRY.fullmatch(first):
            return f"could not parse reference: {text}"
        rest = others
    if not _REPOSITORY.fullmatch(rest):
        return f"could not parse reference: {text}"
    return ""

"""Names: which are allowed, in Kubernetes' words; generated names; names of children.

Sources: k8s.io/apimachinery pkg/util/validation/validation.go; knative.dev/pkg kmeta/names.go;
k8s.io/apiserver pkg/storage/names/generate.go.
"""

import hashlib
import re
import secrets

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_LABEL_RE = re.compile(_LABEL)
_SUBDOMAIN_RE = re.compile(_SUBDOMAIN)
_LABEL_1035_RE = re.compile(_LABEL_1035)
_QUALIFIED_RE = re.compile(_QUALIFIED)
_CONFIG_KEY_RE = re.compile(_CONFIG_KEY)

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an"
    " alphanumeric character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end"
    " with an alphanumeric character"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end"
    " with an alphanumeric character"
)
_QUALIFIED_TEXT = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character"
)
_CONFIG_KEY_TEXT = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"

#: apiserver's alphabet of generated names: no vowels and no digits that look like letters.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
LONGEST = 63


def _explain(text: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {listed}regex used for validation is '{pattern}')"


def _too_long(length: int) -> str:
    return f"must be no more than {length} characters"


def label_1123(value: str) -> list[str]:
    """Returns what is wrong with `value` as a DNS-1123 label; empty: nothing."""
    out = [_too_long(63)] if len(value) > 63 else []
    if _LABEL_RE.fullmatch(value):
        return out
    if len(value) <= 253 and _SUBDOMAIN_RE.fullmatch(value):
        return [*out, "must not contain dots"]
    return [*out, _explain(_LABEL_TEXT, _LABEL, "my-name", "123-abc")]


def subdomain_1123(value: str) -> list[str]:
    """Returns what is wrong with `value` as a DNS-1123 subdomain."""
    out = [_too_long(253)] if len(value) > 253 else []
    # The pattern is linear on a string of bounded length only.
    if len(value) > 4096 or not _SUBDOMAIN_RE.fullmatch(value):
        out.append(_explain(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return out


def label_1035(value: str, prefix: bool = False) -> list[str]:
    """Returns what is wrong with `value` as a DNS-1035 label, or as the beginning of one if `prefix`."""
    if prefix and len(value) > 1 and value.endswith("-"):
        value = value[:-2] + "a"
    out = [_too_long(63)] if len(value) > 63 else []
    if not _LABEL_1035_RE.fullmatch(value):
        out.append(_explain(_LABEL_1035_TEXT, _LABEL_1035, "my-name", "abc-123"))
    return out


def qualified(value: str) -> list[str]:
    """Returns what is wrong with `value` as a qualified name ([prefix/]name: keys of labels and annotations)."""
    wrong = _explain(_QUALIFIED_TEXT, _QUALIFIED, "MyName", "my.name", "123-abc")
    parts = value.split("/")
    if len(parts) > 2:
        optional = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a qualified name {wrong}{optional}"]
    out: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            out.append("prefix part must be non-empty")
        else:
            out += [f"prefix part {text}" for text in subdomain_1123(parts[0])]
    name = parts[-1]
    if not name:
        out.append("name part must be non-empty")
    elif len(name) > 63:
        out.append("name part " + _too_long(63))
    if not _QUALIFIED_RE.fullmatch(name):
        out.append("name part " + wrong)
    return out


def label_value(value: str) -> list[str]:
    """Returns what is wrong with `value` as the value of a label."""
    out = [_too_long(63)] if len(value) > 63 else []
    if value and not _QUALIFIED_RE.fullmatch(value):
        out.append(_explain(_LABEL_VALUE_TEXT, f"({_QUALIFIED})?", "MyValue", "my_value", "12345"))
    return out


def config_key(value: str) -> list[str]:
    """Returns what is wrong with `value` as a key of a ConfigMap or Secret: it becomes a file's name."""
    out = [_too_long(253)] if len(value) > 253 else []
    if not _CONFIG_KEY_RE.fullmatch(value):
        out.append(_explain(_CONFIG_KEY_TEXT, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value == ".":
        out.append("must not be '.'")
    elif value == "..":
        out.append("must not be '..'")
    elif value.startswith(".."):
        out.append("must not start with '..'")
    return out


def generate(base: str) -> str:
    """Returns `base` (generateName) with five random characters, cut so that the whole is a label."""
    return base[: LONGEST - 5] + "".join(secrets.choice(_ALPHABET) for _ in range(5))


def child(parent: str, suffix: str) -> str:
    """Returns the name of a child: parent + suffix, with a digest inside if the name would be too long (kmeta.ChildName)."""
    if len(parent) <= LONGEST - len(suffix):
        return parent + suffix
    head = LONGEST - 32
    if head - len(suffix) <= 0:
        out = parent[:head] + hashlib.md5((parent + suffix).encode(), usedforsecurity=False).hexdigest()
        return out + suffix[: max(LONGEST - len(out), 0)]
    digest = hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest()
    return parent[: head - len(suffix)] + digest + suffix

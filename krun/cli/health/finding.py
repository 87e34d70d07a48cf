"""What a check of krun doctor finds, and how checks read the host's files."""

from __future__ import annotations

OK, WARN, FAIL = "ok", "warning", "error"
#: Where programs of the host are looked for, whatever the caller's PATH.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Finding:
    """One check's answer. what: the thing; level: ok, warning or error; text: what is; remedy: what to do."""

    def __init__(self, what: str, level: str, text: str, remedy: str = "") -> None:
        self.what = what
        self.level = level
        self.text = text
        self.remedy = remedy


def read(path: str) -> str:
    """Return the text of a file without white space around it, "" if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""

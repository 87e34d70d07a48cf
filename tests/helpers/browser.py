"""Headless Chromium on a page: its document after it was loaded, and a picture of it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

#: Seconds; a browser that starts on a machine under load takes many.
_SECONDS = 300


def find() -> str:
    """Returns the browser's command. Exits with the remedy where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    raise SystemExit(
        "find chromium: it is not installed; apt-get install --no-install-recommends chromium fonts-dejavu-core"
    )


def _run(*arguments: str) -> str:
    with tempfile.TemporaryDirectory(prefix="krun-browser-") as profile:
        # root has no sandbox of Chromium's own; the page is this machine's.
        command = [find(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--no-first-run", "--disable-extensions", "--disable-background-networking", f"--user-data-dir={profile}", *arguments]  # fmt: skip
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS
        )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def document(url: str) -> str:
    """Returns the page's document as Chromium has it, as HTML."""
    return _run("--dump-dom", url)


def picture(url: str, path: Path, *, width: int = 1360, height: int = 1000) -> None:
    """Writes a picture (PNG) of the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _run(f"--screenshot={path}", f"--window-size={width},{height}", url)
    if not path.exists():
        raise RuntimeError(f"chromium made no picture {path}")

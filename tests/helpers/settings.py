"""Another /etc/krun/krun.yaml: for the commands of one runtime, or for a whole run of the tests."""

from __future__ import annotations

import os
from pathlib import Path

#: `KRUN_TEST_CALLS="local: on"`: find("krun") is a krun with these settings under `calls`, so also that of engines and suites (docs/calls.md).
CALLS = os.environ.get("KRUN_TEST_CALLS", "")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from helpers.runtime import Runtime

#: Runs a command in a mount namespace of its own.
WRAPPER = """#!/bin/sh
exec unshare -m sh -c 'mount -t overlay overlay -o lowerdir={etc}:/etc /etc && exec "$@"' - {krun} "$@"
"""


def configured(krun: Path, folder: Path, calls: str = CALLS) -> Path:
    """A launcher beside that of ./dev setup that goes by `calls` instead of /etc/krun/krun.yaml; it is in `folder`."""
    script = krun.with_name("krun.py")
    lines = (script if script.exists() else krun).read_text()
    settings, launcher = folder / "krun.yaml", folder / "krun"
    change = (
        f"from krun import settings\n\nsettings.PATH = {str(settings)!r}\nfrom krun.__main__ import main\n"
    )
    files = {
        settings: f"calls: {{{calls}}}\n",
        launcher: lines.replace("from krun.__main__ import main\n", change),
    }
    assert change in files[launcher], f"{script}: not the script that ./dev setup writes"
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        if not path.exists() or path.read_text() != text:
            fresh = path.with_suffix(f".{os.getpid()}")
            fresh.write_text(text)
            fresh.chmod(0o755 if path == launcher else 0o644)
            fresh.rename(path)
    return launcher


def complete_calls(runtime: Runtime, calls: str) -> None:
    """From now on the runtime's commands see these settings under `calls`, in /etc/krun/krun.yaml itself."""
    etc = runtime.work / "etc"
    etc.mkdir(mode=0o755, exist_ok=True)
    (etc / "krun").mkdir(mode=0o755, exist_ok=True)
    (etc / "krun" / "krun.yaml").write_text(f"calls: {{{calls}}}\n")
    (etc / "krun" / "krun.yaml").chmod(0o644)
    wrapper = runtime.work / "krun-configured"
    if not wrapper.exists():
        wrapper.write_text(WRAPPER.format(etc=etc, krun=runtime.path))
        wrapper.chmod(0o755)
        runtime.path = wrapper

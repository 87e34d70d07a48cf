"""Another /etc/krun/krun.yaml for the commands of one runtime."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from helpers.runtime import Runtime

#: Runs a command in a mount namespace of its own.
WRAPPER = """#!/bin/sh
exec unshare -m sh -c 'mount -t overlay overlay -o lowerdir={etc}:/etc /etc && exec "$@"' - {krun} "$@"
"""


def complete_calls(runtime: Runtime, calls: str) -> None:
    """From now on the runtime's commands see these settings under `calls` (docs/calls.md)."""
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

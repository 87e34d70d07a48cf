"""Another /etc/krun/krun.yaml for the commands of one runtime."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from helpers.runtime import Runtime

#: Runs a command in a mount namespace of its own.
WRAPPER = """#!/bin/sh
exec unshare -m sh -c 'mount -t overlay overlay -o lowerdir={etc}:/etc /etc && exec "$@"' - {krun} "$@"
"""


def complete_calls(runtime: Runtime, word: str) -> None:
    """From now on the runtime's commands see calls.local: WORD (docs/calls.md)."""
    etc = runtime.work / "etc"
    etc.mkdir(mode=0o755, exist_ok=True)
    (etc / "krun").mkdir(mode=0o755, exist_ok=True)
    (etc / "krun" / "krun.yaml").write_text(f"calls: {{local: {word}}}\n")
    (etc / "krun" / "krun.yaml").chmod(0o644)
    wrapper = runtime.work / "krun-configured"
    if not wrapper.exists():
        wrapper.write_text(WRAPPER.format(etc=etc, krun=runtime.path))
        wrapper.chmod(0o755)
        runtime.path = wrapper

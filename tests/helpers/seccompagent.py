"""The agent of linux.seccomp.listenerPath (seccomp_agent.c), its program (seccomp_program.c), profiles that name it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from helpers.runtime import wait_for

HELPERS = Path(__file__).resolve().parent
NOTIFIED = ["mkdir", "epoll_create", "times"]


def build(source: str, path: Path, *options: str) -> Path:
    subprocess.run(
        ["gcc", "-O2", "-pthread", *options, "-o", path, HELPERS / source], check=True, capture_output=True
    )
    return path


def profile(path: Any, *names: str, default: str = "SCMP_ACT_ALLOW", **more: Any) -> dict[str, Any]:
    """A profile that gives these calls (NOTIFIED) to the agent at `path`."""
    rule = {"names": list(names or NOTIFIED), "action": "SCMP_ACT_NOTIFY"}
    return {
        "defaultAction": default,
        "architectures": ["SCMP_ARCH_X86_64"],
        "listenerPath": str(path),
        "syscalls": [rule],
        **more,
    }


class Agent:
    """A running agent: what it has written so far, and the bytes for which its late answers wait."""

    def __init__(self, program: Path, work: Path) -> None:
        self.path = work / "agent.sock"
        self.out = work / "agent.out"
        with self.out.open("wb") as out:
            self.process = subprocess.Popen([program, self.path], stdin=subprocess.PIPE, stdout=out)
        self.until("ready")

    def lines(self) -> list[str]:
        return self.out.read_text(errors="replace").split("\n")[:-1]

    def until(self, word: str, count: int = 1) -> None:
        wait_for(lambda: sum(word in line for line in self.lines()) >= count, f"no {word} in {self.lines()}")

    def answer_late(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"x")
        self.process.stdin.flush()

    def states(self) -> list[dict[str, Any]]:
        return [json.loads(line[6:]) for line in self.lines() if line.startswith("state ")]

    def calls(self) -> list[str]:
        return [line for line in self.lines() if not line.startswith(("ready", "state "))]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

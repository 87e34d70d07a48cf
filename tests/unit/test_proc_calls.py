"""Who names a path of /proc in a call, and why that may be: what is on /proc decides otherwise what krun reads and writes.

Before a procfs of krun's own is there (oci/procfs.py), files of /proc are opened by sysio.open_proc, which looks at the file system.
A call that names a path itself has its entry here: it only reads, or goes to a descriptor that has been looked at.
"""

from __future__ import annotations

import ast
import os
from collections import Counter
from pathlib import Path

import pytest

from krun import sysio
from krun.errors import SysError

KRUN = Path(__file__).parents[2] / "krun"

#: file -> call and path, "?" for what is not constant -> how often. All are krun's own side, on the host, if nothing else is said.
ALLOWED = {
    # Reading.
    "oci/spawn.py": {"open /proc/self/ns/?": 1},
    "oci/resctrl.py": {"read_file /proc/self/mountinfo": 1},
    "oci/state.py": {"open /proc/?/stat": 1},
    "oci/namespaces.py": {"stat /proc/self/ns/?": 1},
    "oci/events.py": {"readlink /proc/?/ns/net": 1, "readlink /proc/self/ns/net": 1, "open /proc/?/net/dev": 1},
    "oci/enter.py": {"stat /proc/?/ns/?": 1, "stat /proc/self/ns/?": 1, "read_file /proc/self/setgroups": 1},
    "oci/talk.py": {"read_file /proc/?/cgroup": 1},
    "oci/trace.py": {"open /proc/?/timens_offsets": 1},
    "oci/debug.py": {"open /proc/?/status": 1},
    "oci/unotify.py": {"open /proc/?/status": 1},
    "kvm/inspect.py": {
        "listdir /proc/?/task": 2,
        "_text /proc/?/status": 1,
        "_text /proc/?/task/?/status": 1,
    },
    "oci/devices.py": {"access /proc/kcore": 1, "link /proc/kcore": 1},  # made, not followed
    "oci/cgroup/group.py": {"read_file /proc/self/uid_map": 1},
    "oci/cgroup/v1.py": {"read /proc/self/mountinfo": 1},
    "oci/cgroup/v2.py": {"read /proc/?/wchan": 1},
    "oci/cgroup/files.py": {"read /proc/self/cgroup": 1},
    # By the descriptor: of the directory of a socket, of a file that is opened anew, of a mount.
    "oci/notify.py": {"bind /proc/self/fd/?/?": 1},
    "oci/copying.py": {"open /proc/self/fd/?": 2},
    "oci/listener.py": {"open /proc/self/fd/?": 1},
    "oci/rootfs.py": {"umount2 /proc/self/fd/?": 1},
    "kvm/boot.py": {"open /proc/self/fd/?": 1},
    "kvm/host.py": {"open /proc/sys/kernel/random/boot_id": 1},
    "kvm/remedy.py": {"open /proc/cpuinfo": 1},
    "kvm/image.py": {"chmod /proc/self/fd/?": 1},
    "sysio.py": {"enc /proc/self/fd/?/?": 1},
}  # fmt: skip


def text_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "?" for part in node.values)
    return ""


def calls(path: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "?")
            for argument in [
                *node.args,
                *(keyword.value for keyword in node.keywords if keyword.arg != "name"),
            ]:
                text = text_of(argument)
                if text.startswith("/proc/") and name not in ("SysError", "startswith"):
                    found[f"{name} {text}"] += 1
    return found


def test_who_names_a_path_of_proc() -> None:
    files = [
        *(KRUN / "oci").rglob("*.py"),
        *(KRUN / "kvm").glob("*.py"),
        KRUN / "sysio.py",
        KRUN / "mountio.py",
    ]
    found = {str(path.relative_to(KRUN)): dict(calls(path)) for path in files}
    assert {name: some for name, some in found.items() if some} == ALLOWED


def splits_lines(node: ast.Call) -> bool:
    """Whether a call takes other characters than \\n for the end of a line: splitlines(), or /proc opened as text."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr == "splitlines"
    if not isinstance(node.func, ast.Name) or node.func.id != "open" or not node.args:
        return False
    binary = len(node.args) > 1 and "b" in text_of(node.args[1])
    path = text_of(node.args[0])
    return (
        (path == "" or path.startswith("/proc/"))
        and not binary
        and "newline" not in [k.arg for k in node.keywords]
    )


def test_a_line_ends_with_a_newline_only() -> None:
    """In texts of /proc (krun.fileio.split_lines) the kernel escapes \\n in the names that others have chosen, and no other end of a line."""
    found: Counter[str] = Counter()
    for path in [
        *(KRUN / "oci").rglob("*.py"),
        *(KRUN / "kvm").rglob("*.py"),
        KRUN / "sysio.py",
        KRUN / "fileio.py",
    ]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and splits_lines(node):
                found[str(path.relative_to(KRUN))] += 1
    # No names in them: timens_offsets; cpuinfo. Three files that are written.
    assert found == {
        "oci/trace.py": 1,
        "kvm/remedy.py": 1,
        "oci/events.py": 1,
        "oci/metrics.py": 1,
        "oci/spec_cmd.py": 1,
    }


def test_a_proc_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither another file system at /proc, nor a magic link, nor what is mounted over a file."""
    with pytest.raises(SysError, match="invalid cross-device link|too many levels"):
        sysio.open_proc("self/root/etc", os.O_RDONLY)
    fd = sysio.open_proc("self/oom_score_adj", os.O_RDONLY)
    assert os.read(fd, 16).strip().lstrip(b"-").isdigit()
    os.close(fd)
    real = os.open
    (tmp_path / "self").mkdir()
    (tmp_path / "self/oom_score_adj").write_text("")
    monkeypatch.setattr(
        sysio.os, "open", lambda path, *rest: real(str(tmp_path) if path == "/proc" else path, *rest)
    )
    with pytest.raises(SysError, match="/proc is not a procfs"):
        sysio.write_host_proc("self/oom_score_adj", "5")
    assert (tmp_path / "self/oom_score_adj").read_text() == ""

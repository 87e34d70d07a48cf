"""The set of modules that each hot verb imports, in the launcher's form (python3 -IS), is a checked list.

A module more is milliseconds more (docs/style.md has the costs: json 5, re 4, enum 3, subprocess 8, ...): whoever adds one
adds it to tests/unit/hotpath.txt in the same change and says why. `python tests/unit/test_hotpath.py` writes
the file anew.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("hotpath.txt")

#: Command lines of the hot forms. They end in an error after all imports at the top of the verb's module are done.
CALLS = {
    "create": ["create", "--bundle", "/nope", "--pid-file", "/nope/p", "box"],
    "start": ["start", "box"],
    "run": ["run", "--bundle", "/nope", "box"],
    "state": ["state", "box"],
    "kill": ["kill", "box", "9"],
    "delete": ["delete", "--force", "box"],
    "exec": ["exec", "--process", "/nope", "--detach", "box"],
}

#: Never on a hot path, whatever the list says.
BANNED = set(
    "json re enum typing dataclasses subprocess pathlib logging contextlib socket signal tempfile shutil argparse "
    "click yaml pyroute2 prctl pyseccomp ctypes inspect collections functools datetime threading random".split()
)

LAUNCHER = "import sys; sys.path[:0] = sys.argv.pop(1).split(':'); from krun.__main__ import main; main()"


def imported(arguments: list[str]) -> set[str]:
    """What one call imports beyond the bare interpreter."""

    def run(code: str, *more: str) -> set[str]:
        done = subprocess.run(
            ["/usr/bin/python3", "-IS", "-X", "importtime", "-c", code, *more],
            capture_output=True,
            text=True,
            env={},
        )
        return {
            line.rpartition("|")[2].strip()
            for line in done.stderr.splitlines()
            if line.startswith("import time:") and "imported package" not in line
        }

    site = next((path for path in sys.path if path.endswith("site-packages")), "")
    with tempfile.TemporaryDirectory() as root:
        return run(LAUNCHER, f"{ROOT}:{site}", "--root", root, *arguments) - run("pass")


def read_list() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            verb, _, words = line.partition(":")
            found[verb] = set(words.split())
    return found


@pytest.mark.parametrize("verb", CALLS)
def test_modules_of_a_hot_verb(verb: str) -> None:
    now = imported(CALLS[verb])
    assert f"krun.oci.{'state_cmd' if verb == 'state' else verb}" in now
    assert not {name.split(".")[0] for name in now} & BANNED
    listed = read_list()[verb]
    assert now <= listed, f"{verb} imports more than hotpath.txt says: {sorted(now - listed)}"
    assert now >= listed, f"{verb} imports less than hotpath.txt says, shorten it: {sorted(listed - now)}"


def test_every_hot_row_is_watched() -> None:
    from krun.cli.verbs import VERBS

    assert {row.name for row in VERBS if row.hot} == set(CALLS)


if __name__ == "__main__":
    LIST.write_text(
        "# Modules that each hot verb imports beyond the bare interpreter; see test_hotpath.py.\n"
        + "".join(f"{verb}: {' '.join(sorted(imported(CALLS[verb])))}\n" for verb in CALLS)
    )

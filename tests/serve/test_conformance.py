"""krun conformance run for real: runc first, then krun, then crun; and a runtime that is wrong in many ways, whose rows fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.runtime import KRUN, find

from krun.conformance.rows import PROFILES, ROWS

pytestmark = pytest.mark.root

#: crun 1.8.1 knows no hybrid control groups: it gets a mount namespace without the second hierarchy. What it writes below the
#: mount point is no control group then, and is removed.
_WITHOUT_UNIFIED = (
    "! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified; "
    '"$@"; code=$?; rm -rf /sys/fs/cgroup/unified/krun-conformance-*; exit $code'
)


def check(
    runtime: Path, work: Path, profile: str = "current", prefix: tuple[str, ...] = ()
) -> tuple[int, dict[str, Any]]:
    """Run the command with `work` as the place of its directory. Returns its status and its JSON; nothing may be left of it."""
    work.chmod(0o755)
    words = [
        *prefix,
        str(KRUN),
        "conformance",
        "--runtime",
        str(runtime),
        "--profile",
        profile,
        "--format",
        "json",
    ]
    environment = {**os.environ, "TMPDIR": str(work)}
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    out, err = process.communicate(timeout=150)
    assert out, err
    assert list(work.glob("krun-conformance-*")) == []
    if not prefix:
        assert list(Path("/sys/fs/cgroup").glob(f"**/krun-conformance-{process.pid}-*")) == []
    return process.returncode, json.loads(out)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ["runc", "krun", "crun"])
def test_a_runtime_passes_every_row(name: str, profile: str, tmp_path: Path) -> None:
    prefix = ("unshare", "--mount", "sh", "-c", _WITHOUT_UNIFIED, "sh") if name == "crun" else ()
    code, found = check(find(name), tmp_path, profile, prefix)
    # How fast a loaded machine starts a container is not the test's to say.
    failing = [row for row in found["rows"] if row["result"] != "PASS" and row["number"] != "RC-02"]
    assert failing == []
    assert code == 0
    assert len(found["rows"]) == sum(row.level(profile) is not None for row in ROWS)


_WRONG = """#!{python}
import json, os, sys
if "create" in sys.argv:
    path = os.path.join(sys.argv[sys.argv.index("--bundle") + 1], "config.json")
    config = json.load(open(path))
    {change}
    json.dump(config, open(path, "w"))
os.execv("{runc}", ["runc", *sys.argv[1:]])
"""

CHANGES = {
    "RC-25": "config['process']['terminal'] = False; os.dup2(os.open('/proc/version', os.O_RDONLY), 0)",
    "RC-65": "config['process']['env'] = ['PATH=/']",
    "RC-69": "config['process']['user'] = {'uid': 0, 'gid': 0}",
    "RC-73": "config['mounts'] = [m for m in config['mounts'] if m['destination'] != '/dev/shm']",
    "RC-76": "config['mounts'] = [m for m in config['mounts'] if m['destination'] != '/dev/log']",
    "RC-79": "config['linux']['namespaces'] = [n for n in config['linux']['namespaces'] if n['type'] != 'ipc']",
    "RC-80": "config['linux']['resources']['devices'] = [{'allow': True, 'access': 'rwm'}]",
    "RC-81": "config['linux']['resources'].pop('memory', None)",
    "RC-82": "[m.update(options=['rw']) for m in config['mounts'] if m['destination'] == '/sys/fs/cgroup']",
    "RC-86": "config['linux']['readonlyPaths'] = []",
    "RC-87": "config['linux'].pop('seccomp', None)",
    "RC-89": "config['linux']['maskedPaths'] = []",
    "RC-91": "config.pop('annotations', None)",
}


@pytest.mark.parametrize("number", CHANGES)
def test_a_wrong_runtime_fails_its_row(number: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text(_WRONG.format(python=sys.executable, change=CHANGES[number], runc=find("runc")))
    wrong.chmod(0o755)
    code, found = check(wrong, tmp_path, "2019")
    rows = {row["number"]: row for row in found["rows"]}
    assert rows[number]["result"] == "FAIL", rows[number]
    assert code == int(
        any(r["result"] == "FAIL" and r["level"] in ("MUST", "MUST NOT", "OCI") for r in rows.values())
    )


def test_a_runtime_that_cannot_create_fails_and_leaves_nothing(tmp_path: Path) -> None:
    code, found = check(Path("/bin/false"), tmp_path)
    assert code == 1
    assert found["summary"]["PASS"] == 0
    assert "exit status 1" in next(row for row in found["rows"] if row["number"] == "RC-69")["seen"]


_MISCHIEF = {
    "hangs with a child that holds the streams": "sleep 1000 & exec sleep 1000",
    "says 5 for each state": "echo 5; test $verb != create",
    "prints objects that are none": """for i in 5 '[]' '{}' '{"do": 5}' '{"do": []}' nonsense; do echo "$i"; done; echo 1 >"$pid"; exit 0""",
    "names init as its container": 'echo 1 >"$pid"; exit 0',
    "floods": "yes | head -c 3000000; exit 1",
}


@pytest.mark.parametrize("name", _MISCHIEF)
def test_a_runtime_that_is_broken_gets_verdicts_and_ends(name: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    find_words = "while [ $# -gt 0 ]; do case $1 in --pid-file) pid=$2;; create|start|state|kill|delete) verb=$1;; esac; shift; done\n"
    wrong.write_text(f"#!/bin/sh\npid=/dev/null verb=none\n{find_words}{_MISCHIEF[name]}\n")
    wrong.chmod(0o755)
    words = [sys.executable, "-c", _QUICK, str(wrong)]
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["FAIL"] >= 40
    assert list(tmp_path.glob("krun-conformance-*")) == []


#: The command with short waits; the summary of its results.
_QUICK = """
import json, sys
from krun.conformance import drive, report
drive._VERB, drive._NEXT, drive._SECONDS = 2.0, 0.1, 0.2
facts = drive.run(sys.argv[1])
results = report.judge(facts, "2019")
assert report.exit_code(results) == 1 and json.dumps(facts)
print(json.dumps(report.summary(results)))
"""

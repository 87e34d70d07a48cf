"""docs/getting-started.md, the part that needs no network: the five commands, to zero and back, C with and without a Dockerfile.

The commands run as they stand on the page, on its ports and in its directories, which are this test's own: namespaces for
mounts, processes and network (so it is also shown that nothing is downloaded). The rest of the page:
./dev test-suites getting-started.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from helpers.pages import ENGLISH, ROOT, check, commands, script, sections

pytestmark = [pytest.mark.root, pytest.mark.kvm, pytest.mark.engine, pytest.mark.usefixtures("as_root")]

PARTS = ("Five commands", "To zero and back", "C", "The end")
#: ./dev test has done these.
DONE = ("./dev setup", "apt-get ")

#: $1: a directory of the test. /var/lib is an overlay, because the host has no directory for krun serve's data to be mounted on.
ENTER = """set -e
cd "$1"
mkdir -p lib/upper lib/work data graph results
mount -t overlay -o lowerdir=/var/lib,upperdir=lib/upper,workdir=lib/work overlay /var/lib
mkdir -p /var/lib/krun-serve
mount --bind data /var/lib/krun-serve
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
for name in images runenv c; do
    mkdir -p "$name" "$2/build/$name"
    mount --bind "$name" "$2/build/$name"
done
# Python's packages are those of krun's environment: a fresh machine has no others.
mount -t tmpfs tmpfs /usr/lib/python3/dist-packages
ip link set lo up
cd "$2"
exec bash "$1/script"
"""
STORAGE = """[storage]
driver = "overlay"
graphroot = "{0}/graph"
runroot = "{0}/graph/run"
"""


@pytest.mark.timeout(1500)
def test_the_page_s_commands(tmp_path: Path) -> None:
    names = sections(ENGLISH)
    wanted = {names.index(part) for part in PARTS}
    chosen = [one for one in commands(ENGLISH) if one.section in wanted and not one.text.startswith(DONE)]
    assert len(chosen) > 15
    (tmp_path / "results").mkdir()
    (tmp_path / "script").write_text(script(chosen, str(tmp_path / "results")))
    (tmp_path / "storage.conf").write_text(STORAGE.format(tmp_path))
    environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(tmp_path / "storage.conf")}
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--net", "--fork", "--mount-proc", "--propagation", "private", "--kill-child",
         "bash", "-c", ENTER, "bash", str(tmp_path), str(ROOT)],
        env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1400,
    )  # fmt: skip
    wrong = check(chosen, tmp_path / "results", done)
    assert not wrong, "\n".join(wrong)
    assert os.listdir(tmp_path / "data" / "instances") == []
    with open("/proc/self/mounts") as mounts:
        assert str(tmp_path) not in mounts.read()

"""docs/getting-started.md, every command, on a fresh Debian root (debootstrap, minbase), as somebody would give them.

    getting_started.py [--keep] [RELEASE]      (bookworm)

The Chinese page has the same commands (tests/unit/test_getting_started_pages.py). The packages of Go, Node, Java and flask are
downloaded (1 GB, 15 minutes). /dev, /sys, the kernel and the network are this machine's, the rest is the root's own; ports
8001 and 8080 must be free.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.pages import ENGLISH, ROOT, check, commands, script, sections
from suites.fresh import ENTER, environment, make

WORK = ROOT / "build" / "fresh"
PORTS = (8001, 8080)


def taken() -> list[int]:
    """Returns the page's ports that somebody listens on."""
    found = []
    for port in PORTS:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                found.append(port)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", action="store_true", help="leave the root under build/fresh")
    parser.add_argument("release", nargs="?", default="bookworm")
    options = parser.parse_args()
    if taken():
        sys.exit(f"getting-started: ports {taken()} are taken: the page's server cannot listen")
    root = WORK / f"getting-started-{options.release}"
    WORK.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    begin = time.monotonic()
    make(options.release, root)
    print(f"getting-started: {options.release}: made in {time.monotonic() - begin:.0f} s", flush=True)
    chosen = commands(ENGLISH)
    results = root / "results"
    results.mkdir()
    (root / "script").write_text("cd /src\n" + script(chosen, "/results"))
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "slave", "sh", "-c", ENTER, "sh", str(root),
               "bash", "/script"]  # fmt: skip
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment(root))  # fmt: skip
    told = 0
    while running.poll() is None:
        while told < len(chosen) and (results / f"{told}.out").exists():
            print(f"{time.monotonic() - begin:5.0f} s  {chosen[told].text[:150]}", flush=True)
            told += 1
        time.sleep(0.5)
    out, err = running.communicate()
    wrong = check(chosen, results, subprocess.CompletedProcess(command, running.returncode, out, err))
    left = [path.name for path in (root / "var/lib/krun-serve/instances").glob("*")]
    if left:
        wrong.append(f"instances are left: {left}")
    for text in wrong:
        print(f"getting-started: {text}")
    if not wrong:
        print(
            f"getting-started: {len(chosen)} commands in {len(sections(ENGLISH))} sections did what the page says,"
            f" {time.monotonic() - begin:.0f} s"
        )
    if not options.keep and not wrong:
        shutil.rmtree(root)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

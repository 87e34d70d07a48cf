"""Every row of docs/serve.md's table of kubectl, with the real kubectl against a krun serve of its own.

A row has the command, its exit code, and words that are in its output. The rows run in their order, against one service that is made before.
`--kubectl` names the program (default: the one of PATH), `--runtime` that of the instances.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

from helpers.runtime import find  # noqa: E402
from knative import ROOT, Serve  # noqa: E402

PAGE = ROOT / "docs" / "serve.md"
HEAD = "| kubectl | exit code | in its answer |"
SECONDS = 30
MANIFEST = """apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: hello}
spec:
  template:
    metadata: {annotations: {autoscaling.knative.dev/min-scale: "1"}}
    spec: {containers: [{image: dev.local/payload}]}
"""


class Row(NamedTuple):
    """A row of the table: the words behind "kubectl", its exit code, the words in its output."""

    words: str
    code: int
    answer: str


def rows(page: str) -> list[Row]:
    """Returns the rows of the page's table. Errors: SystemExit, there is none."""
    _, found, rest = page.partition(HEAD + "\n")
    if not found:
        raise SystemExit(f"kubectl: no table {HEAD!r} in the page")
    out = []
    for line in rest.splitlines()[1:]:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 3:
            break
        out.append(Row(cells[0].strip("`"), int(cells[1]), cells[2].strip("`").replace("\\|", "|")))
    return out


def run(row: Row, kubectl: str, serve: Serve, work: Path) -> str:
    """Runs a row; returns what is wrong, "" if nothing is."""
    environment = {**os.environ, "KUBECONFIG": str(serve.kubeconfig), "EDITOR": "sed -i s/1024/1023/"}
    words = row.words
    if "POD" in words:
        found = subprocess.run(
            [kubectl, "get", "pods", "-o", "name"], env=environment, capture_output=True, text=True, check=True
        ).stdout  # fmt: skip
        words = words.replace("POD", found.split("\n")[0].removeprefix("pod/"))
    try:
        done = subprocess.run(
            [kubectl, *shlex.split(words)], env=environment, cwd=work, timeout=SECONDS, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no end after {SECONDS} s"
    if done.returncode == row.code and row.answer in done.stdout:
        return ""
    return f"exit code {done.returncode}, output:\n{done.stdout[-1500:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runtime", default="krun", help="krun, runc or a path")
    parser.add_argument("--kubectl", default=shutil.which("kubectl"), help="the program")
    arguments = parser.parse_args()
    if not arguments.kubectl:
        sys.exit(
            "kubectl: there is none: apt-get install kubernetes-client, or ./dev test-suites knative builds one"
        )
    listed = rows(PAGE.read_text())
    bad = 0
    with tempfile.TemporaryDirectory(prefix="krun-kubectl-") as name:
        work = Path(name)
        root = work / "images/dev.local/payload/rootfs"
        root.mkdir(parents=True)
        source = ROOT / "tests/serve/payload.c"
        subprocess.run(["gcc", "-static", "-O1", "-o", str(root / "payload"), str(source)], check=True)
        (root.parent / "config.json").write_text('{"Entrypoint":["/payload"],"User":"1000"}')
        (work / "hello.yaml").write_text(MANIFEST)
        runtime = arguments.runtime if "/" in arguments.runtime else str(find(arguments.runtime))
        serve = Serve(runtime, work / "images", work)
        try:
            for row in listed:
                wrong = run(row, arguments.kubectl, serve, work)
                print(f"{'FAIL' if wrong else 'ok  '} kubectl {row.words}", flush=True)
                if wrong:
                    bad += 1
                    print(f"     wanted {row.code}, {row.answer!r}; {wrong}")
        finally:
            serve.stop()
    print(f"kubectl: {len(listed) - bad} of {len(listed)} rows hold")
    return 1 if bad or not listed else 0


if __name__ == "__main__":
    sys.exit(main())

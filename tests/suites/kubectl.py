"""Every row of docs/serve.md's table of kubectl, with the real kubectl against a krun serve of its own.

A row has the command, its exit code, and words that are in its output. The rows run in their order, on a fresh server. A command whose exit code
is ^C runs until its words are there, while requests make the service write a line and come through the port that it forwards.
`--kubectl` names the program (default: the one of PATH), `--runtime` that of the instances.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple, TextIO

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

from helpers.runtime import find  # noqa: E402
from knative import ROOT, Serve  # noqa: E402

PAGE = ROOT / "docs" / "serve.md"
HEAD = "| kubectl | exit code | in its answer |"
SECONDS = 30
#: The port of the page's row of port-forward.
FORWARDED = 18773
MANIFEST = """apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: hello}
spec:
  template:
    metadata: {annotations: {autoscaling.knative.dev/min-scale: "1"}}
    spec: {containers: [{image: dev.local/payload}]}
"""


class Row(NamedTuple):
    """A row of the table: the words behind "kubectl", its exit code (None: ^C), the words in its output."""

    words: str
    code: int | None
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
        code = None if cells[1] == "^C" else int(cells[1])
        out.append(Row(cells[0].strip("`"), code, cells[2].strip("`").replace("\\|", "|")))
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
    command = [kubectl, *shlex.split(words)]
    source = Path("/dev/null")
    if command[-2] == "<":
        source = work / command[-1]
        command = command[:-2]
    with tempfile.TemporaryFile("w+") as output, open(source) as given:
        process = subprocess.Popen(
            command, env=environment, cwd=work, stdin=given, stdout=output, stderr=subprocess.STDOUT
        )
        end = time.monotonic() + SECONDS
        found = ""
        try:
            if row.code is None:
                while row.answer not in (found := _text(output)) and time.monotonic() < end:
                    _ask(serve)
                process.send_signal(signal.SIGINT)
            code = process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            return f"no end after {SECONDS} s"
        finally:
            process.kill()
            process.wait()
        found = found or _text(output)
    if row.code in (None, code) and row.answer in found:
        return ""
    return f"exit code {code}, output:\n{found[-1500:]}"


def _text(output: TextIO) -> str:
    output.seek(0)
    return output.read()


def _ask(serve: Serve) -> None:
    """Has the service write a line, and asks at the port of `port-forward`; either may not be there."""
    for port, path in ((serve.ingress, "/say/hello"), (FORWARDED, "/uid")):
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}", headers={"host": "hello.default.example.com"}
        )
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=2) as answer:
            answer.read()
    time.sleep(0.3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runtime", default="krun", help="krun, runc or a path")
    parser.add_argument("--kubectl", default=shutil.which("kubectl"), help="the program")
    arguments = parser.parse_args()
    if not arguments.kubectl:
        sys.exit(
            "kubectl: there is none: apt-get install kubernetes-client, or ./dev test-suites knative builds one"
        )
    busybox = shutil.which("busybox")
    if not busybox:
        sys.exit("kubectl: there is no static busybox: apt-get install busybox-static")
    listed = rows(PAGE.read_text())
    bad = 0
    with tempfile.TemporaryDirectory(prefix="krun-kubectl-") as name:
        work = Path(name)
        root = work / "images/dev.local/payload/rootfs"
        root.mkdir(parents=True)
        source = ROOT / "tests/serve/payload.c"
        subprocess.run(["gcc", "-static", "-O1", "-o", str(root / "payload"), str(source)], check=True)
        # kubectl cp runs tar in the container.
        (root / "bin").mkdir()
        shutil.copy(busybox, root / "bin/tar")
        (root.parent / "config.json").write_text(
            '{"Entrypoint":["/payload"],"User":"1000","Env":["PATH=/bin"]}'
        )
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

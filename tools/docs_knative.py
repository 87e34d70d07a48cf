"""docs/knative.md: the contract's rows and results, the documentation duties, the fields of v1alpha1. tools/gen_docs.py writes it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from krun.conformance import duties, report, rows
from krun.conformance.platform import rows as platform
from krun.serve.model import alphafields
from krun.serve.proxy import headers
from krun.serve.run import bundle
from krun.serve.run.image.config import Config

DATA = Path(__file__).resolve().parent.parent / "tests" / "unit" / "data" / "conformance"
SOURCES = "krun/conformance, krun/serve and tests/unit/data/conformance"
RUNTIMES = ("runc", "crun", "krun")
PLATFORMS = ("runc", "krun")

CONTRACT = """# Knative's runtime contract

`krun conformance` checks one of three things; `--profile`, `--format` and the exit code are the same for all.

| command | checks | needs |
| --- | --- | --- |
| `krun conformance --runtime PATH` | the rows of the contract that bind an OCI runtime, on any runtime with runc's command line | root |
| `krun conformance --platform URL` | the rows for a platform, over the API of krun serve or of a cluster | the probe's image there |
| `krun conformance --docs PATH` | whether pages (\\*.md) have what an operator has to write down | nothing |

* `--profile 2019` takes the text of knative/serving release-0.5, `--profile current` (the default) the one of knative/specs
  (`specs/serving/runtime-contract.md`). A row that only one text has, or that has another level there, shows it below.
* `--format table` is for people, `json` and `junit` are for programs. Each row has its number, level, result and what was seen.
* The command ends with 1 if a row of level MUST, MUST NOT or OCI fails. OCI marks statements that the contract takes from the
  runtime specification. SHOULD and MAY rows do not change the exit code: a MAY row that fails says what is not offered.
  N-A: the contract leaves the matter open (RC-07).
* RC-10 and RC-26 are MUST in `current` because the discussion of the contract (knative/serving, pull request 4035) ended so;
  the text does not say it.

## A runtime

The command runs a few containers as `krun serve` makes them; their program is a static probe (`krun/conformance/probe.c`).
Rows that need the platform's share (PORT, the files below /etc, /dev/log) get it from the bundle: the row says whether the
runtime passes it on. A verb of the runtime that does not end is given up after 30 s, and the next ones after 2 s.

The last columns are results of the profile `current` (2019 where only that text has the row), recorded with
`tools/record_conformance.py` on the development machine, which has hybrid control groups. crun 1.8.1 needs a machine or a mount
namespace without /sys/fs/cgroup/unified. The containers of the recorded runs have control groups v1; the checks know both layouts.
"""

PLATFORM = """
## A platform

The command makes a namespace of its own, deploys ten services with the probe as their program (`krun/conformance/serve.c`), asks
them, and deletes all of it; this takes half a minute. The image must be where the platform finds it:

```
krun conformance --write-image probe.tar
skopeo copy oci-archive:probe.tar docker://REGISTRY/krun-conformance      # a cluster
krun conformance --platform https://API:6443 --kubeconfig FILE --ingress ADDRESS:80 --probe-image REGISTRY/krun-conformance
```

For krun serve, `probe.tar` goes into a directory of images as `dev.local/krun-conformance:latest.tar`, and
`krun conformance --platform http://127.0.0.1:8001` is enough: the ingress is asked for, as Knative's own test clients do.
A kubeconfig gives URL, certificates and token; programs that make tokens are not run. What a developer must not set is posted as a
dry run: the row passes if the platform refuses it, or does not store it. Each request has a deadline and each answer a bound, so that
a platform that hangs, lies or hangs up fails its rows and does not stop the command.

Rows without a check: space of failed instances (RC-17, RC-18), CPU between requests (RC-04, RC-85) and what a platform MAY do
besides cannot be seen by a client; RC-36 (TLS) needs certificates that the client trusts. RC-31 fails on krun serve on purpose: RFC 9113
gave the upgrade to h2c up, and a tunnel of HTTP/2 would carry requests past the proxy. HTTP/2 with prior knowledge is served.

The last columns: krun serve with runc and with krun as the runtime of its instances, profile `current`, recorded as above.
"""

DUTIES = """
## Documentation duties of krun serve

`krun conformance --docs docs` reads the rows of this table; a test runs it. `--docs` wants, in any document, a row of a table that
begins with the statement's number and ends with a cell of at least four words.
"""


def cell(text: str) -> str:
    """Text for a table cell."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def _mounts() -> str:
    """The mount points of an instance's container, from the code that makes them."""
    container: dict[str, Any] = {"command": ["/x"]}
    files = dict.fromkeys(
        ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/log", "/dev/termination-log"), ""
    )
    with tempfile.TemporaryDirectory() as rootfs:
        place = bundle.Place("", {}, rootfs, "", "", files, [], 1)
        config = bundle.make(container, Config([], [], [], "/", "0", [], {}, ""), place)
    return ", ".join(f"`{mount['destination']}`" for mount in config["mounts"])


def _texts() -> dict[str, str]:
    """Number of a duty -> what krun serve has to say."""
    dropped = ", ".join(f"`{name.decode()}`" for name in sorted(headers._PRIVATE | headers._HOP))
    return {
        "RC-03": "A container's own layer and its emptyDir volumes are removed with the instance; nothing is kept for the next one.",
        "RC-11": "The revision's timeoutSeconds (default 300), counted from the moment at which the instance gets no new requests.",
        "RC-16": "None: each instance has the lifecycle of OCI (create, start, kill, delete), and there is nothing to opt in to.",
        "RC-18": "A failed instance leaves no files; logs of the last two starts of a container stay, two files of 10 MB each, until the"
        " instance is removed.",
        "RC-40": "The proxy of krun serve stands between each client and the program; it speaks HTTP/1.1 or HTTP/2 to the program, as"
        " the port's name says.",
        "RC-42": f"Dropped: {dropped}, and what Connection names. Written by the proxy: `x-forwarded-for`, `x-forwarded-proto`,"
        " `x-forwarded-host`, `forwarded`.",
        "RC-46": "`traceparent`, `tracestate` and `x-b3-*` pass; with `--trace-headers` a request without a traceparent gets one.",
        "RC-58": "There is no metadata service, so there is no schema.",
        "RC-62": "An instance has no address outside of the host; its service's hosts lead to it, and port-forward for users of the API.",
        "RC-67": "`PATH`, `HOSTNAME` and `HOME`, where neither the image nor the manifest sets them (`HOSTNAME`: the image may).",
        "RC-70": "root (uid 0), unless the manifest's runAsNonRoot forbids it.",
        "RC-78": f"{_mounts()}; a tmpfs on `/tmp` and on `/var/log` where the root is read-only; the manifest's volumes.",
        "RC-83": "No: limits are those of the manifest until the instance ends.",
        "RC-87": "None by default; `securityContext.seccompProfile` of type RuntimeDefault is the profile of containers/common, see"
        " serve.md.",
    }


ALPHA = """
## v1alpha1: the API of 2019

serving.knative.dev/v1alpha1 is stored as v1; a client of 2019 reads the shape that it posted, as long as no client of v1 changes the
object. Each field that v1 does not have, or has with other rules (knative/serving release-0.5); the others are those of v1, with the same
answers. `tests/serve/test_v1alpha1.py` posts an example of each row.

| kind | field of spec | answer | v1, or the words of the refusal |
| --- | --- | --- | --- |
"""


def _alpha() -> list[str]:
    lines = []
    for row in alphafields.FIELDS:
        text = (
            str(row.seen)
            if row.how == alphafields.REFUSED
            else f"`spec.{row.v1}`"
            if row.v1
            else "nothing is managed"
        )
        if row.how == alphafields.IGNORED:
            text = "taken, and not stored in v1"
        lines.append(f"| {row.kind.kind} | `{row.path}` | {row.how} | {cell(text)} |")
    lines += [
        "",
        "Fields of the status that only v1alpha1 has:",
        "",
        "| kind | field | what it is |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {kind.kind} | `{name}` | {text} |" for kind, name, text in alphafields.STATUS]
    lines += [
        "",
        "A Configuration and a Revision that a route leads to have the label `serving.knative.dev/route`, a Revision also the annotation",
        "`serving.knative.dev/lastPinned`, as the labeler of 2019 wrote them; they are not stored.",
    ]
    return lines


def _table(listed: tuple[rows.Row, ...], names: tuple[str, ...], folder: Path) -> list[str]:
    results: dict[str, dict[str, str]] = {}
    for name in names:
        facts = json.loads((folder / f"{name}.json").read_text())
        results[name] = {
            r.row.number: r.status for p in rows.PROFILES for r in report.judge(facts, p, listed)
        }
    lines = [
        f"| row | 2019 | current | statement | {' | '.join(names)} |",
        "| --- | --- | --- | --- |" + " --- |" * len(names),
    ]
    for row in listed:
        cells = [row.number, row.level_2019 or "", row.level_current or "", cell(row.statement)]
        cells += [results[name][row.number] for name in names]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def contract_page(header: str) -> str:
    """docs/knative.md. Argument: the line that says who wrote it, with a place for the source."""
    lines = [header.format(source=SOURCES), CONTRACT]
    lines += _table(rows.ROWS, RUNTIMES, DATA)
    lines += [PLATFORM, *_table(platform.ROWS, PLATFORMS, DATA / "platform")]
    lines += [DUTIES, "| row | 2019 | current | duty | krun serve |", "| --- | --- | --- | --- | --- |"]
    texts = _texts()
    for row in duties.ROWS:
        cells = [
            row.number,
            row.level_2019 or "",
            row.level_current or "",
            row.statement,
            cell(texts[row.number]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [ALPHA.rstrip("\n"), *_alpha()]
    return "\n".join(lines) + "\n"

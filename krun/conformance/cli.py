"""The verb `krun conformance`: a runtime, a platform or its documents."""

from __future__ import annotations

import os
import shutil
import signal
import sys

from krun.conformance import report
from krun.conformance.rows import PROFILES, ROWS, Row
from krun.errors import KrunError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.table import Options
    from krun.conformance.facts import Facts

FORMATS = {"table": report.table, "json": report.as_json, "junit": report.junit}
IMAGE = "dev.local/krun-conformance:latest"


def main(opts: Options) -> int:
    """krun conformance: check a runtime, a platform or documents. Returns 1 if a row of level MUST, MUST NOT or OCI fails, else 0.

    Raises UsageError for a profile or format that is not there, KrunError where the runtime cannot be run at all, the platform not
    be reached, the document not be read.
    """
    profile, form = opts.profile or "current", opts.format or "table"
    if profile not in PROFILES:
        raise UsageError(f"invalid profile {profile!r}: it is one of {', '.join(PROFILES)}")
    if form not in FORMATS:
        raise UsageError(f"invalid format {form!r}: it is one of {', '.join(FORMATS)}")
    # An end by TERM goes the way of ^C, so that the container of the moment, or the services, are deleted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if opts.write_image:
        return _write_image(opts.write_image)
    subject, facts, rows = _checked(opts)
    results = report.judge(facts, profile, rows)
    sys.stdout.write(FORMATS[form](results, subject, profile))
    return report.exit_code(results)


def _checked(opts: Options) -> tuple[str, Facts, tuple[Row, ...]]:
    """Return what is checked, the facts, the rows. Raises as `main`."""
    given = [
        name
        for name, value in (
            ("--runtime", opts.runtime),
            ("--platform", opts.platform or opts.kubeconfig),
            ("--docs", opts.docs),
        )
        if value
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other")
    if opts.runtime:
        return _runtime(opts.runtime)
    if opts.platform or opts.kubeconfig:
        return _platform(opts)
    if opts.docs:
        return _docs(opts.docs)
    raise UsageError("the runtime is missing: give --runtime PATH, --platform URL or --docs PATH")


def _runtime(command: str) -> tuple[str, Facts, tuple[Row, ...]]:
    path = shutil.which(command)
    if path is None:
        raise KrunError(f"find the runtime {command}: no such executable file")
    if os.geteuid() != 0:
        raise KrunError("check a runtime: its containers have namespaces, devices and limits; run it as root")
    from krun.conformance import drive

    path = os.path.abspath(path)
    return path, drive.run(path), ROWS


def _platform(opts: Options) -> tuple[str, Facts, tuple[Row, ...]]:
    from krun.conformance.platform import access, client, drive
    from krun.conformance.platform.rows import ROWS as PLATFORM

    reached = access.of(opts.platform or "", opts.kubeconfig or "")
    ingress = _address(opts.ingress) if opts.ingress else None
    subject = opts.platform or f"{reached.host}:{reached.port}"
    return subject, drive.run(client.Client(reached, ingress), opts.probe_image or IMAGE), PLATFORM


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise UsageError(f"--ingress {text}: HOST:PORT is wanted")
    return host.strip("[]"), int(port)


def _docs(path: str) -> tuple[str, Facts, tuple[Row, ...]]:
    from krun.conformance import duties

    return path, duties.read(path), duties.ROWS


def _write_image(path: str) -> int:
    from krun.conformance import drive, image

    image.write(path, drive.PROBE)
    sys.stdout.write(
        f"{path}: the probe as an OCI archive; push it, or put it into a directory of images as {IMAGE}.tar\n"
    )
    return 0

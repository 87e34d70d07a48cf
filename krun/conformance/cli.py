"""The verb `krun conformance`."""

from __future__ import annotations

import os
import shutil
import signal
import sys

from krun.conformance import report
from krun.conformance.rows import PROFILES
from krun.errors import KrunError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.table import Options

FORMATS = {"table": report.table, "json": report.as_json, "junit": report.junit}


def main(opts: Options) -> int:
    """krun conformance: check a runtime. Returns 1 if a row of level MUST, MUST NOT or OCI fails, else 0.

    Raises UsageError for a profile or format that is not there, KrunError where the runtime cannot be run at all.
    """
    profile, form = opts.profile or "current", opts.format or "table"
    if profile not in PROFILES:
        raise UsageError(f"invalid profile {profile!r}: it is one of {', '.join(PROFILES)}")
    if form not in FORMATS:
        raise UsageError(f"invalid format {form!r}: it is one of {', '.join(FORMATS)}")
    if not opts.runtime:
        raise UsageError("the runtime is missing: give --runtime PATH")
    path = shutil.which(opts.runtime)
    if path is None:
        raise KrunError(f"find the runtime {opts.runtime}: no such executable file")
    if os.geteuid() != 0:
        raise KrunError("check a runtime: its containers have namespaces, devices and limits; run it as root")
    from krun.conformance import drive

    # An end by TERM goes the way of ^C, so that the container of the moment is deleted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    path = os.path.abspath(path)
    results = report.judge(drive.run(path), profile)
    sys.stdout.write(FORMATS[form](results, path, profile))
    return report.exit_code(results)

"""krun doctor: checks everything that krun needs of a host, and prints cause and remedy, as text or JSON. Changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import krun
from krun.cli.health import engines, installation, kernel, rights
from krun.cli.health.finding import FAIL, OK, WARN, Finding
from krun.cli.options import Options
from krun.errors import KrunError, UsageError


def main(opts: Options) -> int:
    """Print the findings; exit code 1 when one is an error. Errors: UsageError for a format that is none."""
    if opts.format not in (None, "", "text", "json"):
        raise UsageError(f"invalid format option: {opts.format}, use text or json")
    found = list(examine(opts.root))
    code = 1 if any(one.level == FAIL for one in found) else 0
    if opts.format == "json":
        from krun.jsonio import dumps

        document = {
            "version": krun.__version__,
            "usable": code == 0,
            "checks": [
                {"check": one.what, "level": one.level, "text": one.text, "remedy": one.remedy}
                for one in found
            ],
        }
        sys.stdout.write(dumps(document, 2) + "\n")
        return code
    width = max(len(one.what) for one in found)
    for one in found:
        sys.stdout.write(f"{one.level:8}{one.what:{width}}  {one.text}\n")
        if one.remedy and one.level != OK:
            sys.stdout.write(f"{'':{width + 10}}-> {one.remedy}\n")
    return code


def examine(root: str) -> Iterator[Finding]:
    """Run every check. A check that fails in an unforeseen way is a warning of its own, not the end."""
    for what, check in CHECKS:
        try:
            yield from check(root)
        except (OSError, ValueError, KrunError) as error:
            yield Finding(
                what, WARN, f"could not be checked: {error}", "report this, with the output of krun doctor"
            )


CHECKS: tuple[tuple[str, Callable[[str], Iterator[Finding]]], ...] = (
    ("kernel", kernel.kernel),
    ("kvm", kernel.kvm),
    ("kvm workers", kernel.worker_threads),
    ("kvm statistics", kernel.statistics),
    ("calls", kernel.exits),
    ("build", installation.build),
    ("launcher", installation.launcher),
    ("python", installation.python),
    ("privileges", rights.privileges),
    ("cgroups", rights.cgroups),
    ("user namespaces", kernel.user_namespaces),
    ("seccomp", kernel.seccomp),
    ("limits", rights.limits),
    ("configuration", installation.configuration),
    ("state", installation.state),
    ("engines", engines.engines),
)

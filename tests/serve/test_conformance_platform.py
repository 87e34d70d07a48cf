"""krun conformance --platform on krun serve, with instances of runc and of krun."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.runtime import KRUN, find

from krun.conformance.cli import IMAGE

from .test_serve import Server, workers

pytestmark = [pytest.mark.root, pytest.mark.kvm, pytest.mark.usefixtures("as_root")]


@pytest.fixture(params=os.environ.get("KRUN_TEST_RUNTIMES", "runc,krun").split(","))
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    archive = tmp_path / "images" / f"{IMAGE}.tar"
    archive.parent.mkdir(parents=True)
    subprocess.run(
        [str(KRUN), "conformance", "--write-image", str(archive)], check=True, stdout=subprocess.DEVNULL
    )
    made = Server(tmp_path / "data", str(find(request.param)), tmp_path / "images")
    made.start()
    yield made
    made.end()
    made.until(lambda: not workers(tmp_path), "the worker has ended")


def test_krun_serve_passes_and_nothing_is_left(server: Server) -> None:
    words = [
        "conformance",
        "--kubeconfig",
        str(server.directory / "kubeconfig"),
        "--profile",
        "2019",
        "--format",
        "json",
    ]
    done = subprocess.run([str(KRUN), *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    # RC-02 is a time, which a loaded machine decides; RC-31 is not served, see docs/knative.md.
    failing = [row for row in json.loads(done.stdout)["rows"] if row["result"] != "PASS"]
    assert {row["number"] for row in failing} <= {"RC-02", "RC-31"}, failing
    for path in (
        "/apis/serving.knative.dev/v1/services",
        "/apis/serving.knative.dev/v1/revisions",
        "/api/v1/pods",
    ):
        assert server.ask("GET", path)[1]["items"] == []
    names = [one["metadata"]["name"] for one in server.ask("GET", "/api/v1/namespaces")[1]["items"]]
    assert not [name for name in names if name.startswith("krun-conformance")]

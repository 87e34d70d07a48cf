"""Upstream's conformance suites of Knative Serving against krun serve: runtime, api/v1, api/v1beta1, api/v1alpha1; and kn.

Everything comes from the Go module proxy: the suites and their images from knative.dev/serving, kn from knative.dev/client,
both of version VERSION (the newest one all of whose dependencies the proxy serves). They are built into DIRECTORY once
(15 minutes on 2 cores, 2 GB) and kept. Optional APIs and beta are on; a test that fails, or is skipped, fails the run.

The suite of v1alpha1 is the one of OLD, the oldest that can be built (go.mod from v0.10 on; earlier pins are gone), with the images
of OLD. `--suite api/v1alpha1` asks for it: it is no part of the default, because it needs images of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.images import Image  # noqa: E402
from helpers.runtime import find  # noqa: E402

VERSION = "v0.42.0"
#: The last but three that had v1alpha1; a module that it names has moved: where to.
OLD = "v0.15.0"
_MOVED = "vbom.ml/util=github.com/fvbommel/util@v0.0.0-20180919145318-efcd4e0f9787"
SUITES = ("runtime", "api/v1", "api/v1beta1")
ALPHA = "api/v1alpha1"
IMAGES = (
    "runtime helloworld pizzaplanetv1 pizzaplanetv2 readiness timeout singlethreaded failing autoscale hellovolume volumes"
    " multicontainer/servingcontainer multicontainer/sidecarcontainer hellohttp2"
).split()
OLD_IMAGES = (
    "helloworld pizzaplanetv1 pizzaplanetv2 timeout singlethreaded hellovolume autoscale failing".split()
)
#: The prefix of image names; it must not end in .local, else a test is skipped.
REGISTRY = "reg.example"
PASSWD = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
CONFIG = {
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/ko-app"],
    "User": "65532",
    "WorkingDir": "/",
}


def go(*arguments: str, cwd: Path) -> str:
    """Runs go, one compiler at a time and politely; its output on failure is the error."""
    environment = {**os.environ, "GOFLAGS": "-p=1 -mod=mod -buildvcs=false", "CGO_ENABLED": "0"}
    command = ["nice", "-n", "19", shutil.which("go") or "/usr/local/go/bin/go", *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[3:])}: exit code {done.returncode}\n{done.stdout}{done.stderr}"[-4000:])
    return done.stdout


def module(name: str, directory: Path, version: str = VERSION) -> Path:
    """Returns a copy of a module's source that can be built in."""
    folder = name.rpartition("/")[2] + ("" if version == VERSION else f"-{version}")
    path = directory / "src" / folder
    if not path.exists():
        directory.joinpath("src").mkdir(parents=True, exist_ok=True)
        found = json.loads(go("mod", "download", "-json", f"{name}@{version}", cwd=directory))
        shutil.copytree(found["Dir"], path)
        subprocess.run(["chmod", "-R", "u+w", path], check=True)
    return path


def build_old(directory: Path) -> None:
    """Builds what is missing of the suite of v1alpha1 and its images."""
    directory.mkdir(parents=True, exist_ok=True)
    source = module("knative.dev/serving", directory, OLD)
    go("mod", "edit", "-replace", _MOVED, cwd=source)
    binary = directory / f"{ALPHA.replace('/', '-')}.test"
    if not binary.exists():
        say(f"building {ALPHA}")
        go("test", "-tags=e2e", "-c", "-o", str(binary), f"./test/conformance/{ALPHA}", cwd=source)
    for name in OLD_IMAGES:
        archive = directory / "images-old" / REGISTRY / f"{name}.tar"
        if not archive.exists():
            say(f"building the image {name} of {OLD}")
            image(name, archive, directory, OLD)


def build(directory: Path) -> None:
    """Builds what is missing of kn, the suites and the images."""
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / "kn").exists():
        say("building kn")
        go("build", "-o", str(directory / "kn"), "./cmd/kn", cwd=module("knative.dev/client", directory))
    for suite in SUITES:
        binary = directory / f"{suite.replace('/', '-')}.test"
        if not binary.exists():
            say(f"building {suite}")
            source = module("knative.dev/serving", directory)
            go("test", "-tags=e2e", "-c", "-o", str(binary), f"./test/conformance/{suite}", cwd=source)
    oracle = directory / "webhook"
    if not oracle.exists():
        say("building the webhook that tests/serve/webhook.json was recorded with (KRUN_WEBHOOK)")
        source = module("knative.dev/serving", directory)
        (source / "cmd/krunoracle").mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests/serve/oracle/main.go", source / "cmd/krunoracle/main.go")
        go("build", "-o", str(oracle), "./cmd/krunoracle", cwd=source)
    for path in IMAGES:
        name = path.rpartition("/")[2]
        archive = directory / "images" / REGISTRY / f"{name}.tar"
        if not archive.exists():
            say(f"building the image {name}")
            image(path, archive, directory)


def image(path: str, archive: Path, directory: Path, version: str = VERSION) -> None:
    """Makes the archive of a test image: its static program, and the few files that ko's base image has."""
    name = path.rpartition("/")[2]
    root = directory / ("rootfs" if version == VERSION else "rootfs-old") / name
    for folder in ("ko-app", "etc", "proc", "sys", "dev", "home/nonroot", "tmp"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text(PASSWD)
    source = module("knative.dev/serving", directory, version)
    go(
        "build",
        "-ldflags",
        "-s -w",
        "-o",
        str(root / "ko-app" / name),
        f"./test/test_images/{path}",
        cwd=source,
    )
    archive.parent.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, "Entrypoint": [f"/ko-app/{name}"]}
    Image(f"{REGISTRY}/{name}:latest", root, config).write(archive)


def say(text: str) -> None:
    print(f"knative: {text}", flush=True)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class Serve:
    """A krun serve of its own, in `work`."""

    def __init__(self, runtime: str, images: Path, work: Path) -> None:
        self.api, self.ingress = free_port(), free_port()
        self.work = work
        self.log = open(work / "serve.log", "w")
        command = [
            sys.executable, "-m", "krun", "serve", "--directory", str(work / "data"), "--api", f"127.0.0.1:{self.api}",
            "--listen", f"127.0.0.1:{self.ingress}", "--runtime", runtime, "--images", str(images), "--no-pull",
            "--domain", "example.com",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=self.log, stderr=subprocess.STDOUT)
        self.kubeconfig = work / "data" / "kubeconfig"
        end = time.monotonic() + 30
        while not self.kubeconfig.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit(f"krun serve did not start: {(work / 'serve.log').read_text()}")
            time.sleep(0.05)

    def post(self, path: str, obj: dict[str, Any]) -> None:
        """Creates an object, if it is not there."""
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self.api)
        connection.request("POST", path, json.dumps(obj), {"content-type": "application/json"})
        status = connection.getresponse().status
        assert status in (201, 409), (path, status)
        connection.close()

    def stop(self) -> None:
        """Ends it with its instances."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def run(suite: str, serve: Serve, directory: Path, pattern: str) -> list[tuple[str, str]]:
    """Runs a suite; returns (test, PASS | FAIL | SKIP) of all its tests and subtests."""
    name = suite.replace("/", "-")
    command = [
        str(directory / f"{name}.test"), "-test.v", "-test.parallel", "12", "-test.timeout", "15m",
        "-kubeconfig", str(serve.kubeconfig), "-ingressendpoint", "127.0.0.1",
        "-dockerrepo", REGISTRY, "-imagetemplate", "{{.Repository}}/{{.Name}}", "-spooftimeout", "60s",
    ]  # fmt: skip
    if suite != ALPHA:
        command += ["-server", f"http://127.0.0.1:{serve.api}", "-disable-logstream"]
    if suite not in ("runtime", ALPHA):
        command.append("-enable-beta")
    if pattern:
        command += ["-test.run", pattern]
    output = serve.work / f"{name}.out"
    version = OLD if suite == ALPHA else VERSION
    source = module("knative.dev/serving", directory, version) / "test/conformance" / suite
    with open(output, "w") as stream:
        code = subprocess.run(command, cwd=source, stdout=stream, stderr=subprocess.STDOUT).returncode
    text = output.read_text()
    found = re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+)", text, flags=re.M)
    # One that did not end: the suite's own time was over.
    ended = {test for _, test in found}
    found += [
        ("FAIL", test) for test in re.findall(r"^=== RUN +(\S+)", text, flags=re.M) if test not in ended
    ]
    if code and not any(verdict == "FAIL" for verdict, _ in found):
        found.append(("FAIL", f"{suite} ended with {code}; see {output}"))
    return [(test, verdict) for verdict, test in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runtime", default="krun", help="krun, runc or a path")
    parser.add_argument(
        "--directory", type=Path, default=ROOT / "build" / "knative", help="what is built, kept"
    )
    parser.add_argument("--suite", action="append", choices=(*SUITES, ALPHA), help="this suite only")
    parser.add_argument("--run", default="", help="go's -test.run")
    arguments = parser.parse_args()
    suites = arguments.suite or list(SUITES)
    if suites != [ALPHA]:
        build(arguments.directory)
    if ALPHA in suites:
        build_old(arguments.directory)
    runtime = arguments.runtime if "/" in arguments.runtime else str(find(arguments.runtime))
    work = arguments.directory / "run"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    images = arguments.directory / ("images-old" if suites == [ALPHA] else "images")
    serve = Serve(runtime, images, work)
    bad = 0
    try:
        base = "/api/v1/namespaces/serving-tests/"
        for plural, kind in (("configmaps", "ConfigMap"), ("secrets", "Secret")):
            name = {"metadata": {"name": f"conformance-test-{kind.lower()}"}}
            field = "data" if kind == "ConfigMap" else "stringData"
            serve.post(
                base + plural, {"apiVersion": "v1", "kind": kind, **name, field: {"testKey": "testValue"}}
            )
        for suite in suites:
            began = time.monotonic()
            results = run(suite, serve, arguments.directory, arguments.run)
            top = [one for one in results if "/" not in one[0]]
            counts = {
                word: sum(verdict == word for _, verdict in results) for word in ("PASS", "FAIL", "SKIP")
            }
            say(
                f"{suite}: {sum(v == 'PASS' for _, v in top)} of {len(top)} tests pass"
                f" ({counts['PASS']} of {len(results)} with subtests), {counts['SKIP']} skipped,"
                f" {time.monotonic() - began:.0f} s"
            )
            for test, verdict in results:
                if verdict != "PASS":
                    bad += 1
                    say(f"{suite}: {verdict} {test}")
            if not results:
                bad += 1
    finally:
        serve.stop()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

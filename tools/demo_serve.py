"""./dev demo-serve: krun serve on this machine, a Go and a Python service, from zero, traffic 80/20, back to zero, a picture.

The services are those of docs/examples, their images are made by tools/runenv.py. kn deploys them where
`./dev test-suites knative` has built it (build/knative/kn), `krun deploy` otherwise. The picture of the status page is
build/status-page.png.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from helpers import browser  # noqa: E402

KRUN = ROOT / "build" / "bin" / "krun"
KN = ROOT / "build" / "knative" / "kn"
EXAMPLES = ROOT / "docs" / "examples"
PICTURE = ROOT / "build" / "status-page.png"
API, INGRESS = 8101, 8180
SERVICES = "/apis/serving.knative.dev/v1/namespaces/default/services"


def say(text: str) -> None:
    print(f"demo-serve: {text}", flush=True)


def run(*command: str, **more: Any) -> str:
    """Runs a command and returns its output; a failure ends the demo with its words."""
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(
            f"demo-serve: {' '.join(command)}: status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
        )
    return done.stdout.strip()


def images(scratch: Path, local: Path) -> list[str]:
    """Makes the images demo/python and, where there is a go, demo/go as OCI layouts in `local`; returns their names."""

    def pack(base: str, folder: Path, name: str) -> None:
        run(
            sys.executable,
            str(ROOT / "tools/runenv.py"),
            "pack",
            base,
            str(folder),
            str(local / "dev.local/demo" / name),
        )

    pack("python", EXAMPLES / "python", "python")
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if go is None:
        say("there is no go on this machine (apt-get install golang-go): the Python service alone is shown")
        return ["python"]
    environment = {
        "HOME": str(scratch),
        **os.environ,
        "CGO_ENABLED": "0",
        "GOCACHE": str(scratch / "go-cache"),
    }
    (scratch / "go").mkdir()
    run(
        go,
        "build",
        "-buildvcs=false",
        "-o",
        str(scratch / "go/server"),
        ".",
        cwd=EXAMPLES / "go",
        env=environment,
    )
    pack("static", scratch / "go", "go")
    return ["python", "go"]


def request(name: str) -> tuple[int, str, float]:
    """(status, body, milliseconds) of a request to a service."""
    begin = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", INGRESS, timeout=60)
    connection.request("GET", "/", headers={"host": f"{name}.default.localhost"})
    answer = connection.getresponse()
    body = answer.read().decode().strip()
    connection.close()
    return answer.status, body, (time.monotonic() - begin) * 1000


def ask(method: str, path: str, body: object = None, media: str = "application/json") -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", API, timeout=30)
    connection.request(method, path, json.dumps(body) if body is not None else None, {"content-type": media})
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return found


class Client:
    """Who deploys: kn, or krun's own command and a patch where there is no kn."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.kn = KN.exists()
        self.environment = {**os.environ, "KUBECONFIG": str(data / "kubeconfig")}

    def _kn(self, *words: str) -> None:
        begin = time.monotonic()
        run(str(KN), *words, env=self.environment)
        say(f"$ kn {' '.join(words)}   [{time.monotonic() - begin:.2f} s]")

    def deploy(self, name: str, target: str, *, again: bool = False) -> None:
        """Makes a service, or with `again` its next revision, and waits until it is ready."""
        image = f"dev.local/demo/{name}"
        if self.kn:
            words = ("update",) if again else ("create", "--image", image)
            self._kn("service", words[0], name, *words[1:], "--env", f"TARGET={target}")
            return
        begin = time.monotonic()
        told = run(str(KRUN), "deploy", "--api", f"127.0.0.1:{API}", "--directory", str(self.data), "--name", name,
                   "--env", f"TARGET={target}", image)  # fmt: skip
        say(
            f"$ krun deploy --name {name} --env TARGET={target!r} {image}   [{time.monotonic() - begin:.2f} s] {told}"
        )

    def split(self, name: str, shares: dict[str, int]) -> None:
        """Shares the traffic of a service."""
        if self.kn:
            self._kn(
                "service",
                "update",
                name,
                *(word for one, share in shares.items() for word in ("--traffic", f"{one}={share}")),
            )
            return
        traffic = [{"revisionName": one, "percent": share} for one, share in shares.items()]
        ask(
            "PATCH",
            f"{SERVICES}/{name}",
            {"spec": {"traffic": traffic}},
            "application/merge-patch+json",
        )
        say(f"traffic of {name}: {shares}")

    def show(self) -> None:
        if self.kn:
            print(run(str(KN), "service", "list", env=self.environment), flush=True)


def routed(name: str, shares: dict[str, int]) -> None:
    """Waits until the route has the shares."""
    end = time.monotonic() + 60
    while True:
        status = ask("GET", f"{SERVICES}/{name}").get("status", {})
        if {one.get("revisionName"): one.get("percent") for one in status.get("traffic", [])} == shares:
            return
        if time.monotonic() > end:
            sys.exit(f"demo-serve: the traffic of {name} is not {shares}: {status}")
        time.sleep(0.1)


def picture() -> None:
    """Writes the picture of the status page, while requests are being served."""
    stop = threading.Event()

    def load(name: str) -> None:
        while not stop.is_set():
            request(name)
            time.sleep(0.005)

    names = [one["metadata"]["name"] for one in ask("GET", SERVICES)["items"]]
    threads = [threading.Thread(target=load, args=(name,)) for name in names for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        # Long enough for the chart to have a line.
        time.sleep(12)
        browser.picture(f"http://127.0.0.1:{API}/status", PICTURE)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    say(f"the status page: {PICTURE} ({PICTURE.stat().st_size // 1024} KiB)")


def show(data: Path, scratch: Path) -> None:
    names = images(scratch, data / "local")
    client = Client(data)
    for name in names:
        client.deploy(name, "World")
        say(f"request to {name}: {request(name)}")
    name = names[-1]
    client.deploy(name, "you", again=True)
    first, second = f"{name}-00001", f"{name}-00002"
    client.split(name, {first: 80, second: 20})
    routed(name, {first: 80, second: 20})
    counts = {first: 0, second: 0}
    for _ in range(500):
        counts[request(name)[1].split()[-1]] += 1
    say(f"500 requests at 80/20: {counts}")
    assert 340 <= counts[first] <= 460, counts
    client.show()
    picture()
    say("waiting for zero (the stable window is 6 s here)")
    end = time.monotonic() + 120
    while ask("GET", "/api/v1/namespaces/default/pods")["items"]:
        assert time.monotonic() < end, "instances are left"
        time.sleep(0.2)
    for name in names:
        status, body, milliseconds = request(name)
        assert status == 200, (status, body)
        say(f"from zero: {body!r} after {milliseconds:.0f} ms")


def main() -> int:
    browser.find()
    scratch = Path(tempfile.mkdtemp(prefix="krun-demo-serve-"))
    data = scratch / "data"
    data.mkdir()
    command = [str(KRUN), "serve", "--directory", str(data), "--api", f"127.0.0.1:{API}",
               "--listen", f"127.0.0.1:{INGRESS}", "--no-pull"]  # fmt: skip
    server = subprocess.Popen(command)
    try:
        while not (data / "kubeconfig").exists():
            if server.poll() is not None:
                return 1
            time.sleep(0.05)
        change = {"data": {"stable-window": "6s"}}
        ask(
            "PATCH",
            "/api/v1/namespaces/knative-serving/configmaps/config-autoscaler",
            change,
            "application/merge-patch+json",
        )
        show(data, scratch)
        say("done: every program ran in a VM, started by krun")
        return 0
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

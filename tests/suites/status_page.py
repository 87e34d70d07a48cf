"""The status page of krun serve in headless Chromium: what its document has while services run, and that it only shows.

    status_page.py [--runtime krun|runc|PATH]

A server with one service of two revisions that share the traffic, one at zero and one that fails. The picture is
build/status-page.png.
"""

from __future__ import annotations

import argparse
import html
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers import browser
from helpers.runtime import ROOT, find

SERVICES = "/apis/serving.knative.dev/v1/namespaces/default/services"
PICTURE = ROOT / "build" / "status-page.png"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def ask(port: int, method: str, path: str, body: object = None, host: str = "") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"content-type": "application/json" if method == "POST" else "application/merge-patch+json"}
    connection.request(method, path, json.dumps(body) if body is not None else None, headers | ({"host": host} if host else {}))  # fmt: skip
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def until(condition: Any, what: str, seconds: float = 120.0) -> Any:
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            sys.exit(f"status-page: {what}: not within {seconds:.0f} s")
        time.sleep(0.1)


def service(name: str, image: str, **notes: str) -> dict[str, Any]:
    annotations = {f"autoscaling.knative.dev/{key.replace('_', '-')}": value for key, value in notes.items()}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"image": image}]}}
    return {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": name}, "spec": {"template": template}}  # fmt: skip


def image(folder: Path) -> None:
    """Makes dev.local/demo/server of docs/examples/c."""
    (folder / "c").mkdir()
    source = ROOT / "docs/examples/c/server.c"
    subprocess.run(["gcc", "-static", "-O2", "-o", str(folder / "c/server"), str(source)], check=True)
    subprocess.run([sys.executable, str(ROOT / "tools/runenv.py"), "pack", "static", str(folder / "c"),
                    str(folder / "images/dev.local/demo/server")], check=True)  # fmt: skip


def set_up(api: int, ingress: int) -> None:
    """Makes the services, and waits until all that the page must show is there."""

    def status(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(ask(api, "GET", f"{SERVICES}/{name}")[1]).get("status", {})
        return found

    def ready(name: str, value: str = "True") -> bool:
        return any(one["type"] == "Ready" and one["status"] == value for one in status(name).get("conditions", []))  # fmt: skip

    path = "/api/v1/namespaces/knative-serving/configmaps/config-autoscaler"
    assert ask(api, "PATCH", path, {"data": {"allow-zero-initial-scale": "true"}})[0] == 200
    for obj in (
        service("shared", "dev.local/demo/server", min_scale="1"),
        service("asleep", "dev.local/demo/server", initial_scale="0"),
        service("broken", "dev.local/no/such"),
    ):
        code, text = ask(api, "POST", SERVICES, obj)
        assert code == 201, text
    until(lambda: ready("shared"), "shared is ready")
    change = {"template": {"spec": {"containers": [{"image": "dev.local/demo/server", "env": [{"name": "TARGET", "value": "two"}]}]}}}  # fmt: skip
    assert ask(api, "PATCH", f"{SERVICES}/shared", {"spec": change})[0] == 200
    until(lambda: status("shared").get("latestReadyRevisionName") == "shared-00002", "its second revision")
    traffic = [{"revisionName": "shared-00001", "percent": 80}, {"revisionName": "shared-00002", "percent": 20, "tag": "next"}]  # fmt: skip
    assert ask(api, "PATCH", f"{SERVICES}/shared", {"spec": {"traffic": traffic}})[0] == 200
    until(lambda: {one.get("percent") for one in status("shared").get("traffic", [])} == {80, 20}, "the shares")  # fmt: skip
    until(lambda: ready("broken", "False"), "broken has failed")
    assert ask(ingress, "GET", "/", host="shared.default.localhost")[0] == 200


def text_of(document: str) -> str:
    """Returns what a person reads: the document without its style and marks."""
    body = re.sub(r"<(style|title)\b.*?</\1>", "", document, flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def look(api: int, ingress: int) -> list[str]:
    """Returns what is wrong with the page as Chromium has it."""
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            ask(ingress, "GET", "/", host="shared.default.localhost")

    thread = threading.Thread(target=load)
    thread.start()
    try:
        url = f"http://127.0.0.1:{api}/status"
        # The chart has a line as soon as the autoscaler has taken samples.
        document = until(lambda: (lambda found: found if 'class="l"' in found else "")(browser.document(url)), "charts")  # fmt: skip
        browser.picture(url, PICTURE, height=1300)
    finally:
        stop.set()
        thread.join()
    seen = text_of(document)
    wanted = {
        "services": "default/ shared Ready http://shared.default.localhost",
        "a failure and its reason": "Unable to fetch image",
        "traffic": "80 % shared-00001",
        "a tag": "20 % shared-00002 #next",
        "revisions": "default/ shared-00002 dev.local/demo/server",
        "a revision at zero": "default/ asleep-00001 dev.local/demo/server Ready at zero",
        "instances": "default/ shared-00001-deployment-",
        "start phases": " ms containers run ",
        "readiness": " ms probes, ready after ",
    }
    wrong = [f"{what}: {words!r} is not on the page" for what, words in wanted.items() if words not in seen]
    wrong += [f"the page has <{tag}>" for tag in ("form", "script", "input", "button", "iframe") if f"<{tag}" in document]  # fmt: skip
    lines = re.findall(r'class="l" points="([^"]+)"', document)
    if not any(
        len({point.partition(",")[2] for point in line.split()}) > 1 or "240,3.0" in line for line in lines
    ):
        wrong.append(f"scale over time: no chart shows an instance: {lines}")
    if 'style="width:80.00%"' not in document:
        wrong.append("traffic: no bar has 80 %")
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        code, answer = ask(api, method, "/status", {})
        if code < 400:
            wrong.append(f"{method} /status: {code} {answer[:200]!r}")
    if wrong:
        wrong.append(f"the page: {seen[:3000]}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runtime", default="krun", help="krun, runc or a path")
    options = parser.parse_args()
    browser.find()
    work = Path(tempfile.mkdtemp(prefix="krun-status-page-"))
    api, ingress = free_port(), free_port()
    runtime = options.runtime if "/" in options.runtime else str(find(options.runtime))
    image(work)
    command = [sys.executable, "-m", "krun", "serve", "--directory", str(work / "data"), "--api", f"127.0.0.1:{api}",
               "--listen", f"127.0.0.1:{ingress}", "--runtime", runtime, "--images", str(work / "images"), "--no-pull"]  # fmt: skip
    server = subprocess.Popen(command, cwd=ROOT)
    try:
        until(lambda: (work / "data/kubeconfig").exists() or server.poll() is not None, "krun serve")
        set_up(api, ingress)
        wrong = look(api, ingress)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)
        shutil.rmtree(work, ignore_errors=True)
    for text in wrong:
        print(f"status-page: {text}")
    if not wrong:
        print(f"status-page: services, revisions, traffic, instances, phases, charts are there; {PICTURE}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

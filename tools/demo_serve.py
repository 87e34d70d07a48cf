"""./dev demo-serve: krun serve on this machine, a Go and a Python service, from zero, traffic 80/20, back to zero.

kn is used where `./dev test-suites knative` has built it (build/knative/kn), `krun deploy` otherwise.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KRUN = ROOT / "build" / "bin" / "krun"
KN = ROOT / "build" / "knative" / "kn"
API, INGRESS = 8101, 8180

GO = """package main

import ("fmt"; "net/http"; "os")

func main() {
    http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
        fmt.Fprintf(w, "Go %s says %s\\n", os.Getenv("K_REVISION"), os.Getenv("TARGET"))
    })
    http.ListenAndServe(":"+os.Getenv("PORT"), nil)
}
"""
#: The first process of a container gets no signal that it does not handle: without a handler SIGTERM would wait for the grace.
PYTHON = """import http.server, os, signal
signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ("Python %s says %s\\n" % (os.environ["K_REVISION"], os.environ.get("TARGET"))).encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), Handler).serve_forever()
"""


def say(text: str) -> None:
    print(f"demo-serve: {text}", flush=True)


def image(folder: Path, entrypoint: list[str]) -> Path:
    """Makes an image's directory: rootfs and config.json."""
    for name in ("proc", "sys", "dev", "tmp", "etc"):
        (folder / "rootfs" / name).mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"Entrypoint": entrypoint, "User": "65532"}))
    return folder


def go_image(folder: Path) -> Path | None:
    """The Go service; None where there is no go."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        return None
    source = folder / "source"
    source.mkdir(parents=True)
    (source / "main.go").write_text(GO)
    (source / "go.mod").write_text("module hello\n\ngo 1.19\n")
    made = image(folder, ["/hello"])
    environment = {**os.environ, "CGO_ENABLED": "0"}
    subprocess.run(
        [go, "build", "-o", str(folder / "rootfs/hello"), "."], cwd=source, env=environment, check=True
    )
    return made


def python_image(folder: Path) -> Path:
    """The Python service: the machine's own interpreter with its library, no registry and no package."""
    made = image(folder, [os.path.realpath("/usr/bin/python3"), "-S", "/app.py"])
    root = folder / "rootfs"
    (root / "app.py").write_text(PYTHON)
    program = Path(os.path.realpath("/usr/bin/python3"))
    library = Path(sysconfig.get_paths()["stdlib"])
    objects = [program, *library.glob("lib-dynload/*.so")]
    needed = {program}
    for one in objects:
        listed = subprocess.run(["ldd", str(one)], capture_output=True, text=True).stdout
        needed |= {Path(word) for word in listed.split() if word.startswith("/")}
    for path in needed:
        target = root / str(path).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(path), target)
    skipped = shutil.ignore_patterns(
        "test", "tests", "__pycache__", "idlelib", "tkinter", "dist-packages", "config-*"
    )
    shutil.copytree(library, root / str(library).lstrip("/"), ignore=skipped, symlinks=True)
    return made


def request(name: str) -> tuple[int, str, float]:
    """(status, body, milliseconds) of a request to a service."""
    begin = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", INGRESS, timeout=60)
    connection.request("GET", "/", headers={"host": f"{name}.default.localhost"})
    answer = connection.getresponse()
    body = answer.read().decode().strip()
    connection.close()
    return answer.status, body, (time.monotonic() - begin) * 1000


def ask(method: str, path: str, body: object = None, media: str = "application/json") -> dict[str, object]:
    connection = http.client.HTTPConnection("127.0.0.1", API, timeout=30)
    connection.request(method, path, json.dumps(body) if body is not None else None, {"content-type": media})
    found: dict[str, object] = json.loads(connection.getresponse().read())
    connection.close()
    return found


def deploy(name: str, folder: Path, target: str, data: Path) -> None:
    """Deploys a directory by krun deploy, and prints what it took."""
    begin = time.monotonic()
    command = [sys.executable, "-m", "krun", "deploy", "--api", f"127.0.0.1:{API}", "--directory", str(data), "--name", name,
               "--env", f"TARGET={target}", str(folder)]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"demo-serve: krun deploy {name} failed: {done.stderr}")
    say(
        f"$ krun deploy --name {name} --env TARGET={target} DIR   [{time.monotonic() - begin:.2f} s] {done.stdout.strip()}"
    )


def pods() -> int:
    listed = ask("GET", "/api/v1/namespaces/default/pods")["items"]
    assert isinstance(listed, list)
    return len(listed)


def show(data: Path, scratch: Path) -> None:
    services = {"python": python_image(scratch / "python")}
    made = go_image(scratch / "go")
    if made is not None:
        services["go"] = made
    else:
        say("there is no go on this machine: the Python service alone is shown")
    for name, folder in services.items():
        deploy(name, folder, "hello", data)
        say(f"request to {name}: {request(name)}")
    name = next(reversed(services))
    deploy(name, services[name], "hello again", data)
    path = f"/apis/serving.knative.dev/v1/namespaces/default/services/{name}"
    revisions = [f"{name}-00001", f"{name}-00002"]
    traffic = [
        {"revisionName": one, "percent": share} for one, share in zip(revisions, (80, 20), strict=True)
    ]
    ask("PATCH", path, {"spec": {"traffic": traffic}}, "application/merge-patch+json")
    time.sleep(1)
    counts = dict.fromkeys(revisions, 0)
    for _ in range(500):
        counts[request(name)[1].split()[1]] += 1
    say(f"500 requests at 80/20: {counts}")
    assert 340 <= counts[revisions[0]] <= 460, counts
    if KN.exists():
        environment = {**os.environ, "KUBECONFIG": str(data / "kubeconfig")}
        subprocess.run([str(KN), "service", "list"], env=environment, check=True)
    say("waiting for zero (the stable window is 6 s here)")
    end = time.monotonic() + 60
    while pods():
        assert time.monotonic() < end, "instances are left"
        time.sleep(0.2)
    for name in services:
        status, body, milliseconds = request(name)
        assert status == 200, (status, body)
        say(f"from zero: {body!r} after {milliseconds:.0f} ms")


def main() -> int:
    scratch = Path(tempfile.mkdtemp(prefix="krun-demo-serve-"))
    data = scratch / "data"
    data.mkdir()
    command = [sys.executable, "-m", "krun", "serve", "--directory", str(data), "--api", f"127.0.0.1:{API}",
               "--listen", f"127.0.0.1:{INGRESS}", "--runtime", str(KRUN), "--no-pull"]  # fmt: skip
    server = subprocess.Popen(command, cwd=ROOT)
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

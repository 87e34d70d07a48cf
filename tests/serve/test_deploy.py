"""krun deploy against a server that says what the test wants: waiting for it, and whose words a failure has."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from krun.errors import KrunError
from krun.serve import deploy, reference

CONDITIONS = {
    "ready": [{"type": "Ready", "status": "True"}],
    "failed": [
        {"type": "Ready", "status": "False", "reason": "RevisionMissing", "message": "no ready Revision"},
        {"type": "ConfigurationsReady", "status": "False", "reason": "RevisionFailed", "message": "no such image"},
    ],
}  # fmt: skip


class Handler(http.server.BaseHTTPRequestHandler):
    state = "ready"

    def do_GET(self):
        one = {"metadata": {"generation": 1}}
        one["status"] = {"observedGeneration": 1, "url": "http://hello", "conditions": CONDITIONS[self.state]}
        body = json.dumps({"items": []} if self.path.endswith("/services") else one).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.do_GET()

    def log_message(self, *words):
        pass


def options(port):
    return SimpleNamespace(api=f"127.0.0.1:{port}", name="hello", image="reg.example/hello", namespace=None, env=[], port=None,
                           token_file=None, directory="/nonexistent")  # fmt: skip


@pytest.fixture
def server():
    """A server whose socket is bound, but which listens only after `listen()`."""

    class Late(http.server.ThreadingHTTPServer):
        daemon_threads = True

    made = Late(("127.0.0.1", 0), Handler, bind_and_activate=False)
    made.server_bind()

    def listen():
        made.server_activate()
        threading.Thread(target=made.serve_forever, daemon=True).start()

    yield SimpleNamespace(port=made.server_address[1], listen=listen, handler=Handler)
    made.server_close()


def test_it_waits_for_a_server_that_is_starting(server, capsys, monkeypatch):
    """In a script `krun serve &` has not bound its socket when the next command runs."""
    refused = []

    def sleep(seconds):
        refused.append(seconds)
        server.listen()

    monkeypatch.setattr(deploy, "_LISTEN", 120.0)
    monkeypatch.setattr(deploy, "time", SimpleNamespace(
        sleep=sleep, monotonic=time.monotonic, strftime=time.strftime, gmtime=time.gmtime, time_ns=time.time_ns))  # fmt: skip
    assert deploy.main(options(server.port)) == 0
    assert len(refused) == 1
    captured = capsys.readouterr()
    assert captured.out == "http://hello\n" and "waiting for krun serve on" in captured.err


def test_a_server_that_does_not_come_is_an_error(monkeypatch):
    monkeypatch.setattr(deploy, "_LISTEN", 0.2)
    with socket.socket() as bound:
        # Bound and not listening: every connection is refused, and nobody else can take the port.
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(KrunError, match="Connection refused; is it running"):
            deploy.main(options(bound.getsockname()[1]))


def test_a_failure_has_the_configuration_s_words(server, monkeypatch):
    monkeypatch.setattr(server.handler, "state", "failed")
    server.listen()
    with pytest.raises(KrunError, match="RevisionFailed: no such image"):
        deploy.main(options(server.port))


def test_a_directory_may_be_a_service_with_one_letter(server, tmp_path, monkeypatch):
    """A repository's name has two letters at least (go-containerregistry), so the reference has a folder of krun's."""
    (tmp_path / "c" / "rootfs").mkdir(parents=True)
    sent = []
    state = {"observedGeneration": 1, "url": "http://c", "conditions": CONDITIONS["ready"]}

    def ask(where, method, path, body=None, token=""):
        if method == "POST":
            sent.append(body)
        return {"items": [], "metadata": {"generation": 1}, "status": state}

    monkeypatch.setattr(deploy, "ask", ask)
    server.listen()
    chosen = options(server.port)
    chosen.name, chosen.image, chosen.directory = None, str(tmp_path / "c"), str(tmp_path / "data")
    assert deploy.main(chosen) == 0
    image = sent[0]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert sent[0]["metadata"]["name"] == "c" and not reference.weak_problem(image)
    assert (tmp_path / "data" / "local" / image).samefile(tmp_path / "c")

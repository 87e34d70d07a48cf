"""krun serve as people start it: TLS, tokens, the unix socket, deploy and export, options that are wrong; runc as the runtime."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.runtime import ROOT, find
from helpers.serveapi import SERVING

pytestmark = [pytest.mark.root, pytest.mark.kvm, pytest.mark.usefixtures("as_root")]

TOKEN = "a-token-that-is-long-enough"
PROTOBUF = "application/vnd.kubernetes.protobuf"
#: A ConfigMap p with a: b, as a typed client sends it.
MESSAGE = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x0d\x0a\x03\x0a\x01p\x12\x06\x0a\x01a\x12\x01b"


def krun(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "krun", *words], cwd=ROOT, capture_output=True, text=True, timeout=300, **more
    )


def certificates(directory: Path) -> None:
    """An authority, and a certificate of 127.0.0.1 that it has signed: leaf.pem, leaf.key."""
    authority = ["-x509", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"]
    leaf = ["-subj", "/CN=krun", "-keyout", "leaf.key", "-out", "leaf.csr"]
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for words in (
        [*new, *authority],
        [*new, *leaf],
        [*"openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out leaf.pem".split()],
    ):  # fmt: skip
        subprocess.run(words, cwd=directory, check=True, capture_output=True)


def running(word: str) -> bool:
    """Whether a process has a word in its command line."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                if word.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                    return True
            except OSError:
                continue
    return False


class Secure:
    """A server with TLS, a token and a unix socket, on ports that the kernel chooses."""

    def __init__(self, base: Path) -> None:
        self.base, self.directory = base, base / "data"
        certificates(base)
        (base / "token").write_text(TOKEN + "\n")
        self.unix = str(base / "api.sock")
        # The working directory is not the source's: krun is found as it is installed here, by `pip install -e`. Relative paths: the kubeconfig must hold in another working directory, too.
        words = ["serve", "--directory", str(self.directory), "--api", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--certificate",
                 "leaf.pem", "--key", "leaf.key", "--token-file", "token", "--unix", self.unix, "--runtime", str(find("runc")),
                 "--no-pull"]  # fmt: skip
        self.log = open(base / "log", "w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "krun", *words], cwd=base, stdout=self.log, stderr=self.log,
        )  # fmt: skip
        end = time.monotonic() + 60
        while "curl" not in (base / "log").read_text():
            assert self.process.poll() is None and time.monotonic() < end, (base / "log").read_text()
            time.sleep(0.02)
        self.kubeconfig = json.loads((self.directory / "kubeconfig").read_text())
        self.port = int(self.kubeconfig["clusters"][0]["cluster"]["server"].rpartition(":")[2])

    def ask(self, method: str, path: str, body: Any = None, token: str = TOKEN, unix: bool = False, media: str = "application/json"
            ) -> tuple[int, Any]:  # fmt: skip
        if unix:
            connection = http.client.HTTPConnection("localhost", timeout=60)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(self.unix)
        else:
            context = ssl.create_default_context(cafile=str(self.base / "ca.pem"))
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
        fields = {"content-type": media, **({"authorization": f"Bearer {token}"} if token else {})}
        data = body if isinstance(body, bytes | None) else json.dumps(body)
        connection.request(method, path, data, fields)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text[:1] == b"{" else text

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 0
        self.log.close()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    base = tmp_path_factory.mktemp("secure")
    root = base / "hello" / "rootfs"
    root.mkdir(parents=True)
    source = Path(__file__).with_name("payload.c")
    subprocess.run(["gcc", "-static", "-O1", "-o", str(root / "payload"), str(source)], check=True)
    (root.parent / "config.json").write_text('{"Entrypoint":["/payload"],"User":"1000"}')
    made = Secure(base)
    yield made
    made.end()


def test_who_may_ask_over_tls(secure: Secure) -> None:
    assert secure.ask("GET", "/api/v1/namespaces")[0] == 200
    for token in ("", "another-token-of-some-length", TOKEN[:-1]):
        assert secure.ask("GET", "/api/v1/namespaces", token=token)[0] == 401
    assert secure.ask("GET", "/healthz", token="")[0] == 200
    plain = http.client.HTTPConnection("127.0.0.1", secure.port, timeout=60)
    with pytest.raises((OSError, http.client.HTTPException)):
        plain.request("GET", "/healthz")
        plain.getresponse()
    plain.close()
    assert secure.ask("GET", "/healthz")[0] == 200


def test_the_unix_socket_is_for_its_owner_and_wants_the_token_too(secure: Secure) -> None:
    mode = os.stat(secure.unix).st_mode
    assert stat.S_ISSOCK(mode) and not mode & 0o022
    assert secure.ask("GET", "/api/v1/namespaces", unix=True)[0] == 200
    assert secure.ask("GET", "/api/v1/namespaces", unix=True, token="")[0] == 401


def test_a_protobuf_body(secure: Secure) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    code, made = secure.ask("POST", path, MESSAGE, media=PROTOBUF)
    assert code == 201 and made["data"] == {"a": "b"}
    assert secure.ask("POST", path, MESSAGE[:-3], media=PROTOBUF)[0] == 400
    assert secure.ask("GET", f"{path}/p", unix=True)[1]["data"] == {"a": "b"}


def test_deploy_then_export_then_apply(secure: Secure, tmp_path: Path) -> None:
    """The commands find server, certificate and token by the data directory; what is exported is taken back, strictly."""
    data = str(secure.directory)
    done = krun("deploy", str(secure.base / "hello"), "--directory", data, "--env", "A=1")
    assert done.returncode == 0 and done.stdout.startswith("https://hello.default.localhost:"), done
    done = krun("serve", "export", "hello", "--directory", data)
    assert done.returncode == 0, done
    import yaml

    (manifest,) = yaml.safe_load_all(done.stdout)
    assert set(manifest) == {"apiVersion", "kind", "metadata", "spec"}
    assert secure.ask("DELETE", f"{SERVING}/services/hello")[0] == 200
    code, made = secure.ask("POST", f"{SERVING}/services?fieldValidation=Strict", manifest)
    assert code == 201 and made["spec"] == manifest["spec"]
    assert secure.ask("DELETE", f"{SERVING}/services/hello")[0] == 200
    for words, message in (
        (["serve", "export", "absent"], "export default/absent: no such service"),
        (["serve", "exports"], "exports: no such command"),
        (["serve", "export", "--api", f"127.0.0.1:{secure.port + 1 if secure.port < 65535 else 1}"], "is it running?"),
    ):  # fmt: skip
        done = krun(*words, "--directory", data)
        assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1, done
    (tmp_path / "wrong").write_text("x" * 20)
    done = krun("serve", "export", "--directory", data, "--token-file", str(tmp_path / "wrong"))
    assert "it wants a token" in done.stderr


def test_the_kubeconfig_is_that_of_the_server(secure: Secure) -> None:
    done = krun("serve", "--print-kubeconfig", "--directory", str(secure.directory))
    assert json.loads(done.stdout) == secure.kubeconfig
    cluster = secure.kubeconfig["clusters"][0]["cluster"]
    assert cluster["certificate-authority"] == str(secure.base / "leaf.pem")
    assert secure.kubeconfig["users"][0]["user"] == {"token": TOKEN}
    assert stat.S_IMODE(os.stat(secure.directory / "kubeconfig").st_mode) == 0o600
    if shutil.which("kubectl"):
        words = [
            "kubectl",
            "--kubeconfig",
            str(secure.directory / "kubeconfig"),
            "get",
            "namespaces",
            "-o",
            "name",
        ]
        assert "namespace/default" in subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_a_second_server_on_the_directory_ends(secure: Secure) -> None:
    before = (secure.directory / "kubeconfig").read_bytes()
    done = krun(
        "serve", "--directory", str(secure.directory), "--api", "127.0.0.1:0", "--listen", "127.0.0.1:0"
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done
    assert secure.ask("GET", "/healthz")[0] == 200
    assert (secure.directory / "kubeconfig").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--network", "host"], "--network host: none or bridge is wanted"),
        (["--network-pool", "10.0.0.0/24"], "have a meaning with --network bridge only"),
        (["--network", "bridge", "--network-pool", "10.0.0.0/8"], "a network of /20 to /29 is wanted"),
        (["--network", "bridge", "--network-allow", "all"], "host, instances or an IPv4 network is wanted"),
        (["--network", "bridge", "--network-flows", "0"], "--network-flows 0: a number of 1 to"),
        (["--client-connections", "0"], "--client-connections 0: a number of 1 or more is wanted"),
        (["--network", "bridge", "--network-names", "x"], "--network-names x: forward or refuse is wanted"),
        (["--api", "0.0.0.0:0"], "beyond localhost the API needs a token and TLS"),
        (["--api", "8001"], "ADDRESS:PORT is wanted"),
        (["--token-file", "/absent"], "read token /absent: no such file"),
        (["--token-file", "/dev/null"], "fewer than 16 characters"),
        (["--certificate", "/absent"], "load certificate /absent"),
        (["--unix", "/absent/socket"], "/absent/socket"),
        (["--access-log", "/absent/log"], "/absent/log"),
        (["--images", "/dev/null/x"], "/dev/null/x"),
    ],
)  # fmt: skip
def test_options_that_are_wrong(tmp_path: Path, words: list[str], message: str) -> None:
    """One line, and nothing is left running."""
    done = krun("serve", "--directory", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *(
        [] if "--api" in words else ["--api", "127.0.0.1:0"]), *words)  # fmt: skip
    assert done.returncode in (1, 2, 64, 125) and message in done.stderr.replace("No such", "no such"), done
    assert done.stderr.count("\n") == 1, done.stderr
    end = time.monotonic() + 60
    while running(str(tmp_path)):
        assert time.monotonic() < end, "the worker ends"
        time.sleep(0.02)

"""krun conformance --platform over recorded facts, each row on facts of a platform that is wrong; kubeconfigs; platforms that hang,
lie or hang up.
"""

from __future__ import annotations

import base64
import copy
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from krun.conformance import cases as runtime_cases
from krun.conformance import report
from krun.conformance.facts import Facts
from krun.conformance.platform import access, cases, client, drive
from krun.conformance.platform.rows import ROWS
from krun.conformance.rows import PROFILES
from krun.errors import KrunError, UsageError

DATA = Path(__file__).parent / "data" / "conformance" / "platform"
RECORDED = {path.stem: json.loads(path.read_text()) for path in sorted(DATA.glob("*.json"))}
GROUP = runtime_cases.GROUP
MARK = runtime_cases.MARK
Change = Callable[[Facts], None]


def put(case: str, *path: Any) -> Change:
    """A change of the facts: the last of `path` goes where the others lead, below the case."""
    *parents, last, value = path

    def change(facts: Facts) -> None:
        where: Any = facts[case]
        for key in parents:
            where = where[key]
        where[last] = value

    return change


def say(case: str, instruction: str, **found: Any) -> Change:
    return put(case, "answers", instruction, found)


def own(case: str, **found: Any) -> Change:
    return lambda facts: facts[case]["answers"]["self:"].update(found)


def head(case: str, old: str, new: str) -> Change:
    """The request as the program saw it, with another text in it."""

    def change(facts: Facts) -> None:
        assert old in facts[case]["request"]
        facts[case]["request"] = facts[case]["request"].replace(old, new)

    return change


def takes(number: str) -> Change:
    """The platform stores the first thing that the row forbids."""
    index = next(i for i, one in enumerate(cases.FORBIDDEN) if one.row == number)
    stored = cases.FORBIDDEN[index].value
    return put("platform", "refused", f"{number} {index}", {"code": 201, "kind": "Service", "stored": stored})


def mount(case: str, line: str) -> Change:
    def change(facts: Facts) -> None:
        facts[case]["answers"]["read:/proc/self/mountinfo"]["text"] += line + "\n"

    return change


#: Row -> changes; each alone makes the row fail.
WRONG: dict[str, list[Change]] = {
    "RC-02": [put("zero", "seconds", 1.5)],
    "RC-08": [put("zero", "left", 1), put("zero", "began", 0)],
    "RC-09": [
        put("zero", "long", {"status": 502, "same": True}),
        put("zero", "long", {"status": 200, "same": False}),
    ],
    "RC-10": [put("stubborn", "log", '{"do": "serve:"}\n'), lambda facts: facts["stubborn"].pop("log")],
    "RC-11": [
        put("stubborn", "log", "signal 15\n"),
        put("stubborn", "log", "signal 15\n" + "alive 1\n" * 60),
    ],
    "RC-13": [lambda facts: (put("fails", "stderr", "")(facts), put("fails", "conditions", [])(facts))[0]],
    "RC-19": [
        put(
            "message",
            "conditions",
            [{"type": "Ready", "status": "False", "reason": "ExitCode5", "message": "x"}],
        )
    ],
    "RC-20": [own("user", fds=[0, 1, 2, 5])],
    "RC-23": [
        takes("RC-23"),
        put("platform", "refused", {}),
        put("platform", "refused", "RC-23 0", {"code": 500, "kind": "Status"}),
    ],
    "RC-25": [say("user", "stdin:", length=4)],
    "RC-26": [put("user", "log", f"{MARK}-stdout\n")],
    "RC-27": [say("user", "pipe:", errno=38)],
    "RC-28": [say("user", "link:/dev/fd", errno=2)],
    "RC-29": [put("zero", "burst", [200, 503])],
    "RC-31": [put("image", "upgrade", 200)],
    "RC-32": [own("image", env=[])],
    "RC-33": [takes("RC-33")],
    "RC-34": [takes("RC-34")],
    "RC-35": [own("user", env=["PORT=8080"])],
    "RC-37": [head("root", "HTTP/1.1", "HTTP/2.0"), put("root", "request", "")],
    "RC-38": [put("h2c", "request", "GET / HTTP/1.1")],
    "RC-39": [takes("RC-39")],
    "RC-41": [
        head("user", "X-Twice: two\r\n", ""),
        head("user", "caf\u00e9", "caf?"),
        head("user", "value 59", "value"),
    ],
    "RC-43": [head("user", "Host: user.", "Host: other."), head("user", "Host:", "X-Host:")],
    "RC-44": [head("user", "\r\nForwarded: for=", "\r\nForwarded: by=")],
    "RC-45": [
        head("user", "X-Forwarded-For:", "X-F:"),
        head("user", "X-Forwarded-Proto: http", "X-Forwarded-Proto: gopher"),
    ],
    "RC-46": [head("user", "0af7651916cd43dd8448eb211c80319c", "1" * 32)],
    "RC-48": [put("image", "ready", "False")],
    "RC-49": [put("root", "ready", "False")],
    "RC-50": [takes("RC-50")],
    "RC-51": [takes("RC-51")],
    "RC-52": [put("image", "posted", {"containers": [{}]}), put("image", "posted", None)],
    "RC-54": [put("image", "pods", 0)],
    "RC-55": [put("image", "second", {"ready": "False", "pods": 0})],
    "RC-56": [
        put("unready", "conditions", [{"type": "Ready", "status": "True", "reason": None}]),
        put("unready", "conditions", []),
    ],
    "RC-57": [say("user", "stat:/etc/resolv.conf", mode=0o100600)],
    "RC-59": [say("readonly", "make:/")],
    "RC-61": [say("readonly", "write:/config/key x")],
    "RC-63": [own("user", tty=[1, 0, 0]), takes("RC-63")],
    "RC-64": [takes("RC-64")],
    "RC-65": [own("user", env=[])],
    "RC-66": [own("user", env=["K_SERVICE=user"]), takes("RC-66")],
    "RC-69": [own("user", uid=0)],
    "RC-70": [own("image", uid=0)],
    "RC-71": [takes("RC-71")],
    "RC-73": [say("user", "stat:/dev/full", errno=2)],
    "RC-74": [say("user", "make:/tmp", errno=30)],
    "RC-75": [say("user", "make:/var/log", errno=13)],
    "RC-76": [put("user", "syslog", "")],
    "RC-77": [say("user", "read:/etc/hosts", text=""), say("user", "read:/etc/hostname", errno=2)],
    "RC-79": [takes("RC-79")],
    "RC-80": [say("root", "device:1:1"), takes("RC-80")],
    "RC-81": [say("root", f"read:{GROUP}/cpu/cpu.cfs_quota_us", text="-1\n")],
    "RC-82": [say("root", f"write:{GROUP}/memory/memory.limit_in_bytes 9")],
    "RC-84": [say("root", f"read:{GROUP}/memory/memory.limit_in_bytes", errno=2)],
    "RC-86": [say("root", runtime_cases.DOMAIN), takes("RC-86")],
    "RC-88": [mount("user", "1 2 0:1 / /data rw shared:7 - tmpfs tmpfs rw"), takes("RC-88")],
    "RC-89": [say("root", "read:/proc/kcore", text="ELF")],
    "RC-90": [mount("root", "1 2 0:1 / /proc/irq rw - proc proc rw")],
}


def one(number: str, facts: Facts) -> report.Result:
    """The result of one row, in the profile that has it."""
    return [r for p in PROFILES for r in report.judge(facts, p, ROWS) if r.row.number == number][-1]


@pytest.mark.parametrize("name", ["krun", "runc"])
@pytest.mark.parametrize("profile", PROFILES)
def test_recorded_facts_pass(name: str, profile: str) -> None:
    results = report.judge(RECORDED[name], profile, ROWS)
    # h2c by upgrade: RFC 9113, appendix B gives it up, and krun serve does not do it.
    assert [r.row.number for r in results if r.status != report.PASS] == ["RC-31"]
    assert report.exit_code(results) == 0


def test_each_row_has_facts_that_make_it_fail() -> None:
    numbers = [row.number for row in ROWS]
    assert numbers == sorted(set(numbers)) and set(WRONG) == set(numbers)
    assert {one.row for one in cases.FORBIDDEN} <= set(numbers)


@pytest.mark.parametrize(
    "number, index", [(n, i) for n, changes in WRONG.items() for i in range(len(changes))]
)
def test_a_row_fails(number: str, index: int) -> None:
    facts = copy.deepcopy(RECORDED["krun"])
    facts["image"]["upgrade"] = 101
    assert one(number, facts).status == report.PASS
    WRONG[number][index](facts)
    result = one(number, facts)
    assert result.status == report.FAIL and result.seen and "\n" not in result.seen


JUNK = [None, 5, "text", [], {}, [None], {"a": {"b": 1}}, True]


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_facts_of_any_shape_are_verdicts(junk: Any) -> None:
    """What a platform sends becomes facts: no row's check may end the command."""
    for case in RECORDED["krun"]:
        for key in RECORDED["krun"][case]:
            facts = copy.deepcopy(RECORDED["krun"])
            facts[case][key] = junk
            for profile in PROFILES:
                assert all(r.seen for r in report.judge(facts, profile, ROWS))


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_dig(junk: Any) -> None:
    assert client.dig(junk, "items", 0, "metadata") is None
    assert client.dig({"items": [{"x": junk}]}, "items", 0, "x") == junk


@pytest.mark.parametrize("index", range(len(cases.FORBIDDEN)))
def test_a_forbidden_manifest_holds_what_is_forbidden(index: int) -> None:
    found = client.dig(cases.forbidden(index, "i"), "spec", "template", "spec", *cases.FORBIDDEN[index].path)
    assert found == cases.FORBIDDEN[index].value


# ---------------------------------------------------------------------------------------- kubeconfigs


def kubeconfig(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    value = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (path / "kubeconfig").write_text(json.dumps(value))
    return str(path / "kubeconfig")


def test_a_kubeconfig_is_read(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"server": "http://127.0.0.1:8001"}, {"token": "t"})
    assert access.of("", path) == ("127.0.0.1", 8001, None, "t")
    assert access.of("http://[::1]:7", path)[:2] == ("::1", 7)
    assert access.of("http://a", "") == ("a", 80, None, "")
    path = kubeconfig(tmp_path, {"server": "https://a:6443"}, {})
    assert access.of("", path).tls is not None


@pytest.mark.parametrize("url", ["127.0.0.1:8001", "ftp://a", "http://", "http://a:x", "http://a:99999"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(UsageError):
        access.of(url, "")


@pytest.mark.parametrize("text", ["", "[]", "{", "\xff", '{"current-context": "x", "contexts": []}', "a: *b"])
def test_a_kubeconfig_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "k").write_bytes(text.encode("latin-1"))
    with pytest.raises(KrunError, match="read kubeconfig"):
        access.of("", str(tmp_path / "k"))
    with pytest.raises(KrunError, match="No such file"):
        access.of("", str(tmp_path / "none"))


def test_certificates_that_are_none(tmp_path: Path) -> None:
    wrong = {"server": "https://a", "certificate-authority-data": base64.b64encode(b"no PEM").decode()}
    with pytest.raises(KrunError, match="certificates"):
        access.of("", kubeconfig(tmp_path, wrong, {}))


# ---------------------------------------------------------------------------------------- platforms that are wrong


@contextmanager
def platform(serve: Callable[[socket.socket], None]) -> Iterator[client.Client]:
    """A server whose connections `serve` answers, once the head of the request is there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threads: list[threading.Thread] = []
        port = server.getsockname()[1]

        def connection(sock: socket.socket) -> None:
            with sock:
                try:
                    data = b""
                    while b"\r\n\r\n" not in data:
                        if not (part := sock.recv(65536)):
                            return
                        data += part
                    serve(sock)
                except OSError:
                    pass

        def accept() -> None:
            while True:
                try:
                    sock = server.accept()[0]
                except OSError:
                    return
                threads.append(threading.Thread(target=connection, args=(sock,)))
                threads[-1].start()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield client.Client(access.Access("127.0.0.1", port, None, ""), ("127.0.0.1", port))
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for one in threads:
                one.join()


def answers(data: bytes) -> Callable[[socket.socket], None]:
    return lambda sock: sock.sendall(data)


OK = b"HTTP/1.1 200 OK\r\n"
BROKEN = {
    "nothing": b"",
    "half a head": OK + b"Content-Le",
    "half a body": OK + b"Content-Length: 10\r\n\r\n12345",
    "half a chunk": OK + b"Transfer-Encoding: chunked\r\n\r\nff\r\nab",
    "no last chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
    "no number": OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
    "no HTTP": b"SSH-2.0-x\r\n\r\n",
    "a long line": OK + b"X: " + b"x" * 100000 + b"\r\n\r\n",
    "many fields": OK + b"X: y\r\n" * 1000 + b"\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_that_is_none_is_an_error_that_says_so(name: str) -> None:
    with platform(answers(BROKEN[name])) as peer, pytest.raises(KrunError, match="GET /x of"):
        peer.ask("GET", "/x")


def test_a_length_of_5000_digits_is_none() -> None:
    with platform(answers(OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}")) as peer:
        assert peer.ask("GET", "/x") == (200, {})


def test_an_answer_without_an_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MOST", 1 << 16)

    def flood(sock: socket.socket) -> None:
        sock.sendall(OK + b"\r\n")
        while True:
            sock.sendall(b"x" * 65536)

    with platform(flood) as peer, pytest.raises(KrunError, match="more than 65536 bytes"):
        peer.ask("GET", "/x")


def test_a_dribbling_platform_meets_the_deadline_of_the_whole_request() -> None:
    """A time-out for each read would never come: bytes do."""

    def dribble(sock: socket.socket) -> None:
        while True:
            sock.sendall(b"H")
            threading.Event().wait(0.05)

    with platform(dribble) as peer, pytest.raises(KrunError, match="no whole answer in the time given"):
        peer.request("a", "/x", seconds=0.5)


def test_a_platform_that_keeps_the_connection_is_read_to_the_answers_end() -> None:
    for data in (
        OK + b"Content-Length: 2\r\n\r\n{}",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ):
        release = threading.Event()

        def keep(sock: socket.socket, data: bytes = data, release: threading.Event = release) -> None:
            sock.sendall(data)
            release.wait(60)

        with platform(keep) as peer:
            assert peer.ask("GET", "/x") == (200, {})
            release.set()


LIES = [b"5", b"[]", b'"x"', b"{}", b"null", b"not JSON", b"[" * 100000, b'{"items": 5, "status": [], "spec": "x"}',
        b'{"items": [5, {"metadata": 5}, {"metadata": {"name": 7}}], "status": {"conditions": [5, {"type": "Ready"}]}}',
        b'{"items": [{"metadata": {"name": "\\ud800"}}], "status": {"url": "http://\\u20ac", "latestCreatedRevisionName": "a\\r\\nX: b"}}',
        b'{"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "", "message": "\\u001b]0;title\\u0007"}]}, "message": "\\u001b[2J"}']  # fmt: skip


@pytest.mark.parametrize("code", [b"200", b"201", b"500"])
@pytest.mark.parametrize("lie", LIES, ids=range(len(LIES)))
def test_a_platform_that_lies_gets_verdicts(lie: bytes, code: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer of the API and of the services is the same lie: the run ends, and rows fail."""
    for name in ("_READY", "_ZERO", "_LAST", "_POLL", "_LOGGED"):
        monkeypatch.setattr(drive, name, 0.01)
    monkeypatch.setattr(cases, "GRACE", 0)
    body = b"HTTP/1.1 " + code + b" X\r\nContent-Length: %d\r\n\r\n" % len(lie) + lie
    with platform(answers(body)) as peer:
        if code != b"201":
            with pytest.raises(KrunError, match="make the namespace"):
                drive.run(peer, "image")
            return
        facts = drive.run(peer, "image")
    json.dumps(facts)
    results = report.judge(facts, "2019", ROWS)
    assert report.exit_code(results) == 1
    assert [r.row.number for r in results if r.status == report.PASS] == []
    for form in (report.table, report.as_json, report.junit):
        assert "\x1b" not in form(results, "x", "2019")


def test_the_credential_is_the_apis_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL of a service is what the platform says. One with the API's host and port got the token, without TLS."""
    heads: list[bytes] = []

    class Told(socket.socket):
        def sendall(self, data: bytes, flags: int = 0) -> None:  # type: ignore[override]
            heads.append(data)
            super().sendall(data, flags)

    def connected(self: client.Client, address: tuple[str, int]) -> socket.socket:
        sock = Told()
        sock.connect(address)
        return sock

    with platform(answers(OK + b"Content-Length: 2\r\n\r\n{}")) as peer:
        monkeypatch.setattr(client.Client, "_connected", connected)
        api = peer.access._replace(token="secret")
        told = client.Client(api, (api.host, api.port))
        assert told.ask("GET", "/x") == (200, {}) and told.text("/x") == "{}"
        told.request(f"{api.host}:{api.port}", "/x")
    assert [b"secret" in head for head in heads] == [True, True, False]


def test_what_is_shown_of_a_platform_is_a_line() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert report.shown("a\x1b[2J\nb\ud800" + "x" * 5000) == "a?[2J b?" + "x" * 1992 + "..."
    facts = copy.deepcopy(RECORDED[next(iter(RECORDED))])
    facts["image"]["posted"] = {"containers": [{"readinessProbe": {"tcpSocket": deep}}]}
    assert report.judge(facts, "2019", ROWS)


def test_a_platform_that_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it does not listen, and no other process gets its port
        port = taken.getsockname()[1]
        with pytest.raises(KrunError, match="connect to"):
            client.Client(access.Access("127.0.0.1", port, None, "")).ask("GET", "/")


def test_the_ingress_is_asked_for() -> None:
    value = json.dumps({"spec": {"ports": [{"port": 443}, {"port": 80, "nodePort": 31000}]}}).encode()
    with platform(answers(OK + b"\r\n" + value)) as peer:
        assert client.Client(peer.access).ingress() == ("127.0.0.1", 31000)
    with platform(answers(OK + b"\r\n{}")) as peer, pytest.raises(KrunError, match="give --ingress"):
        client.Client(peer.access).ingress()

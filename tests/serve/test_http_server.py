"""The handler server over real sockets: framing, keep-alive, streams, limits, unix sockets, TLS.  The client is the standard library's."""

import asyncio
import http.client
import json
import socket
import ssl
import subprocess
import time

import pytest

from krun.serve.http.server import serve
from krun.serve.http.types import HttpError, Limits, Response


def run(coroutine):
    return asyncio.run(coroutine)


async def echo(request):
    """Tells what was asked; /stream in parts, /fail raises, /big answers 1 MiB, /fields has much in its head."""
    if request.path == "/fail":
        raise RuntimeError("of the handler")
    if request.path == "/teapot":
        raise HttpError(415, "no such type")
    if request.path == "/big":
        return Response(200, [], b"x" * (1 << 20))
    if request.path == "/fields":
        return Response(200, [(b"x-large", b"x" * 8000)])
    if request.path == "/huge":
        return Response(200, [], b"x" * (32 << 20))
    if request.path == "/stream":

        async def parts():
            for number in range(3):
                await asyncio.sleep(0)
                yield b"part %d\n" % number

        return Response(200, [(b"content-type", b"text/plain")], parts())
    if request.path == "/ignore":
        return Response(200, [], b"ignored")
    body = await request.body(1 << 20)
    told = {
        "method": request.method.decode(),
        "path": request.path,
        "query": request.query,
        "headers": [[n.decode(), v.decode("latin-1")] for n, v in request.headers],
        "body": body.decode("latin-1"),
    }
    return Response(200, [(b"content-type", b"application/json")], json.dumps(told).encode())


def with_server(test, *, limits=None, reports=None, **listen):
    """Runs `test(port, server)`, blocking code, in a thread beside a server of echo."""

    async def main():
        server = await serve(
            echo,
            address=None if "unix" in listen else ("127.0.0.1", 0),
            limits=limits,
            report=(reports if reports is not None else []).append,
            **listen,
        )
        try:
            await asyncio.to_thread(test, server.port, server)
        finally:
            await server.close()

    run(main())


def raw(port, data, *, parts=None):
    """Sends bytes, reads up to the end of the connection or half a second of silence behind the first ones."""
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.settimeout(10)
        got = b""
        try:
            for part in parts or [data]:
                s.sendall(part)
            while True:
                more = s.recv(65536)
                if not more:
                    return got, True
                got += more
                s.settimeout(0.5)
        except TimeoutError:
            return got, False
        except ConnectionResetError:
            return got, True


def test_requests_on_one_connection():
    def test(port, server):
        client = http.client.HTTPConnection("127.0.0.1", port)
        for number in range(3):
            client.request("POST", f"/a%20b/{number}?x=1&x=2&y=", body=b"hello", headers={"X-Case": "Kept"})
            answer = client.getresponse()
            told = json.loads(answer.read())
            assert answer.status == 200 and answer.headers["date"]
            assert told["path"] == f"/a b/{number}" and told["query"] == {"x": ["1", "2"], "y": [""]}
            assert told["body"] == "hello" and ["X-Case", "Kept"] in told["headers"]
        client.close()

    with_server(test)


def test_chunked_both_ways():
    def test(port, server):
        client = http.client.HTTPConnection("127.0.0.1", port)
        client.request(
            "PUT",
            "/",
            body=iter([b"one", b"two"]),
            encode_chunked=True,
            headers={"Transfer-Encoding": "chunked"},
        )
        assert json.loads(client.getresponse().read())["body"] == "onetwo"
        client.request("GET", "/stream")
        answer = client.getresponse()
        assert answer.headers["transfer-encoding"] == "chunked"
        assert answer.read() == b"part 0\npart 1\npart 2\n"
        client.close()

    with_server(test)


def test_one_byte_at_a_time():
    def test(port, server):
        message = b'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x="a\\"b"\r\nabc\r\n0\r\nT: 1\r\n\r\n'
        got, ended = raw(port, b"", parts=[message[i : i + 1] for i in range(len(message))])
        assert got.startswith(b"HTTP/1.1 200") and b'"body": "abc"' in got and not ended

    with_server(test)


def test_pipelining_keeps_the_order():
    def test(port, server):
        message = b"".join(
            b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab" % n for n in range(50)
        )
        got, _ = raw(port, message)
        bodies = [
            json.loads(part.split(b"\r\n\r\n", 1)[1])["path"] for part in got.split(b"HTTP/1.1 200 OK")[1:]
        ]
        assert bodies == [f"/{n}" for n in range(50)]

    with_server(test)


def test_http_1_0_and_close():
    def test(port, server):
        got, ended = raw(port, b"GET /stream HTTP/1.0\r\n\r\n")
        assert ended and got.endswith(b"\r\n\r\npart 0\npart 1\npart 2\n") and b"chunked" not in got
        got, ended = raw(port, b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert not ended and b"Connection: keep-alive" in got
        got, ended = raw(port, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert ended and b"Connection: close" in got

    with_server(test)


def test_head_has_the_length_and_no_body():
    def test(port, server):
        got, _ = raw(port, b"HEAD /big HTTP/1.1\r\nHost: a\r\n\r\nGET /ignore HTTP/1.1\r\nHost: a\r\n\r\n")
        first, rest = got.split(b"\r\n\r\n", 1)
        assert b"Content-Length: 1048576" in first and rest.startswith(b"HTTP/1.1 200")

    with_server(test)


def test_expect_continue():
    def test(port, server):
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.settimeout(2)
            s.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            s.sendall(b"ok")
            assert b'"body": "ok"' in s.recv(1000)

    with_server(test)


def test_failures_are_answered_and_reported():
    reports = []

    def test(port, server):
        assert raw(port, b"GET /teapot HTTP/1.1\r\nHost: a\r\n\r\n")[0].startswith(b"HTTP/1.1 415")
        got, ended = raw(port, b"GET /fail HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 500") and got.count(b"HTTP/1.1") == 2 and not ended

    with_server(test, reports=reports)
    assert reports == ["GET failed: RuntimeError: of the handler"]


def test_body_limit():
    def test(port, server):
        got, ended = raw(port, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 413") and ended
        data = (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"10000\r\n"
            + b"x" * 65536
            + b"\r\n"
        )
        got, ended = raw(port, data + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 17)
        assert got.startswith(b"HTTP/1.1 413") and ended

    with_server(test)


def test_slow_head_is_told_and_idle_connection_closed():
    def test(port, server):
        got, ended = raw(port, b"GET / HTTP/1.1\r\nHo")
        assert got.startswith(b"HTTP/1.1 408") and ended
        got, ended = raw(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 200") and ended

    with_server(test, limits=Limits(head_time=0.1, idle_time=0.1))


def test_a_reader_that_stops_gets_no_further_answers():
    """4000 pipelined requests for 1 MiB each: the server must not compute what nobody reads."""

    def test(port, server):
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.settimeout(0.5)
            try:
                s.sendall(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n" * 4000)
            except TimeoutError:
                pass
            assert s.recv(8) == b"HTTP/1.1"
            (connection,) = server.front.endpoint.connections
            assert connection.transport.get_write_buffer_size() < 4 << 20

    with_server(test)


@pytest.mark.parametrize("fields", ["", "Connection: close\r\n"])
def test_a_reader_that_stops_does_not_stay(fields):
    """A close waits for what is not yet written: without a limit such clients would use up the connections."""

    def test(port, server):
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(f"GET /huge HTTP/1.1\r\nHost: a\r\n{fields}\r\n".encode())
            assert s.recv(8) == b"HTTP/1.1"
            end = time.monotonic() + 10
            while server.front.endpoint.connections:
                assert time.monotonic() < end
                time.sleep(0.05)

    with_server(test, limits=Limits(idle_time=0.3))


def test_connections_are_bounded():
    def test(port, server):
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        got, ended = raw(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 503") and ended
        for s in held:
            s.close()

    with_server(test, limits=Limits(connections=2))


def test_unix_socket(tmp_path):
    path = str(tmp_path / "api.sock")

    def test(port, server):
        import os

        assert os.stat(path).st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            s.sendall(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b'"path": "/x"' in s.recv(4096)

    with_server(test, unix=path)
    import os

    assert not os.path.exists(path)
    # What a killed server leaves is replaced; another file is not.
    left = socket.socket(socket.AF_UNIX)
    left.bind(path)
    left.close()
    with_server(test, unix=path)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="is not a socket"):
        with_server(test, unix=str(tmp_path / "file"))


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A self-signed certificate for localhost: (certificate, key)."""
    folder = tmp_path_factory.mktemp("tls")
    names = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-out", names[0], "-keyout", names[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return names


def server_context(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def test_tls(certificate):
    def test(port, server):
        context = ssl.create_default_context(cafile=certificate[0])
        client = http.client.HTTPSConnection("localhost", port, context=context)
        client.request("POST", "/t", body=b"secret")
        assert json.loads(client.getresponse().read())["body"] == "secret"
        client.close()
        # Plain HTTP to the TLS port ends without harm.
        assert raw(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")[0] == b""

    with_server(test, tls=server_context(certificate))


def test_close_lets_requests_end():
    started = []

    async def main():
        async def handler(request):
            started.append(1)
            await asyncio.sleep(0.2)
            return Response(200, [], b"done")

        server = await serve(handler, address=("127.0.0.1", 0))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        idle, _ = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        while not started:
            await asyncio.sleep(0.01)
        await server.close(grace=5)
        got = await reader.read()
        assert got.startswith(b"HTTP/1.1 200") and got.endswith(b"done") and b"Connection: close" in got
        assert await idle.read() == b""
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", server.port)

    run(main())


def test_a_client_that_goes_cancels_its_handler():
    seen = []

    async def main():
        async def handler(request):
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            return Response()

        server = await serve(handler, address=("127.0.0.1", 0))
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(0.05)
        writer.close()
        await asyncio.sleep(0.05)
        await server.close()

    run(main())
    assert seen == ["cancelled"]


def test_connections_are_looked_after_by_the_kernel():
    """A peer that goes without a word, its machine with it, was never noticed."""

    async def test():
        server = await serve(lambda request: None, address=("127.0.0.1", 0))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            while not (found := list(server.front.endpoint.connections)):
                await asyncio.sleep(0.01)
            sock = found[0].transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15
            writer.close()
        finally:
            await server.close()

    asyncio.run(test())

"""tests/perf/serve.py: what it reads from wrk and from /proc."""

import os
import socket
import sys

import pytest
from perf import serve


@pytest.mark.parametrize("text, wanted", [("12.50us", 0.0125), ("1.20ms", 1.2), ("2.00s", 2000.0)])
def test_times_of_wrk(text, wanted):
    assert serve.milliseconds(text) == pytest.approx(wanted)


def test_a_process_is_waited_for_and_measured(tmp_path):
    port = serve.free_port()
    program = "import socket, sys\ns = socket.create_server(('127.0.0.1', int(sys.argv[1])))\nsum(range(10**6))\nwhile 1: s.accept()"
    server = serve.Process(port, [sys.executable, "-c", program, str(port)])
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        assert server.rss() > 1000 and server.cpu() >= 0
    finally:
        server.end()
    with pytest.raises(SystemExit, match="does not listen"):
        serve.Process(port, [sys.executable, "-c", "pass"])
    assert os.listdir(tmp_path) == []

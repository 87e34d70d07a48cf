"""TCP ports for servers that a test starts, ends and starts again.

The kernel gives its ephemeral ports to any connection of any process, so one of those may be taken between its choice and the server's
start, or while the server is down. The ports here lie below that range.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

_LOWEST = 10000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port of the loopback that nobody uses, and that no process gets without asking for it by its number."""
    highest = max(int(_RANGE.read_text().split()[0]) - 1, _LOWEST + 1000)
    while True:
        # Chosen at random: other processes of the tests choose at the same time.
        port = random.randint(_LOWEST, highest)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port

"""The server's descriptors: one connection is one descriptor, and shells and systemd give a process 1024 unless it asks for more.

The worker and what it starts keep the limit that the server was started with: a program that expects 1024 may close every number below.
"""

import resource

#: As LimitNOFILE in the server's unit.
_MOST = 1 << 20


def given() -> "tuple[int, int]":
    """Return RLIMIT_NOFILE, soft and hard: before `widen`, for the worker."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def widen() -> int:
    """Raise the soft RLIMIT_NOFILE as far as the hard one allows. Returns it. Idempotent."""
    soft, hard = given()
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(_MOST, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return _MOST if soft == resource.RLIM_INFINITY else soft


def restore(limit: "tuple[int, int] | list[int]") -> None:
    """Set what `given` has told, in the worker."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[0], limit[1]))

"""The server's descriptors: one connection is one descriptor, and shells and systemd give a process 1024 unless it asks for more.

The worker and what it starts keep the limit that the server was started with: a program that expects 1024 may close every number below.
"""

import resource

#: As LimitNOFILE in the server's unit.
_MOST = 1 << 20

_given: "tuple[int, int] | None" = None


def widen() -> int:
    """Raise the soft RLIMIT_NOFILE as far as the hard one allows. Returns it. Idempotent."""
    global _given
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _given is None:
        _given = soft, hard
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(_MOST, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return _MOST if soft == resource.RLIM_INFINITY else soft


def given() -> "tuple[int, int]":
    """Return RLIMIT_NOFILE as it was before `widen`, soft and hard: for the worker."""
    return _given or resource.getrlimit(resource.RLIMIT_NOFILE)


def restore(limit: "tuple[int, int] | list[int]") -> None:
    """Set what `given` has told, in the worker."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[0], limit[1]))

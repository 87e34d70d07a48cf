"""How a platform is reached: the addresses and credentials of a kubeconfig.

Source: Kubernetes, "Organizing Cluster Access Using kubeconfig Files" (client-go tools/clientcmd/api/v1). Users with a
bearer token, a client certificate or nothing are known; programs that make tokens (exec, auth-provider) are not run.
"""

import base64
import os
import ssl
import tempfile
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from krun.errors import KrunError, UsageError


class Access(NamedTuple):
    """Fields: host and port of the API; tls, its context or None for plain HTTP; token, "" for none."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    token: str


def of(url: str, kubeconfig: str) -> Access:
    """Return how to reach a platform. Arguments: url of its API, "" for the one of the kubeconfig's current context; path of a
    kubeconfig, "" for none. Raises UsageError for a URL that is none, KrunError for a kubeconfig that cannot be read.
    """
    cluster, user = _chosen(kubeconfig) if kubeconfig else ({}, {})
    parts = urlsplit(url or str(cluster.get("server", "")))
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https") or not parts.hostname or not port:
        raise UsageError(f"--platform {url!r}: a URL such as http://127.0.0.1:8001 is wanted")
    tls = None
    if parts.scheme == "https":
        tls = _context(kubeconfig, cluster, user)
    return Access(parts.hostname, port, tls, str(user.get("token", "")))


def _chosen(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return cluster and user of the current context."""
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            whole = yaml.safe_load(file)
        context = _named(whole, "contexts", "context", whole["current-context"])
        cluster = _named(whole, "clusters", "cluster", context["cluster"])
        return cluster, _named(whole, "users", "user", context["user"])
    except OSError as error:
        raise KrunError(f"read kubeconfig {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise KrunError(f"read kubeconfig {path}: {type(error).__name__}: {error}") from None


def _named(whole: dict[str, Any], listed: str, key: str, name: str) -> dict[str, Any]:
    for one in whole[listed]:
        if one["name"] == name:
            return dict(one.get(key) or {})
    raise KeyError(f"{listed} has no {name}")


def _context(path: str, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    base = os.path.dirname(os.path.abspath(path))
    try:
        authority = _text(cluster, "certificate-authority", base)
        context = ssl.create_default_context(cadata=authority or None)
        certificate, key = _text(user, "client-certificate", base), _text(user, "client-key", base)
        if certificate and key:
            # ssl reads a chain from a file only.
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(f"{certificate}\n{key}\n")
                file.flush()
                context.load_cert_chain(file.name)
    except (OSError, ValueError) as error:
        raise KrunError(f"read the certificates of kubeconfig {path}: {error}") from None
    return context


def _text(part: dict[str, Any], name: str, base: str) -> str:
    """Return the PEM text of a field that names a file, or of its sister that holds it (base64)."""
    if part.get(f"{name}-data"):
        return base64.b64decode(part[f"{name}-data"]).decode()
    if not part.get(name):
        return ""
    with open(os.path.join(base, part[name]), encoding="utf-8") as file:
        return file.read()

"""Requests of krun's own commands to a running server: where it is, by which certificate and token it is asked."""

import http.client
import json
import os
import ssl
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from krun.errors import KrunError, UsageError

DEFAULT = ("127.0.0.1", 8001)


class Server(NamedTuple):
    """A server's API. Fields: address; certificate, the PEM file that TLS trusts, "" for no TLS; token, "" for none."""

    address: tuple[str, int]
    certificate: str = ""
    token: str = ""

    @property
    def name(self) -> str:
        host, port = self.address
        return f"{host}:{port}"


def find(directory: str, api: "tuple[str, int] | None", token_file: "str | None") -> Server:
    """Return the server of a data directory as its kubeconfig describes it.

    Arguments: api, the address that the user gave, or None: a kubeconfig of another address does not count then; token_file, the
    user's, or None. Raises KrunError.
    """
    known = _of_kubeconfig(os.path.join(directory, "kubeconfig"))
    if api is not None and (known is None or known.address != api):
        known = Server(api)
    elif known is None:
        known = Server(DEFAULT)
    return known._replace(token=read_token(token_file)) if token_file else known


def _of_kubeconfig(path: str) -> "Server | None":
    """What a kubeconfig of `krun serve` says; None where there is none, or none that this user may read."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        cluster, user = value["clusters"][0]["cluster"], value["users"][0]["user"]
        url = urlsplit(cluster["server"])
        certificate = cluster["certificate-authority"] if url.scheme == "https" else ""
        return Server((url.hostname or "", url.port or 0), certificate, user.get("token", ""))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise KrunError(f"read {path}: {error}; remove it, or give --api") from None


def read_token(path: str) -> str:
    """Return the bearer token of a file. Raises KrunError."""
    try:
        with open(path, encoding="utf-8") as stream:
            token = stream.read().strip()
    except (OSError, ValueError) as error:
        raise KrunError(f"read token {path}: {getattr(error, 'strerror', None) or error}") from error
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"read token {path}: it must be one line of ASCII without a space")
    return token


def ask(server: Server, method: str, path: str, body: Any = None) -> Any:
    """Returns the decoded answer. Errors: KrunError, no server is there or it refuses."""
    headers = {"content-type": "application/json"}
    if server.token:
        headers["authorization"] = f"Bearer {server.token}"
    connection = _connection(server)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        value = json.loads(answer.read())
    except ssl.SSLError as error:
        raise KrunError(f"ask krun serve on {server.name}: TLS: {error.reason or error}") from error
    except (OSError, http.client.HTTPException) as error:
        cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise KrunError(f"ask krun serve on {server.name}: {cause}; is it running?") from error
    except ValueError as error:
        raise KrunError(f"ask krun serve on {server.name}: the answer is no JSON") from error
    finally:
        connection.close()
    if answer.status == 401:
        raise KrunError(f"ask krun serve on {server.name}: it wants a token; give --token-file")
    if answer.status >= 400:
        raise KrunError(f"{method} {path}: {value.get('message', answer.status)}")
    return value


def _connection(server: Server) -> http.client.HTTPConnection:
    if not server.certificate:
        return http.client.HTTPConnection(*server.address, timeout=30)
    try:
        context = ssl.create_default_context(cafile=server.certificate)
        # The server's own certificate is what is trusted, whoever has signed it: as kubectl does it (Go, x509.Verify).
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    except (OSError, ssl.SSLError) as error:
        raise KrunError(f"read certificate {server.certificate}: {error}") from None
    return http.client.HTTPSConnection(*server.address, timeout=30, context=context)

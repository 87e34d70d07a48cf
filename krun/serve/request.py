"""Requests of krun's own commands to a running server."""

import http.client
import json
from typing import Any

from krun.errors import KrunError


def ask(address: tuple[str, int], method: str, path: str, body: Any = None, token: str = "") -> Any:
    """Returns the decoded answer. Errors: KrunError, no server is there or it refuses."""
    connection = http.client.HTTPConnection(address[0], address[1], timeout=30)
    headers = {"content-type": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        value = json.loads(answer.read())
    except OSError as error:
        raise KrunError(
            f"ask krun serve on {address[0]}:{address[1]}: {error.strerror or error}; is it running?"
        ) from error
    except ValueError as error:
        raise KrunError(f"ask krun serve on {address[0]}:{address[1]}: the answer is no JSON") from error
    finally:
        connection.close()
    if answer.status >= 400:
        raise KrunError(f"{method} {path}: {value.get('message', answer.status)}")
    return value

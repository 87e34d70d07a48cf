"""Errors of the API as Kubernetes' Status objects: code, reason, message, details.

Source: k8s.io/apimachinery pkg/api/errors/errors.go. Clients branch on `reason` and `details` (kn: NotFound,
AlreadyExists, Conflict), people read `message`.
"""

from typing import Any

from krun.errors import KrunError
from krun.serve.model.kinds import Kind


class ApiError(KrunError):
    """A request was refused. `code` is the HTTP status, `reason` Kubernetes' word, `details` its object."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        # KrunError makes one line of it; a FieldError's details stand on a line of their own, and clients match that.
        self.text = message
        self.code = code
        self.reason = reason
        self.details = details

    def status(self) -> dict[str, Any]:
        """Returns the Status object (meta/v1)."""
        out: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.text,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details is not None:
            out["details"] = self.details
        return out


def _details(kind: Kind, name: str) -> dict[str, Any]:
    out = {"name": name, "kind": kind.plural}
    if kind.group:
        out["group"] = kind.group
    return out


def not_found(kind: Kind, name: str) -> ApiError:
    """The object is not there (404)."""
    return ApiError(404, "NotFound", f'{kind.resource} "{name}" not found', _details(kind, name))


def no_path() -> ApiError:
    """Nothing is served at the path (404): the words that client-go prints for an unknown resource."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: Kind, name: str) -> ApiError:
    """An object of the name is there (409)."""
    return ApiError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', _details(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> ApiError:
    """The object has changed since it was read (409)."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}',
        _details(kind, name),
    )


def bad_request(message: str) -> ApiError:
    """The request is not understood, or admission refused it (400)."""
    return ApiError(400, "BadRequest", message)


def denied(text: str) -> ApiError:
    """Knative's validating webhook refused the object (400): the words that its clients match."""
    return bad_request(
        'admission webhook "validation.webhook.serving.knative.dev" denied the request: validation failed: '
        + text
    )


def invalid(kind: Kind, name: str, causes: list[tuple[str, str]]) -> ApiError:
    """The object breaks the schema (422). `causes` is a list of (path, text)."""
    texts = [f"{path}: {text}" for path, text in causes]
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = _details(kind, name)
    details["kind"] = kind.kind
    details["causes"] = [
        {"field": path, "message": text, "reason": "FieldValueInvalid"} for path, text in causes
    ]
    group = f".{kind.group}" if kind.group else ""
    return ApiError(422, "Invalid", f'{kind.kind}{group} "{name}" is invalid: {listed}', details)


def expired(oldest: int) -> ApiError:
    """A watch asks for events that are no longer kept (410)."""
    return ApiError(
        410, "Expired", f"too old resource version: the oldest event that is kept is {oldest}; list again"
    )


def not_allowed(method: str) -> ApiError:
    """The kind does not serve the verb (405)."""
    return ApiError(
        405, "MethodNotAllowed", f"the server does not allow the method {method} on this resource"
    )


def forbidden(kind: Kind, name: str, why: str) -> ApiError:
    """The request is understood and refused (403)."""
    return ApiError(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', _details(kind, name))


def unsupported(media: str) -> ApiError:
    """The body's media type is not served (415)."""
    return ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {media}")


def unsupported_dry_run(found: list[str]) -> ApiError:
    """DeleteOptions with another dryRun than All (422)."""
    text = f'DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: {found!r}: supported values: "All"'
    return ApiError(422, "Invalid", text)


def too_large(message: str) -> ApiError:
    """The request, or what it would make, has no room (413)."""
    return ApiError(413, "RequestEntityTooLarge", message)


def success(kind: Kind, name: str, uid: str) -> dict[str, Any]:
    """Returns the Status of a finished delete."""
    details = _details(kind, name)
    details["uid"] = uid
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }

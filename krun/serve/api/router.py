"""From a request to its answer: who asks, what the path names, errors as Status objects.

A browser must not be able to talk to an API without a token on localhost: a page of any site may send requests there. The
two doors are closed: a request with an Origin of another site is refused, and so is a Host that is a name of somebody else
(DNS rebinding).
"""

import hmac
import ipaddress
from collections.abc import AsyncIterator, Callable
from typing import Any

from krun.errors import KrunError
from krun.serve.api import body, discovery, openapi, podlog
from krun.serve.api.remote import SUBRESOURCES, Remote
from krun.serve.api.rest import Rest, Target, reply
from krun.serve.http.types import ClientGone, HttpError, Request, Response
from krun.serve.model import kinds, status
from krun.serve.model.options import Options
from krun.serve.store.store import Store

Object = dict[str, Any]
#: Reads the log of a pod: (namespace, pod, container, and podlog.options). Errors: KrunError, there is no previous one.
LogReader = Callable[..., AsyncIterator[bytes]]
#: A page or a metric beside the API: path -> handler.
Page = Callable[[Request], Response]
_USER = "krun"
_OPEN = ("/healthz", "/livez", "/readyz")


class Api:
    """The API as a handler of the HTTP server.

    Arguments: options, Knative's configuration of the moment; logs, the reader of pods' logs; remote, exec and the like;
    token, the bearer token that every request must carry, "" for none; hosts, names beside localhost and addresses that
    a Host field may carry; pages, what else the listener serves; report, takes a line about each failure of the server itself.
    """

    def __init__(
        self,
        store: Store,
        options: Callable[[], Options],
        *,
        logs: LogReader | None = None,
        remote: Remote | None = None,
        token: str = "",
        hosts: tuple[str, ...] = (),
        pages: dict[str, Page] | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.rest = Rest(store, options)
        self.store = store
        self.logs = logs
        self.remote = remote
        self.token = token.encode()
        self.hosts = ("localhost", *hosts)
        self.pages = pages or {}
        self.report = report

    async def handle(self, request: Request) -> Response:
        """Answers a request; every error is an answer, too."""
        try:
            return await self._route(request)
        except status.ApiError as error:
            return reply(error.status(), error.code)
        except HttpError as error:
            return reply(status.ApiError(error.status, "BadRequest", error.reason).status(), error.status)
        except ClientGone:
            raise
        except KrunError as error:
            self.report(f"answer {request.method!r} {request.target[:200]!r}: {error.message}")
            return reply(status.ApiError(500, "InternalError", error.message).status(), 500)

    async def _route(self, request: Request) -> Response:
        path = request.path
        if path in _OPEN:
            return Response.text(200, "ok")
        self._authenticate(request)
        if path in self.pages:
            if request.method not in (b"GET", b"HEAD"):
                raise status.not_allowed(request.method.decode("latin-1"))
            return self.pages[path](request)
        parts = [part for part in path.split("/") if part]
        if not parts:
            return self._get(request, {"paths": ["/api", "/apis", "/openapi/v3", "/version", *_OPEN]})
        if parts[0] in ("api", "apis"):
            return await self._api(request, parts)
        if parts[0] == "openapi" and parts[1:2] == ["v3"]:
            if len(parts) == 2:
                return self._get(request, openapi.index())
            return self._get(request, openapi.document("/".join(parts[2:])))
        if parts == ["version"]:
            return self._get(request, discovery.version())
        raise status.no_path()

    def _authenticate(self, request: Request) -> None:
        """Refuses who may not ask. Errors: ApiError 401, 403."""
        if self.token:
            header = request.header(b"authorization") or b""
            scheme, _, given = header.partition(b" ")
            if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self.token):
                return
            raise status.ApiError(401, "Unauthorized", "Unauthorized")
        host = (request.header(b"host") or b"localhost").decode("latin-1")
        if not self._own_name(host):
            raise status.ApiError(403, "Forbidden", f"Host {host[:64]!r} is no name of this server")
        origin = request.header(b"origin")
        if origin is not None and origin.decode("latin-1").partition("://")[2] != host:
            raise status.ApiError(403, "Forbidden", "requests of other sites' pages are refused")

    def _own_name(self, host: str) -> bool:
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name.lower() in self.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _get(self, request: Request, value: Any) -> Response:
        if request.method not in (b"GET", b"HEAD"):
            raise status.not_allowed(request.method.decode("latin-1"))
        if value is None:
            raise status.no_path()
        return reply(value)

    async def _api(self, request: Request, parts: list[str]) -> Response:
        if parts == ["api"]:
            host = (request.header(b"host") or b"localhost").decode("latin-1")
            return self._get(request, discovery.api_versions(host))
        if parts == ["apis"]:
            return self._get(request, discovery.group_list())
        if parts[0] == "apis" and len(parts) == 2:
            return self._get(request, discovery.group(parts[1]))
        if parts[0] == "api":
            group, version, rest = "", parts[1], parts[2:]
        else:
            group, version, rest = parts[1], parts[2], parts[3:]
        if not rest:
            return self._get(request, discovery.resources(group, version))
        if (group, rest) == ("authorization.k8s.io", ["selfsubjectaccessreviews"]):
            return await self._review(request)
        target = _target(group, version, rest)
        if target.kind is kinds.POD and target.sub == "log":
            return self._log(request, target)
        if target.kind is kinds.POD and target.sub in SUBRESOURCES:
            if self.remote is None:
                raise status.no_path()
            return self.remote.answer(request, target)
        return await self.rest.handle(request, target, _USER)

    async def _review(self, request: Request) -> Response:
        """SelfSubjectAccessReview: whoever may ask may do everything."""
        if request.method != b"POST":
            raise status.not_allowed(request.method.decode("latin-1"))
        media = body.media_type(request.header(b"content-type"))
        value, _ = body.decode(await request.body(body.LIMIT), media)
        if not isinstance(value, dict):
            raise status.bad_request("the body is no SelfSubjectAccessReview")
        value = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", **value}
        return reply({**value, "status": {"allowed": True, "reason": "krun serve has one user"}}, 201)

    def _log(self, request: Request, target: Target) -> Response:
        if request.method != b"GET":
            raise status.not_allowed(request.method.decode("latin-1"))
        pod = self.store.need(kinds.POD, target.namespace or "", target.name)
        wanted = podlog.container_of(pod, request.query.get("container", [""])[-1])
        if self.logs is None:
            raise status.no_path()
        options = podlog.options(request.query)
        try:
            lines = self.logs(target.namespace, target.name, wanted, **options)
        except KrunError:
            raise podlog.no_previous(wanted, target.name) from None
        return Response(200, [(b"content-type", b"text/plain")], lines)


def _target(group: str, version: str, rest: list[str]) -> Target:
    """Returns what the parts behind the group's version name. Errors: ApiError 404."""
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2 and not (group == "" and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    kind = kinds.find(group, version, rest[0])
    if kind is None or len(rest) > 3 or kind.namespaced == (namespace is None) and len(rest) > 1:
        raise status.no_path()
    if not kind.namespaced and namespace is not None:
        raise status.no_path()
    name, sub = rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""
    if sub not in ("", "status", "log", *SUBRESOURCES):
        raise status.no_path()
    return Target(kind, version, namespace, name, sub)

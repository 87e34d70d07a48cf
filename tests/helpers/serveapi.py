"""Requests to the API of krun serve without sockets."""

import asyncio
import json

from krun.serve.api.router import Api
from krun.serve.http.types import Request
from krun.serve.model.options import Options
from krun.serve.store.store import Store

SERVING = "/apis/serving.knative.dev/v1/namespaces/default"
ALPHA = "/apis/serving.knative.dev/v1alpha1/namespaces/default"


class Client:
    """An API with its own store; a call returns (status code, decoded body) and keeps the answer's fields."""

    def __init__(self, options=None, **rest):
        self.store = Store(":memory:")
        self.options = options or Options()
        self.api = Api(self.store, lambda: self.options, **rest)
        self.headers = []

    def call(self, method, path, body=b"", media="application/json", **fields):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        parts = [data] if data else []

        async def receive():
            return parts.pop(0) if parts else b""

        headers = [(b"host", b"localhost")]
        headers += [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
        if data:
            headers += [(b"content-type", media.encode()), (b"content-length", str(len(data)).encode())]

        async def run():
            answer = await self.api.handle(Request(method.encode(), path.encode(), headers, receive=receive))
            if isinstance(answer.body, bytes):
                return answer, answer.body
            return answer, b"".join([part async for part in answer.body])

        answer, text = asyncio.run(run())
        self.headers = answer.headers
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode()

    def warnings(self):
        return [value.decode() for name, value in self.headers if name == b"warning"]


def ksvc(name="hello", image="reg.example/hello", container=None, template=None, **spec):
    """A Service as a client writes it."""
    inner = {"spec": {"containers": [{"image": image, **(container or {})}]}, **(template or {})}
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"template": inner, **spec},
    }

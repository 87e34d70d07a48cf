"""Answers beside the API that are no objects: metrics."""

from krun.serve.http.types import Response


def metrics(text: str) -> Response:
    """Returns the metrics in Prometheus' text format."""
    return Response(200, [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")], text.encode())

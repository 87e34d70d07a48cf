"""An HTTP server with nothing but Python's library. PORT and K_REVISION come from the platform, TARGET from the deployment."""

import http.server
import os
import signal
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        text = (
            f"Hello {os.environ.get('TARGET', 'World')}, from Python, {os.environ.get('K_REVISION', '-')}\n"
        )
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


# The first process of a container gets no signal that it does not handle, so SIGTERM needs a handler.
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
http.server.ThreadingHTTPServer(("", int(os.environ.get("PORT", "8080"))), Handler).serve_forever()

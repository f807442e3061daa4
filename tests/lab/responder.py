# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Program ``serve`` of pods on nodes with real agents: an HTTP server that says who it is. ``serve TEXT [PORT]``; standard library only."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8080


def handler(text: str) -> type[BaseHTTPRequestHandler]:
    """Return a handler that answers every GET with ``text``."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"{text}\n".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Answer


def main(argv: list[str]) -> None:
    """Serve until the process is ended."""
    ThreadingHTTPServer(("0.0.0.0", int(argv[1]) if len(argv) > 1 else PORT), handler(argv[0])).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])

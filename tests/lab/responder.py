# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Program ``serve`` of pods on nodes with real agents: it says who it is, over HTTP and by UDP. Standard library only.

``serve TEXT [PORT ...]``
"""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, BaseServer, UDPServer

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


def echo(text: str) -> type[BaseRequestHandler]:
    """Return a handler that answers every datagram with ``text``."""

    class Answer(BaseRequestHandler):
        def handle(self) -> None:
            self.request[1].sendto(text.encode(), self.client_address)

    return Answer


def main(argv: list[str]) -> None:
    """Serve until the process is ended."""
    places = [("0.0.0.0", int(port)) for port in argv[1:] or (PORT,)]
    servers: list[BaseServer] = [ThreadingHTTPServer(place, handler(argv[0])) for place in places]
    servers += [UDPServer(place, echo(argv[0])) for place in places]
    threads = [threading.Thread(target=server.serve_forever) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1:])

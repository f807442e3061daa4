# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Servers on loopback that record who a request says it is from: one with TLS, one without, and two proxies, alike, that lead to either."""

from __future__ import annotations

import json
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.testing.made_certificates import Made, make

NAMES: Final = ("127.0.0.1", "localhost", "api.test")
_WHO: Final = ("authorization", "impersonate-")
_VERSION: Final = json.dumps({"major": "1", "minor": "32", "gitVersion": "v1.32.0"}).encode()


@dataclass(frozen=True)
class Recorded:
    """What a server learned of the sender of a request.

    :param headers: those that say who it is, with names in lower case, sorted.
    :param server_name: that the client named in the handshake; "" for none.
    :param certificate: common name of the client's certificate; "" for none.
    """

    headers: tuple[tuple[str, str], ...]
    server_name: str = ""
    certificate: str = ""


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Clients that hang up in the handshake are what many examples are about."""


class Recorders:
    """The servers. ``recorded`` and ``proxied`` are emptied by `clear`."""

    def __init__(self, folder: Path) -> None:
        self.server_ca, self.client_ca = make("server CA", ca=True), make("client CA", ca=True)
        self.client: Made = make("me", issuer=self.client_ca)
        certificate = make("server", issuer=self.server_ca, names=NAMES)
        (folder / "server.pem").write_bytes(certificate.pem + certificate.key)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "server.pem")
        tls.load_verify_locations(cadata=self.client_ca.pem.decode())
        tls.verify_mode = ssl.CERT_OPTIONAL
        tls.sni_callback = lambda connection, name, _: setattr(connection, "named", name)
        self.recorded: list[Recorded] = []
        self.proxied: list[str] = []
        self._servers = [_Quiet(("127.0.0.1", 0), handler) for handler in (self._recorder(), self._proxy()) * 2]
        self.port, self.proxy_tls_port, self.plain_port, self.proxy_port = (int(server.server_address[1]) for server in self._servers)
        for server in self._servers[:2]:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)

    def clear(self) -> None:
        self.recorded, self.proxied = [], []

    @contextmanager
    def serving(self) -> Iterator[Recorders]:
        threads = [threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}) for server in self._servers]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            for server, thread in zip(self._servers, threads, strict=True):
                server.shutdown()
                thread.join()
                server.socket.close()

    def _recorder(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Recorder(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                sent = ((name.lower(), _utf8(value)) for name, value in self.headers.items())
                who = tuple(sorted(header for header in sent if header[0].startswith(_WHO)))
                tls = self.connection if isinstance(self.connection, ssl.SSLSocket) else None
                shown = tls.getpeercert(binary_form=True) if tls else None
                owner.recorded.append(Recorded(who, getattr(tls, "named", None) or "", _common_name(shown) if shown else ""))
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(_VERSION)))
                self.end_headers()
                self.wfile.write(_VERSION)

        return Recorder

    def _proxy(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Proxy(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_CONNECT(self) -> None:
                owner.proxied.append(_utf8(self.headers.get("proxy-authorization", "")))
                host, _, port = self.path.rpartition(":")
                with socket.create_connection((host, int(port))) as there:
                    self.send_response(200)
                    self.end_headers()
                    ends = {self.connection: there, there: self.connection}
                    while True:
                        for end in select.select([*ends], [], [])[0]:
                            more = True
                            while more:
                                if not (part := end.recv(65536)):
                                    return
                                ends[end].sendall(part)
                                more = isinstance(end, ssl.SSLSocket) and bool(end.pending())

        return Proxy


def _utf8(value: str) -> str:
    """Return a header's value as the UTF-8 that it is; http.server reads Latin-1."""
    return value.encode("latin-1").decode()


def _common_name(der: bytes) -> str:
    return str(x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)

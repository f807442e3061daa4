# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Ports as one who scans them meets them: closed, silent, hanging up, answering without TLS, or with the certificate of another."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.testing.made_certificates import make

STATES: Final = ("closed", "full", "silent", "hangs up", "no TLS", "another certificate")
OTHER: Final = make("another server", names=["x.example.com"])


def free_port(*hosts: str) -> int:
    """A port that is free at all of these addresses just now."""
    with socket.create_server((hosts[0], 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def met_port(state: str, host: str, port: int, folder: Path) -> Iterator[list[int]]:
    """A port in one of STATES, and a list that grows with each connection that it accepts."""
    accepted: list[int] = []
    if state == "closed":
        yield accepted
        return
    with socket.create_server((host, port), backlog=0 if state == "full" else 64) as listener:
        if state == "full":  # the kernel drops what does not fit into the backlog, as a firewall does
            with socket.create_connection((host, port)):
                yield accepted
            return
        ended, held = threading.Event(), list[socket.socket]()
        (folder / "other.pem").write_bytes(OTHER.pem + OTHER.key)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "other.pem")
        listener.settimeout(0.02)

        def serve() -> None:
            while not ended.is_set():
                with suppress(OSError):
                    connection, _ = listener.accept()
                    accepted.append(1)
                    connection.settimeout(1)
                    if state == "silent":
                        held.append(connection)
                        continue
                    with connection:
                        if state == "no TLS":
                            connection.sendall(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
                        elif state == "another certificate":
                            with tls.wrap_socket(connection, server_side=True) as channel:
                                channel.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield accepted
        finally:
            ended.set()
            thread.join()
            for connection in held:
                connection.close()

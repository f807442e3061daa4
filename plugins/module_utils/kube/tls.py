# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""TLS handshake with a port inside a pod, over the port-forward of ``streams.py``: which certificate a server shows, and which it accepts.

It works wherever the API server is reached: no route to the pod is needed. TLS 1.2 on purpose: a server then judges the client certificate
before the handshake ends; with 1.3 its refusal comes after it, or never (RFC 8446, 4.4.3).
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..base.errors import ServerRefused
from .credentials import Credentials, private_folder
from .errors import Request, Server
from .streams import FORWARD_PROTOCOL, channel_frames, connected_stream

_NO_ALERT: Final = "the connection ended without an answer"


@dataclass(frozen=True, kw_only=True)
class Handshake:
    """Result of one handshake. ``accepted``: the server took the client certificate."""

    accepted: bool
    served: bytes = b""  # the server's certificate, DER; b"" when the handshake did not get that far
    reason: str = ""  # OpenSSL's word for the refusal, e.g. "TLSV1_ALERT_UNKNOWN_CA"


@contextmanager
def client_context(certificate: bytes, key: bytes) -> Iterator[ssl.SSLContext]:
    """Return a context that shows this certificate (PEM) and accepts any server certificate: the caller checks that by its signature.

    OpenSSL's binding takes keys from files only: they are in a private folder, in memory where possible, until the context has loaded them.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    folder = Path(private_folder())
    file = folder / "client.pem"
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(certificate + key)
        context.load_cert_chain(file)
    finally:
        file.unlink(missing_ok=True)
        folder.rmdir()
    yield context


def run_handshake(
    credentials: Credentials, server: Server, path: str, port: int, context: ssl.SSLContext, *, connect: float, timeout: float
) -> Handshake:
    """Do one handshake with ``port`` of a pod's own localhost.

    :param path: the pod's ``…/portforward``.
    :param connect: seconds for the connection and its handshake.
    :raises ServerRefused: when nothing listens there, or the listener ends the connection without an answer in TLS.
    :raises Unreachable: when it does not end within ``timeout`` seconds.
    """
    request = Request.of("GET", path)
    deadline = time.monotonic() + timeout
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_side=False)
    with connected_stream(credentials, server, request, f"{path}?ports={port}", (FORWARD_PROTOCOL,), connect, timeout) as stream:
        data = _data(channel_frames(stream, server, request, deadline, timeout), server, request, port)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                stream.send_binary(b"\x00" + outgoing.read())
                received = next(data, None)
                if received is None:
                    raise ServerRefused(f"Port {port} of the pod: {_NO_ALERT} ({request}).", cluster=server.cluster) from None
                incoming.write(received)
                continue
            except ssl.SSLError as error:
                return Handshake(accepted=False, served=_served(tls), reason=error.reason or type(error).__name__)
            return Handshake(accepted=True, served=_served(tls))


def _data(frames: Iterator[tuple[int, bytes]], server: Server, request: Request, port: int) -> Iterator[bytes]:
    """Yield the data of the server; the first frame of each channel only repeats the port."""
    opened: set[int] = set()
    for channel, data in frames:
        if channel not in opened:
            opened.add(channel)
        elif channel == 1:
            raise ServerRefused(f"Port {port} of the pod refused a forwarded connection ({request}).", cluster=server.cluster)
        else:
            yield data


def _served(tls: ssl.SSLObject) -> bytes:
    try:
        return tls.getpeercert(binary_form=True) or b""
    except ValueError:  # the handshake did not get that far
        return b""

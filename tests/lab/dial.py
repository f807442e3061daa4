# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Program ``dial`` of pods on nodes with real agents: which of many flows arrive, all tried at once. Standard library only.

``dial SECONDS FLOWS``: FLOWS is JSON, a list of [protocol, address, port], protocol "TCP", "UDP" or "ICMP" (an echo request). Prints a list
of as many words: "answered", "refused" (the other end has nothing there, so the packet came to it), "silent" within SECONDS, or an error's.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ANSWERED, REFUSED, SILENT = "answered", "refused", "silent"
ARRIVED = frozenset((ANSWERED, REFUSED))
"""Words of flows that came to their destination and back."""

_ECHO_REPLY, _ECHO_REQUEST = 0, 8
_IDENTIFIER = os.getpid() & 0xFFFF


def dial(protocol: str, address: str, port: int, seconds: float) -> str:
    """Return what comes of one flow."""
    try:
        if protocol == "TCP":
            socket.create_connection((address, port), timeout=seconds).close()
            return ANSWERED
        return _send(protocol, address, port, seconds)
    except ConnectionRefusedError:
        return REFUSED
    except TimeoutError:
        return SILENT
    except OSError as error:
        return error.strerror or type(error).__name__


def _send(protocol: str, address: str, port: int, seconds: float) -> str:
    kind, number = (socket.SOCK_DGRAM, 0) if protocol == "UDP" else (socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with socket.socket(socket.AF_INET, kind, number) as opened:
        opened.settimeout(seconds)
        opened.connect((address, port if protocol == "UDP" else 0))
        opened.send(b"?" if protocol == "UDP" else _echo(_ECHO_REQUEST))
        end = time.monotonic() + seconds
        # A raw socket is given all ICMP of the other end, which may be asking too, and until it is connected that of all others.
        while protocol != "UDP" and not is_echo_reply(opened.recv(128), address):
            opened.settimeout(max(end - time.monotonic(), 0.001))
        if protocol == "UDP":
            opened.recv(64)
    return ANSWERED


def _echo(kind: int) -> bytes:
    """RFC 792, with an identifier of this process' own and a checksum over three words."""
    total = (kind << 8) + _IDENTIFIER + 1
    return struct.pack("!BBHHH", kind, 0, ~(total + (total >> 16)) & 0xFFFF, _IDENTIFIER, 1)


def is_echo_reply(packet: bytes, address: str) -> bool:
    """Return whether an IPv4 packet is the answer to an echo request of this process to ``address``."""
    start = (packet[0] & 0x0F) * 4
    return packet[12:16] == socket.inet_aton(address) and packet[start : start + 8] == _echo(_ECHO_REPLY)


def main(argv: list[str]) -> None:
    seconds, flows = float(argv[0]), json.loads(argv[1])
    with ThreadPoolExecutor(max(len(flows), 1)) as threads:
        print(json.dumps(list(threads.map(lambda flow: dial(flow[0], flow[1], flow[2], seconds), flows))))


if __name__ == "__main__":
    main(sys.argv[1:])

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which CAs a reader trusts and which certificate it shows, from its own ``troubleshoot`` command; pure.

``kvstoremesh-dbg troubleshoot`` and ``cilium troubleshoot clustermesh`` read the files of their pod, list their certificates by serial
number, and connect with them (Cilium 1.15 to 1.20, pkg/kvstore/etcd_debug.go). Since the configuration and the CA of a peer stand in one
Secret, a CA that is seen means that the configuration's new comment is there too, on which the reader connects anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_CLUSTER: Final = re.compile(r'^Cluster "([^"\n]{1,63})":$', re.MULTILINE)
_CONNECTED: Final = "✅ Etcd connection successfully established"
_ROOTS: Final = "TLS Root CA certificates:"
_CLIENTS: Final = "TLS client certificates:"
_ETCD: Final = "Etcd client:"
_SERIAL: Final = re.compile(r"^\s*- Serial number:\s+([0-9a-fA-F:]{1,128})\s*$", re.MULTILINE)
_LIMIT: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What one reader says of one peer. Serial numbers are hexadecimal without leading zeros; "" and empty: it did not say."""

    roots: frozenset[str] = frozenset()
    client: str = ""
    connected: bool = False


def parse_shown(output: str) -> dict[str, Shown]:
    """By the peer's Cilium name."""
    parts = _CLUSTER.split(output[:_LIMIT])
    return {name: _shown(section) for name, section in zip(parts[1::2], parts[2::2], strict=True)}


def _shown(section: str) -> Shown:
    before, _sep, etcd = section.rpartition(_ETCD)
    head, _sep, clients = (before or section).partition(_CLIENTS)
    roots = head.partition(_ROOTS)[2]
    shown = _SERIAL.search(clients)
    return Shown(
        roots=frozenset(_plain(serial) for serial in _SERIAL.findall(roots)),
        client=_plain(shown[1]) if shown else "",
        connected=_CONNECTED in etcd,
    )


def _plain(serial: str) -> str:
    return serial.replace(":", "").lower().lstrip("0")

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The CAs that a reader trusts and the certificate that it presents, from its own ``troubleshoot`` command; pure.

``kvstoremesh-dbg troubleshoot`` and ``cilium troubleshoot clustermesh`` read the files of their pod, list their certificates by
serial number, and connect with them (Cilium 1.15 to 1.20, pkg/kvstore/etcd_debug.go). Configuration and CA of a peer are in one
Secret: where the new CA has arrived, the new comment of the configuration has as well, on which the reader reconnects.
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
class ReaderTrust:
    """Trust of one reader in one peer, as it reports it.

    Serial numbers are hexadecimal without leading zeros; "" and an empty set mean that it did not report them.
    """

    roots: frozenset[str] = frozenset()
    client: str = ""
    connected: bool = False


def parse_reader_trust(output: str) -> dict[str, ReaderTrust]:
    """Return the trust of a reader, by the peer's Cilium name."""
    parts = _CLUSTER.split(output[:_LIMIT])
    return {name: _parse_section(section) for name, section in zip(parts[1::2], parts[2::2], strict=True)}


def _parse_section(section: str) -> ReaderTrust:
    before, _sep, etcd = section.rpartition(_ETCD)
    head, _sep, clients = (before or section).partition(_CLIENTS)
    roots = head.partition(_ROOTS)[2]
    shown = _SERIAL.search(clients)
    return ReaderTrust(
        roots=frozenset(_normalised(serial) for serial in _SERIAL.findall(roots)),
        client=_normalised(shown[1]) if shown else "",
        connected=_CONNECTED in etcd,
    )


def _normalised(serial: str) -> str:
    return serial.replace(":", "").lower().lstrip("0")

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Heartbeat that clustermesh-apiserver writes, and the controller's proof by reading it over one link."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

HEARTBEAT: Final = "cilium/.heartbeat"  # pkg/kvstore/kvstore.go, HeartbeatPath


class ProofVerdict(StrEnum):
    """Verdict about a new connection over a link."""

    PROVEN = "proven"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class ControllerProof:
    """Proof of one link by the controller. ``heartbeat``: aware UTC, None if it was not read or is no time."""

    cluster: str  # inventory name
    peer: str  # inventory name
    verdict: ProofVerdict
    heartbeat: datetime | None = None
    note: str = ""  # why it is not proven
    detail: str = ""  # what the note withholds from the owner of the cluster (etcd/client.py, EtcdError)


def parse_heartbeat(value: bytes | None) -> datetime | None:
    """Parse the time that the peer wrote (RFC 3339); None if it is not valid, since it is foreign data."""
    try:
        found = datetime.fromisoformat((value or b"")[:64].decode("ascii"))
        return found.astimezone(UTC) if found.tzinfo else None
    except (ValueError, OverflowError):  # the second: year 1 or 9999 with an offset that leads out of the calendar
        return None

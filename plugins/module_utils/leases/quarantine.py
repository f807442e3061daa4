# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Quarantine of the name and id of a cluster that left, and the text of a lease for messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from ..findings.wording import show
from .registry import Lease

QUARANTINE: Final = timedelta(hours=24)
"""Time for which a released id is not assigned again: clients of the old cluster's identities and addresses are gone by then."""
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def lease_text(lease: Lease) -> str:
    """Format a lease for messages, e.g. ``name "c1", id 1``."""
    return f"name {show(lease.name)}, id {lease.id}"


def quarantine_end(lease: Lease, quarantine: timedelta = QUARANTINE) -> datetime:
    """Return the end of the quarantine, when a released id may be assigned again. A time that is not valid counts as none."""
    since = time_of(lease)
    try:
        return since + quarantine if since is not None else _NEVER
    except OverflowError:
        return _NEVER


def time_of(lease: Lease) -> datetime | None:
    """Return the time of the lease's change of state, aware; None if it is not valid."""
    try:
        return datetime.strptime(lease.since, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parsers of what agents and kvstoremesh report about their remote clusters: JSON (api/v1/models/remote_cluster.go) and metrics.

It repeats data that a peer published, so it is not trusted: wrong types count as absent, text becomes one short line.

Of the Prometheus text of kvstoremesh four lines of one family are wanted, whose label values are cluster names; for that a pattern does,
and prometheus_client stays out of the requirements. Names: pkg/clustermesh/common/metrics.go with subsystem "kvstoremesh". Until 1.18
there is also a label ``source_cluster``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from ..base.json_fields import items, mapping, number, text
from ..base.json_reader import NotJson, load_json
from ..base.redact import one_line
from ..mesh.facts.cluster import LinkFacts

_SAMPLE: Final = re.compile(
    r"^cilium_kvstoremesh_remote_cluster_(readiness_status|failures|last_failure_ts)\{([^}\n]{0,1000})\}[ \t]+(\S{1,40})", re.MULTILINE
)
_TARGET: Final = re.compile(r'(?:^|,)target_cluster="([a-z0-9-]{1,63})"')

KINDS = ("nodes", "endpoints", "identities", "services")
ARRIVED: Final = {"nodes": "num-nodes", "services": "num-shared-services", "endpoints": "num-endpoints", "identities": "num-identities"}
"""What a reader counts of a peer -> its key; a count of zero is left out (api/v1/models/remote_cluster.go)."""
_MOST: Final = 2**63 - 1  # Go's int64; an API server takes no larger integer
NEVER = "0001-01-01"  # Go's zero time


def kvstoremesh_statuses(output: str) -> dict[str, Mapping[str, Any]] | None:
    """Parse ``kvstoremesh-dbg status -o json`` or ``GET /v1/cluster`` to statuses by the peer's Cilium name; None if it is no list."""
    document = _document(output)
    if document is None:
        return {}  # no remote cluster: Go writes null for an empty list
    return _by_name(items({"clusters": document}, "clusters")) if isinstance(document, list) else None


def agent_statuses(output: str) -> dict[str, Mapping[str, Any]] | None:
    """Parse ``cilium status -o json`` to statuses by the peer's Cilium name; None if it is no object, {} if the agent has no mesh."""
    document = _document(output)
    return _by_name(items(document, "cluster-mesh", "clusters")) if isinstance(document, dict) else None


def link_from_status(link: LinkFacts, status: Mapping[str, Any] | None) -> LinkFacts:
    """Return ``link`` (cluster, peer and reader) completed with the reader's report; None: the reader does not list the peer."""
    if status is None:
        return link
    config = mapping(status, "config")
    return replace(
        link,
        known=True,
        ready=status.get("ready") is True,
        connected=status.get("connected") is True,
        status=one_line(status.get("status"), 300),
        # go-swagger leaves false out; without "config" at all nothing is known yet
        config_required=config.get("required") is True if config else None,
        config_retrieved=config.get("retrieved") is True if config else None,
        cluster_id=number(config, "cluster-id") or None,
        synced=_synced(mapping(status, "synced")),
        failures=max(0, number(status, "num-failures")),
        last_failure=_last_failure(text(status, "last-failure")),
        arrived=_arrived(status),
    )


def _arrived(status: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of all kinds; {} if one of them is no count, since then none is known."""
    counts = {kind: number(status, key, absent=0 if key not in status else -1) for kind, key in ARRIVED.items()}
    return counts if all(0 <= count <= _MOST for count in counts.values()) else {}


def _synced(found: Mapping[str, Any]) -> dict[str, bool]:
    """Return which kinds are synchronised: the four of every release, and further ones.

    False is not written, so an absent one is not synced.
    """
    return dict.fromkeys(KINDS, False) | {one_line(k, 40): v is True for k, v in list(found.items())[:20]} if found else {}


def _last_failure(value: str) -> str:
    return "" if value.startswith(NEVER) else one_line(value, 40)


def _by_name(statuses: list[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {text(s, "name"): s for s in statuses if text(s, "name")}


def _document(output: str) -> Any:
    try:
        return load_json(output)
    except NotJson:
        return ""


@dataclass(frozen=True, kw_only=True)
class PeerMetrics:
    """Gauges of one remote cluster. ``last_failure`` is ISO 8601, "" if there was none."""

    ready: bool = False
    failures: int = 0
    last_failure: str = ""


def parse_metrics(text: str) -> dict[str, PeerMetrics]:
    """Parse the gauges by the remote cluster's Cilium name; {} if the text holds none of them."""
    gauges: dict[str, dict[str, float]] = {}
    for kind, labels, value in _SAMPLE.findall(text):
        target = _TARGET.search(labels)
        if target:
            gauges.setdefault(target[1], {})[kind] = _number(value)
    return {
        name: PeerMetrics(
            ready=found.get("readiness_status") == 1.0,
            failures=int(found.get("failures", 0)),
            last_failure=_time(found.get("last_failure_ts", 0)),
        )
        for name, found in gauges.items()
    }


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and abs(value) < 1e15 else 0.0


def _time(seconds: float) -> str:
    """Format seconds as ISO 8601; "" for never, which Go's zero time gives as a large negative number."""
    if not 0 < seconds < 253402300800:
        return ""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Gauges of kvstoremesh per remote cluster, parsed from its Prometheus text.

Four lines of one family are wanted, whose label values are cluster names; for that a pattern does, and prometheus_client stays out of the
requirements. Names: pkg/clustermesh/common/metrics.go with subsystem "kvstoremesh". Until 1.18 there is also a label ``source_cluster``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_SAMPLE: Final = re.compile(
    r"^cilium_kvstoremesh_remote_cluster_(readiness_status|failures|last_failure_ts)\{([^}\n]{0,1000})\}[ \t]+(\S{1,40})", re.MULTILINE
)
_TARGET: Final = re.compile(r'(?:^|,)target_cluster="([a-z0-9-]{1,63})"')


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

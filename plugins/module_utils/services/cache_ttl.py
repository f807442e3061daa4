# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Time for which a cluster keeps the backends of a lost peer: ``clustermesh-cache-ttl``, since 1.19. Pure.

In Cilium 1.19.5 (pkg/clustermesh/common/remote_cluster.go, cacheTTLChecker; RevokeCache in pkg/clustermesh, pkg/clustermesh/operator
and pkg/clustermesh/kvstoremesh) a timer begins when an established connection is given up, and ends with the next connection that
reads the peer's configuration. When it expires, the peer's services and service exports are dropped; nodes, identities and addresses
stay. 0 means never. No timer runs for a peer that was not reached since the start.

The process that holds the connection to the peer has the timer. With kvstoremesh that is kvstoremesh, which reads the time from its
argument (chart 1.19, clustermesh-apiserver/deployment.yaml); the agents' own setting, from cilium-config, is about their connection
to that kvstoremesh.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ..findings.wording import config_evidence, show, where
from ..mesh.facts import ClusterFacts
from ..mesh.versions import cilium_version, holds

KEY: Final = "clustermesh-cache-ttl"
NOTICED_AFTER: Final = 100
"""Seconds after which kvstoremesh gives up the connection to a peer that does not answer (measured with 1.20.2; refused: at most 25)."""

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|µs|μs|ms|s|m|h)")


@dataclass(frozen=True, kw_only=True)
class CacheTtl:
    """Cache TTL of one cluster.

    ``seconds``: 0 means never, None that the text is not a duration. ``supported``: the version has the setting. ``evidence``: where it
    was read.
    """

    supported: bool
    seconds: float | None
    evidence: str


def cache_ttl(facts: ClusterFacts) -> CacheTtl:
    """Return the cache TTL in force for links to peers."""
    supported = holds("cache_ttl", cilium_version(facts))
    text, evidence = _given(facts)
    return CacheTtl(supported=supported, seconds=go_duration(text) if text else 0.0, evidence=evidence)


def go_duration(text: str) -> float | None:
    """Return the seconds of a duration such as ``1m30s`` (90.0), as Go's time.ParseDuration reads it; None if it is not valid."""
    text = text.removeprefix("+")
    if text == "0":
        return 0.0
    parts = list(_PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        return None
    return sum(float(part[1]) * _UNITS[part[2]] for part in parts)


def _given(facts: ClusterFacts) -> tuple[str, str]:
    if facts.runs_kvstoremesh and facts.apiserver is not None:
        for argument in facts.apiserver.arguments.get("kvstoremesh", ()):
            name, equals, value = argument.partition("=")
            if name.lstrip("-") == KEY and equals:
                return value, f"{where(facts, 'Deployment', 'clustermesh-apiserver')}, container kvstoremesh: --{KEY}={show(value)}"
    return (facts.config or {}).get(KEY, ""), config_evidence(facts, KEY)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How long a cluster keeps the backends of a peer that it has lost: ``clustermesh-cache-ttl``, since 1.19. Pure.

What it does (cilium 1.19.5, pkg/clustermesh/common/remote_cluster.go, cacheTTLChecker; RevokeCache in pkg/clustermesh,
pkg/clustermesh/operator and pkg/clustermesh/kvstoremesh): a timer begins when a connection that stood is given up, and ends with the next
connection that reads the peer's configuration. When it runs out, the peer's services and service exports are dropped; nodes, identities and
addresses stay. 0 means never. Of a peer that was not reached since the start no timer runs.

Who counts it: whoever holds the connection to the peer. With kvstoremesh that is kvstoremesh, which takes it from its argument
(chart 1.19, clustermesh-apiserver/deployment.yaml); the agents' own one, from cilium-config, is about their connection to that kvstoremesh.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ..checks.wording import config_evidence, show, where
from ..facts import ClusterFacts
from ..versions import cilium_version, holds

KEY: Final = "clustermesh-cache-ttl"
NOTICED_AFTER: Final = 100
"""Seconds that kvstoremesh takes to give up the connection to a peer that fell silent (measured with 1.20.2; refused: 25 at most)."""

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|µs|μs|ms|s|m|h)")


@dataclass(frozen=True, kw_only=True)
class CacheTtl:
    """``seconds``: 0 never; None: what stands there is no duration. ``supported``: the version has it. ``evidence``: where it was read."""

    supported: bool
    seconds: float | None
    evidence: str


def cache_ttl(facts: ClusterFacts) -> CacheTtl:
    """What is in force for links to peers."""
    supported = holds("cache_ttl", cilium_version(facts))
    text, evidence = _given(facts)
    return CacheTtl(supported=supported, seconds=go_duration(text) if text else 0.0, evidence=evidence)


def go_duration(text: str) -> float | None:
    """``1m30s`` -> 90.0, as Go's time.ParseDuration reads it; None for what is no duration, or a negative one."""
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

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about a failover contract: limits of Cilium, backends that are lost now, and promises that cannot be kept. Pure.

There is one finding per matter and GlobalService, whatever the number of clusters: there may be hundreds of services.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..base.tables import count
from ..findings.finding import Finding
from ..findings.wording import config_evidence, helm, item_finding, lines, listed, restart, show, where
from ..items.labels import matches
from ..items.models import Failover, GlobalService
from ..items.scene import Scene
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.traffic import Key
from ..mesh.versions.cilium_config import setting
from ..mesh.versions.minors import cilium_version, holds
from .endpoints import EndpointCounts, endpoint_counts
from .failover import decide, lost_peers, may_have_exported, ready_of
from .findings import key_text

KEY: Final = "clustermesh-cache-ttl"
NOTICED_AFTER: Final = 100
"""Seconds after which kvstoremesh gives up the connection to a peer that does not answer (measured with 1.20.2; refused: at most 25)."""

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|µs|μs|ms|s|m|h)")

SHORTEST_TTL: Final = 60
"""Seconds. A shorter ``clustermesh-cache-ttl`` would drop the backends of healthy peers whenever clustermesh-apiserver is rolled out."""

SHORTEST_DETECTION: Final = 20
"""Seconds. An observation of two clusters, one of them dead, takes 4 s (measured in the lab), of more clusters longer; two have to fit."""


def failover_findings(service: GlobalService, scene: Scene) -> list[Finding]:
    """Return the findings about one GlobalService; [] without a contract."""
    if service.failover is None:
        return []
    keys = _keys(service, scene)
    found = [*_cache_ttl(service, service.failover, scene), *_detection(service, service.failover)]
    for key in keys:
        found += [*_lost_peer_findings(service, key, scene), *_threshold_findings(service, service.failover, key, scene)]
    return found


def _keys(service: GlobalService, scene: Scene) -> list[Key]:
    selector = service.selector
    if selector.name:
        return [(selector.namespace, selector.name)]
    return sorted(
        {
            key
            for host in scene.hosts
            if host in service.targets
            for key, counts in scene.traffic[host].services.items()
            if key[0] == selector.namespace and matches(selector.labels, counts.labels)
        }
    )


# What Cilium does with a peer that it has lost


def _cache_ttl(service: GlobalService, contract: Failover, scene: Scene) -> Iterable[Finding]:
    if len(service.targets) < 2:
        return
    found = {host: cache_ttl(scene.facts[host]) for host in scene.hosts if host in service.targets}
    limit = max(contract.detect_within, SHORTEST_TTL)
    slow = [host for host, ttl in found.items() if ttl.supported and (not ttl.seconds or ttl.seconds > limit)]
    old = [host for host, ttl in found.items() if not ttl.supported]
    if slow:
        yield item_finding(
            service.ref,
            "CM-GS-30",
            slow,
            summary=f"{listed(slow)}: when a peer dies, Cilium keeps its backends {_kept_for(found[host] for host in slow)}; GlobalService "
            f"{service.name} asks for {contract.detect_within} s",
            evidence="; ".join(f"{host}: {found[host].evidence}" for host in slow),
            fix=lines(*(_set_ttl(scene, host, limit) for host in slow)),
        )
    if old:
        yield item_finding(
            service.ref,
            "CM-GS-31",
            old,
            summary=f"{listed(old)}: before 1.19 Cilium keeps the backends of a dead peer for ever; there is no {KEY}",
            evidence="While a peer cannot be reached, the contract gives these clusters affinity Local: a client is sent to that peer's "
            "backends only where no local one is ready.",
            fix="Upgrade to 1.19 or newer, or take a cluster that stays dead out of the mesh (playbook disconnect): its backends go with "
            "the link.",
        )


def _set_ttl(scene: Scene, host: str, seconds: int) -> str:
    facts = scene.facts[host]
    return f"In {host}: {helm(facts, f'clustermesh.cacheTTL={seconds}s')}; {restart(facts)}"


def _kept_for(ttls: Iterable[CacheTtl]) -> str:
    times = [ttl.seconds for ttl in ttls]
    longest = max((time for time in times if time), default=0)
    words = ["for ever"] if any(not time for time in times) else []
    words += [f"for {longest:g} s"] if longest else []
    return " or ".join(words)


def _detection(service: GlobalService, contract: Failover) -> Iterable[Finding]:
    if contract.detect_within < SHORTEST_DETECTION:
        yield item_finding(
            service.ref,
            "CM-GS-33",
            (),
            summary=f"GlobalService {service.name}: detectWithin is {contract.detect_within} s, which is shorter than this mesh can "
            "promise",
            evidence="Only an observation proves that a peer is dead. An observation takes 4 s or more, and two have to fit. "
            "Without the right to "
            f"exec in the pods, there is no proof but kvstoremesh's word, which is up to {NOTICED_AFTER} s old.",
            fix=f"Set detectWithin to {SHORTEST_DETECTION}s or more.",
        )


# What is lost just now


def _lost_peer_findings(service: GlobalService, key: Key, scene: Scene) -> Iterable[Finding]:
    ready = ready_of(service, key, scene)
    lost = {host: lost_peers(service, key, scene, host) for host in ready}
    for peer in scene.mesh.clusters:
        holders = [host for host in ready if peer in lost[host]]
        if not holders:
            continue
        state = "is dead" if peer in scene.dead else f"cannot be reached by {listed(holders)}"
        bare = [host for host in holders if not ready[host]]
        yield item_finding(
            service.ref,
            "CM-GS-32",
            [peer],
            summary=f"Service {key_text(key)}: {peer} {state}, and with it {_backends(key, scene, peer)}; "
            + _affected_clients(holders, bare),
            evidence=f"{_reasons(scene, peer, holders)}{_ttl_words(scene, holders)}",
            fix=lines(
                "Find out what fails between them (playbook status), and repair it.",
                f"If {peer} stays dead, take it out, and its backends go with the link: playbook disconnect with --limit '!{peer}'.",
            ),
        )


def _reasons(scene: Scene, peer: str, holders: Sequence[str]) -> str:
    errors = [f"{host} -> {peer}: {scene.link_errors[(host, peer)]}. " for host in holders if (host, peer) in scene.link_errors]
    return "".join(errors)


def _backends(key: Key, scene: Scene, peer: str) -> str:
    known = scene.traffic.get(peer)
    if known is None:
        return "an unknown number of backends"
    return count(endpoint_counts(known, key).ready, "backend")


def _affected_clients(holders: Sequence[str], bare: Sequence[str]) -> str:
    if not bare:
        return f"clients of {listed(holders)} are kept to backends there"
    return f"clients of {listed(bare)} may still be sent to them, as no backend is ready there"


def _ttl_words(scene: Scene, holders: Sequence[str]) -> str:
    """Return when Cilium itself will drop the backends."""
    words = []
    for host in holders:
        ttl = cache_ttl(scene.facts[host])
        kept = f"{ttl.seconds:g} s after it gave the link up" if ttl.supported and ttl.seconds else "never"
        words.append(f"{host}: {kept}")
    return f"Cilium drops its backends by itself: {'; '.join(words)}."


# What the numbers of the contract come to


def _threshold_findings(service: GlobalService, contract: Failover, key: Key, scene: Scene) -> Iterable[Finding]:
    """Yield the findings about the numbers of the contract, for targets that have more than a stub of the Service."""
    choices = {host: choice for host, choice in decide(service, key, scene).items() if may_have_exported(service, key, scene, host)}
    counts = {host: endpoint_counts(scene.traffic[host], key) for host in choices}
    back = contract.min_local_ready + contract.hysteresis
    over = [host for host, choice in choices.items() if choice.failed_over]
    if over:
        yield item_finding(
            service.ref,
            "CM-GS-36",
            over,
            summary=f"Service {key_text(key)}: {listed(over)} {'has' if len(over) == 1 else 'have'} failed over",
            evidence="; ".join(f"{host}: {choices[host].reason}" for host in over),
            fix=f"Nothing has to be done if that is intended. A cluster is back with {back} ready endpoints of its own, at the next run.",
        )
    stuck = {host: counts[host] for host in over if contract.min_local_ready <= counts[host].total < back}
    if stuck:
        yield _stuck(service, contract, key, stuck)
    if counts and all(number.ready < contract.min_local_ready for number in counts.values()):
        yield item_finding(
            service.ref,
            "CM-GS-35",
            tuple(counts),
            summary=f"Service {key_text(key)}: no cluster has {contract.min_local_ready} ready endpoints; all clusters use the "
            "backends of all",
            evidence="; ".join(f"{host}: {number.ready} of {number.total} endpoints ready" for host, number in counts.items()),
            fix="Check the pods behind the Service, in any of these clusters.",
        )


def _stuck(service: GlobalService, contract: Failover, key: Key, stuck: Mapping[str, EndpointCounts]) -> Finding:
    back = contract.min_local_ready + contract.hysteresis
    fewest = min(number.total for number in stuck.values())
    return item_finding(
        service.ref,
        "CM-GS-34",
        tuple(stuck),
        summary=f"Service {key_text(key)}: {listed(stuck)} cannot come back from failover with its present number of pods",
        evidence="; ".join(f"{host}: {number.ready} of {number.total} endpoints ready, back at {back}" for host, number in stuck.items()),
        fix=f"Run at least {back} pods there, or set hysteresis to {fewest - contract.min_local_ready} at most.",
    )


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
    return setting(facts, KEY), config_evidence(facts, KEY)

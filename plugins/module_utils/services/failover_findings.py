# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What has to be said about a failover contract: what Cilium does not do by itself, what is lost just now, what cannot be kept. Pure.

One finding per matter and GlobalService, whatever the number of clusters: there may be hundreds of services.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ..checks.wording import helm, lines, listed, restart
from ..columns import count
from ..findings import Finding, Severity
from ..items.facts import Key
from ..items.labels import matches
from ..items.models import Failover, GlobalService
from ..items.scene import Scene
from .cache_ttl import KEY, NOTICED_AFTER, CacheTtl, cache_ttl
from .endpoints import Counts, counts
from .failover import decide, lost_peers, may_have_exported, ready_of
from .findings import service_finding, shown

SHORTEST_TTL: Final = 60
"""Seconds. A shorter ``clustermesh-cache-ttl`` would drop the backends of healthy peers whenever clustermesh-apiserver is rolled out."""

SHORTEST_DETECTION: Final = 20
"""Seconds. A look at two clusters, one of them dead, takes 4 s (measured in the lab), at a larger mesh more; two looks have to fit."""


def failover_findings(service: GlobalService, scene: Scene) -> list[Finding]:
    """Findings about one GlobalService; [] without a contract."""
    if service.failover is None:
        return []
    keys = _keys(service, scene)
    found = [*_cache_ttl(service, service.failover, scene), *_detection(service, service.failover)]
    for key in keys:
        found += [*_lost(service, key, scene), *_numbers(service, service.failover, key, scene)]
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
            for key, there in scene.traffic[host].services.items()
            if key[0] == selector.namespace and matches(selector.labels, there.labels)
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
        yield service_finding(
            service,
            "CM-GS-30",
            Severity.REMEDIABLE,
            slow,
            summary=f"{listed(slow)}: when a peer dies, Cilium keeps its backends {_how_long(found[host] for host in slow)}; GlobalService "
            f"{service.name} asks for {contract.detect_within} s",
            evidence="; ".join(f"{host}: {found[host].evidence}" for host in slow),
            fix=lines(*(_set_ttl(scene, host, limit) for host in slow)),
        )
    if old:
        yield service_finding(
            service,
            "CM-GS-31",
            Severity.ADVISORY,
            old,
            summary=f"{listed(old)}: before 1.19 Cilium keeps the backends of a dead peer for ever; there is no {KEY}",
            evidence="While a peer cannot be heard, the contract gives these clusters affinity Local: a client is sent to that peer's "
            "backends only where no local one is ready.",
            fix="Upgrade to 1.19 or newer, or take a cluster that stays dead out of the mesh (playbook disconnect): its backends go with "
            "the link.",
        )


def _set_ttl(scene: Scene, host: str, seconds: int) -> str:
    facts = scene.facts[host]
    return f"In {host}: {helm(facts, f'clustermesh.cacheTTL={seconds}s')}; {restart(facts)}"


def _how_long(ttls: Iterable[CacheTtl]) -> str:
    times = [ttl.seconds for ttl in ttls]
    longest = max((time for time in times if time), default=0)
    words = ["for ever"] if any(not time for time in times) else []
    words += [f"for {longest:g} s"] if longest else []
    return " or ".join(words)


def _detection(service: GlobalService, contract: Failover) -> Iterable[Finding]:
    if contract.detect_within < SHORTEST_DETECTION:
        yield service_finding(
            service,
            "CM-GS-33",
            Severity.ADVISORY,
            (),
            summary=f"GlobalService {service.name}: detectWithin is {contract.detect_within} s, shorter than can be promised",
            evidence="A dead peer is proven dead at the moment of a look. A look takes 4 s or more, and two have to fit. Where nobody may "
            f"exec in the pods, there is no proof but kvstoremesh's word, which is up to {NOTICED_AFTER} s old.",
            fix=f"Set detectWithin to {SHORTEST_DETECTION}s or more.",
        )


# What is lost just now


def _lost(service: GlobalService, key: Key, scene: Scene) -> Iterable[Finding]:
    ready = ready_of(service, key, scene)
    lost = {host: lost_peers(service, key, scene, host) for host in ready}
    for peer in scene.mesh.clusters:
        holders = [host for host in ready if peer in lost[host]]
        if not holders:
            continue
        state = "is dead" if peer in scene.dead else f"cannot be heard by {listed(holders)}"
        bare = [host for host in holders if not ready[host]]
        yield service_finding(
            service,
            "CM-GS-32",
            Severity.REMEDIABLE,
            [peer],
            summary=f"Service {shown(key)}: {peer} {state}, and with it {_backends(key, scene, peer)}; {_who(holders, bare)}",
            evidence=f"{_reasons(scene, peer, holders)}{_ttl_words(scene, holders)}",
            fix=lines(
                "See what fails between them (playbook status), and repair it.",
                f"If {peer} stays dead, take it out, and its backends go with the link: playbook disconnect with --limit '!{peer}'.",
            ),
        )


def _reasons(scene: Scene, peer: str, holders: Sequence[str]) -> str:
    told = [f"{host} -> {peer}: {scene.link_errors[(host, peer)]}. " for host in holders if (host, peer) in scene.link_errors]
    return "".join(told)


def _backends(key: Key, scene: Scene, peer: str) -> str:
    known = scene.traffic.get(peer)
    if known is None:
        return "an unknown number of backends"
    return count(counts(known, key).ready, "backend")


def _who(holders: Sequence[str], bare: Sequence[str]) -> str:
    if not bare:
        return f"clients of {listed(holders)} are kept to backends there"
    return f"clients of {listed(bare)} may still be sent to them, as no backend is ready there"


def _ttl_words(scene: Scene, holders: Sequence[str]) -> str:
    """When Cilium itself will drop them."""
    words = []
    for host in holders:
        ttl = cache_ttl(scene.facts[host])
        kept = f"{ttl.seconds:g} s after it gave the link up" if ttl.supported and ttl.seconds else "never"
        words.append(f"{host}: {kept}")
    return f"Cilium drops its backends by itself: {'; '.join(words)}."


# What the numbers of the contract come to


def _numbers(service: GlobalService, contract: Failover, key: Key, scene: Scene) -> Iterable[Finding]:
    """About targets that have the Service, and not only a stub of it."""
    choices = {host: choice for host, choice in decide(service, key, scene).items() if may_have_exported(service, key, scene, host)}
    there = {host: counts(scene.traffic[host], key) for host in choices}
    back = contract.min_local_ready + contract.hysteresis
    over = [host for host, choice in choices.items() if choice.failed_over]
    if over:
        yield service_finding(
            service,
            "CM-GS-36",
            Severity.ADVISORY,
            over,
            summary=f"Service {shown(key)}: {listed(over)} {'has' if len(over) == 1 else 'have'} failed over",
            evidence="; ".join(f"{host}: {choices[host].reason}" for host in over),
            fix=f"Nothing, if that is meant. A cluster is back with {back} ready endpoints of its own, at the next run.",
        )
    stuck = {host: there[host] for host in over if contract.min_local_ready <= there[host].total < back}
    if stuck:
        yield _stuck(service, contract, key, stuck)
    if there and all(number.ready < contract.min_local_ready for number in there.values()):
        yield service_finding(
            service,
            "CM-GS-35",
            Severity.REMEDIABLE,
            tuple(there),
            summary=f"Service {shown(key)}: no cluster has {contract.min_local_ready} ready endpoints; all share what there is",
            evidence="; ".join(f"{host}: {number.ready} of {number.total} endpoints ready" for host, number in there.items()),
            fix="Look at the pods behind the Service, in any of these clusters.",
        )


def _stuck(service: GlobalService, contract: Failover, key: Key, stuck: Mapping[str, Counts]) -> Finding:
    back = contract.min_local_ready + contract.hysteresis
    fewest = min(number.total for number in stuck.values())
    return service_finding(
        service,
        "CM-GS-34",
        Severity.ADVISORY,
        tuple(stuck),
        summary=f"Service {shown(key)}: {listed(stuck)} cannot come back from failover with the pods that there are",
        evidence="; ".join(f"{host}: {number.ready} of {number.total} endpoints ready, back at {back}" for host, number in stuck.items()),
        fix=f"Run at least {back} pods there, or set hysteresis to {fewest - contract.min_local_ready} at most.",
    )

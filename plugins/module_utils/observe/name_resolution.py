# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""DNS names of mesh endpoints, resolved on the controller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from ..base.dialling import Dialler, DialRule, NotDialled, parsed_address, resolve
from ..mesh.endpoints.endpoint import load_balancer_names, split_host_port
from ..mesh.endpoints.names import is_dns_name
from ..mesh.facts.cluster import ClusterFacts

PARALLEL: Final = 10  # names at a time


def resolve_names(clusters: Iterable[ClusterFacts]) -> dict[str, tuple[str, ...]]:
    """Resolve the DNS names of mesh endpoints on the controller; DNS name -> addresses. A name that does not resolve is left out.

    So is one that a cluster with denied ranges must not dial: its owner would read the addresses of internal names in its own cluster.
    """
    rules: dict[str, list[DialRule]] = {}
    for facts in clusters:
        for name in _endpoint_names(facts):
            rules.setdefault(name, []).append(DialRule(denied=facts.denied_networks, allowed=facts.endpoint_networks))
    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        found = dict(zip(rules, pool.map(lambda name: _resolved(name, rules[name]), rules), strict=True))
    return {name: addresses for name, addresses in found.items() if addresses}


def _endpoint_names(facts: ClusterFacts) -> list[str]:
    override = split_host_port(facts.endpoint_override) if facts.endpoint_override else None
    if override is not None:
        named: tuple[str, ...] = (override[0],)
    elif facts.service is None or facts.service.type != "LoadBalancer" or facts.service.ingress_ips:
        named = ()
    else:
        named = load_balancer_names(facts)
    return [name for name in named if is_dns_name(name)]


def _resolved(name: str, rules: Sequence[DialRule]) -> tuple[str, ...]:
    """Return the addresses of a name; () if there are none, or a rule refuses the name."""
    try:
        answer = resolve(name)
    except (OSError, ValueError):
        return ()
    addresses = {text for text in answer if parsed_address(text) is not None}
    with suppress(NotDialled):
        for rule in filter(None, rules):
            Dialler(rule, lambda _name: answer).addresses(name)
        return tuple(sorted(addresses))
    return ()

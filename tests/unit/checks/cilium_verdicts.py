# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Verdict about values of cilium-config: what changes in a healthy mesh of two, with an intent and exposed services, when they are set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.settings import cilium_accepts_its_values
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.envelope.cluster_size import size_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.plan import plan_exposures
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent, PodSelection, PortRule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.cidrs import allocated_ranges, ipam_mode, pool_ranges
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.ip_families import possible_families
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.node_ports import health_port, pod_network_ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions import cilium_config
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.limits import max_clusters
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import cilium_version
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.ipsec import ipsec_enabled, ipsec_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.node_health import health_off
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.settings import PolicySettings, settings_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.plan import plan_intents
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.hubble import hubble_on, observe_pods_command
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.failover_findings import cache_ttl
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.mesh_view import exports_services, syncs_endpoints
from tests.testing.exposure_world import cluster as exposing
from tests.testing.exposure_world import item as exposure
from tests.testing.facts_builders import NOW, cluster_facts, context_of
from tests.testing.traffic_builders import NAMESPACE, pod, scene, service, slice_facts
from tests.unit.checks.cilium_values import PATCHES

Config = Mapping[str, str | None]
Verdict = frozenset[str]


def _side(app: str, cluster: str) -> PodSelection:
    return PodSelection(namespace=NAMESPACE, labels={"app": app}, clusters=(cluster,))


def _intent(action: str, mode: str, *ports: PortRule) -> ConnectivityIntent:
    """An intent with its destination in c1, whose settings are varied."""
    name = f"{action}-{mode}-{len(ports)}".lower()
    return ConnectivityIntent(
        name=name,
        action=action,
        mode=mode,
        source=_side("web", "c2"),
        destination=_side("nginx", "c1"),
        ports=ports,
    )


INTENTS: Final = (
    _intent("Deny", "Namespaced", PortRule(protocol="TCP", port=8080)),
    _intent("Allow", "Clusterwide", PortRule(protocol="ICMP", icmp_type=8), PortRule(protocol="SCTP", port=9000)),
)
SPECS: Final[Mapping[str, Mapping[str, object]]] = {
    "balanced": {"class": "LoadBalancer"},
    "without-node-ports": {"class": "LoadBalancer", "allocateLoadBalancerNodePorts": False},
    "node-port": {"class": "NodePort", "service": {"namespace": NAMESPACE, "name": "shop"}},
    "gateway": {"class": "Gateway", "sourceRanges": ["0.0.0.0/0", "::/0"], "hostname": "shop.example.com"},
}
EXPOSURES: Final = tuple(exposure(name, ("c1", "c2"), **spec) for name, spec in SPECS.items())


def _policy_settings(facts: ClusterFacts) -> PolicySettings:
    return settings_of(cilium_version(facts), facts.config or {})


READINGS: Final[Mapping[str, Callable[[ClusterFacts], object]]] = {
    "id": lambda facts: facts.id,
    "families": lambda facts: " ".join(map(str, sorted(possible_families(facts)))),
    "routing": cilium_config.routing_mode,
    "tunnel": cilium_config.tunnel,
    "underlay": cilium_config.underlay,
    "kube-proxy replaced": cilium_config.replaces_kube_proxy,
    "node ports": cilium_config.serves_node_ports,
    "ipam": ipam_mode,
    "pools": lambda facts: len(pool_ranges(facts)),
    "ranges": lambda facts: len(allocated_ranges(facts)),
    "max clusters": max_clusters,
    "ports": pod_network_ports,
    "health port": health_port,
    "health off": lambda facts: bool(health_off(facts)),
    "hubble": hubble_on,
    "socket": lambda facts: observe_pods_command((), facts, destination="", since=NOW, last=1)[3],
    "authentication": lambda facts: cilium_config.enabled(facts, "mesh-auth-enabled"),
    "ipsec": lambda facts: ipsec_enabled(facts.config or {}),
    "ipsec key": lambda facts: ipsec_facts({"data": {}}, "x", facts.config or {}).problem.removeprefix("it has no key "),
    "endpoint sync": syncs_endpoints,
    "global by default": lambda facts: exports_services(facts, None),
    "cache ttl": lambda facts: cache_ttl(facts).seconds,
    "load balancer entries": lambda facts: size_of(facts, None, None).lb_most,
    "mcs": lambda facts: size_of(facts, None, None).mcs,
    "unsure": lambda facts: bool(_policy_settings(facts).doubts),
    "label filters": lambda facts: (_policy_settings(facts).filters.counts("app"), _policy_settings(facts).filters.unread),
}
"""What is read from cilium-config without a finding: "NAME VALUE" is part of a verdict where it changes."""


class Recorded(Mapping[str, str]):
    """Data of cilium-config that notes which keys are asked for. A copy asks for all; to ask whether a key is set does not count."""

    def __init__(self, data: Mapping[str, str]) -> None:
        self._data, self.asked = dict(data), set[str]()

    def __getitem__(self, key: str) -> str:
        self.asked.add(key)
        return self._data[key]

    def __contains__(self, key: object) -> bool:
        return key in self._data

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)


def _refused(facts: tuple[ClusterFacts, ...]) -> Iterator[str]:
    """Yield the code of the one check that looks at every key that is set."""
    for entry in facts:
        yield from ("CM-CFG-04" for _flaw in cilium_accepts_its_values(context_of(*facts), entry))


def _checks(facts: tuple[ClusterFacts, ...]) -> Iterator[str]:
    for finding in run_checks(context_of(*facts), "verify"):
        yield finding.code


def _items(facts: tuple[ClusterFacts, ...]) -> Iterator[str]:
    traffics = (
        exposing(
            entry.host,
            services=(service(), service("shop")),
            slices=(slice_facts(), slice_facts("shop")),
            pods=(pod("nginx-1", app="nginx"), pod("web-1", app="web")),
        )
        for entry in facts
    )
    world = scene(*traffics, facts={entry.host: entry for entry in facts})
    kinds = frozenset({ItemKind.INTENT, ItemKind.EXPOSURE})
    wanted = Desired(mesh=world.mesh, items={ItemKind.INTENT: INTENTS, ItemKind.EXPOSURE: EXPOSURES}, kinds=kinds)
    for plan in (*plan_intents(wanted, world), *plan_exposures(wanted, world)):
        for finding in plan.findings:
            yield f"{finding.code}@{finding.item}"


def _readings(facts: tuple[ClusterFacts, ...]) -> Iterator[str]:
    for name, reading in READINGS.items():
        yield f"{name} {reading(facts[0])}"
    policy = _policy_settings(facts[0])
    for entry in fields(PolicySettings):
        value = getattr(policy, entry.name)
        if entry.name not in ("version", "filters", "doubts"):
            yield f"{entry.name} {' '.join(sorted(map(str, value))) if isinstance(value, frozenset) else value}"


PARTS: Final = (_refused, _checks, _items, _readings)


Settled = tuple[tuple[str, str | None], ...]


@cache
def _healthy(host: str, minor: str, settings: Settled) -> ClusterFacts:
    return cluster_facts(host, version=f"{minor}.{PATCHES[minor]}", node_count=1, config=dict(settings))


def _facts(host: str, minor: str, settings: Settled, config: Config) -> ClusterFacts:
    if "cluster-name" in config:  # certificates name it
        return _healthy(host, minor, (*settings, *config.items()))
    facts = _healthy(host, minor, settings)
    data = {key: value for key, value in {**(facts.config or {}), **config}.items() if value is not None}
    return replace(facts, config=Recorded(data))


@cache
def _before(minor: str, settings: Settled) -> tuple[tuple[Verdict, frozenset[str]], ...]:
    """Return for each of ``PARTS`` what it says of the healthy mesh, and the keys that it asked for."""
    found = []
    for part in PARTS:
        facts = _facts("c1", minor, settings, {}), _facts("c2", minor, settings, {})
        said = frozenset(part(facts))
        found.append((said, frozenset[str]().union(*(entry.config.asked for entry in facts if isinstance(entry.config, Recorded)))))
    return tuple(found)


def verdict(minor: str, config: Config, *, both: Config | None = None, everywhere: bool = False) -> Verdict:
    """Return what changes when ``config`` is set in c1, or in both members: codes of findings, those that end with "-" before them, and
    readings as they are then.

    A part that did not ask for any of the keys says what it said before.

    :param both: settings of both members, before and after.
    """
    settings = tuple(sorted((both or {}).items()))
    facts = _facts("c1", minor, settings, config), _facts("c2", minor, settings, config if everywhere else {})
    changed: set[str] = set()
    for part, (was, asked) in zip(PARTS, _before(minor, settings), strict=True):
        if part is _refused or asked & config.keys():
            now = frozenset(part(facts))
            changed |= {*(now - was), *(f"-{entry}" for entry in was - now if entry.startswith("CM-"))}
    return frozenset(entry.partition("@")[0] for entry in changed)

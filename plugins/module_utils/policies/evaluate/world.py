# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The policies of every cluster in one value, and who is who in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ...items.facts import ObjectFacts, PodMeta, TrafficFacts
from ...items.scene import Scene
from ...versions import CiliumVersion, cilium_version
from .endpoints import Endpoint, Identity, Party, identity_of
from .network_policy import rules_of_network_policy
from .rules import Rule, rules_of_cnp
from .settings import Settings, settings_of
from .ternary import Ternary


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    """One cluster. ``complete``: every kind of policy could be read there."""

    host: str
    name: str  # cluster-name
    settings: Settings
    rules: tuple[Rule, ...] = ()
    complete: bool = True

    @cached_property
    def _by_namespace(self) -> Mapping[str, tuple[Rule, ...]]:
        found: dict[str, list[Rule]] = {}
        for rule in self.rules:
            found.setdefault(rule.namespace, []).append(rule)
        return {namespace: tuple(rules) for namespace, rules in found.items()}

    def in_scope(self, namespace: str) -> tuple[Rule, ...]:
        """Rules that can select a pod of the namespace at all."""
        return (*self._by_namespace.get("", ()), *self._by_namespace.get(namespace, ()))

    def selecting(self, subject: Party) -> list[tuple[Rule, Ternary]]:
        """Rules that select the pod, or perhaps do (None)."""
        found: list[tuple[Rule, Ternary]] = []
        for rule in self.in_scope(subject.endpoint.namespace):
            selects = rule.subject.matches(subject.identity)
            if selects is not False:
                found.append((rule, None if rule.problem else selects))
        return found

    def identity(self, endpoint: Endpoint) -> Identity:
        """Of an endpoint of this cluster."""
        return identity_of(endpoint, self.name, self.settings.filters)

    def with_rules(self, rules: Iterable[Rule]) -> ClusterView:
        return ClusterView(host=self.host, name=self.name, settings=self.settings, rules=tuple(rules), complete=self.complete)


@dataclass(frozen=True, kw_only=True)
class World:
    """By inventory name. Of clusters that are not in it nothing is known."""

    clusters: Mapping[str, ClusterView]

    def party(self, endpoint: Endpoint) -> Party | None:
        """None: a pod of a cluster of which nothing is known."""
        view = self.clusters.get(endpoint.cluster)
        if view is not None:
            return Party(endpoint, view.identity(endpoint))
        if endpoint.kind.value == "pod":
            return None
        return Party(endpoint, identity_of(endpoint, "", settings_of(None, {}).filters))


def rules_of(policies: Iterable[ObjectFacts], name: str, settings: Settings) -> list[Rule]:
    """Of every policy that the cluster called ``name`` carries out."""
    found: list[Rule] = []
    for policy in policies:
        if policy.kind not in settings.ignored:
            parse = rules_of_network_policy if policy.kind == "NetworkPolicy" else rules_of_cnp
            found += parse(policy, name, settings)
    return found


def cluster_view(
    host: str,
    name: str,
    version: CiliumVersion | None,
    config: Mapping[str, str],
    policies: Iterable[ObjectFacts],
    *,
    complete: bool = True,
) -> ClusterView:
    """``version`` of the agents; ``config``: data of cilium-config; ``policies``: CNP, CCNP and NetworkPolicy of the cluster."""
    settings = settings_of(version, config)
    return ClusterView(host=host, name=name, settings=settings, rules=tuple(rules_of(policies, name, settings)), complete=complete)


def world_of(scene: Scene) -> World:
    """Of every member whose policies could be read."""
    views = {}
    for host in scene.hosts:
        facts, traffic = scene.facts[host], scene.traffic[host]
        views[host] = cluster_view(
            host,
            scene.names.get(host) or facts.name,
            cilium_version(facts),
            facts.config or {},
            traffic.policies,
            complete=traffic.could_not_read("networkpolicies") is None,
        )
    return World(clusters=views)


def pod_endpoint(traffic: TrafficFacts, pod: PodMeta) -> Endpoint:
    """A pod of the lists. Its service account and its ports are not in them."""
    namespace = traffic.namespaces.get(pod.namespace)
    return Endpoint(
        cluster=traffic.host,
        namespace=pod.namespace,
        labels=pod.labels,
        namespace_labels=namespace.labels if namespace is not None else None,
    )

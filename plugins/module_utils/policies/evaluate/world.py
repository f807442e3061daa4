# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Policies of every cluster as one value, and the identities of endpoints in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ...items.scene import Scene
from ...mesh.facts.traffic import ObjectFacts, PodMeta, TrafficFacts
from ...mesh.versions.minors import CiliumVersion, cilium_version
from .endpoints import Identity, Party, PolicyEndpoint, identity_of
from .network_policy import rules_of_network_policy
from .rules import Rule, rules_of_cnp
from .settings import PolicySettings, settings_of
from .ternary import Ternary


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    """Policies and settings of one cluster. ``complete`` says whether every kind of policy could be read."""

    host: str
    name: str  # cluster-name
    settings: PolicySettings
    rules: tuple[Rule, ...] = ()
    complete: bool = True

    @cached_property
    def _by_namespace(self) -> Mapping[str, tuple[Rule, ...]]:
        found: dict[str, list[Rule]] = {}
        for rule in self.rules:
            found.setdefault(rule.namespace, []).append(rule)
        return {namespace: tuple(rules) for namespace, rules in found.items()}

    def in_scope(self, namespace: str) -> tuple[Rule, ...]:
        """Return the rules that can select a pod of the namespace."""
        return (*self._by_namespace.get("", ()), *self._by_namespace.get(namespace, ()))

    def selecting(self, subject: Party) -> list[tuple[Rule, Ternary]]:
        """Return the rules that select the pod (True), or perhaps do (None)."""
        found: list[tuple[Rule, Ternary]] = []
        for rule in self.in_scope(subject.endpoint.namespace):
            selects = rule.subject.matches(subject.identity)
            if selects is not False:
                found.append((rule, None if rule.problem else selects))
        return found

    def identity(self, endpoint: PolicyEndpoint) -> Identity:
        """Return the identity of an endpoint of this cluster."""
        return identity_of(endpoint, self.name, self.settings.filters)

    def with_rules(self, rules: Iterable[Rule]) -> ClusterView:
        """Return the view with other rules."""
        return ClusterView(host=self.host, name=self.name, settings=self.settings, rules=tuple(rules), complete=self.complete)


@dataclass(frozen=True, kw_only=True)
class PolicyWorld:
    """Policies of all clusters, by inventory name. Of other clusters nothing is known."""

    clusters: Mapping[str, ClusterView]

    def party(self, endpoint: PolicyEndpoint) -> Party | None:
        """Return the endpoint with its identity; None for a pod of an unknown cluster."""
        view = self.clusters.get(endpoint.cluster)
        if view is not None:
            return Party(endpoint, view.identity(endpoint))
        if endpoint.kind.value == "pod":
            return None
        return Party(endpoint, identity_of(endpoint, "", settings_of(None, {}).filters))


def rules_of(policies: Iterable[ObjectFacts], name: str, settings: PolicySettings) -> list[Rule]:
    """Return the rules of every policy that the cluster called ``name`` enforces."""
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
    """Return the view of one cluster.

    ``version`` is that of the agents, ``config`` the data of cilium-config, ``policies`` are CNP, CCNP and NetworkPolicy of the cluster.
    """
    settings = settings_of(version, config)
    return ClusterView(host=host, name=name, settings=settings, rules=tuple(rules_of(policies, name, settings)), complete=complete)


def policy_world(scene: Scene) -> PolicyWorld:
    """Return the policies of every member whose policies could be read."""
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
    return PolicyWorld(clusters=views)


def pod_endpoint(traffic: TrafficFacts, pod: PodMeta) -> PolicyEndpoint:
    """Return the endpoint of a listed pod. Its service account and its ports are unknown."""
    namespace = traffic.namespaces.get(pod.namespace)
    return PolicyEndpoint(
        cluster=traffic.host,
        namespace=pod.namespace,
        labels=pod.labels,
        namespace_labels=namespace.labels if namespace is not None else None,
    )

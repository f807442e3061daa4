# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Compilation of a ConnectivityIntent into a CiliumNetworkPolicy or CiliumClusterwideNetworkPolicy. Pure.

The text is the same for every version that supports it, so an intent means the same flows wherever it is applied:

- The cluster is named on both sides. A peer selector without it means the own cluster from 1.19 on and every cluster before
  (``policy-default-local-cluster``; cilium/cilium pkg/k8s/apis/cilium.io/utils, getEndpointSelector).
- The namespace of the source is always named: without it a CiliumNetworkPolicy adds its own (the same function).
- Every key has the source ``k8s:``. Without one it would match labels of any source.
- Policies are written where the destination is. Cilium distributes none, and the identity of the source travels with its traffic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ..items.models import ConnectivityIntent, PodSelection, PortRule
from ..items.owned import object_name
from ..mesh.binding.model import Binding
from ..mesh.endpoints.etcd_config import valid_cluster_name
from ..mesh.versions.minors import Minor, first_minor, holds

_T = TypeVar("_T")

Body: TypeAlias = dict[str, Any]
"""A whole object as plain JSON, without the marks of its owner (items/owned.py puts them on)."""

API_VERSION: Final = "cilium.io/v2"
CLUSTER_LABEL: Final = "k8s:io.cilium.k8s.policy.cluster"
NAMESPACE_LABEL: Final = "k8s:io.kubernetes.pod.namespace"

PER_RULE: Final = 40
"""Ports per entry of ``toPorts``, ICMP types per entry of ``icmps`` (pkg/policy/api/rule_validation.go, maxPorts and maxICMPFields)."""

ICMP_FAMILIES: Final = {"ICMP": "IPv4", "ICMPv6": "IPv6"}


class VersionRequirement(NamedTuple):
    """A part of an intent that versions before ``since`` cannot express."""

    rule: str  # of the version matrix
    what: str

    @property
    def since(self) -> Minor:
        """Return the first minor that can say it."""
        return first_minor(self.rule)


class CannotExpress(ValueError):
    """Error for an intent that Cilium cannot express as it is meant. ``problems``: one sentence each, for the user."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(" ".join(self.problems))


def compile_intent(
    intent: ConnectivityIntent, *, names: Mapping[str, str], members: Sequence[str], version: Minor, binding: Binding
) -> dict[str, tuple[Body, ...]]:
    """Return the policies that belong into each destination cluster, by inventory name.

    Equal intents give equal values, in any order of their unordered parts.

    :param names: inventory name -> ``cluster-name``, of every cluster that the intent names.
    :param members: clusters that a side without cluster names means.
    :param version: minor of the cluster that is to read it. The text does not depend on it.
    :raises CannotExpress: ``version`` is too old (``version_requirements``), a cluster has no known name, or no policy can express it.
    """
    lacking = [need for need in version_requirements(intent) if not holds(need.rule, version)]
    if lacking:
        raise CannotExpress(f"Cilium {need.since} is needed for {need.what}, and this is {version}." for need in lacking)
    return {host: (policy_for(intent, host, names=names, members=members, binding=binding),) for host in destinations(intent, members)}


def destinations(intent: ConnectivityIntent, members: Sequence[str]) -> tuple[str, ...]:
    """Return the clusters that get a policy, in the order of the mesh."""
    return clusters_of(intent.destination, members)


def clusters_of(selection: PodSelection, members: Sequence[str]) -> tuple[str, ...]:
    """Return the clusters that one side means, each once, in the order of the mesh."""
    wanted = frozenset(selection.clusters or members)
    return tuple(host for host in members if host in wanted)


def version_requirements(intent: ConnectivityIntent) -> tuple[VersionRequirement, ...]:
    """Return what the intent needs of the version of Cilium."""
    found = []
    if intent.action == "Deny":
        found.append(VersionRequirement("deny_without_isolation", "action Deny without isolation (enableDefaultDeny)"))
    if any(port.end_port for port in intent.ports):
        found.append(VersionRequirement("port_ranges", "a range of ports (endPort)"))
    return tuple(found)


def policy_for(intent: ConnectivityIntent, host: str, *, names: Mapping[str, str], members: Sequence[str], binding: Binding) -> Body:
    """Return the one policy of ``intent`` for ``host``, for any version that meets ``version_requirements``.

    :raises CannotExpress: a cluster has no known name, or no policy can express the intent.
    """
    sources = clusters_of(intent.source, members) if intent.source else ()
    nameless = [name for name in (host, *sources) if not valid_cluster_name(names.get(name, ""))]
    if nameless:
        raise CannotExpress(f"The cluster name of {name} is not known, or is none." for name in dict.fromkeys(nameless))
    namespaced = intent.mode == "Namespaced"
    name = object_name(binding, intent.ref)
    where = {"namespace": intent.destination.namespace} if namespaced else {}
    spec: Body = {"endpointSelector": selector(intent.destination, (names[host],), namespace=not namespaced)}
    return {
        "apiVersion": API_VERSION,
        "kind": "CiliumNetworkPolicy" if namespaced else "CiliumClusterwideNetworkPolicy",
        "metadata": {"name": name, **where},
        "spec": spec | _rules(intent, tuple(names[source] for source in sources)),
    }


def selector(selection: PodSelection, clusters: Iterable[str], *, namespace: bool = True) -> Body:
    """Return an EndpointSelector of pods in ``clusters`` (cluster names).

    ``namespace`` is False where the policy's own namespace restricts it already.
    """
    labels = {f"k8s:{key}": value for key, value in selection.labels.items()}
    expressions = [_expression(entry.key, entry.operator, entry.values) for entry in selection.expressions]
    named = sorted(set(clusters))
    if len(named) == 1:
        labels[CLUSTER_LABEL] = named[0]
    else:
        expressions.append({"key": CLUSTER_LABEL, "operator": "In", "values": named})
    if namespace and selection.all_namespaces:
        expressions.append({"key": NAMESPACE_LABEL, "operator": "Exists"})  # also keeps nodes and the world out
    elif namespace:
        labels[NAMESPACE_LABEL] = selection.namespace
    found: Body = {"matchLabels": dict(sorted(labels.items()))} if labels else {}
    if expressions:
        found["matchExpressions"] = sorted(expressions, key=lambda e: (e["key"], e["operator"], e.get("values", [])))
    return found


def _expression(key: str, operator: str, values: Iterable[str]) -> Body:
    sorted_values = sorted(set(values))
    return {"key": f"k8s:{key}", "operator": operator} | ({"values": sorted_values} if sorted_values else {})


def _rules(intent: ConnectivityIntent, sources: tuple[str, ...]) -> Body:
    """Return the part of the spec that says what is let in, or kept out."""
    if intent.source is None:
        return {"ingress": [{}]}  # matches no peer, but its presence turns default deny on
    peers = {"fromEndpoints": [selector(intent.source, sources)]}
    rules = [peers | ports for ports in _ports(intent.ports)]
    if intent.action == "Deny":
        return {"ingressDeny": rules, "enableDefaultDeny": {"ingress": False}}
    return {"ingress": rules}


def _ports(ports: Sequence[PortRule]) -> list[Body]:
    """Return ``toPorts`` and ``icmps``, which must not be in one rule (rule_validation.go, errUnsupportedICMPWithToPorts)."""
    if not ports:
        return [{}]
    found: list[Body] = []
    transport = sorted({_transport_key(port) for port in ports if port.protocol not in ICMP_FAMILIES})
    if transport:
        found.append({"toPorts": [{"ports": [_port(key) for key in some]} for some in _chunked(transport)]})
    icmp = sorted({_icmp_key(port) for port in ports if port.protocol in ICMP_FAMILIES})
    if icmp:
        fields = [{"family": family, "type": number} for family, number in icmp]
        found.append({"icmps": [{"fields": some} for some in _chunked(fields)]})
    return found


def _chunked(values: list[_T]) -> list[list[_T]]:
    return [values[start : start + PER_RULE] for start in range(0, len(values), PER_RULE)]


def _transport_key(port: PortRule) -> tuple[str, int, int]:
    return port.protocol, port.port, port.end_port if port.end_port != port.port else 0


def _port(key: tuple[str, int, int]) -> Body:
    """Return one entry of ``ports``.

    Port "0" is every port of the protocol (pkg/k8s/network_policy.go writes it for a NetworkPolicy without a port).
    """
    protocol, port, end = key
    return {"port": str(port), "protocol": protocol} | ({"endPort": end} if end else {})


def _icmp_key(port: PortRule) -> tuple[str, int]:
    if not port.icmp_type:
        # Type 0 becomes port 0 of the policy map, and that is every type (pkg/policy/portrange.go; pkg/maps/policymap NewKey in 1.15).
        raise CannotExpress([f"{port.protocol} without a type, or with type 0, would mean every type of it; name the type."])
    return ICMP_FAMILIES[port.protocol], port.icmp_type

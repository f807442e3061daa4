# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Peers of a rule: ``fromEndpoints``, ``fromEntities``, ``fromCIDR``, ... and the same with ``to``."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ...findings.wording import show
from ...mesh.versions.minors import Minor, holds
from .endpoints import CLUSTER, WORLD, EndpointKind, Party
from .selectors import NotUnderstood, RefusedByCilium, Requirement, Selector, equals, peer_of_cnp, refuse_bad_labels
from .settings import PolicySettings
from .ternary import Ternary, all_of, any_of

_RESERVED: Final = ("host", "remote-node", "init", "ingress", "health", "unmanaged", "kube-apiserver")
_ALONE: Final = (*_RESERVED, "none")

_KINDS: Final = ("Endpoints", "Entities", "CIDR", "CIDRSet", "Nodes", "Groups", "FQDNs", "Services")
"""Kinds of peers that follow ``from`` or ``to``; the last two only ``to``. One kind per rule (rule_validation.go)."""


@dataclass(frozen=True)
class Cidr:
    """A CIDR with exceptions. ``network`` is None for addresses that are unknown here, such as those of a CiliumCIDRGroup."""

    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None
    excepted: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()

    def covers(self, address: str) -> Ternary:
        """Return whether the address is in the network and in none of the exceptions."""
        if self.network is None or not address:
            return None
        found = ipaddress.ip_address(address)
        return _within(found, self.network) and not any(_within(found, entry) for entry in self.excepted)


@dataclass(frozen=True)
class Peers:
    """Union of the peers that a rule names.

    ``anyone`` means that only ports are named; ``doubts`` holds peers that cannot be decided.
    """

    anyone: bool = False
    selectors: tuple[Selector, ...] = ()  # of labels
    entities: tuple[Selector, ...] = ()
    cidrs: tuple[Cidr, ...] = ()
    nodes: bool = False  # nodes by their labels
    doubts: tuple[str, ...] = ()

    def match(self, peer: Party, requires: Iterable[Selector] = (), *, cidr_kinds: Collection[EndpointKind] = ()) -> Ternary:
        """Return whether the peer is one of these.

        ``requires`` is what ``fromRequires`` of any rule demands of peers that are selected by labels (pkg/policy/rules.go of 1.16).
        """
        if self.anyone:
            return True
        required = all_of(entry.matches(peer.identity) for entry in requires)
        return any_of(
            (
                *(all_of((entry.matches(peer.identity), required)) for entry in self.selectors),
                *(entry.matches(peer.identity) for entry in self.entities),
                *(self._by_address(entry, peer, cidr_kinds) for entry in self.cidrs),
                *((None,) if self.nodes and peer.endpoint.kind in (EndpointKind.HOST, EndpointKind.REMOTE_NODE) else ()),
                *((None,) if self.doubts else ()),
            )
        )

    @staticmethod
    def _by_address(entry: Cidr, peer: Party, cidr_kinds: Collection[EndpointKind]) -> Ternary:
        """Return whether a CIDR means the peer.

        A CIDR means a pod that Cilium manages, or a node, only where that is configured (layer3.rst, "IP/CIDR based").
        """
        kind = peer.endpoint.kind
        if kind is EndpointKind.WORLD:
            return entry.covers(peer.endpoint.address)
        return None if kind in cidr_kinds else False


ANYONE: Final = Peers(anyone=True)


def parse_peers(
    rule: Mapping[str, Any], side: str, *, namespace: str, cluster: str, local: tuple[Requirement, ...], settings: PolicySettings
) -> Peers | None:
    """Return the peers of one rule; None if it names no peer.

    ``side`` is "from" or "to"; ``cluster`` is the cluster-name where the policy is. An empty list of a kind selects no peer, whatever
    else the rule says (ingress.go; utils/parserules.go).

    :raises RefusedByCilium: Cilium refuses it.
    :raises NotUnderstood: its meaning is not known.
    """
    given = {kind: rule[side + kind] for kind in _KINDS if rule.get(side + kind) is not None}
    if any(not isinstance(value, (list, tuple)) for value in given.values()):
        raise NotUnderstood("a list of peers has the wrong form")
    named = [kind for kind, value in given.items() if value]
    if len(named) > 1:
        raise RefusedByCilium(f"{side}{named[0]} and {side}{named[1]} stand in one rule")
    found = _peers(named[0], given[named[0]], side, namespace, cluster, local, settings) if named else None
    return Peers() if any(not given[kind] for kind in _KINDS[:5] if kind in given) else found


def _peers(
    kind: str,
    values: Sequence[Any],
    side: str,
    namespace: str,
    cluster: str,
    local: tuple[Requirement, ...],
    settings: PolicySettings,
) -> Peers:
    if kind == "Endpoints":
        return Peers(selectors=tuple(peer_of_cnp(value, namespace, local, settings.version) for value in values))
    if kind == "Entities":
        return Peers(entities=tuple(entry for value in values for entry in _entity(str(value), cluster, settings.version)))
    if kind in ("CIDR", "CIDRSet"):
        return Peers(cidrs=tuple(_cidr(value) for value in values))
    if kind != "Nodes":
        return Peers(doubts=(f"{side}{kind}",))
    if not settings.node_labels:
        raise RefusedByCilium(f"{side}Nodes needs enable-node-selector-labels, which is off")
    for value in values:
        refuse_bad_labels(value, settings.version)
    return Peers(nodes=True)


def _entity(name: str, cluster: str, version: Minor | None) -> tuple[Selector, ...]:
    """Return the selectors of an entity (pkg/policy/api/entity.go).

    ``cluster`` is the own cluster, together with every node of the mesh.
    """
    reserved = partial(equals, value="")
    everywhere = tuple(Selector((reserved(f"reserved:{entry}"),)) for entry in _RESERVED)
    if name == "all":
        return (Selector(),)
    if name == "world":
        return (Selector((reserved(WORLD),)),)
    if name == "cluster":
        return (*everywhere, Selector((equals(f"k8s:{CLUSTER}", cluster),)))
    if name == "cluster-mesh" and holds("entity_cluster_mesh", version):
        return (*everywhere, Selector((Requirement(f"any:{CLUSTER}", "Exists"),)))
    if name in _ALONE:
        return (Selector((reserved(f"reserved:{name}"),)),)
    raise NotUnderstood(f"entity {name!r} is not known")


def _cidr(value: Any) -> Cidr:
    if isinstance(value, Mapping):
        if value.get("cidrGroupRef") or value.get("cidrGroupSelector"):
            return Cidr(None)
        found = Cidr(network(value.get("cidr")), tuple(network(entry) for entry in value.get("except") or ()))
        for text, excepted in zip(value.get("except") or (), found.excepted, strict=True):
            # Only the address is compared (rule_validation.go, CIDRRule.sanitize: prefix.Contains).
            if found.network is None or excepted.version != found.network.version or ipaddress.ip_interface(text).ip not in found.network:
                raise RefusedByCilium(f"except {show(str(text))} is not within {show(str(value.get('cidr')))}")
        return found
    return Cidr(network(value))


def network(text: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Parse a network; a single address is a network too.

    :raises RefusedByCilium: it is neither.
    """
    try:
        return ipaddress.ip_network(str(text), strict=False)
    except ValueError:
        raise RefusedByCilium("a CIDR cannot be read") from None


def _within(address: ipaddress.IPv4Address | ipaddress.IPv6Address, where: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    return address.version == where.version and address in where

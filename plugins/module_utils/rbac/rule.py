# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rule of RBAC, with the functions that need it and the circumstances in which they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Function(StrEnum):
    """Group of playbooks that need the same rights (docs/rbac.md)."""

    VERIFY = "verify"
    STATUS = "status"
    CONNECT = "connect"
    IDENTITY = "identity"
    ITEMS = "items"
    EXPLAIN = "explain"
    CA = "ca"


class RuleScope(StrEnum):
    """Where a rule holds."""

    CLUSTER = "in the whole cluster"
    CILIUM = "in the namespace of Cilium"
    ITEMS = "in the namespaces of the items"


class Circumstance(StrEnum):
    """What decides, besides the function, whether a right is needed. The value completes "only where"."""

    GLOBAL_SERVICES = "the mesh has globalServices"
    INTENTS = "the mesh has connectivityIntents"
    EXPOSURES = "the mesh has exposedServices"
    CREATES_SERVICES = "a global service has createMissingServices"
    EXPORTS = "a global service has backend MCS"
    PROBES = "an intent has probe.enabled"
    RANGES = "an exposed service has sourceRanges"
    SERVICES = "an exposed service has another class than Gateway"
    GATEWAYS = "an exposed service has class Gateway"
    RESERVED_BALANCER = "the cluster has cilium_mesh_elb_id"
    ALIASES_IN_APISERVER = "Cilium is older than 1.20 and kvstoremesh is on"
    ALIASES_IN_AGENTS = "Cilium is older than 1.20 and kvstoremesh is off"
    IPSEC = "IPsec is on"
    POD_POOLS = "ipam is multi-pool"
    BUNDLE_CONFIG_MAP = "tls.caBundle is on"
    BUNDLE_SECRET = "tls.caBundle.useSecret is on"
    MCS_API = "the cluster has MCS-API"
    GATEWAY_API = "the cluster has the Gateway API"
    CERTGEN = "certgen issues the certificates"
    CERT_MANAGER = "the cluster has cert-manager"


Known = Mapping[Circumstance, bool]
"""Circumstances that are known to hold or not to hold. One that is missing is unknown."""


@dataclass(frozen=True, kw_only=True)
class RoleRule:
    """Rule of a role. ``why`` is a sentence for the person who grants it.

    ``names`` may have ``{owner}``, ``{namespace}``, ``{ipsec}`` and ``{bundle}`` in them (manifest.py). ``lost`` is what a run goes without
    where the right is missing; "" where it fails and names the right.
    """

    why: str
    functions: frozenset[Function]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    group: str = ""
    names: tuple[str, ...] = ()
    scope: RuleScope = RuleScope.CILIUM
    only: frozenset[Circumstance] = field(default_factory=frozenset)
    lost: str = ""

    def needed(self, known: Known) -> bool | None:
        """Return whether all circumstances hold; None where one is unknown and none is known not to hold."""
        found = {known.get(circumstance) for circumstance in self.only}
        if False in found:
            return False
        return None if None in found else True

    def covers(self, other: RoleRule) -> bool:
        """Return whether this rule gives everything that the other gives."""
        return (
            (self.scope, self.group) == (other.scope, other.group)
            and set(self.resources) >= set(other.resources)
            and set(self.verbs) >= set(other.verbs)
            and (not self.names or (bool(other.names) and set(self.names) >= set(other.names)))
        )

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Circumstances that decide which rights are needed: of a mesh, by its items, and of a cluster, by its facts. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from ..base.json_fields import items, mapping, text
from ..mesh.binding.item_kinds import ItemKind
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.versions.cilium_config import flag_of, value_of
from ..mesh.versions.minors import aliases_in_template, reader_version
from .rule import Circumstance, Known

IPSEC_SECRET: Final = "cilium-ipsec-keys"  # The name of a Secret: Helm value encryption.ipsec.secretName.
BUNDLE: Final = "cilium-root-ca.crt"  # Helm value tls.caBundle.name

_GROUPS: Final = {
    Circumstance.MCS_API: "multicluster.x-k8s.io",
    Circumstance.GATEWAY_API: "gateway.networking.k8s.io",
    Circumstance.CERT_MANAGER: "cert-manager.io",
}


def of_mesh(mesh: Mapping[str, Any]) -> Known:
    """Return the circumstances that the items of ``cilium_mesh`` decide. A kind with an empty list counts: what is left of it is pruned."""
    services, intents, exposures = (items(mesh, kind.value) for kind in (ItemKind.GLOBAL_SERVICE, ItemKind.INTENT, ItemKind.EXPOSURE))
    classes = [text(item, "class") for item in exposures]
    return {
        Circumstance.GLOBAL_SERVICES: isinstance(mesh.get(ItemKind.GLOBAL_SERVICE.value), list),
        Circumstance.INTENTS: isinstance(mesh.get(ItemKind.INTENT.value), list),
        Circumstance.EXPOSURES: isinstance(mesh.get(ItemKind.EXPOSURE.value), list),
        Circumstance.CREATES_SERVICES: any(item.get("createMissingServices") is True for item in services),
        Circumstance.EXPORTS: any(text(item, "backend") == "MCS" for item in services),
        Circumstance.PROBES: any(mapping(item, "probe").get("enabled") is True for item in intents),
        Circumstance.RANGES: any(item.get("sourceRanges") for item in exposures),
        Circumstance.SERVICES: any(found != "Gateway" for found in classes),
        Circumstance.GATEWAYS: "Gateway" in classes,
    }


def of_cluster(facts: ClusterFacts, groups: Collection[str], certgen: bool | None) -> Known:
    """Return the circumstances of an observed cluster.

    :param groups: API groups that it serves.
    :param certgen: whether certgen's CronJob is there; None if that is not known.
    """
    config, version = facts.config, reader_version(facts)
    found: dict[Circumstance, bool] = {circumstance: group in groups for circumstance, group in _GROUPS.items()}
    if config is not None:
        found[Circumstance.IPSEC] = flag_of(config, None, "enable-ipsec")
        found[Circumstance.POD_POOLS] = value_of(config, None, "ipam").lower() == "multi-pool"
    if version is not None:
        aliases = aliases_in_template(version)
        found[Circumstance.ALIASES_IN_APISERVER] = aliases and facts.runs_kvstoremesh
        found[Circumstance.ALIASES_IN_AGENTS] = aliases and not facts.runs_kvstoremesh
    if not any(entry.what == "ca_bundle" for entry in facts.unread):
        found[Circumstance.BUNDLE_CONFIG_MAP] = facts.ca_bundle is not None and facts.ca_bundle.kind == "ConfigMap"
        found[Circumstance.BUNDLE_SECRET] = facts.ca_bundle is not None and facts.ca_bundle.kind == "Secret"
    if certgen is not None:
        found[Circumstance.CERTGEN] = certgen
    return found


def names_in(facts: ClusterFacts | None) -> dict[str, str]:
    """Return the names of objects that a cluster chooses, by what stands for them in the rules; else those of Cilium's chart."""
    ipsec = facts.ipsec.name if facts is not None and facts.ipsec is not None else IPSEC_SECRET
    bundle = facts.ca_bundle.name if facts is not None and facts.ca_bundle is not None else BUNDLE
    return {"ipsec": ipsec, "bundle": bundle}

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What in a cluster belongs to a binding: the marks on its objects, and the peers that it remembers there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from .facts import ClusterFacts, PeerSecretFacts
from .model import MANAGER_DOMAIN, Binding, Mesh
from .steps import MANAGED_BY_LABEL, OWNER_LABEL, PEERS_ANNOTATION, SOURCE_NAME_LABEL, SOURCE_WORKSPACE_LABEL


def labels_of_new_object(binding: Binding) -> dict[str, str]:
    """Labels of an object that this binding creates. Label values end at 63 characters (Kubernetes); the owner label stays exact."""
    labels = {MANAGED_BY_LABEL: MANAGER_DOMAIN, OWNER_LABEL: binding.owner, SOURCE_NAME_LABEL: _label_value(binding.name)}
    if binding.workspace:
        labels[SOURCE_WORKSPACE_LABEL] = _label_value(binding.workspace)
    return labels


def labels_to_apply(binding: Binding, secret: PeerSecretFacts) -> dict[str, str]:
    """Labels that this binding holds on a Secret: all on one that it created, none on one that was there before.

    On one that another binding created it holds only the managed-by label too, so that whoever leaves last knows that the object may go.
    """
    if not secret.present or secret.labels.get(OWNER_LABEL) == binding.owner:
        return labels_of_new_object(binding)
    if secret.labels.get(MANAGED_BY_LABEL) == MANAGER_DOMAIN:
        return {MANAGED_BY_LABEL: MANAGER_DOMAIN}
    return {}


def made_by_bindings(managers: Iterable[str], labels: Mapping[str, str]) -> bool:
    """Did a binding create the object, and has nobody but bindings a field in it?"""
    prefix = f"{MANAGER_DOMAIN}/"
    return labels.get(MANAGED_BY_LABEL) == MANAGER_DOMAIN and all(manager.startswith(prefix) for manager in managers)


def peers_annotation(binding: Binding) -> str:
    return f"{PEERS_ANNOTATION}/{binding.owner}"


def write_peers(peers: Mapping[str, str]) -> str:
    """``{inventory name: cluster name}`` as the annotation's text."""
    return json.dumps(dict(peers), sort_keys=True, separators=(",", ":"))


def written_peers(secret: PeerSecretFacts, owner: str) -> dict[str, str]:
    """Inventory name -> cluster name of the peers that the binding with this owner hash wrote into the Secret.

    An annotation that somebody spoiled counts as none.
    """
    try:
        data = json.loads(secret.annotations.get(f"{PEERS_ANNOTATION}/{owner}", "{}"))
    except ValueError:
        return {}
    return {k: v for k, v in data.items() if isinstance(v, str)} if isinstance(data, dict) else {}


def remembered_peers(binding: Binding, cluster: ClusterFacts) -> dict[str, str]:
    """Inventory name -> cluster name of the peers that this binding wrote into ``cluster``."""
    return written_peers(cluster.kvstoremesh, binding.owner) | written_peers(cluster.clustermesh, binding.owner)


def remembered_by_members(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, str]:
    """Inventory name -> cluster name of everybody that any member which answered holds links to."""
    found: dict[str, str] = {}
    for host in mesh.clusters:
        if host in facts:
            found.update(remembered_peers(mesh.binding, facts[host]))
    return found


def former_members(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, str]:
    """Inventory name -> cluster name of those that members hold links to and that the mesh no longer names."""
    members = frozenset(mesh.clusters)
    return {host: name for host, name in remembered_by_members(mesh, facts).items() if host not in members}


def own_keys(secret: PeerSecretFacts, manager: str) -> frozenset[str]:
    """Keys of the Secret that the field manager owns, alone or with others."""
    return frozenset(key for key, facts in secret.keys.items() if manager in facts.managers)


def _label_value(text: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in text)[:63]
    return kept.strip("-_.")

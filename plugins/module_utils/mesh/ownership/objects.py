# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Ownership of objects by a binding: the labels on its objects, and the peers recorded in annotations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from ...base.json_reader import NotJson, load_json
from ..binding.model import MANAGER_DOMAIN, Binding, Mesh
from ..endpoints.address_moves import Moves, read_moves
from ..facts.cluster import ClusterFacts, PeerSecretFacts, WorkloadFacts
from .gitops import HELM_LABEL, HELM_NAME, HELM_NAMESPACE
from .marks import MANAGED_BY_LABEL, MOVES_ANNOTATION, OWNER_LABEL, PEERS_ANNOTATION, SOURCE_NAME_LABEL, SOURCE_WORKSPACE_LABEL

_BY_HAND: Final = frozenset({f"kubectl-{verb}" for verb in ("create", "label", "annotate", "edit", "patch")})
"""Field managers of commands that people type (kubernetes: staging/src/k8s.io/kubectl/pkg/cmd)."""


def labels_of_new_object(binding: Binding) -> dict[str, str]:
    """Return the labels of an object that this binding creates.

    Values are cut to 63 characters, the limit of Kubernetes; the owner label stays exact.
    """
    labels = {MANAGED_BY_LABEL: MANAGER_DOMAIN, OWNER_LABEL: binding.owner, SOURCE_NAME_LABEL: _label_value(binding.name)}
    if binding.workspace:
        labels[SOURCE_WORKSPACE_LABEL] = _label_value(binding.workspace)
    return labels


def marks_for_helm(cluster: ClusterFacts) -> tuple[dict[str, str], dict[str, str]]:
    """Return (labels, annotations) with which the Helm release of Cilium can take over an object that it does not render yet.

    Without them an upgrade that renders the object is refused: "invalid ownership metadata". Both are empty where no Helm release made
    Cilium.
    """
    marks = {name: cluster.config_annotations[name] for name in (HELM_NAME, HELM_NAMESPACE) if name in cluster.config_annotations}
    return ({HELM_LABEL: "Helm"}, marks) if len(marks) == 2 else ({}, {})


def labels_to_apply(binding: Binding, secret: PeerSecretFacts) -> dict[str, str]:
    """Return the labels that this binding owns on a Secret: all if it created the Secret, none if the Secret was there before.

    On a Secret that another binding created, it owns only the managed-by label too, so that the binding that withdraws last knows that the
    object may be deleted.
    """
    if not secret.present or secret.labels.get(OWNER_LABEL) == binding.owner:
        return labels_of_new_object(binding)
    if secret.labels.get(MANAGED_BY_LABEL) == MANAGER_DOMAIN:
        return {MANAGED_BY_LABEL: MANAGER_DOMAIN}
    return {}


def made_by_bindings(managers: Iterable[str], labels: Mapping[str, str]) -> bool:
    """Return whether a binding created the object and no other writer owns a field in it."""
    prefix = f"{MANAGER_DOMAIN}/"
    ours = labels.get(MANAGED_BY_LABEL) == MANAGER_DOMAIN or OWNER_LABEL in labels
    return ours and all(manager.startswith(prefix) for manager in managers)


def made_by_hand(managers: Iterable[str]) -> bool:
    """Return whether the object was created with kubectl, and only people with kubectl and bindings own fields in it.

    Marks of Helm on such an object prepare its take-over. Helm writes them as well, under a field manager of its own, and so does a chart
    that is rendered and applied (``kubectl-client-side-apply``, ``kubectl``).
    """
    others = {manager for manager in managers if not manager.startswith(f"{MANAGER_DOMAIN}/")}
    return "kubectl-create" in others and others <= _BY_HAND


def peers_annotation(binding: Binding) -> str:
    """Return the name of the annotation that records the peers of this binding in a Secret."""
    return f"{PEERS_ANNOTATION}/{binding.owner}"


def moves_annotation(binding: Binding) -> str:
    """Return the annotation of a workload that records when this binding changed addresses in its pod template."""
    return f"{MOVES_ANNOTATION}/{binding.owner}"


def recorded_moves(binding: Binding, workload: WorkloadFacts) -> Moves:
    """Return when this binding changed addresses of each name in the pod template of the workload."""
    return read_moves(workload.annotations.get(moves_annotation(binding), "{}"))


def write_peers(peers: Mapping[str, str]) -> str:
    """Format ``{inventory name: cluster name}`` as the annotation's text."""
    return json.dumps(dict(peers), sort_keys=True, separators=(",", ":"))


def written_peers(secret: PeerSecretFacts, owner: str) -> dict[str, str]:
    """Return inventory name -> cluster name of the peers that the binding with this owner hash wrote into the Secret.

    An annotation that is not valid counts as none.
    """
    try:
        data = load_json(secret.annotations.get(f"{PEERS_ANNOTATION}/{owner}", "{}"))
    except NotJson:
        return {}
    return {k: v for k, v in data.items() if isinstance(v, str)} if isinstance(data, dict) else {}


def remembered_peers(binding: Binding, cluster: ClusterFacts) -> dict[str, str]:
    """Return inventory name -> cluster name of the peers that this binding wrote into ``cluster``."""
    return written_peers(cluster.kvstoremesh, binding.owner) | written_peers(cluster.clustermesh, binding.owner)


def remembered_by_members(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, str]:
    """Return inventory name -> cluster name of all peers that this binding wrote into any member in ``facts``."""
    found: dict[str, str] = {}
    for host in mesh.clusters:
        if host in facts:
            found.update(remembered_peers(mesh.binding, facts[host]))
    return found


def former_members(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, str]:
    """Return inventory name -> cluster name of the former members, to which members hold links although the binding does not name them."""
    members = frozenset(mesh.clusters)
    return {host: name for host, name in remembered_by_members(mesh, facts).items() if host not in members}


def own_keys(secret: PeerSecretFacts, manager: str) -> frozenset[str]:
    """Return the keys of the Secret that the field manager owns, alone or with others."""
    return frozenset(key for key, facts in secret.keys.items() if manager in facts.managers)


def _label_value(text: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in text)[:63]
    return kept.strip("-_.")

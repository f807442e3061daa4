# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The plan that hands a mesh back to the tool that made it, without changing a value. Pure.

One write per object changes only metadata: ownership returns to the earlier owners, annotations and labels of the binding are removed, and
the marks of the tool are restored. It is sent under the tool's own field manager, so that managedFields has no entry of the binding left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..findings.finding import Finding
from ..leases.plan import registry_step
from ..links.adopted_values import ObjectRecord, PeerObject, adoption_record, majority_owner, peer_objects, record_annotation
from ..links.fingerprint import facts_fingerprint
from ..mesh.binding.model import MANAGER_DOMAIN, Binding, Mesh
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts, WorkloadFacts
from ..mesh.ownership.gitops import HELM_LABEL, HELM_NAME, HELM_NAMESPACE
from ..mesh.ownership.managed_fields import (
    UPDATE,
    Entry,
    Owner,
    add_owner,
    annotation,
    data_key,
    entries_of,
    fields_of_manager,
    label,
    owners,
    without_manager,
)
from ..mesh.ownership.marks import MANAGED_BY_LABEL, OWNER_LABEL, SOURCE_NAME_LABEL, SOURCE_WORKSPACE_LABEL, USERS_ANNOTATION
from ..mesh.ownership.objects import moves_annotation, own_keys, peers_annotation
from ..plan.patches import patch_step
from ..plan.steps import NOW, Plan, Step
from .findings import hand_back_findings
from .plan import linked_names

WAVE: Final = 1
REGISTRY_WAVE: Final = 2
UNDO: Final = "playbook edge_portal.cilium_mesh.adopt takes it over again"


def plan_hand_back(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> Plan:
    """Plan the writes after which this binding owns nothing of the members' links, and all links stay."""
    steps: list[Step] = []
    problems: list[Finding] = []
    hosts = [host for host in mesh.clusters if host in facts]
    for host in hosts:
        cluster = facts[host]
        names = linked_names(mesh, facts, host)
        problems.extend(hand_back_findings(cluster, names))
        steps.extend(_hand_back(mesh.binding, cluster))
        registry = registry_step(mesh, cluster, None, wave=REGISTRY_WAVE)
        steps.extend([registry] if registry else [])
    return Plan(
        manager=mesh.binding.manager,
        steps=tuple(sorted(steps, key=lambda step: step.wave)),
        problems=tuple(problems),
        options={"purpose": "hand_back"},
        relied_on={host: facts_fingerprint(facts[host]) for host in hosts},
    )


def _hand_back(binding: Binding, cluster: ClusterFacts) -> Iterator[Step]:
    memory = adoption_record(binding, cluster)
    for item in peer_objects(cluster):
        if _owns_anything(binding, item):
            yield _object_step(binding, cluster, item, memory.objects.get(item.title) or _release_record(cluster))
    for workload in (cluster.apiserver, cluster.agent):
        if workload is None:
            continue
        if moves_annotation(binding) in workload.annotations or any(binding.manager in alias.managers for alias in workload.host_aliases):
            yield from _aliases_step(binding, cluster, workload)


def _owns_anything(binding: Binding, item: PeerObject) -> bool:
    """Return whether the binding owns anything in the object."""
    if isinstance(item.facts, PeerSecretFacts):
        ours = {peers_annotation(binding), record_annotation(binding)} & set(item.facts.annotations)
        return bool(ours or own_keys(item.facts, binding.manager))
    # Its marks are recorded elsewhere; this binding wrote here if it recorded users, or is in managedFields.
    return f"{USERS_ANNOTATION}/{binding.owner}" in item.facts.annotations or binding.manager in item.facts.managers


def _object_step(binding: Binding, cluster: ClusterFacts, item: PeerObject, was: ObjectRecord) -> Step:
    owner = was.owner or majority_owner(item, ()) or Owner("helm", UPDATE)
    labels, annotations = _labels(binding, item, was), _annotations(binding, item, was)
    metadata: dict[str, Any] = {"uid": item.facts.uid, "resourceVersion": item.facts.resource_version}
    entries = _managed_fields(binding, item, owner, was)
    if entries:
        metadata["managedFields"] = entries
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    return patch_step(
        WAVE,
        cluster,
        f"{item.kind} {item.name}",
        why=f"all that is this binding's becomes {owner.manager}'s, as it is" + (", with the marks of the tool" if was.annotations else ""),
        undo=UNDO,
        body={"metadata": metadata},
        manager=owner.manager,
    )


def _managed_fields(binding: Binding, item: PeerObject, owner: Owner, was: ObjectRecord) -> list[Entry]:
    """Return managedFields without the binding; fields without another owner go to ``owner``.

    The list is never empty: the API server would take an empty list for none at all.
    """
    ours = fields_of_manager(item.entries, binding.manager, ("f:data",))
    rest = without_manager(item.entries, binding.manager)
    free = [path for path in ours if not owners(rest, path)]
    marks = [label(name) for name in was.labels] + [annotation(name) for name in was.annotations]
    return add_owner(rest, owner, free or ([] if rest else marks or [data_key("users.yaml")]), time=NOW) if item.entries else []


def _labels(binding: Binding, item: PeerObject, was: ObjectRecord) -> dict[str, str | None]:
    ours = (OWNER_LABEL, SOURCE_NAME_LABEL, SOURCE_WORKSPACE_LABEL, MANAGED_BY_LABEL)
    made = item.facts.labels.get(OWNER_LABEL) == binding.owner
    gone = {name: None for name in ours if made and name in item.facts.labels}
    return {**gone, **{k: v for k, v in was.labels.items() if item.facts.labels.get(k) != v}}


def _annotations(binding: Binding, item: PeerObject, was: ObjectRecord) -> dict[str, str | None]:
    ours = (peers_annotation(binding), record_annotation(binding), f"{USERS_ANNOTATION}/{binding.owner}", *was.added)
    gone = {name: None for name in ours if name in item.facts.annotations}
    return {**gone, **{k: v for k, v in was.annotations.items() if item.facts.annotations.get(k) != v}}


def _release_record(cluster: ClusterFacts) -> ObjectRecord:
    """Return the marks of the Helm release of Cilium itself, for an object without a record, as in a mesh that this binding made."""
    marks = {name: cluster.config_annotations[name] for name in (HELM_NAME, HELM_NAMESPACE) if name in cluster.config_annotations}
    if not marks:
        return ObjectRecord()
    writers = cluster.writers.get("ConfigMap cilium-config", ())
    manager = next((w.manager for w in writers if not w.manager.startswith(f"{MANAGER_DOMAIN}/")), "helm")
    return ObjectRecord(manager=manager, operation=UPDATE, labels={HELM_LABEL: "Helm"}, annotations=marks)


def _aliases_step(binding: Binding, cluster: ClusterFacts, workload: WorkloadFacts) -> Iterator[Step]:
    """Yield the step after which the names stay and have no owner: the tool's next manifest takes them over or removes them."""
    title = f"{workload.kind} {workload.name}"
    entries = without_manager(entries_of(cluster.writers.get(title, ())), binding.manager)
    if not entries:
        return
    record = moves_annotation(binding)
    gone: dict[str, Any] = {"annotations": {record: None}} if record in workload.annotations else {}
    yield patch_step(
        WAVE,
        cluster,
        title,
        why="the host aliases of the peers stay, and this binding gives up their ownership",
        undo=UNDO,
        body={"metadata": {**gone, "uid": workload.uid, "resourceVersion": workload.resource_version, "managedFields": entries}},
    )

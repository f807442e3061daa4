# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The plan that gives a mesh back to the tool that made it, without a value that changes. Pure.

One write per object, and it touches metadata alone: our claims go back to whom they were taken from, our annotations and labels go, the
marks of the tool come back. It is sent under the tool's own field manager, so that nothing of ours is left in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from .adopt import Before, Item, items, main_owner, memory_annotation, remembered
from .adopt_findings import hand_back_findings
from .facts import ClusterFacts, PeerSecretFacts, WorkloadFacts
from .findings import Finding
from .gitops import HELM_LABEL, HELM_NAME, HELM_NAMESPACE
from .managed_fields import UPDATE, Entry, Owner, annotation, data_key, entries_of, given_to, held_by, label, owners, without
from .model import MANAGER_DOMAIN, Binding, Mesh
from .ownership import own_keys, peers_annotation
from .plan_adopt import linked_names
from .plan_registry import registry_step
from .relied_on import relied_on
from .steps import (
    MANAGED_BY_LABEL,
    NOW,
    OWNER_LABEL,
    SOURCE_NAME_LABEL,
    SOURCE_WORKSPACE_LABEL,
    USERS_ANNOTATION,
    ApiWrite,
    Plan,
    Step,
)

WAVE: Final = 1
REGISTRY_WAVE: Final = 2
UNDO: Final = "playbook edge_portal.cilium_mesh.adopt takes it over again"


def plan_hand_back(mesh: Mesh, facts: Mapping[str, ClusterFacts], now: datetime) -> Plan:
    """What has to be written so that nothing of the members' links is this binding's any more, and all of it stays.

    :param now: not used; as in the other planners.
    """
    steps: list[Step] = []
    problems: list[Finding] = []
    hosts = [host for host in mesh.clusters if host in facts]
    for host in hosts:
        cluster = facts[host]
        names = linked_names(mesh, facts, host)
        problems.extend(hand_back_findings(cluster, names))
        steps.extend(_give_back(mesh.binding, cluster))
        registry = registry_step(mesh, cluster, None, wave=REGISTRY_WAVE)
        steps.extend([registry] if registry else [])
    return Plan(
        manager=mesh.binding.manager,
        steps=tuple(sorted(steps, key=lambda step: step.wave)),
        problems=tuple(problems),
        options={"purpose": "hand_back"},
        relied_on={host: relied_on(facts[host]) for host in hosts},
    )


def _give_back(binding: Binding, cluster: ClusterFacts) -> Iterator[Step]:
    memory = remembered(binding, cluster)
    for item in items(cluster):
        if _has_part(binding, cluster, item):
            yield _object_step(binding, cluster, item, memory.objects.get(item.title) or _of_the_release(cluster))
    for workload in (cluster.apiserver, cluster.agent):
        if workload is not None and any(binding.manager in alias.managers for alias in workload.host_aliases):
            yield from _aliases_step(binding, cluster, workload)


def _has_part(binding: Binding, cluster: ClusterFacts, item: Item) -> bool:
    """Is anything in the object this binding's?"""
    if isinstance(item.facts, PeerSecretFacts):
        ours = {peers_annotation(binding), memory_annotation(binding)} & set(item.facts.annotations)
        return bool(ours or own_keys(item.facts, binding.manager))
    # Its marks are remembered elsewhere; this binding was here if it noted users, or is in the ledger.
    return f"{USERS_ANNOTATION}/{binding.owner}" in item.facts.annotations or binding.manager in item.facts.managers


def _object_step(binding: Binding, cluster: ClusterFacts, item: Item, was: Before) -> Step:
    owner = was.owner or main_owner(item, ()) or Owner("helm", UPDATE)
    labels, annotations = _labels(binding, item, was), _annotations(binding, item, was)
    metadata: dict[str, Any] = {"uid": item.facts.uid, "resourceVersion": item.facts.resource_version}
    entries = _ledger(binding, item, owner, was)
    if entries:
        metadata["managedFields"] = entries
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    collection = {"Secret": "secrets", "ConfigMap": "configmaps"}[item.kind]
    path = f"/api/v1/namespaces/{cluster.namespace}/{collection}/{item.name}"
    return Step(
        wave=WAVE,
        cluster=cluster.host,
        verb="patch",
        object=f"{item.kind} {cluster.namespace}/{item.name}",
        why=f"all that is this binding's becomes {owner.manager}'s, as it is" + (", with the marks of the tool" if was.annotations else ""),
        undo=UNDO,
        action=ApiWrite(method="merge", path=path, body={"metadata": metadata}, manager=owner.manager),
    )


def _ledger(binding: Binding, item: Item, owner: Owner, was: Before) -> list[Entry]:
    """Ours leaves; what nobody else holds goes to ``owner``. Never empty: the API server would take an empty list for none at all."""
    ours = held_by(item.entries, binding.manager, ("f:data",))
    rest = without(item.entries, binding.manager)
    free = [path for path in ours if not owners(rest, path)]
    marks = [label(name) for name in was.labels] + [annotation(name) for name in was.annotations]
    return given_to(rest, owner, free or ([] if rest else marks or [data_key("users.yaml")]), time=NOW) if item.entries else []


def _labels(binding: Binding, item: Item, was: Before) -> dict[str, str | None]:
    ours = (OWNER_LABEL, SOURCE_NAME_LABEL, SOURCE_WORKSPACE_LABEL, MANAGED_BY_LABEL)
    made = item.facts.labels.get(OWNER_LABEL) == binding.owner
    gone = {name: None for name in ours if made and name in item.facts.labels}
    return {**gone, **{k: v for k, v in was.labels.items() if item.facts.labels.get(k) != v}}


def _annotations(binding: Binding, item: Item, was: Before) -> dict[str, str | None]:
    ours = (peers_annotation(binding), memory_annotation(binding), f"{USERS_ANNOTATION}/{binding.owner}", *was.added)
    gone = {name: None for name in ours if name in item.facts.annotations}
    return {**gone, **{k: v for k, v in was.annotations.items() if item.facts.annotations.get(k) != v}}


def _of_the_release(cluster: ClusterFacts) -> Before:
    """Where nothing is remembered, as of a mesh that this binding made: the marks of the Helm release that Cilium itself is of."""
    marks = {name: cluster.config_annotations[name] for name in (HELM_NAME, HELM_NAMESPACE) if name in cluster.config_annotations}
    if not marks:
        return Before()
    writers = cluster.writers.get("ConfigMap cilium-config", ())
    manager = next((w.manager for w in writers if not w.manager.startswith(f"{MANAGER_DOMAIN}/")), "helm")
    return Before(manager=manager, operation=UPDATE, labels={HELM_LABEL: "Helm"}, annotations=marks)


def _aliases_step(binding: Binding, cluster: ClusterFacts, workload: WorkloadFacts) -> Iterator[Step]:
    """The names stay, and nobody holds them: the tool's next manifest takes them over or away."""
    title = f"{workload.kind} {workload.name}"
    entries = without(entries_of(cluster.writers.get(title, ())), binding.manager)
    if not entries:
        return
    plural = {"Deployment": "deployments", "DaemonSet": "daemonsets"}[workload.kind]
    yield Step(
        wave=WAVE,
        cluster=cluster.host,
        verb="patch",
        object=f"{workload.kind} {cluster.namespace}/{workload.name}",
        why="the host aliases of the peers stay, and this binding lets go of them",
        undo=UNDO,
        action=ApiWrite(
            method="merge",
            path=f"/apis/apps/v1/namespaces/{cluster.namespace}/{plural}/{workload.name}",
            body={"metadata": {"uid": workload.uid, "resourceVersion": workload.resource_version, "managedFields": entries}},
        ),
    )

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The plan that adopts the mesh of another tool for this binding, without changing a value. Pure.

While a tool still owns the objects they are only prepared, so that they outlive its manifest, and their present state is recorded.
Once the tool released them: first managedFields is rewritten (no value changes), then the same values are applied under the binding's field
manager, then the marks of the tool are removed. Each step is planned only if it is still needed, so the next run completes an
interrupted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..findings.finding import Finding
from ..links.adopted_values import (
    USERS,
    AdoptionRecord,
    AdoptionStage,
    PeerObject,
    adoption_record,
    adoption_stage,
    foreign_peers,
    outlives_manifest,
    peer_objects,
    peer_secrets,
    record_annotation,
    record_object,
    renders_users_always,
    tool_aliases,
)
from ..links.fingerprint import facts_fingerprint
from ..links.peer_keys import current_value
from ..links.users import own_users
from ..mesh.binding.model import Binding, Mesh
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts
from ..mesh.ownership.gitops import KEEP_ANNOTATIONS, marks_in
from ..mesh.ownership.managed_fields import APPLY, UPDATE, Owner, add_owner, data_key, owners, remove_owners
from ..mesh.ownership.marks import USERS_ANNOTATION
from ..mesh.ownership.objects import labels_to_apply, moves_annotation, own_keys, peers_annotation, write_peers, written_peers
from ..mesh.trust.link_trust import user_for_name
from ..plan.patches import patch_step
from ..plan.steps import NOW, ApplyHostAliases, ApplySecret, Plan, Step
from .findings import adopt_findings

WAVE: Final = 1
UNDO: Final = "playbook edge_portal.cilium_mesh.hand_back returns it"


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """Plan of an adoption, and the stage of each cluster before it."""

    plan: Plan
    stages: Mapping[str, AdoptionStage]


def linked_names(mesh: Mesh, facts: Mapping[str, ClusterFacts], host: str) -> dict[str, str]:
    """Return inventory name -> cluster name of the peers of ``host`` that answered."""
    return {peer: facts[peer].name for peer in mesh.peers(host) if peer in facts and facts[peer].name}


def plan_adopt(mesh: Mesh, facts: Mapping[str, ClusterFacts], *, handed_over: bool = False) -> Adoption:
    """Plan the writes after which this binding owns the keys of the members' links.

    :param handed_over: the user states that no tool renders the objects any more.
    """
    steps: list[Step] = []
    problems: list[Finding] = []
    stages: dict[str, AdoptionStage] = {}
    for host in mesh.clusters:
        if host not in facts:
            continue
        cluster, names = facts[host], linked_names(mesh, facts, host)
        stage = stages[host] = adoption_stage(mesh.binding, cluster, names, handed_over=handed_over)
        problems.extend(adopt_findings(cluster, names, stage, handed_over=handed_over))
        planner = _prepare if stage is AdoptionStage.HELD else _take_over
        steps.extend(planner(mesh.binding, cluster, names))
    plan = Plan(
        manager=mesh.binding.manager,
        steps=tuple(steps),
        problems=tuple(problems),
        options={"purpose": "adopt", "handedOver": handed_over},
        relied_on={host: facts_fingerprint(facts[host]) for host in stages},
    )
    return Adoption(plan=plan, stages=stages)


def _prepare(binding: Binding, cluster: ClusterFacts, names: Mapping[str, str]) -> Iterator[Step]:
    """Yield steps for objects that a tool owns: they get annotations so that they stay when its manifest goes."""
    why = "the object outlives the manifest of the tool that made it, and its present content is recorded"
    memory = _record(binding, cluster, names)
    for item in peer_objects(cluster):
        needed = {tool.stay[0]: tool.stay[1] for tool in item.tools if tool.stay and not outlives_manifest(tool, item.facts.annotations)}
        if isinstance(item.facts, PeerSecretFacts):
            step = _apply_secret(binding, cluster, item.facts, {}, memory, adopt=False, more=needed, why=why)
            if step is not None:
                yield step
        elif needed:
            yield _users_patch(cluster, item, {"annotations": needed}, why=why)


def _take_over(binding: Binding, cluster: ClusterFacts, names: Mapping[str, str]) -> Iterator[Step]:
    """Yield steps for objects that no tool renders any more: keys, users and names become the binding's."""
    memory = _record(binding, cluster, names)
    alias = _alias_step(binding, cluster, memory)
    if alias is not None:  # before Cilium 1.20 the names went with the tool's manifest, so they are restored first
        yield alias
    adopted = {secret.name: foreign_peers(binding, secret, names) for secret in peer_secrets(cluster)}
    released = [item for item in peer_objects(cluster) if item.tools and not (item.kind == "ConfigMap" and renders_users_always(cluster))]
    for item in peer_objects(cluster):
        if isinstance(item.facts, PeerSecretFacts):
            peers = adopted[item.name]
            yield from _move_ownership(binding, cluster, item, item.facts, [key for keys in peers.values() for key in keys])
            kept = memory if released or any(adopted.values()) else AdoptionRecord()
            why = f"hold the links to {', '.join(peers)} as they are" if peers else "record the previous content"
            step = _apply_secret(binding, cluster, item.facts, names, kept, adopt=True, why=why)
            if step is not None:
                yield step
    yield from _users(binding, cluster, names, released)
    for item in released:
        if item.kind == "Secret":
            marks = _remove_marks(item)
            yield _patch(cluster, item, marks, why="only this binding manages the object now: the marks of the tool are removed")


def _record(binding: Binding, cluster: ClusterFacts, names: Mapping[str, str]) -> AdoptionRecord:
    """Return the existing record, completed with the present state."""
    known, objects = adoption_record(binding, cluster), {}
    for item in peer_objects(cluster):
        keys = ["users.yaml"]
        if isinstance(item.facts, PeerSecretFacts):
            keys = [key for found in foreign_peers(binding, item.facts, names).values() for key in found]
        objects[item.title] = record_object(item, keys, known.objects.get(item.title))
    return AdoptionRecord(objects=objects, aliases=known.aliases or tool_aliases(cluster))


def _secret_record(secret: PeerSecretFacts, memory: AdoptionRecord) -> str:
    """Return the part of the record that this Secret keeps: its own, and in cilium-clustermesh also the parts that belong to no Secret."""
    if not memory.objects:
        return ""
    first = secret.name == "cilium-clustermesh"
    titles = {f"Secret {secret.name}"} | ({f"ConfigMap {USERS}"} if first else set())
    return AdoptionRecord(
        objects={title: row for title, row in memory.objects.items() if title in titles}, aliases=memory.aliases if first else {}
    ).text


def _apply_secret(
    binding: Binding,
    cluster: ClusterFacts,
    secret: PeerSecretFacts,
    names: Mapping[str, str],
    memory: AdoptionRecord,
    *,
    adopt: bool,
    more: Mapping[str, str] | None = None,
    why: str,
) -> Step | None:
    """Return the server-side apply of the binding's fields in the Secret, all values as they are; None if nothing changes.

    :param adopt: with the keys of the peers ``names`` that the binding does not own alone yet.
    :param more: annotations to add.
    """
    own = own_keys(secret, binding.manager)
    adopted = {key for keys in foreign_peers(binding, secret, names).values() for key in keys} if adopt else set()
    data = {key: current_value(cluster, secret, key).recipe for key in sorted(own | adopted)}
    known = written_peers(secret, binding.owner) | {host: name for host, name in names.items() if name in data}
    note = record_annotation(binding)
    part = secret.annotations.get(note) or _secret_record(secret, memory)
    annotations = {
        **({peers_annotation(binding): write_peers(known)} if known else {}),
        **({note: part} if part else {}),
        **({key: value for key, value in secret.annotations.items() if key in KEEP_ANNOTATIONS} if note in secret.annotations else {}),
        **(more or {}),
    }
    if not adopted and annotations.items() <= secret.annotations.items():
        return None
    labels = labels_to_apply(binding, secret)
    action = ApplySecret(namespace=cluster.namespace, name=secret.name, data=data, labels=labels, annotations=annotations)
    return Step(
        wave=WAVE, cluster=cluster.host, verb="apply", object=f"Secret {cluster.namespace}/{secret.name}", why=why, undo=UNDO, action=action
    )


def _move_ownership(binding: Binding, cluster: ClusterFacts, item: PeerObject, secret: PeerSecretFacts, keys: list[str]) -> Iterator[Step]:
    """Yield the write that makes the binding the only owner of the keys, without changing a value."""
    paths, ours = [data_key(key) for key in sorted(keys)], Owner(binding.manager, APPLY)
    held = sorted({str(owner) for path in paths for owner in owners(item.entries, path)} - {str(ours)})
    if not held:
        return
    entries = add_owner(remove_owners(item.entries, paths, but=ours), ours, paths, time=NOW)
    metadata = {"uid": secret.uid, "resourceVersion": secret.resource_version, "managedFields": entries}
    yield _patch(cluster, item, metadata, why=f"take {len(keys)} keys over from {', '.join(held)}: the owner changes, no value does")


def _users(binding: Binding, cluster: ClusterFacts, names: Mapping[str, str], released: list[PeerObject]) -> Iterator[Step]:
    """Yield steps for users.yaml: it stays as it is; the binding's users are recorded, and the marks of the tool removed."""
    item = next((item for item in peer_objects(cluster) if item.kind == "ConfigMap"), None)
    if item is None or cluster.users.problem:
        return
    ours = own_users(cluster, binding)
    noted = ours | ({user_for_name(name) for name in names.values()} & set(cluster.users.users))
    metadata: dict[str, Any] = {"annotations": {f"{USERS_ANNOTATION}/{binding.owner}": ",".join(sorted(noted))}} if noted != ours else {}
    if item in released:
        marks = _remove_marks(item)
        metadata = {"labels": marks["labels"], "annotations": {**metadata.get("annotations", {}), **marks["annotations"]}}
        path, owner = data_key("users.yaml"), Owner(binding.manager, UPDATE)
        if owners(item.entries, path) != (owner,) and item.entries:
            metadata["managedFields"] = add_owner(remove_owners(item.entries, [path], but=owner), owner, [path], time=NOW)
    if metadata:
        yield _users_patch(cluster, item, metadata, why="record which users belong to the links of this binding")


def _remove_marks(item: PeerObject) -> dict[str, Any]:
    """Return the metadata of a merge patch that removes the tools' marks."""
    return {
        "uid": item.facts.uid,
        "labels": {name: None for tool in item.tools for name in marks_in(tool, item.facts.labels)},
        "annotations": {name: None for tool in item.tools for name in marks_in(tool, item.facts.annotations)},
    }


def _alias_step(binding: Binding, cluster: ClusterFacts, memory: AdoptionRecord) -> Step | None:
    """Return the step that restores the tool's names of the peers' addresses, if its manifest removed them and no configuration has any."""
    workload = cluster.apiserver if cluster.runs_kvstoremesh else cluster.agent
    if workload is None or not memory.aliases or _in_configuration(cluster):
        return None
    existing = {alias.ip: alias for alias in workload.host_aliases}
    missing = {ip: names for ip, names in memory.aliases.items() if ip not in existing}
    if not missing:
        return None
    own = {ip: alias.hostnames for ip, alias in existing.items() if binding.manager in alias.managers}
    return Step(
        wave=WAVE,
        cluster=cluster.host,
        verb="apply",
        object=f"{workload.kind} {cluster.namespace}/{workload.name}",
        why="the peers' names resolve again: the tool's manifest held them before",
        disruption=f"rolling restart of {workload.kind} {workload.name} (host aliases are part of the pod template before Cilium 1.20)",
        undo=UNDO,
        action=ApplyHostAliases(
            namespace=cluster.namespace,
            kind=workload.kind,
            name=workload.name,
            aliases={**own, **missing},
            annotations={name: workload.annotations[name] for name in (moves_annotation(binding),) if name in workload.annotations},
        ),
    )


def _in_configuration(cluster: ClusterFacts) -> bool:
    return any("cilium-host-aliases:" in (facts.config or "") for secret in peer_secrets(cluster) for facts in secret.keys.values())


def _users_patch(cluster: ClusterFacts, item: PeerObject, metadata: Mapping[str, Any], *, why: str) -> Step:
    version = {"uid": item.facts.uid, "resourceVersion": item.facts.resource_version}
    return _patch(cluster, item, {**version, **metadata}, why=why)


def _patch(cluster: ClusterFacts, item: PeerObject, metadata: Mapping[str, Any], *, why: str) -> Step:
    return patch_step(WAVE, cluster, f"{item.kind} {item.name}", why=why, undo=UNDO, body={"metadata": dict(metadata)})

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The plan that makes a mesh of another tool this binding's, without a value that changes. Pure.

While a tool still holds the objects they are only prepared, so that they outlive its manifest, and what stands there is remembered.
Once it let go: first the ledger is rewritten (no value is touched), then the same values are applied under our name, then the marks of
the tool go. Each step finds out by itself whether it is still needed, so a run that broke off is completed by the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from .adopt import (
    USERS,
    Item,
    Memory,
    Stage,
    before,
    foreign_peers,
    items,
    memory_annotation,
    remembered,
    renders_users_always,
    secrets,
    stage_of,
    stays,
    tool_aliases,
)
from .adopt_findings import adopt_findings
from .facts import ClusterFacts, PeerSecretFacts
from .findings import Finding
from .gitops import STAY, marks_in
from .managed_fields import APPLY, UPDATE, Owner, data_key, given_to, owners, taken_from_all
from .model import Binding, Mesh
from .ownership import labels_to_apply, own_keys, peers_annotation, write_peers, written_peers
from .peer_keys import as_it_is
from .plan_users import own_users
from .relied_on import relied_on
from .steps import NOW, USERS_ANNOTATION, ApiWrite, ApplyHostAliases, ApplySecret, Plan, Step
from .trust import user_for_name

WAVE: Final = 1
UNDO: Final = "playbook edge_portal.cilium_mesh.hand_back gives it back"


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """What adopting comes to: the plan, and how far each cluster is before it."""

    plan: Plan
    stages: Mapping[str, Stage]


def linked_names(mesh: Mesh, facts: Mapping[str, ClusterFacts], host: str) -> dict[str, str]:
    """Inventory name -> cluster name of the peers of ``host`` that answered."""
    return {peer: facts[peer].name for peer in mesh.peers(host) if peer in facts and facts[peer].name}


def plan_adopt(mesh: Mesh, facts: Mapping[str, ClusterFacts], now: datetime, *, handed_over: bool = False) -> Adoption:
    """What has to be written so that the keys of the members' links are this binding's.

    :param now: not used; as in the other planners.
    :param handed_over: the user says that no tool renders the objects any more.
    """
    steps: list[Step] = []
    problems: list[Finding] = []
    stages: dict[str, Stage] = {}
    for host in mesh.clusters:
        if host not in facts:
            continue
        cluster, names = facts[host], linked_names(mesh, facts, host)
        stage = stages[host] = stage_of(mesh.binding, cluster, names, handed_over=handed_over)
        problems.extend(adopt_findings(mesh.binding, cluster, names, stage, handed_over=handed_over))
        planner = _prepare if stage is Stage.HELD else _take
        steps.extend(planner(mesh.binding, cluster, names))
    plan = Plan(
        manager=mesh.binding.manager,
        steps=tuple(steps),
        problems=tuple(problems),
        options={"purpose": "adopt", "handedOver": handed_over},
        relied_on={host: relied_on(facts[host]) for host in stages},
    )
    return Adoption(plan=plan, stages=stages)


def _prepare(binding: Binding, cluster: ClusterFacts, names: Mapping[str, str]) -> Iterator[Step]:
    """Objects that a tool holds: they stay when its manifest goes."""
    why = "the object outlives the manifest of the tool that made it, and what stands there is remembered"
    memory = _memory(binding, cluster, names)
    for item in items(cluster):
        needed = {tool.stay[0]: tool.stay[1] for tool in item.tools if tool.stay and not stays(tool, item.facts.annotations)}
        if isinstance(item.facts, PeerSecretFacts):
            step = _hold(binding, cluster, item.facts, {}, memory, adopt=False, more=needed, why=why)
            if step is not None:
                yield step
        elif needed:
            yield _users_patch(cluster, item, {"annotations": needed}, why=why)


def _take(binding: Binding, cluster: ClusterFacts, names: Mapping[str, str]) -> Iterator[Step]:
    """Objects that nobody renders any more: keys, users and names become the binding's."""
    memory = _memory(binding, cluster, names)
    alias = _alias_step(binding, cluster, memory)
    if alias is not None:  # before Cilium 1.20 the names went with the tool; every second counts
        yield alias
    adopted = {secret.name: foreign_peers(binding, secret, names) for secret in secrets(cluster)}
    released = [item for item in items(cluster) if item.tools and not (item.kind == "ConfigMap" and renders_users_always(cluster))]
    for item in items(cluster):
        if isinstance(item.facts, PeerSecretFacts):
            peers = adopted[item.name]
            yield from _ledger(binding, cluster, item, item.facts, [key for keys in peers.values() for key in keys])
            kept = memory if released or any(adopted.values()) else Memory()
            why = f"hold the links to {', '.join(peers)} as they are" if peers else "remember what stood there before"
            step = _hold(binding, cluster, item.facts, names, kept, adopt=True, why=why)
            if step is not None:
                yield step
    yield from _users(binding, cluster, names, released)
    for item in released:
        if item.kind == "Secret":
            marks = _marks_away(item)
            yield _patch(cluster, item, marks, why="nobody but this binding manages the object any more: the marks of the tool go")


def _memory(binding: Binding, cluster: ClusterFacts, names: Mapping[str, str]) -> Memory:
    """What is remembered already, and what stands there now."""
    known, objects = remembered(binding, cluster), {}
    for item in items(cluster):
        keys = ["users.yaml"]
        if isinstance(item.facts, PeerSecretFacts):
            keys = [key for found in foreign_peers(binding, item.facts, names).values() for key in found]
        objects[item.title] = before(item, keys, known.objects.get(item.title))
    return Memory(objects=objects, aliases=known.aliases or tool_aliases(cluster))


def _part(secret: PeerSecretFacts, memory: Memory) -> str:
    """What this Secret remembers: itself, and cilium-clustermesh what is not of a Secret too."""
    if not memory.objects:
        return ""
    first = secret.name == "cilium-clustermesh"
    titles = {f"Secret {secret.name}"} | ({f"ConfigMap {USERS}"} if first else set())
    return Memory(
        objects={title: row for title, row in memory.objects.items() if title in titles}, aliases=memory.aliases if first else {}
    ).text


def _hold(
    binding: Binding,
    cluster: ClusterFacts,
    secret: PeerSecretFacts,
    names: Mapping[str, str],
    memory: Memory,
    *,
    adopt: bool,
    more: Mapping[str, str] | None = None,
    why: str,
) -> Step | None:
    """Server-side apply of what is ours in the Secret, all values as they are; None if it is so already.

    :param adopt: with the keys of the peers ``names`` that are not ours alone yet.
    :param more: annotations to add.
    """
    own = own_keys(secret, binding.manager)
    adopted = {key for keys in foreign_peers(binding, secret, names).values() for key in keys} if adopt else set()
    data = {key: as_it_is(cluster, secret, key).recipe for key in sorted(own | adopted)}
    known = written_peers(secret, binding.owner) | {host: name for host, name in names.items() if name in data}
    note = memory_annotation(binding)
    part = secret.annotations.get(note) or _part(secret, memory)
    annotations = {
        **({peers_annotation(binding): write_peers(known)} if known else {}),
        **({note: part} if part else {}),
        **({key: value for key, value in secret.annotations.items() if key in STAY} if note in secret.annotations else {}),
        **(more or {}),
    }
    if not adopted and annotations.items() <= secret.annotations.items():
        return None
    labels = labels_to_apply(binding, secret)
    action = ApplySecret(namespace=cluster.namespace, name=secret.name, data=data, labels=labels, annotations=annotations)
    return Step(
        wave=WAVE, cluster=cluster.host, verb="apply", object=f"Secret {cluster.namespace}/{secret.name}", why=why, undo=UNDO, action=action
    )


def _ledger(binding: Binding, cluster: ClusterFacts, item: Item, secret: PeerSecretFacts, keys: list[str]) -> Iterator[Step]:
    """The keys become ours alone, in one write that touches no value."""
    paths, ours = [data_key(key) for key in sorted(keys)], Owner(binding.manager, APPLY)
    held = sorted({str(owner) for path in paths for owner in owners(item.entries, path)} - {str(ours)})
    if not held:
        return
    entries = given_to(taken_from_all(item.entries, paths, but=ours), ours, paths, time=NOW)
    metadata = {"uid": secret.uid, "resourceVersion": secret.resource_version, "managedFields": entries}
    yield _patch(cluster, item, metadata, why=f"take {len(keys)} keys over from {', '.join(held)}: who owns them changes, no value does")


def _users(binding: Binding, cluster: ClusterFacts, names: Mapping[str, str], released: list[Item]) -> Iterator[Step]:
    """users.yaml stays as it is; which of its users are this binding's is noted, and the marks of the tool go."""
    item = next((item for item in items(cluster) if item.kind == "ConfigMap"), None)
    if item is None or cluster.users.problem:
        return
    ours = own_users(cluster, binding)
    noted = ours | ({user_for_name(name) for name in names.values()} & set(cluster.users.users))
    metadata: dict[str, Any] = {"annotations": {f"{USERS_ANNOTATION}/{binding.owner}": ",".join(sorted(noted))}} if noted != ours else {}
    if item in released:
        marks = _marks_away(item)
        metadata = {"labels": marks["labels"], "annotations": {**metadata.get("annotations", {}), **marks["annotations"]}}
        path, owner = data_key("users.yaml"), Owner(binding.manager, UPDATE)
        if owners(item.entries, path) != (owner,) and item.entries:
            metadata["managedFields"] = given_to(taken_from_all(item.entries, [path], but=owner), owner, [path], time=NOW)
    if metadata:
        yield _users_patch(cluster, item, metadata, why="note which users belong to the links of this binding")


def _marks_away(item: Item) -> dict[str, Any]:
    """Metadata of a merge patch that takes the tools' marks away."""
    return {
        "uid": item.facts.uid,
        "labels": {name: None for tool in item.tools for name in marks_in(tool, item.facts.labels)},
        "annotations": {name: None for tool in item.tools for name in marks_in(tool, item.facts.annotations)},
    }


def _alias_step(binding: Binding, cluster: ClusterFacts, memory: Memory) -> Step | None:
    """The names that the tool gave to the peers' addresses, where its manifest took them away and the configuration does not hold them."""
    workload = cluster.apiserver if cluster.runs_kvstoremesh else cluster.agent
    if workload is None or not memory.aliases or _in_configuration(cluster):
        return None
    there = {alias.ip: alias for alias in workload.host_aliases}
    missing = {ip: names for ip, names in memory.aliases.items() if ip not in there}
    if not missing:
        return None
    own = {ip: alias.hostnames for ip, alias in there.items() if binding.manager in alias.managers}
    return Step(
        wave=WAVE,
        cluster=cluster.host,
        verb="apply",
        object=f"{workload.kind} {cluster.namespace}/{workload.name}",
        why="the peers' names resolve again: they went with the tool's manifest",
        disruption=f"rolling restart of {workload.kind} {workload.name} (host aliases are part of the pod template before Cilium 1.20)",
        undo=UNDO,
        action=ApplyHostAliases(namespace=cluster.namespace, kind=workload.kind, name=workload.name, aliases={**own, **missing}),
    )


def _in_configuration(cluster: ClusterFacts) -> bool:
    return any("cilium-host-aliases:" in (facts.config or "") for secret in secrets(cluster) for facts in secret.keys.values())


def _users_patch(cluster: ClusterFacts, item: Item, metadata: Mapping[str, Any], *, why: str) -> Step:
    version = {"uid": item.facts.uid, "resourceVersion": item.facts.resource_version}
    return _patch(cluster, item, {**version, **metadata}, why=why)


def _patch(cluster: ClusterFacts, item: Item, metadata: Mapping[str, Any], *, why: str) -> Step:
    collection = {"Secret": "secrets", "ConfigMap": "configmaps"}[item.kind]
    make = partial(Step, wave=WAVE, cluster=cluster.host, verb="patch", object=f"{item.kind} {cluster.namespace}/{item.name}")
    path = f"/api/v1/namespaces/{cluster.namespace}/{collection}/{item.name}"
    return make(why=why, undo=UNDO, action=ApiWrite(method="merge", path=path, body={"metadata": dict(metadata)}))

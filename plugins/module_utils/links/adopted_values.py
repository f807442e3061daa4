# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Adoption of a mesh that another tool made: ownership of its objects, stage of the hand-over, and the values to restore. Pure.

Adoption has two stages. While a tool still renders the objects that hold peers, they are annotated so that they outlive its manifest; the
user then stops the tool (``clustermesh.config.enabled=false``). After that the binding takes over the keys as they are.
The earlier ownership is recorded in an annotation of one Secret, so that it can be handed back.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from ..base.json_reader import load_json
from ..mesh.binding.model import MANAGER_DOMAIN, Binding
from ..mesh.endpoints.addresses import is_ip
from ..mesh.endpoints.etcd_config import keys_of
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts, RemoteUsersFacts
from ..mesh.ownership.gitops import HELM_NAME, KEEP_ANNOTATIONS, TOOLS, Tool, marked_by, marks_in
from ..mesh.ownership.managed_fields import UPDATE, Entry, Owner, annotation, data_key, entries_of, owners
from ..mesh.ownership.marks import ADOPTED_ANNOTATION
from ..mesh.ownership.objects import made_by_bindings
from ..mesh.versions.minors import cilium_version, holds

USERS: Final = "clustermesh-remote-users"
ItemFacts: TypeAlias = PeerSecretFacts | RemoteUsersFacts

_HOST = re.compile(r"^- https://(\[[^\]\s]+\]|[^\[\]:/\s]+)", re.MULTILINE)


class AdoptionStage(StrEnum):
    """Stage of a cluster's adoption."""

    HELD = "held"  # a tool still owns the objects: they are prepared, and the user has to hand them over
    FREE = "free"  # no tool renders them any more, and the binding does not own all of them yet
    DONE = "done"  # the binding owns all of them


@dataclass(frozen=True, kw_only=True)
class PeerObject:
    """One object that holds peers."""

    kind: str
    name: str
    facts: ItemFacts
    entries: tuple[Entry, ...]  # its managedFields

    @property
    def title(self) -> str:
        """Kind and name, e.g. "Secret cilium-clustermesh"."""
        return f"{self.kind} {self.name}"

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Tools that own it by its marks. A binding that makes an object may mark it for Helm, which owns it only once it wrote it."""
        if made_by_bindings(self.facts.managers, self.facts.labels):
            return ()
        return marked_by(self.facts.labels, self.facts.annotations)


@dataclass(frozen=True, kw_only=True)
class ObjectRecord:
    """Ownership and marks of one object before the binding adopted it."""

    manager: str = ""  # field manager of the keys of the peers, and its operation
    operation: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)  # marks of tools
    annotations: Mapping[str, str] = field(default_factory=dict)
    added: tuple[str, ...] = ()  # annotations that this binding added so that the object stays

    @property
    def owner(self) -> Owner | None:
        """Owner of the keys of the peers before the adoption; None if it is not recorded."""
        return Owner(self.manager, self.operation) if self.manager else None


@dataclass(frozen=True, kw_only=True)
class AdoptionRecord:
    """Record for handing back: the objects by "Secret cilium-clustermesh", and the host aliases of the tool, address -> names.

    Each Secret keeps its own part in an annotation; cilium-clustermesh also keeps the parts that belong to no Secret.
    """

    objects: Mapping[str, ObjectRecord] = field(default_factory=dict)
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Text of the annotation."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def peer_objects(cluster: ClusterFacts) -> tuple[PeerObject, ...]:
    """Return the existing objects that hold peers; cilium-clustermesh, which every chart and every tool makes, first."""
    found: tuple[tuple[str, str, ItemFacts], ...] = (
        ("Secret", cluster.clustermesh.name, cluster.clustermesh),
        ("Secret", cluster.kvstoremesh.name, cluster.kvstoremesh),
        ("ConfigMap", USERS, cluster.users),
    )
    return tuple(
        PeerObject(kind=kind, name=name, facts=facts, entries=tuple(entries_of(cluster.writers.get(f"{kind} {name}", ()))))
        for kind, name, facts in found
        if facts.present
    )


def peer_secrets(cluster: ClusterFacts) -> tuple[PeerSecretFacts, ...]:
    """Return the existing Secrets that hold peers."""
    return tuple(secret for secret in (cluster.clustermesh, cluster.kvstoremesh) if secret.present)


def record_annotation(binding: Binding) -> str:
    """Return the name of the annotation with the record of the adoption."""
    return f"{ADOPTED_ANNOTATION}/{binding.owner}"


def adoption_record(binding: Binding, cluster: ClusterFacts) -> AdoptionRecord:
    """Return the record of the adoption; empty if nothing was ever adopted. An annotation that is not valid counts as none."""
    objects: dict[str, ObjectRecord] = {}
    aliases: dict[str, tuple[str, ...]] = {}
    for secret in peer_secrets(cluster):
        try:
            memory = _parse_record(load_json(secret.annotations.get(record_annotation(binding), "{}")))
        except (ValueError, TypeError, AttributeError):
            continue
        objects.update(memory.objects)
        aliases.update(memory.aliases)
    return AdoptionRecord(objects=objects, aliases=aliases)


def annotations_to_keep(binding: Binding, secret: PeerSecretFacts) -> dict[str, str]:
    """Return the annotations of the Secret to send again when the binding writes it, since server-side apply withdraws all others."""
    name = record_annotation(binding)
    if name not in secret.annotations:
        return {}
    return {key: value for key, value in secret.annotations.items() if key == name or key in KEEP_ANNOTATIONS}


def foreign_peers(binding: Binding, secret: PeerSecretFacts, names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return inventory name -> keys of that peer that this binding does not own alone. Keys of other bindings are left out.

    :param names: inventory name -> cluster name of the peers that the mesh links to this cluster.
    """
    found = {}
    for host, name in names.items():
        keys = [key for key in keys_of(name) if key in secret.keys and _adoptable(secret.keys[key].managers, binding)]
        if keys:
            found[host] = tuple(keys)
    return found


def unknown_peers(cluster: ClusterFacts, secret: PeerSecretFacts, names: Iterable[str]) -> tuple[str, ...]:
    """Return the cluster names in the Secret that the mesh does not know, and that no binding wrote."""
    known = {cluster.name, *names}
    return tuple(
        key
        for key, facts in secret.keys.items()
        if facts.config is not None and key not in known and not any(m.startswith(f"{MANAGER_DOMAIN}/") for m in facts.managers)
    )


def renders_users_always(cluster: ClusterFacts) -> bool:
    """Return whether the chart renders users.yaml for any value of ``clustermesh.config.enabled``, so that Helm never releases it."""
    return cluster.users_enabled and not holds("remote_users_need_config", cilium_version(cluster))


def owning_tools(cluster: ClusterFacts) -> tuple[Tool, ...]:
    """Return every tool that has to release the objects, each once."""
    held = (
        tool for item in peer_objects(cluster) if not (item.kind == "ConfigMap" and renders_users_always(cluster)) for tool in item.tools
    )
    return tuple(dict.fromkeys(held))


def tool_aliases(cluster: ClusterFacts) -> dict[str, tuple[str, ...]]:
    """Return the host aliases of peers that the owner of the Secrets renders: address -> names.

    Charts render them only with ``clustermesh.config.enabled=true`` (templates/clustermesh-apiserver/deployment.yaml and
    cilium-agent/daemonset.yaml, 1.14 to 1.20), so while there are some, the tool has not released the objects.
    """
    managers = {owner.manager for item in peer_objects(cluster) for owner in owners(item.entries, annotation(HELM_NAME))}
    managers |= {manager for tool in owning_tools(cluster) for manager in tool.managers}
    names = set(_dialled(cluster))
    return {
        alias.ip: alias.hostnames
        for workload in (cluster.apiserver, cluster.agent)
        for alias in (workload.host_aliases if workload else ())
        if managers & set(alias.managers) and names & set(alias.hostnames)
    }


def adoption_stage(binding: Binding, cluster: ClusterFacts, names: Mapping[str, str], *, handed_over: bool) -> AdoptionStage:
    """Return the stage of the cluster's adoption.

    :param names: as in ``foreign_peers``.
    :param handed_over: the user states that the tools released the objects. Observed facts outweigh it: see ``tool_aliases``.
    """
    if owning_tools(cluster) and not _released(binding, cluster, handed_over):
        return AdoptionStage.HELD
    foreign = any(foreign_peers(binding, secret, names) for secret in peer_secrets(cluster))
    return AdoptionStage.FREE if foreign or owning_tools(cluster) else AdoptionStage.DONE


def record_object(item: PeerObject, keys: Iterable[str], known: ObjectRecord | None) -> ObjectRecord:
    """Return the record of an object, completed with the record ``known`` from an earlier run."""
    facts, made = item.facts, known or ObjectRecord()
    labels = {k: v for tool in item.tools for k, v in marks_in(tool, facts.labels).items()}
    annotations = {k: v for tool in item.tools for k, v in marks_in(tool, facts.annotations).items()}
    owner = made.owner or majority_owner(item, keys)
    needed = {tool.stay[0] for tool in item.tools if tool.stay}
    return ObjectRecord(
        manager=owner.manager if owner else "",
        operation=owner.operation if owner else "",
        labels={**labels, **made.labels},
        annotations={**annotations, **made.annotations},
        added=made.added if known else tuple(sorted(needed - set(facts.annotations))),
    )


def majority_owner(item: PeerObject, keys: Iterable[str]) -> Owner | None:
    """Return the owner of most of the keys, or else of the tool's marks; no binding counts."""
    counted: Counter[Owner] = Counter()
    for key in keys:
        counted.update(owner for owner in owners(item.entries, data_key(key)) if not owner.manager.startswith(f"{MANAGER_DOMAIN}/"))
    counted.update(dict.fromkeys(owners(item.entries, annotation(HELM_NAME)), 0))
    if counted:
        return counted.most_common(1)[0][0]
    if isinstance(item.facts, PeerSecretFacts):
        names = Counter(m for key in keys for m in item.facts.keys[key].managers if not m.startswith(f"{MANAGER_DOMAIN}/"))
        return Owner(names.most_common(1)[0][0], UPDATE) if names else None
    return None


def outlives_manifest(tool: Tool, annotations: Mapping[str, str]) -> bool:
    """Return whether the object outlives the tool's manifest."""
    if tool.stay is None:
        return True
    name, value = tool.stay
    return value in (part.strip() for part in annotations.get(name, "").split(","))


def _released(binding: Binding, cluster: ClusterFacts, handed_over: bool) -> bool:
    if tool_aliases(cluster):
        return False
    gone = {name for names in adoption_record(binding, cluster).aliases.values() for name in names}
    # The recorded aliases are gone and the peers are not: an upgrade with config.enabled=true would have kept or removed both.
    return handed_over or bool(gone and gone <= set(_dialled(cluster)))


def _dialled(cluster: ClusterFacts) -> Iterator[str]:
    """Yield the host names in the configurations of peers."""
    for secret in peer_secrets(cluster):
        for facts in secret.keys.values():
            yield from _HOST.findall(facts.config or "")


def _adoptable(managers: tuple[str, ...], binding: Binding) -> bool:
    others = [manager for manager in managers if manager != binding.manager]
    return managers != (binding.manager,) and not any(manager.startswith(f"{MANAGER_DOMAIN}/") for manager in others)


def _parse_record(data: Any) -> AdoptionRecord:
    """Parse the record of an adoption: marks of tools, annotations that keep objects, addresses. Anything else is left out."""
    marks = {name for tool in TOOLS for name in tool.marks}
    objects = {
        str(title): ObjectRecord(
            manager=str(row.get("manager", "")),
            operation=str(row.get("operation", "")),
            labels={k: str(v) for k, v in (row.get("labels") or {}).items() if k in marks},
            annotations={k: str(v) for k, v in (row.get("annotations") or {}).items() if k in marks},
            added=tuple(name for name in row.get("added") or () if name in KEEP_ANNOTATIONS),
        )
        for title, row in (data.get("objects") or {}).items()
    }
    aliases = {ip: tuple(map(str, names)) for ip, names in (data.get("aliases") or {}).items() if is_ip(ip)}
    return AdoptionRecord(objects=objects, aliases=aliases)

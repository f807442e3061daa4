# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A mesh that another tool made, on its way to a binding: what is whose, how far the hand-over is, and what to remember. Pure.

The way has two stages. While a tool still renders the objects that hold peers, they are annotated so that they outlive its manifest; the
user then stops the tool (``clustermesh.config.enabled=false``). After that the keys become the binding's, as they are.

What stood there before is remembered in an annotation of one Secret, for the way back.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from .endpoints import is_ip
from .facts import ClusterFacts, PeerSecretFacts, RemoteUsersFacts
from .gitops import HELM_NAME, STAY, TOOLS, Tool, marked_by, marks_in
from .managed_fields import UPDATE, Entry, Owner, annotation, data_key, entries_of, owners
from .model import MANAGER_DOMAIN, Binding
from .peers import keys_of
from .steps import ADOPTED_ANNOTATION
from .versions import cilium_version, holds

USERS: Final = "clustermesh-remote-users"
ItemFacts: TypeAlias = PeerSecretFacts | RemoteUsersFacts

_HOST = re.compile(r"^- https://(\[[^\]\s]+\]|[^\[\]:/\s]+)", re.MULTILINE)


class Stage(StrEnum):
    """How far a cluster is on its way."""

    HELD = "held"  # a tool still owns the objects: they are prepared, and the user has to hand them over
    FREE = "free"  # nobody renders them any more, and not all is the binding's yet
    DONE = "done"  # nothing of it belongs to anybody else


@dataclass(frozen=True, kw_only=True)
class Item:
    """One object that holds peers."""

    kind: str
    name: str
    facts: ItemFacts
    entries: tuple[Entry, ...]  # its ledger

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools whose marks it carries."""
        return marked_by(self.facts.labels, self.facts.annotations)


@dataclass(frozen=True, kw_only=True)
class Before:
    """One object before the binding took over."""

    manager: str = ""  # field manager of the keys of the peers, and how it held them
    operation: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)  # marks of tools
    annotations: Mapping[str, str] = field(default_factory=dict)
    added: tuple[str, ...] = ()  # annotations that this binding added so that the object stays

    @property
    def owner(self) -> Owner | None:
        return Owner(self.manager, self.operation) if self.manager else None


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What the way back needs: the objects by "Secret cilium-clustermesh", and the host aliases of the tool, address -> names.

    Each Secret keeps its own part in an annotation; cilium-clustermesh keeps what is not of a Secret too.
    """

    objects: Mapping[str, Before] = field(default_factory=dict)
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def items(cluster: ClusterFacts) -> tuple[Item, ...]:
    """The objects that hold peers and that exist; cilium-clustermesh, which every chart and every tool makes, first."""
    found: tuple[tuple[str, str, ItemFacts], ...] = (
        ("Secret", cluster.clustermesh.name, cluster.clustermesh),
        ("Secret", cluster.kvstoremesh.name, cluster.kvstoremesh),
        ("ConfigMap", USERS, cluster.users),
    )
    return tuple(
        Item(kind=kind, name=name, facts=facts, entries=tuple(entries_of(cluster.writers.get(f"{kind} {name}", ()))))
        for kind, name, facts in found
        if facts.present
    )


def secrets(cluster: ClusterFacts) -> tuple[PeerSecretFacts, ...]:
    return tuple(secret for secret in (cluster.clustermesh, cluster.kvstoremesh) if secret.present)


def memory_annotation(binding: Binding) -> str:
    return f"{ADOPTED_ANNOTATION}/{binding.owner}"


def remembered(binding: Binding, cluster: ClusterFacts) -> Memory:
    """What stood there before; empty where nothing was ever adopted. A text that somebody spoiled counts as none."""
    objects: dict[str, Before] = {}
    aliases: dict[str, tuple[str, ...]] = {}
    for secret in secrets(cluster):
        try:
            memory = _memory(json.loads(secret.annotations.get(memory_annotation(binding), "{}")))
        except (ValueError, TypeError, AttributeError):
            continue
        objects.update(memory.objects)
        aliases.update(memory.aliases)
    return Memory(objects=objects, aliases=aliases)


def carried(binding: Binding, secret: PeerSecretFacts) -> dict[str, str]:
    """Annotations of the Secret that stay when the binding writes it again: server-side apply withdraws what is not sent."""
    name = memory_annotation(binding)
    if name not in secret.annotations:
        return {}
    return {key: value for key, value in secret.annotations.items() if key == name or key in STAY}


def foreign_peers(binding: Binding, secret: PeerSecretFacts, names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Inventory name -> keys of that peer that are not this binding's alone. Keys of other bindings are left out: they are theirs.

    :param names: inventory name -> cluster name of the peers that the mesh links to this cluster.
    """
    found = {}
    for host, name in names.items():
        keys = [key for key in keys_of(name) if key in secret.keys and _adoptable(secret.keys[key].managers, binding)]
        if keys:
            found[host] = tuple(keys)
    return found


def strangers(cluster: ClusterFacts, secret: PeerSecretFacts, names: Iterable[str]) -> tuple[str, ...]:
    """Cluster names in the Secret that the mesh does not know, and that no binding wrote."""
    known = {cluster.name, *names}
    return tuple(
        key
        for key, facts in secret.keys.items()
        if facts.config is not None and key not in known and not any(m.startswith(f"{MANAGER_DOMAIN}/") for m in facts.managers)
    )


def renders_users_always(cluster: ClusterFacts) -> bool:
    """Does the chart render users.yaml whatever ``clustermesh.config.enabled`` says? Then Helm never lets go of it."""
    return cluster.users_enabled and not holds("remote_users_need_config", cilium_version(cluster))


def tools_of(cluster: ClusterFacts) -> tuple[Tool, ...]:
    """Every tool that has to let go, each once."""
    held = (tool for item in items(cluster) if not (item.kind == "ConfigMap" and renders_users_always(cluster)) for tool in item.tools)
    return tuple(dict.fromkeys(held))


def tool_aliases(cluster: ClusterFacts) -> dict[str, tuple[str, ...]]:
    """Host aliases of peers that the tool which owns the Secrets renders: address -> names.

    Charts render them only with ``clustermesh.config.enabled=true`` (templates/clustermesh-apiserver/deployment.yaml and
    cilium-agent/daemonset.yaml, 1.14 to 1.20), so where there are some, the tool did not let go.
    """
    managers = {owner.manager for item in items(cluster) for owner in owners(item.entries, annotation(HELM_NAME))}
    managers |= {manager for tool in tools_of(cluster) for manager in tool.managers}
    names = set(_dialled(cluster))
    return {
        alias.ip: alias.hostnames
        for workload in (cluster.apiserver, cluster.agent)
        for alias in (workload.host_aliases if workload else ())
        if managers & set(alias.managers) and names & set(alias.hostnames)
    }


def stage_of(binding: Binding, cluster: ClusterFacts, names: Mapping[str, str], *, handed_over: bool) -> Stage:
    """How far the cluster is.

    :param names: as in ``foreign_peers``.
    :param handed_over: the user says that the tools let go. What can be seen outweighs it: see ``tool_aliases``.
    """
    if tools_of(cluster) and not _released(binding, cluster, handed_over):
        return Stage.HELD
    foreign = any(foreign_peers(binding, secret, names) for secret in secrets(cluster))
    return Stage.FREE if foreign or tools_of(cluster) else Stage.DONE


def before(item: Item, keys: Iterable[str], known: Before | None) -> Before:
    """What to remember of an object, with what is known of it already."""
    facts, made = item.facts, known or Before()
    labels = {k: v for tool in item.tools for k, v in marks_in(tool, facts.labels).items()}
    annotations = {k: v for tool in item.tools for k, v in marks_in(tool, facts.annotations).items()}
    owner = made.owner or main_owner(item, keys)
    needed = {tool.stay[0] for tool in item.tools if tool.stay}
    return Before(
        manager=owner.manager if owner else "",
        operation=owner.operation if owner else "",
        labels={**labels, **made.labels},
        annotations={**annotations, **made.annotations},
        added=made.added if known else tuple(sorted(needed - set(facts.annotations))),
    )


def main_owner(item: Item, keys: Iterable[str]) -> Owner | None:
    """Who holds most of the keys, or else the tool's marks; no binding counts."""
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


def stays(tool: Tool, annotations: Mapping[str, str]) -> bool:
    """Does the object outlive the tool's manifest?"""
    if tool.stay is None:
        return True
    name, value = tool.stay
    return value in (part.strip() for part in annotations.get(name, "").split(","))


def _released(binding: Binding, cluster: ClusterFacts, handed_over: bool) -> bool:
    if tool_aliases(cluster):
        return False
    gone = {name for names in remembered(binding, cluster).aliases.values() for name in names}
    # Aliases that were there are gone, and the peers are still: an upgrade with config.enabled=true would have kept or taken both.
    return handed_over or bool(gone and gone <= set(_dialled(cluster)))


def _dialled(cluster: ClusterFacts) -> Iterator[str]:
    """Host names in the configurations of peers."""
    for secret in secrets(cluster):
        for facts in secret.keys.values():
            yield from _HOST.findall(facts.config or "")


def _adoptable(managers: tuple[str, ...], binding: Binding) -> bool:
    others = [manager for manager in managers if manager != binding.manager]
    return managers != (binding.manager,) and not any(manager.startswith(f"{MANAGER_DOMAIN}/") for manager in others)


def _memory(data: Any) -> Memory:
    """What is read back is what was written: marks of tools, annotations that keep objects, addresses. Anything else is left out."""
    marks = {name for tool in TOOLS for name in tool.marks}
    objects = {
        str(title): Before(
            manager=str(row.get("manager", "")),
            operation=str(row.get("operation", "")),
            labels={k: str(v) for k, v in (row.get("labels") or {}).items() if k in marks},
            annotations={k: str(v) for k, v in (row.get("annotations") or {}).items() if k in marks},
            added=tuple(name for name in row.get("added") or () if name in STAY),
        )
        for title, row in (data.get("objects") or {}).items()
    }
    aliases = {ip: tuple(map(str, names)) for ip, names in (data.get("aliases") or {}).items() if is_ip(ip)}
    return Memory(objects=objects, aliases=aliases)

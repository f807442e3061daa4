# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Drift of the keys that a binding wrote: which are gone or changed by another writer, and by which one. Pure.

An annotation on the same Secret records the peers that a binding wrote; managedFields has the present owner of a key. A change moves a
key into the changer's entry, with the time. Removing a key leaves no entry at all (apimachinery, managedfieldsupdater.go: only fields
that were set are recorded); then only other writes of the same tool at the same time show which one it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..findings.finding import Finding, Severity
from ..findings.wording import finding, lines
from ..mesh.binding.model import MANAGER_DOMAIN, Binding
from ..mesh.endpoints.etcd_config import DIRECTORY, keys_of
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts, RemoteUsersFacts
from ..mesh.ownership.gitops import HELM_NAME, Tool, marked_by, reconciler
from ..mesh.ownership.managed_fields import annotation, data_key, entries_of, owners
from ..mesh.ownership.marks import USERS_ANNOTATION
from ..mesh.ownership.objects import written_peers
from .adopted_values import USERS

SHOWN: Final = 8


@dataclass(frozen=True, kw_only=True, order=True)
class LastWriter:
    """Last write of another writer to an object."""

    time: str  # RFC 3339
    manager: str
    operation: str
    object: str  # "Secret cilium-kvstoremesh"
    helm: bool = False  # the manager under which the object's Helm release is written

    def __str__(self) -> str:
        return f"{self.manager} ({self.operation}) wrote {self.object} at {self.time or 'an unknown time'}"


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Keys of one object that are gone, or differ from what this binding wrote."""

    object: str  # "Secret cilium-kvstoremesh"
    since: str  # this binding's own last write there, RFC 3339; "" unknown
    gone: tuple[str, ...] = ()  # keys, or users
    changed: tuple[str, ...] = ()  # keys that hold another writer's value now
    writers: tuple[LastWriter, ...] = ()  # writers that may have done it, newest first
    peers: tuple[str, ...] = field(default=())  # inventory names of the peers whose links are affected

    @property
    def tool(self) -> Tool | None:
        """Reconciling tool that did it, if the writers show one."""
        return next((tool for writer in self.writers if (tool := reconciler(writer.manager))), None)


Right: TypeAlias = Callable[[PeerSecretFacts, str, str], bool]


def drifts(binding: Binding, cluster: ClusterFacts, hosts: Iterable[str], right: Right | None = None) -> tuple[Drift, ...]:
    """Return the drift of this binding's keys and users in ``cluster``.

    :param hosts: inventory names of the peers that it is still to be linked to; drift of others does not matter.
    :param right: returns whether this key of the Secret, of the peer with this inventory name, holds the right value, by any writer.
    """
    linked = frozenset(hosts)
    secrets = (secret for secret in (cluster.kvstoremesh, cluster.clustermesh) if secret.present)
    found = [_secret_drift(binding, cluster, secret, linked, right or (lambda *_: False)) for secret in secrets]
    found.append(_users_drift(binding, cluster))
    return tuple(drift for drift in found if drift is not None)


def was_ours(secret: PeerSecretFacts, key: str, host: str, manager: str) -> bool:
    """Return whether this binding wrote the key for that peer, and another writer that is no binding changed it since.

    :param host: inventory name of the peer.
    :param manager: the binding's field manager.
    """
    facts = secret.keys.get(key)
    if facts is None or manager in facts.managers or any(m.startswith(f"{MANAGER_DOMAIN}/") for m in facts.managers):
        return False
    return host in written_peers(secret, manager.rpartition("/")[2])


def changed_finding(local: ClusterFacts, secret: PeerSecretFacts, peer: str, keys: Iterable[str], *, repair: bool = False) -> Finding:
    """Return CM-DRIFT-02: keys of this binding hold another writer's value. The planner and the check use the same finding."""
    named = sorted(keys)
    managers = {manager for key in named for manager in secret.keys[key].managers}
    writers = [writer for writer in local.writers.get(f"Secret {secret.name}", ()) if writer.manager in managers]
    entries = entries_of(writers)
    holders = {str(owner) for key in named for owner in owners(entries, data_key(key))} or managers
    when = f", last write there {max(writer.time for writer in writers)}" if writers else ""
    return finding(
        "CM-DRIFT-02",
        severity=Severity.REMEDIABLE if repair else Severity.BLOCKING,
        cluster=local.host,
        peer=peer,
        summary=f"Another writer changed {_join_names(named)} of {local.host}, which this binding wrote"
        + ("; connect writes it again" if repair else "; connect does not overwrite it"),
        evidence=f"Secret {local.namespace}/{secret.name}, keys {_join_names(named)}: "
        f"held by {_join_names(sorted(holders)) or 'no field manager'}{when}",
        fix=lines(
            "Undo the change at its source, or write exactly these keys again: repair: true (playbook connect: mesh_connect_repair: true).",
            "In a ClusterMeshBinding: repair, with reason and until.",
        ),
    )


def _secret_drift(binding: Binding, cluster: ClusterFacts, secret: PeerSecretFacts, linked: frozenset[str], right: Right) -> Drift | None:
    gone: dict[str, str] = {}
    changed: dict[str, str] = {}
    others = {key for key, facts in secret.keys.items() if binding.manager not in facts.managers}
    for host, name in written_peers(secret, binding.owner).items():
        if host not in linked:
            continue
        gone.update(dict.fromkeys(_missing(secret, name), host))
        if others:
            taken = (key for key in keys_of(name) if key in others and was_ours(secret, key, host, binding.manager))
            changed.update((key, host) for key in taken if not right(secret, key, host))
    if not gone and not changed:
        return None
    title = f"Secret {secret.name}"
    since = _own_time(cluster, title, binding.manager)
    return Drift(
        object=title,
        since=since,
        gone=tuple(sorted(gone)),
        changed=tuple(sorted(changed)),
        writers=_writers(cluster, title, secret, since, {m for key in changed for m in secret.keys[key].managers}),
        peers=tuple(dict.fromkeys((*gone.values(), *changed.values()))),
    )


def _missing(secret: PeerSecretFacts, name: str) -> Iterator[str]:
    """Yield the missing keys of a peer: its configuration, or the files that it names and that belong into the same Secret."""
    found = secret.keys.get(name)
    if found is None:
        yield name
    elif found.config is not None and f"{DIRECTORY}/{name}." in found.config:
        yield from (key for key in keys_of(name)[1:] if key not in secret.keys and f"{DIRECTORY}/{key}\n" in f"{found.config}\n")


def _users_drift(binding: Binding, cluster: ClusterFacts) -> Drift | None:
    facts = cluster.users
    noted = facts.annotations.get(f"{USERS_ANNOTATION}/{binding.owner}", "")
    gone = tuple(sorted({name for name in noted.split(",") if name} - set(facts.users)))
    if not facts.present or facts.problem or not gone:
        return None
    title = f"ConfigMap {USERS}"
    since = _own_time(cluster, title, binding.manager)
    entries = entries_of(cluster.writers.get(title, ()))
    holders = {owner.manager for owner in owners(entries, data_key("users.yaml"))} - {binding.manager}
    return Drift(object=title, since=since, gone=gone, writers=_writers(cluster, title, facts, since, holders))


def _own_time(cluster: ClusterFacts, title: str, manager: str) -> str:
    return max((w.time for w in cluster.writers.get(title, ()) if w.manager == manager), default="")


def _writers(
    cluster: ClusterFacts, title: str, facts: PeerSecretFacts | RemoteUsersFacts, since: str, holders: set[str]
) -> tuple[LastWriter, ...]:
    """Return the writers of the object since then, or the owners of changed keys; where a tool renders the object, its other writes too."""
    tools = marked_by(facts.labels, facts.annotations)
    helm = {owner.manager for owner in owners(entries_of(cluster.writers.get(title, ())), annotation(HELM_NAME))} if tools else set()
    trail = helm | {manager for tool in tools for manager in tool.managers}
    found = {
        LastWriter(time=w.time, manager=w.manager, operation=w.operation, object=where, helm=w.manager in helm)
        for where, entries in cluster.writers.items()
        for w in entries
        if not w.manager.startswith(f"{MANAGER_DOMAIN}/")
        and ((where == title and (w.manager in holders or w.time >= since)) or (w.manager in trail and w.time >= since))
    }
    here = {w for w in found if w.object == title}
    return (*sorted(here, reverse=True), *sorted(found - here, reverse=True)[:1])


def _join_names(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:SHOWN]) + (f" and {len(every) - SHOWN} more" if len(every) > SHOWN else "")

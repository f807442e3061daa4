# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Desired content of the two Secrets that name a cluster's peers, and the one write per Secret that updates it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from ..findings.finding import Finding
from ..findings.wording import finding
from ..mesh.binding.model import Binding
from ..mesh.endpoints.etcd_config import keys_of
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts
from ..mesh.ownership.objects import labels_to_apply, made_by_bindings, own_keys, peers_annotation, write_peers
from ..mesh.versions.minors import aliases_in_config, reader_version
from ..plan.steps import ApplySecret, DeleteObject, PlanOptions, Step
from .adopted_values import annotations_to_keep
from .drift import changed_finding, was_ours
from .peer_keys import DesiredKeys, Link, agents_keys, current_value, keys_for_peer, would_conflict

UNDO_CONNECTION = "playbook edge_portal.cilium_mesh.disconnect removes exactly these keys"
UNDO_WITHDRAWAL = "playbook edge_portal.cilium_mesh.connect writes the keys again"


MOST_BYTES_OF_SECRET = 1024 * 1024  # of all values together (Kubernetes API, core/v1 MaxSecretSize)
LARGEST_SHOWN = 3  # peers that the finding about a Secret names


@dataclass(frozen=True, kw_only=True)
class DesiredSecret:
    """All keys of the binding in one Secret. ``peers``: inventory name -> cluster name of the peers that ``data`` is about."""

    facts: PeerSecretFacts
    data: dict[str, DesiredKeys] = field(default_factory=dict)
    peers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PeerChanges:
    """Effect of a write on the peers of a Secret: inventory names of those added or rewritten, cluster names of those withdrawn."""

    written: tuple[str, ...]
    withdrawn: tuple[str, ...]


def desired_secrets(
    local: ClusterFacts, links: Iterable[Link], kept: Mapping[str, str], manager: str, options: PlanOptions, now: datetime
) -> tuple[DesiredSecret, DesiredSecret]:
    """Return cilium-kvstoremesh and cilium-clustermesh of ``local``, in the order in which they are written.

    :param kept: peers (inventory name -> cluster name) that were not observed: the keys that this binding wrote for them stay as they are.
    """
    kvstoremesh, agents = DesiredSecret(facts=local.kvstoremesh), DesiredSecret(facts=local.clustermesh)
    # Without kvstoremesh the agents dial the peers themselves, and no reader uses cilium-kvstoremesh.
    remote = kvstoremesh if local.runs_kvstoremesh else agents
    aliases = aliases_in_config(reader_version(local))
    for link in links:
        remote.data.update(keys_for_peer(link, remote.facts, manager, options, now, aliases=aliases))
        remote.peers[link.peer.host] = link.peer.name
    if local.runs_kvstoremesh:
        agents.data.update(agents_keys(local, kvstoremesh.peers.values()))
        agents.peers.update(kvstoremesh.peers)
    for secret in (kvstoremesh, agents):
        _keep(local, secret, kept, manager)
    return kvstoremesh, agents


def kept_secrets(local: ClusterFacts, kept: Mapping[str, str], manager: str) -> tuple[DesiredSecret, DesiredSecret]:
    """Return both Secrets with only the keys that this binding wrote earlier for the peers ``kept``.

    cilium-clustermesh comes first: agents disconnect before kvstoremesh removes their data.
    """
    agents, kvstoremesh = DesiredSecret(facts=local.clustermesh), DesiredSecret(facts=local.kvstoremesh)
    for secret in (agents, kvstoremesh):
        _keep(local, secret, kept, manager)
    return agents, kvstoremesh


def foreign_keys(local: ClusterFacts, desired: DesiredSecret, manager: str) -> Iterator[Finding]:
    """Yield findings about peers of which the plan would write a key that another writer owns with another value.

    Server-side apply would refuse that. Keys that this binding wrote and that were changed since get another finding: it may repair those
    (links/repair.py).
    """
    not_ours = {key for key, facts in desired.facts.keys.items() if would_conflict(facts, desired.data.get(key), manager)}
    for host, name in desired.peers.items() if not_ours else ():
        held = [key for key in keys_of(name) if key in not_ours]
        changed = [key for key in held if was_ours(desired.facts, key, host, manager)]
        if changed:
            yield changed_finding(local, desired.facts, host, changed)
        taken = [key for key in held if key not in changed]
        if not taken:
            continue
        others = sorted({m for key in taken for m in desired.facts.keys[key].managers} - {manager})
        yield finding(
            "CM-OWN-02",
            cluster=local.host,
            peer=host,
            summary=f"Secret {desired.facts.name} of {local.host} holds keys for the peer {name} that another writer owns",
            evidence=f"Secret {local.namespace}/{desired.facts.name}: {', '.join(taken)}; field managers: {', '.join(others) or 'unknown'}",
            fix="take the keys over (playbook edge_portal.cilium_mesh.adopt), or take the peer out with the tool that wrote it (Helm: "
            "clustermesh.config.clusters)",
        )


def oversized(local: ClusterFacts, desired: DesiredSecret, manager: str) -> Iterator[Finding]:
    """Yield a finding if the Secret would be larger than an API server accepts: then every write of it would be refused."""
    own = own_keys(desired.facts, manager)
    others = {key: facts.size for key, facts in desired.facts.keys.items() if key not in own and key not in desired.data}
    size = sum(others.values()) + sum(wanted.size for wanted in desired.data.values())
    if not desired.data or size <= MOST_BYTES_OF_SECRET:
        return
    by_peer = {host: sum(desired.data[key].size for key in keys_of(name) if key in desired.data) for host, name in desired.peers.items()}
    largest = sorted(by_peer, key=lambda host: (-by_peer[host], host))[:LARGEST_SHOWN]
    yield finding(
        "CM-CERT-12",
        cluster=local.host,
        summary=f"Secret {desired.facts.name} of {local.host} would have {size} bytes, and an API server accepts {MOST_BYTES_OF_SECRET}",
        evidence=f"Secret {local.namespace}/{desired.facts.name}: {len(desired.peers)} peers, the largest "
        + ", ".join(f"{host} with {by_peer[host]} bytes" for host in largest)
        + f"; {sum(others.values())} bytes are of other writers",
        fix="keep in ca.crt of Secret clustermesh-apiserver-server-cert of these peers only the CA that signed tls.crt, "
        "give the clusters one CA, or link fewer clusters (topology)",
    )


def secret_step(
    local: ClusterFacts, desired: DesiredSecret, binding: Binding, *, wave: int, why: Callable[[PeerChanges], str], disruption: str = ""
) -> Step | None:
    """Return the write that makes the binding's keys in the Secret equal to ``desired``; None if they are equal already.

    :param why: returns the reason in words; called only when there is something to write.
    """
    secret = desired.facts
    if not desired.data:
        return _withdrawal(local, desired, binding, wave=wave, why=why, disruption=disruption)
    action = ApplySecret(
        namespace=local.namespace,
        name=secret.name,
        data={key: wanted.recipe for key, wanted in desired.data.items()},
        labels=labels_to_apply(binding, secret),
        annotations={peers_annotation(binding): write_peers(desired.peers), **annotations_to_keep(binding, secret)},
    )
    own = own_keys(secret, binding.manager)
    if (
        own == set(desired.data)
        and all(secret.keys[key].digest == wanted.digest for key, wanted in desired.data.items())
        and action.labels.items() <= secret.labels.items()
        and action.annotations.items() <= secret.annotations.items()
    ):
        return None
    change = peer_changes(desired, binding.manager)
    return Step(
        wave=wave,
        cluster=local.host,
        verb="apply",
        object=f"Secret {local.namespace}/{secret.name}",
        why=why(change),
        disruption=disruption,
        undo=UNDO_WITHDRAWAL if change.withdrawn and not change.written else UNDO_CONNECTION,
        action=action,
    )


def peer_changes(desired: DesiredSecret, manager: str) -> PeerChanges:
    """Return the peers that a write of ``desired`` adds or rewrites, and those that it withdraws."""
    secret = desired.facts
    own = own_keys(secret, manager)
    if not own:
        return PeerChanges(written=tuple(desired.peers), withdrawn=())
    names = set(desired.peers.values())
    return PeerChanges(
        written=tuple(host for host, name in desired.peers.items() if _differs(name, desired, own)),
        withdrawn=tuple(sorted({key.partition(".")[0] for key in own} - names)),
    )


def _differs(name: str, desired: DesiredSecret, own: frozenset[str]) -> bool:
    observed = desired.facts.keys
    for key in keys_of(name):
        wanted = desired.data.get(key)
        if (key in own) != (wanted is not None) or (wanted and observed[key].digest != wanted.digest):
            return True
    return False


def _withdrawal(
    local: ClusterFacts, desired: DesiredSecret, binding: Binding, *, wave: int, why: Callable[[PeerChanges], str], disruption: str
) -> Step | None:
    secret = desired.facts
    own = own_keys(secret, binding.manager)
    where, reason = f"Secret {local.namespace}/{secret.name}", why(peer_changes(desired, binding.manager))
    step = partial(Step, wave=wave, cluster=local.host, object=where, why=reason, disruption=disruption, undo=UNDO_WITHDRAWAL)
    if own == set(secret.keys) and made_by_bindings(secret.managers, secret.labels):
        gone = DeleteObject(
            namespace=local.namespace, kind="Secret", name=secret.name, uid=secret.uid, resource_version=secret.resource_version
        )
        return step(verb="delete", action=gone)
    if not own and binding.manager not in secret.managers:
        return None
    return step(verb="apply", action=ApplySecret(namespace=local.namespace, name=secret.name))


def _keep(local: ClusterFacts, secret: DesiredSecret, kept: Mapping[str, str], manager: str) -> None:
    own = own_keys(secret.facts, manager)
    for host, name in kept.items():
        keys = [key for key in keys_of(name) if key in own]
        secret.data.update({key: current_value(local, secret.facts, key) for key in keys})
        if keys:
            secret.peers[host] = name

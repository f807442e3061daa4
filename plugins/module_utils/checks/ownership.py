# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of other writers of the objects that hold peers. Keys of other owners are never overwritten."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from ..findings.wording import cilium_cli, helm, kubectl, lines, listed, show, where
from ..links.drift import was_ours
from ..links.peer_keys import DesiredKeys, Link, agents_keys, keys_for_peer, would_conflict
from ..mesh.binding.model import MANAGER_DOMAIN
from ..mesh.endpoints.addresses import canonical_ip, is_ip
from ..mesh.endpoints.endpoint import MeshEndpoint
from ..mesh.endpoints.etcd_config import keys_of, valid_cluster_name
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts, RemoteUsersFacts
from ..mesh.ownership.gitops import ARGO, HELM_LABEL, HELM_NAME, HELM_NAMESPACE, KEEP, made_by_helm
from ..mesh.ownership.helm_upgrade import helm_upgrade
from ..mesh.ownership.objects import made_by_bindings, made_by_hand
from ..mesh.trust.link_trust import Trust
from ..mesh.versions.minors import aliases_in_config, aliases_in_template, cilium_version, reader_version
from ..plan.steps import PlanOptions
from .context import CheckContext
from .flaw import Flaw
from .registry import check


def _objects(facts: ClusterFacts) -> Iterator[tuple[str, str, PeerSecretFacts | RemoteUsersFacts]]:
    """Yield (kind, name, facts) of each object that connect writes and that exists."""
    for kind, name, item in (
        ("Secret", facts.clustermesh.name, facts.clustermesh),
        ("Secret", facts.kvstoremesh.name, facts.kvstoremesh),
        ("ConfigMap", "clustermesh-remote-users", facts.users),
    ):
        if item.present:
            yield kind, name, item


def _helm_objects(facts: ClusterFacts, *, kept: bool) -> list[tuple[str, str]]:
    """Return (kind, name) of the objects that Helm owns, with or without the resource policy "keep".

    A ConfigMap that a binding, or a user with the commands of CM-USER-01, made has Helm's marks so that Helm can take it over, and is
    not Helm's until that happened.
    """
    return [
        (kind, name)
        for kind, name, item in _objects(facts)
        if made_by_helm(item.labels, item.annotations)
        and not made_by_bindings(item.managers, item.labels)
        and not made_by_hand(item.managers)
        and (item.annotations.get(KEEP) == "keep") is kept
    ]


@check("CM-OWN-01")
def peer_objects_are_not_owned_by_helm(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report objects with peers that a Helm upgrade changes or deletes.

    What an upgrade with config.enabled=true does depends on the case (mesh/ownership/helm_upgrade.py); one with false deletes the objects
    unless they are annotated.
    """
    objects = _helm_objects(facts, kept=False)
    if not objects:
        return
    names = [f"{kind.lower()}/{name}" for kind, name in objects]
    upgrade = helm_upgrade(facts)
    yield Flaw(
        summary=f"Helm owns the objects of {facts.host} that hold peers: its next upgrade would {upgrade.effect}",
        evidence=[
            f"label {HELM_LABEL} or annotation {HELM_NAME} on {listed(where(facts, k, n) for k, n in objects)}",
            f"peers in Helm's values: {listed(show(name) for name in upgrade.peers) or 'none'}",
            f"Helm writes by {'server-side apply' if upgrade.server_side else 'a three-way merge'}",
        ],
        fix=lines(
            "Hand them over, in this order; no link drops. The playbook edge_portal.cilium_mesh.adopt does it, and takes over a mesh "
            "that Helm made; by hand:",
            kubectl(facts, "annotate", *names, f"{KEEP}=keep"),
            helm(facts, "clustermesh.config.enabled=false"),
            cilium_cli(facts, "clustermesh.config.enabled=false"),
            "Where Argo CD, Flux or another tool renders the chart, set clustermesh.config.enabled=false there instead of the "
            "second command.",
        ),
    )


@check("CM-OWN-04")
def hand_over_from_helm_is_finished(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report objects with peers that still have Helm's marks beside the resource policy "keep".

    Helm leaves its labels on objects that it does not manage any more, so the objects cannot prove the second half of the hand-over.
    """
    objects = _helm_objects(facts, kept=True)
    if not objects:
        return
    yield Flaw(
        summary=f"The objects of {facts.host} that hold peers were released by Helm if clustermesh.config.enabled=false was "
        "set; that cannot be seen here",
        evidence=f"{KEEP}=keep and Helm's marks on {listed(where(facts, k, n) for k, n in objects)}",
        fix=lines(
            "Check the value, and set it if it is not set:",
            kubectl(facts, "get", "secret", "--selector", "owner=helm,status=deployed"),
            helm(facts, "clustermesh.config.enabled=false"),
            cilium_cli(facts, "clustermesh.config.enabled=false"),
            "Once it is set, remove Helm's marks, which ends this finding: playbook edge_portal.cilium_mesh.adopt with "
            "cilium_mesh_handed_over=true, or by hand:",
            *(
                line
                for kind, name in objects
                for line in (
                    kubectl(facts, "label", f"{kind.lower()}/{name}", f"{HELM_LABEL}-"),
                    kubectl(facts, "annotate", f"{kind.lower()}/{name}", f"{HELM_NAME}-", f"{HELM_NAMESPACE}-"),
                )
            ),
        ),
    )


@check("CM-OWN-05")
def peer_objects_are_not_tracked_by_argo(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report objects with peers that Argo CD tracks."""
    tracked = [(k, n) for k, n, o in _objects(facts) if any(key in o.annotations or key in o.labels for key in ARGO.marks)]
    if not tracked:
        return
    yield Flaw(
        summary=f"Argo CD tracks the objects of {facts.host} that hold peers and may undo what connect writes",
        evidence=f"{ARGO.marks[0]} on {listed(where(facts, k, n) for k, n in tracked)}",
        fix="Set clustermesh.config.enabled=false in the Application's Helm values and annotate the objects with "
        "argocd.argoproj.io/sync-options=Prune=false first, so that they stay.",
    )


@check("CM-OWN-02")
def peer_keys_are_not_foreign(context: CheckContext, local: ClusterFacts, peers: Sequence[ClusterFacts]) -> Iterator[Flaw]:
    """Report keys of a link that another writer owned before this binding.

    The decision is the planner's, so that what blocks is known before the plan is made.
    """
    own = context.mesh.binding.manager
    for peer in peers if has_keys_of_others(local, own) else ():
        foreign: dict[str, list[str]] = {}
        managers: set[str] = set()
        for secret, key in conflicting_keys(context, local, peer):
            if not was_ours(secret, key, peer.host, own):  # otherwise it is drift (checks/drift.py)
                foreign.setdefault(secret.name, []).append(key)
                managers.update(secret.keys[key].managers)
        if foreign:
            yield _foreign_keys(local, peer, foreign, sorted(managers - {own}))


def has_keys_of_others(local: ClusterFacts, own: str) -> bool:
    """Return whether another writer owns any key in the Secrets with peers. Where none does, no key of any peer is in conflict."""
    return any(set(key.managers) != {own} for secret in (local.clustermesh, local.kvstoremesh) for key in secret.keys.values())


def conflicting_keys(context: CheckContext, local: ClusterFacts, peer: ClusterFacts) -> list[tuple[PeerSecretFacts, str]]:
    """Return (Secret, key) of a link where another writer owns a value other than the one that connect would write."""
    own = context.mesh.binding.manager
    doubtful = [(secret, key) for secret, key in _existing_keys(local, peer.name) if set(secret.keys[key].managers) != {own}]
    if not doubtful:
        return []
    wanted = _desired_keys(context, local, peer)
    if wanted is None:
        return [(secret, key) for secret, key in doubtful if own not in secret.keys[key].managers]
    return [(secret, key) for secret, key in doubtful if would_conflict(secret.keys[key], wanted.get((secret.name, key)), own)]


def _existing_keys(facts: ClusterFacts, peer: str) -> Iterator[tuple[PeerSecretFacts, str]]:
    """Yield (Secret, key) for each key that a link to the Cilium cluster ``peer`` may need and that exists.

    TLS files lie beside the configuration that dials the peer itself.
    """
    if peer in facts.clustermesh.keys:
        yield facts.clustermesh, peer
    remote = facts.kvstoremesh if facts.runs_kvstoremesh else facts.clustermesh
    for key in keys_of(peer):
        if key in remote.keys and (key != peer or facts.runs_kvstoremesh):
            yield remote, key


def _desired_keys(context: CheckContext, local: ClusterFacts, peer: ClusterFacts) -> dict[tuple[str, str], DesiredKeys] | None:
    """Return what connect would write, by Secret and key.

    The result is None where the link cannot be made, so that its values are unknown.
    """
    endpoint, trust = context.decisions.dialled[local.host][peer.host], context.decisions.trust[local.host][peer.host]
    if not isinstance(endpoint, MeshEndpoint) or not isinstance(trust, Trust) or not valid_cluster_name(peer.name):
        return None
    link = Link(local=local, peer=peer, endpoint=endpoint, trust=trust)
    remote = local.kvstoremesh if local.runs_kvstoremesh else local.clustermesh
    aliases = aliases_in_config(reader_version(link.local))
    keys = keys_for_peer(link, remote, context.mesh.binding.manager, PlanOptions(), context.now, aliases=aliases)
    wanted = {(remote.name, key): value for key, value in keys.items()}
    through = agents_keys(local, (peer.name,)) if local.runs_kvstoremesh else {}
    return wanted | {(local.clustermesh.name, key): value for key, value in through.items()}


def _foreign_keys(local: ClusterFacts, peer: ClusterFacts, foreign: Mapping[str, list[str]], managers: list[str]) -> Flaw:
    """Return the flaw of the keys ``foreign`` (Secret -> keys) that ``managers`` own."""
    other_binding = any(m.startswith(f"{MANAGER_DOMAIN}/") for m in managers)
    removals = [_removal_command(local, name, keys) for name, keys in foreign.items()]
    return Flaw(
        peer=peer.host,
        summary=f"{local.host} already has a peer {show(peer.name)} that "
        + ("belongs to another binding" if other_binding else "does not belong to this binding")
        + "; it is not overwritten",
        evidence="; ".join(f"{where(local, 'Secret', name)} keys {listed(keys)}" for name, keys in foreign.items())
        + f"; field managers: {listed(show(m) for m in managers) or 'none recorded'}",
        fix=lines(
            "Name the two clusters in one binding only, or disconnect the other one first."
            if other_binding
            else "Take it over as it is: playbook edge_portal.cilium_mesh.adopt; no link drops. Or disconnect with the tool that made "
            "it, or remove the keys yourself and run connect again; the link is down in between:",
            *([] if other_binding else removals),
        ),
    )


def _removal_command(facts: ClusterFacts, secret: str, keys: list[str]) -> str:
    """Return the kubectl command that removes the keys from the Secret."""
    pointers = ["/data/" + key.replace("~", "~0").replace("/", "~1") for key in keys]  # RFC 6901
    patch = json.dumps([{"op": "remove", "path": pointer} for pointer in pointers])
    return kubectl(facts, "patch", "secret", secret, "--type=json", f"--patch={patch}")


@check("CM-OWN-03")
def host_aliases_are_not_foreign(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a host alias of another owner for an address that a link needs.

    hostAliases are merged by address: one address has one list of names and one owner.
    """
    workload = facts.apiserver if facts.runs_kvstoremesh else facts.agent
    if workload is None or not workload.host_aliases or not aliases_in_template(cilium_version(facts)):
        return
    names = _names_needed(context, facts)
    own = context.mesh.binding.manager
    for alias in workload.host_aliases:
        wanted = names.get(canonical_ip(alias.ip) if is_ip(alias.ip) else "")
        if wanted is None or own in alias.managers or set(alias.hostnames) == wanted:
            continue
        yield Flaw(
            summary=f"{workload.kind} {workload.name} of {facts.host} gives the address {alias.ip} of a peer other names; it "
            "is not overwritten",
            evidence=f"{where(facts, workload.kind, workload.name)} spec.template.spec.hostAliases: {alias.ip} is "
            f"{listed(show(n) for n in alias.hostnames)}, "
            f"field managers {listed(show(m) for m in alias.managers) or 'none recorded'}; needed: {listed(sorted(wanted))}",
            fix=lines(
                "Remove that entry where it is declared (Helm value clustermesh.config.clusters, or by hand), then run connect again:",
                kubectl(facts, "edit", f"{workload.kind.lower()}/{workload.name}"),
            ),
        )


def _names_needed(context: CheckContext, facts: ClusterFacts) -> dict[str, set[str]]:
    """Return the names that each address needs, for every peer that the cluster dials by address."""
    names: dict[str, set[str]] = {}
    for peer in context.facts.values():
        if not context.mesh.linked(facts.host, peer.host):
            continue
        endpoint = context.decisions.dialled[facts.host][peer.host]
        if isinstance(endpoint, MeshEndpoint):
            for ip in endpoint.ips:
                names.setdefault(ip, set()).add(endpoint.hostname)
    return names

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who else writes to the objects that hold peers. What belongs to others is never overwritten."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from ..drift import was_ours
from ..endpoints import Endpoint, canonical_ip, is_ip
from ..facts import ClusterFacts, PeerSecretFacts, RemoteUsersFacts
from ..findings import CheckContext, Finding, Scope, Severity, check
from ..model import MANAGER_DOMAIN
from ..peer_keys import Link, Wanted, agents_keys, is_taken, keys_for_peer, reader_version
from ..peers import keys_of, valid_cluster_name
from ..steps import PlanOptions
from ..trust import Trust
from ..versions import aliases_in_config, aliases_in_template, cilium_version
from .wording import finding, helm, kubectl, lines, listed, show, where

KEEP = "helm.sh/resource-policy"
_ARGO = ("argocd.argoproj.io/tracking-id", "argocd.argoproj.io/instance")


def _objects(facts: ClusterFacts) -> Iterator[tuple[str, str, PeerSecretFacts | RemoteUsersFacts]]:
    """The objects that connect writes and that exist: kind, name, facts."""
    for kind, name, item in (
        ("Secret", facts.clustermesh.name, facts.clustermesh),
        ("Secret", facts.kvstoremesh.name, facts.kvstoremesh),
        ("ConfigMap", "clustermesh-remote-users", facts.users),
    ):
        if item.present:
            yield kind, name, item


def _helm_owns(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    return labels.get("app.kubernetes.io/managed-by") == "Helm" or "meta.helm.sh/release-name" in annotations


def _helm_objects(facts: ClusterFacts, *, kept: bool) -> list[tuple[str, str]]:
    return [(k, n) for k, n, o in _objects(facts) if _helm_owns(o.labels, o.annotations) and (o.annotations.get(KEEP) == "keep") is kept]


@check("CM-OWN-01", "Helm owns the objects that hold peers", severity=Severity.BLOCKING, scope=Scope.CLUSTER, acceptable=True)
def helm_does_not_own(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """With config.enabled=true a Helm upgrade replaces the objects whole; with false it deletes them unless they are annotated."""
    objects = _helm_objects(facts, kept=False)
    if not objects:
        return
    names = [f"{kind.lower()}/{name}" for kind, name in objects]
    yield finding(
        "CM-OWN-01",
        cluster=facts.host,
        summary=f"Helm owns the objects of {facts.host} that hold peers: its next upgrade would drop every link made here",
        evidence="label app.kubernetes.io/managed-by or annotation meta.helm.sh/release-name on "
        f"{listed(where(facts, k, n) for k, n in objects)}",
        fix=lines(
            "Hand them over, in this order; no link drops. The playbook edge_portal.cilium_mesh.adopt does it, and takes over a mesh "
            "that Helm made; by hand:",
            kubectl(facts, "annotate", *names, f"{KEEP}=keep"),
            helm(facts, "clustermesh.config.enabled=false"),
            "Where Argo CD, Flux or another tool renders the chart, set clustermesh.config.enabled=false there instead of the "
            "second command.",
        ),
    )


@check("CM-OWN-04", "Make sure that the hand-over from Helm was finished", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def hand_over_is_finished(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Helm leaves its labels on what it no longer manages, so the objects alone cannot prove the second half."""
    objects = _helm_objects(facts, kept=True)
    if not objects:
        return
    yield finding(
        "CM-OWN-04",
        cluster=facts.host,
        summary=f"The objects of {facts.host} that hold peers were released by Helm if clustermesh.config.enabled=false was "
        "set; that cannot be seen here",
        evidence=f"{KEEP}=keep and Helm's marks on {listed(where(facts, k, n) for k, n in objects)}",
        fix=lines(
            "Look whether it was, and set it if not:",
            kubectl(facts, "get", "secret", "--selector", "owner=helm,status=deployed"),
            helm(facts, "clustermesh.config.enabled=false"),
            "Once it is, Helm's marks can go, and this finding with them: playbook edge_portal.cilium_mesh.adopt with "
            "cilium_mesh_handed_over=true, or by hand:",
            *(
                line
                for kind, name in objects
                for line in (
                    kubectl(facts, "label", f"{kind.lower()}/{name}", "app.kubernetes.io/managed-by-"),
                    kubectl(facts, "annotate", f"{kind.lower()}/{name}", "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-"),
                )
            ),
        ),
    )


@check("CM-OWN-05", "Argo CD tracks the objects that hold peers", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def argo_does_not_own(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    tracked = [(k, n) for k, n, o in _objects(facts) if any(key in o.annotations or key in o.labels for key in _ARGO)]
    if not tracked:
        return
    yield finding(
        "CM-OWN-05",
        cluster=facts.host,
        summary=f"Argo CD tracks the objects of {facts.host} that hold peers and may undo what connect writes",
        evidence=f"{_ARGO[0]} on {listed(where(facts, k, n) for k, n in tracked)}",
        fix="Set clustermesh.config.enabled=false in the Application's Helm values and annotate the objects with "
        "argocd.argoproj.io/sync-options=Prune=false first, so that they stay.",
    )


@check("CM-OWN-02", "Somebody else already wrote this peer", severity=Severity.BLOCKING, scope=Scope.PAIR)
def peer_keys_are_free(context: CheckContext, local: ClusterFacts, peer: ClusterFacts) -> Iterator[Finding]:
    """The same judgement as the planner's, so that what blocks is known before anything is planned."""
    own = context.mesh.binding.manager
    foreign: dict[str, list[str]] = {}
    managers: set[str] = set()
    for secret, key in keys_in_the_way(context, local, peer):
        if not was_ours(secret, key, peer.host, own):  # else it is drift: checks/drift.py
            foreign.setdefault(secret.name, []).append(key)
            managers.update(secret.keys[key].managers)
    if foreign:
        yield _taken(local, peer, foreign, sorted(managers - {own}))


def keys_in_the_way(context: CheckContext, local: ClusterFacts, peer: ClusterFacts) -> list[tuple[PeerSecretFacts, str]]:
    """Keys of the link that somebody else holds with another value than connect would write."""
    own = context.mesh.binding.manager
    doubtful = [(secret, key) for secret, key in _keys_written(local, peer.name) if set(secret.keys[key].managers) != {own}]
    if not doubtful:
        return []
    wanted = _wanted(context, local, peer)
    if wanted is None:
        return [(secret, key) for secret, key in doubtful if own not in secret.keys[key].managers]
    return [(secret, key) for secret, key in doubtful if is_taken(secret.keys[key], wanted.get((secret.name, key)), own)]


def _keys_written(facts: ClusterFacts, peer: str) -> Iterator[tuple[PeerSecretFacts, str]]:
    """Keys that a link to the Cilium cluster ``peer`` may need and that are there.

    TLS files lie beside the configuration that dials the peer itself.
    """
    if peer in facts.clustermesh.keys:
        yield facts.clustermesh, peer
    remote = facts.kvstoremesh if facts.runs_kvstoremesh else facts.clustermesh
    for key in keys_of(peer):
        if key in remote.keys and (key != peer or facts.runs_kvstoremesh):
            yield remote, key


def _wanted(context: CheckContext, local: ClusterFacts, peer: ClusterFacts) -> dict[tuple[str, str], Wanted] | None:
    """What connect would write, by Secret and key; None where that cannot be told because there is no way to make the link."""
    endpoint, trust = context.choices.endpoint_for(local, peer), context.choices.trust(local, peer)
    if not isinstance(endpoint, Endpoint) or not isinstance(trust, Trust) or not valid_cluster_name(peer.name):
        return None
    link = Link(local=local, peer=peer, endpoint=endpoint, trust=trust)
    remote = local.kvstoremesh if local.runs_kvstoremesh else local.clustermesh
    aliases = aliases_in_config(reader_version(link.local))
    keys = keys_for_peer(link, remote, context.mesh.binding.manager, PlanOptions(), context.now, aliases=aliases)
    wanted = {(remote.name, key): value for key, value in keys.items()}
    through = agents_keys(local, (peer.name,)) if local.runs_kvstoremesh else {}
    return wanted | {(local.clustermesh.name, key): value for key, value in through.items()}


def _taken(local: ClusterFacts, peer: ClusterFacts, foreign: Mapping[str, list[str]], managers: list[str]) -> Finding:
    """``foreign``: Secret -> keys that are in the way. ``managers``: who holds them."""
    other_binding = any(m.startswith(f"{MANAGER_DOMAIN}/") for m in managers)
    removals = [_removal(local, name, keys) for name, keys in foreign.items()]
    return finding(
        "CM-OWN-02",
        cluster=local.host,
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


def _removal(facts: ClusterFacts, secret: str, keys: list[str]) -> str:
    pointers = ["/data/" + key.replace("~", "~0").replace("/", "~1") for key in keys]  # RFC 6901
    patch = json.dumps([{"op": "remove", "path": pointer} for pointer in pointers])
    return kubectl(facts, "patch", "secret", secret, "--type=json", f"--patch={patch}")


@check("CM-OWN-03", "A host alias of somebody else is in the way", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def host_aliases_are_free(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """hostAliases are merged by address: one address has one list of names and one owner."""
    workload = facts.apiserver if facts.runs_kvstoremesh else facts.agent
    if workload is None or not workload.host_aliases or not aliases_in_template(cilium_version(facts)):
        return
    names = _names_needed(context, facts)
    own = context.mesh.binding.manager
    for alias in workload.host_aliases:
        wanted = names.get(canonical_ip(alias.ip) if is_ip(alias.ip) else "")
        if wanted is None or own in alias.managers or set(alias.hostnames) == wanted:
            continue
        yield finding(
            "CM-OWN-03",
            cluster=facts.host,
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
    """Address -> names, for every peer of the cluster that is dialled by address."""
    names: dict[str, set[str]] = {}
    for peer in context.facts.values():
        if not context.mesh.linked(facts.host, peer.host):
            continue
        endpoint = context.choices.endpoint_for(facts, peer)
        if isinstance(endpoint, Endpoint):
            for ip in endpoint.ips:
                names.setdefault(ip, set()).add(endpoint.hostname)
    return names

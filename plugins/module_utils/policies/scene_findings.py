# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about the present state of the mesh that decide whether an intent takes effect. Pure.

They concern links, namespaces, pods, and members that do not answer. The identity of a source has to be known at the destination. A
source that is not known there is the world for Cilium: an Allow does not let it in, and a Deny does not keep it out (issues 33822
and 32060). A Deny is refused if none of its sources is known in one of its destinations: it would look like protection.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.finding import Finding, Severity
from ..findings.wording import config_evidence, item_finding, listed, show
from ..items.labels import selects
from ..items.models import ConnectivityIntent, PodSelection
from ..items.scene import Scene
from ..items.system import APP_LABEL, control_plane_pods
from ..mesh.facts.traffic import PodMeta, TrafficFacts
from ..services.mesh_view import DEFAULT_GLOBAL, NAMESPACE_GLOBAL, exports_identities
from .compile import clusters_of


def scene_findings(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    """Yield the findings about one intent."""
    yield from _mesh_cut_findings(intent, scene)
    yield from _unanswered_findings(intent, scene)
    yield from _link_findings(intent, scene)
    yield from _export_findings(intent, scene)
    yield from _unselected_side_findings(intent, scene)


def _mesh_cut_findings(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    """Yield a finding if the policy would cut peers off from clustermesh-apiserver.

    Peers reach it from outside, and no intent can name them: Allow and Isolate cut them off, and so does a Deny that concerns them
    (kvstoremesh runs in the same pods, and is the client).
    """
    if intent.source is not None and intent.action == "Deny" and not _hosts_with_selected_apiserver(intent.source, scene):
        return
    hosts = _hosts_with_selected_apiserver(intent.destination, scene)
    if hosts:
        yield item_finding(
            intent.ref,
            "CM-INT-18",
            hosts,
            summary=f"{listed(hosts)}: the destination selects clustermesh-apiserver, and the policy would cut the mesh there",
            evidence=f"destination: {selection_text(intent.destination)}",
            fix=f"Leave it out, by destination.expressions: [{{key: {APP_LABEL}, operator: NotIn, values: [clustermesh-apiserver]}}], or "
            "name other labels or another namespace. A policy of your own for it has to allow every peer.",
        )


def _hosts_with_selected_apiserver(selection: PodSelection, scene: Scene) -> tuple[str, ...]:
    """Return the clusters in which the side selects pods of clustermesh-apiserver."""
    return tuple(
        host
        for host in _observed_hosts(selection, scene)
        if any(selects(selection, pod.namespace, pod.labels) for pod in control_plane_pods(scene.facts[host], scene.traffic[host]))
    )


def absent_namespaces(intent: ConnectivityIntent, scene: Scene) -> dict[str, str]:
    """Return destination cluster -> why a policy of mode Namespaced cannot be written there."""
    if intent.mode != "Namespaced":
        return {}
    namespace = intent.destination.namespace
    found = {}
    for host in _observed_hosts(intent.destination, scene):
        observed = scene.traffic[host].namespaces.get(namespace)
        if observed is None:
            found[host] = f"namespace {namespace} does not exist there"
        elif observed.status.get("phase") == "Terminating":
            found[host] = f"namespace {namespace} is being deleted there"
    return found


def namespace_findings(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    """Yield a finding for destination clusters without the namespace of the policy."""
    absent = absent_namespaces(intent, scene)
    if absent:
        yield item_finding(
            intent.ref,
            "CM-INT-08",
            tuple(absent),
            summary=f"{listed(absent)}: the policy is not written, because namespace {intent.destination.namespace} is not there",
            evidence="; ".join(f"{host}: {why}" for host, why in absent.items()),
            fix=f"Make the namespace and run again, or leave {listed(absent)} out of destination.clusters.",
        )


def _observed_hosts(selection: PodSelection, scene: Scene) -> tuple[str, ...]:
    """Return the clusters of the side that were observed."""
    wanted = frozenset(clusters_of(selection, scene.mesh.clusters))
    return tuple(host for host in scene.hosts if host in wanted)


def _unanswered_findings(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    silent = frozenset(scene.silent)
    destinations = [host for host in clusters_of(intent.destination, scene.mesh.clusters) if host in silent]
    sources = [host for host in (clusters_of(intent.source, scene.mesh.clusters) if intent.source else ()) if host in silent]
    if destinations:
        yield item_finding(
            intent.ref,
            "CM-INT-06",
            destinations,
            summary=f"{listed(destinations)}: the policy is neither written nor read, because the cluster is not known",
            evidence=_failure_text(scene, destinations),
            fix="Run again when it answers, and without a --limit that leaves it out.",
        )
    if sources:
        yield item_finding(
            intent.ref,
            "CM-INT-07",
            sources,
            summary=f"{listed(sources)}: this source did not answer; the policy names it by the lease registry",
            evidence="; ".join(f"{host} is {show(scene.names.get(host, ''))}" for host in sources) + "; " + _failure_text(scene, sources),
        )


def _failure_text(scene: Scene, hosts: list[str]) -> str:
    return "; ".join(f"{host}: {scene.failures[host].clause if host in scene.failures else 'not asked'}" for host in hosts)


def _link_findings(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    if intent.source is None:
        return
    members = scene.mesh.clusters
    pairs = [(to, of) for to in clusters_of(intent.destination, members) for of in clusters_of(intent.source, members) if to != of]
    apart = [pair for pair in pairs if not scene.mesh.linked(*pair)]
    down = [pair for pair in pairs if pair in scene.link_errors and pair not in apart]
    effect = "an Allow does not let its pods in" if intent.action == "Allow" else "a Deny does not keep its pods out"
    if apart:
        yield item_finding(
            intent.ref,
            "CM-INT-16",
            tuple(dict.fromkeys(to for to, _of in apart)),
            severity=_severity(intent, scene),
            summary=f"{listed(f'{to} is not linked to {of}' for to, of in apart)}: {effect}",
            evidence=f"Binding {scene.binding.name} has no link there, so identities of the source are not known at the destination.",
            fix="Add the link to binding.topology, or name clusters that are linked in source.clusters and destination.clusters.",
        )
    if down:
        yield item_finding(
            intent.ref,
            "CM-INT-17",
            tuple(dict.fromkeys(to for to, _of in down)),
            summary=f"{listed(f'the link of {to} to {of} is not ready' for to, of in down)}: {effect} that came up since it was",
            evidence="; ".join(f"{to} to {of}: {scene.link_errors[to, of]}" for to, of in down),
            fix="See the findings about the link (playbook status); the policy needs no change.",
        )


def _export_findings(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    """Yield a finding for source namespaces that are not global.

    They export no identities (from 1.19; values.yaml, clustermesh.defaultGlobalNamespace; issue 46090).
    """
    source = intent.source
    if source is None or source.all_namespaces:
        return
    members = scene.mesh.clusters
    destinations = clusters_of(intent.destination, members)
    kept = [
        host
        for host in _observed_hosts(source, scene)
        if any(to != host for to in destinations) and _is_local(source.namespace, host, scene)
    ]
    if kept:
        effect = "an Allow does not let its pods in" if intent.action == "Allow" else "a Deny does not keep its pods out"
        yield item_finding(
            intent.ref,
            "CM-INT-14",
            kept,
            severity=_severity(intent, scene),
            summary=f"{listed(kept)}: namespace {source.namespace} is not global, so in other clusters {effect}",
            evidence="; ".join(config_evidence(scene.facts[host], DEFAULT_GLOBAL) for host in kept) + f"; annotation {NAMESPACE_GLOBAL}",
            fix=f"kubectl annotate --overwrite namespace {source.namespace} {NAMESPACE_GLOBAL}=true",
        )


def _severity(intent: ConnectivityIntent, scene: Scene) -> Severity | None:
    """Return BLOCKING for a Deny that would deny no source in one of its destinations."""
    source, members = intent.source, scene.mesh.clusters
    if source is None or intent.action != "Deny":
        return None

    def is_known(to: str, of: str) -> bool:
        if to == of:
            return True
        hidden = of in scene.hosts and not source.all_namespaces and _is_local(source.namespace, of, scene)
        return scene.mesh.linked(to, of) and not hidden

    sources = clusters_of(source, members)
    denies = all(any(is_known(to, of) for of in sources) for to in clusters_of(intent.destination, members))
    return None if denies else Severity.BLOCKING


def _is_local(namespace: str, host: str, scene: Scene) -> bool:
    """Return whether the namespace exists and is not global. An absent one has no pods to export."""
    observed = scene.traffic[host].namespaces.get(namespace)
    return observed is not None and not exports_identities(scene.facts[host], observed)


def _unselected_side_findings(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    sides = (("CM-INT-09", "destination", intent.destination), ("CM-INT-10", "source", intent.source))
    for code, side, selection in sides:
        if selection is None:
            continue
        hosts = _observed_hosts(selection, scene)
        if not hosts or any(scene.traffic[host].could_not_read("pods") for host in hosts):
            continue  # nothing can be said
        if not any(
            selects(selection, pod.namespace, pod.labels) for host in hosts for pod in _candidate_pods(scene.traffic[host], selection)
        ):
            yield item_finding(
                intent.ref,
                code,
                hosts,
                summary=f"{listed(hosts)}: no pod is selected as {side} at present",
                evidence=f"{side}: {selection_text(selection)}",
                fix="" if side == "source" else "Compare the labels of the intended pods: kubectl get pods --show-labels",
            )


def _candidate_pods(traffic: TrafficFacts, selection: PodSelection) -> tuple[PodMeta, ...]:
    """Return pods that may be selected: all that are, and few enough for hundreds of intents."""
    if selection.labels:
        places = ((selection.namespace, key, value) for key, value in selection.labels.items())  # namespace "": every one
        return min((traffic.pods_by_label.get(place, ()) for place in places), key=len)
    return traffic.pods if selection.all_namespaces else traffic.pods_by_namespace.get(selection.namespace, ())


def selection_text(selection: PodSelection) -> str:
    """Return text such as ``pods of production with app=backend``."""
    where = "every namespace" if selection.all_namespaces else selection.namespace
    if selection.all_pods:
        return f"all pods of {where}"
    labels = [f"{key}={value}" for key, value in sorted(selection.labels.items())]
    labels += [" ".join((e.key, e.operator, *e.values)) for e in selection.expressions]
    return f"pods of {where} with {', '.join(labels)}"

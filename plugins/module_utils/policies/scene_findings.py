# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the mesh is like just now, as far as it decides whether an intent does what it says: links, namespaces, pods, silent members. Pure.

The identity of a source has to be known where the destination is. A source that is not known there is the world for Cilium: an Allow does
not let it in, and a Deny does not keep it out (issues 33822 and 32060).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..checks.wording import config_evidence, listed, show
from ..findings import Finding, Severity
from ..items.facts import PodMeta, TrafficFacts
from ..items.labels import selects
from ..items.models import ConnectivityIntent, PodSelection
from ..items.scene import Scene
from ..items.system import APP_LABEL, control_plane_pods
from ..services.world import DEFAULT_GLOBAL, NAMESPACE_GLOBAL, is_global_namespace
from . import codes
from .compile import clusters_of
from .settings_findings import about


def scene_findings(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    """Findings about one intent."""
    yield from _cuts_mesh(intent, scene)
    yield from _silent(intent, scene)
    yield from _links(intent, scene)
    yield from _exports(intent, scene)
    yield from _nobody(intent, scene)


def _cuts_mesh(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    """Peers come to clustermesh-apiserver from outside, and no intent can name them: Allow and Isolate cut them off, a Deny does when it
    is about them (kvstoremesh runs in the same pods, and is the client)."""
    if intent.source is not None and intent.action == "Deny" and not _mesh_hosts(intent.source, scene):
        return
    hosts = _mesh_hosts(intent.destination, scene)
    if hosts:
        yield about(
            intent,
            codes.CUTS_MESH,
            Severity.BLOCKING,
            hosts,
            summary=f"{listed(hosts)}: the destination takes in clustermesh-apiserver, and the policy would cut the mesh there",
            evidence=f"destination: {described(intent.destination)}",
            fix=f"Leave it out, by destination.expressions: [{{key: {APP_LABEL}, operator: NotIn, values: [clustermesh-apiserver]}}], or "
            "name other labels or another namespace. A policy of your own for it has to let in every peer.",
        )


def _mesh_hosts(selection: PodSelection, scene: Scene) -> tuple[str, ...]:
    """Clusters in which the side takes in pods of clustermesh-apiserver."""
    return tuple(
        host
        for host in _seen(selection, scene)
        if any(selects(selection, pod.namespace, pod.labels) for pod in control_plane_pods(scene.facts[host], scene.traffic[host]))
    )


def absent_namespaces(intent: ConnectivityIntent, scene: Scene) -> dict[str, str]:
    """Destination cluster -> why a policy of mode Namespaced cannot be written there."""
    if intent.mode != "Namespaced":
        return {}
    namespace = intent.destination.namespace
    found = {}
    for host in _seen(intent.destination, scene):
        there = scene.traffic[host].namespaces.get(namespace)
        if there is None:
            found[host] = f"namespace {namespace} does not exist there"
        elif there.status.get("phase") == "Terminating":
            found[host] = f"namespace {namespace} is being deleted there"
    return found


def namespace_findings(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    absent = absent_namespaces(intent, scene)
    if absent:
        yield about(
            intent,
            codes.NO_NAMESPACE,
            Severity.REMEDIABLE,
            tuple(absent),
            summary=f"{listed(absent)}: the policy is not written, because namespace {intent.destination.namespace} is not there",
            evidence="; ".join(f"{host}: {why}" for host, why in absent.items()),
            fix=f"Make the namespace and run again, or leave {listed(absent)} out of destination.clusters.",
        )


def _seen(selection: PodSelection, scene: Scene) -> tuple[str, ...]:
    wanted = frozenset(clusters_of(selection, scene.mesh.clusters))
    return tuple(host for host in scene.hosts if host in wanted)


def _silent(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    silent = frozenset(scene.silent)
    destinations = [host for host in clusters_of(intent.destination, scene.mesh.clusters) if host in silent]
    sources = [host for host in (clusters_of(intent.source, scene.mesh.clusters) if intent.source else ()) if host in silent]
    if destinations:
        yield about(
            intent,
            codes.SILENT_DESTINATION,
            Severity.REMEDIABLE,
            destinations,
            summary=f"{listed(destinations)}: the policy is neither written nor looked at, because nothing is known of the cluster",
            evidence=_why(scene, destinations),
            fix="Run again when it answers, and without a --limit that leaves it out.",
        )
    if sources:
        yield about(
            intent,
            codes.SILENT_SOURCE,
            Severity.ADVISORY,
            sources,
            summary=f"{listed(sources)}: nothing is known of this source; the policy names it as the mesh remembers it",
            evidence="; ".join(f"{host} is {show(scene.names.get(host, ''))}" for host in sources) + "; " + _why(scene, sources),
        )


def _why(scene: Scene, hosts: list[str]) -> str:
    return "; ".join(f"{host}: {scene.failures[host].message if host in scene.failures else 'not asked'}" for host in hosts)


def _links(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    if intent.source is None:
        return
    members = scene.mesh.clusters
    pairs = [(to, of) for to in clusters_of(intent.destination, members) for of in clusters_of(intent.source, members) if to != of]
    apart = [pair for pair in pairs if not scene.mesh.linked(*pair)]
    down = [pair for pair in pairs if pair in scene.link_errors and pair not in apart]
    effect = "an Allow does not let its pods in" if intent.action == "Allow" else "a Deny does not keep its pods out"
    if apart:
        yield about(
            intent,
            codes.NOT_LINKED,
            Severity.REMEDIABLE,
            tuple(dict.fromkeys(to for to, _of in apart)),
            summary=f"{listed(f'{to} is not linked to {of}' for to, of in apart)}: {effect}",
            evidence=f"Binding {scene.binding.name} has no link there, so identities of the source are not known at the destination.",
            fix="Add the link to binding.topology, or name clusters that are linked in source.clusters and destination.clusters.",
        )
    if down:
        yield about(
            intent,
            codes.LINK_DOWN,
            Severity.REMEDIABLE,
            tuple(dict.fromkeys(to for to, _of in down)),
            summary=f"{listed(f'the link of {to} to {of} is not ready' for to, of in down)}: {effect} that came up since it was",
            evidence="; ".join(f"{to} to {of}: {scene.link_errors[to, of]}" for to, of in down),
            fix="See the findings about the link (playbook status); the policy needs no change.",
        )


def _exports(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    """Namespaces that are not global export no identities (from 1.20; values.yaml, clustermesh.defaultGlobalNamespace; issue 46090)."""
    source = intent.source
    if source is None or source.all_namespaces:
        return
    members = scene.mesh.clusters
    destinations = clusters_of(intent.destination, members)
    kept = [host for host in _seen(source, scene) if any(to != host for to in destinations) and _is_local(source.namespace, host, scene)]
    if kept:
        effect = "an Allow does not let its pods in" if intent.action == "Allow" else "a Deny does not keep its pods out"
        yield about(
            intent,
            codes.NOT_EXPORTED,
            Severity.REMEDIABLE,
            kept,
            summary=f"{listed(kept)}: namespace {source.namespace} is not global, so in other clusters {effect}",
            evidence="; ".join(config_evidence(scene.facts[host], DEFAULT_GLOBAL) for host in kept) + f"; annotation {NAMESPACE_GLOBAL}",
            fix=f"kubectl annotate --overwrite namespace {source.namespace} {NAMESPACE_GLOBAL}=true",
        )


def _is_local(namespace: str, host: str, scene: Scene) -> bool:
    """A namespace that is not there has nobody to tell of."""
    there = scene.traffic[host].namespaces.get(namespace)
    return there is not None and not is_global_namespace(scene.facts[host], there)


def _nobody(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    sides = ((codes.NO_DESTINATION, "destination", intent.destination), (codes.NO_SOURCE, "source", intent.source))
    for code, side, selection in sides:
        if selection is None:
            continue
        hosts = _seen(selection, scene)
        if not hosts or any(scene.traffic[host].could_not_read("pods") for host in hosts):
            continue  # nothing can be said
        if not any(selects(selection, pod.namespace, pod.labels) for host in hosts for pod in _pods(scene.traffic[host], selection)):
            yield about(
                intent,
                code,
                Severity.ADVISORY,
                hosts,
                summary=f"{listed(hosts)}: no pod is selected as {side} just now",
                evidence=f"{side}: {described(selection)}",
                fix="" if side == "source" else "Compare the labels of the pods that are meant: kubectl get pods --show-labels",
            )


def _pods(traffic: TrafficFacts, selection: PodSelection) -> tuple[PodMeta, ...]:
    """Pods that may be selected: no fewer than are, and few enough for hundreds of intents."""
    if selection.labels:
        places = ((selection.namespace, key, value) for key, value in selection.labels.items())  # namespace "": every one
        return min((traffic.pods_by_label.get(place, ()) for place in places), key=len)
    return traffic.pods if selection.all_namespaces else traffic.pods_by_namespace.get(selection.namespace, ())


def described(selection: PodSelection) -> str:
    """``pods of production with app=backend``."""
    where = "every namespace" if selection.all_namespaces else selection.namespace
    if selection.all_pods:
        return f"all pods of {where}"
    labels = [f"{key}={value}" for key, value in sorted(selection.labels.items())]
    labels += [" ".join((e.key, e.operator, *e.values)) for e in selection.expressions]
    return f"pods of {where} with {', '.join(labels)}"

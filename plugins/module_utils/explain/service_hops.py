# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Hops from a Service to the backends from which Cilium would choose in the source's cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.traffic import EndpointFacts, Key, ObjectFacts, TrafficFacts
from ..mesh.link_stage import LinkStage
from ..mesh.versions.cilium_config import replaces_kube_proxy, setting
from ..services.annotations import affinity_of, is_global, is_shared
from ..services.endpoints import MIRRORED
from ..services.viability_findings import port_names_match
from .hop import Hop, HopVerdict
from .inputs import ExplainInputs
from .question import Question

DOCS = "docs/global-services.md"


@dataclass(frozen=True, kw_only=True)
class Backends:
    """Ready endpoints of one cluster. ``port`` is the pods' port; 0 when it is unknown."""

    cluster: str
    port: int
    ready: tuple[EndpointFacts, ...]


def service_hop(question: Question, inputs: ExplainInputs) -> tuple[Hop, Mapping[str, Any] | None]:
    """Return the hop of the Service in the source's cluster, and its port for the hops that follow."""
    cluster, side = question.source.cluster, question.target
    traffic = inputs.traffic(cluster)
    if traffic is None:
        text = f"{cluster} does not answer: {inputs.why_silent(cluster)}"
        return Hop(name="service", answer=HopVerdict.UNKNOWN, cluster=cluster, summary=text), None
    service = traffic.services.get((side.namespace, side.service))
    if service is None:
        return _absent(question, inputs, traffic), None
    kind = str(service.spec.get("type") or "ClusterIP")
    if kind == "ExternalName":
        text = f"it is an ExternalName, a DNS alias of {service.spec.get('externalName')}: no backends belong to it"
        return Hop(name="service", answer=HopVerdict.BROKEN, cluster=cluster, summary=text, fix="Ask about the name behind it."), None
    ports = [port for port in service.spec.get("ports") or () if isinstance(port, Mapping)]
    found = next((port for port in ports if _is_asked(port, question)), None)
    shown = ", ".join(f"{port.get('name') or '(no name)'} {port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or "none"
    if found is None:
        text = f"Service {side.namespace}/{side.service} in {cluster} has no port {question.shown_port}"
        return Hop(name="service", answer=HopVerdict.BROKEN, cluster=cluster, summary=text, evidence=(f"its ports: {shown}",)), None
    headless = service.spec.get("clusterIP") == "None"
    note = ", headless: DNS gives the pods themselves" if headless else ""
    text = f"Service {side.namespace}/{side.service} in {cluster}, type {kind}{note}"
    return Hop(name="service", answer=HopVerdict.OK, cluster=cluster, summary=text, evidence=(f"its ports: {shown}",)), found


def backend_hop(question: Question, port: Mapping[str, Any], inputs: ExplainInputs) -> tuple[Hop, tuple[Backends, ...]]:
    """Return the hop of the backends, and the clusters whose endpoints would answer.

    They follow from the annotations global, shared and affinity (Cilium's documentation, Global Services).
    """
    cluster, key = question.source.cluster, (question.target.namespace, question.target.service)
    here = inputs.scene.traffic[cluster]
    service = here.services[key]
    local = _backends(cluster, here, key, port, inputs.scene.facts[cluster])
    lines = [f"{cluster}: {len(local.ready)} ready, its own"]
    remote, unknown = _remote(question, port, inputs, lines) if is_global(service.annotations) else ([], [])
    if not is_global(service.annotations):
        lines.append(f"{cluster}: the Service is not global here, so no backend of another cluster is used")
    affinity = affinity_of(service.annotations)
    chosen = _chosen(local, remote, affinity)
    lines.append(f"affinity {affinity}")
    wanted = question.target.cluster
    if wanted:
        chosen = [entry for entry in chosen if entry.cluster == wanted]
    make: Callable[..., Hop] = partial(Hop, name="backend", cluster=cluster, evidence=tuple(lines))
    if chosen:
        text = ", ".join(f"{len(entry.ready)} in {entry.cluster}" for entry in chosen)
        return make(answer=HopVerdict.OK, summary=f"backends that are ready and would be chosen: {text}"), tuple(chosen)
    if unknown and (not wanted or wanted in unknown):
        text = f"what {', '.join(unknown)} has is not known, as it does not answer; agents may go on using the backends they knew"
        return make(answer=HopVerdict.UNKNOWN, summary=text), ()
    where = f" of {wanted}" if wanted else ""
    fix = f"See the lines above: scale up, or make the Service global and shared where its pods are ({DOCS})."
    return make(answer=HopVerdict.BROKEN, summary=f"no backend{where} would be chosen", fix=fix), ()


def node_port_hop(question: Question, port: Mapping[str, Any], backends: tuple[Backends, ...], inputs: ExplainInputs) -> Hop:
    """Return the hop for clients that use a node port: from outside, and pods on the host's network.

    Other pods use the ClusterIP.
    """
    cluster = question.source.cluster
    service = inputs.scene.traffic[cluster].services[question.target.namespace, question.target.service]
    number = port.get("nodePort")
    if not number:
        return Hop(
            name="node port", answer=HopVerdict.SKIPPED, cluster=cluster, summary="the Service has none, and pods go over its ClusterIP"
        )
    lines = [f"node port {number}, externalTrafficPolicy {service.spec.get('externalTrafficPolicy') or 'Cluster'}"]
    local = any(entry.cluster == cluster for entry in backends)
    facts = inputs.scene.facts[cluster]
    replaced = replaces_kube_proxy(facts)
    lines.append(f"kube-proxy-replacement {setting(facts, 'kube-proxy-replacement', 'unset')}")
    if service.spec.get("externalTrafficPolicy") == "Local" and not local:
        text = "clients from outside get no answer: externalTrafficPolicy Local, and no backend is in this cluster"
        return Hop(
            name="node port", answer=HopVerdict.BROKEN, cluster=cluster, summary=text, evidence=tuple(lines), fix="Use Cluster instead."
        )
    if not replaced and not local:
        text = "clients of node ports get no answer: kube-proxy knows the backends of this cluster alone"
        fix = "Set the Helm value kubeProxyReplacement=true."
        return Hop(name="node port", answer=HopVerdict.BROKEN, cluster=cluster, summary=text, evidence=tuple(lines), fix=fix)
    text = "node ports lead to the same backends; pods do not use them"
    return Hop(name="node port", answer=HopVerdict.OK, cluster=cluster, summary=text, evidence=tuple(lines))


def _absent(question: Question, inputs: ExplainInputs, traffic: TrafficFacts) -> Hop:
    side, cluster = question.target, question.source.cluster
    key = (side.namespace, side.service)
    elsewhere = [host for host in inputs.scene.hosts if key in inputs.scene.traffic[host].services]
    lines = [f"it is in {', '.join(elsewhere)}" if elsewhere else "no member that answers has it"]
    if key in traffic.imports:
        lines.append(f"a ServiceImport is here: {side.service}.{side.namespace}.svc.clusterset.local leads to it")
    fix = f"A global Service needs one of the same name and namespace where its clients are: createMissingServices does that ({DOCS})."
    text = f"there is no Service {side.namespace}/{side.service} in {cluster}"
    return Hop(name="service", answer=HopVerdict.BROKEN, cluster=cluster, summary=text, evidence=tuple(lines), fix=fix if elsewhere else "")


def _is_asked(port: Mapping[str, Any], question: Question) -> bool:
    if str(port.get("protocol") or "TCP") != question.protocol:
        return False
    return port.get("port") == question.port if question.port else port.get("name") == question.port_name


def _remote(question: Question, port: Mapping[str, Any], inputs: ExplainInputs, lines: list[str]) -> tuple[list[Backends], list[str]]:
    """Return exported backends of other clusters, and members of which nothing is known. Each adds a line."""
    key = (question.target.namespace, question.target.service)
    facts = inputs.scene.facts[question.source.cluster]
    found, unknown = [], []
    for host in inputs.scene.mesh.peers(question.source.cluster):
        traffic = inputs.traffic(host)
        if traffic is None:
            unknown.append(host)
            lines.append(f"{host}: does not answer ({inputs.why_silent(host)}){_link_to(question.source.cluster, host, inputs)}")
            continue
        service = traffic.services.get(key)
        why = _not_exported(service, port, facts)
        backends = _backends(host, traffic, key, port, facts)
        lines.append(f"{host}: {why or f'{len(backends.ready)} ready, exported'}")
        if not why and backends.ready:
            found.append(backends)
    return found, unknown


def _link_to(local: str, peer: str, inputs: ExplainInputs) -> str:
    """Return in words how the link to a cluster is that does not answer; "" where that is not known.

    While it is ready, agents use the backends that the cluster publishes, whether or not its API server answers.
    """
    row = inputs.links.get((local, peer), {})
    if row.get("ready"):
        return f"; the link {local} -> {peer} is ready, so agents have what it publishes"
    stage = row.get("stage", LinkStage.UNKNOWN)
    return f"; nor is the link {local} -> {peer} ready (stage {stage})" if stage != LinkStage.UNKNOWN else ""


def _not_exported(service: ObjectFacts | None, port: Mapping[str, Any], facts: ClusterFacts) -> str:
    """Return why the backends of a peer's Service are not used in the cluster of ``facts``; "" when they are."""
    if service is None:
        return "has no such Service"
    if not is_global(service.annotations):
        return "the Service is not global there"
    if not is_shared(service.annotations):
        return "the Service is not shared there"
    names = [entry.get("name") or "" for entry in service.spec.get("ports") or () if isinstance(entry, Mapping)]
    name = port.get("name") or ""
    return (
        ""
        if any(port_names_match(facts, name, theirs) for theirs in names)
        else f"the Service has no port named {name or '(no name)'} there"
    )


def _backends(cluster: str, traffic: TrafficFacts, key: Key, port: Mapping[str, Any], facts: ClusterFacts) -> Backends:
    """Return the backends in ``cluster`` that the port has in the cluster of ``facts``."""
    numbers, ready = set[int](), []
    for entry in traffic.slices_by_service.get(key, ()):
        if entry.managed_by == MIRRORED or entry.source_cluster:
            continue
        matching = [
            number
            for name, protocol, number in entry.ports
            if port_names_match(facts, port.get("name") or "", name) and protocol == (port.get("protocol") or "TCP")
        ]
        if matching:
            numbers.update(matching)
            ready += [endpoint for endpoint in entry.endpoints if endpoint.ready]
    return Backends(cluster=cluster, port=numbers.pop() if len(numbers) == 1 else 0, ready=tuple(ready))


def _chosen(local: Backends, remote: list[Backends], affinity: str) -> list[Backends]:
    own = [local] if local.ready else []
    if affinity == "Local":
        return own or remote
    if affinity == "Remote":
        return remote or own
    return [*own, *remote]

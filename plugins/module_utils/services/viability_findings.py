# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about whether a Service will work: what Cilium needs on both sides of a link, as it will be after the plan. Pure.

There is one finding per matter and Service, with all its clusters: there may be hundreds of services.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..base.tables import count
from ..findings.finding import Finding, Severity
from ..findings.wording import config_evidence, helm, item_finding, lines, listed, restart
from ..items.models import GlobalService
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.traffic import Key, ObjectFacts
from ..mesh.versions.cilium_config import replaces_kube_proxy
from ..mesh.versions.minors import cilium_version, holds
from .annotations import AFFINITY, GLOBAL, SHARED, affinity_of, syncs_slices
from .decisions import Decisions
from .findings import key_text
from .mesh_view import DEFAULT_GLOBAL, NAMESPACE_GLOBAL, MeshView, syncs_endpoints
from .stubs import is_headless


def viability_findings(item: GlobalService, decided: Decisions) -> list[Finding]:
    """Return the findings about one GlobalService with backend Annotations."""
    view = decided.view
    found = list(target_findings(item, decided))
    for key in decided.assignment.won[item.name]:
        found += [
            *service_type_findings(item, key, decided),
            *_consumer_findings(item, key, view),
            *_namespace_findings(item, key, view),
            *_port_findings(item, key, view),
            *_headless_findings(item, key, view),
            *_backend_findings(item, key, view),
        ]
    return [*found, *_kube_proxy_findings(item, decided)]


def target_findings(item: GlobalService, decided: Decisions) -> Iterator[Finding]:
    """Yield findings about targets without the Service, or without its namespace."""
    scene, selector = decided.scene, item.selector
    hosts = [host for host in scene.hosts if host in item.targets]
    bare = [host for host in hosts if selector.namespace not in scene.traffic[host].namespaces]
    if bare:
        yield item_finding(
            item.ref,
            "CM-GS-08",
            bare,
            summary=f"{listed(bare)}: there is no namespace {selector.namespace}, so that GlobalService {item.name} does nothing there",
            fix=f"Create the namespace: kubectl create namespace {selector.namespace}. Or take the cluster out of targetClusters.",
        )
    won = decided.assignment.won[item.name]
    if selector.selects_many and not won and len(bare) < len(hosts):
        labels = ",".join(f"{key}={value}" for key, value in sorted(selector.labels.items()))
        yield item_finding(
            item.ref,
            "CM-GS-02",
            [host for host in hosts if host not in bare],
            summary=f"GlobalService {item.name}: no Service in namespace {selector.namespace} of any target has the labels {labels}",
            fix="Correct the labels, or deploy the Service.",
        )
    if selector.name:
        key = (selector.namespace, selector.name)
        lacking = [host for host in hosts if host not in bare and decided.view.service(host, key) is None]
        if lacking:
            yield _missing(item, key, lacking, decided)
        unlike = [host for host in hosts if host not in won[key] and decided.index.named(host, key) is not None]
        if unlike:
            yield item_finding(
                item.ref,
                "CM-GS-02",
                unlike,
                summary=f"{listed(unlike)}: Service {key_text(key)} does not have all labels that GlobalService {item.name} asks for",
                evidence="An item with name and labelSelector selects the Service of that name only where it has the labels.",
                fix="Correct the labels, or remove the labelSelector.",
            )


def _missing(item: GlobalService, key: Key, hosts: list[str], decided: Decisions) -> Finding:
    stub = item.backend == "Annotations" and not item.create_missing and bool(decided.assignment.won[item.name][key])
    return item_finding(
        item.ref,
        "CM-GS-01",
        hosts,
        summary=f"{listed(hosts)}: there is no Service {key_text(key)}: nothing is exported there, and clients there cannot use it",
        evidence="A global Service has the same namespace and name in every cluster.",
        fix=lines(
            "Deploy the Service there, or take the cluster out of targetClusters.",
            "For clients alone, createMissingServices: true makes a Service without backends of its own." if stub else "",
        ),
    )


def service_type_findings(item: GlobalService, key: Key, decided: Decisions) -> Iterator[Finding]:
    """Yield findings about Services that are an ExternalName or have no selector."""
    services = {host: service for host in decided.assignment.won[item.name][key] if (service := decided.index.named(host, key)) is not None}
    external = [host for host, service in services.items() if service.spec.get("type") == "ExternalName"]
    if external:
        yield item_finding(
            item.ref,
            "CM-GS-13",
            external,
            summary=f"{listed(external)}: Service {key_text(key)} is an ExternalName, a DNS alias without backends; the run writes "
            "nothing for it",
            fix="Make it a ClusterIP Service, or let the GlobalService select another.",
        )
    bare = [host for host, service in services.items() if host not in external and not service.spec.get("selector")]
    if bare:
        number = sum(decided.view.endpoints(host, key).total for host in bare)
        yield item_finding(
            item.ref,
            "CM-GS-14",
            bare,
            summary=f"{listed(bare)}: Service {key_text(key)} has no selector; its backends are the EndpointSlices that another writer "
            "maintains",
            evidence=f"{count(number, 'endpoint')} just now.",
            fix="Nothing has to be done if that is intended.",
        )


def _consumer_findings(item: GlobalService, key: Key, view: MeshView) -> Iterator[Finding]:
    """Yield findings about linked clusters where the Service is missing or not global.

    Backends are used only if it is global on both sides (issue 23298).
    """
    without, local = [], []
    for host in view.consumers(key):
        if view.service(host, key) is None:
            if not (item.selector.name and host in item.targets) and key[0] in view.scene.traffic[host].namespaces:
                without.append(host)
        elif not view.uses(host, key):
            local.append(host)
    if without:
        yield item_finding(
            item.ref,
            "CM-GS-06",
            without,
            summary=f"{listed(without)}: there is no Service {key_text(key)}, so that clients there cannot use the backends of other "
            "clusters",
            evidence=f"Exported by {listed(view.exporters(key))}.",
            fix="Nothing has to be done if no client there needs it. Otherwise set createMissingServices: true, or deploy it and "
            "add the cluster to targetClusters.",
        )
    if local:
        yield item_finding(
            item.ref,
            "CM-GS-07",
            local,
            severity=Severity.REMEDIABLE if any(host in item.targets for host in local) else Severity.ADVISORY,
            summary=f"{listed(local)}: Service {key_text(key)} is not global there, so that its clients see local backends only",
            evidence=f"{GLOBAL} is not true there; exported by {listed(view.exporters(key))}.",
            fix="Add the cluster to targetClusters (and the labels of the selector to the Service), or leave it as it is if that is "
            "intended.",
        )
    lacking = [host for host in view.consumers(key) if key[0] not in view.scene.traffic[host].namespaces and host not in item.targets]
    if lacking and item.create_missing:
        yield item_finding(
            item.ref,
            "CM-GS-08",
            lacking,
            summary=f"{listed(lacking)}: there is no namespace {key[0]}, so that no Service {key_text(key)} is made for clients there",
            fix=f"Create the namespace: kubectl create namespace {key[0]}.",
        )


def _namespace_findings(item: GlobalService, key: Key, view: MeshView) -> Iterator[Finding]:
    hosts = [host for host in view.scene.hosts if view.uses(host, key) and not view.namespace_global(host, key[0])]
    yield from namespace_findings(item, key, hosts, view)


def namespace_findings(item: GlobalService, key: Key, hosts: list[str], view: MeshView) -> Iterator[Finding]:
    """Yield a finding about namespaces that are not global."""
    if hosts:
        facts = view.scene.facts[hosts[0]]
        yield item_finding(
            item.ref,
            "CM-GS-09",
            hosts,
            summary=f"{listed(hosts)}: namespace {key[0]} is not global: Cilium does not publish its Services, pods and identities "
            "to the other clusters",
            evidence=config_evidence(facts, DEFAULT_GLOBAL),
            fix=f"kubectl annotate --overwrite namespace {key[0]} {NAMESPACE_GLOBAL}=true",
        )


def _port_findings(item: GlobalService, key: Key, view: MeshView) -> Iterator[Finding]:
    """Yield findings about ports without a counterpart. Backends are found by the name of the port, whatever its number."""
    for host in view.scene.hosts:
        service = view.service(host, key)
        if service is None or not view.uses(host, key) or is_headless(service):
            continue
        apart = {peer: lonely for peer in view.exporters_seen_by(host, key) if (lonely := _unmatched_ports(host, service, peer, key, view))}
        if apart:
            texts = [f"{peer}: none for {', '.join(lonely)}" for peer, lonely in apart.items()]
            yield item_finding(
                item.ref,
                "CM-GS-10",
                [host, *apart],
                summary=f"{host}: ports of Service {key_text(key)} have no port of that name and protocol in {listed(apart)}",
                evidence="; ".join(texts),
                fix="Give the ports the same names and protocols in all clusters; their numbers may differ.",
            )


def _unmatched_ports(host: str, service: ObjectFacts, peer: str, key: Key, view: MeshView) -> list[str]:
    """Return the ports of ``service`` to which no port of the peer's Service corresponds."""
    other = view.service(peer, key)
    facts = view.scene.facts[host]
    offered = {_port(port) for port in (other.spec.get("ports") or () if other else ())}
    found = []
    for name, protocol in sorted({_port(port) for port in service.spec.get("ports") or ()}):
        if not any(proto == protocol and port_names_match(facts, name, theirs) for theirs, proto in offered):
            found.append(f"{name or 'the unnamed port'}/{protocol}")
    return found


def _port(port: dict[str, object]) -> tuple[str, str]:
    return str(port.get("name") or ""), str(port.get("protocol") or "TCP")


def _headless_findings(item: GlobalService, key: Key, view: MeshView) -> Iterator[Finding]:
    """Yield a finding if EndpointSlices of other clusters are needed and not written.

    DNS of a headless Service, and controllers that read EndpointSlices, know only the endpoints in EndpointSlices.
    """
    hosts = []
    for host in view.scene.hosts:
        service = view.service(host, key)
        if service is None or not view.uses(host, key) or not view.exporters_seen_by(host, key):
            continue
        headless = is_headless(service)
        asked = syncs_slices(view.annotations_of(host, key), headless=headless)
        if (asked or headless) and not (asked and syncs_endpoints(view.scene.facts[host])):
            hosts.append(host)
    if hosts:
        facts = view.scene.facts[hosts[0]]
        yield item_finding(
            item.ref,
            "CM-GS-11",
            hosts,
            summary=f"{listed(hosts)}: Service {key_text(key)} needs EndpointSlices of the backends of other clusters, and there are none",
            evidence=f"It is headless, or asks for them; {config_evidence(facts, 'clustermesh-enable-endpoint-sync')}",
            fix=lines(helm(facts, "clustermesh.enableEndpointSliceSynchronization=true"), restart(facts)),
        )


def _backend_findings(item: GlobalService, key: Key, view: MeshView) -> Iterator[Finding]:
    exporters = view.exporters(key)
    users = [host for host in view.scene.hosts if view.uses(host, key)]
    if users and not exporters and all(view.namespace_global(host, key[0]) for host in users):
        yield item_finding(
            item.ref,
            "CM-GS-15",
            users,
            summary=f"Service {key_text(key)} is global in {listed(users)} and no cluster exports it: {SHARED} is false everywhere",
            fix="Set shared: true in the GlobalService of a cluster that has backends, or remove the annotation there.",
        )
    if exporters and not view.ready(exporters, key):
        yield no_endpoint_finding(item, key, exporters, view)
    remote = [
        host
        for host in users
        if affinity_of(view.annotations_of(host, key)) == "Remote" and not view.ready(view.exporters_seen_by(host, key), key)
    ]
    if remote:
        yield item_finding(
            item.ref,
            "CM-GS-16",
            remote,
            summary=f"{listed(remote)}: Service {key_text(key)} prefers remote backends, and no linked cluster has one that is ready",
            evidence=f"{AFFINITY} is remote; local backends are used meanwhile.",
            fix="Start backends in another cluster, or use affinity: Local.",
        )


def no_endpoint_finding(item: GlobalService, key: Key, hosts: Iterable[str], view: MeshView) -> Finding:
    """Return the finding that no exporting cluster has a ready endpoint."""
    numbers = [f"{host}: {view.endpoints(host, key).ready} of {view.endpoints(host, key).total} ready" for host in hosts]
    return item_finding(
        item.ref,
        "CM-GS-17",
        list(hosts),
        summary=f"Service {key_text(key)} has no ready endpoint in any cluster that exports it",
        evidence="; ".join(numbers),
        fix=f"Check its pods: kubectl get pods,endpointslices --namespace {key[0]}",
    )


def _kube_proxy_findings(item: GlobalService, decided: Decisions) -> Iterator[Finding]:
    view, scene = decided.view, decided.scene
    hosts = [
        host
        for host in scene.hosts
        if not replaces_kube_proxy(scene.facts[host])
        and any(view.uses(host, key) and view.exporters_seen_by(host, key) for key in decided.assignment.won[item.name])
    ]
    if hosts:
        facts = scene.facts[hosts[0]]
        yield item_finding(
            item.ref,
            "CM-GS-12",
            hosts,
            summary=f"{listed(hosts)}: kube-proxy is not replaced: node ports, load balancers and host network reach local backends only",
            evidence=config_evidence(facts, "kube-proxy-replacement"),
            fix=lines(helm(facts, "kubeProxyReplacement=true"), restart(facts)),
        )


def port_names_match(facts: ClusterFacts, name: str, theirs: str) -> bool:
    """Return whether port ``name`` of a Service in the cluster of ``facts`` uses backends of a peer's port ``theirs``.

    "" is a port without a name.
    """
    return name == theirs or ("" in (name, theirs) and holds("free_port_names", cilium_version(facts)))

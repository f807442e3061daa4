# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of the facts on which a plan relies: a digest per section, so that a message can name a change without its values.

Versions of objects, readiness and times are not included: they change without changing a decision.
"""

from __future__ import annotations

from ..mesh.endpoints.ip_families import dialable_families
from ..mesh.facts.cluster import CaSecretFacts, ClusterFacts, PeerSecretFacts, RegistryFacts, ServiceFacts, TlsSecretFacts, WorkloadFacts
from ..mesh.trust.ca_roll import MARK
from ..mesh.versions.minors import cilium_version, reader_version
from ..plan.steps import digest_of
from .load_balancer import ELB_AUTOCREATE, ELB_ID


def facts_fingerprint(cluster: ClusterFacts) -> dict[str, str]:
    """Return section -> SHA-256 hex; a section in which there is nothing has no row.

    Equal for two observations on which every decision of a planner comes out the same, apart from those that time makes.
    """
    sections: dict[str, object] = {
        "identity": [cluster.host, cluster.uid, cluster.namespace, cluster.name, cluster.id],
        "cilium": [str(cilium_version(cluster)), str(reader_version(cluster)), cluster.runs_kvstoremesh, cluster.users_enabled],
        "endpoint": _endpoint(cluster),
        "service": _service(cluster.service),
        "families": sorted(dialable_families(cluster)),
        "load balancer": _load_balancer(cluster),
        "certificates": [_tls(secret) for secret in (cluster.server_cert, cluster.remote_cert) if secret.present],
        "ca": [cluster.ca.digest, cluster.ca.has_key, cluster.ca.key_matches, *_roll(cluster.ca)] if cluster.ca.present else [],
        "peers": [_peers(secret) for secret in (cluster.kvstoremesh, cluster.clustermesh) if secret.present],
        "users": [cluster.users.text, dict(cluster.users.annotations), cluster.users.problem] if cluster.users.present else [],
        "aliases": [_aliases(workload) for workload in (cluster.apiserver, cluster.agent) if workload and workload.host_aliases],
        "registry": _registry(cluster.registry),
    }
    return {name: digest_of(value) for name, value in sections.items() if value}


def _endpoint(cluster: ClusterFacts) -> list[object]:
    permitted = [list(cluster.endpoint_domains), list(cluster.endpoint_networks)]
    return [value for value in (cluster.endpoint_override, *permitted) if value]


def _service(service: ServiceFacts | None) -> list[object]:
    if service is None:
        return []
    addresses = [sorted(service.ingress_ips), list(service.ingress_hostnames)]
    families = [list(service.cluster_ips[1:]), list(service.ip_families[1:])] if len(service.ip_families) > 1 else []
    return [service.type, service.cluster_ip, service.port, service.node_port, *addresses, *families]


def _load_balancer(cluster: ClusterFacts) -> list[object]:
    service = cluster.service
    if service is None:
        return [cluster.elb_id] if cluster.elb_id else []
    keys = [key for key in (ELB_ID, ELB_AUTOCREATE) if key in service.annotations]
    held = [[key, service.annotations[key], service.annotation_managers.get(key, ())] for key in keys]
    return [cluster.elb_id, held] if cluster.elb_id or held else []


def _roll(ca: CaSecretFacts) -> list[str]:
    """Return the annotation of a CA roll, which changes what all readers trust."""
    return [ca.annotations[MARK]] if MARK in ca.annotations else []


def _tls(secret: TlsSecretFacts) -> list[object]:
    return [secret.name, dict(secret.digests), secret.key_matches, secret.chain_valid]


def _peers(secret: PeerSecretFacts) -> list[object]:
    keys = {key: [facts.digest, facts.managers] for key, facts in secret.keys.items()}
    return [secret.name, keys, dict(secret.labels), dict(secret.annotations)]


def _aliases(workload: WorkloadFacts) -> list[object]:
    return [workload.name, [[alias.ip, list(alias.hostnames), sorted(alias.managers)] for alias in workload.host_aliases]]


def _registry(registry: RegistryFacts) -> list[object]:
    return [registry.text, registry.managers, dict(registry.labels)] if registry.present else []

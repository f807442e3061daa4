# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a plan relies on in a cluster, as one digest.

Not in it: versions of objects, readiness, times. They change without changing a decision.
"""

from __future__ import annotations

from .facts import ClusterFacts, PeerSecretFacts, TlsSecretFacts, WorkloadFacts
from .peer_keys import reader_version
from .steps import digest_of
from .versions import cilium_version


def relied_on(cluster: ClusterFacts) -> str:
    """SHA-256 hex. Equal for two observations on which every decision of a planner comes out the same, apart from those that time makes."""
    service = cluster.service
    return digest_of(
        {
            "identity": [cluster.host, cluster.uid, cluster.namespace, cluster.name, cluster.id],
            "cilium": [str(cilium_version(cluster)), str(reader_version(cluster)), cluster.runs_kvstoremesh, cluster.users_enabled],
            "endpoint": [cluster.endpoint_override]
            + ([service.type, service.cluster_ip, service.port, service.node_port] if service else [])
            + ([sorted(service.ingress_ips), list(service.ingress_hostnames)] if service else []),
            "certificates": [_tls(secret) for secret in (cluster.server_cert, cluster.remote_cert)],
            "ca": [cluster.ca.digest, cluster.ca.has_key, cluster.ca.key_matches],
            "peers": [_peers(secret) for secret in (cluster.kvstoremesh, cluster.clustermesh)],
            "users": [cluster.users.text, dict(cluster.users.annotations), cluster.users.problem],
            "aliases": [_aliases(workload) for workload in (cluster.apiserver, cluster.agent)],
        }
    )


def _tls(secret: TlsSecretFacts) -> list[object]:
    return [secret.name, dict(secret.digests), secret.key_matches, secret.chain_valid]


def _peers(secret: PeerSecretFacts) -> list[object]:
    keys = {key: [facts.digest, list(facts.managers)] for key, facts in secret.keys.items()}
    return [secret.present, keys, dict(secret.labels), dict(secret.annotations)]


def _aliases(workload: WorkloadFacts | None) -> list[object]:
    return [[alias.ip, list(alias.hostnames), sorted(alias.managers)] for alias in workload.host_aliases] if workload else []

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""From the answers of one cluster to its facts; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..facts import ClusterFacts
from ..kube import ClusterAccess
from .certificates import ca_secret_facts, tls_secret_facts
from .config import config_data, kubernetes_version
from .nodes import node_facts
from .objects import annotations_of, labels_of, text
from .peers import peer_secret_facts
from .pods import AGENT, APISERVER, pod_facts
from .service import service_facts
from .users import remote_users_facts
from .workloads import workload_facts


def assemble(access: ClusterAccess, found: Mapping[str, Any]) -> ClusterFacts:
    """``found``: the answers by the names of ``reads.other_reads``, and "first" for ``reads.first_read``."""
    return ClusterFacts(
        host=access.host,
        uid=text(found["first"], "metadata", "uid"),
        namespace=access.namespace,
        endpoint_override=access.endpoint_override,
        kubernetes_version=kubernetes_version(found["version"]),
        config=config_data(found["config"]),
        config_labels=labels_of(found["config"]),
        config_annotations=annotations_of(found["config"]),
        agent=workload_facts(found["agent"], "DaemonSet"),
        apiserver=workload_facts(found["apiserver"], "Deployment"),
        service=service_facts(found["service"]),
        nodes=node_facts(found["nodes"], found["cilium_nodes"]),
        agent_pods=pod_facts(found["pods"], AGENT),
        apiserver_pods=pod_facts(found["pods"], APISERVER),
        ca=ca_secret_facts(found["ca"]),
        server_cert=tls_secret_facts(found["server_cert"], "clustermesh-apiserver-server-cert"),
        remote_cert=tls_secret_facts(found["remote_cert"], "clustermesh-apiserver-remote-cert"),
        local_cert=tls_secret_facts(found["local_cert"], "clustermesh-apiserver-local-cert"),
        admin_cert=tls_secret_facts(found["admin_cert"], "clustermesh-apiserver-admin-cert"),
        clustermesh=peer_secret_facts(found["clustermesh"], "cilium-clustermesh"),
        kvstoremesh=peer_secret_facts(found["kvstoremesh"], "cilium-kvstoremesh"),
        users=remote_users_facts(found["users"]),
    )

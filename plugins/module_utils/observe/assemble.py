# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Assembly of one cluster's facts from the answers of its API server. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.json_fields import annotations_of, labels_of, text
from ..kubeconfig.access import ClusterAccess
from ..mesh.facts.cluster import CaSecretFacts, ClusterFacts, RegistryFacts, Unread, WorkloadFacts
from .bundle import bundle_facts, bundle_of
from .certificates import ca_secret_facts, tls_secret_facts
from .config import config_changed, config_data, kubernetes_version
from .ipsec import ipsec_facts, secret_name
from .nodes import node_facts, pod_pool_facts
from .ownership import all_writers
from .peers import peer_secret_facts
from .pods import AGENT, APISERVER, pod_facts
from .reads import deployment_named
from .registry import registry_facts
from .service import service_facts
from .users import remote_users_facts
from .workloads import workload_facts

OPERATOR = "cilium-operator"
NOT_READABLE = "not readable (RBAC)"


def assemble(access: ClusterAccess, found: Mapping[str, Any], unread: tuple[Unread, ...] = ()) -> ClusterFacts:
    """Return the facts of one cluster.

    :param found: the answers by the names of ``reads.other_reads`` and ``further_reads``, and "first" for ``reads.first_read``.
    """
    forbidden = {entry.what for entry in unread}
    config = config_data(found["config"])
    bundle = bundle_of(found)
    return ClusterFacts(
        host=access.host,
        uid=text(found["first"], "metadata", "uid"),
        namespace=access.namespace,
        endpoint_override=access.endpoint_override,
        endpoint_domains=access.endpoint_domains,
        endpoint_networks=access.endpoint_networks,
        denied_networks=access.denied_networks,
        allowed_annotations=access.allowed_annotations,
        elb_id=access.elb_id,
        kubernetes_version=kubernetes_version(found["version"]),
        config=config,
        config_version=text(found["config"], "metadata", "resourceVersion"),
        config_changed=config_changed(found["config"]),
        config_labels=labels_of(found["config"]),
        config_annotations=annotations_of(found["config"]),
        agent=workload_facts(found["agent"], "DaemonSet"),
        apiserver=workload_facts(found["apiserver"], "Deployment"),
        service=service_facts(found["service"]),
        nodes=node_facts(found["nodes"], found["cilium_nodes"]),
        agent_pods=pod_facts(found["pods"], AGENT),
        apiserver_pods=pod_facts(found["pods"], APISERVER),
        ca=CaSecretFacts(problem=NOT_READABLE) if "ca" in forbidden else ca_secret_facts(found["ca"]),
        server_cert=tls_secret_facts(found["server_cert"], "clustermesh-apiserver-server-cert"),
        remote_cert=tls_secret_facts(found["remote_cert"], "clustermesh-apiserver-remote-cert"),
        local_cert=tls_secret_facts(found["local_cert"], "clustermesh-apiserver-local-cert"),
        admin_cert=tls_secret_facts(found["admin_cert"], "clustermesh-apiserver-admin-cert"),
        clustermesh=peer_secret_facts(found["clustermesh"], "cilium-clustermesh"),
        kvstoremesh=peer_secret_facts(found["kvstoremesh"], "cilium-kvstoremesh"),
        users=remote_users_facts(found["users"]),
        registry=registry_facts(found["registry"]) if "registry" in found else RegistryFacts(unread=True),
        writers=all_writers(found),
        operator=workload_facts(deployment_named(found, OPERATOR), "Deployment"),
        parts=_parts(found),
        ipsec=ipsec_facts(found["ipsec"], secret_name(found["agent"]), config or {}) if _was_read(found, "ipsec", forbidden) else None,
        pod_pools=pod_pool_facts(found.get("pod_pools") or ()),
        ca_bundle=bundle_facts(bundle, found["ca_bundle"]) if bundle is not None and _was_read(found, "ca_bundle", forbidden) else None,
        unread=unread,
    )


def _was_read(found: Mapping[str, Any], name: str, forbidden: set[str]) -> bool:
    return name in found and name not in forbidden


def _parts(found: Mapping[str, Any]) -> dict[str, WorkloadFacts]:
    """Return Hubble Relay, Hubble UI and other Deployments of Cilium by name, without those that have a field of their own."""
    parts = (workload_facts(value, "Deployment") for value in found.get("parts") or ())
    return {part.name: part for part in parts if part is not None and part.name not in (OPERATOR, APISERVER)}

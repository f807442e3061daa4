# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of Service ``clustermesh-apiserver``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.json_fields import annotations_of, items, labels_of, mapping, number, text, texts
from ..mesh.facts.cluster import ServiceFacts
from .ownership import owners_of_fields


def service_facts(value: Any) -> ServiceFacts | None:
    """Return the facts of the Service. The port is the one named ``apiserv`` (all charts), else the first, as the cilium CLI takes it."""
    if value is None:
        return None
    ports = items(value, "spec", "ports")
    port: Mapping[str, Any] = next((p for p in ports if text(p, "name") == "apiserv"), ports[0] if ports else {})
    ingress = items(value, "status", "loadBalancer", "ingress")
    return ServiceFacts(
        type=text(value, "spec", "type") or "ClusterIP",
        cluster_ip=text(value, "spec", "clusterIP"),
        port=number(port, "port") or 2379,
        node_port=number(port, "nodePort") or None,
        ingress_ips=tuple(text(i, "ip") for i in ingress if text(i, "ip")),
        ingress_hostnames=tuple(text(i, "hostname") for i in ingress if text(i, "hostname")),
        labels=labels_of(value),
        annotations=annotations_of(value),
        selector={k: v for k, v in mapping(value, "spec", "selector").items() if isinstance(v, str)},
        external_traffic_policy=text(value, "spec", "externalTrafficPolicy"),
        session_affinity=text(value, "spec", "sessionAffinity") or "None",
        uid=text(value, "metadata", "uid"),
        cluster_ips=texts(value, "spec", "clusterIPs"),
        ip_families=texts(value, "spec", "ipFamilies"),
        annotation_managers=owners_of_fields(value, "metadata", "annotations"),
    )

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Inputs that people reported for other tools, and what the checks say of them. Each is here because it was once judged right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, NodeFacts, ServiceFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import CiliumVersion
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.mesh_view import MeshView
from tests.testing.facts_builders import cluster_facts, context_of
from tests.testing.traffic_builders import NAMESPACE, scene, service, traffic

MESH: Final = Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=("c1", "c2")))
ENI: Final = {"ipam": "eni", "cluster-pool-ipv4-cidr": None, "routing-mode": "native", "ipv4-native-routing-cidr": "10.0.0.0/16"}


def codes(*clusters: ClusterFacts) -> dict[str, str]:
    """Codes of the findings, with their severity."""
    context = context_of(*clusters, mesh=MESH)
    return {found.code: found.severity.value for found in run_checks(context, "verify")}


def load_balancer(**fields: Any) -> ServiceFacts:
    return ServiceFacts(**{"type": "LoadBalancer", "cluster_ip": "10.96.1.10", "node_port": 30001, **fields})


def eni(host: str, address: str, *allocated: str) -> ClusterFacts:
    node = NodeFacts(name=f"{host}-n1", ready=True, internal_ips=(address,), pod_cidrs=(), allocated_cidrs=allocated)
    return cluster_facts(host, config=ENI, nodes=(node,))


def test_a_uuid_is_too_long_for_the_name_of_a_cluster() -> None:
    name = "119d9ef4-4a32-11ef-9d55-000000000000"
    found = codes(cluster_facts("c1", version="1.16.9", config={"cluster-name": name}), cluster_facts("c2", version="1.16.9"))
    assert found == {"CM-ID-02": "blocking"}


def test_a_load_balancer_whose_name_resolves_in_a_private_zone_alone_has_no_address_to_dial() -> None:
    balancer = load_balancer(ingress_hostnames=("internal-a0000000000000000.eu-central-1.elb.amazonaws.com",))
    assert codes(cluster_facts("c1", service=balancer), cluster_facts("c2")) == {"CM-EP-02": "blocking"}


def test_a_node_port_that_one_node_answers_is_reported() -> None:
    local = load_balancer(type="NodePort", node_port=31000, external_traffic_policy="Local")
    assert codes(cluster_facts("c1", node_count=5, service=local), cluster_facts("c2")) == {"CM-SVC-02": "advisory"}


def test_two_clusters_of_one_subnet_do_not_overlap_while_no_address_is_in_both() -> None:
    first = eni("c1", "10.0.1.10", "10.0.1.11/32", "10.0.1.12/32")
    assert codes(first, eni("c2", "10.0.1.110", "10.0.1.111/32")) == {}
    assert "CM-CIDR-01" in codes(first, eni("c2", "10.0.1.110", "10.0.1.12/32"))


def test_a_load_balancer_with_an_address_for_each_node_is_well() -> None:
    balancer = load_balancer(cluster_ip="10.43.1.10", ingress_ips=("192.168.1.14", "192.168.1.12", "192.168.1.13", "192.168.1.11"))
    assert codes(cluster_facts("c1", service=balancer), cluster_facts("c2")) == {}


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("mcr.microsoft.com/oss/v2/cilium/cilium:v1.17.4-250610", "1.17.4-250610"),
        ("public.ecr.aws/isovalent/cilium:v1.16.9-0", "1.16.9-0"),
        ("rancher/mirrored-cilium-cilium:v1.18.2", "1.18.2"),
        ("registry.local:5000/cilium/cilium:v1.18.2@sha256:" + "c" * 64, "1.18.2"),
        ("registry.connect.redhat.com/isovalent/cilium@sha256:" + "a" * 64, None),
    ],
)
def test_the_version_of_a_vendors_image_is_read_or_unknown(image: str, version: str | None) -> None:
    found = CiliumVersion.from_image(image)
    assert (str(found) if found else None) == version


@pytest.mark.parametrize(
    ("annotations", "uses", "exports"),
    [
        ({}, False, False),
        ({"service.cilium.io/global": "true"}, True, True),
        ({"service.cilium.io/shared": "true"}, False, False),
        ({"service.cilium.io/global": "True", "service.cilium.io/shared": "FALSE"}, True, False),
        ({"io.cilium/global-service": "true", "service.cilium.io/global": "false"}, False, False),
        ({"io.cilium/global-service": "true", "io.cilium/shared-service": "false"}, True, False),
    ],
)
def test_annotations_of_a_service_mean_what_they_mean_to_cilium(annotations: Mapping[str, str], uses: bool, exports: bool) -> None:
    annotated = replace(service(), annotations=annotations)
    view = MeshView(scene=scene(traffic("c1", services=[annotated]), traffic("c2")))
    key = (NAMESPACE, "nginx")
    assert (view.uses("c1", key), "c1" in view.exporters(key)) == (uses, exports)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Networks and ports that collide, and clusters without a mesh endpoint or without Cilium, are refused before anything is written."""

from __future__ import annotations

import pytest

from tests.integration.labs import NODE_PORT
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.integration.test_bad_input import changed_object, refused

pytestmark = pytest.mark.lab(NODE_PORT)

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


def test_overlapping_pod_networks_block(lab: MeshLab) -> None:
    path = "/apis/cilium.io/v2/ciliumnodes/c2-node1"
    networks = {"podCIDRs": ["10.1.0.0/24"]}  # the first network of c1
    restore = changed_object(lab, path, lambda item: item["spec"]["ipam"].update(networks))
    try:
        refused(lab, codes=("CM-CIDR-01",), says=("10.1.0.0/24",))
    finally:
        restore()


def test_the_same_node_port_on_both_sides_blocks_before_1_19(lab: MeshLab) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/services/clustermesh-apiserver"
    taken = lab.api("c1").get(path)
    assert taken is not None
    port = taken["spec"]["ports"][0]["nodePort"]
    restore = changed_object(lab, path, lambda item: item["spec"]["ports"][0].update({"nodePort": port}))
    try:
        refused(lab, says=("nodePort", str(port)))
    finally:
        restore()


def test_mesh_off_and_no_cilium_are_distinguished(lab: MeshLab) -> None:
    lab.api("c2").delete(f"{DEPLOYMENTS}/clustermesh-apiserver")
    mesh_off = refused(lab, says=("clustermesh-apiserver", "clustermesh.useAPIServer=true"))
    lab.api("c2").delete(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/cilium")
    lab.api("c2").delete(f"/api/v1/namespaces/{NAMESPACE}/configmaps/cilium-config")
    no_cilium = refused(lab, says=("Cilium",))
    blocking = [{f["code"] for f in run.result["findings"] if f["severity"] == "blocking"} for run in (mesh_off, no_cilium)]
    assert blocking[0] and blocking[1] and not blocking[0] & blocking[1]

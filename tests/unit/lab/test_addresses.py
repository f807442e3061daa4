# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who listens where."""

from __future__ import annotations

from tests.lab.addresses import ClusterAddresses, claim_lab_number, node_pod_cidr, pod_address, router_address


def test_two_labs_never_get_the_same_network_and_a_freed_one_can_be_had_again() -> None:
    first, holder = claim_lab_number()
    second, other = claim_lab_number()
    assert first != second
    other.close()
    third, again = claim_lab_number()
    assert third == second
    holder.close()
    again.close()


def test_addresses_of_a_cluster_do_not_clash() -> None:
    place = ClusterAddresses(20, 3)
    found = [place.control_plane, place.kubelet, place.cluster_ip]
    found += [place.node(number) for number in range(80)]
    found += [place.load_balancer(number) for number in range(101)]
    assert len(set(found)) == len(found)
    assert all(address.startswith("127.20.3.") for address in found)


def test_every_node_has_a_pod_network_with_room_for_router_and_pods() -> None:
    assert node_pod_cidr("10.3.0.0/16", 2) == "10.3.2.0/24"
    assert router_address("10.3.2.0/24") == "10.3.2.1"
    assert pod_address("10.3.2.0/24", 1) == "10.3.2.11"

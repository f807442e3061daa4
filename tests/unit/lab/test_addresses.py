# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who listens where."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from tests.lab.addresses import LABS, OUTSIDE, ClusterAddresses, NoRoomError, claim_lab_number, node_pod_cidr, pod_address, router_address
from tests.lab.fabric import NETWORK


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


def test_addresses_on_the_wire_do_not_clash() -> None:
    places = [ClusterAddresses(LABS[0], index) for index in range(1, 41)]
    found = [*OUTSIDE, *(place.wire(number) for place in places for number in range(80))]
    found += [place.wire_balancer(number) for place in places for number in range(254)]
    assert len(set(found)) == len(found)
    assert all(ip_address(address) in ip_network(NETWORK) for address in found)
    assert all(ip_address(place.wire_balancer(253)) in ip_network(place.wire_balancers) for place in places)
    with pytest.raises(NoRoomError, match="254"):
        places[0].wire_balancer(254)


def test_every_node_has_a_pod_network_with_room_for_router_and_pods() -> None:
    assert node_pod_cidr("10.3.0.0/16", 2) == "10.3.2.0/24"
    assert router_address("10.3.2.0/24") == "10.3.2.1"
    assert pod_address("10.3.2.0/24", 1) == "10.3.2.11"

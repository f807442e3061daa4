# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Sets of address ranges say the same as ``ipaddress`` does of few ranges."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, collapse_addresses

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.networks import (
    Network,
    NetworkSet,
    join_networks,
    widen_networks,
)

V4 = st.builds(lambda low, length: IPv4Network((0x0A000000 + low, length), strict=False), st.integers(0, 255), st.integers(22, 32))
V6 = st.builds(lambda low, length: IPv6Network(((0xFD << 120) + low, length), strict=False), st.integers(0, 255), st.integers(118, 128))
EVERYTHING = st.sampled_from([IPv4Network("0.0.0.0/0"), IPv6Network("::/0")])
NETWORKS = st.lists(V4 | V6 | EVERYTHING, max_size=12)


def collapsed(networks: list[Network]) -> list[Network]:
    v4, v6 = [n for n in networks if isinstance(n, IPv4Network)], [n for n in networks if isinstance(n, IPv6Network)]
    return [*sorted(collapse_addresses(v4)), *sorted(collapse_addresses(v6))]


def addresses(networks: list[Network]) -> set[tuple[int, int]]:
    """The addresses among the few that the strategies use."""
    tried = {4: 0x0A000000, 6: 0xFD << 120}
    found = set[tuple[int, int]]()
    for network in networks:
        first = tried[network.version]
        here = range(max(first, int(network.network_address)), min(first + 1023, int(network.broadcast_address)) + 1)
        found |= {(network.version, address) for address in here}
    return found


@given(networks=NETWORKS)
def test_joined_ranges_are_the_fewest_with_the_same_addresses(networks: list[Network]) -> None:
    assert join_networks(networks) == collapsed(networks)


@given(networks=NETWORKS, most=st.integers(1, 5))
def test_widened_ranges_are_few_and_hold_everything(networks: list[Network], most: int) -> None:
    wide = widen_networks(networks, most)
    for kind in (IPv4Network, IPv6Network):
        expected = collapsed([n for n in networks if isinstance(n, kind)])
        while len(expected) > most:
            longest = max(n.prefixlen for n in expected)
            expected = collapsed([n.supernet() if n.prefixlen == longest else n for n in expected])
        assert [n for n in wide if isinstance(n, kind)] == expected


@given(networks=NETWORKS, asked=V4 | V6)
def test_a_set_knows_what_it_contains_and_what_overlaps(networks: list[Network], asked: Network) -> None:
    have, wanted, found = addresses(networks), addresses([asked]), NetworkSet(networks)
    assert found.contains(asked) == (wanted <= have)
    assert found.overlaps(asked) == bool(wanted & have)
    assert bool(found) == bool(networks)

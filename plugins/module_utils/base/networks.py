# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Sets of address ranges, in time n log n for whatever ranges a cluster has.

``ipaddress.collapse_addresses`` and sets of networks are quadratic for chosen ranges: the hash of a network is that of a number, so the
writer of the ranges of a CiliumNode can give thousands of them the same hash. Here everything is sorted, and nothing is hashed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Final, TypeAlias

Network: TypeAlias = "IPv4Network | IPv6Network"
_BITS: Final = {4: 32, 6: 128}


def join_networks(networks: Iterable[Network]) -> list[Network]:
    """Return the fewest ranges that hold the same addresses, sorted, those of IPv4 first."""
    return [network for version, entries in _split(networks).items() for network in _made(version, _joined(version, entries))]


def widen_networks(networks: Iterable[Network], most: int) -> list[Network]:
    """Return at most ``most`` ranges of each family that hold all the addresses, and as few others as one shortest length allows.

    :param most: at least 1.
    """
    found: list[Network] = []
    for version, entries in _split(networks).items():
        low, high = 0, _BITS[version]  # The number of ranges never grows when the length gets shorter, and is 1 or less at length 0.
        while low < high:
            length = (low + high + 1) // 2
            if len(_joined(version, _cut(version, entries, length))) <= most:
                low = length
            else:
                high = length - 1
        found += _made(version, _joined(version, _cut(version, entries, low)))
    return found


class NetworkSet:
    """The addresses of some ranges. A question takes time log n."""

    def __init__(self, networks: Iterable[Network]) -> None:
        self._first: dict[int, list[int]] = {}
        self._last: dict[int, list[int]] = {}
        for version, entries in _split(networks).items():
            first, last = self._first.setdefault(version, []), self._last.setdefault(version, [])
            for address, length in _joined(version, entries):
                end = address + (1 << (_BITS[version] - length)) - 1
                if last and last[-1] + 1 == address:
                    last[-1] = end
                else:
                    first.append(address)
                    last.append(end)

    def __bool__(self) -> bool:
        return any(self._first.values())

    def contains(self, network: Network) -> bool:
        """Return whether all addresses of the range are in the set."""
        at = bisect_right(self._first.get(network.version, []), int(network.network_address)) - 1
        return at >= 0 and int(network.broadcast_address) <= self._last[network.version][at]

    def overlaps(self, network: Network) -> bool:
        """Return whether an address of the range is in the set."""
        at = bisect_right(self._first.get(network.version, []), int(network.broadcast_address)) - 1
        return at >= 0 and int(network.network_address) <= self._last[network.version][at]


_Entry: TypeAlias = "tuple[int, int]"  # address, length


def _split(networks: Iterable[Network]) -> dict[int, list[_Entry]]:
    entries: dict[int, list[_Entry]] = {4: [], 6: []}
    for network in networks:
        entries[network.version].append((int(network.network_address), network.prefixlen))
    return {version: sorted(found) for version, found in entries.items()}


def _cut(version: int, entries: Iterable[_Entry], length: int) -> list[_Entry]:
    """Return the ranges, the longer ones cut to ``length``, sorted by address and length."""
    bits = _BITS[version]
    mask = ((1 << length) - 1) << (bits - length)
    return sorted((address & mask, length) if own > length else (address, own) for address, own in entries)


def _joined(version: int, entries: Iterable[_Entry]) -> list[_Entry]:
    """Return sorted ranges without those within others, neighbours joined."""
    bits = _BITS[version]
    stack: list[_Entry] = []
    for address, length in entries:
        if stack and (address ^ stack[-1][0]) >> (bits - stack[-1][1]) == 0:
            continue
        stack.append((address, length))
        while len(stack) > 1 and _are_halves(stack[-2], stack[-1], bits):
            stack[-2:] = [(stack[-2][0], stack[-2][1] - 1)]
    return stack


def _are_halves(one: _Entry, other: _Entry, bits: int) -> bool:
    half = 1 << (bits - one[1])
    return one[1] == other[1] > 0 and one[0] ^ other[0] == half and not one[0] & half


def _made(version: int, entries: Iterable[_Entry]) -> list[Network]:
    make = IPv4Network if version == 4 else IPv6Network
    return [make(entry) for entry in entries]

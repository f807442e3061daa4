# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Source ranges: the addresses that may reach an exposed service. Without a range none may; all addresses are 0.0.0.0/0 and ::/0."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ipaddress import AddressValueError, IPv6Network, NetmaskValueError, ip_network
from typing import Any, Final

from ..base.input_problems import Problems, list_items, quoted
from ..base.networks import Network, join_networks

LIMIT: Final = 256
"""Ranges of one item. Load balancers and maps of ranges are bounded too (Cilium: bpf-lb-map-max), and tenants write these lists."""

EVERYONE: Final = {4: "0.0.0.0/0", 6: "::/0"}

_MAPPED: Final = IPv6Network("::ffff:0:0/96")


def parse_ranges(problems: Problems, path: str, value: Any) -> tuple[str, ...]:
    """Parse canonical CIDRs, IPv4 first, none of them part of another; () if there is none, or a problem was added."""
    entries = list_items(problems, path, value, "CIDRs")
    if len(entries) > LIMIT:
        problems.add(path, f"has {len(entries)} ranges; at most {LIMIT}")
        return ()
    found = [network for where, entry in entries if (network := _network(problems, where, entry)) is not None]
    whole: list[Network] = []
    for version in EVERYONE:
        whole += _collapsed(problems, path, [n for n in found if n.version == version], version)
    return tuple(str(network) for network in whole)


def _network(problems: Problems, where: str, entry: Any) -> Network | None:
    if not isinstance(entry, str) or "/" not in entry or "%" in entry:
        problems.add(where, f"{quoted(str(entry))} is not a CIDR; one address is written with its length, like 192.0.2.7/32")
        return None
    try:
        network = ip_network(str(entry), strict=False)
        ip_network(str(entry))
    except (AddressValueError, NetmaskValueError):
        problems.add(where, f"{quoted(entry)} is not a CIDR")
        return None
    except ValueError:
        _explain(problems, where, entry)
        return None
    if not entry.partition("/")[2].isdecimal():  # 10.0.0.0/255.0.0.0 is none to Kubernetes
        problems.add(where, f"{quoted(entry)} has a mask and no length; write {network}")
        return None
    if isinstance(network, IPv6Network) and network.prefixlen >= _MAPPED.prefixlen and network.subnet_of(_MAPPED):
        problems.add(where, f"{quoted(entry)} is an IPv4 range in IPv6 form; write it as IPv4")
        return None
    return network


def _explain(problems: Problems, where: str, entry: str) -> None:
    try:
        network = ip_network(entry, strict=False)
    except ValueError:
        problems.add(where, f"{quoted(entry)} is not a CIDR")
        return
    problems.add(
        where,
        f"{quoted(entry)} has bits set behind its length; the range is {network}, one address would be {entry.partition('/')[0]}"
        f"/{network.max_prefixlen}",
    )


def _collapsed(problems: Problems, path: str, networks: list[Any], version: int) -> list[Network]:
    """Return the ranges without overlaps.

    Ranges that together cover the whole internet may be a mistake, so that they have to be written as one.
    """
    together = join_networks(networks)
    everyone = EVERYONE[version]
    if [str(n) for n in together] == [everyone] and everyone not in {str(n) for n in networks}:
        problems.add(path, f"together these are every address; write {everyone} if that is intended")
    return together


def versions_of(ranges: Iterable[str]) -> frozenset[int]:
    """Return the IP versions (4, 6) that have a range."""
    return frozenset(6 if ":" in entry else 4 for entry in ranges)


def of_versions(ranges: Iterable[str], versions: Collection[int]) -> tuple[str, ...]:
    """Return the ranges of these IP versions."""
    return tuple(entry for entry in ranges if (6 if ":" in entry else 4) in versions)


def opens_to_everyone(ranges: Collection[str], versions: Iterable[int]) -> bool:
    """Return whether every address of each of these IP versions is let in."""
    return all(EVERYONE[version] in ranges for version in versions)

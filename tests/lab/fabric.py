# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The wire between the nodes of a lab with real agents: a bridge in a network namespace of its own.

No route leads out of it: neither the bridge nor a node has a default route, and none of their namespaces has a device of the machine. Nodes
have addresses of 198.18.0.0/15, which is for tests between networks (RFC 2544) and is on no other wire.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from typing import Final, NamedTuple

from tests.lab.netns import NetNs

NETWORK: Final = "198.18.0.0/15"
DEVICE: Final = "eth0"
_BRIDGE: Final = "fabric"


class Closed(NamedTuple):
    """Packets of a node with address ``source`` that ``node`` drops at ``port``, which is ``udp/8472`` or ``tcp/4240``."""

    node: NetNs
    source: str
    port: str


class FabricError(RuntimeError):
    """A device, an address or a rule could not be made; the text is that of ip(8) or iptables(8)."""


class Fabric:
    """One bridge. Not for the event loop: ip(8) runs and is waited for."""

    def __init__(self) -> None:
        self.netns = NetNs("fabric")
        self._count = 0
        self._closed: set[Closed] = set()
        _ip(self.netns, f"link add {_BRIDGE} type bridge", f"link set {_BRIDGE} up")

    def join(self, node: NetNs, *addresses: str) -> None:
        """Give ``node`` its device with ``addresses``, with a link to the bridge.

        :raises FabricError: the kernel refused; it has no veth or no bridge
        """
        self._count += 1
        port = f"port{self._count}"
        _ip(
            self.netns,
            f"link add {port} type veth peer name {DEVICE} netns {node.path}",
            f"link set {port} master {_BRIDGE} up",
        )
        length = NETWORK.partition("/")[2]
        _ip(node, *(f"address add {address}/{length} dev {DEVICE}" for address in addresses), f"link set {DEVICE} up")

    def route(self, place: NetNs, network: str, gateway: str) -> None:
        """Let ``place`` send what is for ``network``, a part of `NETWORK`, to a node. :raises FabricError: the kernel refused"""
        _ip(place, f"route add {network} via {gateway} dev {DEVICE}")

    def close_ports(self, wanted: Collection[Closed]) -> None:
        """Let these packets not arrive, and all others. :raises FabricError: iptables refused"""
        for rule in sorted(self._closed.symmetric_difference(wanted), key=lambda rule: rule[1:]):
            protocol, _, number = rule.port.partition("/")
            act = "-A" if rule in wanted else "-D"
            # An agent's programs at the device let what is for the node pass: health checks and the packets of tunnels.
            _run(rule.node, f"iptables -w -t raw {act} PREROUTING -s {rule.source} -p {protocol} --dport {number} -j DROP".split())
            self._closed.symmetric_difference_update({rule})

    def close(self) -> None:
        """Give the wire up; the kernel removes the devices with their namespaces."""
        self.netns.close()


def _ip(place: NetNs, *commands: str) -> None:
    _run(place, ["ip", "-batch", "-"], "\n".join(commands))


def _run(place: NetNs, command: list[str], script: str = "") -> None:
    """Run a program in a network namespace: a child of the thread that lives there is there too."""

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, input=script, capture_output=True, text=True, timeout=30, check=False)

    done = place.call(run)
    if done.returncode:
        raise FabricError(f"{' '.join(command)} in {place.name}: {done.stderr.strip()}")

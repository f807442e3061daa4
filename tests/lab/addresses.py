# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who listens where. A lab owns one 127.L.0.0/16; Linux answers on all of 127.0.0.0/8 without any interface work.

127.L.0.1 is the etcd below all kube-apiservers. Of cluster number C: 127.L.C.1 control plane, .2 its first LoadBalancer address, .3
kubelet, .4 stand-in for the ClusterIP of clustermesh-apiserver, .10+k InternalIP of node k, .100+n further LoadBalancer addresses.

A lab with real agents has a wire too (fabric.py): 198.18.C.10+k node k, 198.19.C.1+n LoadBalancer address n, and `OUTSIDE`.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

LABS = range(20, 251)
NETWORK = "127.0.0.0/8"  # of every lab; as cilium_mesh_endpoint_networks it lets clusters dial each other on one machine
_CLAIM_PORT = 2378
MESH_PORT = 2379
API_PORT = 6443
KUBELET_PORT = 10250
OUTSIDE = ("198.18.250.1", "198.18.250.2")  # of one host that is no node and no pod (outside.py)


class NoRoomError(RuntimeError):
    """All numbers are taken by other labs on this machine."""


@dataclass(frozen=True)
class ClusterAddresses:
    """Addresses of cluster ``index`` in lab ``lab``."""

    lab: int
    index: int

    def _at(self, last: int) -> str:
        return f"127.{self.lab}.{self.index}.{last}"

    @property
    def control_plane(self) -> str:
        return self._at(1)

    @property
    def kubelet(self) -> str:
        return self._at(3)

    @property
    def cluster_ip(self) -> str:
        return self._at(4)

    @property
    def api_url(self) -> str:
        return f"https://{self.control_plane}:{API_PORT}"

    def load_balancer(self, number: int) -> str:
        """Address of the ``number``-th (from 0) Service of type LoadBalancer; there are 101."""
        if number > 100:
            raise NoRoomError(f"cluster {self.index} has more than 101 Services of type LoadBalancer; the lab has no address for the next")
        return self._at(2 if number == 0 else 99 + number)

    def node(self, number: int) -> str:
        """InternalIP of node ``number`` (from 0)."""
        return self._at(10 + number)

    def wire(self, number: int) -> str:
        """Address of node ``number`` (from 0) on the wire of a lab with real agents (fabric.py)."""
        return f"198.18.{self.index}.{10 + number}"

    @property
    def wire_balancers(self) -> str:
        """Network of the load balancers' addresses on that wire."""
        return f"198.19.{self.index}.0/24"

    def wire_balancer(self, number: int) -> str:
        """Address of load balancer ``number`` (from 0) on that wire."""
        if number > 253:
            raise NoRoomError(f"cluster {self.index} has more than 254 Services of type LoadBalancer; the wire has no address for the next")
        return f"198.19.{self.index}.{1 + number}"


def etcd_address(lab: int) -> str:
    return f"127.{lab}.0.1"


def node_pod_cidr(pod_cidr: str, node: int) -> str:
    """The /24 of node ``node`` (from 0), as cluster-pool IPAM with its default mask size hands out."""
    base = ipaddress.ip_network(pod_cidr).network_address
    return f"{base + 256 * node}/24"


def pod_address(node_cidr: str, number: int) -> str:
    """Address ``number`` (from 0) in a node's CIDR; the first ones are the router's, as with Cilium."""
    return str(ipaddress.ip_network(node_cidr)[10 + number % 240])


def router_address(node_cidr: str) -> str:
    """The address that Cilium keeps for itself on a node (CiliumInternalIP)."""
    return str(ipaddress.ip_network(node_cidr)[1])


def claim_lab_number() -> tuple[int, socket.socket]:
    """A lab number that no other lab on this machine uses, and the listening socket that holds it: the kernel releases it when the lab
    dies, however it dies. Raises NoRoomError."""
    for lab in LABS:
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            holder.bind((f"127.{lab}.255.254", _CLAIM_PORT))
            holder.listen(1)
        except OSError:
            holder.close()
            continue
        return lab, holder
    raise NoRoomError(
        f"all {len(LABS)} lab networks 127.{LABS[0]}.0.0/16 to 127.{LABS[-1]}.0.0/16 are taken; end a lab with `python -m tests.lab down`"
    )

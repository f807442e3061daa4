# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Entries that Services take in the load balancer of each node, with the backends of their own cluster and those of peers.

A frontend takes one entry, and one for each backend (pkg/maps/lbmap; Cilium docs, network/ebpf/maps). Frontends are an address and a
port. The numbers are lower bounds: a node port has further frontends for each address of the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..mesh.facts.sizes import ServiceNumbers
from ..mesh.facts.traffic import ObjectFacts
from .mesh_view import MeshView

NODE_PORT_FRONTENDS: Final = 2  # the wildcard address, and one of the node


def service_numbers(view: MeshView, host: str) -> ServiceNumbers:
    """Return the numbers of the Services of a cluster."""
    exported = own = peers = 0
    for key, service in view.scene.traffic[host].services.items():
        offered = view.exports(host, key)
        exported += offered
        frontends = _frontends(service)
        if not frontends:
            continue
        own += frontends * (1 + view.endpoints(host, key).ready)
        if view.uses(host, key):
            peers += frontends * view.ready(view.exporters_seen_by(host, key), key)
    return ServiceNumbers(exported=exported, lb_own=own, lb_peers=peers)


def _frontends(service: ObjectFacts) -> int:
    """Return the number of frontends, over all ports and addresses; 0 for a Service without any (headless, ExternalName)."""
    spec = service.spec
    if spec.get("type") == "ExternalName":
        return 0
    addresses = [entry for entry in _texts(spec.get("clusterIPs")) or _texts([spec.get("clusterIP")]) if entry and entry != "None"]
    ports = [port for port in _list(spec.get("ports")) if isinstance(port, Mapping)]
    outside = len(_texts(spec.get("externalIPs"))) + len(_ingress(service))
    node_ports = sum(NODE_PORT_FRONTENDS for port in ports if port.get("nodePort"))
    return len(ports) * (len(addresses) + outside) + node_ports


def _ingress(service: ObjectFacts) -> Sequence[Any]:
    balancer = service.status.get("loadBalancer")
    entries = _list(balancer.get("ingress")) if isinstance(balancer, Mapping) else ()
    return [entry for entry in entries if isinstance(entry, Mapping) and entry.get("ip")]


def _texts(value: Any) -> list[str]:
    return [entry for entry in _list(value) if isinstance(entry, str)]


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Ports between the nodes of two clusters over which Cilium sends packets, as data, and those that two clusters use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .facts.cluster import ClusterFacts
from .versions.cilium_config import enabled, routing_mode, setting, tunnel_protocol


@dataclass(frozen=True, kw_only=True)
class NodePort:
    """One thing that a firewall between nodes has to let through."""

    transport: str  # "UDP", "TCP", or "IP protocol"
    port: int
    purpose: str
    key: str = ""  # the setting of cilium-config that changes the port; "" if none does
    source: str

    def shown(self, facts: ClusterFacts | None = None) -> str:
        """Return for instance ``UDP 8472 (vxlan)``, with the port that the cluster is configured with."""
        changed = setting(facts, self.key, "0") if facts is not None and self.key else "0"
        return f"{self.transport} {changed if changed not in ('0', '') else self.port} ({self.purpose})"


NODE_PORTS: Final[Mapping[str, NodePort]] = {
    "vxlan": NodePort(
        transport="UDP", port=8472, purpose="vxlan", key="tunnel-port", source="pkg/defaults/defaults.go of 1.16 to 1.20, TunnelPortVXLAN"
    ),
    "geneve": NodePort(
        transport="UDP", port=6081, purpose="geneve", key="tunnel-port", source="pkg/defaults/defaults.go of 1.16 to 1.20, TunnelPortGeneve"
    ),
    "wireguard": NodePort(
        transport="UDP", port=51871, purpose="WireGuard", source="pkg/wireguard/types/types.go of 1.16 to 1.20, ListenPort"
    ),
    "ipsec": NodePort(transport="IP protocol", port=50, purpose="ESP of IPsec", source="Documentation/operations/system_requirements.rst"),
    "health": NodePort(
        transport="TCP",
        port=4240,
        purpose="cilium-health",
        key="cluster-health-port",
        source="pkg/defaults/defaults.go of 1.16 to 1.20, ClusterHealthPort",
    ),
}
"""The same in every minor of the version matrix. A tunnel of another protocol is named by its protocol alone."""


def pod_network_ports(facts: ClusterFacts) -> str:
    """Return what has to pass between nodes for packets between pods, for instance ``UDP 8472 (vxlan)``.

    With WireGuard and IPsec the packets of the tunnel are encrypted: the firewall then meets the encryption. The tunnel is named beside it,
    since packets that are not encrypted, as between host and pod, take it without.
    """
    found = [
        NODE_PORTS[name].shown(facts) for name, key in (("wireguard", "enable-wireguard"), ("ipsec", "enable-ipsec")) if enabled(facts, key)
    ]
    if routing_mode(facts) == "tunnel":
        protocol = tunnel_protocol(facts)
        found.append(NODE_PORTS[protocol].shown(facts) if protocol in NODE_PORTS else f"the tunnel {protocol}")
    else:
        found.append("routes to the pod networks, and all ports of pods (routing-mode native)")
    return " and ".join(found)


def health_port(facts: ClusterFacts | None) -> str:
    """Return the port of cilium-health on nodes, as ``TCP 4240 (cilium-health)``."""
    return NODE_PORTS["health"].shown(facts)

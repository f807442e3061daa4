# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Settings of Cilium in ConfigMap cilium-config, read as Cilium itself reads them.

A key that the version of the cluster does not read counts as unset (cilium_values.py). A value that Cilium refuses says nothing: the
default is returned, and CM-CFG-04 reports the value.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..facts.cluster import ClusterFacts
from .cilium_values import VARYING, key_of, parse_bool
from .minors import Minor, cilium_version, holds


def value_of(config: Mapping[str, str], minor: Minor | None, key: str, default: str = "") -> str:
    """Return the value of a key in the data of cilium-config, or ``default`` if it is unset, empty, or not read by the minor."""
    return (config.get(key, "") if key_of(key, minor) else "") or default


def flag_of(config: Mapping[str, str], minor: Minor | None, key: str, default: bool = False) -> bool:
    """Return the value of a boolean key in the data of cilium-config, or ``default`` if it is unset, not read, or not a boolean."""
    given = parse_bool(value_of(config, minor, key))
    return default if given is None else given


def setting(facts: ClusterFacts, key: str, default: str = "") -> str:
    """Return the value of a key of cilium-config, or ``default`` if it is unset, empty, or not read by the version of the cluster."""
    return value_of(facts.config or {}, _minor(facts, key), key, default)


def enabled(facts: ClusterFacts, key: str, default: bool = False) -> bool:
    """Return the value of a boolean key of cilium-config, or ``default`` if it is unset, not read, or not a boolean."""
    return flag_of(facts.config or {}, _minor(facts, key), key, default)


def _minor(facts: ClusterFacts, key: str) -> Minor | None:
    version = cilium_version(facts) if key in VARYING else None
    return version.release if version else None


def ip_versions(facts: ClusterFacts) -> frozenset[int]:
    """Return the IP versions (4, 6) of pods.

    Both are on by the agents' default (pkg/defaults); the chart always sets the keys, and IPv6 to false.
    """
    return frozenset(version for version in (4, 6) if enabled(facts, f"enable-ipv{version}", True))


def replaces_kube_proxy(facts: ClusterFacts) -> bool:
    """Return whether Cilium replaces kube-proxy completely.

    The value ``true`` was ``strict`` up to 1.15, and ``probe`` in still older versions (pkg/option/config.go).
    """
    value = setting(facts, "kube-proxy-replacement")
    return parse_bool(value) is True or value in ("strict", "probe")


def serves_node_ports(facts: ClusterFacts) -> bool:
    """Return whether Cilium serves the node ports of Services."""
    return replaces_kube_proxy(facts) or enabled(facts, "enable-node-port")


def routing_mode(facts: ClusterFacts) -> str:
    """Return ``tunnel`` or ``native``. Before 1.14 the key was ``tunnel`` with the value ``disabled``, which 1.14 still reads."""
    return setting(facts, "routing-mode") or ("native" if setting(facts, "tunnel") == "disabled" else "tunnel")


def tunnel_protocol(facts: ClusterFacts) -> str:
    """Return ``vxlan`` or ``geneve``."""
    return setting(facts, "tunnel-protocol") or setting(facts, "tunnel", "vxlan")


def tunnel(facts: ClusterFacts) -> str:
    """Return protocol and port of the tunnel with Cilium's defaults, e.g. ``vxlan on UDP 8472``."""
    protocol, port = tunnel_protocol(facts), setting(facts, "tunnel-port", "0")
    return f"{protocol} on UDP {port if port != '0' else '6081' if protocol == 'geneve' else '8472'}"


def underlay(facts: ClusterFacts) -> str:
    """Return the IP family of the node addresses between which tunnels run: "ipv4" or "ipv6".

    The default is ipv4, also of the versions that have no such key, and "auto" from 1.20 on: IPv4 where it is on, else IPv6
    (pkg/datapath/tunnel/tunnel.go, newConfig).
    """
    family = setting(facts, "underlay-protocol", "auto" if holds("underlay_by_family", cilium_version(facts)) else "ipv4")
    return f"ipv{min(ip_versions(facts), default=4)}" if family == "auto" else family

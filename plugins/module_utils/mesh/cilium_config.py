# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Settings of Cilium in ConfigMap cilium-config, read as Cilium itself reads them."""

from __future__ import annotations

from .facts import ClusterFacts


def setting(facts: ClusterFacts, key: str, default: str = "") -> str:
    """Return the value of a key of cilium-config, or ``default`` if it is unset or empty."""
    return (facts.config or {}).get(key, "") or default


def enabled(facts: ClusterFacts, key: str, default: bool = False) -> bool:
    """Return the value of a boolean key of cilium-config, as Go's strconv.ParseBool reads it; anything else is false."""
    return setting(facts, key, str(default)).lower() in ("true", "t", "1")


def replaces_kube_proxy(facts: ClusterFacts) -> bool:
    """Return whether Cilium replaces kube-proxy completely.

    The value ``true`` was ``strict`` up to 1.15, and ``probe`` in still older versions (pkg/option/config.go).
    """
    return setting(facts, "kube-proxy-replacement").lower() in ("true", "strict", "probe")


def routing_mode(facts: ClusterFacts) -> str:
    """Return ``tunnel`` or ``native``. Before 1.14 the key was ``tunnel`` with the value ``disabled``."""
    legacy = setting(facts, "tunnel")
    return setting(facts, "routing-mode") or ("native" if legacy == "disabled" else "tunnel")


def tunnel(facts: ClusterFacts) -> str:
    """Return protocol and port of the tunnel with Cilium's defaults, e.g. ``vxlan on UDP 8472``."""
    protocol = setting(facts, "tunnel-protocol") or setting(facts, "tunnel", "vxlan")
    port = setting(facts, "tunnel-port", "0")
    return f"{protocol} on UDP {port if port != '0' else '6081' if protocol == 'geneve' else '8472'}"

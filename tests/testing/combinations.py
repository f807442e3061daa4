# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Combinations of Cilium version, trust and kind of Service that connect is proven for: all on data and in the full matrix of the lab."""

from __future__ import annotations

from tests.lab.options import PROFILES

# Every profile with own CAs behind load balancers, every profile with a shared CA behind NodePorts, and the other two combinations once on
# each side of the border where addresses move from pod templates into the configuration (1.20).
COMBINATIONS = [
    *((version, "own", "LoadBalancer") for version in PROFILES),
    *((version, "shared", "NodePort") for version in PROFILES),
    ("1.18", "shared", "LoadBalancer"),
    ("1.20", "own", "NodePort"),
]

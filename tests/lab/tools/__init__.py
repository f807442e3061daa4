# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The programs that the lab runs: found where the user put them, else built once and kept outside the checkout.

    tools = ensure(progress=print)
    tools.path("kube-apiserver"), tools.origin("kube-apiserver"), tools.version("clustermesh-apiserver")

``python -m tests.lab.tools build | where | refresh`` does the same by hand.
"""

from __future__ import annotations

from tests.lab.tools.catalogue import AGENT, ALL, CILIUM_AGENT, HELM, KARMADA, KCP, PROMTOOL
from tests.lab.tools.crds import cilium_crds, cilium_module, crds_for_profile
from tests.lab.tools.errors import ToolUnavailable
from tests.lab.tools.provide import Tools, clustermesh_binary, ensure
from tests.lab.tools.search import Found

__all__ = [
    "AGENT",
    "ALL",
    "CILIUM_AGENT",
    "HELM",
    "KARMADA",
    "KCP",
    "PROMTOOL",
    "Found",
    "ToolUnavailable",
    "Tools",
    "cilium_crds",
    "cilium_module",
    "clustermesh_binary",
    "crds_for_profile",
    "ensure",
]

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Options that several actions share. The twin of doc_fragments/_mesh.py: change both."""

from __future__ import annotations

from typing import Any, Final

Spec = dict[str, dict[str, Any]]

MESH: Final[Spec] = {"mesh": {"type": "dict"}}

REPORT: Final[Spec] = {"report": {"type": "bool", "default": True}}

BREADTH: Final[Spec] = {"parallel": {"type": "int", "default": 10}, "max_failures": {"type": "int"}}

PREVIOUS: Final[Spec] = {"previous_status": {"type": "dict"}}

JUDGEMENT: Final[Spec] = {
    "accept": {"type": "list", "elements": "str", "default": []},
    "trust": {"type": "str", "choices": ["auto", "same_ca", "minted", "copied"], "default": "auto"},
    "node_addresses": {"type": "str", "choices": ["InternalIP", "ExternalIP"], "default": "InternalIP"},
}

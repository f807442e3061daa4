# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An answer in parts over JSON, as a confined child sends it to the operator."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

from mesh_operator.runs.confined.messages import PART
from mesh_operator.runs.item_parts import ItemParts


def in_parts(parts: ItemParts, answer: Generator[Any, None, Any]) -> Any:
    """Return the head of an answer, whose parts are taken."""
    while True:
        try:
            content = json.dumps({PART: next(answer)}).encode()
        except StopIteration as ended:
            head = json.loads(json.dumps(ended.value))
            parts.complete(head)
            return head
        parts.take(json.loads(content)[PART], content)

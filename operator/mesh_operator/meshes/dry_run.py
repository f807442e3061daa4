# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Question for the dry run of a mesh, and its answer, validated. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.dry_run import DryRun

from ..runs.confined.messages import Invalid
from ..runs.dry_runs import InvalidAnswer, is_list
from ..runs.item_parts import ItemParts
from .request import ASSIGNS, MeshRequest

LONGEST_REQUEUE: Final = 86400.0  # seconds


@dataclass(frozen=True)
class MeshQuestion:
    """Question for the dry run of a request (pipeline/dry_run.py). ``items``: the statuses of its items, once it is answered."""

    request: MeshRequest
    items: ItemParts = field(default_factory=ItemParts)

    @property
    def job(self) -> Mapping[str, Any]:
        """Job of the process."""
        return {
            "job": "dry_run",
            "cilium_mesh": self.request.cilium_mesh,
            "hosts": self.request.hosts,
            "previous": self.request.variables["cilium_mesh_previous_status"],
            "assigns": ASSIGNS in self.request.variables,
        }

    def read(self, answer: Any) -> DryRun | None:
        """Return the dry run; None when a playbook has to run.

        :raises InvalidAnswer: when the answer has another shape.
        """
        if answer is None:
            return None
        if (valid := dry_run_of(answer)) is None:
            raise InvalidAnswer
        try:
            self.items.complete(valid.result)
        except Invalid:
            raise InvalidAnswer from None
        return valid


def dry_run_of(found: Any) -> DryRun | None:
    """Return an answer as a dry run; None if it does not have that shape."""
    if not isinstance(found, dict) or found.keys() != {"steps", "linked", "kept", "result"}:
        return None
    steps, linked, kept, result = found["steps"], found["linked"], found["kept"], found["result"]
    if not (type(steps) is int and steps >= 0 and type(linked) is bool and is_list(kept, str) and isinstance(result, dict)):
        return None
    status, findings = result.get("status"), result.get("findings")
    requeue: Any = result.get("requeueSeconds")
    if not (isinstance(status, dict) and status.keys() == {"binding"} and isinstance(status["binding"], dict) and is_list(findings, dict)):
        return None  # items have parts
    if not (type(requeue) in (int, float) and 0 <= requeue <= LONGEST_REQUEUE):
        return None
    return DryRun(steps=steps, linked=linked, kept=frozenset(kept), result=result)

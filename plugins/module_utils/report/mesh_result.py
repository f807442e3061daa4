# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Custom statistic mesh_result (docs/results.md), from the results of a play's actions. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..base.errors import MeshError
from ..findings.finding import Severity
from ..findings.wording import failure_finding
from ..mesh.binding.item_kinds import ItemKind

SCHEMA: Final = 1
_REQUEUE_SECONDS: Final = 60  # of a run without a time for the next one

_Run = Mapping[str, Any]
_Entry = Mapping[str, Any]


def mesh_result(links: _Run, items: _Run, *further: _Run, whole: bool = False) -> dict[str, Any]:
    """Return one ``mesh_result`` from the result of the action for a whole mesh, or from those for the links and for the items.

    :param links: The result of mesh_connect, mesh_verify, …; empty when the play did not reach it. ``items``: that of mesh_items.
    :param further: Results of further actions, which are carried out last. They are no part of the hash.
    :param whole: ``links`` is the result of mesh_reconcile, whose status has the binding and the items.
    """
    given = [run for run in (links, items) if run] or [{}]
    runs = [*given, *further]
    plans: list[_Entry] = [run.get("plan") or {} for run in runs]
    first: _Entry = given[0].get("plan") or {}
    status = (links if whole else items).get("status") or {}
    binding = status.get("binding") if whole else links.get("status")
    return {
        "schema": SCHEMA,
        "changed": any(run.get("changed") for run in runs),
        "findings": _findings(runs),
        "plan": {
            "hash": str(first.get("hash") or "") if len(given) == 1 else "",  # what has two plans cannot be approved by one hash
            "steps": [step for plan in plans for step in plan.get("steps") or ()],
            "options": first.get("options") or {},
            "reliedOn": first.get("reliedOn") or {},
            **_left_out(plans),
        },
        "outages": [item for run in runs for item in run.get("outages") or ()],
        "status": {
            "binding": binding,
            **{kind.value: status.get(kind.value) or [] for kind in ItemKind},
        },
        **_withheld(runs),
        "requeueSeconds": min(int(run.get("requeue_seconds", _REQUEUE_SECONDS)) for run in given),
    }


def _left_out(plans: Sequence[_Entry]) -> dict[str, list[str]]:
    """Return the items that the plans do not carry out, as a part of the plan; {} without one."""
    found = [item for plan in plans for item in plan.get("notCarriedOut") or ()]
    return {"notCarriedOut": found} if found else {}


def _withheld(runs: Sequence[_Run]) -> dict[str, list[_Entry]]:
    """Return what messages withhold from owners of clusters, each once; {} where nothing is."""
    found = {json.dumps(entry, sort_keys=True): entry for run in runs for entry in run.get("withheld") or ()}
    return {"withheld": list(found.values())} if found else {}


def _findings(runs: Sequence[_Run]) -> list[_Entry]:
    """Return each finding once, as both runs report a cluster that does not answer.

    Blocking findings come first, then those that are about no single item.
    """
    if not any("findings" in run for run in runs):
        return [_no_run()]
    found = {json.dumps(entry, sort_keys=True): entry for run in runs for entry in run.get("findings") or ()}
    return sorted(found.values(), key=lambda entry: (entry["severity"] != Severity.BLOCKING, bool(entry.get("item"))))


def _no_run() -> dict[str, Any]:
    summary = "The run ended before any cluster was asked; the message of the failed task says why"
    return failure_finding(MeshError.code, message=summary).to_dict()

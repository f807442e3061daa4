# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""When an intent is to be probed again, which is what no dry run can do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.probes import probes_due
from tests.testing.rows import one_test

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


def row(time: str = "2026-09-01T11:59:00Z", generation: int | None = 3) -> dict[str, Any]:
    seen = {"observedGeneration": generation} if generation else {}
    return {"name": "web", **seen, "probeStatus": {"lastProbeTime": time} if time else None}


@one_test(
    "before generation due",
    ([row()], 3, 0),
    ([row("2026-09-01T11:54:59Z")], 3, 1),
    ([row("")], 3, 1),
    ([], 3, 1),
    ([row()], 4, 1),  # it was changed since: a play alone shows what the change came to
    ([row(generation=None)], 0, 0),  # out of a file, which has no generations
)
def test_an_intent_is_probed_when_it_is_due_or_was_changed(before: list[dict[str, Any]], generation: int, due: int) -> None:
    assert probes_due({"web": generation}, {"connectivityIntents": before}, 300, NOW) == due

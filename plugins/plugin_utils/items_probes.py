# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which intents are probed in a run, and what their probes came to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ..module_utils.findings import Finding
from ..module_utils.items.desired import Desired
from ..module_utils.items.kinds import ItemKind, ItemRef
from ..module_utils.items.planned import Verdict
from ..module_utils.items.rows import earlier_row
from ..module_utils.items.run import ItemsPlan
from ..module_utils.items.scene import Scene
from ..module_utils.observe import Observation
from ..module_utils.probe.outcome import Reachability, probe_findings
from ..module_utils.probe.run import run_probes

PROBES_AT_ONCE: Final = 4


def probes_of(
    desired: Desired,
    decided: ItemsPlan,
    scene: Scene,
    observation: Observation,
    *,
    failed: Collection[str],
    written: Collection[str],
    params: Mapping[str, Any],
) -> tuple[dict[str, Reachability], list[Finding]]:
    """By name of the intent, and what has to be said of them. One that is not carried out, or not everywhere, is not probed.

    :param failed: items of which a write failed.
    :param written: items for which something was written in this run.
    """
    carried_out = {plan.ref.name for plan in decided.of(Verdict.ACCEPTED) if str(plan.ref) not in failed}
    wanted = [intent for intent in desired.intents if intent.probe.enabled and intent.name in carried_out]
    if not wanted:
        return {}, []
    refs = {intent.name: ItemRef(ItemKind.INTENT, intent.name) for intent in wanted}
    earlier = {name: earlier_row(params["previous_status"], ref).get("probeStatus") for name, ref in refs.items()}
    found = run_probes(
        wanted,
        scene,
        observation.clusters,
        now=datetime.now(UTC),
        previous={name: status for name, status in earlier.items() if isinstance(status, Mapping)},
        changed={name for name, ref in refs.items() if str(ref) in written},
        image=params["probe_image"],
        parallel=min(params["parallel"], PROBES_AT_ONCE),
    )
    return found, probe_findings(found)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The phase of a ClusterMeshBinding while an outage grows, and while the operator itself gets less and less of an answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from mesh_operator.base.keys import ObjectKey
from mesh_operator.base.kinds import BINDING
from mesh_operator.meshes.request import Wait
from mesh_operator.meshes.status import status_of_failed_dry_run, status_of_failed_run, status_of_result, status_of_waiting
from mesh_operator.meshes.status_in_progress import status_during_run
from mesh_operator.runs.runner import RunResult, RunState
from mesh_operator.source.status_patch import Status
from mesh_operator.source.stored import Stored
from tests.testing import outages
from tests.testing.facts_builders import NOW

TURNS: Final = ("measured", "run at work", "run without a result", "dry run without a result", "no kubeconfig", "no cluster")
RUN: Final = RunResult(state=RunState.FAILED, rc=2, mesh_result=None, last_task="Connect the clusters", seconds=1.0)


def turn(kind: str, outage: outages.Outage, status: Status | None) -> Status:
    """The status after a turn of the mesh."""
    obj = {"metadata": {"name": "mesh", "generation": 3}, "spec": {}, **({"status": status} if status else {})}
    stored = Stored(ObjectKey(BINDING, "w", "default", "mesh"), obj, "https://kcp/services/x")
    found: Status | None
    if kind == "measured":
        result = {"status": {"binding": outage.measured(previous=status, generation=3)}, "findings": []}
        found = status_of_result(stored, result, NOW)
    elif kind == "run at work":
        found = status_during_run(stored, NOW) or status
    elif kind == "run without a result":
        found = status_of_failed_run(stored, RUN, NOW)
    elif kind == "dry run without a result":
        found = status_of_failed_dry_run(stored, "it took too long", NOW)
    else:
        phase, reason = ("Pending", "KubeconfigMissing") if kind == "no kubeconfig" else ("Error", "ClusterNotFound")
        found = status_of_waiting(stored, Wait(phase=phase, reason=reason, message="m", standing=True), NOW)
    assert found is not None
    return found


@given(
    st.lists(st.tuples(st.sampled_from(TURNS), outages.STEPS), min_size=1, max_size=30),
    outages.AGES,
    st.sampled_from(["Connected", "new", "Error"]),
)
def test_the_phase_never_gets_milder_as_an_outage_is_confirmed(
    steps: list[tuple[str, tuple[str, str] | str]], age: timedelta | None, start: str
) -> None:
    """Whether the first turn measured a whole mesh, or none did yet, or no cluster answered it. A run that writes is no outage."""
    outage = outages.Outage(outages.linked_clusters(age))
    if start == "Error":
        outage.silent |= set(outages.HOSTS)
    status = turn("measured", outage, None) if start != "new" else None
    phases = [] if status is None else [status["phase"]]
    for kind, step in ((kind, step) for kind, step in steps if start != "Error" or kind != "run at work"):
        outage.grow(step)
        status = turn(kind if status else "measured", outage, status)
        phases.append(status["phase"])
    assert phases == sorted(phases, key=outages.SEVERITY.__getitem__)

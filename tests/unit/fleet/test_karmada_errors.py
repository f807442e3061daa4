# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whatever Karmada answers in place of an object, at whichever request: nothing is deleted, and the status says that it is not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, Forbidden, ServerRefused, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.parse import parse_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet import FleetRun, run_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import FleetOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import Interrupted
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.mesh_result import mesh_result
from mesh_operator.base.keys import ObjectKey
from mesh_operator.base.kinds import WORKLOAD
from mesh_operator.fleets.request import KARMADA
from mesh_operator.fleets.status import fleet_statuses
from mesh_operator.runs.item_parts import ItemParts
from mesh_operator.source.stored import Stored
from mesh_operator.statuses.heads import head_of_fleet
from mesh_operator.statuses.item_statuses import statuses_of_items
from tests.testing.answer_in_parts import in_parts
from tests.testing.gate import left_to_the_deep_run
from tests.testing.karmada_client import FleetWorld, KarmadaClient
from tests.testing.karmada_model import KarmadaModel
from tests.unit.fleet.test_what_a_workload_names import TEMPLATE, TENANT, karmada

ADDRESS: Final = "10.1.2.3:6443"
NOW: Final = datetime(2026, 11, 25, tzinfo=UTC)
ANSWERS: Final[dict[str, Callable[[], ClusterError]]] = {
    "silence": lambda: Unreachable(f"{ADDRESS} does not answer.", cluster=KARMADA),
    "403": lambda: Forbidden("It refuses to list.", cluster=KARMADA),
    **{
        str(status): lambda status=status: ServerRefused(f"{ADDRESS} answered {status}.", cluster=KARMADA, status=status)  # type: ignore[misc]  # a default binds the value of this turn
        for status in (409, 410, 429, 500, 503)
    },
}
WISH: Final = {
    "workspace": TENANT.workspace,
    "karmada": KARMADA,
    "clusters": [{"name": name} for name in "abc"],
    "fleets": [{"name": "all", "clusterRefs": [{"name": name} for name in "abc"]}],
    "workloads": [{"name": "web", "fleetRef": {"name": "all"}, "template": TEMPLATE}],
}


@dataclass
class Failing:
    """A Karmada that answers one of the requests of a run with an error."""

    model: KarmadaModel
    answer: Callable[[], ClusterError]
    at: int
    asked: int = 0

    def connect(self, _access: Any) -> Any:
        client = KarmadaClient(self.model)
        client.host = KARMADA
        for name in ("get", "list_if_served"):
            setattr(client, name, self._failing(getattr(client, name)))
        return client

    def _failing(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **more: Any) -> Any:
            self.asked += 1
            if self.asked == self.at:
                raise self.answer()
            return ask(*args, **more)

        return asked


def run(failing: Failing) -> dict[str, Any]:
    """The ``mesh_result`` of a run that asks for nothing more, and so would remove what is there."""
    world = FleetWorld(failing.model, hosts=(KARMADA,))
    request = parse_fleet({**WISH, "workloads": []}, (KARMADA,)).request
    options = FleetOptions(wait=False)
    ports = world._ports()
    try:
        outcome = run_fleet(
            FleetRun(
                request=request, karmada=KARMADA, options=options, who=world, ports=ports, now=failing.model.now, connect=failing.connect
            )
        )
    except Interrupted as stopped:
        assert isinstance(stopped.error, ClusterError)
        found = {"code": stopped.error.code, "severity": "blocking", "cluster": stopped.error.cluster, "summary": stopped.error.message}
        return {**mesh_result(stopped.outcome.to_result(), {}), "findings": [found]}
    return {**mesh_result(outcome.to_result(), {}), "workloads": outcome.extra["workloads"]}


def requests_of_a_look() -> int:
    counting = Failing(karmada(), ANSWERS["503"], at=0)
    run(counting)
    return counting.asked


@pytest.mark.parametrize("answer", left_to_the_deep_run(list(ANSWERS), but=("409", "503")))
def test_no_answer_of_karmada_makes_a_run_delete_anything_and_the_status_says_so(answer: str) -> None:
    model = karmada()
    FleetWorld(model).run({**WISH, "karmada": "karmada"}, wait_timeout=60)
    before = dict(model.objects)
    assert before
    stored = Stored(
        ObjectKey(WORKLOAD, "ws", "default", "web"), {"metadata": {"name": "web", "generation": 1}, "spec": {}, "status": {}}, ""
    )
    for number in range(1, requests_of_a_look() + 1):
        result = run(Failing(model, ANSWERS[answer], at=number))
        assert dict(model.objects) == before, f"request {number}"
        parts = ItemParts()
        head = in_parts(parts, statuses_of_items(result, [stored], NOW, head_of_fleet))
        [(_, found)] = fleet_statuses([stored], head, parts, NOW)
        status = found or {}
        ready = next(row for row in status["conditions"] if row["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "KarmadaUnavailable")
        assert ADDRESS not in str(status), "addresses of the platform are none of a tenant's business"

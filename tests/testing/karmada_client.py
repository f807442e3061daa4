# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The pipeline of workloads over a ``KarmadaModel``: its API as the client of a run sees it, and ports by which Karmada goes on."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import ApplyResult
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.parse import parse_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet import FleetRun, run_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import FleetOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import Outcome
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import Ports, real_ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.shown import Shown
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Plan
from tests.testing.connecting import connecting
from tests.testing.karmada_model import KarmadaModel, Refused

HOST = "karmada"


class KarmadaClient:
    """The methods of ``kube.client.Cluster`` that an observation of a tenant uses.

    :param plain: whether the API server is no Karmada.
    """

    def __init__(self, model: KarmadaModel, *, plain: bool = False) -> None:
        self.host = HOST
        self.requests: Counter[str] = Counter()
        self._model, self._plain = model, plain

    def close(self) -> None:
        return

    def server_time(self) -> datetime:
        return self._model.now

    def get(self, path: str) -> dict[str, Any] | None:
        self.requests[f"get {path}"] += 1
        return copy.deepcopy(dict(self._model.stored()).get(path))

    def list_if_served(self, path: str, **_: Any) -> list[dict[str, Any]] | None:
        self.requests[f"list {path}"] += 1
        if self._plain and ".karmada.io/" in path:
            return None
        return copy.deepcopy([found for place, found in self._model.stored() if place.rpartition("/")[0] == path])


@dataclass
class FleetWorld:
    """One tenant's Karmada, and runs of the pipeline. While a run sleeps, Karmada and the members do all that they can."""

    model: KarmadaModel
    plain: bool = False
    shown: list[Shown] = field(default_factory=list)
    hosts: tuple[str, ...] = (HOST,)
    limit: str = ""

    def access(self, names: Sequence[str]) -> tuple[ClusterAccess, ...]:
        return tuple(ClusterAccess(host=name, kubeconfig=None, context=None) for name in names)

    def run(self, variable: Mapping[str, Any], *, check: bool = False, **options: Any) -> Outcome:
        """Run what the variable ``fleet`` asks for."""
        chosen = FleetOptions.of(options)
        request = parse_fleet({"karmada": HOST, **variable}, self.hosts).request
        if chosen.state == "absent":
            request = replace(request, workloads={}, refused=())
        return run_fleet(
            FleetRun(
                request=request,
                karmada=HOST,
                options=chosen,
                who=self,
                ports=self._ports(),
                now=self.model.now,
                check_mode=check,
                diff=True,
            )
        )

    def _ports(self) -> Ports:
        return replace(
            real_ports(self.shown.append),
            connect=connecting(lambda access: KarmadaClient(self.model, plain=self.plain)),
            apply=self._apply,
            now=lambda: self.model.now,
            clock=lambda: self.model.now.timestamp(),
            sleep=self._sleep,
        )

    def _sleep(self, seconds: float) -> None:
        self.model.now += timedelta(seconds=seconds)
        self.model.settle()

    def _apply(self, plan: Plan, opened: object, **_: Any) -> ApplyResult:
        """Carry out the plan up to the first write that is refused for each workload."""
        applied, skipped, items = [], [], dict[str, dict[str, WriteConflict]]()
        for step in plan.steps:
            if step.item in items:
                skipped.append(step)
                continue
            try:
                self.model.write([step])
                applied.append(step)
            except Refused as refused:
                items[step.item] = {HOST: WriteConflict(str(refused), cluster=HOST)}
        return ApplyResult(applied=tuple(applied), failures={}, skipped=tuple(skipped), items=items)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator is killed before and after each kind of write that it makes in the life of one mesh, and the next one goes on.

`make reliability` runs it and prints rows of docs/reliability.md. What its plays write to clusters is tried by test_reliability.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final

import pytest

from mesh_operator.base.kinds import BINDING, INTENT, SERVICE
from tests.integration.everything import everything
from tests.integration.operator_lab import CHECK, OperatorLab, Workspace, run_folders, run_processes
from tests.integration.shop import INTENT as RULE
from tests.integration.shop import SERVICE as SHOP
from tests.testing.fault_proxy import FAULTS, Call, Fault, FaultProxy
from tests.testing.kcp_double.answers import Reply, Request, target_of
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import wait_for

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("other-operator")]

MOST: Final = 100  # operators of one stage
MESH: Final[dict[str, Any]] = {"meshRef": {"name": "edge"}}
MOMENTS: Final = ("killed before", "killed after")
PASSING: Final = (" status", " status Degraded")
"""Ends of the names of writes that an operator may find needless after one that was killed before them: what they told has passed."""


class Killer:
    """Kills the operator of the moment once before and once after each kind of write: verb, resource, phase that it reports, and stage."""

    def __init__(self) -> None:
        self.stage = ""
        self.operator: OperatorProcess | None = None
        self.killed: list[tuple[str, str]] = []
        self.last_write = 0.0
        self._lock = Lock()

    def kill(self) -> None:
        assert self.operator is not None
        self.operator.kill()

    def to_kcp(self, request: Request, answer: Callable[[], Reply]) -> Reply:
        """Stand between the operator and kcp, as `KcpDouble.around`."""
        if request.method in ("GET", "HEAD"):
            return answer()
        target = target_of(request, "/" + request.path.split("/", 7)[-1])
        body = json.loads(request.body or b"{}")
        phase = (body.get("status") or {}).get("phase", "") if isinstance(body, dict) else ""
        moment = self._moment(f"{request.method} {target.plural} {target.subresource} {phase}".strip())
        reply = answer() if moment != "killed before" else Reply(hang_up=True)
        if moment:
            self.kill()
        return reply

    def to_management(self, call: Call) -> Fault | None:
        """Stand between the operator and the management plane, as the choice of a proxy."""
        if not call.writes:
            return None
        moment = self._moment(f"{call.verb} {'record' if '/configmaps' in call.path else call.path}")
        return FAULTS[moment] if moment else None

    def _moment(self, write: str) -> str:
        """Return when the operator is to be killed at this write; "" if it has been at both moments."""
        with self._lock:
            self.last_write = time.monotonic()
            name = f"{self.stage}: {write}"
            moment = next((moment for moment in MOMENTS if (name, moment) not in self.killed), "")
            if moment:
                self.killed.append((name, moment))
                print(f"{moment}: {name}", flush=True)
            return moment


@pytest.fixture
def management(operator_lab: OperatorLab, tmp_path: Path) -> Iterator[FaultProxy]:
    with FaultProxy({"management": operator_lab.management.kubeconfig}, tmp_path) as proxy:
        yield proxy


def half_made(lab: OperatorLab, tenant: Workspace) -> list[str]:
    """Return the ways that are missing of a mesh that is called Connected."""
    if tenant.phase(BINDING, "edge") != "Connected" or "deletionTimestamp" in (tenant.get(BINDING, "edge") or {})["metadata"]:
        return []
    pairs = (("c1", "c2"), ("c2", "c1"))
    return [f"{one} -> {other}" for one, other in pairs if other not in lab.clusters.secret(one, "cilium-clustermesh")]


def is_over(operator: OperatorProcess, killer: Killer, done: Callable[[], bool]) -> bool:
    """Whether the operator was killed, or has nothing more to write."""
    return operator.process.poll() is not None or (done() and time.monotonic() - killer.last_write > 2 * CHECK)


def test_an_operator_that_is_killed_at_each_kind_of_write_is_followed_by_one_that_converges(
    operator_lab: OperatorLab, management: FaultProxy, request: pytest.FixtureRequest
) -> None:
    lab, killer, double = operator_lab, Killer(), operator_lab.world.double
    assert double is not None
    untouched, tenant = everything(lab.clusters), lab.workspace("kills", "c1", "c2")
    double.around = killer.to_kcp
    request.addfinalizer(lambda: setattr(double, "around", lambda _request, answer: answer()))
    # Killed between taking the finalizer off and forgetting the mesh, an operator leaves a record without a resource: an orphan.
    flags = ("--no-leader-elect", "--mgmt-kubeconfig", str(management.kubeconfigs["management"]), "--orphan-grace", "2s")
    management.begin(kill=killer.kill, choose=killer.to_management)

    def live(stage: str, done: Callable[[], bool]) -> None:
        """Start one operator after the other until one of them is not killed, and all is done."""
        killer.stage = stage
        for _ in range(MOST):
            with lab.operator(*flags) as operator:
                killer.operator = operator
                ended = partial(is_over, operator, killer, done)
                wait_for(ended, what=f"{stage} is done, or the operator is killed", progress=operator.output, explain=operator.output)
                assert not half_made(lab, tenant)
                if operator.process.poll() is None:
                    return
        raise AssertionError(f"{stage} was not done by {MOST} operators: {killer.killed}")

    def phases() -> list[str]:
        return [tenant.phase(kind, name) for kind, name in ((BINDING, "edge"), (SERVICE, "nginx"), (INTENT, RULE["name"]))]

    tenant.create(BINDING, "edge", clusterRefs=tenant.refs())
    live("connect", lambda: phases()[0] == "Connected")
    tenant.create(SERVICE, "nginx", **MESH, selector=SHOP["selector"])
    tenant.create(INTENT, RULE["name"], **MESH, **{key: value for key, value in RULE.items() if key != "name"})
    live("items", lambda: phases() == ["Connected", "Exported", "Applied"])
    for kind, name in ((SERVICE, "nginx"), (INTENT, RULE["name"])):
        tenant.delete(kind, name)
    live("items withdrawn", lambda: [name for name in tenant.resources() if not name.startswith(BINDING)] == [])
    tenant.delete(BINDING, "edge")
    live("delete", lambda: not tenant.resources() and tenant.record("edge") is None)

    assert everything(lab.clusters) == untouched
    assert (run_folders(tenant.key("edge")), run_processes(tenant.key("edge"))) == ([], {})
    writes = sorted({name for name, _ in killer.killed})
    stages: dict[str, Any] = {
        stage: [name for name in writes if name.startswith(f"{stage}:")] for stage in ("connect", "items", "items withdrawn", "delete")
    }
    print(*(f"| operator, {stage} | {len(names)} | {2 * len(names)} |" for stage, names in stages.items()), sep="\n")
    assert all(stages.values()), killer.killed
    once = {name for name in writes if (name, "killed after") not in killer.killed}
    assert all(name.endswith(PASSING) for name in once), f"only killed before: {sorted(once)}"

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One tenant attacks the operator in every way at once; the changes of another one are served, and the operator's memory stays flat."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_operator.base.kinds import BINDING
from tests.bench.operator_latency import p95
from tests.integration.hostile_tenant import FLAGS, hostile_tenant
from tests.integration.operator_lab import OperatorLab
from tests.integration.served_changes import change
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals, wait_for

pytestmark = pytest.mark.xdist_group("operator")

ROOM = 64 * 1024 * 1024  # bytes by which the memory may differ between two moments: caches of allocators, plays of the honest tenant


def memory_of(operator: OperatorProcess) -> int:
    """Bytes in memory of the process that holds the Lease, without its children."""
    status = Path(f"/proc/{operator.process.pid}/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def wait_until_none(operator: OperatorProcess, left: Callable[[], list[str]], what: str, explain: Callable[[], str] = str) -> None:
    """Wait until nothing is left. That the operator's log grows is no progress here: the attackers see to it that it always does."""

    def ended() -> str:
        status = operator.process.poll()
        return "" if status is None else f"the operator ended with status {status}"

    wait_for(left, lambda found: not found, what=what, hopeless=ended, explain=lambda: f"{explain()}\n{operator.output()}")


@pytest.mark.parametrize("changes", [3, pytest.param(20, marks=pytest.mark.full)])
def test_a_tenant_who_attacks_in_every_way_at_once_keeps_no_other_tenant_from_being_served(
    operator_lab: OperatorLab, tmp_path: Path, changes: int
) -> None:
    honest = operator_lab.workspace(f"honest-{changes}", "c1", "c2")
    with operator_lab.operator("--no-leader-elect", *FLAGS) as operator:
        operator.wait_ready()
        honest.create(BINDING, "edge", clusterRefs=honest.refs())
        operator.wait(lambda: honest.phase(BINDING, "edge"), "the mesh is connected", until=equals("Connected"))
        quiet = [change(operator_lab, honest, operator, number) for number in range(2)]
        with hostile_tenant(tmp_path, lambda name: operator_lab.workspace(f"{name}-{changes}")) as tenant:
            attacked = [change(operator_lab, honest, operator, number) for number in range(2, 2 + changes)]
            wait_until_none(operator, tenant.not_begun, "each attack has reached the operator", tenant.explanation)
            before = memory_of(operator)
            attacked += [change(operator_lab, honest, operator, number) for number in range(2 + changes, 2 + 2 * changes)]
            after = memory_of(operator)
            assert operator.process.poll() is None and operator.ready()
            wait_until_none(operator, tenant.without_outcome, "each attack has the outcome that it has to have", tenant.explanation)
            assert not (wrongs := tenant.wrongs()), "\n".join(wrongs)
        print(f"\nseconds until a change is served: quiet {max(quiet):.1f}, under attack p95 {p95(attacked):.1f}, most {max(attacked):.1f}")
        print(f"memory of the operator: {before / 1e6:.0f} MB when every attack had begun, {after / 1e6:.0f} MB at the end")
        assert after < before + ROOM
        honest.delete(BINDING, "edge")
        operator.wait(lambda: honest.get(BINDING, "edge") is None, "the mesh is removed")

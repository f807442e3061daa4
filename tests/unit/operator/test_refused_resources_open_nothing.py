# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""No invalid, renamed, deleted or moved custom resource opens a flow that no valid one asks for, through the reconciler and the planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.keeping import KEPT
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.owned import owning_item
from mesh_operator.base.cancel import Cancel
from mesh_operator.base.kinds import INTENT
from mesh_operator.runs.runner import RunRequest, RunResult, RunState
from tests.testing.intent_meaning import means
from tests.testing.intent_runs import (
    HOSTS,
    INTENTS,
    MISTAKES,
    InForce,
    Run,
    Spec,
    allowed,
    carried_out,
    mistyped,
    observed,
    planned,
    specs,
    world,
)
from tests.testing.properties import examples
from tests.unit.operator.test_reconcile import World


@dataclass(frozen=True)
class Change:
    """Changes of custom resources between two reconciles, as (what, name, spec), and the cluster that does not answer then, if any."""

    edits: tuple[tuple[str, str, Spec], ...]
    silent: str = ""


@st.composite
def changes(draw: st.DrawFn) -> Change:
    found = []
    for name in draw(st.lists(st.sampled_from(("a", "b", "c")), min_size=1, max_size=3, unique=True)):
        what = draw(st.sampled_from(("put", "put", "mistype", "delete", "rename", "rename and mistype", "move")))
        spec = draw(specs(name))
        found.append((what, name, mistyped(spec, draw(st.sampled_from(MISTAKES))) if "mistype" in what else spec))
    return Change(tuple(found), draw(st.sampled_from(("", "", "", *HOSTS))))


class Tenant(World):
    """A workspace whose plays plan and write intents in clusters in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.at, self.in_force = world(), InForce({host: {} for host in HOSTS})
        self.silent = ""
        self.asked: set[str] = set()  # names in the last play

    def run(self, request: RunRequest, cancel: Cancel, progress: Any = None) -> RunResult:
        file = [{k: v for k, v in spec.items() if k != "generation"} for spec in request.variables["cilium_mesh"][INTENTS]]
        self.asked = {spec["name"] for spec in file}
        run = Run(tuple(file), silent=self.silent)
        findings = [found.to_dict() for found in planned(file, observed(self.at, run)).findings if found.code == KEPT]
        self.at, self.in_force = carried_out(self.at, run, self.in_force)
        binding = {"phase": "Connected", "meshStatus": [], "links": [], "conditions": []}
        result = {"schema": 1, "changed": True, "findings": findings, "status": {"binding": binding, INTENTS: []}, "requeueSeconds": 300}
        return RunResult(state=RunState.SUCCESSFUL, rc=0, mesh_result=result, last_task="", seconds=1.0)

    def change(self, what: str, name: str, spec: Spec) -> None:
        """Do what a tenant does to a custom resource. A rename is a deletion and a creation."""
        existing = self.kcp.find(INTENT, name)
        going = bool(existing and existing["metadata"].get("deletionTimestamp"))
        if existing and not going and what not in ("put", "mistype", "move"):
            self.kcp.delete(INTENT, name)
        if what == "delete" or (going and "rename" not in what):
            return
        named = f"new-{name}" if "rename" in what else name
        if (self.kcp.find(INTENT, named) or {"metadata": {}})["metadata"].get("deletionTimestamp"):
            return  # the API server refuses a creation under a name that is still going
        mesh = {"meshRef": {"name": "other" if what == "move" else "edge"}}
        self.kcp.put(INTENT, named, {**{k: v for k, v in spec.items() if k != "name"}, **mesh})


@examples(40)
@given(st.lists(changes(), min_size=1, max_size=3))
def test_no_custom_resource_opens_what_no_valid_one_asks_for(history: list[Change]) -> None:
    """Also: a play gets every resource of its mesh that is not deleted, and a deleted one stays until its policies are gone.

    It goes all the same where a cluster did not answer; the next play that reaches the cluster prunes what it has of it.
    """
    tenant, answered = Tenant(), True
    for change in history:
        for edit in change.edits:
            tenant.change(*edit)
        was, tenant.silent = allowed(tenant.at), change.silent
        tenant.reconcile()
        for place, flow in allowed(tenant.at).items():
            wanted = tenant.in_force[str(flow.destination.cluster)].values()
            assert place in was or means(wanted, flow.source, flow.destination, "TCP", flow.port), f"{flow} is open after {change}"
        resources = {name: tenant.kcp.find(INTENT, name) for base in "abc" for name in (base, f"new-{base}")}
        going = {name for name, found in resources.items() if found and found["metadata"].get("deletionTimestamp")}
        here = {name for name, found in resources.items() if found and found["spec"]["meshRef"]["name"] == "edge"}
        assert tenant.asked == here - going
        answered &= not change.silent
        for policy in (policy for host in HOSTS for policy in tenant.at.traffic[host].policies):
            ref = owning_item(tenant.at.binding, policy)
            assert ref is None or resources[ref.name] or not answered, "a resource went before its policy"

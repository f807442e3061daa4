# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A run succeeds if its items are as asked: every phase of every kind, with the reasons that lead to it, and what the run then says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import plan_items, waits_for_mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.status import Course, item_rows
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.unmet import unmet_items
from tests.collection_path import CHECKOUT
from tests.testing import exposure_world
from tests.testing.facts_builders import NOW
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import NAMESPACE, namespace_facts, scene, traffic
from tests.unit.services import test_service_mcs
from tests.unit.services.service_worlds import cluster

GLOBAL, INTENT, EXPOSURE = ItemKind.GLOBAL_SERVICE, ItemKind.INTENT, ItemKind.EXPOSURE
SERVICE: Final = {"name": "nginx", "selector": {"namespace": NAMESPACE, "name": "nginx"}}
POLICY: Final[dict[str, Any]] = {"name": "alone", "action": "Isolate", "destination": {"namespace": NAMESPACE, "name": "nginx"}}
LEAVING: Final = replace(namespace_facts(), status={"phase": "Terminating"})


def exposed(**fields: Any) -> dict[str, Any]:
    wanted = {"service": {"namespace": NAMESPACE, "name": "nginx"}, "port": {"number": 80}, "sourceRanges": ["192.0.2.0/24"]}
    return {"name": "shop", "class": "LoadBalancer", **wanted, **fields}


def silent(*hosts: str) -> dict[str, Any]:
    failures = {host: ObserveFailure(host=host, code="CM-API-01", message="no route to host") for host in hosts}
    return {"members": hosts, "failures": failures}


def both(**fields: Any) -> Scene:
    return scene(cluster("c1"), cluster("c2"), **fields)


def balanced(after: Scene) -> Scene:
    """Every load balancer has an address."""
    return exposure_world.settled(after)


def late(after: Scene) -> Scene:
    return replace(after, now=after.now.replace(hour=after.now.hour + 1))


def refused_by_cilium(after: Scene) -> Scene:
    """Cilium takes no policy of c2."""
    said = {"conditions": [{"type": "Valid", "status": "False", "message": "too many ports"}]}
    policies = tuple(replace(entry, status=said) for entry in after.traffic["c2"].policies)
    return replace(after, traffic={**after.traffic, "c2": replace(after.traffic["c2"], policies=policies)})


class Case(NamedTuple):
    """An item in a world, what comes of the world after the writes, the phase and reason of Ready, and whether the item is as asked."""

    kind: ItemKind
    spec: Mapping[str, Any]
    before: Scene
    phase: str
    reason: str
    unmet: bool
    after: Callable[[Scene], Scene] = lambda written: written


CASES: Final[Mapping[str, Case]] = {
    "a service that every target exports": Case(GLOBAL, SERVICE, both(), "Exported", "Exported", False),
    "a service that only consumes": Case(GLOBAL, {**SERVICE, "shared": False}, both(), "Exported", "ConsumesOnly", False),
    "an export that Cilium has not carried out": Case(
        GLOBAL, {**SERVICE, "backend": "MCS"}, test_service_mcs.world(), "Exporting", "ExportPending", False
    ),
    "a service that waits for the mesh, which the run says of its own": Case(
        GLOBAL, SERVICE, both(phase="Connecting"), "Pending", "MeshNotConnected", False
    ),
    "a service that exists nowhere": Case(GLOBAL, SERVICE, scene(traffic("c1"), traffic("c2")), "Error", "NoClusterExported", True),
    "a service that one target lacks": Case(GLOBAL, SERVICE, scene(cluster("c1"), traffic("c2")), "Degraded", "SomeClustersExported", True),
    "a service that a stub serves": Case(
        GLOBAL, {**SERVICE, "createMissingServices": True}, scene(cluster("c1"), traffic("c2")), "Exported", "Exported", False
    ),
    "a service without a ready endpoint": Case(
        GLOBAL, SERVICE, scene(cluster("c1", ready=0), cluster("c2", ready=0)), "Degraded", "NoReadyEndpoints", True
    ),
    "a service in a silent member": Case(
        GLOBAL, SERVICE, scene(cluster("c1"), cluster("c2"), **silent("c3")), "Degraded", "SomeClustersExported", False
    ),
    "a service that one member lacks while another is silent": Case(
        GLOBAL, SERVICE, scene(cluster("c1"), traffic("c2"), **silent("c3")), "Degraded", "SomeClustersExported", True
    ),
    "an intent in force": Case(INTENT, POLICY, both(), "Applied", "Applied", False),
    "an intent whose policy is not there yet": Case(INTENT, POLICY, both(), "Applying", "Applying", False, lambda _written: both()),
    "an intent whose namespace one member lacks": Case(
        INTENT, POLICY, scene(traffic("c1"), traffic("c2", namespaces=[LEAVING])), "Degraded", "NamespaceMissing", True
    ),
    "an intent whose namespace every member lacks": Case(
        INTENT, POLICY, scene(traffic("c1", namespaces=[LEAVING])), "Pending", "NamespaceMissing", True
    ),
    "an intent that Cilium refuses in one member": Case(INTENT, POLICY, both(), "Degraded", "PolicyInvalid", True, refused_by_cilium),
    "an intent that Cilium refuses": Case(
        INTENT,
        {**POLICY, "destination": {**POLICY["destination"], "clusters": ["c2"]}},
        both(),
        "Error",
        "PolicyInvalid",
        True,
        refused_by_cilium,
    ),
    "an intent in a silent member": Case(INTENT, POLICY, scene(traffic("c1"), **silent("c2")), "Degraded", "ClusterUnreachable", False),
    "an intent in silent members alone": Case(INTENT, POLICY, scene(**silent("c1", "c2")), "Pending", "ClusterUnreachable", False),
    "an exposed service that every member serves": Case(EXPOSURE, exposed(), both(), "Exposed", "Exposed", False, balanced),
    "an exposed service whose address is to come": Case(EXPOSURE, exposed(), both(), "Exposing", "AddressPending", False),
    "an exposed service whose address does not come": Case(EXPOSURE, exposed(), both(), "Degraded", "AddressPending", True, late),
    "an exposed service that names no client": Case(EXPOSURE, exposed(sourceRanges=[]), both(), "Pending", "NoSourceRanges", False),
    "an exposed service that one member lacks": Case(
        EXPOSURE, exposed(), scene(cluster("c1"), traffic("c2")), "Degraded", "Exposed", True, balanced
    ),
    "an exposed service that exists nowhere, which is refused": Case(
        EXPOSURE, exposed(), scene(traffic("c1"), traffic("c2")), "Error", "ServiceNotFound", False
    ),
    "an exposed service in a silent member": Case(
        EXPOSURE, exposed(), scene(cluster("c1"), cluster("c2"), **silent("c3")), "Degraded", "Exposed", False, balanced
    ),
    "an exposed service in silent members alone": Case(EXPOSURE, exposed(), scene(**silent("c1", "c2")), "Degraded", "NoAnswer", False),
}


def outcome(case: Case, *, written: bool = True) -> tuple[str, str, list[tuple[str, str]]]:
    """Phase, reason of Ready, and the items that are not as asked; without ``written`` as check mode has them."""
    wanted = desired_of({case.kind.value: [case.spec]}, case.before.mesh, kinds=(case.kind,))
    decided = plan_items(wanted, case.before, waits=waits_for_mesh(case.before))
    after = case.after(applied(case.before, decided.plan.steps, case.before.binding)) if written else case.before
    (row,) = (rows := item_rows(wanted, decided, after, Course(), now=NOW))[case.kind.value]
    to_come = set() if written else {(step.item, step.cluster) for step in decided.plan.steps}
    reason = next(entry["reason"] for entry in row["conditions"] if entry["type"] == "Ready")
    found = unmet_items(wanted, decided, after, Course(), rows, to_come=to_come)
    return row["phase"], reason, [(str(ref), phase) for ref, phase in found]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_fails_for_an_item_that_is_not_as_asked_and_for_no_other(case: Case) -> None:
    phase, reason, unmet = outcome(case)
    assert (phase, reason) == (case.phase, case.reason)
    assert unmet == ([(f"{case.kind.value}/{case.spec['name']}", phase)] if case.unmet else [])


def test_every_phase_that_an_item_may_have_is_among_the_cases() -> None:
    for kind in ItemKind:
        crd = yaml.safe_load((CHECKOUT / f"operator/deploy/chart/kinds/{kind.value.lower()}.yaml").read_text(encoding="utf-8"))
        status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
        assert {case.phase for case in CASES.values() if case.kind is kind} == set(status["properties"]["phase"]["enum"])


@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if not case.unmet], ids=[name for name, case in CASES.items() if not case.unmet]
)
def test_check_mode_foresees_no_failure_of_what_the_run_will_write(case: Case) -> None:
    assert outcome(case, written=False)[2] == []

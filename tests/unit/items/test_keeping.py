# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is kept while an item of the kind is refused, waits or finds no place: every kind, and more of global services and exposures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, ServerRefused
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.keeping import KEPT
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import ItemsPlan, plan_items
from tests.testing.crd_examples import GONE, changed
from tests.testing.traffic_builders import NAMESPACE, namespace_facts, scene, service, slice_facts, traffic
from tests.testing.written_scene import Refuses, write
from tests.unit.services.test_service_mcs import world as exporting_world

SELECTOR: Final = {"namespace": NAMESPACE, "name": "nginx"}
SHARED: Final = "service.cilium.io/shared"
EXPOSED: Final[dict[str, Any]] = {
    "service": {"namespace": NAMESPACE, "name": "nginx"},
    "port": {"number": 80},
    "class": "NodePort",
    "sourceRanges": ["192.0.2.0/24"],
}


def world(*, stub: bool = False) -> Scene:
    """Service nginx in both clusters, which its owner made global; with ``stub`` not in c2."""
    content = {"services": [service(annotations={"service.cilium.io/global": "true"})], "slices": (slice_facts(),)}
    return scene(traffic("c1", **content), traffic("c2", namespaces=[namespace_facts()]) if stub else traffic("c2", **content))  # type: ignore[arg-type]  # arguments of traffic()


def services(*items: dict[str, Any]) -> dict[str, Any]:
    return {ItemKind.GLOBAL_SERVICE.value: list(items)}


def exposures(*items: dict[str, Any]) -> dict[str, Any]:
    return {ItemKind.EXPOSURE.value: list(items)}


def planned(file: dict[str, Any], at: Scene) -> ItemsPlan:
    return plan_items(desired_of(file, at.mesh), at)


def after(at: Scene, file: dict[str, Any], refuses: Refuses = lambda host, method, body: None) -> Scene:
    return write(at, planned(file, at).plan, refuses)[0]


def kept(file: dict[str, Any], at: Scene) -> list[str]:
    """Items of which the plan keeps objects. It writes nothing then."""
    decided = planned(file, at)
    assert decided.plan.empty
    return [finding.item for finding in decided.findings if finding.code == KEPT]


VALID: Final[dict[ItemKind, dict[str, Any]]] = {
    **{kind: {"name": "shop", **changed(kind.crd, {"meshRef": GONE})} for kind in ItemKind},
    ItemKind.GLOBAL_SERVICE: {"name": "shop", "selector": SELECTOR, "shared": False},
    ItemKind.INTENT: {"name": "shop", "action": "Isolate", "destination": SELECTOR},
    ItemKind.EXPOSURE: {"name": "shop", **EXPOSED},
}
"""An item of each kind that protects something: by an annotation, a policy, or ranges of sources."""

REFUSED: Final[dict[ItemKind, dict[str, Any]]] = {
    **{kind: {"zzz": "an unknown field"} for kind in ItemKind},
    ItemKind.GLOBAL_SERVICE: {"affinity": "Lokal"},
    ItemKind.INTENT: {"action": "Isolat"},
    ItemKind.EXPOSURE: {"port": {"number": 80800}},
}


@pytest.mark.parametrize("left", [False, True], ids=["in members", "in a cluster that left"])
@pytest.mark.parametrize("name", ["shop", "renamed"])
@pytest.mark.parametrize("kind", ItemKind)
def test_while_an_item_of_any_kind_is_refused_nothing_of_the_kind_is_deleted_or_taken_back(kind: ItemKind, name: str, left: bool) -> None:
    written = after(world(), {kind.value: [VALID[kind]]})
    wrong = {kind.value: [{**VALID[kind], **REFUSED[kind], "name": name}]}
    former = replace(written, mesh=replace(written.mesh, binding=replace(written.binding, cluster_refs=("c2",)))) if left else None
    now = replace(written, mesh=replace(written.mesh, binding=replace(written.binding, cluster_refs=("c1", "c3")))) if left else written
    decided = plan_items(desired_of(wrong, now.mesh), now, former=former)
    assert decided.plan.empty and decided.plan.not_carried_out == (f"{kind.value}/{name}",)
    without = plan_items(desired_of({kind.value: []}, now.mesh), now, former=former)
    assert {step.cluster for step in without.plan.steps} == {"c1", "c2"}, "without the refused item it goes"


@pytest.mark.parametrize(
    "mistake",
    [
        {"affinity": "Lokal"},
        {"selector": {"namespace": NAMESPACE, "name": "ngnix"}},
        {"selector": {"namespace": "prodution", "name": "nginx"}},
    ],
    ids=["value", "name of the Service", "namespace"],
)
def test_a_service_that_an_item_did_not_share_is_not_shared_by_renaming_and_mistyping_the_item(mistake: dict[str, Any]) -> None:
    written = after(world(), services({"name": "nginx", "selector": SELECTOR, "shared": False}))
    assert written.traffic["c1"].services[NAMESPACE, "nginx"].annotations[SHARED] == "false"
    renamed = services({"name": "web", "selector": SELECTOR, "shared": False, **mistake})
    assert kept(renamed, written) == ["globalServices/nginx"]
    assert SHARED not in after(written, services()).traffic["c1"].services[NAMESPACE, "nginx"].annotations, (
        "without the mistake it is restored"
    )


def test_a_stub_is_kept_too_and_is_handed_over_once_the_mistake_is_corrected() -> None:
    item = {"name": "nginx", "selector": SELECTOR, "createMissingServices": True}
    written = after(world(stub=True), services(item))
    assert (NAMESPACE, "nginx") in written.traffic["c2"].services
    wrong = planned(services({**item, "name": "web", "affinity": "Lokal"}), written)
    (finding,) = [entry for entry in wrong.findings if entry.code == KEPT]
    assert wrong.plan.empty and finding.evidence == "c2: Service production/nginx"
    done = after(written, services({**item, "name": "web"}))
    assert (NAMESPACE, "nginx") in done.traffic["c2"].services and planned(services({**item, "name": "web"}), done).plan.empty


def test_what_another_item_takes_over_is_handed_to_it_and_not_deleted() -> None:
    def export(name: str, service: str) -> dict[str, Any]:
        return {"name": name, "selector": {"namespace": NAMESPACE, "name": service}, "backend": "MCS"}

    written = after(exporting_world(), services(export("first", "nginx")))
    swapped = services(export("first", "other"), export("second", "nginx"))
    done = after(written, swapped)
    assert set(done.traffic["c1"].exports) == {(NAMESPACE, "nginx")} and planned(swapped, done).plan.empty


def test_an_exposure_that_is_renamed_and_mistyped_keeps_its_service_and_the_policy_that_restricts_it() -> None:
    written = after(world(), exposures({"name": "shop", **EXPOSED}))
    assert [entry.kind for entry in written.traffic["c1"].policies] == ["CiliumNetworkPolicy"]
    assert kept(exposures({"name": "store", **EXPOSED, "port": {"number": 80800}}), written) == ["exposedServices/shop"]


def test_an_exposure_leaves_a_cluster_only_when_it_is_written_where_it_goes() -> None:
    def refuses(host: str, method: str, body: Any) -> ClusterError | None:
        return ServerRefused("no", cluster=host) if (host, method) == ("c2", "apply") else None

    written = after(world(), exposures({"name": "shop", **EXPOSED, "clusters": ["c1"]}))
    moved = exposures({"name": "shop", **EXPOSED, "clusters": ["c2"]})
    names = {entry.name for entry in written.traffic["c1"].owned}
    assert {entry.name for entry in after(written, moved, refuses).traffic["c1"].owned} == names
    assert {entry.name for entry in after(written, moved).traffic["c1"].owned} == {"nginx"}

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Laws of all kinds together: one run is enough, the next has nothing to do, and without items everything is as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import ItemsPlan, plan_items
from tests.testing.properties import examples
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import NAMESPACE, pod, scene, service, slice_facts, traffic

EXPOSED: Final = {"service": {"namespace": NAMESPACE, "name": "nginx"}, "port": {"number": 80}, "sourceRanges": ["192.0.2.0/24"]}
POOL: Final[tuple[tuple[ItemKind, Mapping[str, Any]], ...]] = (
    (ItemKind.GLOBAL_SERVICE, {"name": "nginx", "selector": {"namespace": NAMESPACE, "name": "nginx"}}),
    (
        ItemKind.GLOBAL_SERVICE,
        {"name": "nginx", "selector": {"namespace": NAMESPACE, "name": "nginx"}, "shared": False, "affinity": "Local"},
    ),
    (
        ItemKind.INTENT,
        {
            "name": "web-to-nginx",
            "action": "Allow",
            "source": {"namespace": NAMESPACE, "name": "web"},
            "destination": {"namespace": NAMESPACE, "name": "nginx"},
        },
    ),
    (ItemKind.INTENT, {"name": "alone", "action": "Isolate", "destination": {"namespace": NAMESPACE, "name": "nginx"}}),
    (ItemKind.EXPOSURE, {"name": "shop", "class": "LoadBalancer", **EXPOSED}),
    (ItemKind.EXPOSURE, {"name": "shop", "class": "NodePort", **EXPOSED}),
    (ItemKind.EXPOSURE, {"name": "shop", "class": "LoadBalancer", **EXPOSED, "clusters": ["c2"]}),
)

files = st.lists(st.sampled_from(POOL), max_size=4, unique_by=lambda entry: (entry[0], entry[1]["name"]))


def world() -> Scene:
    content = {"services": [service()], "slices": (slice_facts(),), "pods": (pod("nginx-1", app="nginx"), pod("web-1", app="web"))}
    return scene(traffic("c1", **content), traffic("c2", **content))  # type: ignore[arg-type]  # arguments of traffic()


def file_of(entries: list[tuple[ItemKind, Mapping[str, Any]]]) -> dict[str, list[Mapping[str, Any]]]:
    return {kind.value: [spec for own, spec in entries if own is kind] for kind in ItemKind}


def planned(file: Mapping[str, Any], observed: Scene) -> ItemsPlan:
    return plan_items(desired_of(file, observed.mesh), observed)


def after(file: Mapping[str, Any], observed: Scene) -> Scene:
    return applied(observed, planned(file, observed).plan.steps, observed.binding)


def objects(observed: Scene) -> dict[str, Any]:
    """What a person sees, without the versions that every write changes."""
    return {
        f"{host}{entry.path}": (dict(entry.labels), dict(entry.annotations), entry.spec)
        for host, facts in observed.traffic.items()
        for entry in facts.owned
    }


@examples(60)
@given(st.lists(files, min_size=1, max_size=3))
def test_after_a_run_the_next_has_nothing_to_do_and_an_empty_file_takes_everything_back(history: list[Any]) -> None:
    latest = start = world()
    for entries in history:
        latest = after(file_of(entries), latest)
        again = planned(file_of(entries), latest)
        assert [(step.cluster, step.verb, step.object, step.why) for step in again.plan.steps] == []
    assert objects(after(file_of([]), latest)) == objects(start)


def test_an_exposed_service_of_a_service_that_becomes_global_is_global_in_the_same_run() -> None:
    start = world()
    both = file_of([POOL[0], POOL[4]])
    made = next(e for e in after(both, start).traffic["c1"].services.values() if e.name.startswith("shop-"))
    assert made.annotations["service.cilium.io/global"] == "true"
    alone = after(file_of([POOL[4]]), after(both, start))
    left = next(e for e in alone.traffic["c1"].services.values() if e.name.startswith("shop-"))
    assert "service.cilium.io/global" not in left.annotations

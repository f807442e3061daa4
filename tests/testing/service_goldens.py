# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Golden files of global services, tests/unit/services/golden: each has clusters, an item as a user writes it, and what is written.

``python -m tests.testing.service_goldens`` writes the outcome anew, for a reader to compare; a test holds that it is current.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.collection_path import CHECKOUT, link
from tests.testing.golden_files import contents, shown, write_anew

FOLDER: Final = CHECKOUT / "tests" / "unit" / "services" / "golden"


def goldens() -> dict[str, dict[str, Any]]:
    """Name -> content of every golden file."""
    return contents(FOLDER)


def outcome(golden: Mapping[str, Any]) -> dict[str, Any]:
    """``writes``: what a run sends. ``wayBack``: what a run without the item sends after it."""
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.plan import plan_services, prune_services
    from tests.testing.facts_builders import cluster_facts
    from tests.testing.simulated_items import applied
    from tests.testing.traffic_builders import SERVED, scene, service, slice_facts, traffic

    served = {*SERVED, "multicluster.x-k8s.io/v1alpha1"}
    places = []
    for host, content in golden["clusters"].items():
        services = [service(**content["service"])] if content.get("service") is not None else []
        places.append(traffic(host, services=services, slices=(slice_facts(),) if services else (), served=served))
    facts = {place.host: cluster_facts(place.host, version="1.19.5", config={"clustermesh-enable-mcs-api": "true"}) for place in places}
    world = scene(*places, facts=facts)
    wanted = desired_of({"globalServices": [golden["item"]]}, world.mesh, kinds=(ItemKind.GLOBAL_SERVICE,))
    none = desired_of({"globalServices": []}, world.mesh, kinds=(ItemKind.GLOBAL_SERVICE,))
    steps = [step for plan in plan_services(wanted, world) for step in plan.steps]
    back = prune_services(none, applied(world, steps, world.binding))[0]
    return {"writes": [shown(step) for step in steps], "wayBack": [shown(step) for step in back]}


if __name__ == "__main__":
    link()
    for name, content in goldens().items():
        inputs = {key: content[key] for key in ("about", "clusters", "item")}
        write_anew(FOLDER / f"{name}.yaml", {**inputs, **outcome(content)}, width=1000)

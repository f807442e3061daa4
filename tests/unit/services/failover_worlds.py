# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Scenes for the tests of the failover contract: a Service in some clusters, and what is left of it after the choices were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import Failover, GlobalService, ServiceSelector
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import SliceFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.annotations import (
    GLOBAL,
    MANAGED,
    Choice,
    wanted_annotations,
)
from tests.testing.traffic_builders import NAMESPACE, scene, service, slice_facts, traffic

KEY = (NAMESPACE, "nginx")


def item(*targets: str, least: int = 2, hysteresis: int = 1, detect: int = 60, **fields: Any) -> GlobalService:
    """GlobalService nginx with a contract; ``failover=None`` for one without."""
    contract = Failover(detect_within=detect, min_local_ready=least, hysteresis=hysteresis)
    values: dict[str, Any] = {"affinity": "Local", "failover": contract, **fields}
    return GlobalService(name="nginx", selector=ServiceSelector(namespace=NAMESPACE, name="nginx"), targets=targets, **values)


def world(
    ready: Mapping[str, int], *, unready: Mapping[str, int] | None = None, marks: Mapping[str, Mapping[str, str]] | None = None, **more: Any
) -> Scene:
    """Clusters with that many ready endpoints of nginx. ``marks``: annotations of the Service there."""
    annotations = {host: {GLOBAL: "true", **(marks or {}).get(host, {})} for host in ready}
    return scene(
        *(
            traffic(
                host,
                services=[service(annotations=annotations[host])],
                slices=(slice_facts(ready=number, unready=(unready or {}).get(host, 0)),),
            )
            for host, number in ready.items()
        ),
        **more,
    )


def written(before: Scene, wanted: GlobalService, choices: Mapping[str, Choice]) -> Scene:
    """``before`` after the annotations were written where there is a Service."""
    after = dict(before.traffic)
    for host, choice in choices.items():
        current = before.traffic[host].services.get(KEY)
        if current is not None:
            kept = {name: value for name, value in current.annotations.items() if name not in MANAGED}
            fresh = replace(current, annotations={**kept, **wanted_annotations(wanted, choice)})
            after[host] = replace(before.traffic[host], services={KEY: fresh})
    return replace(before, traffic=after)


def with_ready(before: Scene, ready: Mapping[str, int]) -> Scene:
    """``before`` with other numbers of ready endpoints."""
    after = {}
    for host, facts in before.traffic.items():
        slices: tuple[SliceFacts, ...] = (slice_facts(ready=ready[host]),) if host in ready else facts.slices
        after[host] = replace(facts, slices=slices)
    return replace(before, traffic=after)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters in memory that a plan of items is written to by the writer itself, and that refuse what a test lets them refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import ApplyResult, apply_plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Plan, Step
from tests.testing.simulated_items import applied

Refuses = Callable[[str, str, Mapping[str, Any]], ClusterError | None]
"""Host, method and body of a write -> the error with which the cluster answers; None: it is done."""


@dataclass
class _Written:
    scene: Scene


@dataclass
class _Server:
    """One cluster of a scene, with the methods of the client that writes of items use."""

    host: str
    world: _Written
    refuses: Refuses

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        return self._write("apply", path, body)

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        return self._write("create", path, body)

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        return self._write("merge", path, body)

    def delete(self, path: str, *, uid: str = "", resource_version: str = "") -> None:
        self._write("delete", path, {"metadata": {"uid": uid, "resourceVersion": resource_version}})

    def _write(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        error = self.refuses(self.host, method, body)
        if error is not None:
            raise error
        write = ApiWrite(method=method, path=path, body=body)
        step = Step(wave=0, cluster=self.host, verb=method, object=path, why="", action=write)
        self.world.scene = applied(self.world.scene, [step], self.world.scene.binding)
        return {}


def write(scene: Scene, plan: Plan, refuses: Refuses = lambda host, method, body: None) -> tuple[Scene, ApplyResult]:
    """Apply the plan to the clusters of ``scene``, one write at a time. Returns the scene that would be observed next."""
    world = _Written(scene)
    servers = {host: _Server(host, world, refuses) for host in {*scene.traffic, *(step.cluster for step in plan.steps)}}
    result = apply_plan(plan, Observation(clusters=cast("dict[str, Cluster]", servers)), now=scene.now, parallel=1)
    return world.scene, result

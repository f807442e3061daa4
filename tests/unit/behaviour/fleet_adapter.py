# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Where the recording touches the code of the fleet side: the pipelines of workloads and of members, over API servers in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput, MeshError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.contents import KINDS, TenantObject
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, karmada_namespace, member_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import Interrupted, Outcome, finding_of
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.shown_lines import lines_of
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.workloads_lines import FORMATS
from tests.testing.karmada_client import FleetWorld
from tests.testing.karmada_model import KarmadaModel
from tests.testing.members_world import World

from .adapter import Json, plain_mapping

TENANT: Final = Tenant("shop", "default")
NAMESPACE: Final = karmada_namespace(TENANT)


def member(name: str) -> str:
    """Return the name that a cluster of the tenant has in Karmada."""
    return member_name(TENANT, name)


@dataclass
class Workloads:
    """A tenant's Karmada with the clusters a, b and c, what the tenant asks for, and what the runs did, by name."""

    variable: Json
    world: FleetWorld = field(
        default_factory=lambda: FleetWorld(KarmadaModel(tenant=TENANT, members={member(name): dict(TENANT.labels) for name in "abc"}))
    )
    course: Json = field(default_factory=dict)

    @property
    def karmada(self) -> KarmadaModel:
        """What happens to Karmada and its members is ordered here."""
        return self.world.model

    def run(self, step: str, **options: Any) -> None:
        """Run, and note all of it under a name."""
        self.world.shown.clear()
        found = _taken_down(lambda: self.world.run(self.variable, **options))
        lines = [f"{line.colour}|{line.text}" for shown in self.world.shown for line in lines_of(shown, FORMATS)]
        runs = {name: sorted(f"{key.kind} {key.name}" for key in copies) for name, copies in sorted(self.karmada.running.items())}
        self.course[step] = {**found, "output": lines, "objects": sorted(self.karmada.objects), "in members": runs}

    def put(self, kind: str, name: str, body: Mapping[str, Any]) -> None:
        """Put an object of another program into Karmada."""
        path = f"/api/v1/namespaces/{NAMESPACE}" if kind == "Namespace" else TenantObject(kind, name).path(NAMESPACE)
        version = "v1" if kind == "Namespace" else KINDS[kind].api_version
        metadata = {"name": NAMESPACE if kind == "Namespace" else name, "uid": "uid-foreign", "resourceVersion": "1", "generation": 1}
        self.karmada.objects[path] = {"apiVersion": version, "kind": kind, "metadata": metadata, **body}


@dataclass
class Members:
    """A Karmada, a management plane and two clusters, and what the runs did, by name."""

    world: World = field(default_factory=lambda: World("c1", "c2"))
    course: Json = field(default_factory=dict)

    def run(self, step: str, variable: Json, **options: Any) -> None:
        """Run, and note all of it under a name."""
        found = _taken_down(lambda: self.world.run(variable, **options))
        self.course[step] = {**found, "objects": sorted(self.world.objects())}


def _taken_down(run: Callable[[], Outcome]) -> Json:
    """Return the result of a run, or why it ended before there was one."""
    try:
        return {"result": plain_mapping(run().to_result())}
    except InvalidInput as error:
        return {"msg": str(error)}
    except Interrupted as ended:
        if not isinstance(ended.error, MeshError):
            raise
        return {"result": plain_mapping(ended.outcome.to_result()), "ended by": plain_mapping(finding_of(ended.error).to_dict())}

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The samples that a new user applies: one of each kind, which belong together and are accepted as they are."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.contents import content_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.facts import TenantFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.parse import parse_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.plan import plan_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.revisions import Revision, revision_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from mesh_operator.base.keys import CLUSTER_ANNOTATION, FleetKey, MeshKey
from mesh_operator.base.kinds import BINDING, CLUSTER, FABRIC, FLEET_ROWS, METRICS, REVISION, ROWS, WORKLOAD
from mesh_operator.credentials.management_plane import Usable
from mesh_operator.fleets.request import KARMADA, Planes, requests_of
from mesh_operator.meshes.request import MeshRequest, request_of
from mesh_operator.meshes.status_in_progress import first_status_of
from mesh_operator.source.store import Store
from tests.collection_path import CHECKOUT
from tests.testing.crd_schema import misfits, schemas

KEY = MeshKey("ws", "team-a", "edge-mesh-eu")
FOLDER = CHECKOUT / "samples"


def read(folder: Path) -> list[dict[str, Any]]:
    return [load_yaml(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))]


SAMPLES, FLEET_SAMPLES = read(FOLDER), read(FOLDER / "fleet")
ANSWERS = read(FOLDER / "fleet" / "answers")  # what the operator makes, and a tenant reads


def test_there_is_one_sample_of_each_kind() -> None:
    assert sorted(sample["kind"] for sample in SAMPLES) == sorted(row.kind for row in ROWS if row.kind != CLUSTER)
    assert sorted(sample["kind"] for sample in FLEET_SAMPLES) == sorted(row.kind for row in FLEET_ROWS if row.units)
    assert sorted(sample["kind"] for sample in ANSWERS) == sorted(row.kind for row in FLEET_ROWS if not row.units)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["kind"])
def test_a_sample_fits_its_schema_and_names_no_namespace(sample: dict[str, Any]) -> None:
    assert misfits(sample["spec"], schemas()[sample["kind"]]["properties"]["spec"]) == []
    assert "namespace" not in sample["metadata"], "it is applied to the namespace of the user"


@pytest.mark.parametrize("sample", [*FLEET_SAMPLES, *ANSWERS], ids=lambda sample: sample["kind"])
def test_a_sample_of_a_fleet_fits_its_schema_and_names_no_namespace(sample: dict[str, Any]) -> None:
    schema = schemas("fleet")[sample["kind"]]["properties"]
    parts = [part for part in ("spec", "status") if part in sample]
    assert parts == (["status"] if sample["kind"] == METRICS else ["spec"])
    assert [misfits(sample[part], schema[part]) for part in parts] == [[]]
    assert "namespace" not in sample["metadata"], "it is applied to the namespace of the user"


def test_the_samples_together_are_one_mesh_whose_items_are_all_accepted() -> None:
    store = Store(lambda *_: None, lambda: 0.0)
    for sample in SAMPLES:
        place = {"namespace": KEY.namespace, "annotations": {CLUSTER_ANNOTATION: KEY.workspace}, "generation": 1}
        store.put("kcp", sample["kind"], {**sample, "metadata": {**sample["metadata"], **place}})
    mesh = store.mesh(KEY)
    names = [ref["name"] for sample in SAMPLES if sample["kind"] == BINDING for ref in sample["spec"]["clusterRefs"]]
    request = request_of(mesh, {name: Usable(name=name, kubeconfig={}) for name in names}, None)
    assert isinstance(request, MeshRequest) and set(request.hosts) == set(names)
    statuses = [first_status_of(stored, mesh, datetime.now(UTC)) for items in mesh.items.values() for stored in items]
    assert [(status["phase"], status["conditions"][0]["status"]) for status in statuses] == [("Pending", "True")] * len(ItemKind)
    [fabric] = [sample for sample in SAMPLES if sample["kind"] == FABRIC]
    assert [ref["name"] for ref in fabric["spec"]["meshRefs"]] == [KEY.name]


def test_the_samples_of_fleets_together_are_a_workload_that_is_planned_and_the_operator_answers_as_its_samples_say() -> None:
    store, key = Store(lambda *_: None, lambda: 0.0), FleetKey(KEY.workspace, KEY.namespace, WORKLOAD)
    for sample in FLEET_SAMPLES:
        place = {"namespace": KEY.namespace, "annotations": {CLUSTER_ANNOTATION: KEY.workspace}, "generation": 1}
        store.put("kcp", sample["kind"], {**sample, "metadata": {**sample["metadata"], **place}})
    [asked] = requests_of(key, store.tenant(KEY.workspace, KEY.namespace), Planes(karmada={}), {}, deadline=1.0, connected={})
    given = parse_fleet(asked.fleet, (KARMADA,))
    assert given.request.refused == ()
    planned = plan_fleet(given.request, TenantFacts(now=datetime.now(UTC)), KARMADA)
    [decision] = planned.decisions.values()
    assert (decision.reason, decision.unknown, planned.plan.problems) == ("", {}, ())
    assert any(step.object.startswith("PropagationPolicy") for step in planned.plan.steps)
    [revision, figures] = [next(answer for answer in ANSWERS if answer["kind"] == kind) for kind in (REVISION, METRICS)]
    made = Revision(number=1, content=content_of(decision.workload))
    name, spec = decision.workload.name, revision["spec"]
    assert revision["metadata"]["name"] == revision_name(name, 1)
    assert spec == {"workload": name, "number": 1, "hash": made.hash, "snapshot": made.content}
    assert [figures["metadata"]["name"]] == [sample["metadata"]["name"] for sample in FLEET_SAMPLES if sample["kind"] == CLUSTER]

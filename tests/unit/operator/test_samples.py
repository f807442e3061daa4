# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The samples that a new user applies: one of each kind, which belong together and are accepted as they are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.item_kinds import ItemKind
from mesh_operator.base.keys import CLUSTER_ANNOTATION, MeshKey
from mesh_operator.base.kinds import BINDING, CLUSTER, FABRIC, ROWS
from mesh_operator.credentials.management_plane import Usable
from mesh_operator.meshes.request import MeshRequest, request_of
from mesh_operator.meshes.status_in_progress import first_status_of
from mesh_operator.source.store import Store
from tests.collection_path import CHECKOUT
from tests.testing.crd_schema import misfits, schemas

KEY = MeshKey("ws", "team-a", "edge-mesh-eu")
FILES = sorted((CHECKOUT / "samples").glob("*.yaml"))
SAMPLES: list[dict[str, Any]] = [load_yaml(path.read_text(encoding="utf-8")) for path in FILES]


def test_there_is_one_sample_of_each_kind() -> None:
    assert sorted(sample["kind"] for sample in SAMPLES) == sorted(row.kind for row in ROWS if row.kind != CLUSTER)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["kind"])
def test_a_sample_fits_its_schema_and_names_no_namespace(sample: dict[str, Any]) -> None:
    assert misfits(sample["spec"], schemas()[sample["kind"]]["properties"]["spec"]) == []
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

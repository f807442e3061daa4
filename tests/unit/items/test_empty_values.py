# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An empty list or mapping is the same as an absent one, for every optional field of every kind that the CRDs have."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from tests.testing.crd_examples import BINDING, MEMBERS, changed
from tests.testing.crd_random import LISTS, MESH
from tests.testing.empty_values import SAYS_SOMETHING, optional_fields, pairs

KINDS = ("ClusterMeshBinding", *LISTS)


def understood(kind: str, spec: dict[str, Any]) -> Any:
    """Return what the engine makes of a spec, from which every plan follows: the mesh, the item, or why it is refused."""
    if kind in LISTS:
        return desired_of({LISTS[kind]: [{"name": "x", **spec}]}, MESH)
    try:
        return parse({"binding": {"name": BINDING, **spec}}, MEMBERS)
    except InvalidInput as refused:
        return refused.message


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_value_means_what_its_absence_means(kind: str) -> None:
    tried = list(pairs(kind))
    assert {pair.path for pair in tried} == {path for path in optional_fields(kind) if (kind, path) not in SAYS_SOMETHING}
    assert [pair for pair in tried if understood(kind, pair.empty) != understood(kind, pair.absent)] == []


def test_the_optional_lists_and_mappings_are_those_that_the_crds_have() -> None:
    """So many are tried at least."""
    known = {"ClusterMeshBinding": 9, "GlobalService": 4, "ConnectivityIntent": 12, "ExposedService": 5, "Fabric": 0}
    assert {kind: len(optional_fields(kind)) for kind in known} == known


def test_an_empty_list_of_clusters_in_a_file_exposes_as_without_the_list() -> None:
    """A file may have the list itself where a custom resource has a mapping."""
    spec = changed("ExposedService", {})
    assert understood("ExposedService", {**spec, "clusters": []}) == understood("ExposedService", spec)


def test_a_failover_without_fields_is_one_with_the_defaults() -> None:
    spelled_out = {"detectWithin": 60, "minLocalReady": 1, "hysteresis": 0}  # the defaults of the CRD
    found, wanted = (understood("GlobalService", changed("GlobalService", {"failover": fields})) for fields in ({}, spelled_out))
    assert found == wanted and not found.refused
    assert found != understood("GlobalService", changed("GlobalService", {})), "it would mean nothing"


@pytest.mark.parametrize("kind", sorted(LISTS))
def test_a_field_of_the_wrong_type_is_not_taken_for_an_empty_one(kind: str) -> None:
    for path, nothing in optional_fields(kind).items():
        if "." not in path:
            other: Any = {} if nothing == [] else []
            if (kind, path) != ("ExposedService", "clusters"):
                assert understood(kind, changed(kind, {path: other})).refused, path

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The engine reads the structure of specs from the CRDs, and the pages show the fields of the CRDs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.structure import FORMS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.schemas import SPECS as FLEET_SPECS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.schemas import SPECS as MESH_SPECS
from tests.collection_path import CHECKOUT
from tests.testing.crd_schema import nodes, schemas
from tests.testing.fleet_examples import KEEP_EMPTY
from tests.testing.kind_schemas import FLEET_KINDS, POD, RELAXED, fleet_specs, generated, specs
from tests.testing.kind_tables import BEGIN, END, FIELDS, page_of

SPECS = {**MESH_SPECS, **FLEET_SPECS}


@pytest.mark.parametrize("path", sorted(generated()), ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_what_is_made_of_the_crds_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generated()[path], "run: python -m tests.testing.kind_schemas --write"


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_every_field_of_a_kind_is_on_its_page(kind: str) -> None:
    """By its path, read off the page as it is, and not by the table that the page is made of."""
    page = (CHECKOUT / "docs" / page_of(kind)).read_text(encoding="utf-8")
    what = FIELDS.format(kind=kind)
    rows, _, pods = page.partition(BEGIN.format(what=what))[2].partition(END.format(what=what))[0].partition("The fields of pods")
    spec = (schemas() | schemas("fleet"))[kind]["properties"]["spec"]
    fields = [path for path, _schema in nodes(spec) if not path.endswith(("[]", "{}"))]
    wanted = [path for path in fields if not path.startswith(f"{POD}.")]
    assert sorted(re.findall(r"(?m)^\| `([^`]+)` \|", rows)) == sorted(wanted)
    named = {name for row in re.findall(r"(?m)^\|[^|]+\|([^|]+)\|", pods) for name in re.findall("`([^`]+)`", row)}
    assert {path.rpartition(".")[2] for path in fields if path not in wanted} <= named


def test_the_files_say_what_the_crds_say() -> None:
    """Constants are another way to write the same."""
    assert specs() == MESH_SPECS
    assert fleet_specs() == FLEET_SPECS
    assert set(FLEET_SPECS) == set(FLEET_KINDS)


def test_a_mapping_that_says_something_empty_is_marked_where_it_is() -> None:
    marked = {path.rpartition(".")[2] for spec in FLEET_SPECS.values() for path, schema in nodes(spec) if schema.get("keepEmpty")}
    assert marked == KEEP_EMPTY


def test_every_pattern_has_words() -> None:
    used = {schema["pattern"] for spec in SPECS.values() for _path, schema in nodes(spec) if "pattern" in schema}
    assert used == set(FORMS)


def test_what_a_file_is_not_held_to_is_in_the_crd() -> None:
    specs = {kind: dict(nodes(schema["properties"]["spec"])) | {"": schema["properties"]["spec"]} for kind, schema in schemas().items()}
    for (kind, path), keywords in RELAXED.items():
        assert set(keywords) & set(specs[kind][path]), (kind, path)


def test_numbers_have_both_bounds_and_mappings_a_shape() -> None:
    """The reader relies on it."""
    for spec in SPECS.values():
        for path, schema in nodes(spec):
            assert ("minimum" in schema) is ("maximum" in schema), path
            shapes = {"properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields"}
            assert schema["type"] != "object" or set(schema) & shapes, path

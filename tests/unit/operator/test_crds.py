# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The schemas of the custom resources say what the engine understands and what it answers. What a real API server makes of them:
tests/integration/test_crds.py."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from mesh_operator.base.kinds import GROUP as OUR_GROUP
from mesh_operator.base.kinds import ROWS, VERSION
from mesh_operator.crds import api_resource_schema, crds
from tests.testing.crd_examples import MEMBERS, Example, changed, examples
from tests.testing.crd_random import LISTS, MESH, problems_of
from tests.testing.crd_schema import misfits, nodes, paths_of, schemas
from tests.testing.crd_statuses import Made, statuses
from tests.testing.rows import in_one_test

SCHEMAS = schemas()
SPECS = {kind: schema["properties"]["spec"] for kind, schema in SCHEMAS.items()}
OURS = tuple(row for row in ROWS if row.group == OUR_GROUP)


def parsed() -> list[Example]:
    """Those of kinds that have a parser. A Fabric is looked up by its bindings' names alone."""
    return [example for example in examples() if example.kind != "Fabric"]


def test_every_kind_of_ours_has_a_crd_by_its_names() -> None:
    found = {crd["spec"]["names"]["kind"]: crd["spec"] for crd in crds()}
    assert set(found) == {row.kind for row in OURS}
    for row in OURS:
        spec = found[row.kind]
        assert (spec["group"], spec["names"]["plural"], spec["scope"]) == (row.group, row.plural, "Namespaced")
        (version,) = spec["versions"]
        assert (version["name"], version["subresources"]) == (VERSION, {"status": {}})
        assert {"Phase", "Age"} <= {column["name"] for column in version["additionalPrinterColumns"]}
    short = [name for spec in found.values() for name in spec["names"]["shortNames"]]
    assert len(set(short)) == len(short) == len(OURS)


@in_one_test
@pytest.mark.parametrize("example", parsed(), ids=lambda e: f"{e.kind} {e.about}")
def test_the_engine_takes_and_refuses_what_the_examples_say(example: Example) -> None:
    problems = problems_of(example.kind, example.spec)
    assert (problems == "") == example.engine, problems


def test_a_right_example_has_no_field_that_the_schema_would_drop() -> None:
    for example in examples():
        if example.schema:
            assert misfits(example.spec, SPECS[example.kind]) == [], example.about


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_every_field_of_the_schema_is_understood_by_the_engine(kind: str) -> None:
    """Each is in an example that the engine takes."""
    taken = [example.spec for example in examples() if example.kind == kind and example.engine and example.schema]
    covered = {path for spec in taken for path in paths_of(spec, SPECS[kind])}
    assert {path for path, _schema in nodes(SPECS[kind])} - covered == set()


ELSEWHERE = {
    "ClusterMeshBinding": {"": {"name", "workspace", "namespace", "generation"}},  # metadata
    # metadata.creationTimestamp: an author must not be able to be the first by saying so.
    **{kind.crd: {"": {"createdAt"}} for kind in ItemKind if kind.by_age},
}
"""Keys of the engine that are not fields of the spec, by path."""


@pytest.mark.parametrize("kind", sorted(set(SPECS) - {"Fabric"}))
def test_every_key_that_the_engine_knows_is_in_the_schema(kind: str) -> None:
    """An unknown key makes the engine name those that it knows there."""
    for example in parsed():
        if example.kind == kind and example.engine and example.schema:
            for where, spec in _with_unknown_keys(example.spec, SPECS[kind]):
                said = re.search(r"zzz: unknown key; the keys here are ([^;]*?)(?:;|\.?$)", problems_of(kind, spec))
                assert said, (where, problems_of(kind, spec))
                known = set(said[1].rstrip(".").split(", ")) - ELSEWHERE.get(kind, {}).get(where, set())
                expected = set(_at(SPECS[kind], where)["properties"]) - ({"meshRef"} if where == "" else set())
                assert known <= expected, where


def _with_unknown_keys(spec: dict[str, Any], schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    def places(value: Any, inner: dict[str, Any], path: str, keys: tuple[Any, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        if isinstance(value, dict) and "properties" in inner:
            yield path, keys
            for name, entry in value.items():
                yield from places(entry, inner["properties"][name], f"{path}.{name}" if path else name, (*keys, name))
        elif isinstance(value, list):
            for place, entry in enumerate(value):
                yield from places(entry, inner["items"], f"{path}[]", (*keys, place))

    for path, keys in places(spec, schema, "", ()):
        found = copy.deepcopy(spec)
        target: Any = found
        for key in keys:
            target = target[key]
        target["zzz"] = 1
        yield path, found


def _at(schema: dict[str, Any], path: str) -> Any:
    return schema if not path else dict(nodes(schema))[path]


def test_a_default_of_the_schema_changes_nothing_to_the_engine() -> None:
    """What the API server fills in means what is meant when nothing is said."""
    defaults = {(kind, path): node["default"] for kind in SPECS for path, node in nodes(SPECS[kind]) if "default" in node}
    assert len(defaults) == 11
    wide: dict[str, dict[str, Any]] = {"GlobalService": {"failover": {}}, "ConnectivityIntent": {"probe": {}, "ports": [{"port": 80}]}}
    for kind in LISTS:
        bare = changed(kind, wide.get(kind, {}))
        filled = _filled(bare, SPECS[kind])
        assert (filled != bare) is (kind in {of for of, _path in defaults})
        one, other = (desired_of({LISTS[kind]: [{"name": "x", **spec}]}, MESH) for spec in (bare, filled))
        assert not one.refused and one == other
    bare = changed("ClusterMeshBinding", {"topology": {}})
    filled = _filled(bare, SPECS["ClusterMeshBinding"])
    assert filled["topology"] == {"mode": "FullMesh"}
    assert parse({"binding": bare}, MEMBERS) == parse({"binding": filled}, MEMBERS)


def _filled(value: Any, schema: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_filled(entry, schema["items"]) for entry in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    defaults = {name: inner["default"] for name, inner in schema["properties"].items() if "default" in inner and name not in value}
    return defaults | {name: _filled(entry, schema["properties"][name]) for name, entry in value.items()}


@in_one_test
@pytest.mark.parametrize("made", statuses(), ids=lambda m: f"{m.kind} {m.about}")
def test_nothing_of_a_status_is_lost(made: Made) -> None:
    assert misfits(made.status, SCHEMAS[made.kind]["properties"]["status"]) == []


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_every_field_of_a_status_is_one_that_is_written(kind: str) -> None:
    schema = SCHEMAS[kind]["properties"]["status"]
    covered = {path for made in statuses() if made.kind == kind for path in paths_of(made.status, schema)}
    assert {path for path, _schema in nodes(schema)} - covered == set()


def test_every_text_of_a_spec_is_bounded() -> None:
    for kind, schema in SPECS.items():
        for path, node in nodes(schema):
            where = f"{kind} {path}"
            if node.get("type") == "string":
                assert "enum" in node or "maxLength" in node, where
                assert (
                    path == "probe.command[]"
                    or path == "globalAnnotations{}"
                    or {"enum", "pattern", "x-kubernetes-validations"} & set(node)
                ), where
            if node.get("type") == "array":
                assert "maxItems" in node, where
            if "additionalProperties" in node:
                assert "maxProperties" in node, where
            if node.get("type") == "integer":
                assert {"minimum", "maximum"} <= set(node), where
            assert "x-kubernetes-preserve-unknown-fields" not in node, where


def test_what_a_schema_is_called_follows_from_what_it_says() -> None:
    (crd,) = (crd for crd in crds() if crd["spec"]["names"]["kind"] == "Fabric")
    made = api_resource_schema(crd)
    name = made["metadata"]["name"]
    assert re.fullmatch(r"v[0-9a-f]{8}\.fabrics\.networking\.edge-portal\.eu", name)
    assert api_resource_schema(copy.deepcopy(crd))["metadata"]["name"] == name
    other = copy.deepcopy(crd)
    other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "other"
    assert api_resource_schema(other)["metadata"]["name"] != name
    relabelled = {**crd, "metadata": {**crd["metadata"], "labels": {"a": "b"}}}
    assert api_resource_schema(relabelled)["metadata"]["name"] == name


def test_an_api_resource_schema_is_the_crd_in_the_shape_of_kcp() -> None:
    for crd in crds():
        made = api_resource_schema(crd)
        assert (made["apiVersion"], made["kind"]) == ("apis.kcp.io/v1alpha1", "APIResourceSchema")
        assert set(made["spec"]) == {"group", "names", "scope", "versions"}
        assert made["spec"]["names"] == crd["spec"]["names"]
        (version,), (given,) = made["spec"]["versions"], crd["spec"]["versions"]
        assert version["schema"] == given["schema"]["openAPIV3Schema"]
        assert {key: version[key] for key in given if key != "schema"} == {key: given[key] for key in given if key != "schema"}

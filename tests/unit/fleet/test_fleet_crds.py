# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The schemas of the kinds of fleets, and their structure as the engine reads it. What a real API server makes of them:
tests/integration/test_fleet_crds.py."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.input_problems import Problems
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.structure import SchemaReader
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.parse import parse_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.schemas import SPECS
from mesh_operator.base.kinds import FLEET_GROUP, VERSION
from mesh_operator.crds import FLEET, crds
from tests.testing.crd_schema import misfits, nodes, paths_of, schemas
from tests.testing.fleet_examples import FleetExample, empty_pairs, fleet_examples
from tests.testing.rows import in_one_test, one_test

KINDS = {
    "KubernetesCluster": ("kubernetesclusters", "kcl"),
    "Fleet": ("fleets", "flt"),
    "PlacementPolicy": ("placementpolicies", "plp"),
    "FleetWorkload": ("fleetworkloads", "fw"),
    "FleetWorkloadRevision": ("fleetworkloadrevisions", "fwr"),
    "ClusterMetrics": ("clustermetrics", "clm"),
}
SCHEMAS = schemas("fleet")
CRD_SPECS = {kind: schema["properties"]["spec"] for kind, schema in SCHEMAS.items() if "spec" in schema["properties"]}
POD = ("properties", "template", "properties", "spec", "properties")


def read(kind: str, spec: Any) -> tuple[Any, list[str]]:
    problems = Problems()
    return SchemaReader(problems).read(SPECS[kind], spec), problems.found


def pod_fields(kind: str = "FleetWorkload") -> dict[str, Any]:
    found: Any = CRD_SPECS[kind]
    for key in POD:
        found = found[key]
    return dict(found)


def test_every_kind_has_a_crd_by_its_names() -> None:
    found = {crd["spec"]["names"]["kind"]: crd["spec"] for crd in crds(FLEET)}
    assert {kind: (spec["names"]["plural"], *spec["names"]["shortNames"]) for kind, spec in found.items()} == KINDS
    for kind, spec in found.items():
        (version,) = spec["versions"]
        assert (spec["group"], spec["scope"], version["name"]) == (FLEET_GROUP, "Namespaced", VERSION)
        assert version.get("subresources") == (None if kind == "FleetWorkloadRevision" else {"status": {}})
        assert "Age" in {column["name"] for column in version["additionalPrinterColumns"]}
    others = {name for crd in crds() for name in (crd["spec"]["names"]["plural"], *crd["spec"]["names"]["shortNames"])}
    assert not others & {name for names in KINDS.values() for name in names}


def test_every_value_of_a_spec_is_bounded() -> None:
    for kind, spec in CRD_SPECS.items():
        for path, node in nodes(spec):
            where = f"{kind} {path}"
            if node.get("type") == "string":
                assert {"enum", "maxLength"} & set(node), where
            if node.get("type") == "array":
                assert "maxItems" in node, where
            if "additionalProperties" in node:
                assert "maxProperties" in node, where
            if node.get("type") == "integer" or "x-kubernetes-int-or-string" in node:
                assert {"minimum", "maximum"} <= set(node), where


def test_fields_that_no_schema_tells_are_those_of_the_contract() -> None:
    open_ended = {f"{kind} {path}" for kind, spec in CRD_SPECS.items() for path, node in nodes(spec) if _open(node)}
    assert open_ended == {
        "FleetWorkload template.spec.affinity",
        "FleetWorkload resources[].spec",
        "FleetWorkloadRevision snapshot",
    }


def _open(node: dict[str, Any] | Any) -> bool:
    return "x-kubernetes-preserve-unknown-fields" in node


@one_test(
    "field",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "hostUsers",
    "nodeName",
    "schedulerName",
    "runtimeClassName",
    "ephemeralContainers",
    "overhead",
)
def test_what_would_reach_the_node_is_no_field_of_a_pod(field: str) -> None:
    assert field not in pod_fields()


def test_what_would_reach_the_node_is_no_field_of_a_container_or_a_volume() -> None:
    fields = pod_fields()
    volumes = set(fields["volumes"]["items"]["properties"])
    assert volumes == {"name", "configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected", "downwardAPI", "ephemeral"}
    ordinary, init = (fields[name]["items"]["properties"] for name in ("containers", "initContainers"))
    assert set(init) - set(ordinary) == {"restartPolicy"} and set(ordinary) <= set(init)
    assert {name: init[name] for name in ordinary} == ordinary
    names = {path.rpartition(".")[2].removesuffix("[]") for path, _node in nodes(CRD_SPECS["FleetWorkload"])}
    assert not names & {
        "privileged",
        "hostPort",
        "hostIP",
        "host",
        "hostPath",
        "procMount",
        "seLinuxOptions",
        "serviceAccountToken",
        "sysctls",
    }


@in_one_test
@pytest.mark.parametrize("example", list(fleet_examples()), ids=lambda e: f"{e.kind} {e.about}")
def test_the_structure_takes_and_refuses_what_the_examples_say(example: FleetExample) -> None:
    if example.kind in SPECS:
        _found, problems = read(example.kind, example.spec)
        assert bool(problems) is example.structure, problems


LISTS = {"Fleet": "fleets", "PlacementPolicy": "placementPolicies", "FleetWorkload": "workloads"}
LEFT_TO_KUBERNETES = {
    "has either a value or valueFrom",
    "needs one of fieldRef",
    "needs one of configMapRef and secretRef",
    "needs one of configMap, secret and downwardAPI",
    "needs one of fieldRef and resourceFieldRef",
}
"""Rules within a container or volume whose breach the CRD refuses so that nothing is left where a field was dropped. A file drops no field
without a word, and the API server of Karmada refuses the rest."""


@in_one_test
@pytest.mark.parametrize("example", list(fleet_examples()), ids=lambda e: f"{e.kind} {e.about}")
def test_the_parser_takes_and_refuses_what_the_examples_say(example: FleetExample) -> None:
    """CEL rules stand in the CRD, and once more in the parser."""
    if example.kind in LISTS and example.says not in LEFT_TO_KUBERNETES:
        given = {"workspace": "w", "karmada": "k", LISTS[example.kind]: [{"name": "x", **example.spec}]}
        refused = parse_fleet(given, ["k"]).request.refused
        assert bool(refused) is bool(example.says), refused


def test_a_right_example_has_no_field_that_the_schema_would_drop() -> None:
    for example in fleet_examples():
        if not example.says:
            assert misfits(example.spec, CRD_SPECS[example.kind]) == [], example.about


@pytest.mark.parametrize("kind", sorted(CRD_SPECS))
def test_every_field_is_in_an_example_that_is_taken(kind: str) -> None:
    taken = [example.spec for example in fleet_examples() if example.kind == kind and not example.says]
    known = dict(nodes(CRD_SPECS[kind]))
    covered = {_what(path, known) for spec in taken for path in paths_of(spec, CRD_SPECS[kind]) if path in known}
    assert {path for path in known if _what(path, known) not in covered} == set()


def _what(path: str, known: dict[str, Any]) -> tuple[str, str]:
    """A field of equal objects is one: those of probes, of references to keys, and of containers of both lists."""
    return path.rpartition(".")[2], repr(known[path])


@pytest.mark.parametrize("kind", sorted(CRD_SPECS))
def test_every_rule_has_a_message_and_an_example_that_it_refuses(kind: str) -> None:
    wanted = {rule["message"] for _path, node in nodes(SCHEMAS[kind]) for rule in node.get("x-kubernetes-validations", ())}
    said = {example.says for example in fleet_examples() if example.kind == kind and example.says and not example.structure}
    # Those of changes and names of objects have tests of their own, with a real server.
    others = {"cannot be changed", "cannot be removed", "never changes"}
    untold = {text for text in wanted if not any(part in text for part in (*said, *others))}
    assert untold == set()


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_an_empty_value_is_read_as_none_unless_it_says_something(kind: str) -> None:
    for pair, says in empty_pairs(kind):
        absent, empty = read(kind, pair.absent), read(kind, pair.empty)
        if says:
            assert absent != empty, pair
        elif not absent[1]:
            defaults = {name for name, inner in _at(kind, pair.path).get("properties", {}).items() if "default" in inner}
            assert (absent == empty) is not bool(defaults) and not empty[1], pair


def _at(kind: str, path: str) -> dict[str, Any]:
    return dict(dict(nodes(CRD_SPECS[kind]))[path])


def test_a_default_is_filled_in() -> None:
    least = {
        "fleetRef": {"name": "a"},
        "template": {"spec": {"containers": [{"name": "a", "image": "b", "ports": [{"containerPort": 1}]}]}},
    }
    found, problems = read("FleetWorkload", {**least, "service": {"ports": [{"port": 80}]}, "rollout": {"paused": True}})
    assert not problems and (found["kind"], found["revisionHistoryLimit"], found["service"]["type"]) == ("Deployment", 10, "ClusterIP")
    assert "replicas" not in found and found["rollout"] == {"pauseSeconds": 0, "progressDeadlineSeconds": 600, "paused": True}
    assert found["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": 1, "protocol": "TCP"}]
    found, problems = read("PlacementPolicy", {"strategy": "Spread", "spread": {"by": "zone"}, "migration": {}})
    assert not problems and found["spread"] == {"by": "zone", "min": 1}
    assert found["migration"] == {"auto": False, "dwellSeconds": 300, "unhealthySeconds": 300, "minAvailablePercent": 50, "maxEvictions": 1}

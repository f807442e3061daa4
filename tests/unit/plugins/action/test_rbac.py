# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The action mesh_rbac: wrong options are refused by name, a silent cluster gets a whole manifest, and files are written whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure

BOTH = {"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": "c1"}, {"name": "c2"}]}}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"functions": []}, "functions: is empty"),
        ({"functions": ["look"]}, "value of functions must be one or more of: verify"),
        ({"state": "written"}, "value of state must be one of: printed"),
        ({"account": {"kind": "Robot"}}, 'account.kind: must be one of ServiceAccount, User, Group, not "Robot"'),
        ({"account": {"kind": "User", "namespace": "x"}}, "account.namespace: a User has none"),
        ({"account": {"names": "x"}}, "did you mean name?"),
        ({"account": {"name": "Not A Name"}}, 'account.name: "Not A Name" is no name of a ServiceAccount'),
        ({"account": {"kind": "Group", "name": "two\nlines"}}, "account.name: must be one line"),
        ({"account": {"namespace": "a/b"}}, 'account.namespace: "a/b" is no name of a namespace'),
        ({"name": "../x"}, 'name: "../x" is no name of an object'),
        ({"item_namespaces": ["production", ""]}, 'item_namespaces: "" is no name of a namespace'),
        ({"folder": "/", "state": "present"}, "folder is for the state printed"),
        ({"folder": "/no/such/folder"}, "there is no folder /no/such/folder"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value,
)
def test_wrong_options_are_refused_before_a_cluster_is_contacted(make_world: Any, options: dict[str, Any], said: str) -> None:
    world = make_world()
    result = world.run("mesh_rbac", mesh=BOTH, **options)
    assert result["failed"] is True and said in result["msg"], result["msg"]
    assert world.contacted == set()


def silent(world: Any) -> None:
    for host in ("c1", "c2"):
        world.failures[host] = ObserveFailure(host=host, code="CM-API-01", message="The API server does not answer.", remedy="Start it.")


def test_of_clusters_that_do_not_answer_every_rule_that_may_be_needed_is_printed_with_its_circumstance(
    make_world: Any, tmp_path: Path
) -> None:
    world = make_world()
    silent(world)
    result = world.run("mesh_rbac", mesh=BOTH, functions=["connect"], folder=str(tmp_path))
    assert not result.get("failed") and not result["changed"], result
    assert {finding["severity"] for finding in result["findings"]} == {"advisory"}
    (row,) = result["rbac"]["manifests"]
    manifest = row["manifest"]
    assert row["clusters"] == ["c1", "c2"]
    assert "# Only where Cilium is older than 1.20 and kvstoremesh is on, which is not known here.\n" in manifest
    assert "elb" not in manifest, "the inventory says that no load balancer is reserved"
    assert {path.name for path in tmp_path.iterdir()} == {"c1.yaml", "c2.yaml"}
    assert (tmp_path / "c1.yaml").read_text(encoding="utf-8") == manifest
    assert len([body for body in yaml.safe_load_all(manifest) if body]) == 5


def test_nothing_is_written_for_clusters_that_do_not_answer_and_the_run_fails(make_world: Any) -> None:
    world = make_world()
    silent(world)
    result = world.run("mesh_rbac", mesh=BOTH, state="present")
    assert result["failed"] is True and "Not reached: c1, c2." in result["msg"] and not result["changed"]

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Custom resources of the Go provider, as its documentation prints them, are accepted as they are; exceptions are listed with their reason.

What an API server makes of them: tests/integration/test_crds.py.
"""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from tests.collection_path import CHECKOUT
from tests.testing.crd_schema import misfits, schemas
from tests.testing.provider_examples import (
    BINDING,
    CASES,
    RECORDED,
    REFUSED,
    Refusal,
    changed,
    documents,
    objects,
    outcome,
    outcome_of,
    recorded,
    request,
)
from tests.testing.rows import in_one_test, one_test

SCHEMAS = schemas()


@one_test("name", *CASES)
def test_an_example_of_the_provider_is_accepted_and_compiles_to_what_is_recorded(name: str) -> None:
    for obj in objects(CASES[name]):
        assert misfits(obj["spec"], SCHEMAS[obj["kind"]]["properties"]["spec"]) == []
    assert outcome(CASES[name]).refused == []
    assert (RECORDED / f"{name}.yaml").read_text(encoding="utf-8") == recorded(name), "python -m tests.testing.provider_examples"


def test_every_recording_is_of_a_case_and_every_item_writes_something() -> None:
    assert {path.stem for path in RECORDED.iterdir()} == set(CASES)
    for case in CASES.values():
        found = outcome(case)
        of_services = [write for write in found.writes if "/services/" in write["path"]]
        of_intents = [write for write in found.writes if "policies/" in write["path"]]
        kinds = {obj["kind"] for obj in objects(case)}
        assert (bool(of_services), bool(of_intents)) == ("GlobalService" in kinds, "ConnectivityIntent" in kinds), case.about


# A binding is refused by the server alone, and reaches no play: tests/integration/test_crds.py.
REFUSED_ITEMS = [refusal for refusal in REFUSED if refusal.file != BINDING]


@in_one_test
@pytest.mark.parametrize("refusal", REFUSED_ITEMS, ids=lambda refusal: refusal.about)
def test_an_exception_is_refused_and_writes_nothing(refusal: Refusal) -> None:
    found = outcome_of([changed(BINDING, {}), changed(refusal.file, refusal.changes)], [], ())
    assert found.writes == []
    assert found.refused != []
    if refusal.by == "engine":
        assert any(refusal.words in text for text in found.refused), found.refused


def test_what_a_stored_status_of_the_provider_says_fits_the_schema() -> None:
    for name, kind in (("binding", "ClusterMeshBinding"), ("global-service", "GlobalService"), ("intent", "ConnectivityIntent")):
        (found,) = documents(f"overview-{name}-status")
        status: dict[str, Any] = found["status"]
        wrong = misfits(status, SCHEMAS[kind]["properties"]["status"])
        assert [text for text in wrong if "conditions" not in text] == []
        assert status["phase"] in SCHEMAS[kind]["properties"]["status"]["properties"]["phase"]["enum"]


def test_the_load_balancers_of_the_walk_through_reach_the_hosts() -> None:
    hosts = outcome(CASES["walk-through"]).hosts
    assert {name: host["cilium_mesh_elb_id"] for name, host in hosts.items()} == {
        "cluster-ffm-1": "c582b56c-2b4e-4c83-9d9e-29e12893c6f6",
        "cluster-ber-2": "41fae315-2964-49c4-afde-bc6d358cd031",
    }


def test_the_binding_that_the_page_adopts_with_is_the_one_of_the_custom_resource() -> None:
    """Keys that a playbook adopts belong to the operator only if both have the same owner hash."""
    page = (CHECKOUT / "docs" / "migrate-from-provider.md").read_text(encoding="utf-8")
    block = textwrap.dedent(page.partition("```yaml\n")[2].partition("```")[0])
    variable = load_yaml(block)["cilium_mesh"]
    found = parse(variable, ("cluster-ffm-1", "cluster-ber-2")).binding
    assert found.owner == request([documents(BINDING)[0]], [], ()).owner

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which requests mesh_ca accepts, and which it refuses as not valid."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.action import mesh_ca
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.ca_roll import RollStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import ConnectOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.trust import without_own_codes
from tests.testing.facts_builders import cluster_facts, mesh_of
from tests.testing.rows import one_test

MESH = mesh_of("c1", "c2", "c3")
DEFAULTS = {name: option.get("default") for name, option in mesh_ca.ActionModule.SPEC.items()}


def request(**params: Any) -> Any:
    return mesh_ca._request_of(MESH, {**DEFAULTS, **params})


@one_test(
    "params named",
    ({"state": "shared"}, "source"),
    ({"state": "shared", "source": "c1"}, "private key"),
    ({"state": "shared", "source": "c1", "confirm": "yes"}, "edge-mesh-eu"),
    ({"state": "shared", "source": "c9", "confirm": "edge-mesh-eu"}, "c9"),
    ({"state": "rolled", "clusters": ["c9"]}, "c9"),
    ({"state": "renewed", "clusters": ["c1"]}, "state=rolled"),
    ({"state": "rolled", "source": "c1"}, "state=shared"),
)
def test_a_request_that_is_not_valid_is_refused(params: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        request(**params)
    assert named in str(refused.value)


def test_those_roll_whose_ca_is_another_one() -> None:
    facts = {host: cluster_facts(host, ca="one" if host != "c2" else "two") for host in MESH.clusters}
    shared = request(state="shared", source="c1", confirm="edge-mesh-eu")(facts)
    assert shared.clusters == ("c2",) and shared.source == "c1"
    assert request(state="rolled")(facts).clusters == MESH.clusters
    some = request(state="rolled", clusters=["c3", "c1"], stage="trust")(facts)
    assert some.clusters == ("c1", "c3") and some.until is RollStage.TRUST


def test_its_own_code_is_accepted_without_the_checks_of_connect() -> None:
    assert without_own_codes(ConnectOptions(accept=("CM-CA-04", "CM-CIDR-01"))).accept == ("CM-CIDR-01",)

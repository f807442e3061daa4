# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is said of a cluster whose peers read another id in its etcd than it has on record."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from tests.unit.checks.catalogue_dead_peers import claimed


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"id": 3}, 'its id there is "3", and 2 in cilium-config'),
        ({}, "it has no id there, and 2 in cilium-config"),
        ({"id": None}, "it has no id there, and 2 in cilium-config"),
        (None, "there is no cluster-config of that name, so that its peers wait for one"),
    ],
)
def test_an_id_that_is_not_there_is_not_quoted(config: dict[str, Any] | None, told: str) -> None:
    (found,) = [finding for finding in run_checks(claimed(config=config)) if finding.code == "CM-CLAIM-01"]
    assert told in found.evidence

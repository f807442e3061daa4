# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter in a template gives what the engine writes, and says what is wrong with its input."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.edge_portal.cilium_mesh.plugins.filter.service_annotations import DOCUMENTATION, EXAMPLES, RETURN, FilterModule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.record import RECORD_PREFIX
from tests.testing.rows import one_test
from tests.testing.service_goldens import goldens
from tests.testing.simulated_items import merge_patch

service_annotations = FilterModule().filters()["service_annotations"]
SPEC = yaml.safe_load(EXAMPLES)[0]["loop"][0]
PLAIN = {name: golden for name, golden in goldens().items() if golden["item"].get("backend") != "MCS" and "failover" not in golden["item"]}


def test_the_documented_sample_is_what_the_documented_example_returns() -> None:
    assert service_annotations(SPEC) == yaml.safe_load(RETURN)["_value"]["sample"]
    assert set(yaml.safe_load(DOCUMENTATION)["options"]) == {"_input"}


@pytest.mark.parametrize("golden", PLAIN.values(), ids=list(PLAIN))
def test_as_a_merge_patch_it_ends_where_the_engine_ends(golden: dict[str, Any]) -> None:
    host, written = next(
        (step["cluster"], step["body"]["metadata"]["annotations"]) for step in golden["writes"] if step["method"] == "merge"
    )
    before = golden["clusters"][host]["service"].get("annotations", {})
    engine = {key: value for key, value in merge_patch(before, written).items() if not key.startswith(RECORD_PREFIX)}
    assert merge_patch(before, service_annotations(golden["item"])) == engine


def test_any_cluster_may_be_a_target_here() -> None:
    assert service_annotations({**SPEC, "name": "nginx", "targetClusters": ["cluster-ffm-1"]}) == service_annotations(SPEC)


@one_test(
    "changes message",
    ({"selector": None}, "selector: is missing"),
    ({"selector": {"namespace": "production", "labelSelector": {}}}, "would match every Service"),
    ({"globalAnnotations": {"example.com/x": "y"}}, "a cluster has to permit it"),
    ({"affinity": "Near"}, "use one of Local, Remote, None"),
    ({"backend": "MCS"}, "writes a ServiceExport"),
    ({"targetClusters": "c1"}, "must be a list"),
)
def test_a_wrong_specification_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        service_annotations(SPEC | changes)


def test_an_input_that_is_no_specification() -> None:
    with pytest.raises(AnsibleFilterError, match="the input is not a GlobalService"):
        service_annotations("nginx")

# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter in a template gives what the engine writes to Karmada, and says what is wrong with its arguments."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.edge_portal.cilium_mesh.plugins.filter.propagation_policy import DOCUMENTATION, EXAMPLES, RETURN, FilterModule
from tests.testing.fleet_goldens import goldens
from tests.testing.rows import one_test

propagation_policy = FilterModule().filters()["propagation_policy"]
FLEET: Final = yaml.safe_load(EXAMPLES)[0]["vars"]["fleet"]
FIRST: Final = {name: golden for name, golden in goldens().items() if "earlier" not in golden}
"""Those of a first rollout: the filter knows of no earlier one."""


def test_the_documented_sample_is_what_the_documented_example_returns() -> None:
    assert propagation_policy(FLEET, workload="web") == yaml.safe_load(RETURN)["_value"]["sample"]


@one_test("name", *FIRST)
def test_it_is_what_the_engine_writes_without_the_state_of_the_rollout(name: str) -> None:
    golden = copy.deepcopy(FIRST[name])
    written = [entry["body"] for entry in golden["writes"] if entry["body"]["kind"] == "PropagationPolicy"]
    for body in written:
        del body["metadata"]["annotations"]
    found = propagation_policy(golden["fleet"])
    assert found == written or (not written and found), "a golden file may keep other kinds alone"


def test_most_golden_files_have_a_policy() -> None:
    assert len([golden for golden in FIRST.values() if any(entry["body"]["kind"] == "PropagationPolicy" for entry in golden["writes"])]) > 8


def test_one_workload_alone_and_both_policies_of_a_global_service() -> None:
    web = FLEET["workloads"][0]
    service = {"ports": [{"port": 80}], "global": True, "meshRef": {"name": "edge"}}
    fleet = {**FLEET, "workloads": [{**web, "name": "api"}, {**web, "service": service}]}
    assert [body["metadata"]["name"] for body in propagation_policy(fleet)] == ["api", "web", "web.service"]
    assert [body["metadata"]["name"] for body in propagation_policy(fleet, workload="web")] == ["web", "web.service"]


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"workspace": "?"}, {}, "must be the value of a label"),
        ({"wörkloads": []}, {}, "unknown key"),
        ({}, {"workload": "api"}, "'api' is not one of fleet.workloads"),
        ({"fleets": []}, {}, "FleetWorkload web: Fleet both does not exist"),
        ({"clusters": []}, {}, "FleetWorkload web: Fleet both has no cluster"),
        ({"workloads": [{"name": "web", "fleetRef": {"name": "both"}}]}, {}, "FleetWorkload web: .*template"),
    ],
)
def test_wrong_arguments_are_named(changes: dict[str, Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        propagation_policy({**FLEET, **changes}, **arguments)


def test_an_input_that_is_no_fleet() -> None:
    with pytest.raises(AnsibleFilterError, match="the input is not the variable fleet"):
        propagation_policy("web")


def test_every_argument_is_documented() -> None:
    options = set(yaml.safe_load(DOCUMENTATION)["options"]) - {"_input"}
    code = propagation_policy.__code__
    assert options == set(code.co_varnames[1 : code.co_argcount])

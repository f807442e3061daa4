# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter in a template gives what the engine writes, and says what is wrong with its arguments."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.edge_portal.cilium_mesh.plugins.filter.cilium_policy import DOCUMENTATION, EXAMPLES, RETURN, FilterModule
from tests.testing.policy_goldens import BINDING, NAMES, Golden, goldens
from tests.testing.rows import in_one_test, one_test

cilium_policy = FilterModule().filters()["cilium_policy"]
VARIABLES = yaml.safe_load(EXAMPLES)[0]["vars"]


def test_the_documented_sample_is_what_the_documented_example_returns() -> None:
    assert cilium_policy(VARIABLES["intent"], VARIABLES["names"], "1.20.1", "cluster-ber-2") == yaml.safe_load(RETURN)["_value"]["sample"]


@in_one_test
@pytest.mark.parametrize("golden", goldens(), ids=lambda golden: golden.name)
def test_it_is_what_the_engine_writes(golden: Golden) -> None:
    assert cilium_policy(golden.intent, clusters=NAMES, version="v1.18.11", binding=BINDING) == golden.policies("1.18")


def test_one_cluster_alone() -> None:
    intent = {key: value for key, value in VARIABLES["intent"].items() if key != "destination"}
    intent["destination"] = {"namespace": "production", "allPods": True}
    every = cilium_policy(intent, VARIABLES["names"], "1.20.1")
    assert len(every) == 2
    assert cilium_policy(intent, VARIABLES["names"], "1.20.1", cluster="cluster-ffm-1") == every[:1]


@one_test(
    "changes arguments message",
    ({"action": "Permit"}, {}, "is not known"),
    ({"name": "A b"}, {}, "is not a DNS-1123 name"),
    ({"ports": [{"port": 0}]}, {}, "must be 1 to 65535"),
    ({"source": {"namespace": "a", "selector": {"reserved:host": ""}}}, {}, "names a source"),
    ({"action": "Deny"}, {"version": "1.15.19"}, "Cilium 1.16 is needed"),
    ({}, {"version": 1.20}, "Write it as a string"),
    ({}, {"version": "latest"}, "Write it as a string"),
    ({}, {"clusters": ["cluster-ffm-1"]}, "not a mapping of inventory names"),
    ({}, {"clusters": {"cluster-ffm-1": "a b", "cluster-ber-2": "ber-2"}}, "is not a cluster name"),
    ({}, {"cluster": "cluster-muc-3"}, "is not one of clusters"),
)
def test_wrong_arguments_are_named(changes: dict[str, Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        cilium_policy(VARIABLES["intent"] | changes, **{"clusters": VARIABLES["names"], "version": "1.20.1", **arguments})


def test_an_input_that_is_no_intent() -> None:
    with pytest.raises(AnsibleFilterError, match="the input is not an intent"):
        cilium_policy("frontend-to-backend", VARIABLES["names"], "1.20.1")


def test_every_argument_is_documented() -> None:
    options = set(yaml.safe_load(DOCUMENTATION)["options"]) - {"_input"}
    code = cilium_policy.__code__
    assert options == set(code.co_varnames[1 : code.co_argcount])

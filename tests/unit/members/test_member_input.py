# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The variable ``fleet`` as users write it: every problem is named, and no cluster is contacted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.parse import RESERVED, parse_members
from tests.testing.rows import one_test

HOSTS = ("karmada", "plane", "c1", "c2")
GOOD: dict[str, Any] = {"workspace": "shop", "karmada": "karmada", "clusters": [{"name": "c1"}, {"name": "second", "host": "c2"}]}


def refused(fleet: Any, only: tuple[str, ...] = ()) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse_members(fleet, HOSTS, only)
    return str(caught.value)


def test_what_is_not_said_has_its_default() -> None:
    request = parse_members(GOOD, HOSTS)
    assert (request.tenant.namespace, request.management, request.management_namespace) == ("default", "", "default")
    assert [(member.name, member.host) for member in request.members] == [("c1", "c1"), ("second", "c2")]


def test_a_run_can_be_limited_to_some_clusters() -> None:
    assert [member.name for member in parse_members(GOOD, HOSTS, ["second"]).members] == ["second"]
    assert '"third" is no cluster' in refused(GOOD, ("third",))


def test_keys_of_workloads_are_left_to_their_own_parser() -> None:
    assert parse_members({**GOOD, "fleets": 3, "workloads": []}, HOSTS) == parse_members(GOOD, HOSTS)


@one_test(
    "change said",
    ({"workspace": None}, "fleet.workspace: is missing"),
    ({"workspace": "a b"}, "no value of a label"),
    ({"karmada": "nowhere"}, "no host of the inventory"),
    ({"managementPlan": "plane"}, "did you mean managementPlane"),
    ({"namespace": "A"}, "no name of a namespace"),
    ({"clusters": []}, "names no cluster"),
    ({"clusters": "c1"}, "must be a list"),
    ({"clusters": [{"name": "c1"}, {"name": "c1"}]}, 'the name "c1" is there 2 times'),
    ({"clusters": [{"name": "a", "host": "c1"}, {"name": "b", "host": "c1"}]}, 'the host "c1" is there 2 times'),
    ({"clusters": [{"name": "karmada"}]}, "is Karmada or the management plane"),
    ({"clusters": [{"name": "UPPER", "host": "c1"}]}, "no name of an object"),
    ({"clusters": [{"name": "c1", "region": "a b"}]}, "no value of a label"),
    ({"clusters": [{"name": "c1", "zones": ["a"]}]}, "unknown key"),
    ({"clusters": [{"name": "c1", "labels": {"a b": "c"}}]}, "no key of a label"),
    ({"clusters": [{"name": "c1", "labels": {"a": 1}}]}, "must be a text"),
    ({"clusters": [{"name": "c1", "labels": {f"key{number}": "" for number in range(33)}}]}, "at most 32"),
)
def test_a_mistake_is_named(change: dict[str, Any], said: str) -> None:
    assert said in refused({**GOOD, **change})


@one_test("domain", *[domain for own in RESERVED for domain in (own, f"policy.{own}")])
def test_labels_of_domains_that_others_act_on_are_refused(domain: str) -> None:
    assert "are not a tenant's" in refused({**GOOD, "clusters": [{"name": "c1", "labels": {f"{domain}/key": "x"}}]})


def test_a_domain_that_only_ends_alike_is_a_tenants() -> None:
    assert parse_members({**GOOD, "clusters": [{"name": "c1", "labels": {"notkarmada.io/key": "x"}}]}, HOSTS).members[0].labels


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.sampled_from(["name", "labels", "host"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(fleet=st.dictionaries(st.sampled_from(["workspace", "namespace", "karmada", "managementPlane", "clusters"]), JSON) | JSON)
def test_whatever_is_written_is_parsed_or_refused_with_one_printable_error(fleet: Any) -> None:
    try:
        parse_members(fleet, HOSTS)
    except InvalidInput as error:
        assert str(error).isprintable()

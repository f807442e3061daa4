# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The spec of a GlobalService: what it means, and that what is not valid is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.input_problems import Problems
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.labels import valid_key, valid_value
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import Failover, GlobalService, ServiceSelector
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import MANAGER_DOMAIN
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.parse import parse_global_service
from tests.testing.rows import in_one_test, one_test
from tests.unit.services.service_worlds import AFFINITY, GLOBAL, OLD_AFFINITY, OLD_GLOBAL, SHARED, SYNC

MEMBERS = ("c1", "c2", "c3")
SELECTOR = {"namespace": "production", "name": "nginx"}


def parsed(**fields: Any) -> tuple[GlobalService | None, list[str]]:
    problems = Problems()
    found = parse_global_service(problems, "nginx", {"selector": SELECTOR, **fields}, MEMBERS)
    return found, problems.found


def meant(**fields: Any) -> GlobalService:
    found, problems = parsed(**fields)
    assert found is not None, problems
    assert problems == []
    return found


def test_a_name_with_a_label_selector_selects_that_service_by_both() -> None:
    found = meant(selector={**SELECTOR, "labelSelector": {"app": "nginx"}})
    assert found.selector == ServiceSelector(namespace="production", name="nginx", labels={"app": "nginx"})
    assert meant(selector={**SELECTOR, "labelSelector": {}}) == meant()


@pytest.mark.parametrize("key", [GLOBAL, OLD_GLOBAL])
def test_the_annotation_that_every_global_service_gets_can_be_said(key: str) -> None:
    assert meant(globalAnnotations={key: "True"}) == meant()


def test_other_annotations_are_kept_apart_as_they_are_written() -> None:
    found = meant(globalAnnotations={"example.com/Team": "Shop", SYNC: "True"})
    assert (found.annotations, found.further) == ({SYNC: "true"}, {"example.com/Team": "Shop"})


def test_the_least_that_can_be_said() -> None:
    assert meant() == GlobalService(name="nginx", selector=ServiceSelector(namespace="production", name="nginx"), targets=MEMBERS)


def test_everything_that_can_be_said() -> None:
    assert meant(
        selector={"namespace": "production", "labelSelector": {"matchLabels": {"app": "nginx"}}},
        targetClusters=["c3", "c1"],
        globalAnnotations={SYNC: "True"},
        shared=True,
        affinity="Local",
        backend="Annotations",
        createMissingServices=True,
        failover={"detectWithin": "1m30s", "minLocalReady": 2, "hysteresis": 1},
    ) == GlobalService(
        name="nginx",
        selector=ServiceSelector(namespace="production", labels={"app": "nginx"}),
        targets=("c1", "c3"),
        annotations={SYNC: "true"},
        shared=True,
        affinity="Local",
        create_missing=True,
        failover=Failover(detect_within=90, min_local_ready=2, hysteresis=1),
    )


def test_no_targets_are_all_members() -> None:
    assert meant(targetClusters=[]).targets == MEMBERS


def test_annotations_mean_what_the_fields_mean_also_by_their_older_keys() -> None:
    found = meant(globalAnnotations={OLD_AFFINITY: "Local", SHARED: "false"})
    assert (found.affinity, found.shared, found.annotations) == ("Local", False, {})
    assert meant(globalAnnotations={SHARED: "true"}, shared=True).shared is True


@pytest.mark.parametrize(("given", "seconds"), [(5, 5), ("5s", 5), ("2m", 120), ("1h", 3600), ("1h1m1s", 3661)])
def test_durations(given: Any, seconds: int) -> None:
    contract = meant(failover={"detectWithin": given}).failover
    assert contract is not None
    assert contract.detect_within == seconds


BAD = [
    ({"selector": None}, "selector: is missing"),
    ({"selector": "nginx"}, "selector: must be a mapping"),
    ({"selector": {"namespace": "production"}}, "would match every Service"),
    ({"selector": {"name": "nginx"}}, "selector.namespace: is missing"),
    ({"selector": {"namespace": "production", "labelSelector": {}}}, "would match every Service"),
    ({"selector": {"namespace": "production", "labelSelector": {"matchLabels": {}}}}, "would match every Service"),
    ({"selector": {"namespace": "production", "labelSelector": {"matchExpressions": []}}}, "unknown key"),
    ({"selector": {"namespace": "production", "labelSelector": "app=nginx"}}, "must be a mapping, not a text"),
    ({"selector": {"namespace": "production", "labelSelector": {"app": "a,b in (c)"}}}, "is not the value of a label"),
    ({"selector": {"namespace": "production", "labelSelector": {"app in (a)": "b"}}}, "is not the key of a label"),
    ({"selector": {"namespace": "production", "labelSelector": {"app": 7}}}, "put it in quotes"),
    ({"selector": {"namespace": "Production", "name": "nginx"}}, 'selector.namespace: "Production" is not a DNS-1123 label'),
    ({"selector": {"namespace": "production", "name": "../../secrets/x"}}, 'selector.name: "../../secrets/x" is not a DNS-1123 label'),
    ({"selector": {"namespace": "production", "name": "nginx\n"}}, 'selector.name: "nginx?" is not a DNS-1123 label'),
    ({"selector": {"namespace": "production", "name": "a" * 64}}, "is not a DNS-1123 label"),
    ({"targetClusters": ["c9"]}, '"c9" is not a member'),
    ({"targetClusters": ["c1", "c1"]}, "named twice"),
    ({"targetClusters": "c1"}, "must be a list"),
    ({"targetClusters": [{"name": "c1"}]}, "targetClusters[0]: must be a text, not a mapping"),
    ({"globalAnnotations": {"team": "y"}}, "globalAnnotations.team: is not the key of an annotation that an item may set"),
    ({"globalAnnotations": {"example.com/x": "{{ y }}"}}, "is not a text of letters, digits"),
    ({"globalAnnotations": {"cilium-mesh.edge-portal.eu/failed-over": "true"}}, "is not the key of an annotation that an item may set"),
    ({"globalAnnotations": {f"global-service.{MANAGER_DOMAIN}/{'a' * 12}": "x"}}, "is not the key of an annotation that an item may set"),
    ({"globalAnnotations": {GLOBAL: "false"}}, "can be true alone"),
    ({"globalAnnotations": {OLD_GLOBAL: "false"}}, "can be true alone"),
    ({"backend": "MCS", "globalAnnotations": {"example.com/x": "y"}}, "globalAnnotations: example.com/x: not for backend MCS"),
    ({"globalAnnotations": {SHARED: True}}, "put it in quotes"),
    ({"globalAnnotations": {SHARED: "yes"}}, "must be one of true, false"),
    ({"globalAnnotations": {AFFINITY: "near"}}, "must be one of none, local, remote"),
    ({"globalAnnotations": {AFFINITY: "local", OLD_AFFINITY: "remote"}}, "contradicts its other key"),
    ({"globalAnnotations": [SHARED]}, "globalAnnotations: must be a mapping, not a list"),
    ({"shared": False, "globalAnnotations": {SHARED: "true"}}, "shared: is false, and globalAnnotations says true"),
    ({"affinity": "Local", "globalAnnotations": {AFFINITY: "remote"}}, "affinity: is local, and globalAnnotations says remote"),
    ({"shared": "false"}, "shared: must be true or false"),
    ({"affinity": "local"}, 'affinity: "local" is not known; did you mean Local?'),
    ({"affinity": None, "backend": "DNS"}, 'backend: "DNS" is not known; use one of Annotations, MCS'),
    ({"createMissingServices": "yes"}, "createMissingServices: must be true or false"),
    ({"backend": "MCS", "shared": False}, "backend MCS exports the Service"),
    ({"backend": "MCS", "createMissingServices": True}, "is not for backend MCS"),
    ({"backend": "MCS", "failover": {}}, "is not for backend MCS"),
    ({"failover": {}, "shared": False}, "needs backends that are exported"),
    ({"failover": {"detectWithin": "soon"}}, 'failover.detectWithin: "soon" is not a time like'),
    ({"failover": {"detectWithin": 0}}, "failover.detectWithin: must be 1 to 86400, not 0"),
    ({"failover": {"detectWithin": True}}, "failover.detectWithin: must be a number from 1 to 86400, not true or false"),
    ({"failover": {"detectWithin": ""}}, "failover.detectWithin: must be seconds"),
    ({"failover": {"minLocalReady": 0}}, "failover.minLocalReady: must be 1 to 1000000, not 0"),
    ({"failover": {"hysteresis": -1}}, "failover.hysteresis: must be 0 to 1000000, not -1"),
    ({"failover": {"speed": 1}}, "failover.speed: unknown key"),
    ({"failover": "yes"}, "failover: must be a mapping"),
    ({"target": []}, "target: unknown key"),
]


@in_one_test
@pytest.mark.parametrize(("fields", "words"), BAD, ids=[words for _fields, words in BAD])
def test_what_cannot_be_meant_is_refused_by_name(fields: dict[str, Any], words: str) -> None:
    found, problems = parsed(**fields)
    assert found is None
    assert any(words in problem for problem in problems), problems


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("selector", "targetClusters", "globalAnnotations", "shared", "affinity", "backend", "createMissingServices", "failover")


@given(fields=st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=4))
def test_whatever_is_written_it_is_meant_or_refused_in_printable_words(fields: dict[str, Any]) -> None:
    found, problems = parsed(**fields)
    assert (found is None) == bool(problems)
    assert all(problem.isprintable() for problem in problems)


LETTERS = st.text(alphabet="aZ9", max_size=8)


@given(before=LETTERS, after=LETTERS)
def test_no_label_that_is_accepted_can_mean_more_than_itself(before: str, after: str) -> None:
    """A selector as text has ``,``, ``=``, ``!``, brackets and blanks as its grammar."""
    for sign in ",=!() \n\t'\"{}":
        text = f"{before}{sign}{after}"
        assert not valid_value(text)
        assert not valid_key(text) and not valid_key(f"example.com/{text}") and not valid_key(f"{text.lower()}/app")


@one_test("key", "app", "app.kubernetes.io/name", "a/b", "A_b.c-D", "x" * 63, "k8s.io/" + "x" * 63)
def test_keys_as_kubernetes_takes_them(key: str) -> None:
    assert valid_key(key)


@one_test("key", "", "/", "a/", "/a", "a/b/c", "-a", "a-", "x" * 64, "A.io/x", "a..b/x", "ü", "a b", "a\n", "x." * 127 + "/a")
def test_keys_as_kubernetes_refuses_them(key: str) -> None:
    assert not valid_key(key)


@one_test("value valid", ("", True), ("a", True), ("A_b.c-9", True), ("-a", False), ("a.", False), ("x" * 64, False), ("a\n", False))
def test_values_as_kubernetes_has_them(value: str, valid: bool) -> None:
    assert valid_value(value) is valid

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which version of Cilium runs, and what that version expects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import (
    DELAYS,
    KNOWN,
    RULES,
    SUPPORTED,
    CiliumVersion,
    Minor,
    agent_file_prefix,
    aliases_in_config,
    aliases_in_template,
    bug_note,
    cilium_version,
    delay,
    first_minor,
    holds,
    is_known_minor,
)
from tests.collection_path import CHECKOUT
from tests.lab.profiles.charts import CHARTS, COMMON_CONFIG, Chart
from tests.testing.facts_builders import agent_workload, apiserver_workload, cluster_facts
from tests.testing.rows import one_test

DIGEST = "@sha256:" + "0" * 64


@one_test(
    "image version",
    ("quay.io/cilium/cilium:v1.16.19", "1.16.19"),
    ("quay.io/cilium/cilium:v1.20.0-pre.3", "1.20.0-pre.3"),
    ("quay.io/cilium/cilium:v1.18.11" + DIGEST, "1.18.11"),
    ("localhost:5000/cilium/cilium:1.17.3", "1.17.3"),
    ("[::1]:5000/cilium/cilium:v1.17.3", "1.17.3"),
    ("cilium:v1.19", "1.19.0"),
    ("registry.example.com/mirror/cilium:v1.15.6-gke.4", "1.15.6-gke.4"),
    ("quay.io/isovalent/cilium:v1.16.5-cee.1" + DIGEST, "1.16.5-cee.1"),
)
def test_the_version_is_read_from_the_image(image: str, version: str) -> None:
    assert str(CiliumVersion.from_image(image)) == version


@one_test(
    "image",
    "",
    "quay.io/cilium/cilium",
    "quay.io/cilium/cilium:latest",
    "quay.io/cilium/cilium" + DIGEST,
    *("localhost:5000/cilium", "localhost:1.17/cilium", "quay.io/cilium/cilium-ci:4f3b2a1c9d", "cilium:v1", "cilium:1.17.3."),
    "cilium:\u0661.\u0661",
)
def test_an_image_without_a_version_in_its_tag_has_none(image: str) -> None:
    assert CiliumVersion.from_image(image) is None


@given(st.text(max_size=60) | st.from_regex(r"[a-z:/@0-9.]{0,40}:v?[0-9]{1,3}\.[0-9]{1,3}[0-9.a-z@:-]{0,20}", fullmatch=True))
def test_a_version_is_never_made_up(image: str) -> None:
    version = CiliumVersion.from_image(image)
    written = {(int(major), int(minor)) for major, minor in re.findall(r"([0-9]+)\.([0-9]+)", image)}
    assert version is None or (version.major, version.minor) in written


def test_the_agents_image_decides_then_the_apiservers_then_the_chart_label() -> None:
    by_digest = {"cilium-agent": "quay.io/cilium/cilium" + DIGEST}
    nameless = {"apiserver": "quay.io/cilium/clustermesh-apiserver" + DIGEST}
    assert str(cilium_version(cluster_facts(agent=agent_workload("1.17.1"), apiserver=apiserver_workload("1.18.2")))) == "1.17.1"
    assert (
        str(cilium_version(cluster_facts(agent=agent_workload("x", containers=by_digest), apiserver=apiserver_workload("1.18.2"))))
        == "1.18.2"
    )
    labelled = apiserver_workload("x", containers=nameless, labels={"helm.sh/chart": "cilium-1.20.0-pre.3"})
    assert str(cilium_version(cluster_facts(agent=None, apiserver=labelled))) == "1.20.0-pre.3"
    assert cilium_version(cluster_facts(agent=None, apiserver=None)) is None
    assert cilium_version(cluster_facts(agent=agent_workload("x", containers={}), apiserver=None)) is None


def v(minor: int) -> CiliumVersion:
    return CiliumVersion(major=1, minor=minor)


SHOWN_BY_CHARTS: Mapping[str, Callable[[Chart], bool]] = {
    "local_certificate_used": lambda chart: chart.agent_files == "local-",
    "aliases_in_config": lambda chart: chart.host_aliases_in_yaml,
    "remote_users_list_self": lambda chart: chart.users_list_self,
    "remote_users_need_config": lambda chart: chart.users_need_config,
    "clusters_as_map": lambda chart: chart.peers_sorted,
    "cache_ttl": lambda chart: chart.cache_ttl,
    "namespace_filter": lambda chart: chart.default_global_namespace,
    "endpoint_sync": lambda chart: "clustermesh-enable-endpoint-sync" in {**COMMON_CONFIG, **chart.config},
    "mcs_api": lambda chart: "clustermesh-enable-mcs-api" in {**COMMON_CONFIG, **chart.config},
    "non_default_deny": lambda chart: "enable-non-default-deny-policies" in chart.config,
    "policy_local_key": lambda chart: "policy-default-local-cluster" in chart.config,
    "policy_local_by_default": lambda chart: chart.config.get("policy-default-local-cluster") == "true",
}
"""Rule -> whether what an install of a chart left on an API server (tests/lab/profiles/charts.py) shows it."""


@one_test("rule", *SHOWN_BY_CHARTS)
def test_a_rule_holds_where_the_chart_that_was_installed_shows_it(rule: str) -> None:
    shown = {minor: SHOWN_BY_CHARTS[rule](chart) for minor, chart in CHARTS.items()}
    assert {str(minor): holds(rule, minor) for minor in SUPPORTED.minors} == shown


def test_a_prerelease_counts_as_its_minor() -> None:
    version = CiliumVersion.from_tag("v1.20.0-pre.3")
    assert (aliases_in_config(version), aliases_in_template(version)) == (True, False)


def test_an_unknown_version_is_given_its_addresses_in_both_ways() -> None:
    assert (aliases_in_config(None), aliases_in_template(None), agent_file_prefix(None)) == (True, True, "local-")
    assert holds("node_port_clash", None)


def test_a_rule_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        holds("no_such_rule", v(18))


def test_every_rule_names_its_source_and_changes_within_the_known_minors() -> None:
    for rule in RULES.values():
        assert rule.source
        assert any(edge in KNOWN and edge != KNOWN.first for edge in (rule.since, rule.before) if edge)


def test_every_rule_is_asked_for() -> None:
    """Also the table itself is read for names: the functions below it ask for some."""
    code = "".join(file.read_text(encoding="utf-8") for file in (CHECKOUT / "plugins").rglob("*.py"))
    assert [name for name in RULES if not re.search(rf'"{name}"(?!: Rule)', code)] == []


def test_gates_by_version_stand_in_the_matrix_alone() -> None:
    """Elsewhere a minor is asked about by the name of a rule."""
    files = [file for file in (CHECKOUT / "plugins").rglob("*.py") if file.parts[-2:] != ("versions", "minors.py")]
    assert [file for file in files if re.search(r"\bMinor\(\d", file.read_text(encoding="utf-8"))] == []


def test_a_rule_holds_for_a_release_as_for_its_minor() -> None:
    assert holds("cache_ttl", Minor(1, 19)) and holds("cache_ttl", v(19))
    assert not holds("cache_ttl", Minor(1, 18)) and not holds("cache_ttl", v(18))
    assert first_minor("cache_ttl") == Minor(1, 19)
    with pytest.raises(KeyError):
        first_minor("node_port_clash")


def test_what_is_supported_is_known() -> None:
    assert SUPPORTED.first in KNOWN and SUPPORTED.last in KNOWN


def test_versions_outside_of_the_matrix_are_not_known() -> None:
    assert not is_known_minor(v(KNOWN.first.minor - 1))
    assert not is_known_minor(v(KNOWN.last.minor + 1))
    assert not is_known_minor(CiliumVersion(major=2, minor=0))


@pytest.mark.parametrize("name", DELAYS)
def test_every_version_has_exactly_one_delay_of_each_kind_and_the_page_states_it(name: str) -> None:
    """Delays that apply to a minor, and none to two; docs/dead-peers.md has each figure, save the one that failover.md and links name."""
    for minor in KNOWN.minors:
        fitting = [row for row in DELAYS[name] if (row.since or minor) <= minor and (row.before is None or minor < row.before)]
        assert fitting == [delay(name, minor)]
        assert 0 <= fitting[0].least <= fitting[0].most and fitting[0].source
    assert delay(name, None).most == max(row.most for row in DELAYS[name])
    page = (CHECKOUT / "docs" / "dead-peers.md").read_text(encoding="utf-8")
    for row in DELAYS[name]:
        assert row.shown in page.replace("three minutes", "180 s"), row


def test_each_bug_of_cilium_is_named_by_its_issue() -> None:
    bugs = {name: rule for name, rule in RULES.items() if rule.bug}
    page = (CHECKOUT / "docs" / "policy-evaluation.md").read_text(encoding="utf-8")

    assert bugs.keys() == {"own_node_needs_ingress_rule", "negative_selectors_match_pods"}
    for name, rule in bugs.items():
        assert bug_note(name) == f"a bug of Cilium, issue {rule.bug}" and f"issues/{rule.bug}" in page

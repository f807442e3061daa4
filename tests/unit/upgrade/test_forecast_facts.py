# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a hop is predicted to leave in a cluster is what the chart of the next minor leaves there, for every combination of its values."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import (
    RULES,
    SUPPORTED,
    Minor,
    agent_version,
    apiserver_version,
    cilium_version,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.upgrade.forecast_facts import (
    DEFAULTS,
    changed_defaults,
    facts_after,
    prepared_facts,
)
from tests.lab.options import LabOptions
from tests.testing.facts_builders import cluster_facts
from tests.testing.profile_facts import facts_of

PAIRS = tuple(itertools.pairwise(SUPPORTED.minors))
MESH_KEYS = frozenset(default.key for default in DEFAULTS) | {
    "cluster-name",
    "cluster-id",
    "clustermesh-enable-endpoint-sync",
    "clustermesh-enable-mcs-api",
    "max-connected-clusters",
}
"""Keys of cilium-config that a mesh depends on."""


def facts(minor: Minor, *, kvstoremesh: bool, auth_mode: str | None, config_enabled: bool) -> ClusterFacts:
    options = LabOptions(cilium=str(minor), kvstoremesh=kvstoremesh, auth_mode=auth_mode, config_enabled=config_enabled)
    return facts_of(options)["c1"]


def users_rendered(found: ClusterFacts) -> bool:
    """Whether the chart made the users; from 1.19 on the lab makes them by hand where the chart does not."""
    return found.users.present and "meta.helm.sh/release-name" in found.users.annotations


@pytest.mark.parametrize("auth_mode", [pytest.param(None, marks=pytest.mark.slow), "migration", "cluster"])
@pytest.mark.parametrize("config_enabled", [False, True])
@pytest.mark.parametrize("kvstoremesh", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_next_chart_leaves_what_is_predicted(
    pair: tuple[Minor, Minor], kvstoremesh: bool, config_enabled: bool, auth_mode: str | None
) -> None:
    before, after = (facts(minor, kvstoremesh=kvstoremesh, auth_mode=auth_mode, config_enabled=config_enabled) for minor in pair)
    predicted = facts_after(before, pair[1])
    config, found = (entry.config or {} for entry in (predicted, after))
    assert {key: config.get(key) for key in MESH_KEYS} == {key: found.get(key) for key in MESH_KEYS}
    assert predicted.users_enabled == after.users_enabled
    assert predicted.runs_kvstoremesh == after.runs_kvstoremesh
    if users_rendered(before) or users_rendered(after):
        assert predicted.users.present == users_rendered(after)
    version = cilium_version(predicted)
    assert version is not None and version.release == pair[1]
    assert agent_version(predicted) == apiserver_version(predicted)


def test_a_value_that_the_user_set_stays() -> None:
    kept = facts_after(cluster_facts(version="1.18.11", config={"policy-default-local-cluster": "true"}), Minor(1, 19))
    assert (kept.config or {})["policy-default-local-cluster"] == "true"
    kept = facts_after(cluster_facts(version="1.19.5", config={"policy-default-local-cluster": "false"}), Minor(1, 20))
    assert (kept.config or {})["policy-default-local-cluster"] == "false"


def test_every_default_begins_with_a_row_of_the_matrix_and_changes_something() -> None:
    for default in DEFAULTS:
        assert RULES[default.rule].since is not None and RULES[default.rule].source
        assert default.before != default.after and default.value


def test_images_by_digest_and_other_registries_get_the_next_tag() -> None:
    agent = cluster_facts(version="1.18.11").agent
    assert agent is not None
    image = "registry.example.com:5000/cilium/cilium:v1.18.11-cee.1@sha256:" + "a" * 64
    found = facts_after(cluster_facts(agent=replace(agent, containers={"cilium-agent": image})), Minor(1, 19))
    assert found.agent is not None
    assert found.agent.containers == {"cilium-agent": "registry.example.com:5000/cilium/cilium:v1.19.0"}


def test_nothing_changes_twice() -> None:
    before = cluster_facts(version="1.18.11")
    once = facts_after(before, Minor(1, 19))
    assert changed_defaults(before, Minor(1, 19))
    assert changed_defaults(once, Minor(1, 19)) == ()


@pytest.mark.parametrize("auth_mode", ["migration", "cluster"])
def test_users_that_helm_made_stay_in_a_prepared_cluster(auth_mode: str) -> None:
    before = facts(Minor(1, 18), kvstoremesh=True, auth_mode=auth_mode, config_enabled=False)
    assert not facts_after(before, Minor(1, 19)).users.present
    assert facts_after(prepared_facts(before, Minor(1, 19)), Minor(1, 19)).users.present
    assert prepared_facts(before, Minor(1, 20)) is before

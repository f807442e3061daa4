# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every version, trust, kind of Service and authMode on data: one run connects, a second one changes nothing, disconnect leaves nothing.

The clusters are those that the lab would start, made of the same manifests. That real API servers and the real kvstoremesh agree is shown
for some combinations in tests/integration/test_connect.py, and for all of them in its full matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.disconnect import plan_disconnect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Plan, PlanOptions
from tests.lab.options import AUTH_MODES, PROFILES, LabOptions
from tests.testing.combinations import COMBINATIONS
from tests.testing.facts_builders import context_of, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.profile_facts import facts_of
from tests.testing.rows import in_one_test
from tests.testing.simulated_apply import SimulatedClusters

NOW = datetime.now(UTC) + timedelta(hours=1)
"""The certificates of the manifests are made when a test begins, and are valid from then on."""


def everything(clusters: SimulatedClusters) -> dict[str, ClusterFacts]:
    """All facts, less the versions and uids of objects: those change when an object goes and is made again."""
    return {host: unversioned(facts) for host, facts in clusters.facts().items()}


def unversioned(facts: ClusterFacts) -> ClusterFacts:
    plain: dict[str, Any] = {"resource_version": "", "uid": ""}
    return replace(
        facts,
        clustermesh=replace(facts.clustermesh, **plain),
        kvstoremesh=replace(facts.kvstoremesh, **plain),
        users=replace(
            facts.users, text="", managers=(), **plain
        ),  # a list without entries is "users:" or "users: []"; Cilium reads both alike
        registry=replace(facts.registry, **plain),
    )


def connect(facts: Mapping[str, ClusterFacts], accepted: str = "") -> Plan:
    """The plan of facts that no check has anything against but the accepted one."""
    findings = run_checks(context_of(*facts.values(), now=NOW, accept=accepted.split()), "connect")
    assert {f.code for f in findings if f.severity is not Severity.ADVISORY} == set(accepted.split())
    assert not any(f.blocks for f in findings)
    plan = plan_links(mesh_of(*facts), facts, PlanOptions(), NOW)
    assert plan.problems == ()
    return plan


def there_and_back(options: LabOptions, accepted: str = "") -> tuple[dict[str, ClusterFacts], Plan, dict[str, ClusterFacts]]:
    """Connect, hold that nothing is missing, disconnect, and hold that all is as it was. Return the facts before, the plan, and the facts
    of the connected clusters."""
    start = facts_of(options)
    clusters = SimulatedClusters(start, NOW)
    before = everything(clusters)
    plan = connect(clusters.facts(), accepted)
    wanted = {(a, b) for a in start for b in start if a != b}
    assert {(link.cluster, link.peer) for link in plan.links} == wanted
    clusters.run(plan)
    between = clusters.facts()
    again = connect(between, accepted)
    assert again.steps == ()
    clusters.run(plan_disconnect(mesh_of(*start), clusters.facts(), None))
    assert everything(clusters) == before
    assert plan_disconnect(mesh_of(*start), clusters.facts(), None).empty
    return start, plan, between


@pytest.mark.parametrize(("version", "ca", "service"), COMBINATIONS)
def test_two_clusters_of_every_combination_become_one_mesh_and_two_again(version: str, ca: str, service: str) -> None:
    _, plan, between = there_and_back(LabOptions(cilium=version, ca=ca, service=service))
    assert {link.trust for link in plan.links} == {"same_ca" if ca == "shared" else "minted"}
    for local, peer in (("c1", "c2"), ("c2", "c1")):
        config = between[local].kvstoremesh.keys[peer].config or ""
        port = between[peer].service.node_port if service == "NodePort" else 2379  # type: ignore[union-attr]  # each cluster of a mesh has one
        assert f":{port}" in config
        address = f"127.1.{peer[1]}.10" if service == "NodePort" else f"127.1.{peer[1]}.2"
        aliases = {alias.ip for alias in between[local].apiserver.host_aliases}  # type: ignore[union-attr]  # each cluster of a mesh has one
        assert (address in config, address in aliases) == ((True, False) if version == "1.20" else (False, True))


@in_one_test
@pytest.mark.parametrize("version", PROFILES)
@pytest.mark.parametrize("mode", AUTH_MODES)
def test_every_auth_mode_of_every_version_gets_the_users_that_it_needs(version: str, mode: str) -> None:
    # Up to 1.18 Helm renders the list of users with these modes even where it renders no peers, and that has to be accepted.
    owned = mode != "legacy" and version < "1.19"
    before, _, between = there_and_back(LabOptions(cilium=version, auth_mode=mode), "CM-OWN-01" if owned else "")
    for local, peer in (("c1", "c2"), ("c2", "c1")):
        assert f"remote-{peer}" not in before[local].users.users
        assert (f"remote-{peer}" in between[local].users.users) == (mode != "legacy")


@pytest.mark.parametrize("ca", ["own", "shared"])
@pytest.mark.parametrize("version", PROFILES)
def test_agents_of_every_version_dial_the_peer_themselves_when_kvstoremesh_is_off(version: str, ca: str) -> None:
    _, _, between = there_and_back(LabOptions(cilium=version, ca=ca, kvstoremesh=False))
    for local, peer in (("c1", "c2"), ("c2", "c1")):
        assert not between[local].kvstoremesh.present
        assert peer in between[local].clustermesh.keys


@pytest.mark.parametrize("newer", range(1, len(PROFILES)))
def test_neighbouring_minors_become_one_mesh_and_part_again(newer: int) -> None:
    there_and_back(LabOptions(clusters=3, cilium=(PROFILES[newer - 1], PROFILES[newer], PROFILES[newer])))

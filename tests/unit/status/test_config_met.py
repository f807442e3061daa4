# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""ConfigMet says whether every member runs with meshConfig, and says that it is not known where that is so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, Unread
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.config_met import config_conditions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import build_status
from tests.testing.facts_builders import NOW, cluster_facts, context_of, failure

HOSTS = ("c1", "c2")
FORBIDDEN = Unread(what="parts", message="RBAC forbids to list deployments (403).", remedy="Grant it.")


def mesh(**asked: Any) -> Mesh:
    return Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=HOSTS, **asked))


def met(asked: Mesh, *facts: ClusterFacts) -> tuple[str, str, str] | None:
    found = config_conditions(asked, {entry.host: entry for entry in facts})
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None


def test_a_binding_that_asks_for_nothing_has_no_such_condition() -> None:
    assert met(mesh(), *map(cluster_facts, HOSTS)) is None


def test_every_member_runs_as_asked() -> None:
    asked = mesh(service_type="LoadBalancer", enable_kvstoremesh=True, hubble_enabled=False)
    assert met(asked, *map(cluster_facts, HOSTS)) == ("True", "AsAsked", "Every cluster runs with the values of meshConfig")


def test_a_member_that_differs_is_named_with_the_command_that_would_do_it() -> None:
    status, reason, message = met(mesh(service_type="NodePort"), cluster_facts("c1", service="NodePort"), cluster_facts("c2")) or (
        "",
        "",
        "",
    )
    assert (status, reason) == ("False", "ValuesDiffer")
    assert message.startswith("c2: ") and "clustermesh.apiserver.service.type=NodePort" in message and "c1" not in message


@pytest.mark.parametrize(
    "other",
    [
        [],
        [replace(cluster_facts("c2"), apiserver=None)],
        [replace(cluster_facts("c2"), config=None)],
        [replace(cluster_facts("c2"), unread=(FORBIDDEN,))],
    ],
    ids=[
        "it is silent",
        "Cilium's clustermesh-apiserver is not installed",
        "cilium-config is missing",
        "its Deployments may not be listed",
    ],
)
def test_it_is_not_known_while_one_member_cannot_be_compared(other: list[ClusterFacts]) -> None:
    assert met(mesh(hubble_ui=False), cluster_facts("c1"), *other) == ("Unknown", "NotCompared", "It is not known what runs in c2")


def test_a_member_that_differs_counts_for_more_than_one_that_is_not_known() -> None:
    assert (met(mesh(service_type="NodePort"), cluster_facts("c1")) or ("",))[0] == "False"


def test_the_status_of_a_binding_has_it() -> None:
    status = build_status(
        mesh(service_type="NodePort"), {"c1": cluster_facts("c1", service="NodePort")}, {"c2": failure("c2")}, {}, now=NOW
    )
    assert [(row["status"], row["reason"]) for row in status["conditions"] if row["type"] == "ConfigMet"] == [("Unknown", "NotCompared")]


@given(
    st.fixed_dictionaries(
        {
            "service_type": st.sampled_from([None, "LoadBalancer", "NodePort"]),
            "enable_kvstoremesh": st.sampled_from([None, True, False]),
            "hubble_enabled": st.sampled_from([None, True, False]),
            "hubble_ui": st.sampled_from([None, True, False]),
        }
    ),
    st.lists(st.sampled_from(["LoadBalancer", "NodePort", "ClusterIP"]), min_size=2, max_size=2),
)
def test_it_agrees_with_the_findings(asked: dict[str, Any], services: list[str]) -> None:
    facts = {host: cluster_facts(host, service=service) for host, service in zip(HOSTS, services, strict=True)}
    wanted = mesh(**asked)
    found = config_conditions(wanted, facts)
    codes = {row.code for row in run_checks(context_of(*facts.values(), mesh=wanted), "verify")}
    assert bool(found) == any(value is not None for value in asked.values())
    assert ("CM-CFG-02" in codes) == (bool(found) and found[0]["status"] == "False")

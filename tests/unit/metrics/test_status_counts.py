# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the operator counts over the statuses of custom resources."""

from __future__ import annotations

from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.catalogue import CATALOGUE
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.catalogue import BY_NAME
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.status_counts import StatusCounts


def mesh(name: str, refs: str, status: dict[str, Any], version: str = "1", **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "ClusterMeshBinding",
        "metadata": {"uid": name, "resourceVersion": version, **metadata},
        "spec": {"clusterRefs": [{"name": ref} for ref in refs]},
        "status": status,
    }


def status_of(members: str, stage: str, phase: str = "Connected", **link: Any) -> dict[str, Any]:
    links = [{"cluster": a, "peer": b, "stage": stage, "ready": stage == "ready", **link} for a in members for b in members if a != b]
    return {"phase": phase, "meshStatus": [{"clusterName": name} for name in members], "links": links}


def states(*objects: dict[str, Any]) -> dict[str, float]:
    found = StatusCounts().of(objects)["mesh_operator_members"]
    return {state: number for (state,), number in found.items() if number}


def test_five_states_of_members_are_counted_apart() -> None:
    assert states(mesh("joined", "ab", status_of("ab", "ready"))) == {"joined": 2}
    assert states(mesh("new", "ab", {})) == {"never_joined": 2}
    assert states(mesh("new", "ab", status_of("ab", "dialling", "Connecting"))) == {"never_joined": 2}
    assert states(mesh("down", "ab", status_of("ab", "dialling", "Degraded"))) == {"down": 2}
    assert states(mesh("leaving", "ab", status_of("abc", "ready"))) == {"joined": 2, "leaving": 1}
    assert states(mesh("deleted", "ab", status_of("ab", "dialling", "Degraded"), deletionTimestamp="now")) == {"leaving": 2}
    assert states() == {}, "removed: there is no object any more"


def test_states_and_phases_that_none_has_are_zero_so_that_an_alert_ends() -> None:
    found = StatusCounts().of([])
    assert (
        found["mesh_operator_members"]["down",] == found["mesh_operator_links"]["down",] == found["mesh_operator_rollouts"]["Stalled",] == 0
    )


def test_labels_are_words_of_the_project() -> None:
    rows = [
        {"code": "CM-CERT-04", "severity": "remediable", "summary": "acme"},
        {"code": "CM-CERT-04", "severity": "remediable", "accepted": True},
        {"code": "acme", "severity": "remediable"},
        {"code": "CM-CERT-03", "severity": "acme"},
        "acme",
    ]
    workload = {"kind": "FleetWorkload", "metadata": {"uid": "w"}, "status": {"phase": "acme", "rollout": {"phase": "Stalled"}}}
    found = StatusCounts().of(
        [mesh("one", "ab", {"findings": rows}), workload, {"kind": "FleetWorkload", "metadata": {"uid": "x"}, "status": 3}]
    )
    assert found["mesh_operator_findings"] == {("CM-CERT-04", "remediable"): 1}
    assert found["mesh_operator_rollouts"]["Stalled",] == 1
    assert "acme" not in str(found)
    assert {"CM-CERT-04", "CM-CERT-03"} <= set(CATALOGUE)
    assert all(len(labels) == len(BY_NAME[name].labels) for name, values in found.items() for labels in values)


def test_a_changed_status_counts_anew_and_a_gone_one_no_more() -> None:
    counts = StatusCounts()
    for version, stage in (("1", "ready"), ("1", "ready"), ("2", "dialling")):
        found = counts.of([mesh("one", "ab", status_of("ab", stage, "Degraded"), version)])
        assert found["mesh_operator_links"]["joined" if stage == "ready" else "down",] == 2
    assert sum(counts.of([])["mesh_operator_links"].values()) == 0

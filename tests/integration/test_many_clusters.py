# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""More than two clusters: the links are those of the topology, and a member that is down, leaves or joins concerns no other links."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration import credentials
from tests.integration.labs import FIVE, OTHER_THREE_120
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.testing.playbooks import PlaybookRun

SECRETS = ("cilium-clustermesh", "cilium-kvstoremesh")
MOST_REQUESTS = 60
"""To one cluster, for all it takes to connect it but the waiting: the first run of a mesh makes the lock, and observes once more under it
(docs/decisions/0040)."""


def shaped(lab: MeshLab, *names: str, **topology: Any) -> dict[str, Any]:
    """The ``cilium_mesh`` variable with a topology."""
    mesh = lab.mesh(*names)
    mesh["binding"]["topology"] = topology
    return mesh


def connected(lab: MeshLab, mesh: Mapping[str, Any], *links: str, **how: Any) -> PlaybookRun:
    """Run connect twice: the first makes exactly these links (``12`` is that of c1 and c2), the second changes nothing."""
    first = lab.play("connect", mesh=mesh, **how)
    assert first.rc == 0, first.output
    wanted = {(f"c{way[0]}", f"c{way[1]}") for link in links for way in (link, link[::-1])}
    rows = first.result["status"]["binding"]["links"]
    assert {(row["cluster"], row["peer"]): row["stage"] for row in rows} == dict.fromkeys(wanted, "ready")
    for local in lab.names:
        peers = {peer for cluster, peer in wanted if cluster == local}
        assert peers_written(lab, local) == peers
        assert set(lab.kvstoremesh_status(local)) == peers, f"the real kvstoremesh of {local} knows others than its peers"
    second = lab.play("connect", mesh=mesh, **how)
    assert (second.rc, second.changed) == (0, 0), second.output
    return first


def peers_written(lab: MeshLab, cluster: str) -> set[str]:
    """The peers that both Secrets of a cluster name; the two agree."""
    agents, kvstoremesh = ({key for key in lab.secret(cluster, name) if "." not in key} for name in SECRETS)
    assert agents == kvstoremesh
    return agents


def versions(lab: MeshLab, clusters: Iterable[str]) -> dict[tuple[str, str], str]:
    """resourceVersion of both Secrets: each write changes it."""
    paths = [(cluster, name) for cluster in clusters for name in SECRETS]
    found = {(c, n): lab.api(c).get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{n}") for c, n in paths}
    return {place: item["metadata"]["resourceVersion"] for place, item in found.items() if item}


def requests(run: PlaybookRun) -> dict[str, int]:
    """API requests to each cluster, as the action counts them."""
    for event in map(json.loads, run.events):
        counted = (event.get("event_data", {}).get("res") or {}).get("requests")
        if event.get("event") == "runner_on_ok" and counted:
            return {str(name): int(number) for name, number in counted.items()}
    raise AssertionError("no result of a task counts requests")


def stages(run: PlaybookRun) -> dict[tuple[str, str], str]:
    return {(row["cluster"], row["peer"]): row["stage"] for row in run.result["status"]["binding"]["links"]}


@pytest.mark.lab(OTHER_THREE_120)
def test_spokes_know_their_hub_and_not_each_other_until_the_file_says_otherwise(lab: MeshLab) -> None:
    before = lab.snapshot()
    connected(lab, lab.mesh("c1", "c2"), "12")
    joined = versions(lab, ["c2"])
    connected(lab, shaped(lab, mode="HubAndSpoke", hubs=["c1"]), "12", "13")  # a third cluster joins as a spoke
    assert versions(lab, ["c2"]) == joined, "a spoke was written although nothing of its links changed"
    same = lab.play("connect", mesh=shaped(lab, mode="Pairs", pairs=[["c2", "c1"], ["c1", "c3"]]))
    assert (same.rc, same.changed) == (0, 0), same.output  # the same links, said in another way
    connected(lab, lab.mesh(), "12", "13", "23")
    alone = connected(lab, shaped(lab, mode="Pairs", pairs=[["c1", "c2"]]), "12")
    assert ("CM-TOPO-01", "c3") in {(finding["code"], finding["cluster"]) for finding in alone.result["findings"]}
    gone = lab.play("disconnect")
    assert gone.rc == 0, gone.output
    assert lab.snapshot() == before


@pytest.mark.lab(FIVE)
def test_five_clusters_of_which_one_dies_one_leaves_and_one_comes_back(lab: MeshLab, tmp_path: Path) -> None:
    start = lab.snapshot()
    first = lab.play("connect", mesh_connect_wait=False)
    assert first.rc == 0, first.output
    assert set(requests(first)) == set(lab.names) and max(requests(first).values()) <= MOST_REQUESTS, requests(first)
    writes = [(step["cluster"], step["object"]) for step in first.result["plan"]["steps"]]
    assert len(writes) == len(set(writes)), "an object was written more than once"
    ready = lab.play("connect")
    assert (ready.rc, ready.changed) == (0, 0), ready.output
    assert len(stages(ready)) == 20 and set(stages(ready).values()) == {"ready"}

    # c5 dies, with its API server: its links are degraded, the others are as they were, and the run says so and is not as asked.
    lab.lab.kill("c5")
    dead = credentials.unreachable(lab, "c5", tmp_path / "dead")
    degraded = lab.play("connect", hosts=dead)
    assert (degraded.rc, degraded.changed) == (2, 0) and "No answer from 1 member (c5)" in degraded.output, degraded.output
    assert lab.play("connect", hosts=dead, mesh_connect_max_failures=1).rc == 0
    assert degraded.result["status"]["binding"]["phase"] == "Degraded"
    assert ("CM-API-01", "remediable", "c5") in {(f["code"], f["severity"], f["cluster"]) for f in degraded.result["findings"]}
    assert {stage for link, stage in stages(degraded).items() if "c5" not in link} == {"ready"}
    assert {stage for link, stage in stages(degraded).items() if link[0] == "c5"} == {"unknown"}
    refused = lab.play("connect", hosts=dead, mesh_connect_max_failures=0, own_process=True)
    assert refused.rc != 0 and "max_failures allows 0" in refused.output

    # It is taken out without being asked.
    out = lab.play("disconnect", hosts={"c5": {"cilium_mesh_kubeconfig": ""}}, arguments=["--limit", "'!c5'"], own_process=True)
    assert out.rc == 0, out.output
    assert {name: peers_written(lab, name) for name in lab.names[:4]} == {name: {"c1", "c2", "c3", "c4"} - {name} for name in lab.names[:4]}
    assert {stage for link, stage in stages(out).items()} == {"ready"}

    # c3 leaves by being taken out of the file; it still answers, and is rid of everything.
    left = lab.play("connect", mesh=lab.mesh("c1", "c2", "c4"), hosts=dead)
    assert left.rc == 0, left.output
    assert len(stages(left)) == 6 and set(stages(left).values()) == {"ready"}
    assert {k: v for k, v in lab.snapshot().items() if k.startswith("c3/")} == {k: v for k, v in start.items() if k.startswith("c3/")}
    assert lab.play("connect", mesh=lab.mesh("c1", "c2", "c4"), hosts=dead).changed == 0

    # c5 is back, and joins again. That it is ready takes kvstoremesh three minutes after a withdrawal, which is not waited for here.
    lab.lab.restart("c5")
    back = lab.play("connect", mesh=lab.mesh("c1", "c2", "c4", "c5"), mesh_connect_wait=False)
    assert back.rc == 0 and back.changed > 0, back.output
    assert peers_written(lab, "c5") == {"c1", "c2", "c4"} and "c5" in peers_written(lab, "c1")
    everything = lab.play("disconnect", mesh=lab.mesh("c1", "c2", "c4", "c5"))
    assert everything.rc == 0, everything.output
    assert lab.snapshot() == start

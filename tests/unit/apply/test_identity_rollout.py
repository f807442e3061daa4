# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The ends of an assignment that touch a cluster: copies written over what was read, rollouts waited for, and the proof."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import no_guard
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.lease_store import ClusterCopies
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.rollout import Workload, wait_for_rollouts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.clocks import real_clocks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Unreachable, WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.identity.decide import IdentityDecision, IdentityVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.identity.plan import RESTARTED_FOR
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.identity.verify import prove
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import ExecResult
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import Registry, write_registry
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, WorkloadFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.own_names import OwnName, read_own_names
from tests.testing.facts_builders import cluster_facts, mesh_of
from tests.testing.rows import one_test

MESH = mesh_of("c1", "c2")
EMPTY = Registry(mesh=MESH.binding.owner)
TEXT = write_registry(EMPTY)


@dataclass
class FakeCluster:
    """One ConfigMap with a version, and whatever workloads and agents a test gives it."""

    config_map: dict[str, Any] | None = None
    version: int = 0
    workloads: list[Mapping[str, Any]] = field(default_factory=list)  # one answer after the other, the last for ever
    status: str = "{}"
    meanwhile: dict[str, str] | None = None  # data that another writer writes just before our next write

    def get(self, path: str) -> Any:
        if path.startswith("/apis/apps"):
            return self.workloads.pop(0) if len(self.workloads) > 1 else self.workloads[0]
        return self.config_map

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> Any:
        assert manager == f"{MESH.binding.manager}/new" and "data" not in body
        self._other_writer()
        if self.config_map is None:
            self._keep(body["metadata"]["labels"], {})
        return self.config_map

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str) -> Any:
        self._other_writer()
        assert self.config_map is not None and manager == MESH.binding.manager
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise WriteConflict("changed", cluster="c1")
        self._keep(self.config_map["metadata"]["labels"], body["data"])

    def exec(self, pod: str, container: str, command: Sequence[str]) -> ExecResult:
        return ExecResult(stdout=self.status, stderr="", exit_code=0)

    def _other_writer(self) -> None:
        if self.meanwhile is not None:
            data, self.meanwhile = self.meanwhile, None
            self._keep({"cilium-mesh.edge-portal.eu/owner": MESH.binding.owner}, data)

    def _keep(self, labels: Mapping[str, str], data: Mapping[str, str]) -> None:
        self.version += 1
        self.config_map = {"metadata": {"labels": dict(labels), "resourceVersion": str(self.version), "uid": "u"}, "data": dict(data)}


def store(cluster: FakeCluster) -> ClusterCopies:
    clusters: Any = {"c1": cluster}
    return ClusterCopies(MESH, clusters, {"c1": cluster_facts("c1")}, allow=no_guard)


def test_a_copy_is_created_and_then_written_over_the_version_that_was_read() -> None:
    cluster = FakeCluster()
    copies = store(cluster)
    first = copies.read("c1")
    assert first is not None and first.version == "" and copies.write("c1", TEXT, "")
    read = copies.read("c1")
    assert read is not None and read.text == TEXT and read.registry == EMPTY
    assert copies.write("c1", TEXT + " ", read.version) and not copies.write("c1", TEXT, read.version)
    assert copies.written == ["c1", "c1"]


@pytest.mark.parametrize("present", [True, False])
def test_who_was_faster_is_not_overwritten(present: bool) -> None:
    cluster = FakeCluster()
    copies = store(cluster)
    if present:
        assert copies.write("c1", TEXT, "")
    before = copies.read("c1")
    cluster.meanwhile = {"leases.json": "theirs"}
    assert before is not None and not copies.write("c1", TEXT, before.version)
    assert cluster.config_map is not None and cluster.config_map["data"] == {"leases.json": "theirs"}


@pytest.mark.parametrize(
    ("labels", "text", "usable"),
    [
        ({}, TEXT, False),
        (None, '{"schema":2}', False),
        (None, "spoiled", True),
        (None, write_registry(Registry(mesh="another")), True),
    ],
)
def test_what_may_not_be_written_is_no_voter_and_what_is_spoiled_counts_as_empty(labels: Any, text: str, usable: bool) -> None:
    cluster = FakeCluster()
    copies = store(cluster)
    copies.write("c1", text, "")
    assert cluster.config_map is not None
    if labels is not None:
        cluster.config_map["metadata"]["labels"] = labels
    found = copies.read("c1")
    assert (found is not None) is usable
    assert found is None or (found.registry == EMPTY and found.text == text)


def workload(ready: int, updated: int, *, seen: int = 2, desired: int = 2) -> Mapping[str, Any]:
    status = {"desiredNumberScheduled": desired, "numberReady": ready, "updatedNumberScheduled": updated, "observedGeneration": seen}
    return {"metadata": {"name": "cilium", "generation": 2}, "status": status, "spec": {"template": {"spec": {"containers": []}}}}


def wait(cluster: FakeCluster, timeout: float) -> tuple[dict[Workload, str], float]:
    time = [0.0]

    def sleep(seconds: float) -> None:
        time[0] += seconds

    clusters: Any = {"c1": cluster}
    wanted = [Workload("c1", "kube-system", "DaemonSet", "cilium")]
    clocks = replace(real_clocks(), clock=lambda: time[0], sleep=sleep)
    return wait_for_rollouts(clusters, wanted, deadline=timeout, clocks=clocks), time[0]


def test_a_rollout_is_over_when_the_controller_has_seen_it_and_every_pod_is_new_and_ready() -> None:
    answers = [workload(2, 2, seen=1), workload(1, 0), workload(2, 1), workload(1, 2), workload(2, 2)]
    assert wait(FakeCluster(workloads=list(answers)), 60) == ({}, 4.0)


def test_one_that_does_not_end_is_named_with_how_far_it_is() -> None:
    late, waited = wait(FakeCluster(workloads=[workload(1, 1)]), 3)
    assert waited == 3.0
    assert {str(w): how for w, how in late.items()} == {"DaemonSet cilium of c1": "1 of 2 pods ready, 1 to be replaced"}


def test_without_time_it_is_looked_at_once() -> None:
    assert wait(FakeCluster(workloads=[workload(1, 1)]), 0)[1] == 0.0
    assert wait(FakeCluster(workloads=[workload(2, 2)]), 0) == ({}, 0.0)


def test_a_cluster_that_does_not_answer_meanwhile_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(workloads=[workload(2, 2)])
    answer, calls = cluster.get, []

    def get(path: str) -> Any:
        calls.append(path)
        if len(calls) == 1:
            raise Unreachable("no answer", cluster="c1")
        return answer(path)

    monkeypatch.setattr(cluster, "get", get)
    assert wait(cluster, 60)[0] == {}


DECISION = IdentityDecision(host="c7", verdict=IdentityVerdict.ASSIGN, name="c7", id=7)


def restarted(facts: ClusterFacts, *names: str) -> ClusterFacts:
    """These workloads were restarted for c7 with id 7."""

    def mark(one: WorkloadFacts | None, name: str) -> WorkloadFacts | None:
        return one if one is None or name not in names else replace(one, pod_annotations={RESTARTED_FOR: "c7.7"})

    return replace(
        facts, operator=mark(facts.operator, "operator"), agent=mark(facts.agent, "agent"), apiserver=mark(facts.apiserver, "api")
    )


OPERATOR = WorkloadFacts(kind="Deployment", name="cilium-operator", desired=1, ready=1, updated=1)
C7 = cluster_facts("c7", operator=OPERATOR)
DONE = restarted(C7, "operator", "agent", "api")


def reported(cluster: Any, facts: ClusterFacts) -> tuple[OwnName, ...]:
    return read_own_names(Observation(facts={facts.host: facts}, clusters={facts.host: cluster}), facts.host)


@one_test(
    "facts self doubt",
    (DONE, "", ""),
    (DONE, "c7/node-1", ""),
    (DONE, "default/node-1", "calls its cluster default"),
    (restarted(C7, "operator", "agent"), "", "Deployment clustermesh-apiserver was not restarted"),
    (replace(DONE, config={**(DONE.config or {}), "cluster-id": "0"}), "", "restored them"),
    (replace(DONE, operator=replace(OPERATOR, ready=0, pod_annotations={RESTARTED_FOR: "c7.7"})), "", "has not rolled out"),
    (replace(DONE, admin_cert=cluster_facts("c8").admin_cert), "", "is not that of admin-c7"),
)
def test_the_proof_names_every_doubt(facts: ClusterFacts, self: str, doubt: str) -> None:
    cluster: Any = FakeCluster(status=json.dumps({"cluster": {"self": self}} if self else {"kubernetes": {}}))
    proof = prove(facts, DECISION, reported(cluster, facts))
    assert proof.proven is (not doubt)
    assert doubt in "; ".join(proof.doubts) and (doubt or len(proof.evidence) >= 4)


@pytest.mark.parametrize("status", ["", "[]", "[" * 50_000, '{"cluster": 7}', '{"cluster": {"self": ["x"]}}'])
def test_an_answer_that_is_none_is_no_doubt_and_no_crash(status: str) -> None:
    cluster: Any = FakeCluster(status=status)
    assert prove(DONE, DECISION, reported(cluster, DONE)).proven

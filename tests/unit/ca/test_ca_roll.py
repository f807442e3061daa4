# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A CA roll never drops a link, whatever happens in between: every TLS connection of every pod is judged after every event."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import apply_plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.ca.roll import RollRequest
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock.lock import Terms
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, ReaderFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.ca_roll import RollStage, keys_secret
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ca_roll import RequestOf, RollRun, Timer, roll_ca
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.judgement import context_of, judge_and_plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import ConnectOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import Outcome, Recorder
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import Ports, real_ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.run import Run
from tests.lab.profiles import CaPair, ProfileOptions, make_ca
from tests.testing.facts_builders import mesh_of, not_ready, reader_facts
from tests.testing.free_lock import FreeLock
from tests.testing.roll_world import NAMESPACE, Killed, RollWorld

OPTIONS = ConnectOptions(parallel=1, wait_timeout=60)


def read_all(observation: Observation, mesh: Mesh) -> dict[str, ReaderFacts]:
    """Links are up when their TLS connections are."""
    found = {}
    for host, cluster in observation.clusters.items():
        down = cluster.world.down()  # type: ignore[attr-defined]  # a cluster of this test, which has a world
        kvstoremesh = observation.facts[host].runs_kvstoremesh
        reader = reader_facts(host, [peer for local, peer in mesh.links if local == host], agents=1, kvstoremesh=kvstoremesh)
        links = tuple(not_ready(link) if down(host, link.peer) else link for link in reader.links)
        found[host] = ReaderFacts(cluster=host, links=links, agents_total=1, agents_asked=1)
    return found


def options(number: int, **more: Any) -> ProfileOptions:
    return ProfileOptions(cluster_name=f"c{number}", cluster_id=number, key_type="ec", pod_cidr_pool=f"10.{number}.0.0/16", **more)


def connected(count: int, *, ca: CaPair | None = None, **more: Any) -> tuple[RollWorld, Mesh]:
    """A mesh as ``connect`` leaves it, with every pod up to date."""
    world = RollWorld(*(options(number, ca=ca, **more) for number in range(1, count + 1)))
    mesh = mesh_of(*world.clusters)
    connect(world, mesh)
    world.judging = True
    world.judge("the start")
    assert not world.broken
    return world, mesh


def connect(world: RollWorld, mesh: Mesh) -> int:
    with world.observe(mesh) as observation:
        findings, plan = judge_and_plan(context_of(ports_to(world, mesh), observation, mesh, OPTIONS, world.time), OPTIONS)
        assert plan is not None, [f.to_dict() for f in findings]
        done = apply_plan(plan, observation, now=world.time)
        assert not done.failures, done.failures
    world.pass_time()
    return len(plan.steps)


def run(
    world: RollWorld, mesh: Mesh, *clusters: str, source: str = "", until: RollStage = RollStage.DROP, check: bool = False, **params: Any
) -> Outcome:
    """As the action does it."""
    return roll_ca(run_of(world, mesh, check=check), replace(OPTIONS, **params), asked_for(mesh, *clusters, source=source, until=until))


def asked_for(mesh: Mesh, *clusters: str, source: str = "", until: RollStage = RollStage.DROP) -> RequestOf:
    def request(facts: Mapping[str, ClusterFacts]) -> RollRequest:
        every = [h for h in mesh.clusters if h != source and facts[h].ca.digest != facts[source].ca.digest] if source else mesh.clusters
        return RollRequest(clusters=tuple(clusters or every), days=1095, source=source, until=until)

    return request


def run_of(world: RollWorld, mesh: Mesh, *, check: bool = False) -> Run:
    lock = None if check else FreeLock(Terms(binding=mesh.binding, action="CA roll"))
    return Run(mesh=mesh, who=AllClusters(mesh.clusters), ports=ports_to(world, mesh), now=world.time, check_mode=check, lock=lock)


@dataclass(frozen=True)
class AllClusters:
    """All clusters take part; the world knows how they are reached."""

    hosts: tuple[str, ...]
    limit: str = ""

    def access(self, names: Sequence[str]) -> tuple[ClusterAccess, ...]:
        return ()


def ports_to(world: RollWorld, mesh: Mesh) -> Ports:
    began = world.time
    return replace(
        real_ports(),
        observe=lambda *_, **__: world.observe(mesh),
        lock=FreeLock,
        read_links=read_all,
        resolve_names=lambda _clusters: {},
        unproven_moves=lambda *_: frozenset(),
        now=lambda: world.time,
        clock=lambda: (world.time - began).total_seconds(),
        sleep=lambda seconds: world.pass_time(seconds * 10),
    )


def ca_digests(world: RollWorld) -> dict[str, bytes]:
    return {host: cluster.data("cilium-ca")["ca.crt"] for host, cluster in world.clusters.items()}


def settled(world: RollWorld, mesh: Mesh) -> None:
    """Nothing of the roll is left, and the links are what they would be without one."""
    assert not world.broken, world.broken[:5]
    for cluster in world.clusters.values():
        assert not cluster.mark()
        assert f"/api/v1/namespaces/{NAMESPACE}/secrets/{keys_secret(mesh.binding.owner)}" not in cluster.objects
        assert not [path for path in cluster.objects if "/jobs/" in path]
        ca = cluster.data("cilium-ca")["ca.crt"]
        assert cluster.data("clustermesh-apiserver-server-cert")["ca.crt"].strip() == ca.strip()
        assert all(pod.clients.strip() == ca.strip() for pod in cluster.meshes), "an etcd still accepts the old CA"
        assert not [key for key in cluster.data("cilium-clustermesh") if key.endswith("-ca.crt") and cluster.options.kvstoremesh]
    assert connect(world, mesh) == 0
    assert not world.broken, world.broken[:5]


CASES = [
    pytest.param({"count": 3, "tls_method": "helm"}, id="three-own-helm"),
    pytest.param({"count": 2, "tls_method": "cronJob"}, id="two-own-certgen", marks=pytest.mark.slow),
    pytest.param({"count": 2, "shared": True, "tls_method": "helm"}, id="two-shared-helm"),
    pytest.param({"count": 2, "shared": True, "tls_method": "cronJob"}, id="two-shared-certgen", marks=pytest.mark.slow),
    pytest.param({"count": 2, "version": "1.16", "tls_method": "helm"}, id="agents-with-the-common-files", marks=pytest.mark.slow),
    pytest.param({"count": 2, "kvstoremesh": False, "tls_method": "helm"}, id="without-kvstoremesh", marks=pytest.mark.slow),
    pytest.param(
        {"count": 2, "version": "1.20", "auth_mode": "cluster", "shared": True, "tls_method": "helm"},
        id="cluster-users",
        marks=pytest.mark.slow,
    ),
]


def start(case: Mapping[str, Any]) -> tuple[RollWorld, Mesh]:
    rest = {key: value for key, value in case.items() if key not in ("count", "shared")}
    return connected(case["count"], ca=make_ca(key_type="ec") if case.get("shared") else None, **rest)


@pytest.mark.parametrize("case", CASES)
def test_every_cluster_gets_a_new_ca_and_no_connection_fails(case: Mapping[str, Any]) -> None:
    world, mesh = start(case)
    before = ca_digests(world)
    done = run(world, mesh, wait_timeout=400)
    assert not done.error, done.error
    assert done.changed
    after = ca_digests(world)
    assert all(before[host] != after[host] for host in before)
    assert len(set(after.values())) == (1 if case.get("shared") else case["count"])
    settled(world, mesh)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[1:3])
def test_a_roll_that_is_killed_in_any_stage_goes_on(case: Mapping[str, Any]) -> None:
    """Killed in the middle of each stage, and a second time by the run that takes over."""
    world, mesh = start(case)
    writes: dict[str, list[int]] = {}
    world.on_write = lambda: writes.setdefault(stage_of(world), []).append(world.writes)
    first = world.writes
    run(world, mesh)
    assert set(writes) == {"", *RollStage}, "a stage without a write"
    for place in (numbers[len(numbers) // 2] - first for numbers in writes.values()):
        world, mesh = start(case)
        before = ca_digests(world)
        for kill in (place, 1 + place % 9):
            world.kill_at = world.writes + kill
            with contextlib.suppress(Killed):
                run(world, mesh)
        world.kill_at = 0
        done = run(world, mesh)
        assert not done.error, (place, done.error)
        assert all(before[host] != digest for host, digest in ca_digests(world).items())
        settled(world, mesh)


def stage_of(world: RollWorld) -> str:
    """The earliest stage that a mark names; "" without marks."""
    found = [json.loads(mark)["stage"] for cluster in world.clusters.values() if (mark := cluster.mark())]
    return min(found, key=lambda stage: RollStage(stage).place, default="")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["crash", "certgen", "projection"])
def test_what_happens_in_between_drops_nothing(what: str) -> None:
    """A mesh pod is thrown off its node, certgen's CronJob comes round, kubelets are early or late: before every write."""
    world, mesh = connected(2, tls_method="cronJob")
    turn = itertools.count()

    def disturb() -> None:
        cluster = list(world.clusters.values())[next(turn) % 2]
        if what == "crash":
            cluster.crash()
        elif what == "certgen" and next(turn) % 5 == 0:
            for event in cluster.run_certgen():
                world.judge(event)
        elif what == "projection":
            cluster.pods[next(turn) % len(cluster.pods)].project()
        world.judge(f"{what} in {cluster.host}")

    world.on_write = disturb
    before = ca_digests(world)
    done = run(world, mesh, wait_timeout=600)
    world.on_write = lambda: None
    assert not done.error, done.error
    assert all(before[host] != digest for host, digest in ca_digests(world).items())
    settled(world, mesh)


@pytest.mark.slow
@pytest.mark.parametrize("every", [2, 3, 5])
def test_two_controllers_at_once_make_one_roll(every: int) -> None:
    """The second one looks and writes once, before every second, third or fifth write of the first."""
    world, mesh = connected(2, tls_method="cronJob")
    before = ca_digests(world)
    found = Recorder()
    other, timer = RollRun(run_of(world, mesh), OPTIONS, asked_for(mesh), found), Timer(lambda: 0.0)
    turn, busy = itertools.count(1), False

    def interfere() -> None:
        nonlocal busy
        if busy or next(turn) % every:
            return
        busy = True
        other.turn(timer)
        busy = False

    world.on_write = interfere
    done = run(world, mesh, wait_timeout=600)
    world.on_write = lambda: None
    assert not done.error and not found.outcome.error, (done.error, found.outcome.error)
    assert all(before[host] != digest for host, digest in ca_digests(world).items())
    if any(cluster.mark() for cluster in world.clusters.values()):  # the second began another one when the first was over
        assert not run(world, mesh).error
    settled(world, mesh)


@pytest.mark.slow
@pytest.mark.parametrize("stage", list(RollStage))
def test_a_member_that_does_not_answer_holds_the_roll_in_its_stage(stage: RollStage) -> None:
    world, mesh = connected(3, tls_method="helm")
    assert not run(world, mesh, "c1", until=stage).error or stage is RollStage.DROP
    if stage is RollStage.DROP:  # it ends there; so stop before its last writes
        world, mesh = connected(3, tls_method="helm")
        run(world, mesh, "c1", until=RollStage.LEAVES)
        world.kill_at = world.writes + 3
        with contextlib.suppress(Killed):
            run(world, mesh, "c1")
        world.kill_at = 0
    world.silent = {"c3"}
    writes = world.writes
    held = run(world, mesh, "c1")
    assert world.writes == writes, "something was written"
    assert [finding.code for finding in held.findings] == ["CM-CA-08"]
    assert held.findings[0].cluster == "c3" and str(stage) in held.error and held.extra["roll"]["held"]
    world.silent = set()
    assert not run(world, mesh, "c1").error
    settled(world, mesh)


def test_what_is_not_proven_in_time_holds_and_names_it() -> None:
    world, mesh = connected(2, tls_method="helm")
    world.clusters["c2"].agents[0].project = lambda: None  # type: ignore[method-assign]  # its kubelet does nothing any more
    held = run(world, mesh, wait_timeout=30)
    assert not world.broken
    assert "held at stage trust" in held.error
    finding = next(f for f in held.findings if f.code == "CM-CA-09")
    assert finding.cluster == "c2" and "agent in pod" in finding.evidence


def test_what_another_writer_changes_back_holds_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world, mesh = connected(2, tls_method="helm")
    cluster = world.clusters["c2"]
    written = cluster.merge_patch

    def changed_back(path: str, body: Mapping[str, Any], *, manager: str, dry_run: bool = False) -> dict[str, Any]:
        return written(path, {} if path.endswith("/clustermesh-apiserver-server-cert") else body, manager=manager, dry_run=dry_run)

    monkeypatch.setattr(cluster, "merge_patch", changed_back)
    held = run(world, mesh, wait_timeout=30)
    assert "held at stage trust" in held.error and "(c2)" in held.error
    assert held.extra["roll"]["held"]
    finding = next(f for f in held.findings if f.code == "CM-CA-09")
    assert finding.cluster == "c2" and "Secret kube-system/clustermesh-apiserver-server-cert" in finding.evidence


def test_the_ca_of_one_member_can_be_rolled_alone() -> None:
    world, mesh = connected(3, ca=make_ca(key_type="ec"), tls_method="helm")
    before = ca_digests(world)
    assert not run(world, mesh, "c2").error
    after = ca_digests(world)
    assert after["c2"] != before["c2"] and after["c1"] == before["c1"] and after["c3"] == before["c3"]
    settled(world, mesh)


def test_one_ca_for_all_is_a_roll_to_that_ca() -> None:
    world, mesh = connected(3, tls_method="helm")
    source = ca_digests(world)["c2"]
    assert not run(world, mesh, source="c2").error
    assert set(ca_digests(world).values()) == {source}
    settled(world, mesh)
    texts = [world.clusters["c1"].data("cilium-kvstoremesh")[peer] for peer in ("c2", "c3")]
    assert all(b"common-etcd-client-ca.crt" in text for text in texts), "with one CA the links need no certificates of their own"
    again = run(world, mesh, source="c2")
    assert not again.changed and not again.error


def test_check_mode_says_what_would_be_next_and_writes_nothing() -> None:
    world, mesh = connected(2, tls_method="helm")
    writes = world.writes
    predicted = run(world, mesh, check=True)
    assert predicted.changed and world.writes == writes
    assert [step["verb"] for step in (predicted.plan or {})["steps"]] == ["create", "create"]
    run(world, mesh, until=RollStage.TRUST)
    writes = world.writes
    predicted = run(world, mesh, check=True)
    assert predicted.extra["roll"]["stage"] == "trust" and world.writes == writes
    assert {step["object"] for step in (predicted.plan or {})["steps"]} == {"Secret kube-system/cilium-ca"}
    secret = "PRIVATE KEY"
    assert secret not in str(predicted.plan or {}) and secret not in str(predicted.extra)


def test_no_key_stands_in_the_mark() -> None:
    world, mesh = connected(2, tls_method="helm")
    run(world, mesh, until=RollStage.TRUST)
    for cluster in world.clusters.values():
        assert cluster.mark() and "PRIVATE KEY" not in cluster.mark()

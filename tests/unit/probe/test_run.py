# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A whole run of probes against clusters in memory: what is asked, what is decided, what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.clocks import real_clocks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Forbidden, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.tally import Tally
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.evidence.clusters import ClusterEvidence
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import (
    ConnectivityIntent,
    LabelRequirement,
    PodSelection,
    PortRule,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.streams import ExecResult
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import Unread
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.intent_probe import ProbeContext
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.limits import Limits
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.outcome import Reachability
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.run import run_probes
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.seen_flows import read_seen_flows
from tests.testing.facts_builders import NOW
from tests.testing.flow_builders import flow, side
from tests.testing.probe_world import NAME, FakeCluster, agent_object, intent, pod_object, said, silent, world
from tests.testing.rows import one_test
from tests.testing.texts import mentions
from tests.testing.traffic_builders import pod, traffic

QUICK = Limits(settle=0.0, poll=0.01, job_seconds=1, per_intent=4.0)
IMAGE = {"image": "busybox:1.36"}
SEEN = NOW - timedelta(seconds=30)
DELIVERED, DENIED = flow(time=SEEN), flow("DROPPED", kind="drop", time=SEEN)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    by_job = "ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.job_probe"
    monkeypatch.setattr(f"{by_job}._FLOWS_LATER", 0.0)


def run(
    scene: Scene, clusters: Mapping[str, Any], *intents: ConnectivityIntent, now: datetime = NOW, limits: Limits = QUICK, **options: Any
) -> dict[str, Reachability]:
    return run_probes(intents or (intent(),), scene, ClusterEvidence(clusters, real_clocks()), now=now, limits=limits, **options)


def one(scene: Scene, clusters: Mapping[str, Any], wanted: ConnectivityIntent, **options: Any) -> Reachability:
    return run(scene, clusters, wanted, **options)[wanted.name]


@one_test(
    "action line result",
    ("Allow", DELIVERED, "proven"),
    ("Allow", DENIED, "refuted"),
    ("Deny", DELIVERED, "refuted"),
    ("Deny", DENIED, "proven"),
    ("Allow", "", "unknown"),
    ("Deny", "", "unknown"),
)
def test_flows_decide(action: str, line: str, result: str) -> None:
    scene, clusters = world(seen=line)
    found = one(scene, clusters, intent(action))
    assert (found.result, found.method, found.time) == (result, "hubble", NOW)
    if line:
        assert found.evidence[0].startswith("11:59:30Z production/frontend-1 in c1 -> production/backend-1 in c2 TCP 8080: ")
        assert not clusters["c1"].made
    else:
        assert found.evidence == ()
    assert mentions(found.message, "c1 -> c2")


def test_the_command_names_clusters_labels_port_and_time_and_is_no_shell() -> None:
    scene, clusters = world()
    run(scene, clusters)
    (command,) = clusters["c2"].commands
    assert command[:6] == ["hubble", "observe", "--server", "unix:///var/run/cilium/hubble.sock", "-o", "jsonpb"]
    assert command[6:8] == ["--since", "2026-09-01T11:55:00Z"]
    rest = command[8:]
    assert rest == [
        *("--last", "200", "--type", "drop", "--type", "policy-verdict", "--type", "trace:to-endpoint"),
        *("--from-label", "k8s:io.cilium.k8s.policy.cluster=c1,k8s:io.kubernetes.pod.namespace=production,k8s:app=frontend"),
        *("--to-label", "k8s:io.cilium.k8s.policy.cluster=c2,k8s:io.kubernetes.pod.namespace=production,k8s:app=backend"),
        *("--to-port", "8080"),
    ]


def test_only_agents_on_the_destinations_nodes_are_asked_and_not_too_many() -> None:
    scene, clusters = world()
    clusters["c2"].agents = [agent_object(f"node-{n}") for n in range(9)]
    clusters["c2"].pods = [pod_object(f"backend-{n}", node=f"node-{n}") for n in range(8)]
    found = one(scene, clusters, intent())
    assert clusters["c2"].asked.count("exec pods") == QUICK.agents == 6
    assert mentions(found.message, 6, 8, "c2")


def test_a_drop_at_the_source_refutes_what_should_be_allowed() -> None:
    scene, clusters = world()
    clusters["c1"].flows = said(flow("DROPPED", kind="drop", traffic_direction="EGRESS", time=SEEN, node="c1/c1-node1"))
    found = one(scene, clusters, intent())
    assert found.result == "refuted" and mentions(found.message, "c1 -> c2", "egress")
    assert one(scene, clusters, intent("Deny")).result == "unknown"


def test_flows_that_are_older_than_the_policy_do_not_count() -> None:
    def result(changed: str, limits: Limits = QUICK) -> str:
        scene, clusters = world(changed=changed, seen=DELIVERED)
        return one(scene, clusters, intent(), limits=limits).result

    assert result("2026-09-01T11:59:40Z") == "unknown"
    assert result("2026-09-01T11:59:20Z", replace(QUICK, settle=15.0)) == "unknown"
    assert result("2026-09-01T11:59:20Z") == "proven"
    assert result("") == "proven"  # then the time of its making counts
    assert result("now") == "unknown"


@pytest.mark.parametrize(
    ("break_it", "facts"),
    [
        (lambda c: setattr(c["c2"], "flows", said(DELIVERED, code=1)), ("node-1", "c2", "exit code 1")),
        (lambda c: silent(c["c2"]), ("node-1", "c2", "It took longer than 10 s")),
        (lambda c: setattr(c["c2"], "agents", []), ("no agent", "c2")),
        (lambda c: setattr(c["c2"], "flows", said("garbage " * 9000, '{"flow": 7}', "{}")), ("2 lines", "node-1", "c2")),
        (lambda c: c["c2"].fail.update({"list pods": Forbidden("RBAC forbids it.")}), ("RBAC forbids it",)),
    ],
)
def test_what_cannot_be_asked_is_unknown_and_says_why(break_it: Any, facts: Sequence[str]) -> None:
    scene, clusters = world()
    break_it(clusters)
    found = one(scene, clusters, intent())
    assert (found.result, found.evidence) == ("unknown", ())
    assert mentions(found.message, *facts) and found.message.isprintable() and "\n" not in found.message


def test_half_an_answer_still_counts() -> None:
    scene, clusters = world()
    clusters["c2"].flows = lambda command: ExecResult(stdout=f"{DELIVERED}\n{DENIED[:50]}", stderr="", exit_code=-1)
    assert one(scene, clusters, intent()).result == "proven"


def test_without_the_policy_nothing_is_claimed() -> None:
    scene, clusters = world(intents=("another",), seen=DELIVERED)
    found = one(scene, clusters, intent())
    assert found.result == "unknown" and mentions(found.message, "c1 -> c2", "policy")


def test_a_member_without_an_answer_leaves_the_whole_unproven() -> None:
    scene, clusters = world(members=("c3",), seen=DELIVERED)
    wanted = intent(destination=PodSelection(namespace="production", labels={"app": "backend"}, clusters=("c2", "c3")))
    found = one(scene, clusters, wanted)
    assert found.result == "unknown" and mentions(found.message, "c1 -> c3", "c1 -> c2")


def test_clusters_without_pods_of_a_side_are_left_out() -> None:
    scene, clusters = world(seen=DELIVERED)
    everywhere = intent(source=PodSelection(namespace="production", labels={"app": "frontend"}))
    assert one(scene, clusters, everywhere).result == "proven"
    empty = intent(destination=PodSelection(namespace="production", labels={"app": "nobody"}))
    assert mentions(one(scene, clusters, empty).message, "no pod", "destination")


# Jobs


@one_test(
    "action end phase result fact",
    ("Allow", (0, ""), "Connected", "proven", "connection"),
    ("Allow", (1, "timeout after 4"), "Connected", "refuted", "timed out"),
    ("Allow", (1, "timeout after 4"), "", "unknown", "link"),
    ("Allow", (1, "refused after 1"), "Connected", "unknown", "refuses"),
    ("Allow", (1, "No route to host\nother after 4"), "Connected", "unknown", "No route to host other after 4"),
    ("Deny", (0, ""), "Connected", "refuted", "connection"),
    ("Deny", (1, "timeout after 1"), "Connected", "unknown", "no proof"),
)
def test_without_hubble_one_job_tries(action: str, end: tuple[int, str], phase: str, result: str, fact: str) -> None:
    scene, clusters = world(hubble=False, phase=phase, job_ends=(end,))
    found = one(scene, clusters, intent(action, probe=IMAGE))
    assert (found.result, found.method) == (result, "job")
    assert mentions(found.message, fact)
    (line,) = found.evidence
    assert "-> production/backend-1 in c2 10.2.0.20:8080: " in line
    assert len(clusters["c1"].made) == 1 and not clusters["c1"].jobs and not clusters["c2"].made


def test_a_link_that_is_not_ready_explains_a_timeout() -> None:
    scene, clusters = world(hubble=False, link_errors={("c2", "c1"): "tls: bad certificate"}, job_ends=((1, "timeout after 4"),))
    assert one(scene, clusters, intent(probe=IMAGE)).result == "unknown"


def test_the_flows_that_a_job_makes_are_the_proof_of_a_denial() -> None:
    scene, clusters = world(job_ends=((1, "timeout after 1"),))
    probe = side("c1", "front-to-back-x", app="frontend")

    def seen(command: Sequence[str]) -> ExecResult:
        lines = flow("DROPPED", kind="drop", time=SEEN, source=probe) if clusters["c1"].made else ""
        return ExecResult(stdout=lines, stderr="", exit_code=0)

    clusters["c2"].flows = seen
    found = one(scene, clusters, intent("Deny", probe=IMAGE))
    assert (found.result, found.method) == ("proven", "job") and mentions(found.message, "c1 -> c2", "denied")
    assert len(found.evidence) == 2


def test_a_reset_is_decided_by_what_hubble_saw() -> None:
    scene, clusters = world(job_ends=((1, "refused after 1"),))
    clusters["c2"].flows = lambda command: ExecResult(stdout=DELIVERED if clusters["c1"].made else "", stderr="", exit_code=0)
    assert one(scene, clusters, intent(probe=IMAGE)).result == "proven"
    clusters["c1"].made.clear()
    assert one(scene, clusters, intent("Deny", probe=IMAGE)).result == "refuted"


def test_packets_that_arrive_without_an_answer_are_no_reachability() -> None:
    scene, clusters = world(phase="", job_ends=((1, "timeout after 4"),))
    clusters["c2"].flows = lambda command: ExecResult(stdout=DELIVERED if clusters["c1"].made else "", stderr="", exit_code=0)
    found = one(scene, clusters, intent(probe=IMAGE))
    assert found.result == "refuted" and mentions(found.message, "c1 -> c2", "no answer")


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({"probe": {}}, ("image",)),
        ({"probe": {**IMAGE, "method": "hubble"}}, ("method hubble",)),
        ({"ports": (PortRule(protocol="UDP", port=53),)}, ("TCP",)),
        ({"action": "Isolate", "source": None, "ports": ()}, ("Isolate", "source")),
    ],
)
def test_where_no_job_may_be_made_none_is(fields: dict[str, Any], facts: Sequence[str]) -> None:
    scene, clusters = world(hubble=False)
    found = one(scene, clusters, intent(**{"probe": IMAGE, **fields}))
    assert found.result == "unknown" and mentions(found.message, *facts, "Hubble", "c2")
    assert not clusters["c1"].made


def test_method_job_does_not_ask_for_flows_first() -> None:
    scene, clusters = world(seen=DENIED)
    found = one(scene, clusters, intent(probe={**IMAGE, "method": "job"}))
    assert (found.result, len(clusters["c1"].made)) == ("proven", 1)


def test_a_source_by_expressions_needs_a_pod_whose_labels_can_be_taken() -> None:
    scene, clusters = world(hubble=False)
    by_expression = PodSelection(namespace="production", expressions=(LabelRequirement(key="app", operator="In", values=("frontend",)),))
    wanted = intent(source=replace(by_expression, clusters=("c1",)), probe=IMAGE)
    assert one(scene, clusters, wanted).result == "proven"
    assert clusters["c1"].made[0]["spec"]["template"]["metadata"]["labels"]["app"] == "frontend"
    clusters["c1"].pods.clear()
    clusters["c1"].made.clear()
    found = one(scene, clusters, wanted)
    assert mentions(found.message, "source", "c1", "labels") and not clusters["c1"].made
    assert one(scene, clusters, intent(probe=IMAGE)).result == "proven"


@pytest.mark.parametrize(
    "pods",
    [
        [],
        [pod_object("backend-1", ready=False)],
        [pod_object("backend-1", address="10.2.0.20; rm")],
        [pod_object("backend-1", spec={"hostNetwork": True})],
    ],
)
def test_only_a_ready_pod_with_an_identity_of_its_own_is_tried(pods: list[Any]) -> None:
    scene, clusters = world(hubble=False)
    clusters["c2"].pods = pods
    found = one(scene, clusters, intent(probe=IMAGE))
    assert mentions(found.message, "no ready pod", "c2") and not clusters["c1"].made


def test_no_job_is_made_where_a_service_would_send_it_traffic() -> None:
    scene, clusters = world(hubble=False)
    clusters["c1"].services = [{"metadata": {"name": "peers"}, "spec": {"publishNotReadyAddresses": True, "selector": {"app": "frontend"}}}]
    found = one(scene, clusters, intent(probe=IMAGE))
    assert mentions(found.message, "Service peers") and not clusters["c1"].made


def test_no_job_is_made_among_more_services_than_are_looked_at() -> None:
    scene, clusters = world(hubble=False)
    clusters["c1"].services = [{"metadata": {"name": f"shop-{n}"}, "spec": {"selector": {"app": "shop"}}} for n in range(600)]
    found = one(scene, clusters, intent(probe=IMAGE))
    assert mentions(found.message, "production", "500 Services") and not clusters["c1"].made


def test_a_job_without_an_end_is_deleted_and_unknown() -> None:
    scene, clusters = world(hubble=False, job_ends=None)
    limits = replace(QUICK, per_intent=1.0)
    found = one(scene, clusters, intent(probe=IMAGE), limits=limits)
    assert found.result == "unknown" and mentions(found.message, "c1 -> c2", "no pod", "Job")
    assert len(clusters["c1"].made) == 1 and not clusters["c1"].jobs


def test_a_job_that_cannot_be_deleted_is_reported() -> None:
    scene, clusters = world(hubble=False)
    clusters["c1"].fail["delete jobs"] = Forbidden("RBAC forbids to delete jobs (403).", cluster="c1")
    found = one(scene, clusters, intent(probe=IMAGE))
    assert (found.result, found.code) == ("proven", "CM-REACH-04")


def test_missing_rights_are_unknown_with_the_right_in_the_message() -> None:
    scene, clusters = world(hubble=False)
    clusters["c1"].fail["create jobs"] = Forbidden("RBAC forbids to create jobs (403).", cluster="c1")
    found = one(scene, clusters, intent(probe=IMAGE))
    assert found.result == "unknown" and mentions(found.message, "RBAC forbids to create jobs (403)")


def test_what_a_killed_run_left_is_swept_and_a_young_job_is_another_runs() -> None:
    scene, clusters = world(hubble=False)
    clusters["c1"].fail["delete jobs"] = Unreachable("gone", cluster="c1")
    one(scene, clusters, intent(probe=IMAGE))
    clusters["c1"].fail.clear()
    assert len(clusters["c1"].jobs) == 1
    found = one(scene, clusters, intent(probe=IMAGE))
    assert found.result == "unknown" and mentions(found.message, "another run")
    (left,) = clusters["c1"].jobs.values()
    left["metadata"]["creationTimestamp"] = "2026-09-01T11:00:00Z"
    assert one(scene, clusters, intent(probe=IMAGE)).result == "proven"
    assert not clusters["c1"].jobs


def test_a_foreign_job_of_the_same_name_is_left_alone() -> None:
    scene, clusters = world(hubble=False)
    one(scene, clusters, intent(probe=IMAGE))
    (made,) = clusters["c1"].made
    foreign = {"metadata": {"name": made["metadata"]["name"], "uid": "theirs", "creationTimestamp": "2026-09-01T11:00:00Z", "labels": {}}}
    path = f"/apis/batch/v1/namespaces/production/jobs/{made['metadata']['name']}"
    clusters["c1"].jobs[path] = foreign
    clusters["c1"].list = lambda path, **_options: [] if path.endswith("/jobs") else FakeCluster.list(clusters["c1"], path, **_options)
    found = one(scene, clusters, intent(probe=IMAGE))
    assert found.result == "unknown" and clusters["c1"].jobs == {path: foreign}


# Intervals and limits


def test_within_the_interval_the_earlier_answer_is_kept_and_nothing_is_asked() -> None:
    scene, clusters = world(seen=DELIVERED)
    first = one(scene, clusters, intent())
    clusters["c2"].asked.clear()
    kept = one(scene, clusters, intent(), now=NOW + timedelta(seconds=59), previous={NAME: first.to_dict()})
    assert kept == replace(first, kept=True) and not clusters["c2"].asked
    assert kept.to_dict() == first.to_dict()
    again = one(scene, clusters, intent(), now=NOW + timedelta(seconds=60), previous={NAME: first.to_dict()})
    assert again.time == NOW + timedelta(seconds=60)
    changed = one(scene, clusters, intent(), previous={NAME: first.to_dict()}, changed=(NAME,))
    assert not changed.kept


@one_test(
    "previous",
    {"lastProbeTime": "2026-09-01T12:00:30Z", "success": True, "message": "probe not yet implemented; reporting apply status as proxy"},
    {"lastProbeTime": "2026-09-01T12:00:30Z", "success": True, "result": "refuted"},
    {"lastProbeTime": "2026-09-01T12:00:30Z", "result": "proven"},
    {"lastProbeTime": "soon", "success": True, "result": "proven"},
    {"lastProbeTime": 7, "result": ["proven"]},
    {},
)
def test_an_earlier_answer_that_cannot_be_one_of_ours_is_not_kept(previous: dict[str, Any]) -> None:
    scene, clusters = world()
    found = one(scene, clusters, intent(), now=NOW + timedelta(seconds=31), previous={NAME: previous})
    assert (found.result, found.kept) == ("unknown", False)


def test_more_intents_than_the_limit_are_left_out_and_come_first_in_the_next_run() -> None:
    names = [f"intent-{n}" for n in range(5)]
    scene, clusters = world(intents=names, seen=DELIVERED)
    limits = replace(QUICK, intents=3)
    wanted = [intent(name=name) for name in names]
    first = run(scene, clusters, *wanted, limits=limits)
    assert [found.result for found in first.values()] == ["proven"] * 3 + ["unknown"] * 2
    assert [found.code for found in first.values()] == [""] * 3 + ["CM-REACH-03"] * 2
    assert mentions(first["intent-4"].message, "3 intents") and "lastProbeTime" not in first["intent-4"].to_dict()
    later = NOW + timedelta(minutes=2)
    second = run(scene, clusters, *wanted, limits=limits, now=later, previous={name: found.to_dict() for name, found in first.items()})
    assert [found.time == later for found in second.values()] == [True, False, False, True, True]
    assert [found.result for found in second.values()] == ["proven"] * 5
    assert [found.code for found in second.values()] == ["", "CM-REACH-03", "CM-REACH-03", "", ""]


def test_a_probe_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, clusters = world()
    said_so: list[str] = []
    noted = ProbeContext.note

    def note(context: ProbeContext, name: str, what: str) -> None:
        noted(context, name, what)
        said_so.append(context.oldest())

    monkeypatch.setattr(ProbeContext, "note", note)
    one(scene, clusters, intent(), **IMAGE)
    asked = [f"{NAME} asks agents of {host} for flows" for host in ("c2", "c1")]
    assert said_so == [f"{NAME} reads its pods", *asked, f"{NAME} waits for its Job in c1", *asked]


def test_probes_that_are_over_are_counted() -> None:
    names = [f"intent-{n}" for n in range(3)]
    scene, clusters = world(intents=names)
    seen: list[Tally] = []
    run(scene, clusters, *(intent(name=name) for name in names), progress=seen.append)
    assert seen[-1] == Tally(3, 3)


def test_clusters_that_answered_for_flows_are_counted() -> None:
    scene, clusters = world()
    seen: list[Tally] = []
    read_seen_flows({"c2": [intent().destination]}, scene, ClusterEvidence(clusters, real_clocks()), now=NOW, progress=seen.append)
    assert seen[-1] == Tally(1, 1)


def test_when_time_is_up_the_rest_is_left_out() -> None:
    scene, clusters = world()
    found = one(scene, clusters, intent(), limits=replace(QUICK, total=0.0))
    assert (found.result, found.code, clusters["c2"].commands) == ("unknown", "CM-REACH-03", [])


def test_only_enabled_probes_are_run() -> None:
    scene, clusters = world()
    off = intent(probe={})
    off = replace(off, probe=replace(off.probe, enabled=False))
    assert run(scene, clusters, off) == {} and not clusters["c2"].asked


def test_one_run_reads_each_thing_once() -> None:
    names = [f"intent-{n}" for n in range(4)]
    scene, clusters = world(intents=names, seen=DELIVERED)
    run(scene, clusters, *[intent(name=name) for name in names])
    asked = clusters["c2"].asked
    assert (asked.count("exec pods"), asked.count("list pods"), len(asked)) == (4, 4 + 1, 9)


def test_pods_that_could_not_be_read_are_no_reason_to_leave_a_pair_out() -> None:
    scene, clusters = world(seen=DELIVERED)
    policies = scene.traffic["c1"].policies

    def with_pods_of_c1(**fields: Any) -> Scene:
        return replace(scene, traffic={**scene.traffic, "c1": traffic("c1", policies=policies, **fields)})

    other = with_pods_of_c1(pods=(pod("other-1", app="other"),))
    assert mentions(one(other, clusters, intent()).message, "no pod", "source")
    unread = with_pods_of_c1(unread=(Unread(what="pods", message="RBAC forbids it.", remedy="Grant it."),))
    assert one(unread, clusters, intent()).result == "proven"


def test_nothing_is_started_beside_the_cluster_itself() -> None:
    """A user who may write an intent chooses image, command and namespace: in kube-system that would be a way into the cluster."""
    scene, clusters = world(hubble=False)
    wanted = intent(probe=IMAGE, source=PodSelection(namespace="kube-system", labels={"k8s-app": "kube-dns"}, clusters=("c1",)))
    dns = traffic("c1", policies=scene.traffic["c1"].policies, pods=(pod("dns-1", namespace="kube-system", k8s_app="kube-dns"),))
    found = one(replace(scene, traffic={**scene.traffic, "c1": dns}), clusters, wanted)
    assert found.result == "unknown" and mentions(found.message, "kube-system")
    assert not clusters["c1"].made

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a user reads in the status: stages of links, phases, conditions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.heartbeat import ControllerProof, ProofVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import LinkFacts, ReaderFacts, WriterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_stage import LinkStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import (
    build_status,
    earlier_binding,
    link_stage,
    link_states,
)
from tests.testing import outages
from tests.testing.facts_builders import (
    NOW,
    SYNCED,
    cluster_facts,
    failure,
    key_facts,
    link_facts,
    mesh_of,
    not_ready,
    peer_secret,
    reader_facts,
)
from tests.testing.rows import alike, in_one_test, one_test

READY = link_facts("c1", "c2")
DOWN = not_ready(READY)
MESH = mesh_of("c1", "c2")
FACTS = {"c1": cluster_facts("c1"), "c2": cluster_facts("c2")}
READERS = {"c1": reader_facts("c1", ["c2"]), "c2": reader_facts("c2", ["c1"])}
LINKED = {
    host: replace(facts, kvstoremesh=peer_secret("cilium-kvstoremesh", {peer: key_facts("x")}))
    for host, peer, facts in (("c1", "c2", FACTS["c1"]), ("c2", "c1", FACTS["c2"]))
}


def changed(reader: ReaderFacts, which: str, **values: Any) -> ReaderFacts:
    """Every link of the readers of one kind, changed."""
    return replace(reader, links=tuple(replace(x, **values) if x.reader == which else x for x in reader.links))


@one_test(
    "link stage",
    *alike(LinkStage.READY, READY, replace(READY, config_required=False, config_retrieved=False)),
    (replace(READY, source="metrics", config_required=None, config_retrieved=None, synced={}), LinkStage.READY),
    (replace(READY, source=""), LinkStage.UNKNOWN),
    (replace(DOWN, source="metrics", status=""), LinkStage.UNKNOWN),
    (LinkFacts(cluster="c1", peer="c2", reader="agent", pod="p", source="exec"), LinkStage.SECRET_NOT_PROJECTED),
    (replace(DOWN, stage_hint="secret_not_projected"), LinkStage.SECRET_NOT_PROJECTED),
    *alike(LinkStage.DIALLING, DOWN, replace(DOWN, error="dial tcp 192.0.2.2:2379: connect: connection refused")),
    *alike(LinkStage.DIALLING, replace(DOWN, stage_hint="dialling", error="x509"), replace(DOWN, stage_hint="ready")),
    (replace(DOWN, stage_hint="nonsense"), LinkStage.DIALLING),
    (replace(DOWN, error="remote error: tls: bad certificate"), LinkStage.TLS),
    *alike(LinkStage.TLS, replace(DOWN, status="x509: certificate signed by unknown authority"), replace(DOWN, stage_hint="tls")),
    (replace(DOWN, error="etcdserver: permission denied"), LinkStage.AUTHORISATION),
    (replace(DOWN, connected=True, error="etcdserver: permission denied"), LinkStage.AUTHORISATION),
    (replace(DOWN, connected=True, stage_hint="tls"), LinkStage.RETRIEVING_CONFIGURATION),
    (replace(DOWN, connected=True, config_required=True, config_retrieved=False), LinkStage.RETRIEVING_CONFIGURATION),
    (replace(READY, config_required=True, config_retrieved=False), LinkStage.RETRIEVING_CONFIGURATION),
    (replace(READY, config_required=None, config_retrieved=None, synced={}), LinkStage.RETRIEVING_CONFIGURATION),
    (replace(READY, synced={**SYNCED, "services": False}), LinkStage.SYNCHRONISING),
    *alike(LinkStage.SYNCHRONISING, replace(READY, ready=False, synced={**SYNCED, "nodes": False}), replace(READY, ready=False)),
)
def test_the_stage_follows_what_the_reader_says(link: LinkFacts, stage: LinkStage) -> None:
    assert link_stage(link) is stage


@given(
    st.builds(
        LinkFacts,
        cluster=st.just("c1"),
        peer=st.just("c2"),
        reader=st.sampled_from(["kvstoremesh", "agent"]),
        pod=st.just("p"),
        known=st.just(True),
        ready=st.just(True),
        connected=st.booleans(),
        status=st.text(max_size=20),
        config_required=st.booleans(),
        config_retrieved=st.just(True),
        synced=st.just(SYNCED),
        stage_hint=st.sampled_from(["", *LinkStage, "other"]),
        error=st.text(max_size=20),
        source=st.sampled_from(["metrics", "exec", "port-forward"]),
    )
)
def test_ready_is_never_said_without_proof(whole: LinkFacts) -> None:
    """Whatever else a reader says, a part of the proof that is missing keeps the link from being ready."""
    assert link_stage(whole) is LinkStage.READY
    missing: list[dict[str, Any]] = [{"source": ""}, {"known": False}, {"ready": False}]
    missing += [{"synced": {**SYNCED, kind: False}} for kind in SYNCED]
    for part in missing:
        assert link_stage(replace(whole, **part)) is not LinkStage.READY, part


def test_a_link_has_the_stage_of_the_reader_that_is_furthest_behind() -> None:
    reader = changed(READERS["c1"], "agent", ready=False, connected=True, config_retrieved=False)
    (state, _) = link_states(MESH, {**READERS, "c1": reader}, facts=FACTS)
    assert (state.stage, state.reader, state.nodes_ready) == (LinkStage.RETRIEVING_CONFIGURATION, "agent", 0)
    links = (not_ready(READY, error="connection refused"), *reader.links[1:])
    (state, _) = link_states(MESH, {**READERS, "c1": replace(reader, links=links)}, facts=FACTS)
    assert (state.stage, state.reader, state.error) == (LinkStage.DIALLING, "kvstoremesh", "connection refused")


def test_an_agent_that_is_behind_is_named_by_its_node() -> None:
    links = list(READERS["c1"].links)
    links[2] = not_ready(links[2])
    (state, _) = link_states(MESH, {**READERS, "c1": replace(READERS["c1"], links=tuple(links))}, facts=FACTS)
    assert state.error == "node c1-n2: Waiting for initial connection to be established"
    assert (state.nodes_ready, state.nodes_asked, state.nodes_total) == (1, 2, 2)


def test_what_is_not_synchronised_is_named() -> None:
    reader = changed(READERS["c1"], "kvstoremesh", synced={**SYNCED, "services": False, "nodes": False})
    assert link_states(MESH, {"c1": reader})[0].error == "not synchronised: nodes, services"


@in_one_test
@pytest.mark.parametrize(
    ("reader", "who", "why"),
    [
        (ReaderFacts(cluster="c1", agents_total=2), "", "no reader in c1 could be queried"),
        (ReaderFacts(cluster="c1", problems=("pods: 403.",)), "", "pods: 403."),
        (replace(READERS["c1"], links=READERS["c1"].links[1:], problems=("No pod runs.",)), "kvstoremesh", "No pod runs."),
        (replace(READERS["c1"], links=READERS["c1"].links[:2], problems=("exec: 403.",)), "agent", "exec: 403."),
        (replace(READERS["c1"], links=READERS["c1"].links[:1], agents_asked=0), "agent", "an agent was not queried"),
    ],
)
@pytest.mark.parametrize("facts", [FACTS, None])
def test_a_reader_that_was_not_asked_is_not_ready(reader: ReaderFacts, who: str, why: str, facts: Any) -> None:
    state = link_states(MESH, {**READERS, "c1": reader}, facts=facts)[0]
    assert (state.stage, state.ready, state.reader, state.error) == (LinkStage.UNKNOWN, False, who, why)


def test_a_kvstoremesh_that_says_nothing_is_missed_when_it_is_known_to_run() -> None:
    reader = replace(READERS["c1"], links=READERS["c1"].links[1:])
    assert link_states(MESH, {"c1": reader}, facts=FACTS)[0].stage is LinkStage.UNKNOWN
    without = {**FACTS, "c1": cluster_facts("c1", kvstoremesh=False)}
    assert link_states(MESH, {"c1": reader}, facts=without)[0].stage is LinkStage.READY


def test_a_sample_of_agents_is_enough_and_is_shown_as_one() -> None:
    (state, _) = link_states(MESH, {"c1": replace(READERS["c1"], agents_total=100)}, facts=FACTS)
    assert (state.ready, state.nodes_ready, state.nodes_asked, state.nodes_total) == (True, 2, 2, 100)


def test_in_a_large_cluster_ready_nodes_are_all_that_are_ready_and_the_status_says_how_many_were_asked() -> None:
    sampled = replace(READERS["c1"], agents_total=100, agents_asked=2, agents_ready=2, agents_unasked=98)
    row = build_status(MESH, FACTS, {}, {**READERS, "c1": sampled}, now=NOW)["meshStatus"][0]
    assert (row["readyNodes"], row["askedNodes"], row["totalNodes"]) == (100, 2, 100)
    half = replace(sampled, links=tuple(not_ready(x) if x.pod == "cilium-c1-1" else x for x in sampled.links))
    row = build_status(MESH, FACTS, {}, {**READERS, "c1": half}, now=NOW)["meshStatus"][0]
    assert (row["readyNodes"], row["askedNodes"], row["totalNodes"]) == (50, 2, 100)
    none = replace(sampled, links=tuple(not_ready(x) if x.reader == "agent" else x for x in sampled.links))
    assert build_status(MESH, FACTS, {}, {**READERS, "c1": none}, now=NOW)["meshStatus"][0]["readyNodes"] == 0


def test_agents_that_are_not_ready_do_not_make_those_count_less_that_were_not_asked() -> None:
    """Of 100 agents five are not ready: all five are in the sample, and the 80 that are not are as the 15 ready ones of it."""
    links = [link_facts("c1", "c2", reader="agent", pod=f"p{i}", node=f"n{i}") for i in range(20)]
    links = [not_ready(link) if i < 5 else link for i, link in enumerate(links)]
    reader = ReaderFacts(cluster="c1", links=tuple(links), agents_total=100, agents_asked=20, agents_ready=15, agents_unasked=80)
    row = build_status(MESH, FACTS, {}, {"c1": reader}, now=NOW)["meshStatus"][0]
    assert (row["readyNodes"], row["askedNodes"], row["totalNodes"]) == (95, 20, 100)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 5000), st.integers(0, 40))
def test_ready_nodes_are_never_more_than_there_are(ready: int, behind: int, unasked: int, pods_ready: int) -> None:
    asked = ready + behind
    links = [link_facts("c1", "c2", reader="agent", pod=f"p{i}", node=f"n{i}") for i in range(asked)]
    links = [link if i < ready else not_ready(link) for i, link in enumerate(links)]
    reader = ReaderFacts(
        cluster="c1",
        links=tuple(links),
        agents_total=asked + unasked,
        agents_asked=asked,
        agents_ready=min(pods_ready, asked),
        agents_unasked=unasked,
    )
    row = build_status(MESH, FACTS, {}, {"c1": reader}, now=NOW)["meshStatus"][0]
    assert ready <= row["readyNodes"] <= row["totalNodes"] == asked + unasked
    assert behind or not reader.agents_ready or row["readyNodes"] == row["totalNodes"]


def test_each_link_counts_what_has_arrived_by_the_agent_that_has_least() -> None:
    counts = {"nodes": 3, "services": 2, "endpoints": 40, "identities": 7}
    reader = changed(READERS["c1"], "agent", arrived=counts)
    late = {**counts, "endpoints": 39}
    links = tuple(replace(x, arrived=late) if x.pod == "cilium-c1-2" else x for x in reader.links)
    status = build_status(MESH, FACTS, {}, {**READERS, "c1": replace(reader, links=links)}, now=NOW)
    assert status["links"][0]["arrived"] == late
    assert "arrived" not in status["links"][1]
    by_kvstoremesh = changed(READERS["c2"], "kvstoremesh", arrived=counts)
    assert build_status(MESH, FACTS, {}, {**READERS, "c2": by_kvstoremesh}, now=NOW)["links"][1]["arrived"] == counts


def test_the_status_of_a_connected_mesh_is_that_of_the_custom_resource() -> None:
    status = build_status(MESH, FACTS, {}, READERS, now=NOW, generation=4)
    assert status["phase"] == "Connected"
    assert status["observedGeneration"] == 4
    assert status["lastSyncTime"] == "2026-09-01T12:00:00Z"
    row = {"clusterName": "c2", "clusterId": 2, "connected": True, "readyNodes": 2, "totalNodes": 2}
    assert row.items() <= status["meshStatus"][1].items()
    connected = status["conditions"][0]
    assert (connected["type"], connected["status"], connected["reason"]) == ("MeshConnected", "True", "MeshEstablished")
    assert connected["message"] == "Mesh established between 2 clusters"
    assert status["links"][0] == {
        "cluster": "c1",
        "peer": "c2",
        "stage": "ready",
        "ready": True,
        "reader": "kvstoremesh",
        "error": "",
        "nodesReady": 2,
        "nodesAsked": 2,
        "nodesTotal": 2,
        "proof": "unknown",
        "proofNote": "",
        "lastProof": None,
    }
    assert "observedGeneration" not in build_status(MESH, FACTS, {}, READERS, now=NOW)


ALL_DOWN = {h: replace(r, links=tuple(not_ready(x) for x in r.links)) for h, r in READERS.items()}
NOT_KNOWN = {h: replace(r, links=tuple(not_ready(x, known=False) for x in r.links)) for h, r in READERS.items()}
BLOCKS = (Finding(code="CM-ID-03", severity=Severity.BLOCKING, cluster="c1", summary="s"),)
GONE = {"c2": failure("c2")}
ALIVE = {"c1": FACTS["c1"]}


WRITTEN = {
    host: replace(facts, writers={"Secret cilium-kvstoremesh": (WriterFacts(manager="m", operation="Apply", time="2026-09-01T11:40:00Z"),)})
    for host, facts in LINKED.items()
}
"""Links that were written twenty minutes ago."""


@given(st.lists(outages.STEPS, max_size=30), outages.AGES, st.sampled_from(["status", "remembered", "connect"]))
def test_the_phase_never_gets_milder_as_an_outage_is_confirmed(steps: list[tuple[str, str] | str], age: timedelta | None, run: str) -> None:
    """Measured by runs that know nothing of each other, by such that do, and by runs of connect that find nothing to write."""
    outage = outages.Outage(outages.linked_clusters(age))
    how: dict[str, Any] = {"written": True, "idle": True} if run == "connect" else {}
    statuses = [outage.measured(**how)]
    for step in steps:
        outage.grow(step)
        statuses.append(outage.measured(previous=statuses[-1] if run == "remembered" else None, **how))
    phases = [status["phase"] for status in statuses]
    assert phases[0] == "Connected"
    assert phases == sorted(phases, key=outages.SEVERITY.__getitem__)


@one_test(
    "losses said",
    ((0, 0), " (its mesh endpoint is alive: c1 and c3 read from it)"),
    ((0, 2), " (its mesh endpoint is alive: c1 reads from it)"),
    ((1, 2), " (its mesh endpoint does not answer c1 and c3 either)"),
    ((4, 4), ""),
)
def test_of_a_member_whose_api_server_is_silent_the_status_says_whether_its_mesh_endpoint_lives(losses: tuple[int, int], said: str) -> None:
    outage = outages.Outage(outages.linked_clusters(None), silent={"c2"})
    outage.losses |= {("c1", "c2"): losses[0], ("c3", "c2"): losses[1]}
    alive = [cluster for cluster, loss in zip(("c1", "c3"), losses, strict=True) if not loss]
    proofs = {(cluster, "c2"): ControllerProof(cluster=cluster, peer="c2", verdict=ProofVerdict.PROVEN) for cluster in alive}
    status = outage.measured(proofs=proofs)
    messages = {row["message"] for row in status["conditions"] if row["type"] != "NodesReachable"}
    assert messages == {f"c2: the API server does not answer{said}"}


def test_that_a_reader_says_ready_is_no_proof_that_a_mesh_endpoint_is_alive() -> None:
    status = outages.Outage(outages.linked_clusters(None), silent={"c2"}).measured()
    assert status["links"][0]["ready"] and "mesh endpoint" not in str(status["conditions"])


def test_of_a_member_in_which_a_write_failed_nothing_is_said_about_its_mesh_endpoint() -> None:
    readers = {**READERS, "c1": changed(READERS["c1"], "kvstoremesh", proof="proven")}
    status = build_status(MESH, FACTS, {"c2": replace(failure("c2"), writing=True)}, readers, now=NOW)
    assert status["links"][0]["proof"] == "proven" and "mesh endpoint" not in str(status["conditions"])


@one_test("loss", 2, 3, 4)
def test_records_of_a_peer_that_is_not_reached_say_that_the_link_worked_whenever_it_was_written(loss: int) -> None:
    just = outages.linked_clusters(timedelta(minutes=1))
    lost = outages.Outage(just, losses=dict.fromkeys(outages.MESH.links, loss))
    assert lost.measured()["phase"] == "Degraded"
    assert lost.measured(written=True)["phase"] == "Connecting", "the run changed these links"
    coming = {host: outages.reader_of(host, lost.losses, arrived={}) for host in just}
    assert build_status(outages.MESH, just, {}, coming, now=NOW)["phase"] == "Connecting"


def test_links_that_were_just_written_are_still_on_their_way() -> None:
    assert build_status(MESH, WRITTEN, {}, NOT_KNOWN, now=NOW)["phase"] == "Degraded"
    assert build_status(MESH, WRITTEN, {}, NOT_KNOWN, now=NOW, written=True)["phase"] == "Connecting"
    assert build_status(MESH, WRITTEN, {}, NOT_KNOWN, now=NOW - timedelta(minutes=15))["phase"] == "Connecting"
    assert build_status(MESH, LINKED, {}, NOT_KNOWN, now=NOW)["phase"] == "Connecting", "the time of the write is not known"


def test_a_link_whose_copy_agents_still_have_was_lost_and_not_made() -> None:
    readers = {a: outages.reader_of(a, {(a, b): 2}, arrived={}) for a, b in MESH.links}
    assert build_status(MESH, LINKED, {}, readers, now=NOW)["phase"] == "Degraded"
    fresh = build_status(MESH, WRITTEN, {}, readers, now=NOW - timedelta(minutes=19))
    assert fresh["phase"] == "Connecting", "agents are read after kvstoremesh, which may have come up in between"
    new = {a: outages.reader_of(a, {(a, b): 3}, arrived={}) for a, b in MESH.links}
    assert build_status(MESH, LINKED, {}, new, now=NOW)["phase"] == "Connecting"


@one_test(
    "facts failures readers more phase reason",
    (FACTS, {}, READERS, {}, "Connected", "MeshEstablished"),
    (FACTS, {}, NOT_KNOWN, {}, "Pending", "NotYetConnected"),
    (FACTS, {}, {}, {}, "Pending", "NotYetConnected"),
    (FACTS, {}, NOT_KNOWN, {"written": True}, "Connecting", "LinksNotReady"),
    (LINKED, {}, NOT_KNOWN, {}, "Connecting", "LinksNotReady"),
    (FACTS, {}, ALL_DOWN, {}, "Connecting", "LinksNotReady"),
    (FACTS, {}, ALL_DOWN, {"previous": {"phase": "Connecting"}}, "Connecting", "LinksNotReady"),
    (FACTS, {}, ALL_DOWN, {"previous": {"phase": "Connected"}}, "Degraded", "LinksNotReady"),
    (FACTS, {}, {**READERS, "c1": ALL_DOWN["c1"]}, {}, "Degraded", "LinksNotReady"),
    (FACTS, {}, READERS, {"findings": BLOCKS}, "Error", "PrerequisiteNotMet"),
    (FACTS, {}, READERS, {"findings": BLOCKS, "previous": {"phase": "Error"}}, "Error", "PrerequisiteNotMet"),
    (FACTS, {}, READERS, {"findings": (replace(BLOCKS[0], accepted=True),)}, "Connected", "MeshEstablished"),
    (FACTS, {}, {**READERS, "c1": ALL_DOWN["c1"]}, {"findings": BLOCKS}, "Degraded", "LinksNotReady"),
    (ALIVE, GONE, {"c1": READERS["c1"]}, {"findings": BLOCKS}, "Degraded", "ClustersUnreachable"),
    (FACTS, {}, NOT_KNOWN, {"findings": BLOCKS}, "Error", "PrerequisiteNotMet"),
    (FACTS, {}, NOT_KNOWN, {"findings": (replace(BLOCKS[0], accepted=True),)}, "Pending", "NotYetConnected"),
    ({}, {**GONE, "c1": failure("c1")}, {}, {}, "Error", "ClustersUnreachable"),
    (ALIVE, GONE, {"c1": NOT_KNOWN["c1"]}, {}, "Error", "ClustersUnreachable"),
    (ALIVE, GONE, {"c1": NOT_KNOWN["c1"]}, {"previous": {"phase": "Connected"}}, "Degraded", "ClustersUnreachable"),
    (ALIVE, GONE, {"c1": ALL_DOWN["c1"]}, {}, "Degraded", "ClustersUnreachable"),
    (ALIVE, GONE, {"c1": READERS["c1"]}, {}, "Degraded", "ClustersUnreachable"),
)
def test_the_phase_says_what_is_known(facts: Any, failures: Any, readers: Any, more: Any, phase: str, reason: str) -> None:
    status = build_status(MESH, facts, failures, readers, now=NOW, **more)
    conditions = {c["type"]: c for c in status["conditions"]}
    assert (status["phase"], conditions["MeshConnected"]["reason"]) == (phase, reason)
    assert set(conditions) == {"MeshConnected", "Ready", "Degraded"}
    assert conditions["Ready"]["status"] == conditions["MeshConnected"]["status"] == str(phase == "Connected")
    assert conditions["Degraded"]["status"] == str(phase == "Degraded")


def test_a_mesh_that_was_connected_and_is_blocked_now_is_degraded_and_reports_by_what() -> None:
    before = build_status(MESH, FACTS, {}, READERS, now=NOW)
    status = build_status(MESH, FACTS, {}, READERS, now=NOW, findings=BLOCKS, previous=before)
    assert status["phase"] == "Degraded"
    conditions = {c["type"]: (c["status"], c["reason"], c["message"]) for c in status["conditions"]}
    why = ("PrerequisiteNotMet", "CM-ID-03 c1: s")
    assert conditions == {"MeshConnected": ("True", *why), "Ready": ("False", *why), "Degraded": ("True", *why)}
    assert status["links"] == before["links"]


def test_a_cluster_that_is_not_reached_is_a_row_without_invented_values() -> None:
    status = build_status(MESH, ALIVE, GONE, {"c1": NOT_KNOWN["c1"]}, now=NOW)
    assert status["meshStatus"][1] == {"clusterName": "c2", "connected": False, "readyNodes": 0, "askedNodes": 0, "totalNodes": 0}
    assert status["links"][1]["stage"] == "unknown"
    assert status["links"][1]["error"] == "c2: the API server does not answer"


def test_a_message_names_the_links_that_are_behind() -> None:
    readers = {**READERS, "c1": replace(READERS["c1"], links=(not_ready(READY, error="connection refused"), *READERS["c1"].links[1:]))}
    message = build_status(MESH, FACTS, {}, readers, now=NOW)["conditions"][0]["message"]
    assert message == "1 of 2 links ready; c1 -> c2 dialling (connection refused)"


def test_the_time_of_a_transition_moves_only_with_the_condition() -> None:
    first = build_status(MESH, FACTS, {}, READERS, now=NOW)
    later = NOW + timedelta(minutes=5)
    same = build_status(MESH, FACTS, {}, READERS, now=later, previous=first)
    assert same["conditions"] == first["conditions"]
    assert same["lastSyncTime"] != first["lastSyncTime"]
    broken = build_status(MESH, FACTS, {}, ALL_DOWN, now=later, previous=first)
    assert {c["lastTransitionTime"] for c in broken["conditions"]} == {"2026-09-01T12:05:00Z"}


def test_a_generation_of_the_binding_is_observed() -> None:
    assert build_status(mesh_of("c1", "c2", generation=7), FACTS, {}, READERS, now=NOW)["observedGeneration"] == 7


def test_of_an_earlier_status_that_is_none_nothing_is_taken() -> None:
    fresh = build_status(MESH, FACTS, {}, READERS, now=NOW)
    proof = {"cluster": "c1", "peer": "c2", "lastProof": {"time": "{{ now }}", "by": "x"}}
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"}
    strange: Any
    for strange in ({"conditions": [condition]}, {"conditions": {"type": "Ready"}, "links": [[], proof]}, {"links": [{"cluster": []}]}):
        assert build_status(MESH, FACTS, {}, READERS, now=NOW, previous=strange) == fresh
    none: Any
    for none in (None, [], {"binding": "x"}, {"phase": "Connected"}):
        assert earlier_binding(none) is None
    assert earlier_binding({"binding": fresh, "globalServices": []}) == fresh


@pytest.mark.parametrize(("was", "phase"), [(None, "Error"), ("Connecting", "Error"), ("Connected", "Degraded"), ("Degraded", "Degraded")])
def test_a_mesh_none_of_whose_clusters_answers_is_degraded_where_it_was_known_to_stand(was: str | None, phase: str) -> None:
    previous = {"phase": was} if was else None
    status = build_status(MESH, {}, {host: failure(host) for host in ("c1", "c2")}, {}, now=NOW, previous=previous)
    assert (status["phase"], status["conditions"][1]["reason"]) == (phase, "ClustersUnreachable")

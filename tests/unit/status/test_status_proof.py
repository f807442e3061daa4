# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the last proof makes of a status: refuted links are not ready, old heartbeats degrade, the unknown changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.heartbeat import ControllerProof, ProofVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ReaderFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import build_status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.wait import WaitResult, wait_for_links
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.report import status_lines
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of, not_ready, reader_facts
from tests.unit.status.test_wait import Time, in_turn

MESH = mesh_of("c1", "c2")
FACTS = {"c1": cluster_facts("c1"), "c2": cluster_facts("c2")}
READERS = {"c1": reader_facts("c1", ["c2"]), "c2": reader_facts("c2", ["c1"])}
BOTH = (("c1", "c2"), ("c2", "c1"))


def proving(reader: ReaderFacts, verdict: str, **more: Any) -> ReaderFacts:
    return replace(reader, links=tuple(replace(x, proof=verdict, **more) if x.reader == "kvstoremesh" else x for x in reader.links))


def refuted(reader: ReaderFacts) -> ReaderFacts:
    return proving(reader, "refuted", stage_hint="tls", error="kvstoremesh still reports ready; a new connection fails: x")


PROVEN = {host: proving(reader, "proven") for host, reader in READERS.items()}


def from_here(verdict: ProofVerdict = ProofVerdict.PROVEN, **heartbeats: datetime) -> dict[tuple[str, str], ControllerProof]:
    """What the controller finds of both links, with the heartbeat of each peer."""
    return {(a, b): ControllerProof(cluster=a, peer=b, verdict=verdict, heartbeat=heartbeats.get(b), note="n") for a, b in BOTH}


def status(readers: Mapping[str, ReaderFacts], **more: Any) -> dict[str, Any]:
    return build_status(MESH, FACTS, {}, readers, now=more.pop("now", NOW), **more)


def reason(found: Mapping[str, Any], kind: str = "Degraded") -> tuple[str, str]:
    return next((row["status"], row["reason"]) for row in found["conditions"] if row["type"] == kind)


def test_a_refuted_link_is_not_ready_whatever_kvstoremesh_says() -> None:
    found = status({**PROVEN, "c1": refuted(READERS["c1"])})
    row = found["links"][0]
    assert (row["ready"], row["stage"], row["reader"], row["proof"], row["lastProof"]) == (False, "tls", "kvstoremesh", "refuted", None)
    assert row["error"].startswith("kvstoremesh still reports ready;")
    assert (found["phase"], reason(found)) == ("Degraded", ("True", "LinksNotReady"))


def test_a_mesh_all_of_whose_links_just_fell_silent_is_degraded_and_not_connecting() -> None:
    assert status({host: refuted(reader) for host, reader in READERS.items()})["phase"] == "Degraded"


def test_a_proof_that_could_not_be_made_leaves_the_link_as_it_is_seen() -> None:
    found = status({host: proving(reader, "unknown", proof_note="no right to exec") for host, reader in READERS.items()})
    row = found["links"][0]
    assert (found["phase"], row["ready"], row["proof"], row["lastProof"]) == ("Connected", True, "unknown", None)
    assert row["proofNote"] == "no right to exec"


def test_the_controller_can_prove_and_what_it_cannot_reach_is_never_bad() -> None:
    proven = status(READERS, proofs=from_here(c1=NOW, c2=NOW - timedelta(seconds=7)))["links"][0]
    assert (proven["proof"], proven["lastProof"]["by"], proven["lastProof"]["heartbeatAgeSeconds"]) == ("proven", "controller", 7)
    away = status(PROVEN, proofs=from_here(ProofVerdict.UNKNOWN))
    assert (away["phase"], away["links"][0]["proof"], away["links"][0]["lastProof"]["by"]) == ("Connected", "proven", "kvstoremesh")


def test_a_proven_peer_that_refuses_the_user_is_about_authorisation() -> None:
    found = status(
        PROVEN, proofs={BOTH[0]: ControllerProof(cluster="c1", peer="c2", verdict=ProofVerdict.REFUTED, note="it does not let us read")}
    )
    row = found["links"][0]
    assert (row["stage"], row["reader"], row["error"]) == ("authorisation", "controller", "it does not let us read")


def test_an_old_heartbeat_degrades_a_mesh_whose_links_are_all_ready() -> None:
    found = status(PROVEN, proofs=from_here(c1=NOW, c2=NOW - timedelta(minutes=4)))
    assert (found["phase"], reason(found), reason(found, "MeshConnected")) == (
        "Degraded",
        ("True", "HeartbeatStale"),
        ("True", "HeartbeatStale"),
    )
    assert "c2 (2026-09-01T11:56:00Z)" in next(row["message"] for row in found["conditions"] if row["type"] == "Ready")
    later = status(PROVEN, proofs=from_here(c1=NOW, c2=NOW - timedelta(minutes=4)), now=NOW + timedelta(minutes=2), previous=found)
    assert later["conditions"] == found["conditions"], "an age would be something new to write at every observation"
    assert all(row["ready"] for row in found["links"])
    assert status(PROVEN, proofs=from_here(c1=NOW, c2=NOW - timedelta(minutes=3)))["phase"] == "Connected"


def test_the_last_proof_of_a_refuted_link_is_that_of_the_status_before() -> None:
    first = status(PROVEN, proofs=from_here(c1=NOW, c2=NOW))
    later = status({host: refuted(reader) for host, reader in READERS.items()}, now=NOW + timedelta(minutes=5), previous=first)
    assert later["links"][0]["lastProof"] == first["links"][0]["lastProof"]


def test_a_person_reads_when_a_link_was_last_proven() -> None:
    text = "\n".join(line.text for line in status_lines("m", status(PROVEN, proofs=from_here(c1=NOW, c2=NOW - timedelta(seconds=12)))))
    assert "now, heartbeat 12 s old" in text
    before = status(PROVEN)
    broken = status({host: refuted(reader) for host, reader in READERS.items()}, previous=before)
    assert "refuted, last 2026-09-01T12:00:00Z" in "\n".join(line.text for line in status_lines("m", broken))


def wait(read: Any, prove: Any, timeout: float = 30.0) -> WaitResult:
    time = Time()
    return wait_for_links(read, MESH, timeout=timeout, clock=time.clock, sleep=time.sleep, prove=prove)


def test_waiting_ends_well_only_when_new_connections_stand() -> None:
    proofs = in_turn({**PROVEN, "c1": refuted(READERS["c1"])}, PROVEN)
    result = wait(in_turn(READERS), proofs)
    assert (result.ready, result.readers) == (True, PROVEN)
    assert result.elapsed > 0


def test_no_reader_is_asked_for_a_proof_before_all_report_ready() -> None:
    down = {host: replace(reader, links=tuple(not_ready(x) for x in reader.links)) for host, reader in READERS.items()}
    asked: list[int] = []

    def prove() -> Mapping[str, ReaderFacts]:
        asked.append(1)
        return PROVEN

    result = wait(in_turn(down, down, READERS), prove)
    assert (result.ready, len(asked)) == (True, 1)


def test_when_time_is_up_what_is_ready_is_proven_too() -> None:
    down = {**READERS, "c1": replace(READERS["c1"], links=tuple(not_ready(x) for x in READERS["c1"].links))}
    half = {**down, "c2": PROVEN["c2"]}
    result = wait(in_turn(down), in_turn(half), timeout=3.0)
    assert (result.ready, result.readers) == (False, half)

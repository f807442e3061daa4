# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The five states of members and links: what was asked for differs from what is broken."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_stage import LinkStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.catalogue import RUN, metrics_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.member_state import MemberState
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.textfile import (
    EarlierStates,
    RunOutcome,
    earlier_states,
    is_own,
    textfile,
)

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)


def binding(links: dict[tuple[str, str], str], phase: str = "Degraded", **more: Any) -> dict[str, Any]:
    members = sorted({name for link in links for name in link})
    rows = [{"cluster": a, "peer": b, "stage": stage, "ready": stage == "ready", **more} for (a, b), stage in links.items()]
    return {"phase": phase, "meshStatus": [{"clusterName": name} for name in members], "links": rows}


def both_ways(a: str, b: str, stage: str) -> dict[tuple[str, str], str]:
    return {(a, b): stage, (b, a): stage}


class File:
    """The file of one playbook, from run to run."""

    def __init__(self) -> None:
        self.text = ""

    def run(self, status: dict[str, Any] | None, *, success: bool = True, findings: Any = (), **more: Any) -> EarlierStates:
        result = {"status": {"binding": status}, "findings": list(findings), "requeueSeconds": 60}
        outcome = RunOutcome(mesh="eu", run="mesh", now=NOW, success=success, carried_out=True, **more)
        self.text = textfile(result, outcome, earlier_states(self.text, "eu"))
        return earlier_states(self.text, "eu")


def test_a_member_that_was_never_connected_is_not_down() -> None:
    file = File()
    for phase in ("Pending", "Connecting", "Error"):
        found = file.run(binding(both_ways("a", "b", "dialling"), phase))
        assert set(found.members.values()) == set(found.links.values()) == {MemberState.NEVER_JOINED}


def test_a_member_that_was_ready_and_is_not_is_down_until_it_is_ready_again() -> None:
    file = File()
    ready, broken = (binding(both_ways("a", "b", stage)) for stage in ("ready", "dialling"))
    assert set(file.run(ready).members.values()) == {MemberState.JOINED}
    for _ in range(2):
        found = file.run(broken, success=False)
        assert set(found.members.values()) == set(found.links.values()) == {MemberState.DOWN}
    assert set(file.run(ready).links.values()) == {MemberState.JOINED}


def test_the_peers_of_a_lost_member_stay_joined() -> None:
    file = File()
    file.run(binding(both_ways("a", "b", "ready") | both_ways("a", "c", "ready") | both_ways("b", "c", "ready")))
    found = file.run(binding(both_ways("a", "b", "ready") | both_ways("a", "c", "dialling") | both_ways("b", "c", "tls")))
    assert found.members == {"a": MemberState.JOINED, "b": MemberState.JOINED, "c": MemberState.DOWN}
    assert found.links["a", "b"] is MemberState.JOINED and found.links["a", "c"] is MemberState.DOWN


def test_without_an_earlier_file_the_status_itself_says_what_was_ready_once() -> None:
    links = both_ways("a", "b", "dialling")
    assert set(File().run(binding(links, "Degraded")).links.values()) == {MemberState.DOWN}
    assert set(File().run(binding(links, "Error", lastProof={"time": "2026-09-01T11:00:00Z"})).links.values()) == {MemberState.DOWN}
    assert set(File().run(binding(links, "Connecting", lastProof=None)).links.values()) == {MemberState.NEVER_JOINED}


def test_a_member_that_leaves_is_leaving_until_a_run_has_withdrawn_it() -> None:
    file, three = File(), both_ways("a", "b", "ready") | both_ways("a", "c", "ready")
    two = binding(both_ways("a", "b", "ready"), "Connected")
    file.run(binding(three, "Connected"))
    assert file.run(two).members["c"] is MemberState.LEAVING, "a measurement withdraws nothing"
    silent = [{"code": "CM-API-01", "severity": "remediable", "cluster": "c"}]
    found = file.run(two, success=False, findings=silent, withdraws=True)
    assert found.members["c"] is found.links["a", "c"] is MemberState.LEAVING
    for more in ({"withdraws": True}, {}):
        found = file.run(two, **more)
        assert found.members["c"] is found.links["c", "a"] is MemberState.REMOVED
        assert found.members["a"] is MemberState.JOINED
    assert file.run(binding(three | both_ways("a", "c", "dialling"), "Degraded")).members["c"] is MemberState.NEVER_JOINED


def test_a_mesh_that_is_taken_away_is_removed_and_while_that_fails_leaving() -> None:
    file = File()
    file.run(binding(both_ways("a", "b", "ready"), "Connected"))
    assert set(file.run(None, success=False, withdraws=True, absent=True).members.values()) == {MemberState.LEAVING}
    found = file.run(None, withdraws=True, absent=True)
    assert set(found.members.values()) == set(found.links.values()) == {MemberState.REMOVED}


def test_what_could_not_be_asked_is_unknown_and_forgets_nothing() -> None:
    file = File()
    file.run(binding(both_ways("a", "b", "ready"), "Connected"))
    assert set(file.run(binding(both_ways("a", "b", "unknown"))).links.values()) == {MemberState.UNKNOWN}
    assert set(file.run(binding(both_ways("a", "b", "dialling"))).links.values()) == {MemberState.DOWN}
    assert set(file.run(binding(both_ways("a", "b", "unknown"))).members.values()) == {MemberState.DOWN}
    fresh = File()
    fresh.run(binding(both_ways("a", "b", "dialling"), "Connecting"))
    assert set(fresh.run(binding(both_ways("a", "b", "unknown"), "Error")).links.values()) == {MemberState.NEVER_JOINED}


def test_a_run_that_measured_nothing_keeps_the_states() -> None:
    file = File()
    before = file.run(binding(both_ways("a", "b", "ready"), "Connected"))
    assert file.run(None, success=False) == before
    assert 'cilium_mesh_run_success{mesh="eu",run="mesh"} 0\n' in file.text


@given(st.lists(st.lists(st.sampled_from([*LinkStage, None]), min_size=6, max_size=6), min_size=1, max_size=6), st.booleans())
def test_only_what_was_ready_or_unknown_once_is_ever_down(history: list[list[LinkStage | None]], withdraws: bool) -> None:
    """Links a-b, a-c, b-c in both directions; None: the link is not in the mesh any more."""
    pairs = [("a", "b"), ("b", "a"), ("a", "c"), ("c", "a"), ("b", "c"), ("c", "b")]
    file, once = File(), set[tuple[str, str]]()
    for stages in history:
        links = {pair: stage.value for pair, stage in zip(pairs, stages, strict=True) if stage is not None}
        found = file.run(binding(links, "Connecting"), withdraws=withdraws)
        if not links:
            continue
        for pair in pairs:
            if found.links.get(pair) is MemberState.DOWN:
                assert pair in once and pair in links, (pair, history)
            if pair not in links:
                assert found.links.get(pair) in (None, MemberState.LEAVING, MemberState.REMOVED)
                once.discard(pair)
        once |= {pair for pair, state in found.links.items() if state in (MemberState.JOINED, MemberState.UNKNOWN)}


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(NAMES, st.dictionaries(NAMES.filter(bool), st.sampled_from(MemberState), max_size=4))
def test_any_name_survives_the_file(mesh: str, members: dict[str, MemberState]) -> None:
    outcome = RunOutcome(mesh=mesh, run="status", now=NOW, success=True, carried_out=True)
    text = textfile({}, outcome, EarlierStates(members=members))
    assert earlier_states(text, mesh).members == members
    assert earlier_states(text, mesh + "x").members == {}
    assert is_own(text) and not is_own("node_load1 0.5\n")


@given(st.text(max_size=200))
def test_a_file_of_another_form_is_no_error(text: str) -> None:
    assert earlier_states(text, "eu") == EarlierStates()


def test_the_file_has_each_metric_of_the_catalogue_with_its_labels() -> None:
    result = {
        "findings": [{"code": "CM-CERT-04", "severity": "remediable"}, {"code": "CM-X", "severity": "blocking", "accepted": True}],
        "plan": {"steps": [{}, {}]},
        "requeueSeconds": 300,
        "status": {"binding": binding(both_ways("a", "b", "ready")), "globalServices": [{"name": "x", "phase": "Exported"}]},
        "workloads": [{"name": "w", "status": {"phase": "Available"}}],
        "trust": {"clusters": [{"cluster": "a", "expires": "2026-10-01T00:00:00Z"}, {"cluster": "b", "expires": ""}]},
    }
    outcome = RunOutcome(mesh="eu", run="mesh", now=NOW, success=True, carried_out=False)
    families = {family.name: family for family in text_string_to_metric_families(textfile(result, outcome, EarlierStates()))}
    assert {(f.name, f.type, f.documentation) for f in families.values()} == {(m.name, m.kind.value, m.meaning) for m in metrics_of(RUN)}
    for metric in metrics_of(RUN):
        assert all(tuple(sample.labels) == metric.labels for sample in families[metric.name].samples), metric.name
    assert [s.value for s in families["cilium_mesh_pending_steps"].samples] == [2]
    assert [(s.labels["code"], s.value) for s in families["cilium_mesh_findings"].samples] == [("CM-CERT-04", 1)]
    assert [s.value for s in families["cilium_mesh_run_timestamp_seconds"].samples] == [NOW.timestamp()]
    assert {s.labels["kind"] for s in families["cilium_mesh_items"].samples} == {"globalServices", "workloads"}

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Statuses of items in parts: joined they are what the operator would have computed itself, and hostile ones are refused as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.models import FleetWorkload
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.fleet_kinds import FleetKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet import MOST_REVISIONS, REVISIONS_LATER
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet_dry_run import WORKLOAD_KEYS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.meaning import meaning_of
from mesh_operator.base.keys import ObjectKey
from mesh_operator.base.kinds import BINDING, CLUSTER, ITEMS, WORKLOAD
from mesh_operator.fleets.dry_run import fleet_dry_run_of
from mesh_operator.fleets.status import failure_of, fleet_statuses, interrupted_status
from mesh_operator.meshes.answered_statuses import answered_statuses
from mesh_operator.meshes.status import status_of_result
from mesh_operator.runs.confined.confinement import ProcessLimits
from mesh_operator.runs.confined.messages import PART, Invalid
from mesh_operator.runs.confined.process import Cause, ConfinedProcesses, ConfinedProcessFailed
from mesh_operator.runs.item_parts import ITEMS_FILE, ItemParts
from mesh_operator.source.resource_writer import AT_ONCE, ResourceWriter
from mesh_operator.source.status_patch import worth_writing
from mesh_operator.source.stored import Stored
from mesh_operator.statuses import heads, item_statuses
from mesh_operator.statuses.findings import MOST
from mesh_operator.statuses.heads import head_of_fleet, head_of_mesh
from mesh_operator.statuses.item_statuses import LARGEST, SAID, VALUES, fitting, items_of, objects_of, statuses_of_items
from mesh_operator.statuses.measured import advised_status, measured_status
from tests.testing.answer_in_parts import in_parts
from tests.testing.confined_probe import HANDLER
from tests.testing.karmada_api import ModelFleet
from tests.testing.properties import examples
from tests.testing.sized_results import service

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
Json = Mapping[str, Any]


def answered(result: Json, mesh: Json, previous: Json, now: datetime = NOW) -> tuple[ItemParts, dict[str, Any]]:
    """The parts and the head of a result, as the operator gets them."""
    parts = ItemParts()
    return parts, in_parts(parts, statuses_of_items(result, items_of(mesh, previous), now, head_of_mesh))


def take(parts: ItemParts, part: Any) -> None:
    content = json.dumps({PART: part}).encode()
    parts.take(json.loads(content)[PART], content)


def stored(kind: str, name: str, generation: int, status: Json) -> Stored:
    obj = {"metadata": {"name": name, "generation": generation}, "status": dict(status)}
    return Stored(ObjectKey(kind, "ws", "default", name), obj, "")


def sent(status: Mapping[str, Any] | None) -> Any:
    return json.loads(json.dumps(status))


# Joined, the parts are the whole

NAMES = ("a", "b", "c")
CONDITION = st.fixed_dictionaries(
    {"type": st.sampled_from(("Ready", "Accepted", "Degraded")), "status": st.sampled_from(("True", "False"))},
    optional={"reason": st.sampled_from(("AsAsked", "no reason!")), "message": st.text(max_size=20)},
)
ROW = st.fixed_dictionaries(
    {"phase": st.sampled_from(("Exported", "Applied", "Error")), "conditions": st.lists(CONDITION, max_size=3)},
    optional={
        "lastSyncTime": st.sampled_from(("2026-11-01T11:59:00Z", "2026-11-01T08:00:00Z")),
        "services": st.lists(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=5)), max_size=2),
        "gone": st.none(),
    },
)
FINDING = st.fixed_dictionaries(
    {
        "code": st.sampled_from(("CM-GS-01", "CM-API-01", "CM-OWN-05", "CM-LOCK-01")),
        "severity": st.sampled_from(("blocking", "advisory", "remediable")),
        "item": st.sampled_from(("", *(f"{row.listed}/{name}" for row in ITEMS for name in NAMES))),
    },
    optional={"accepted": st.booleans(), "fix": st.text(max_size=10), "cluster": st.sampled_from(NAMES), "summary": st.sampled_from(NAMES)},
)


def listed(rows: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    named = st.dictionaries(st.sampled_from(NAMES), rows, max_size=3)
    return st.fixed_dictionaries({row.listed: named.map(lambda by: [{**row, "name": name} for name, row in by.items()]) for row in ITEMS})


@examples(60)
@given(listed(ROW), listed(ROW), listed(st.builds(dict)), st.lists(FINDING, max_size=6), st.sampled_from(("findings", "advice")))
def test_an_object_gets_the_status_that_the_operator_would_compute_itself(
    rows: dict[str, Any], previous: dict[str, Any], asked: dict[str, Any], findings: list[Any], key: str
) -> None:
    mesh = {kind: [{**entry, "generation": 3} for entry in entries] for kind, entries in asked.items()}
    more = {"findings": [], key: findings, "requeueSeconds": 60, "changed": True}
    result = {"status": {"binding": {"phase": "Connected"}, **rows}, **more}
    parts, head = answered(result, mesh, previous)
    before = {(kind, entry["name"]): {k: v for k, v in entry.items() if k != "name"} for kind in previous for entry in previous[kind]}
    objects = [
        stored(row.kind, entry["name"], 3, before.get((row.listed, entry["name"]), {})) for row in ITEMS for entry in mesh[row.listed]
    ]
    objects.append(stored(BINDING, "edge", 3, {}))
    for found, (one, status) in zip(objects, answered_statuses(objects, head, parts, NOW), strict=True):
        whole = status_of_result(found, result, NOW)
        own = found.obj["status"]
        is_news = whole is not None and (not own or worth_writing(own, whole, NOW))
        assert one is found and sent(status) == (sent(whole) if is_news else None)
    assert meaning_of(head) == meaning_of(result)
    assert (head["requeueSeconds"], head["changed"], head["status"]["binding"]) == (60, True, {"phase": "Connected"})


FLEET_ROW = st.fixed_dictionaries(
    {"phase": st.sampled_from(("Available", "Ready", "Error")), "conditions": st.lists(CONDITION, max_size=3)},
    optional={"clusters": st.lists(st.fixed_dictionaries({"name": st.sampled_from(NAMES)}), max_size=2), "gone": st.none()},
)
FLEET_FINDING = st.builds(
    lambda code, item, cluster: {"code": code, "severity": "blocking", "item": item, "cluster": cluster, "summary": "what it says"},
    st.sampled_from(("CM-FLT-01", "CM-API-01")),
    st.sampled_from(("", *(f"{kind.referred}/{name}" for kind in FleetKind for name in NAMES))),
    st.sampled_from(("", "Karmada", "c1")),
)
OBJECT = st.tuples(st.sampled_from(list(FleetKind)), st.sampled_from(NAMES))


@examples(60)
@given(
    st.dictionaries(OBJECT, FLEET_ROW, max_size=6),
    st.dictionaries(OBJECT, FLEET_ROW | st.just({}), max_size=6),
    st.lists(FLEET_FINDING, max_size=3),
    st.sampled_from(("workloads", "fleets", "")),
)
def test_an_object_of_a_fleet_gets_the_status_that_its_row_says_and_without_one_the_reason_why_there_is_none(
    rows: dict[tuple[FleetKind, str], Any], objects: dict[tuple[FleetKind, str], Any], findings: list[Any], unread: str
) -> None:
    result: dict[str, Any] = {"findings": findings, **{kind.reported: [] for kind in FleetKind}}
    for (kind, name), row in rows.items():
        result[kind.reported].append({"name": name, **({"status": row} if kind is FleetKind.WORKLOAD else row)})
    result.pop(unread, None)
    read_rows = {key: row for key, row in rows.items() if key[0].reported in result}
    found = [stored(kind.value, name, 2, status) for (kind, name), status in objects.items()]
    entries = [{"kind": s.key.kind, "name": s.key.name, "generation": 2, "status": s.obj["status"]} for s in found]
    parts = ItemParts()
    head = in_parts(parts, statuses_of_items(result, objects_of(entries), NOW, head_of_fleet))
    reason, message = failure_of(result)
    assert head.keys() >= result.keys() and failure_of(head) == (reason, message)
    for one, status in fleet_statuses(found, head, parts, NOW):
        row = read_rows.get((FleetKind(one.key.kind), one.key.name))
        if row is None:
            assert status == (interrupted_status(one, reason, message, NOW) if reason else None)
            continue
        if one.key.kind == CLUSTER:  # the row of a cluster has more than its status
            row = {"phase": row["phase"], "conditions": row["conditions"]}
        whole, before = advised_status(one, measured_status(one, row, NOW), result, NOW), one.obj["status"]
        assert sent(status) == (sent(whole) if not before or worth_writing(before, whole, NOW) else None)
    phases = [(row.get("status") or row).get("phase") for kind in FleetKind for row in head.get(kind.reported, ())]
    assert sorted(phases) == sorted(row["phase"] for row in read_rows.values()), "the time of the next check follows from them"


def test_new_revisions_that_do_not_fit_into_one_answer_come_with_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "SNAPSHOTS", 1000)
    new = [{"name": f"w{n}-r1", "workload": f"w{n}", "number": 1, "hash": "a" * 64, "snapshot": "x" * (300 * n)} for n in range(8)]
    known = set[str]()
    for _ in new:
        head = head_of_fleet({"findings": [], "revisions": [row for row in new if row["name"] not in known]})
        assert head["revisions"] or len(known) == len(new), "one always fits"
        known |= {row["name"] for row in head["revisions"]}
        assert head.get(REVISIONS_LATER, 0) == len(new) - len(known)
    assert len(known) == len(new)


def test_a_caller_gets_every_revision_of_very_many_workloads_by_asking_until_none_comes_later() -> None:
    """Else the last ones come with the next check, five minutes later."""
    fleet = ModelFleet()
    template = {"spec": {"containers": list[Any]()}}
    many = [FleetWorkload(name=f"w{number}", fleet="all", template=template) for number in range(2 * MOST_REVISIONS + 1)]
    fleet.run(many, wait=False)
    known, heads_seen = set[str](), list[dict[str, Any]]()
    while not heads_seen or heads_seen[-1].get(REVISIONS_LATER):
        found = fleet.run(many, check_mode=True, known_revisions=known).outcome.to_result()
        heads_seen.append(head_of_fleet({key: found[key] for key in (*WORKLOAD_KEYS, "findings") if key in found}))
        assert fleet_dry_run_of({"steps": 0, "result": heads_seen[-1]}) is not None
        known |= {row["name"] for row in heads_seen[-1]["revisions"]}
    assert [head.get(REVISIONS_LATER, 0) for head in heads_seen] == [MOST_REVISIONS + 1, 1, 0]
    assert known == {f"{workload.name}-r1" for workload in many}


def test_an_item_whose_status_is_on_show_gets_the_one_back_that_it_had() -> None:
    row = {"phase": "Exported", "conditions": []}
    first, head = answered({"status": {"globalServices": [{**row, "name": "a"}]}}, {"globalServices": [{"name": "a", "generation": 1}]}, {})
    status = first.get("globalServices/a") or {}
    assert status["phase"] == "Exported" and head[SAID] == {"parts": 1, "unchanged": [], "later": 0}
    previous = {"globalServices": [{**status, "name": "a"}]}
    parts, head = answered(
        {"status": {"globalServices": [{**row, "name": "a"}]}}, {"globalServices": [{"name": "a", "generation": 1}]}, previous
    )
    one = stored("GlobalService", "a", 1, status)
    assert len(parts) == 0 and parts.unchanged == {"globalServices/a"}
    assert list(answered_statuses([one], head, parts, NOW)) == [(one, None)]
    assert list(answered_statuses([one], head, parts, NOW, {one.key})) == [(one, status)]


# What is beyond a bound is counted, or comes later


def test_statuses_that_do_not_fit_into_one_answer_come_with_the_next_ones_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_statuses, "WHOLE", 20_000)
    names = [f"s{number}" for number in range(30)]
    mesh = {"globalServices": [{"name": name, "generation": 1} for name in names]}
    have: dict[str, Any] = {}
    for turn in range(20):
        now = NOW + timedelta(hours=turn)  # each turn has something new of every item
        rows = [{**service(name, 5), "lastSyncTime": now.isoformat()} for name in names]
        parts, head = answered({"status": {"globalServices": rows}}, mesh, {"globalServices": [{**have[n], "name": n} for n in have]}, now)
        assert 0 < len(parts) < 30 and parts.later == 30 - len(parts) == head[SAID]["later"]
        written = [name for name in names if parts.get(f"globalServices/{name}")]
        assert set(written).isdisjoint(have) or len(have) + len(written) > 30, "those come first that wait longest"
        have |= {name: parts.get(f"globalServices/{name}") for name in written}
        if len(have) == 30:
            return
    pytest.fail("some items never got a status")


def test_of_a_fleet_those_come_first_that_have_no_status_and_then_those_whose_conditions_are_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(item_statuses, "MOST", 2)
    hours = {"w0": 11, "w1": 9, "w2": None, "w3": 10}
    entries = []
    for name, hour in hours.items():
        since = [{"type": "Ready", "status": "True", "lastTransitionTime": f"2026-11-01T{hour:02}:00:00Z"}] if hour else []
        entries.append(
            {"kind": WORKLOAD, "name": name, "generation": 1, "status": {"phase": "Pending", "conditions": since} if hour else {}}
        )
    rows = [{"name": name, "status": {"phase": "Available", "conditions": []}} for name in hours]
    result = {"findings": [], "workloads": rows, "leaving": [], "global_services": [], "revisions": []}
    parts = ItemParts()
    head = in_parts(parts, statuses_of_items(result, objects_of(entries), NOW, head_of_fleet))
    assert [name for name in hours if parts.get(f"fleetWorkloads/{name}")] == ["w1", "w2"] and head[SAID]["later"] == 2


def test_a_status_that_is_too_large_for_one_object_leaves_out_its_largest_fields_and_says_so() -> None:
    services = [{"name": f"service-{number}", "consumers": [{"clusterName": "c"} for _ in range(64)]} for number in range(1000)]
    row = {**service("a", 64), "services": services}
    parts, _head = answered({"status": {"globalServices": [row]}}, {"globalServices": [{"name": "a", "generation": 1}]}, {})
    status = parts.get("globalServices/a") or {}
    assert "services" not in status and len(status["endpointSummary"]) == 64
    advised = next(entry for entry in status["conditions"] if entry["type"] == "Advised")
    assert advised["message"] == "Left out of this status, as they are too large for it: services."
    small = {"phase": "Exported", "conditions": []}
    assert fitting(small) is small


@pytest.mark.parametrize("key", ["findings", "advice"])
def test_findings_beyond_the_bounds_are_counted(key: str) -> None:
    rows = [{"code": "CM-NET-01", "severity": "advisory", "cluster": f"c{n}", "summary": "x" * 300} for n in range(5000)]
    result = {"status": {"binding": {"phase": "Connected", "conditions": []}}, "findings": [], key: rows}
    _parts, head = answered(result, {}, {})
    assert len(json.dumps(head)) < 1024 * 1024
    status = status_of_result(stored(BINDING, "edge", 1, {}), head, NOW) or {}
    assert len(status["findings"]) == MOST
    advised = next(entry for entry in status["conditions"] if entry["type"] == "Advised")
    assert advised["message"] == "CM-NET-01: see status.findings, which has the first 20 of 5000"


# Hostile parts

STATUS = {"phase": "Exported", "conditions": []}
GOOD = {"item": "globalServices/a", "status": STATUS}
OTHER = {"item": "globalServices/b", "status": STATUS}
TWO = {SAID: {"parts": 2, "unchanged": [], "later": 0}}
LONG = {"code": "CM-X-01", "severity": "blocking", "summary": "x" * 9000}
FINDINGS: Sequence[Any] = ({"code": 3}, "x", {"code": "CM-X-01", "severity": "loud"}, LONG)


@pytest.mark.parametrize(
    "part",
    [
        None,
        [],
        {**GOOD, "more": 1},
        {"item": 3, "status": STATUS},
        {"item": "a", "status": [STATUS]},
        {"item": "a", "status": {}},
        {"item": "a", "status": {"phase": 3}},
        {"item": "a", "status": {**STATUS, "findings": {}}},
        *({"item": "a", "status": {**STATUS, "findings": [row]}} for row in FINDINGS),
        {"item": "a", "status": {**STATUS, "x": "x" * LARGEST}},
        {"item": "a", "status": {**STATUS, "x": [[] for _ in range(VALUES)]}},
    ],
)
def test_a_part_of_another_shape_or_size_is_refused(part: Any) -> None:
    with pytest.raises(Invalid):
        take(ItemParts(), part)


def test_a_second_part_for_one_item_is_refused() -> None:
    parts = ItemParts()
    take(parts, GOOD)
    with pytest.raises(Invalid, match="two parts"):
        take(parts, GOOD)


def test_parts_without_end_are_refused() -> None:
    parts, number = ItemParts(), 0
    with pytest.raises(Invalid, match="too many parts"):
        for number in range(100_000):
            take(parts, {"item": f"globalServices/{number}", "status": {**STATUS, "x": "x" * (number % 7) * 1000}})
    assert 1000 < number <= 5000


@pytest.mark.parametrize(
    "said",
    [
        {},
        {SAID: None},
        {SAID: []},
        {SAID: {"parts": 1}},
        {SAID: {"parts": 1, "unchanged": [], "later": 0}},
        {SAID: {"parts": 3, "unchanged": [], "later": 0}},
        {SAID: {"parts": 2, "unchanged": [3], "later": 0}},
        {SAID: {"parts": 2, "unchanged": "globalServices/c", "later": 0}},
        {SAID: {"parts": 2, "unchanged": ["globalServices/a"], "later": 0}},
        {SAID: {"parts": 2, "unchanged": [], "later": -1}},
        {SAID: {"parts": 2, "unchanged": [], "later": 1.5}},
        {SAID: {"parts": 2, "unchanged": [], "later": 0, "more": 0}},
    ],
)
def test_parts_that_are_not_all_there_are_refused(said: dict[str, Any]) -> None:
    parts = ItemParts()
    take(parts, GOOD)
    take(parts, OTHER)
    with pytest.raises(Invalid):
        parts.complete(said)
    assert parts.unchanged == frozenset()


# Parts of a run: a file in a folder in which the run may write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ITEMS_FILE


def lines(*parts: Any) -> str:
    return "".join(json.dumps({PART: part}) + "\n" for part in parts)


def test_the_parts_of_a_run_are_read_from_its_file(file: Path) -> None:
    file.write_text(lines(GOOD, OTHER), encoding="ascii")
    parts = ItemParts()
    parts.read(file, TWO)
    assert parts.get("globalServices/a") == STATUS and parts.get("globalServices/b") == STATUS and parts.get("globalServices/c") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (lines(GOOD), "missing"),
        (lines(GOOD, OTHER, GOOD), "two parts"),
        (lines(GOOD, OTHER)[:-1], "ends early"),
        (lines(GOOD, OTHER)[:-9], "ends early"),
        (lines(GOOD) + "{\n", "no JSON"),
        (lines(GOOD) + "[]\n", "no status"),
        (lines(GOOD) + "3\n", "no status"),
        (lines(GOOD) + "x" * 4 * LARGEST, "too large"),
        ("[" * (VALUES + 1) + "\n", "too many values"),
        ("", "missing"),
    ],
)
def test_a_file_that_is_not_whole_is_refused(file: Path, text: str, why: str) -> None:
    file.write_text(text, encoding="ascii")
    with pytest.raises(Invalid, match=why):
        ItemParts().read(file, TWO)


def test_a_run_cannot_make_the_operator_read_another_file_for_its_parts_or_wait(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text(lines(GOOD, OTHER), encoding="ascii")
    file.symlink_to(other)
    with pytest.raises(Invalid, match="missing"):
        ItemParts().read(file, TWO)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(Invalid, match="missing"):
        ItemParts().read(file, TWO)
    ItemParts().read(tmp_path / "absent", {"status": {}})  # a result that has its rows itself, as that of a fleet


# Parts of a dry run: messages of a confined process


@pytest.fixture(scope="module")
def processes() -> Iterator[ConfinedProcesses]:
    with closing(ConfinedProcesses(HANDLER)) as made:
        yield made


def asked(processes: ConfinedProcesses, *messages: Any, parts: ItemParts | None = None) -> Any:
    with processes.open(ProcessLimits(memory=1 << 27, cpu=20), 20.0) as process:
        return process.ask({"do": "messages", "with": [list(messages)]}, parts.take if parts is not None else None)


def test_parts_come_before_the_answer(processes: ConfinedProcesses) -> None:
    parts = ItemParts()
    assert asked(processes, {PART: GOOD}, {PART: OTHER}, {"answer": 7}, parts=parts) == 7 and len(parts) == 2


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([{PART: GOOD}, {PART: GOOD}, {"answer": 7}], Cause.INVALID),  # twice
        ([{PART: {"item": "a", "status": {**STATUS, "x": "x" * LARGEST}}}, {"answer": 7}], Cause.INVALID),
        ([{PART: GOOD}], Cause.CRASHED),  # it ends without an answer
        ([{PART: GOOD}, "half"], Cause.CRASHED),
        (["endless"], Cause.INVALID),
    ],
)
def test_an_answer_whose_parts_are_not_as_they_should_be_is_none(processes: ConfinedProcesses, messages: list[Any], why: Cause) -> None:
    with pytest.raises(ConfinedProcessFailed) as failed:
        asked(processes, *messages, parts=ItemParts())
    assert failed.value.cause is why


def test_a_part_where_none_was_asked_for_is_no_answer(processes: ConfinedProcesses) -> None:
    with pytest.raises(ConfinedProcessFailed, match="parts"):
        asked(processes, {PART: GOOD}, {"answer": 7})


def test_a_part_after_the_answer_belongs_to_no_later_one(processes: ConfinedProcesses) -> None:
    with processes.open(ProcessLimits(memory=1 << 27, cpu=20), 20.0) as process:
        assert process.ask({"do": "messages", "with": [[{"answer": 7}, {PART: GOOD}]]}) == 7
        with pytest.raises(ConfinedProcessFailed, match="parts"):
            process.ask({"do": "count", "with": [[1]]})


# Written one at a time


def test_no_more_statuses_are_there_than_are_written_at_a_time() -> None:
    class Api:
        def __init__(self) -> None:
            self.written = 0

        def get(self, path: str) -> dict[str, Any]:
            return {"metadata": {"uid": "", "resourceVersion": "1"}, "status": {}}

        def merge_patch(self, path: str, body: Any, *, manager: str) -> None:
            self.written += 1

    api, most, made = Api(), 0, 0

    def statuses() -> Iterator[tuple[Stored, dict[str, Any] | None]]:
        nonlocal most, made
        for number in range(100):
            made += 1
            most = max(most, made - api.written)
            yield stored("GlobalService", f"s{number}", 1, {}), {"phase": "Exported", "conditions": []}

    ResourceWriter(lambda _url: api, lambda *_: None).statuses(statuses(), {})  # type: ignore[arg-type,return-value]  # as much of a client as is used
    assert api.written == 100 and most <= 2 * AT_ONCE

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is at an address that a tenant chose stands in the platform's log, and its statuses are the same whatever it is."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube import client
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.dry_run import DryRun
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.withheld import CUT, HOUR, MOST, UNITS, NewReasons
from mesh_operator.base.keys import MeshKey, ObjectKey
from mesh_operator.base.kinds import BINDING
from mesh_operator.meshes.status import status_of_result
from mesh_operator.source.stored import Stored
from mesh_operator.statuses import withheld
from mesh_operator.statuses.withheld import WithheldLog
from tests.testing.met_ports import STATES, free_port, met_port
from tests.testing.scripted_server import Answer, ScriptedServer, kubeconfig
from tests.testing.unconfined_processes import UnconfinedProcesses
from tests.unit.operator.test_reconcile import World, connected

KEY = MeshKey("ws1", "default", "edge")
NOW = datetime(2026, 11, 23, tzinfo=UTC)
DENIED = {"cilium_mesh_denied_networks": ["10.96.0.0/12"], "cilium_mesh_endpoint_networks": ["127.0.0.0/8"]}


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(withheld, "log", lambda event, **fields: lines.append(f"{event} {fields['workspace']} {fields['reason']}"))
    return lines


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "Timeouts", partial(client.Timeouts, connect=0.3, read=0.3, answer=1.0))


def dry_run(server: str) -> dict[str, Any]:
    """The result of a dry run of a mesh whose second cluster has a server out of reach, whatever is there, and the first one another."""
    document = kubeconfig({"server": server}, {"token": "t"})
    hosts = {name: {"cilium_mesh_kubeconfig": document, **DENIED} for name in ("c1", "c2")}
    raw = {"binding": {"name": "edge", "clusterRefs": [{"name": name} for name in hosts]}}
    with UnconfinedProcesses().open(None, 1.0) as process:  # type: ignore[arg-type]  # unconfined processes have no limits
        found: dict[str, Any] = process.ask({"job": "dry_run", "cilium_mesh": raw, "hosts": hosts, "previous": {}, "assigns": False})[
            "result"
        ]
    return found


@pytest.mark.usefixtures("impatient")
def test_a_status_is_the_same_whatever_is_at_the_address_of_a_kubeconfig(tmp_path: Path, logged: list[str]) -> None:
    """Refused, dropped, silent, hung up, no TLS, another certificate, a page, denied, unresolvable: one status, and a reason in the log."""
    results = dict[str, dict[str, Any]]()
    for state in STATES:
        port = free_port("127.0.0.2")
        with met_port(state, "127.0.0.2", port, tmp_path):
            results[state] = dry_run(f"https://127.0.0.2:{port}")
    with ScriptedServer(tmp_path) as server:
        server.answer = lambda asked: Answer(404, b"<html>a page</html>")
        results["a page, of a server that is not verified"] = dry_run(server.url)
    results["denied"] = dry_run("https://10.96.0.1")
    results["unresolvable"] = dry_run("https://no-such-name.invalid")
    stored = Stored(ObjectKey(BINDING, "ws1", "default", "edge"), {"metadata": {"name": "edge", "generation": 1}, "spec": {}}, "")
    statuses = {json.dumps(status_of_result(stored, result, NOW), sort_keys=True) for result in map(without_times, results.values())}
    assert len(statuses) == 1 and "cannot be reached" in statuses.pop()
    # Each cluster has a reason. The two may differ: of connections that end in the handshake it is a race what is seen first.
    reasons = {state: [row["reason"] for row in result["withheld"]] for state, result in results.items()}
    assert all(len(found) == 2 for found in reasons.values()), reasons
    for state, words in {"closed": "refused", "another certificate": "TLS", "denied": "denied range"}.items():
        assert words in " ".join(reasons[state]), reasons
    WithheldLog().take(KEY, results["denied"])
    assert len(logged) == 2 and all(line.startswith("not_reached ws1 c") and "denied range" in line for line in logged)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(entry) for key, entry in value.items() if key not in ("lastSyncTime", "lastTransitionTime")}
    return [without_times(entry) for entry in value] if isinstance(value, list) else value


ROWS = [{"cluster": "c1", "peer": "", "reason": "refused"}, {"cluster": "c1", "peer": "c2", "reason": "silent"}]


def test_a_reason_is_logged_when_it_is_new(logged: list[str]) -> None:
    log = WithheldLog()
    for rows in (ROWS, ROWS, ROWS[:1], None, ROWS):
        log.take(KEY, {"withheld": rows} if rows is not None else None)
    log.take(KEY, {})
    log.take(KEY, {"withheld": ROWS[:1]})
    first, second = "not_reached ws1 c1: refused", "not_reached ws1 c1 to c2: silent"
    assert logged == [first, second, second, first]


NO_ROWS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text().filter(lambda key: key != "reason"), inner, max_size=3),
)
"""Anything but a row with a reason, and a list of such rows."""


@given(NO_ROWS)
def test_rows_of_another_shape_are_left_out_and_those_beside_them_are_logged(value: Any) -> None:
    first, second = ROWS
    no_text = [value] if isinstance(value, str) else value
    results: tuple[Any, ...] = (value, [value, first], [{**first, "reason": no_text}, second])
    lines: list[list[str]] = []
    with pytest.MonkeyPatch.context() as patch:
        for result in results:
            lines.append([])
            patch.setattr(withheld, "log", lambda _event, **fields: lines[-1].append(fields["reason"]))
            WithheldLog().take(KEY, {"withheld": result})
    assert lines == [[], ["c1: refused"], ["c1 to c2: silent"]]


def test_a_mesh_with_many_reasons_fills_no_log(logged: list[str]) -> None:
    WithheldLog().take(KEY, {"withheld": [{"cluster": f"c{n}", "peer": "", "reason": "x" * 5000} for n in range(10_000)]})
    assert len(logged) == MOST and all(len(line) < 300 for line in logged)


RESULTS = st.lists(st.lists(st.integers(0, 200), max_size=MOST), max_size=12)


@given(RESULTS, st.integers(1, 3000))
def test_a_cluster_that_says_something_else_each_time_fills_no_log(found: list[list[int]], pause: int) -> None:
    """The texts are those of a tenant's clusters: no more lines in an hour than the bound and one that says so, whatever they are."""
    reasons, lines = NewReasons[MeshKey](), list[tuple[float, str]]()
    for place, numbers in enumerate(found):
        result = {"withheld": [{"cluster": "c1", "peer": "", "reason": f"answer {number} of {place}"} for number in numbers]}
        now = float(place * pause)
        lines += [(now, line) for line in reasons.take(KEY, result, now)]
    for begin, _ in lines:
        inside = [line for at, line in lines if begin <= at < begin + HOUR]
        assert len(inside) <= 2 * (MOST + 1), "an hour of the log has parts of two hours of the bound"
    of_first_hour = [line for at, line in lines if at < HOUR]
    assert len(of_first_hour) <= MOST + 1 and of_first_hour.count(CUT) <= 1
    different = sum(map(len, map(set, found))) if len(found) * pause < HOUR else 0
    assert not different or (CUT in of_first_hour) == (different > MOST)


def test_reasons_of_very_many_meshes_fill_no_memory() -> None:
    reasons = NewReasons[int]()
    for unit in range(UNITS + 5):
        assert reasons.take(unit, {"withheld": ROWS[:1]}, 0.0)
    assert reasons.take(UNITS, {"withheld": ROWS[:1]}, 1.0) == [], "the last ones are remembered"
    assert reasons.take(0, {"withheld": ROWS[:1]}, 1.0) != [], "and the first ones are not"


@pytest.mark.parametrize("played", [True, False])
def test_reasons_reach_the_log_and_no_custom_resource(played: bool, logged: list[str]) -> None:
    world = World()
    if played:
        world.answer = partial(connected, withheld=ROWS)
    else:
        world.reconcile()
        binding = world.kcp.find(BINDING, "edge")
        assert binding is not None
        result = {"status": {"binding": binding["status"]}, "findings": [], "requeueSeconds": 120, "withheld": ROWS}
        world.dry_run = lambda _request: DryRun(steps=0, linked=True, result=result)
    world.reconcile()
    assert logged == ["not_reached ws1 c1: refused", "not_reached ws1 c1 to c2: silent"]
    shown = json.dumps(world.kcp.find(BINDING, "edge"))
    assert "refused" not in shown and "silent" not in shown and world.phase() == "Connected"

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator's threads: an endpoint is complete when other threads first read it, and a defect ends the process."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from threading import Event, Thread
from typing import Any

import pytest
from prometheus_client import generate_latest

from mesh_operator import operator as operator_module
from mesh_operator import replica
from mesh_operator.base.keys import MeshKey
from mesh_operator.base.kinds import BINDING, INTENT, ROWS, SERVICE
from mesh_operator.base.serve import Metrics
from mesh_operator.base.settings import Settings
from mesh_operator.meshes.records import name_of
from mesh_operator.operator import Operator
from mesh_operator.schedule.queue import Urgency
from mesh_operator.schedule.unit_turns import Next
from mesh_operator.source import endpoint_watches
from mesh_operator.source.watch import Watcher
from tests.testing.waiting import wait_for

URL = "https://kcp.example.org/services/apiexport/root/edge-portal-networking"
SLICE = {"status": {"endpoints": [{"url": URL}]}}


class EmptyServer:
    """API server without objects, which counts its requests by verb."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    def page(self, path: str, **options: Any) -> dict[str, Any]:
        self.requests["list"] += 1
        return {"metadata": {"resourceVersion": "1"}, "items": []}

    def watch(self, path: str, **options: Any) -> Iterator[dict[str, Any]]:
        return iter(())

    def get(self, path: str) -> None:
        return None

    def list(self, path: str, **options: Any) -> list[Any]:
        return []


class OneServer:
    """Connections that reach the same server under every URL."""

    def __init__(self) -> None:
        self.server = EmptyServer()

    def own(self) -> EmptyServer:
        return self.server

    def at(self, url: str) -> EmptyServer:
        return self.server

    def outdated(self) -> list[str]:
        return []


class Stuck:
    """A reconcile that does not come back, as one that waits for a hostile server."""

    def __init__(self) -> None:
        self.began, self.over = Event(), Event()

    def __call__(self, key: Any) -> Next:
        self.began.set()
        self.over.wait(60)
        return Next(seconds=None)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Operator, Stuck]]:
    """An operator of which one worker hangs, and the other does not."""
    operator, stuck = an_operator(), Stuck()
    monkeypatch.setattr(operator._reconciler, "reconcile", stuck)
    monkeypatch.setattr(operator_module, "TENDING", 0.01)
    monkeypatch.setattr(operator_module, "STOPPING", 0.2)
    operator._queue.add(MeshKey("workspace", "default", "edge"), Urgency.CHANGE)
    yield operator, stuck
    operator.stop.set()
    stuck.over.set()


def an_operator() -> Operator:
    settings = Settings(kcp_kubeconfig="/kcp", mgmt_kubeconfig="/mgmt", node_id="one")
    server: Any = OneServer()
    return Operator(settings, server, server, Metrics(), Event())


def test_an_endpoint_has_the_state_of_every_kind_before_any_of_them_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an endpoint counts as listed too early, and the thread that tends the queue ends with a KeyError."""
    operator = an_operator()
    known: list[tuple[int, list[str]]] = []
    monkeypatch.setattr(Watcher, "start", lambda _watcher: known.append((len(operator._endpoints), operator._endpoints.waiting())))
    operator._endpoints.take_slice(operator._settings.api_export_name, SLICE)
    waiting = ["the APIExportEndpointSlice was not read", *(f"{row.kind} was not listed" for row in ROWS)]
    assert known == [(1, waiting)] * len(ROWS)


def test_a_defect_in_the_main_thread_ends_the_workers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the process would live on, with probes that answer, and without what feeds the queue."""
    operator = an_operator()

    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(operator, "_tend", broken)
    monkeypatch.setattr(operator_module, "TENDING", 0.0)
    with pytest.raises(ZeroDivisionError):
        operator.work()
    assert operator.stop.is_set()
    assert operator._workers
    assert not any(worker.is_alive() for worker in operator._workers)


def test_a_stop_does_not_wait_for_a_worker_that_hangs(stuck: tuple[Operator, Stuck]) -> None:
    """A leader that lost its Lease must not live on beside the next one."""
    operator, reconcile = stuck
    working = Thread(target=operator.work)
    working.start()
    assert reconcile.began.wait(30)
    assert operator.alive() == (True, [])
    operator.stop.set()
    working.join(30)
    assert not working.is_alive() and operator.hangs()
    wait_for(lambda: not operator.alive()[0], what="the health answer says that the stop lasts too long")
    assert operator.alive()[1] == ["the operator was stopped, and has not ended"]


def test_a_worker_that_is_busy_with_one_mesh_for_too_long_is_reported(
    stuck: tuple[Operator, Stuck], monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, reconcile = stuck
    working = Thread(target=operator.work)
    working.start()
    assert reconcile.began.wait(30)
    monkeypatch.setattr(operator_module, "HANG_MARGIN", -1e9)
    healthy, sentences = operator.alive()
    assert not healthy and len(sentences) == 1 and "has been busy with one mesh for more than" in sentences[0]
    operator.stop.set()
    working.join(30)


@pytest.mark.parametrize("hangs", [False, True])
def test_the_process_ends_at_once_if_a_worker_hangs(hangs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(replica, "Connections", lambda *known, **options: nullcontext(OneServer()))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(Operator, "work", lambda self: self.stop.set())
    monkeypatch.setattr(Operator, "hangs", lambda self: hangs)
    settings = Settings(kcp_kubeconfig="/kcp", mgmt_kubeconfig="/mgmt", node_id="one", leader_elect=False, health_addr="127.0.0.1:0")
    replica.run(settings)
    assert ended == [1] * hangs


def test_an_operator_whose_kcp_is_out_of_reach_is_not_ready() -> None:
    operator = an_operator()
    (state,) = operator._endpoints._slices.values()
    state.listed_at, operator._workers = 1.0, [Thread()]
    assert operator.ready() == (True, [])
    state.failing_since = time.monotonic() - endpoint_watches.OUT_OF_REACH + 5
    assert operator.ready() == (True, []), "a moment is no outage"
    state.failing_since -= 6
    assert operator.ready() == (False, ["kcp has not answered 1 of 1 watches for more than 15 s"])


def binding(*finalizers: str, deleted: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "edge", "namespace": "default", "uid": "1", "annotations": {"kcp.io/cluster": "ws"}}
    metadata |= {"finalizers": list(finalizers)} if finalizers else {}
    metadata |= {"deletionTimestamp": "2026-11-01T00:00:00Z"} if deleted else {}
    return {"metadata": metadata, "spec": {"clusterRefs": [{"name": "c1"}]}}


@pytest.mark.parametrize(
    ("obj", "waits"),
    [(binding(), True), (binding("networking.edge-portal.eu/clustermeshbinding-cleanup"), False), (binding(deleted=True), False)],
)
def test_only_a_new_mesh_waits_for_the_items_that_come_with_its_binding(obj: dict[str, Any], waits: bool) -> None:
    operator = an_operator()
    operator._store.put(URL, "ClusterMeshBinding", obj)
    found = operator._queue.get(timeout=0)
    assert (found is None) == waits
    if waits:
        assert operator._queue.get(timeout=operator_module.GATHERING + 1) == MeshKey("ws", "default", "edge")


def test_turns_that_have_to_end_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, ended = an_operator(), list[str]()
    overdue, deleted, busy = (MeshKey("ws", "default", name) for name in ("overdue", "deleted", "busy"))
    monkeypatch.setattr(operator._queue, "overdue", lambda: [overdue])
    monkeypatch.setattr(operator._queue, "lasting", lambda: [busy, deleted])
    monkeypatch.setattr(operator._reconciler, "is_outdated", lambda key: key == deleted)
    monkeypatch.setattr(operator._reconciler, "end_turn", lambda key: ended.append(key.name))
    operator._end_turns()
    assert ended == ["overdue", "deleted"]


def test_a_silent_karmada_keeps_no_turn_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread ends turns; it asks no server for anything."""

    class Silent:
        def __init__(self) -> None:
            self.asked, self.answers = Event(), Event()

        def search_orphans(self, now: float) -> None:
            self.asked.set()
            self.answers.wait(60)

        def watchers(self, stop: Event) -> list[Any]:
            return []

    operator, fleets, ended = an_operator(), Silent(), list[str]()
    monkeypatch.setattr(operator, "_fleets", fleets)
    monkeypatch.setattr(operator, "_end_turns", lambda: ended.append("looked"))
    monkeypatch.setattr(operator, "ready", lambda: (True, []))
    monkeypatch.setattr(operator._store, "serves", lambda *kinds: True)
    monkeypatch.setattr(Watcher, "start", lambda _watcher: None)
    operator._endpoints.take_slice(operator._settings.api_export_name, SLICE)
    monkeypatch.setattr(operator_module, "TENDING", 0.01)
    working = Thread(target=operator.work)
    working.start()
    try:
        assert fleets.asked.wait(60)
        before = len(ended)
        wait_for(lambda: len(ended) > before + 3, what="turns are checked all the same", every=0.01)
    finally:
        operator.stop.set()
        fleets.answers.set()
        working.join()


@pytest.mark.parametrize(("match", "count"), [("label", 2), ("name=ws1", 0)])
def test_the_platform_sees_how_many_clusters_belong_to_no_workspace(match: str, count: int) -> None:
    server: Any = OneServer()
    settings = Settings(kcp_kubeconfig="/kcp", mgmt_kubeconfig="/mgmt", node_id="one", mgmt_match=match)
    operator = Operator(settings, server, server, Metrics(), Event())
    operator._clusters.objects.replace([{"metadata": {"name": name, "namespace": "default"}} for name in ("ffm", "ber")])
    for _ in range(2):
        operator._tend()
        assert operator.metrics.registry.get_sample_value("mesh_operator_unlabelled_clusters") == count


def test_the_platform_sees_how_many_workspaces_have_objects_that_are_not_even_known_and_none_of_their_names() -> None:
    server: Any = OneServer()
    settings = Settings(kcp_kubeconfig="/kcp", mgmt_kubeconfig="/mgmt", node_id="one", max_objects_per_workspace=2)
    operator = Operator(settings, server, server, Metrics(), Event())

    def many(workspace: str, count: int) -> list[dict[str, Any]]:
        annotations = {"kcp.io/cluster": workspace}
        return [{"metadata": {"name": f"s{n}", "namespace": "default", "annotations": annotations}, "spec": {}} for n in range(count)]

    def shown() -> list[float | None]:
        operator._tend()
        name = "mesh_operator_workspaces_with_ignored_objects"
        return [operator.metrics.registry.get_sample_value(name, {"kind": kind}) for kind in (SERVICE, INTENT)]

    for url in (URL, f"{URL}/another-shard"):
        operator._store.add_url(url, [SERVICE, INTENT])
        operator._store.replace(url, SERVICE, [*many("loud", 12), *many("louder", 20), *many("quiet", 2)])
    assert shown() == [2, 0], "a workspace counts once, on however many shards and by however many objects"
    assert not {"loud", "louder"} & set(generate_latest(operator.metrics.registry).decode().replace('"', " ").split())
    for url in (URL, f"{URL}/another-shard"):
        operator._store.replace(url, SERVICE, many("loud", 2))
    assert shown() == [0, 0], "the next list shows that there is room again"


@pytest.mark.parametrize("source", ["kcp", "kubernetes"])
def test_no_record_of_another_source_is_an_orphan_and_the_platform_sees_how_many_there_are(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The uid of the object that tells the source is another one than in the record, as after a restore."""
    record = {"schema": 1, "key": ["ws-before", "team-a", "edge"], "uid": "u", "clusters": ["c1"], "tombstone": False, "since": ""}
    name = name_of(MeshKey("ws-before", "team-a", "edge"))
    config_map: dict[str, Any] = {"metadata": {"name": name, "resourceVersion": "1"}, "data": {"record": json.dumps(record)}}
    shown = [config_map | {"data": config_map["data"] | {"source": "before"}}]
    server: Any = OneServer()
    server.server.page = lambda path, **_: {"metadata": {}, "items": shown if path.endswith("/configmaps") else []}
    identity_path = "/apiexports/edge-portal-networking" if source == "kcp" else "/namespaces/kube-system"
    server.server.get = lambda path: {"metadata": {"uid": "now"}} if path.endswith(identity_path) else None
    settings = Settings(kcp_kubeconfig="/kcp", mgmt_kubeconfig="/mgmt", node_id="one", source=source, orphan_grace=0.0)
    operator = Operator(settings, server, server, Metrics(), Event())
    operator._records.load()
    monkeypatch.setattr(Watcher, "start", lambda _watcher: None)
    operator._endpoints.take_slice(operator._settings.api_export_name, SLICE)
    operator._store.add_url(URL, [BINDING])
    operator._store.replace(URL, BINDING, ())
    for _ in range(3):
        operator._tend()
    assert operator._reconciler.orphaned == frozenset()
    assert operator.metrics.registry.get_sample_value("mesh_operator_foreign_records", {"reason": "AnotherSource"}) == 1
    shown[0] = config_map | {"data": config_map["data"] | {"source": "now"}}
    operator._records.load()
    for _ in range(3):
        operator._tend()
    assert {key.name for key in operator._reconciler.orphaned} == {"edge"}, "one of this source is"
    assert operator.metrics.registry.get_sample_value("mesh_operator_foreign_records", {"reason": "AnotherSource"}) == 0

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What probes and Prometheus get."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection
from typing import Any

import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.catalogue import OPERATOR, metrics_of
from mesh_operator.base import serve as served
from mesh_operator.base.serve import Metrics, serve
from tests.testing.waiting import PATIENT, wait_for

Get = Callable[[str], tuple[int, str]]


class Operator:
    """What the answers are made of."""

    outdated: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def alive(self) -> tuple[bool, tuple[str, ...]]:
        return not self.outdated, self.outdated

    def ready(self) -> tuple[bool, tuple[str, ...]]:
        return not self.missing, self.missing


@pytest.fixture(scope="module")
def only_operator() -> Operator:
    return Operator()


@pytest.fixture
def operator(only_operator: Operator) -> Operator:
    vars(only_operator).clear()
    return only_operator


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture(scope="module")
def get(only_operator: Operator, metrics: Metrics) -> Iterator[Get]:
    """One server for all: it needs half a second to shut down."""
    [server] = serve("127.0.0.1:0", metrics, alive=lambda: only_operator.alive(), ready=lambda: only_operator.ready())

    def ask(path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=PATIENT)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    yield ask
    server.shutdown()
    server.server_close()


def samples(get: Get) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    status, text = get("/metrics")
    assert status == 200
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in text_string_to_metric_families(text) for s in family.samples}


def test_it_is_alive_or_not(get: Get, operator: Operator) -> None:
    assert get("/healthz") == (200, "ok\n")
    operator.outdated = ("the file of --kcp-kubeconfig has changed, and is read at the start",)
    assert get("/healthz") == (503, "the file of --kcp-kubeconfig has changed, and is read at the start\n")


def test_it_is_ready_or_says_what_is_missing(get: Get, operator: Operator) -> None:
    operator.missing = ("Fabric was not listed", "GlobalService was not listed")
    assert get("/readyz") == (503, "Fabric was not listed\nGlobalService was not listed\n")
    operator.missing = ()
    assert get("/readyz?verbose=1")[0] == 200


def test_other_paths_are_not_there(get: Get) -> None:
    for path in ("/", "/healthz/x", "/../etc/passwd"):
        assert get(path)[0] == 404


def test_a_check_that_fails_is_an_answer_without_its_text(get: Get, operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> Any:
        raise KeyError("token abc")

    operator.ready = broken  # type: ignore[method-assign]  # a method that breaks takes the place of the real one
    status, text = get("/readyz")
    assert status == 503
    assert "abc" not in text
    assert get("/healthz")[0] == 200
    assert "abc" not in "".join(capsys.readouterr())


def show(metrics: Metrics, **given: Any) -> None:
    nothing: dict[str, Any] = {key: {} for key in ("objects", "ages", "beyond", "ignored", "foreign", "states")}
    metrics.show(**{"endpoints": 0, "queued": 0, "unlabelled": 0, **nothing, **given})


def test_figures_are_shown_and_replaced(get: Get, metrics: Metrics) -> None:
    show(
        metrics,
        endpoints=2,
        queued=3,
        unlabelled=5,
        objects={"GlobalService": 4},
        ages={"Fabric": 12.5},
        beyond={"Fabric": 1},
        ignored={"Fabric": 3},
        foreign={"AnotherSource": 2, "UnknownSource": 0},
        states={"mesh_operator_members": {("joined",): 3, ("down",): 1}},
    )
    show(
        metrics,
        endpoints=1,
        unlabelled=2,
        objects={"GlobalService": 4},
        ages={"Fabric": 2.5},
        beyond={"Fabric": 7},
        ignored={"Fabric": 2},
        foreign={"AnotherSource": 0, "UnknownSource": 1},
        states={"mesh_operator_members": {("joined",): 4}, "mesh_operator_findings": {("CM-CERT-04", "remediable"): 2}},
    )
    metrics.leader.set(1)
    found = samples(get)
    assert found["mesh_operator_endpoints", ()] == 1
    assert found["mesh_operator_queue_length", ()] == 0
    assert found["mesh_operator_unlabelled_clusters", ()] == 2
    assert found["mesh_operator_objects", (("kind", "GlobalService"),)] == 4
    assert found["mesh_operator_last_list_age_seconds", (("kind", "Fabric"),)] == 2.5
    assert found["mesh_operator_objects_beyond_bounds", (("kind", "Fabric"),)] == 7
    assert found["mesh_operator_workspaces_with_ignored_objects", (("kind", "Fabric"),)] == 2
    assert found["mesh_operator_foreign_records", (("reason", "AnotherSource"),)] == 0
    assert found["mesh_operator_foreign_records", (("reason", "UnknownSource"),)] == 1
    assert found["mesh_operator_members", (("state", "joined"),)] == 4
    assert ("mesh_operator_members", (("state", "down"),)) not in found
    assert found["mesh_operator_findings", (("code", "CM-CERT-04"), ("severity", "remediable"))] == 2
    assert found["mesh_operator_leader", ()] == 1
    assert found["process_resident_memory_bytes", ()] > 0


def test_a_figure_has_no_gap_while_it_is_replaced() -> None:
    """A scrape between two values gets one of them: an absent series is an alert, or a test that fails now and then."""
    metrics, name = Metrics(), "mesh_operator_objects"
    show(metrics, objects={"Fabric": 1, "GlobalService": 1})
    read = []
    for family in metrics.registry.collect():
        show(metrics, objects={"Fabric": 2, "GlobalService": 2})
        read += [sample.value for sample in family.samples if sample.name == name]
    assert read in ([1, 1], [2, 2])
    ended = threading.Event()

    def replace_all_the_time() -> None:
        while not ended.is_set():
            show(metrics, objects={"Fabric": 3})

    thread = threading.Thread(target=replace_all_the_time)
    thread.start()
    try:
        found = [metrics.registry.get_sample_value(name, {"kind": "Fabric"}) for _ in range(500)]
    finally:
        ended.set()
        thread.join()
    assert None not in found


def test_work_is_counted_and_timed(get: Get, metrics: Metrics) -> None:
    with metrics.reconciling(), metrics.running():
        found = samples(get)
        assert found["mesh_operator_reconciles_in_progress", ()] == 1
        assert found["mesh_operator_runs_in_progress", ()] == 1
    metrics.reconciles.labels("ClusterMeshBinding", "run").inc()
    metrics.errors.labels("RunnerFailed").inc()
    found = samples(get)
    assert found["mesh_operator_reconciles_in_progress", ()] == 0
    assert found["mesh_operator_runs_in_progress", ()] == 0
    assert found["mesh_operator_run_seconds_count", ()] == 1
    assert found["mesh_operator_reconciles_total", (("kind", "ClusterMeshBinding"), ("outcome", "run"))] == 1
    assert found["mesh_operator_errors_total", (("reason", "RunnerFailed"),)] == 1


def labels_of(metrics: Metrics) -> dict[str, tuple[str, ...]]:
    """Names of labels by metric: of those that keep their values, and of those that are made when they are read."""
    kept: list[Any] = [item for item in metrics.registry._collector_to_names if hasattr(item, "_labelnames")]
    made = [family for family in metrics.registry.collect() if isinstance(family, GaugeMetricFamily) and family.name.startswith(OPERATOR)]
    return {item._name: tuple(item._labelnames) for item in kept} | {family.name: tuple(family._labelnames) for family in made}


def test_no_metric_has_a_label_for_tenants(metrics: Metrics) -> None:
    labels = {label for found in labels_of(metrics).values() for label in found}
    assert labels == {"code", "kind", "lane", "outcome", "phase", "reason", "severity", "state"}


def test_two_operators_in_one_process_do_not_share_figures() -> None:
    first, second = Metrics(), Metrics()
    first.leader.set(1)
    assert second.registry.get_sample_value("mesh_operator_leader") == 0


def test_no_host_means_every_address_of_both_families_and_a_reader_that_hangs_up_disturbs_no_other(
    metrics: Metrics, capsys: pytest.CaptureFixture[str]
) -> None:
    [server] = serve(":0", metrics, alive=lambda: (True, ()), ready=lambda: (True, ()))
    port = server.server_address[1]
    try:
        for said in (b"", b"GET /met", b"\x00\xff\r\n\r\n", b"POST /healthz HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENT) as reader:
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # hangs up by a reset
                reader.sendall(said)
        for host in ["127.0.0.1"] + ["::1"] * socket.has_dualstack_ipv6():
            connection = HTTPConnection(host, port, timeout=PATIENT)
            connection.request("GET", "/healthz")
            assert connection.getresponse().status == 200
            connection.close()
    finally:
        server.shutdown()
        server.server_close()
    assert capsys.readouterr().err == ""


def test_a_port_that_is_taken_is_named_with_the_flag(metrics: Metrics) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InvalidInput, match=f"--health-addr {address} cannot be listened on: Address already in use"):
            serve(address, metrics, alive=lambda: (True, ()), ready=lambda: (True, ()))


def test_the_operator_has_exactly_the_metrics_of_the_catalogue(metrics: Metrics) -> None:
    families = {family.name: family.type for family in metrics.registry.collect() if not family.name.startswith("process_")}
    labels = labels_of(metrics)
    wanted = {(metric.name.removesuffix("_total"), metric.kind.value, metric.labels) for metric in metrics_of(OPERATOR)}
    assert {(name, kind, labels[name]) for name, kind in families.items()} == wanted


def ask(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def test_metrics_have_a_port_of_their_own_where_one_is_given(metrics: Metrics) -> None:
    servers = serve("127.0.0.1:0", metrics, alive=lambda: (True, ()), ready=lambda: (True, ()), metrics_address="127.0.0.1:0")
    health, figures = (server.server_address[1] for server in servers)
    try:
        assert {path: (ask(health, path), ask(figures, path)) for path in ("/healthz", "/readyz", "/metrics")} == {
            "/healthz": (200, 404),
            "/readyz": (200, 404),
            "/metrics": (404, 200),
        }
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def test_a_taken_port_for_metrics_is_named_with_its_flag_and_leaves_no_server(metrics: Metrics) -> None:
    before = threading.active_count()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InvalidInput, match=f"--metrics-addr {address} cannot be listened on"):
            serve("127.0.0.1:0", metrics, alive=lambda: (True, ()), ready=lambda: (True, ()), metrics_address=address)
    wait_for(lambda: threading.active_count() <= before, what="the thread of the first server has ended")


@pytest.mark.slow
def test_clients_that_send_slowly_are_cut_off_and_keep_no_probe_waiting(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "SECONDS", 2.0)
    [server] = serve("127.0.0.1:0", metrics, alive=lambda: (True, ()), ready=lambda: (True, ()))
    port = server.server_address[1]
    before, slow = threading.active_count(), []
    try:
        for _ in range(3 * served.CONNECTIONS):
            slow.append(socket.create_connection(("127.0.0.1", port), timeout=30))
            slow[-1].sendall(b"GET /healthz HTTP/1.1\r\n")
        assert ask(port, "/healthz") == 200  # although every connection is taken
        wait_for(lambda: threading.active_count() <= before + served.CONNECTIONS, what="no more threads than connections")

        def all_ended() -> bool:
            for connection in slow:
                with suppress(OSError):
                    connection.sendall(b"x")  # a byte now and then never meets a timeout for silence
            return threading.active_count() <= before

        wait_for(all_ended, what="every slow connection has lost its thread")
    finally:
        for connection in slow:
            connection.close()
        server.shutdown()
        server.server_close()

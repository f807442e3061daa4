# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""HTTP endpoints /healthz, /readyz and /metrics, on one port or on two. They name kinds and phases, never a tenant.

Every client that reaches a port may read them, so a NetworkPolicy says who reaches the one with the metrics (operator/deploy/chart).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.server import ThreadingHTTPServer
from logging import ERROR
from socketserver import TCPServer
from threading import Lock, Thread
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, MetricsHandler, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.catalogue import OPERATOR, Metric, MetricKind, metrics_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.status_counts import Counts as States

from .log import log

_SECONDS: Final = (0.1, 0.5, 1, 2, 3, 5, 10, 30, 60, 120, 300, 600, 900)
SECONDS: Final = 10  # of a connection, from its beginning to the last byte of its answer
CONNECTIONS: Final = 16  # at once, of one port: a kubelet and a Prometheus have one each
_KINDS: Any = {MetricKind.GAUGE: Gauge, MetricKind.COUNTER: Counter, MetricKind.HISTOGRAM: partial(Histogram, buckets=_SECONDS)}
Counts = Mapping[str, float]
Check = Callable[[], tuple[bool, Sequence[str]]]
"""Check that returns whether all is well, and sentences about what is missing."""


class _Shown(Collector):
    """Gauges with labels, all of one moment: a reader who comes while they are replaced sees the old values or the new ones."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.values: States = {}  # by name of a metric: values by labels; replaced as a whole
        self._metrics = metrics

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return every metric with the values of the moment, also a metric without any."""
        values = self.values
        for metric in self._metrics:
            family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
            for labels, value in values.get(metric.name, {}).items():
                family.add_metric(labels, value)
            yield family


class Metrics:
    """Metrics of /metrics, as the catalogue has them (docs/metrics.md). Labels hold words of the project, never a tenant's."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        shown = [one for one in metrics_of(OPERATOR) if one.labels and one.kind is MetricKind.GAUGE]
        self._shown = _Shown(shown)
        self.registry.register(self._shown)
        make = {
            one.name.removeprefix(OPERATOR): partial(_KINDS[one.kind], one.name, one.meaning, one.labels)
            for one in metrics_of(OPERATOR)
            if one not in shown
        }
        one = {name: instrument(registry=self.registry) for name, instrument in make.items()}
        self.leader, self.reconciles, self.errors, self.dry_runs_failed = (
            one[name] for name in ("leader", "reconciles_total", "errors_total", "dry_runs_failed_total")
        )
        self.reconciling = one["reconciles_in_progress"].track_inprogress
        self._runs, self._run_seconds, self._dry_run_seconds = one["runs_in_progress"], one["run_seconds"], one["dry_run_seconds"]
        self._turns, self._waits, self._sums = one["turn_seconds"], one["turn_wait_seconds"], one

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count a run as in progress within the ``with`` block, and measure its time."""
        with self._runs.track_inprogress(), self._run_seconds.time():
            yield

    @contextmanager
    def dry_running(self) -> Iterator[None]:
        """Measure the time of a dry run."""
        with self._dry_run_seconds.time():
            yield

    def took(self, lane: str, seconds: float) -> None:
        """Count a turn that has ended."""
        self._turns.labels(lane).observe(seconds)

    def waited(self, lane: str, seconds: float) -> None:
        """Count the wait of a mesh that has its turn now."""
        self._waits.labels(lane).observe(seconds)

    def show(
        self,
        *,
        endpoints: int,
        queued: int,
        unlabelled: int,
        objects: Counts,
        ages: Counts,
        beyond: Counts,
        ignored: Counts,
        states: States,
        foreign: Counts,
    ) -> None:
        """Replace the gauges by the present values.

        ``objects``, ``beyond``, ``ignored`` (workspaces) and ``ages`` (seconds) are by kind, ``foreign`` by reason.
        """
        self._sums["endpoints"].set(endpoints)
        self._sums["queue_length"].set(queued)
        self._sums["unlabelled_clusters"].set(unlabelled)
        counted = {"objects": objects, "objects_beyond_bounds": beyond, "workspaces_with_ignored_objects": ignored}
        counted |= {"last_list_age_seconds": ages, "foreign_records": foreign}
        rows: States = {OPERATOR + name: {(label,): value for label, value in values.items()} for name, values in counted.items()}
        self._shown.values = {**rows, **states}


class _Server(ThreadingHTTPServer):
    """Server whose clients have few seconds and few connections, however slowly they send."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[socket.socket, float] = {}  # connection -> time of ``time.monotonic`` at which it ends; the oldest first
        self._lock = Lock()
        super().__init__(*arguments)

    def server_bind(self) -> None:
        """Bind the socket without a DNS query."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)  # HTTPServer's method queries DNS for the name of this machine, which may take long

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread. The oldest connection ends where there are CONNECTIONS already, so that a probe gets in."""
        with self._lock:
            oldest = next(iter(self._open), None) if len(self._open) >= CONNECTIONS else None
            self._open[request] = time.monotonic() + SECONDS
        if oldest is not None:
            self._end(oldest)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End connections whose time is up; the server calls this every half second."""
        now = time.monotonic()
        with self._lock:
            late = [connection for connection, ends in self._open.items() if ends < now]
        for connection in late:
            self._end(connection)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that was served."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def _end(self, connection: socket.socket) -> None:
        """Make the thread of a connection meet its end: a timeout of the socket would begin anew with every byte."""
        with self._lock:
            self._open.pop(connection, None)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that closed its connection; the inherited method prints a traceback."""


class _Handler(MetricsHandler):
    """Answers of one port: the paths of ``checks``, and /metrics if ``shows_metrics``."""

    timeout = SECONDS
    checks: Mapping[str, Check] = {}  # of the class that ``_listen`` makes
    shows_metrics = False

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics" and self.shows_metrics:
            return super().do_GET()
        if path not in self.checks:
            return self.send_error(404)
        try:
            fine, missing = self.checks[path]()
        except Exception as error:  # a probe gets an answer in any case
            log("health_failed", level=ERROR, error=error)
            fine, missing = False, ["this is not known; see the log"]
        self.send_response(200 if fine else 503)
        self.send_header("content-type", "text/plain; charset=utf-8")
        self.end_headers()
        self.wfile.write("\n".join(["ok", ""] if fine else [*missing, ""]).encode())


def serve(address: str, metrics: Metrics, *, alive: Check, ready: Check, metrics_address: str = "") -> list[ThreadingHTTPServer]:
    """Answer on ``address`` ([HOST]:PORT) until ``shutdown``. The checks return sentences without tenants' names.

    :param metrics_address: where /metrics is, and nothing else; "" leaves it beside the others.
    :raises InvalidInput: when an address cannot be listened on.
    """
    checks: dict[str, Check] = {"/healthz": alive, "/readyz": ready}
    servers = [_listen("--health-addr", address, {"checks": checks, "shows_metrics": not metrics_address, "registry": metrics.registry})]
    try:
        if metrics_address:
            servers.append(_listen("--metrics-addr", metrics_address, {"shows_metrics": True, "registry": metrics.registry}))
    except InvalidInput:
        servers[0].shutdown()
        servers[0].server_close()
        raise
    return servers


def _listen(flag: str, address: str, answers: Mapping[str, Any]) -> ThreadingHTTPServer:
    handler = type("Handler", (_Handler,), dict(answers))
    host, _, port = address.rpartition(":")
    six = ":" in host or (not host and socket.has_dualstack_ipv6())
    kind = type("Server", (_Server,), {"address_family": socket.AF_INET6 if six else socket.AF_INET})
    try:
        server: ThreadingHTTPServer = kind((host.strip("[]"), int(port)), handler)
    except OSError as error:
        why = one_line(error.strerror or "", 80)
        raise InvalidInput(f"{flag} {address} cannot be listened on: {why}.", remedy="Give another [HOST]:PORT.") from None
    Thread(target=server.serve_forever, name=flag.strip("-").partition("-")[0], daemon=True).start()
    return server

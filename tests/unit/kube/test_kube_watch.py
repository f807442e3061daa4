# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Pages, watches and JSON patches against a server that answers as a test says: what is sent, what comes out, what faults are called."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import (
    CredentialsInvalid,
    Forbidden,
    MeshError,
    ServerRefused,
    Unreachable,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube import client
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, Timeouts, open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.errors import AnswerTooLong
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from tests.lab.patience import scaled
from tests.testing.scripted_server import CANARY, kubeconfig
from tests.testing.waiting import PATIENT

PATH = "/clusters/*/apis/networking.edge-portal.eu/v1alpha1/globalservices"
ADDED = {"type": "ADDED", "object": {"metadata": {"name": "web", "resourceVersion": "101"}}}
BOOKMARK = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "140"}}}
EXPIRED = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": CANARY}}


@dataclass(frozen=True)
class Sent:
    path: str
    headers: dict[str, str]
    body: bytes
    connection: tuple[str, int]  # the client's end

    @property
    def query(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Streaming

    def log_message(self, *_: Any) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.server.asked.append(Sent(self.path, headers, body, self.client_address))
        self.server.answers.pop(0)(self)

    do_GET = do_PATCH = _serve

    def whole(self, status: int, body: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


class Streaming(ThreadingHTTPServer):
    """``answers`` is used up one by one."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Callable[[Handler], None]] = []
        self.asked: list[Sent] = []
        self.finished = threading.Event()  # a test is over

    def handle_error(self, *_: Any) -> None:
        """Connections that are cut are what many tests are about."""


@pytest.fixture
def server() -> Iterator[Streaming]:
    server = Streaming()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.finished.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def cluster(server: Streaming) -> Iterator[Cluster]:
    config = kubeconfig({"server": f"http://127.0.0.1:{server.server_port}/services/x"}, {"token": CANARY, "as": "me"})
    access = ClusterAccess(host="kcp", kubeconfig=config, context=None)
    with open_cluster(access, timeouts=Timeouts(connect=2.0, read=2.0)) as cluster:
        yield cluster


def lines(*events: Any) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def streams(*chunks: bytes, ends: Callable[[Handler], object] = lambda handler: handler.chunk(b"")) -> Callable[[Handler], None]:
    def answer(handler: Handler) -> None:
        handler.begin()
        for chunk in chunks:
            handler.chunk(chunk)
        ends(handler)

    return answer


def whole(status: int, body: Any) -> Callable[[Handler], None]:
    return lambda handler: handler.whole(status, body)


def status(code: int, reason: str) -> Callable[[Handler], None]:
    return whole(code, {"kind": "Status", "status": "Failure", "reason": reason, "message": CANARY, "code": code})


def seen_until_error(cluster: Cluster) -> tuple[list[Any], MeshError]:
    seen: list[Any] = []
    with pytest.raises(MeshError) as raised:
        seen.extend(one for one in cluster.watch(PATH, version="100", seconds=60))
    assert CANARY not in str(raised.value)
    return seen, raised.value


# Pages


def test_a_page_is_asked_for_by_limit_token_and_selector(server: Streaming, cluster: Cluster) -> None:
    first = {"metadata": {"resourceVersion": "7", "continue": "t+/1"}, "items": [{}]}
    server.answers += [whole(200, first), whole(200, {"metadata": {"resourceVersion": "7"}, "items": []})]
    assert cluster.page(PATH) == first
    cluster.page(PATH, token="t+/1", field_selector="metadata.name=a", metadata_only=True)
    assert urlsplit(server.asked[0].path).path == f"/services/x{PATH}"
    assert server.asked[0].query == {"limit": "500"}
    assert server.asked[1].query == {"limit": "500", "continue": "t+/1", "fieldSelector": "metadata.name=a"}
    assert "as=PartialObjectMetadataList" in server.asked[1].headers["accept"]
    assert cluster.requests == {"list globalservices": 2}


def test_a_page_has_no_more_objects_and_bytes_than_its_caller_takes(server: Streaming, cluster: Cluster) -> None:
    long: dict[str, Any] = {"items": [{"data": "x" * 900}]}
    short: dict[str, Any] = {"items": [{}]}
    server.answers += [whole(200, long), whole(200, short)]
    assert cluster.page(PATH, label_selector="a=b,c", most=8, longest=800) == short
    assert [sent.query for sent in server.asked] == [{"limit": limit, "labelSelector": "a=b,c"} for limit in ("8", "2")]


def test_a_resource_that_is_not_served_has_no_page(server: Streaming, cluster: Cluster) -> None:
    server.answers += [whole(404, b"404 page not found"), status(404, "NotFound")]
    assert cluster.page(PATH) is None
    assert cluster.page(PATH) is None


def test_an_expired_token_is_reported_by_the_status(server: Streaming, cluster: Cluster) -> None:
    server.answers.append(status(410, "Expired"))
    with pytest.raises(ServerRefused) as raised:
        cluster.page(PATH, token="old")
    assert raised.value.status == 410


# Watches


def test_a_watch_gives_each_event_and_ends_when_the_server_ends_it(server: Streaming, cluster: Cluster) -> None:
    server.answers.append(streams(lines(ADDED), lines(BOOKMARK, EXPIRED)))
    assert list(cluster.watch(PATH, version="100", seconds=270)) == [ADDED, BOOKMARK, EXPIRED]
    expected = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "270", "resourceVersion": "100"}
    assert server.asked[0].query == expected
    assert server.asked[0].headers["impersonate-user"] == "me"
    assert "authorization" not in server.asked[0].headers, "no token goes to a server that proves nothing, as with kubectl"


def test_a_watch_of_metadata_asks_for_nothing_else(server: Streaming, cluster: Cluster) -> None:
    server.answers.append(streams())
    assert list(cluster.watch(PATH, version="1", seconds=1, field_selector="metadata.name=a", metadata_only=True)) == []
    assert server.asked[0].query["fieldSelector"] == "metadata.name=a"
    assert server.asked[0].headers["accept"] == "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def test_an_event_is_handed_over_when_it_comes_and_not_when_the_next_one_does(server: Streaming, cluster: Cluster) -> None:
    ended = threading.Event()

    def end(_handler: Handler) -> None:
        server.finished.wait(scaled(10))
        ended.set()

    server.answers.append(streams(lines(ADDED), ends=end))
    watch = cluster.watch(PATH, version="100", seconds=60)
    assert next(watch) == ADDED
    assert not ended.is_set(), "it came when the server had ended the watch"


@pytest.mark.parametrize("size", [1, 7, 64])
def test_events_are_whole_however_they_are_cut_into_chunks(server: Streaming, cluster: Cluster, size: int) -> None:
    big = {"type": "MODIFIED", "object": {"spec": "é\n" * 50}}
    data = lines(ADDED, big, BOOKMARK)
    server.answers.append(streams(*(data[at : at + size] for at in range(0, len(data), size))))
    assert list(cluster.watch(PATH, version="100", seconds=60)) == [ADDED, big, BOOKMARK]


def test_a_line_without_end_ends_the_watch_before_it_fills_the_memory(
    server: Streaming, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_LIMIT", 1 << 20)
    sent: list[int] = []

    def endless(handler: Handler) -> None:
        for _ in range(10_000):  # 640 MiB
            sent.append(1)
            handler.chunk(b"x" * (1 << 16))

    server.answers.append(streams(lines(ADDED), ends=endless))
    watch = cluster.watch(PATH, version="100", seconds=60)
    assert next(watch) == ADDED
    with pytest.raises(AnswerTooLong, match="longer than 1 MiB"):
        next(watch)
    assert len(sent) < 5_000, "the connection is closed, whatever the server goes on to send"


def test_empty_lines_are_no_events(server: Streaming, cluster: Cluster) -> None:
    server.answers.append(streams(b"\n\r\n" + lines(ADDED) + b"\n"))
    assert list(cluster.watch(PATH, version="100", seconds=60)) == [ADDED]


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (status(410, "Expired"), ServerRefused, 410),
        (whole(404, b"404 page not found"), ServerRefused, 404),
        (status(500, "InternalError"), ServerRefused, 500),
        (status(429, "TooManyRequests"), ServerRefused, 429),
        (status(403, "Forbidden"), Forbidden, None),
        (status(401, "Unauthorized"), CredentialsInvalid, None),
    ],
    ids=["410", "404", "500", "429", "403", "401"],
)
def test_a_watch_that_is_refused_is_refused_with_its_status_and_not_tried_again(
    server: Streaming, cluster: Cluster, answer: Callable[[Handler], None], kind: type[MeshError], code: int | None
) -> None:
    server.answers.append(answer)
    seen, error = seen_until_error(cluster)
    assert seen == [] and isinstance(error, kind) and getattr(error, "status", None) == code
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        streams(lines(ADDED), ends=Handler.hang_up),
        streams(lines(ADDED), lines(BOOKMARK)[:20], ends=Handler.hang_up),
        streams(lines(ADDED), lines(BOOKMARK)[:20]),  # as a proxy may end it
    ],
    ids=["between two events", "within an event", "within an event, politely"],
)
def test_a_watch_that_is_cut_is_unreachable_after_what_came_before(
    server: Streaming, cluster: Cluster, answer: Callable[[Handler], None]
) -> None:
    server.answers.append(answer)
    seen, error = seen_until_error(cluster)
    assert seen == [ADDED]
    assert isinstance(error, Unreachable) and "watch" in str(error)


def test_a_watch_cut_within_a_chunk_is_unreachable(server: Streaming, cluster: Cluster) -> None:
    def answer(handler: Handler) -> None:
        handler.begin()
        handler.chunk(lines(ADDED))
        handler.wfile.write(b"400\r\n" + lines(BOOKMARK)[:20])
        handler.hang_up()

    server.answers.append(answer)
    seen, error = seen_until_error(cluster)
    assert seen == [ADDED] and isinstance(error, Unreachable) and "watch" in str(error)


@pytest.mark.parametrize("text", [b"<html>canary-5f1e</html>\n", b"[1]\n", b'{"kind": "GlobalServiceList", "items": []}\n'])
def test_what_is_no_event_is_not_passed_over(server: Streaming, cluster: Cluster, text: bytes) -> None:
    server.answers.append(whole(200, text))
    seen, error = seen_until_error(cluster)
    assert seen == [] and isinstance(error, Unreachable)


def test_a_watch_without_chunks_ends_with_its_connection(server: Streaming, cluster: Cluster) -> None:
    def answer(handler: Handler) -> None:
        handler.close_connection = True
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(lines(ADDED))

    server.answers.append(answer)
    assert list(cluster.watch(PATH, version="100", seconds=60)) == [ADDED]


def test_a_watch_that_stays_silent_after_its_end_is_given_up(server: Streaming, cluster: Cluster) -> None:
    server.answers.append(streams(lines(ADDED), ends=lambda handler: server.finished.wait(scaled(5))))
    seen: list[Any] = []
    with pytest.raises(Unreachable, match=r"did not answer within 0\.1 s"):
        seen.extend(cluster.watch(PATH, version="100", seconds=1, grace=-0.9))


def test_a_server_that_is_not_there_is_unreachable(server: Streaming, cluster: Cluster) -> None:
    def answer(handler: Handler) -> None:
        handler.hang_up()

    server.answers.append(answer)
    seen, error = seen_until_error(cluster)
    assert seen == [] and isinstance(error, Unreachable)


def test_closing_a_watch_ends_its_connection_and_the_client_goes_on(server: Streaming, cluster: Cluster) -> None:
    ended = threading.Event()

    def until_closed(handler: Handler) -> None:
        handler.connection.settimeout(PATIENT)
        assert handler.connection.recv(1) == b""
        ended.set()

    server.answers += [streams(lines(ADDED), ends=until_closed), whole(200, {"kind": "List", "items": []})]
    watch = cluster.watch(PATH, version="100", seconds=60)
    assert next(watch) == ADDED
    watch.close()
    assert ended.wait(scaled(2))
    assert list(watch) == []
    assert cluster.page(PATH) == {"kind": "List", "items": []}


def test_a_watch_that_ended_leaves_its_connection_to_the_next(server: Streaming, cluster: Cluster) -> None:
    server.answers += [streams(lines(ADDED)), streams(lines(BOOKMARK))]
    for _ in range(2):
        list(cluster.watch(PATH, version="100", seconds=60))
    assert server.asked[0].connection == server.asked[1].connection


def test_connections_are_probed_while_they_are_silent(cluster: Cluster, server: Streaming, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that is gone without a word is otherwise noticed when a watch is over, minutes later."""
    made: list[Any] = []
    connect = urllib3.util.connection.create_connection

    def connected(*args: Any, **options: Any) -> socket.socket:
        made.append(options["socket_options"])
        return connect(*args, **options)

    monkeypatch.setattr(urllib3.util.connection, "create_connection", connected)
    server.answers.append(whole(200, {"items": []}))
    cluster.page(PATH)
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in made[0] and (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) in made[0]


# Patches


def test_credentials_for_another_host_do_not_take_the_tls_name_of_the_first_along() -> None:
    config = kubeconfig({"server": "https://127.0.0.1:6443/clusters/root", "tls-server-name": "kcp.example"}, {"token": CANARY})
    access = ClusterAccess(host="kcp", kubeconfig=config, context=None)
    names = {}
    for url in ("", "https://127.0.0.1:6443/services/apiexport/x/n", "https://shard-b:6443/services/apiexport/x/n"):
        with open_cluster(access, server=url) as cluster:
            names[url] = cluster._credentials.tls_server_name
    assert list(names.values()) == ["kcp.example", "kcp.example", None]


def test_a_cluster_that_is_known_to_be_unavailable_is_not_tried() -> None:
    access = ClusterAccess(host="c1", kubeconfig="/nowhere", context=None, unavailable="it is not Ready\nyet")
    with pytest.raises(Unreachable, match="c1: it is not Ready yet"):
        open_cluster(access)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""No answer of an API server, however slow, long or strange, holds a run for longer than it is given, or fills its memory."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, ServerRefused, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube import client as kube_client
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, Timeouts, open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.errors import AnswerTooLong
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from tests.testing.hostile_server import HostileServer, upgrade
from tests.testing.scripted_server import CANARY, Answer, Asked, ScriptedServer
from tests.testing.waiting import PATIENT

GIVEN = 0.2  # seconds for a whole answer that does not come; the silence that is borne is much longer
PATH = "/api/v1/secrets"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HostileServer]:
    with HostileServer(tmp_path) as server:
        yield server


def opened(server: HostileServer, answer: float) -> AbstractContextManager[Cluster]:
    access = ClusterAccess(host="c1", kubeconfig=server.kubeconfig(), context=None)
    return open_cluster(access, timeouts=Timeouts(connect=PATIENT, read=PATIENT, answer=answer))


@pytest.fixture
def cluster(server: HostileServer) -> Iterator[Cluster]:
    with opened(server, PATIENT) as cluster:
        yield cluster


@pytest.fixture
def hurried(server: HostileServer) -> Iterator[Cluster]:
    with opened(server, GIVEN) as cluster:
        yield cluster


Ask = Callable[[Cluster, float], Any]
"""A call to a cluster, and the seconds that a call into a pod is given."""


def read(cluster: Cluster, _seconds: float) -> Any:
    return cluster.get(f"{PATH}/a")


def write(cluster: Cluster, _seconds: float) -> Any:
    return cluster.apply(f"{PATH}/a", {}, manager="m")


def list_all(cluster: Cluster, _seconds: float) -> Any:
    return cluster.list(PATH)


def watch(cluster: Cluster, seconds: float) -> Any:
    return list(cluster.watch(PATH, version="1", seconds=0, grace=seconds))


def run(cluster: Cluster, seconds: float) -> Any:
    return cluster.exec("p", "c", ["true"], timeout=seconds)


def forward(cluster: Cluster, seconds: float) -> Any:
    return cluster.forward_get("p", 9889, "/", timeout=seconds)


STATUS_LINE = b"HTTP/1.1 200 OK\r\n" + b"x" * 60_000
DRIPS: dict[str, Callable[[], Iterator[int]]] = {
    "the status line": lambda: iter(STATUS_LINE),
    "the head": lambda: itertools.chain(HEAD, itertools.cycle(b"X-More: 1\r\n")),
    "the body": lambda: itertools.chain(HEAD + b"Content-Length: 99999\r\n\r\n", itertools.cycle(b" ")),
    "the chunks": lambda: itertools.chain(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", itertools.cycle(b"1\r\n \r\n")),
}
FAULT = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 99999\r\n\r\n"
EVENT = json.dumps({"type": "BOOKMARK", "object": {}}).encode() + b"\n"
WATCHED: dict[str, Callable[[], Iterator[int]]] = {
    **DRIPS,
    "the size of a chunk": lambda: itertools.chain(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", itertools.cycle(b"x")),
    "an error": lambda: itertools.chain(FAULT, itertools.cycle(b" ")),
    "events without end": lambda: itertools.chain(HEAD + b"Connection: close\r\n\r\n", itertools.cycle(EVENT)),
}


@pytest.mark.parametrize(
    ("ask", "data"),
    [*((list_all, part) for part in DRIPS), (run, "the head"), (run, "the body"), (forward, "the status line")],
)
def test_an_answer_that_comes_byte_by_byte_is_given_up(server: HostileServer, hurried: Cluster, ask: Ask, data: str) -> None:
    server.speak = lambda connection, head: server.drip(connection, DRIPS[data]())
    with pytest.raises(Unreachable, match=r"0\.2 s"):
        ask(hurried, GIVEN)


@pytest.mark.parametrize(("ask", "data"), [*((list_all, part) for part in DRIPS), *((watch, part) for part in WATCHED)])
@pytest.mark.parametrize("tls", [True, False], ids=["TLS", "plain"])
def test_no_list_and_no_watch_lasts_for_longer_than_it_may_whatever_its_server_goes_on_to_say(
    tmp_path: Path, ask: Ask, data: str, tls: bool
) -> None:
    with HostileServer(tmp_path, tls=tls) as server, opened(server, GIVEN) as cluster:
        server.speak = lambda connection, head: server.drip(connection, WATCHED[data]())
        with pytest.raises(Unreachable, match=r"0\.2 s"):
            ask(cluster, GIVEN)


def test_a_watch_passes_on_what_comes_before_its_time_is_up(server: HostileServer, cluster: Cluster) -> None:
    def speak(connection: socket.socket, head: str) -> None:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n" % (len(EVENT), EVENT))
        server.drip(connection, itertools.cycle(b"1\r\n \r\n"))

    server.speak = speak
    watching = cluster.watch(PATH, version="1", seconds=1, grace=1.0)
    assert next(watching)["type"] == "BOOKMARK"
    with pytest.raises(Unreachable, match=r"did not answer within 2 s"):
        next(watching)


@pytest.mark.parametrize(
    ("ask", "frames"),
    [(forward, b"\x82\x7f" + (4096).to_bytes(8, "big") + b"\x05" * 4096), (run, b"\x89\x01x"), (run, b"\x82\x02\x05x")],
    ids=["one frame", "pings", "frames"],
)
def test_a_stream_that_comes_byte_by_byte_is_given_up(server: HostileServer, hurried: Cluster, ask: Ask, frames: bytes) -> None:
    def speak(connection: socket.socket, head: str) -> None:
        connection.sendall(upgrade(head))
        server.drip(connection, itertools.cycle(frames))

    server.speak = speak
    with pytest.raises(Unreachable, match=r"0\.2 s"):
        ask(hurried, GIVEN)


@pytest.mark.parametrize("length", [2**23 + 1, 2**40, 2**63])
def test_a_frame_is_refused_by_its_length_before_it_is_read(server: HostileServer, cluster: Cluster, length: int) -> None:
    def speak(connection: socket.socket, head: str) -> None:
        connection.sendall(upgrade(head) + b"\x82\x7f" + length.to_bytes(8, "big"))
        server.wait(connection)

    server.speak = speak
    with pytest.raises(Unreachable, match="a stream that no API server sends"):
        cluster.exec("p", "c", ["true"], timeout=PATIENT)


def test_a_message_in_parts_is_refused(server: HostileServer, cluster: Cluster) -> None:
    def speak(connection: socket.socket, head: str) -> None:
        connection.sendall(upgrade(head) + b"\x02\x02\x01x" + b"\x00\x01x" * 100)
        server.wait(connection)

    server.speak = speak
    with pytest.raises(ServerRefused, match="in parts"):
        cluster.exec("p", "c", ["true"], timeout=PATIENT)


@pytest.mark.parametrize(
    ("ask", "status"),
    [*((run, status) for status in (301, 302, 303, 307, 308)), (forward, 302), (read, 302)],
)
def test_no_redirect_is_followed(server: HostileServer, cluster: Cluster, ask: Ask, status: int, tmp_path: Path) -> None:
    tmp_path.joinpath("other").mkdir()
    with HostileServer(tmp_path / "other") as other:
        answer = f"HTTP/1.1 {status} Found\r\nLocation: {other.url}/metrics\r\nContent-Length: 0\r\n\r\n"
        server.speak = lambda connection, head: connection.sendall(answer.encode())
        with pytest.raises(ClusterError, match=str(status)):
            ask(cluster, PATIENT)
        assert other.heads == []


def test_a_cookie_of_a_server_is_never_sent(server: HostileServer, cluster: Cluster) -> None:
    """Also not to the server itself: a long one would make it refuse every further request."""
    cookie = f"Set-Cookie: stays={'x' * 5000}; Domain=1\r\n"

    def speak(connection: socket.socket, head: str) -> None:
        first = len(server.heads) == 1
        connection.sendall(
            upgrade(head).replace(b"\r\n\r\n", b"\r\n" + cookie.encode() * first + b"\r\n") + b'\x82\x15\x03{"status":"Success"}'
        )

    server.speak = speak
    for _ in range(2):
        assert cluster.exec("p", "c", ["true"], timeout=PATIENT).exit_code == 0
    assert len(server.heads) == 2 and not any("cookie" in head.lower() for head in server.heads)


def test_a_read_of_which_the_handshake_breaks_is_tried_again_and_a_write_is_not(server: HostileServer, cluster: Cluster) -> None:
    body = b'{"kind":"Secret","metadata":{"name":"a"}}'
    server.speak = lambda connection, head: connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    server.breaks = 1
    assert cluster.get(f"{PATH}/a") == json.loads(body)
    assert server.handshakes == 2
    server.breaks = 100
    for ask, tries in ((read, 2), (write, 1)):
        server.handshakes = 0
        cluster.close()
        with pytest.raises(Unreachable, match="TLS"):
            ask(cluster, PATIENT)
        assert server.handshakes == tries


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[tuple[ScriptedServer, Cluster]]:
    with (
        ScriptedServer(tmp_path) as server,
        open_cluster(ClusterAccess(host="c1", kubeconfig=server.kubeconfig(), context=None)) as cluster,
    ):
        yield server, cluster


def repeating(answer: Answer) -> Callable[[Asked], Answer]:
    return lambda asked: answer


def test_a_list_without_an_end_is_given_up(scripted: tuple[ScriptedServer, Cluster], monkeypatch: pytest.MonkeyPatch) -> None:
    server, cluster = scripted
    monkeypatch.setattr(kube_client, "PAGES_LIMIT", 5)
    monkeypatch.setattr(kube_client, "OBJECTS_LIMIT", 7)
    for items, pages in (([], 5), ([{"metadata": {"name": CANARY}}] * 4, 2)):
        server.asked.clear()
        page = Answer(body={"kind": "SecretList", "items": items, "metadata": {"continue": "more"}})
        server.answer = repeating(page)
        with pytest.raises(AnswerTooLong, match="list of secrets has more than 7 objects or 5 pages"):
            cluster.list(PATH)
        assert len(server.asked) == pages


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12)
@given(sizes=st.lists(st.sampled_from([10, 100, 3_000, 7_000]), max_size=16), pages=st.booleans())
def test_large_objects_make_small_pages_and_lose_no_object(scripted: tuple[ScriptedServer, Cluster], sizes: list[int], pages: bool) -> None:
    """Large objects of other writers must not make a list fail (an API server takes 256 KiB of annotations with each)."""
    server, cluster = scripted
    objects = [{"metadata": {"name": f"o{number}"}, "data": "x" * size} for number, size in enumerate(sizes)]

    def answer(asked: Asked) -> Answer:
        query = dict(pair.split("=") for pair in asked.path.partition("?")[2].split("&"))
        first = int(query.get("continue", 0))
        after = first + int(query["limit"])
        body = {"kind": "SecretList", "items": objects[first:after], "metadata": {"continue": str(after) if after < len(objects) else ""}}
        return Answer(body=body)

    server.answer = answer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kube_client, "ANSWER_LIMIT", 8_000)
        if not pages:
            assert cluster.list(PATH) == objects
            return
        found, token = [], ""
        while True:
            page = cluster.page(PATH, token=token) or {}
            found += page["items"]
            token = page["metadata"]["continue"]
            if not token:
                break
        assert found == objects


@pytest.mark.parametrize("data", ["x" * 50_000, [{}] * 5_000])
def test_a_page_that_takes_much_memory_is_read_in_parts_before_it_is_decoded(
    scripted: tuple[ScriptedServer, Cluster], monkeypatch: pytest.MonkeyPatch, data: Any
) -> None:
    server, cluster = scripted
    monkeypatch.setattr(kube_client, "PAGE_TEXT", 40_000)
    monkeypatch.setattr(kube_client, "PAGE_MARKS", 5_000)
    asked: list[int] = []

    def answer(request: Asked) -> Answer:
        asked.append(int(request.path.partition("limit=")[2].partition("&")[0]))
        return Answer(body={"kind": "SecretList", "items": [{"data": data}] * min(3, asked[-1]), "metadata": {}})

    server.answer = answer
    assert len((cluster.page(PATH) or {})["items"]) == 1, "a single object is read however large it is"
    assert asked == [500, 125, 31, 7, 1]
    asked.clear()
    assert len(cluster.list(PATH)) == 3 and asked == [500], "a list that is needed as a whole is read as before"


def test_one_object_that_is_too_long_is_an_error(scripted: tuple[ScriptedServer, Cluster], monkeypatch: pytest.MonkeyPatch) -> None:
    server, cluster = scripted
    monkeypatch.setattr(kube_client, "ANSWER_LIMIT", 1 << 20)
    server.answer = lambda asked: Answer(body=json.dumps({"kind": "SecretList", "items": [{"data": CANARY * (1 << 17)}]}).encode())
    with pytest.raises(AnswerTooLong, match="longer than 1 MiB") as caught:
        cluster.list(PATH)
    assert CANARY not in str(caught.value)
    assert [asked.path.rpartition("limit=")[2] for asked in server.asked] == ["500", "125", "31", "7", "1"]

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The client against a server that answers as a test says: what is sent, what is retried, and what each fault is called."""

from __future__ import annotations

import json
import socket
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from urllib3.exceptions import InsecureRequestWarning

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import (
    CredentialsInvalid,
    Forbidden,
    MeshError,
    ServerRefused,
    Unreachable,
    WriteConflict,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, Timeouts, open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from tests.testing.log_records import log_records
from tests.testing.rows import in_one_test, one_test
from tests.testing.scripted_server import CANARY, Answer, Asked, ScriptedServer

SECRET = "/api/v1/namespaces/kube-system/secrets/cilium-ca"
BODY = {"apiVersion": "v1", "kind": "Secret", "data": {"key": CANARY}}
FOUND = {"kind": "Secret", "metadata": {"name": "cilium-ca"}}


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    with ScriptedServer(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def server(shared_server: ScriptedServer) -> ScriptedServer:
    """A server that was asked nothing yet and has no answers."""
    shared_server.asked, shared_server.answer = [], lambda asked: Answer(404)
    return shared_server


def opened(kubeconfig: Any, **timeouts: float) -> Cluster:
    return open_cluster(ClusterAccess(host="c1", kubeconfig=kubeconfig, context=None), timeouts=Timeouts(**timeouts))


@pytest.fixture
def cluster(server: ScriptedServer) -> Iterator[Cluster]:
    with opened(server.kubeconfig()) as cluster:
        yield cluster


def status(code: int, reason: str, **details: Any) -> Answer:
    return Answer(code, {"kind": "Status", "status": "Failure", "reason": reason, "message": CANARY, "details": details})


def says(server: ScriptedServer, *answers: Answer) -> None:
    """These answers one after the other, the last one for ever."""
    left = list(answers)
    server.answer = lambda asked: left.pop(0) if len(left) > 1 else left[0]


def query(asked: Asked) -> dict[str, list[str]]:
    return parse_qs(urlsplit(asked.path).query)


def test_an_object_is_read_with_the_token_of_the_kubeconfig(server: ScriptedServer, cluster: Cluster) -> None:
    says(server, Answer(200, FOUND))
    assert cluster.get(SECRET) == FOUND
    assert server.asked[0].headers["authorization"] == f"Bearer {CANARY}"
    assert cluster.requests == {"get secrets": 1}


def test_what_is_not_there_is_none_and_a_resource_that_is_not_served_has_no_objects(server: ScriptedServer, cluster: Cluster) -> None:
    says(server, status(404, "NotFound"), Answer(404, b"404 page not found"))
    assert cluster.get(SECRET) is None
    assert cluster.list("/apis/cilium.io/v2/ciliumnodes") == []


def test_a_long_list_is_read_page_by_page(server: ScriptedServer, cluster: Cluster) -> None:
    says(
        server,
        Answer(200, {"items": [{"n": 1}, {"n": 2}], "metadata": {"continue": "next/+"}}),
        Answer(200, {"items": [{"n": 3}], "metadata": {}}),
    )
    assert cluster.list("/api/v1/nodes", label_selector="a in (b,c)") == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [query(a).get("continue") for a in server.asked] == [None, ["next/+"]]
    assert all(query(a)["labelSelector"] == ["a in (b,c)"] and query(a)["limit"] == ["500"] for a in server.asked)


def test_server_side_apply_never_forces(server: ScriptedServer, cluster: Cluster) -> None:
    says(server, Answer(200, FOUND))
    cluster.apply(SECRET, BODY, manager="m/1", dry_run=True)
    asked = server.asked[0]
    assert (asked.method, asked.headers["content-type"]) == ("PATCH", "application/apply-patch+yaml")
    assert query(asked) == {"fieldManager": ["m/1"], "force": ["false"], "dryRun": ["All"]}
    assert json.loads(asked.body) == BODY


def test_merge_patch_and_delete_say_what_they_mean(server: ScriptedServer, cluster: Cluster) -> None:
    says(server, Answer(200, FOUND))
    cluster.merge_patch(SECRET, BODY, manager="m")
    cluster.delete(SECRET, uid="u", resource_version="7")
    patch, delete = server.asked
    assert patch.headers["content-type"] == "application/merge-patch+json" and "dryRun" not in query(patch)
    assert delete.method == "DELETE" and json.loads(delete.body)["preconditions"] == {"uid": "u", "resourceVersion": "7"}


def test_deleting_what_is_gone_is_no_error(server: ScriptedServer, cluster: Cluster) -> None:
    says(server, status(404, "NotFound"))
    cluster.delete(SECRET)
    assert [a.method for a in server.asked] == ["DELETE"]


def test_a_read_is_tried_again_when_the_server_is_busy_or_hangs_up(server: ScriptedServer, cluster: Cluster) -> None:
    says(server, Answer(429, {}, {"retry-after": "0"}), Answer(503, {}), Answer(hang_up=True), Answer(200, FOUND))
    assert cluster.get(SECRET) == FOUND
    assert len(server.asked) == 4
    assert cluster.requests == {"get secrets": 1}


def test_a_server_cannot_make_us_wait_for_long(server: ScriptedServer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    says(server, Answer(429, {}, {"retry-after": "86400"}), Answer(200, FOUND))
    assert cluster.get(SECRET) == FOUND
    assert slept == [5.0]


@pytest.mark.parametrize("fault", [Answer(500, {}), Answer(429, {}, {"retry-after": "0"}), Answer(hang_up=True)])
def test_a_write_is_never_sent_twice(server: ScriptedServer, cluster: Cluster, fault: Answer) -> None:
    says(server, fault)
    with pytest.raises((ServerRefused, Unreachable)):
        cluster.apply(SECRET, BODY, manager="m")
    assert len(server.asked) == 1


def test_forbidden_names_verb_resource_name_and_namespace(server: ScriptedServer, cluster: Cluster) -> None:
    says(server, status(403, "Forbidden"))
    with pytest.raises(Forbidden) as caught:
        cluster.get(SECRET)
    assert 'get secrets "cilium-ca" in namespace "kube-system"' in str(caught.value)
    with pytest.raises(Forbidden, match=r"list nodes \(403\)"):
        cluster.list("/api/v1/nodes")
    with pytest.raises(Forbidden, match="patch and create on deployments"):
        cluster.apply("/apis/apps/v1/namespaces/kube-system/deployments/x", {}, manager="m")


def test_a_conflict_names_the_managers_and_the_fields(server: ScriptedServer, cluster: Cluster) -> None:
    cause = {"reason": "FieldManagerConflict", "message": f'conflict with "helm" using v1: {CANARY}', "field": ".data.c2"}
    says(server, status(409, "Conflict", causes=[cause, {**cause, "field": ".data.c3"}]))
    with pytest.raises(WriteConflict, match=r'"helm" owns \.data\.c2, \.data\.c3'):
        cluster.apply(SECRET, BODY, manager="m")


@pytest.mark.parametrize(("reason", "words"), [("Conflict", "changed since it was read"), ("AlreadyExists", "exists already")])
def test_other_conflicts_say_which_kind(server: ScriptedServer, cluster: Cluster, reason: str, words: str) -> None:
    says(server, status(409, reason))
    with pytest.raises(WriteConflict, match=words):
        cluster.merge_patch(SECRET, BODY, manager="m")


def test_any_other_refusal_has_status_reason_and_fields(server: ScriptedServer, cluster: Cluster) -> None:
    says(server, status(422, "Invalid", causes=[{"field": "data[a b]", "message": CANARY}]))
    with pytest.raises(ServerRefused, match=r"422 \(Invalid\) to patch secrets .*fields: data\[a b\]"):
        cluster.apply(SECRET, BODY, manager="m")


NODES = "/api/v1/nodes"
CALLS: dict[str, Callable[[Cluster], object]] = {
    "get": lambda cluster: cluster.get(SECRET),
    "list": lambda cluster: cluster.list(NODES),
    "page": lambda cluster: cluster.page(NODES),
    "apply": lambda cluster: cluster.apply(SECRET, BODY, manager="m"),
    "merge": lambda cluster: cluster.merge_patch(SECRET, BODY, manager="m"),
    "create": lambda cluster: cluster.create(SECRET.rpartition("/")[0], {"metadata": {"name": "cilium-ca"}}, manager="m"),
    "delete": lambda cluster: cluster.delete(SECRET),
}
NONSENSE = {
    "a login page": b"<html>" + CANARY.encode(),
    "a list without a name": b"[1]",
    "no text": b"\xff",
    "null": b"null",
    "half a document": b'{"kind": "Secret", "metadata": {',
    "too deep": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "nothing": b"",
    "an empty object": b"{}",
    "another object": b'{"kind": "Secret", "metadata": {"name": "other"}}',
    "a failure": b'{"kind": "Status", "status": "Failure", "metadata": {}}',
    "a list of no list": b'{"kind": "NodeList", "items": {"a": 1}}',
}


@in_one_test
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("body", NONSENSE)
def test_a_success_or_an_absence_that_no_api_server_says_is_refused(server: ScriptedServer, cluster: Cluster, call: str, body: str) -> None:
    """Otherwise a proxy's page would be a cluster without objects, or a write that was made."""
    for code in (200, 404):
        if (body, code) == ("a failure", 404):
            continue  # that is an absence
        says(server, Answer(code, NONSENSE[body]))
        with pytest.raises(ServerRefused) as caught:
            CALLS[call](cluster)
        assert caught.value.remedy and CANARY not in str(caught.value)


def test_half_an_answer_is_read_again_and_called_by_its_name(server: ScriptedServer, cluster: Cluster) -> None:
    half = Answer(200, b'{"kind"', {"content-length": "50", "connection": "close"})
    says(server, half, Answer(200, FOUND))
    assert cluster.get(SECRET) == FOUND
    for call in (CALLS["get"], CALLS["apply"]):
        says(server, half)
        with pytest.raises(Unreachable, match="closed the connection before it answered"):
            call(cluster)
    assert [asked.method for asked in server.asked] == ["GET"] * 4 + ["PATCH"], "a write is never sent twice"


@one_test("code", *range(300, 308), *range(400, 430), *range(500, 512))
def test_every_refusal_says_what_to_do(server: ScriptedServer, cluster: Cluster, code: int) -> None:
    says(server, status(code, "Reason"))
    for call in (CALLS["apply"], CALLS["delete"]) if code != 404 else (CALLS["apply"],):
        with pytest.raises(MeshError) as caught:
            call(cluster)
        assert caught.value.remedy and caught.value.cluster == "c1"


def test_a_redirect_is_not_followed_with_our_token(server: ScriptedServer, cluster: Cluster) -> None:
    says(server, Answer(302, {}, {"location": server.url + "/elsewhere"}))
    with pytest.raises(ServerRefused, match="302"):
        cluster.get(SECRET)
    assert len(server.asked) == 1


def test_401_is_called_wrong_or_expired(server: ScriptedServer, cluster: Cluster) -> None:
    says(server, status(401, "Unauthorized"))
    with pytest.raises(CredentialsInvalid, match=r"401\): wrong or expired"):
        cluster.get(SECRET)


def test_silence_ends_after_the_read_timeout(server: ScriptedServer) -> None:
    says(server, Answer(200, {}, delay=3))
    with opened(server.kubeconfig(), read=0.1) as cluster, pytest.raises(Unreachable, match=r"did not answer within 0\.1 s"):
        cluster.apply(SECRET, BODY, manager="m")


def test_a_server_that_accepts_and_says_nothing_is_named_with_the_timeout_that_ended_it(server: ScriptedServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kubeconfig = server.kubeconfig(server=f"https://127.0.0.1:{silent.getsockname()[1]}")
        with opened(kubeconfig, connect=0.1, read=3.0) as cluster, pytest.raises(Unreachable, match=r"TLS handshake within 0\.1 s"):
            cluster.get(SECRET)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def unreachable(server: ScriptedServer, what: str) -> dict[str, Any]:
    changes: dict[str, dict[str, Any]] = {
        "refused": {"server": f"https://127.0.0.1:{free_port()}"},
        "cannot be resolved": {"server": "https://no-such-host.invalid"},
        "not valid for this host name": {"server": server.url.replace("127.0.0.1", "localhost")},
        "authority that the kubeconfig does not name": {"certificate-authority-data": None},
        "proxy": {"proxy-url": f"http://me:{CANARY}@127.0.0.1:{free_port()}"},
    }
    return server.kubeconfig(**changes[what])


FAULTS = ["refused", "cannot be resolved", "not valid for this host name", "authority that the kubeconfig does not name", "proxy"]


@pytest.mark.parametrize("words", FAULTS)
def test_a_cluster_that_cannot_be_reached_says_why(server: ScriptedServer, words: str) -> None:
    with opened(unreachable(server, words)) as cluster:
        with pytest.raises(Unreachable, match=words):
            cluster.get(SECRET)
        with pytest.raises(Unreachable, match=words):
            cluster.exec("pod", "container", ["true"])
    assert server.asked == []


def test_a_server_that_is_not_verified_is_no_warning_although_ansible_takes_back_what_imports_change(server: ScriptedServer) -> None:
    """Ansible's loader imports plugins within ``warnings.catch_warnings``, and its workers print what a warning writes."""
    says(server, Answer(200, FOUND))
    with warnings.catch_warnings():
        warnings.simplefilter("error", InsecureRequestWarning)
        with opened(server.kubeconfig(insecure_skip_tls_verify=True, certificate_authority_data=None)) as cluster:
            assert cluster.get(SECRET) == FOUND


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_tls_server_name_and_insecure_skip_tls_verify_are_honoured(server: ScriptedServer) -> None:
    says(server, Answer(200, FOUND))
    elsewhere = server.url.replace("127.0.0.1", "localhost")
    for kubeconfig in (
        server.kubeconfig(server=elsewhere, tls_server_name="127.0.0.1"),
        server.kubeconfig(server=elsewhere, insecure_skip_tls_verify=True, certificate_authority_data=None),
    ):
        with opened(kubeconfig) as cluster:
            assert cluster.get(SECRET) == FOUND


def provoke(server: ScriptedServer, cluster: Cluster) -> Iterator[MeshError]:
    """One error of every kind that a request can end in."""
    for answer in (
        status(401, "Unauthorized"),
        status(403, "Forbidden"),
        status(409, CANARY + " x", causes=[{"reason": "FieldManagerConflict", "message": CANARY, "field": 7}]),
        status(422, "Invalid", causes=CANARY),
        Answer(500, CANARY.encode()),
        Answer(418, [CANARY]),
        Answer(200, CANARY.encode()),
        Answer(hang_up=True),
    ):
        says(server, answer)
        for call in (
            lambda: cluster.apply(SECRET, BODY, manager="m"),
            lambda: cluster.exec("pod", "container", ["true"]),
            lambda: cluster.forward_get("pod", 1, "/"),
        ):
            with pytest.raises(MeshError) as caught:
                call()
            yield caught.value


def test_no_error_shows_a_token_a_body_or_an_answer(server: ScriptedServer, cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    with log_records() as logged:
        errors = list(provoke(server, cluster))
    assert len(errors) == 24
    for error in errors:
        assert CANARY not in "".join(traceback.format_exception(error)).replace(f'"{CANARY}"', "")
        assert CANARY not in str(error) + repr(error) + error.remedy
        assert error.__cause__ is None and error.cluster == "c1"
    assert CANARY not in logged.text
    assert CANARY not in "".join(capfd.readouterr())
    assert CANARY not in repr(cluster) + repr(ClusterAccess(host="c1", kubeconfig=server.kubeconfig(), context=None))

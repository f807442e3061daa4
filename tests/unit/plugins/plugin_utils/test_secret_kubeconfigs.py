# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A kubeconfig that a host's variable names in a Secret is had when it is needed, or the cluster is away with the reason."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.cluster_sources import Asked, clusters_of
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.play import Play, accesses
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.secret_kubeconfigs import (
    SecretKubeconfigs,
    management_cluster,
    reference_of,
)
from tests.testing.rows import in_one_test, one_test
from tests.testing.scripted_server import CANARY, Answer, ScriptedServer, kubeconfig
from tests.testing.scripted_server import Asked as Request

MEMBER = kubeconfig({"server": "https://10.0.0.1"}, {"token": CANARY})
NAMED = {"kubeconfig": "management.yaml", "namespace": "clusters", "secret": "c1"}


@pytest.fixture
def server(tmp_path: Path) -> Any:
    with ScriptedServer(tmp_path) as found:
        (tmp_path / "management.yaml").write_text(json.dumps(found.kubeconfig()), encoding="utf-8")
        yield found


def secret(document: Any, name: str = "c1") -> Answer:
    data = {"kubeconfig": base64.b64encode(json.dumps(document).encode()).decode()}
    return Answer(body={"kind": "Secret", "metadata": {"name": name}, "data": data})


def decrypted(_path: str) -> str:
    raise LookupError(CANARY)


def play(folder: Path, **hosts: Any) -> Play:
    variables = {name: {"inventory_dir": str(folder), **given} for name, given in hosts.items()}
    return Play(hosts=tuple(hosts), inventory=tuple(hosts), limit="", hostvars=variables, from_secret=SecretKubeconfigs(decrypted))


def from_secret(**more: Any) -> dict[str, Any]:
    return {"cilium_mesh_kubeconfig_from": {**NAMED, **more}}


def test_each_secret_is_read_once_and_a_kubeconfig_of_the_host_goes_before_it(server: ScriptedServer, tmp_path: Path) -> None:
    server.answer = lambda asked: secret(MEMBER, asked.path.rpartition("/")[2])
    hosts = play(tmp_path, c1=from_secret(), c2=from_secret(secret="c2"), c3={**from_secret(), "cilium_mesh_kubeconfig": "/own"})
    for _time in range(2):
        found = accesses(hosts, ("c1", "c2", "c3"))
    assert [access.kubeconfig for access in found] == [{**MEMBER, "current-context": "here"}] * 2 + ["/own"]
    assert [asked.path for asked in server.asked] == [f"/api/v1/namespaces/clusters/secrets/c{number}" for number in (1, 2)]
    assert CANARY not in repr(found)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(404, {"kind": "Status", "reason": "NotFound"}), "There is no such Secret."),
        (Answer(403, {"kind": "Status", "reason": "Forbidden", "message": CANARY}), "RBAC forbids"),
        (Answer(401, {"kind": "Status", "message": CANARY}), "401"),
        (Answer(400, {"kind": "Status", "message": "no"}), "400"),
        (Answer(body=[CANARY]), "gives no kubeconfig"),
        (Answer(body={"metadata": {"name": "c1"}, "data": {"kubeconfig": CANARY}}), "not base64"),
        (Answer(body={"metadata": {"name": "c1", "labels": 7}, "data": [CANARY]}), "neither a key kubeconfig nor a key value"),
        (Answer(hang_up=True), "gives no kubeconfig"),
        (secret({**MEMBER, "users": [{"name": "me", "user": {"exec": {"command": CANARY}}}]}), "exec"),
    ],
)
def test_a_cluster_whose_kubeconfig_cannot_be_had_is_away_with_the_reason(
    server: ScriptedServer, tmp_path: Path, answer: Answer, says: str
) -> None:
    server.answer = lambda asked: answer
    [access] = accesses(play(tmp_path, c1=from_secret()), ("c1",))
    assert access.kubeconfig is None and access.unavailable.startswith("Secret clusters/c1 of the management cluster gives no kubeconfig: ")
    assert says in access.unavailable and CANARY not in access.unavailable and len(access.unavailable) <= 400


def test_a_management_cluster_that_does_not_answer_is_asked_once(tmp_path: Path) -> None:
    dead = kubeconfig({"server": "https://127.0.0.1:1"}, {"token": CANARY})
    (tmp_path / "management.yaml").write_text(json.dumps(dead), encoding="utf-8")
    reading = SecretKubeconfigs(decrypted)
    reasons = [reading("c1", {**NAMED, "secret": name}, str(tmp_path)) for name in ("c1", "c2")]
    assert all(isinstance(reason, str) and "127.0.0.1:1" in reason for reason in reasons) and "clusters/c2" in reasons[1]
    missing = str(reading("c1", {**NAMED, "kubeconfig": "none.yaml"}, str(tmp_path)))
    assert "none.yaml does not exist. Correct kubeconfig or context of the management cluster." in missing
    assert 'has no context "x". It has the contexts here.' in str(reading("c1", {**NAMED, "context": "x"}, str(tmp_path)))


def test_an_encrypted_kubeconfig_of_the_management_cluster_names_its_host(tmp_path: Path) -> None:
    (tmp_path / "management.yaml").write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"c1, its management cluster: .* cannot be decrypted") as refused:
        accesses(play(tmp_path, c1=from_secret()), ("c1",))
    assert CANARY not in str(refused.value)


@one_test(
    "value",
    *("x", ["x"], 7, {}, {"kubeconfig": "k"}, {**NAMED, "secret": ""}, {**NAMED, "secret": None}, {**NAMED, "kubeconfig": {}}),
    *({**NAMED, "secret": "../x"}, {**NAMED, "namespace": "a/b"}, {**NAMED, "secret": "a?b"}, {**NAMED, "secret": "A\n"}),
    *(
        {**NAMED, "key": "a/b"},
        {**NAMED, "exec": "true"},
        {**NAMED, "token": "x"},
        {**NAMED, "context": 7},
        dict([*NAMED.items(), (7, "x")]),
    ),
)
def test_a_reference_that_is_none_names_host_and_variable(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^(must|has|needs)"):
        reference_of(value)
    if value:
        with pytest.raises(InvalidInput, match="c1: cilium_mesh_kubeconfig_from"):
            accesses(play(Path("/"), c1={"cilium_mesh_kubeconfig_from": value}), ("c1",))


@pytest.mark.parametrize("source", ["management_plane", "cluster_api"])
def test_a_kind_that_is_not_served_is_no_empty_list(server: ScriptedServer, tmp_path: Path, source: str) -> None:
    server.answer = lambda asked: Answer(404, b"404 page not found\n")
    cluster = management_cluster("m", "management.yaml", "", str(tmp_path), decrypted)
    with pytest.raises(InvalidInput, match="The management cluster has no clusters of"):
        clusters_of(Asked(source=source, kubeconfig="/k"), cluster)


HOSTILE: tuple[Any, ...] = (None, 7, "x", [], {}, {"name": 7}, {"name": "\x1b[2J", "namespace": "../.."}, {"name": "a", "labels": [1]})


@in_one_test
@pytest.mark.parametrize("source", ["management_plane", "cluster_api", "argocd"])
@pytest.mark.parametrize("metadata", HOSTILE)
def test_objects_of_any_form_become_clusters_with_a_reason(tmp_path: Path, source: str, metadata: Any) -> None:
    objects = [
        {"metadata": metadata, "status": status, "data": data} for status in HOSTILE for data in (None, 7, {"name": 7}, {"name": "%"})
    ]

    def answer(asked: Request) -> Answer:
        if asked.path == "/apis/cluster.x-k8s.io":
            return Answer(body={"preferredVersion": {"groupVersion": "cluster.x-k8s.io/v1beta1"}})
        return Answer(body={"items": objects})

    with ScriptedServer(tmp_path) as found:
        found.answer = answer
        (tmp_path / "management.yaml").write_text(json.dumps(found.kubeconfig()), encoding="utf-8")
        cluster = management_cluster("m", "management.yaml", "", str(tmp_path), decrypted)
        clusters = clusters_of(Asked(source=source, kubeconfig="/k"), cluster)
    assert len(clusters) == len(objects) and all(one.variables["cilium_mesh_unavailable"] for one in clusters)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How a host is reached by options of kubernetes.core, and which host the environment describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.credentials import load_credentials
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.play import Play, accesses
from tests.testing.rows import one_test
from tests.testing.scripted_server import Answer, ScriptedServer

AUTH = {"host": "https://192.0.2.1:6443", "api_key": "canary"}
ENVIRONMENT = {"K8S_AUTH_HOST": "https://192.0.2.9:6443", "K8S_AUTH_API_KEY": "canary", "HOME": "/x"}
KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}],
    "users": [{"name": "u", "user": {"token": "canary"}}],
    "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in "xy"],
    "current-context": "x",
}


def play(limit: str = "", environment: Mapping[str, str] | None = None, takes_part: str = "", **hosts: Mapping[str, Any]) -> Play:
    every = {name: {"inventory_dir": "/inventory", **variables} for name, variables in hosts.items()}
    part = tuple(takes_part.split() or every)
    return Play(hosts=part, inventory=tuple(every), limit=limit, hostvars=every, environment=environment or {})


def reached(given: Play, host: str = "c1") -> ClusterAccess:
    return accesses(given, (host,))[0]


def entries(access: ClusterAccess) -> tuple[Any, Any]:
    assert isinstance(access.kubeconfig, Mapping)
    return access.kubeconfig["clusters"][0]["cluster"], access.kubeconfig["users"][0]["user"]


def refused(given: Play, *hosts: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        accesses(given, hosts or ("c1",))
    assert "canary" not in str(caught.value) and caught.value.__context__ is None, "ansible-core would print the chain"
    return caught.value.message


def test_a_host_is_reached_by_options_of_kubernetes_core_and_files_start_at_the_inventory() -> None:
    found = reached(play(c1={"cilium_mesh_auth": {**AUTH, "ca_cert": "ca.crt"}}))
    assert entries(found) == ({"server": AUTH["host"], "certificate-authority": "/inventory/ca.crt"}, {"token": "canary"})
    credentials = load_credentials("c1", entries_document(AUTH), None)
    assert (credentials.server, credentials.headers()) == (AUTH["host"], [("authorization", "Bearer canary")])


def test_the_server_gets_the_token_over_a_connection_that_is_verified(tmp_path: Path) -> None:
    with ScriptedServer(tmp_path) as server:
        server.answer = lambda asked: Answer(200, {"gitVersion": "v1.33.0"})
        auth = {"host": f"{server.url}/", "api_key": "canary", "ca_cert": server.authority.pem.decode(), "impersonate_user": "me"}
        with open_cluster(reached(play(c1={"cilium_mesh_auth": auth}))) as cluster:
            assert cluster.get("/version") == {"gitVersion": "v1.33.0"}
        sent = {name.lower(): value for name, value in server.asked[0].headers.items()}
    assert (sent["authorization"], sent["impersonate-user"]) == ("Bearer canary", "me")


def entries_document(auth: Mapping[str, Any]) -> Any:
    return reached(play(c1={"cilium_mesh_auth": auth})).kubeconfig


def test_a_kubeconfig_and_its_context_alone_are_read_as_those_of_the_other_variables_are() -> None:
    for auth in ({"kubeconfig": "k", "context": "y"}, {"kubeconfig": "k:/l"}, {"kubeconfig": KUBECONFIG, "context": "y"}):
        other = {"cilium_mesh_kubeconfig": auth["kubeconfig"], "cilium_mesh_context": auth.get("context")}
        assert reached(play(c1={"cilium_mesh_auth": auth})) == reached(play(c1=other))


def test_a_context_alone_is_one_of_the_kubeconfig_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    found = reached(play(c1={"cilium_mesh_auth": {"context": "y"}}))
    assert (found.kubeconfig, found.context) == ("/a:/b", "y")


def test_other_options_change_what_a_kubeconfig_says(tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(yaml.safe_dump(KUBECONFIG), encoding="utf-8")
    for kubeconfig in (KUBECONFIG, str(file), file.read_text(encoding="utf-8")):
        found = reached(play(c1={"cilium_mesh_auth": {"kubeconfig": kubeconfig, "context": "y", "impersonate_user": "me"}}))
        assert entries(found) == ({"server": "https://192.0.2.1"}, {"token": "canary", "as": "me"})
    wrong = {"kubeconfig": KUBECONFIG, "context": "z", "impersonate_user": "me"}
    assert 'c1: cilium_mesh_auth cannot be used: its kubeconfig: it has no context "z"' in refused(play(c1={"cilium_mesh_auth": wrong}))


def test_a_key_that_ansible_vault_encrypted_is_decrypted_and_never_written(tmp_path: Path) -> None:
    key = tmp_path / "tls.key"
    key.write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n", encoding="utf-8")
    given = play(c1={"cilium_mesh_auth": {"host": AUTH["host"], "client_cert": "/tls.crt", "client_key": str(key)}})
    found = entries(reached(replace(given, decrypted=lambda path: {str(key): "key"}[path])))
    assert found[1] == {"client-certificate": "/tls.crt", "client-key-data": "a2V5"}
    assert f"c1: {key} is encrypted, and cannot be decrypted" in refused(given)


@one_test(
    "variables says",
    ({"cilium_mesh_auth": AUTH, "cilium_mesh_kubeconfig": "/k"}, "c1: cilium_mesh_auth and cilium_mesh_kubeconfig exclude each other"),
    ({"cilium_mesh_auth": AUTH, "cilium_mesh_context": "x"}, "cilium_mesh_context stands beside it; its own option context says"),
    ({"cilium_mesh_auth": ["canary"]}, "c1: cilium_mesh_auth must be a mapping with options of kubernetes.core"),
    ({"cilium_mesh_auth": {"host": ""}}, "c1: cilium_mesh_auth cannot be used: it names no cluster"),
    ({"cilium_mesh_auth": {**AUTH, "hots": "canary", "no_proxy": "canary"}}, "hots is not known; did you mean host?; cilium_mesh_auth.no_"),
    ({"cilium_mesh_context": "x"}, "c1: the host has no cilium_mesh_kubeconfig"),
)
def test_what_contradicts_is_refused_and_nothing_of_it_is_quoted(variables: Any, says: str) -> None:
    assert says in refused(play(c1=variables))


def test_options_may_be_a_text_of_yaml_as_surveys_give_it() -> None:
    found = reached(play(c1={"cilium_mesh_auth": "host: https://192.0.2.1:6443\napi_key: canary\n"}))
    assert found == reached(play(c1={"cilium_mesh_auth": AUTH}))
    for text, says in (
        ("api_key: [canary", "that cannot be read as YAML, line 2, column 1: "),
        ("canary", "of YAML that says a text, and not a mapping"),
    ):
        assert f"c1: cilium_mesh_auth is a text {says}" in refused(play(c1={"cilium_mesh_auth": text}))


def test_an_empty_variable_of_a_group_gives_way() -> None:
    found = reached(play(c1={"cilium_mesh_auth": AUTH, "cilium_mesh_kubeconfig": "", "cilium_mesh_context": ""}))
    assert entries(found)[1] == {"token": "canary"}


def test_the_environment_describes_the_one_host_that_says_nothing() -> None:
    given = play(environment=ENVIRONMENT, c1={}, c2={"cilium_mesh_auth": AUTH}, c3={"cilium_mesh_unavailable": "gone"})
    found = accesses(given, ("c1", "c2", "c3"))
    assert [entries(access)[0]["server"] for access in found[:2]] == ["https://192.0.2.9:6443", AUTH["host"]]
    assert (found[2].kubeconfig, found[2].unavailable) == (None, "gone")


def test_the_environment_describes_no_second_host_whichever_is_asked_first_or_left_out() -> None:
    hosts: dict[str, Any] = {"c1": {}, "c2": {}, "c3": {"cilium_mesh_auth": AUTH}}
    for given in (play(environment=ENVIRONMENT, **hosts), play(limit="c1", environment=ENVIRONMENT, takes_part="c1 c3", **hosts)):
        assert "K8S_AUTH_* of the environment can describe one cluster only, of c1, c2" in refused(given)
    both = refused(play(environment=ENVIRONMENT, **hosts), "c1", "c2")
    assert both.count("can describe one cluster only") == 2


def test_what_the_environment_says_is_held_to_the_same_rules_and_named_by_its_variables() -> None:
    wrong = {**ENVIRONMENT, "K8S_AUTH_NO_PROXY": "canary", "K8S_AUTH_HOTS": "canary"}
    said = refused(play(environment=wrong, c1={}))
    assert "c1: the environment cannot be used: K8S_AUTH_NO_PROXY cannot be used: " in said
    assert "K8S_AUTH_HOTS is not known; did you mean K8S_AUTH_HOST?" in said


def test_without_the_environment_the_error_says_every_way() -> None:
    said = refused(play(environment={"HOME": "/x"}, c1={}))
    assert all(way in said for way in ("cilium_mesh_kubeconfig (a path", "cilium_mesh_auth (the options", "K8S_AUTH_*")), said


def test_no_secret_is_in_what_a_play_or_an_access_shows() -> None:
    given = play(environment=ENVIRONMENT, c1={})
    assert "canary" not in repr(reached(given)) + repr(given)
    json.dumps(reached(given).kubeconfig)  # it can be handed to another process


def test_a_secret_of_a_management_cluster_is_asked_only_where_the_host_says_nothing_else() -> None:
    secret = {"cilium_mesh_kubeconfig_from": "{kubeconfig: m, namespace: n, secret: s}"}  # as a survey of AWX gives it
    given = play(
        environment=ENVIRONMENT, c1=secret, c2={**secret, "cilium_mesh_auth": AUTH}, c3={**secret, "cilium_mesh_kubeconfig": "/own"}
    )
    asked: list[Any] = []

    def from_secret(host: str, value: Any, _folder: str) -> str:
        asked.append((host, value["secret"]))
        return "It is away."

    found = accesses(replace(given, from_secret=from_secret), ("c1", "c2", "c3"))
    assert asked == [("c1", "s")] and found[0].unavailable == "It is away."
    assert entries(found[1])[0]["server"] == AUTH["host"] and found[2].kubeconfig == "/own"

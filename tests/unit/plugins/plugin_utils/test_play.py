# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which clusters a play is about, and how each is reached: what a user's inventory may say, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.participants import left_out, participating_members
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.play import (
    Play,
    accesses,
    lone_clusters,
    mesh_of,
    mesh_to_verify,
    plain,
    play_of,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.variables import unknown_variables
from tests.testing.rows import in_one_test, one_test

BOTH = {"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": "c1"}, {"name": "c2"}]}}
ALL = {"binding": {"name": "edge", "clusterRefs": "all"}}


def play(*hosts: str, inventory: tuple[str, ...] = (), limit: str = "", **hostvars: Mapping[str, Any]) -> Play:
    return Play(hosts=hosts, inventory=inventory or hosts, limit=limit, hostvars={h: hostvars.get(h, {}) for h in hosts})


class Untemplatable(dict[str, Any]):
    """Host variables of which one fails when it is read, as templating does."""

    def __init__(self, error: Exception) -> None:
        super().__init__(inventory_dir="/inventory")
        self._error = error

    def get(self, key: str, default: Any = None) -> Any:
        if key == "cilium_mesh_kubeconfig":
            raise self._error
        return super().get(key, default)


def test_members_are_those_that_cluster_refs_name() -> None:
    assert mesh_of(play("c1", "c2", "c3"), BOTH).clusters == ("c1", "c2")


def test_every_host_of_the_play_is_a_member_where_that_is_said() -> None:
    mesh = mesh_of(play("c1", "c2", inventory=("c1", "c2", "c3")), ALL)
    assert (mesh.clusters, mesh.binding.name) == (("c1", "c2"), "edge")


def test_a_limit_that_cuts_a_member_is_refused_and_names_it() -> None:
    with pytest.raises(InvalidInput) as refused:
        mesh_of(play("c1", inventory=("c1", "c2"), limit="c1"), BOTH)
    assert "c2" in refused.value.message
    assert '--limit "c1"' in refused.value.message


def test_a_hosts_pattern_that_cuts_a_member_is_refused_too() -> None:
    with pytest.raises(InvalidInput, match=r"hosts pattern of the play leaves out c2"):
        mesh_of(play("c1", inventory=("c1", "c2")), BOTH)


def test_a_limit_may_leave_out_members_where_they_are_not_needed_and_these_are_not_asked() -> None:
    cut = play("c1", "c3", inventory=("c1", "c2", "c3"), limit="!c2")
    mesh = mesh_of(cut, BOTH, limited=True)
    assert mesh.clusters == ("c1", "c2")
    assert (participating_members(cut, mesh), left_out(cut, mesh)) == (("c1",), ("c2",))


def test_a_limit_that_leaves_out_every_member_is_refused() -> None:
    with pytest.raises(InvalidInput, match="leaves out every member"):
        mesh_of(play("c3", inventory=("c1", "c2", "c3"), limit="c3"), BOTH, limited=True)


def test_a_limit_with_all_as_members_is_refused_because_members_are_not_known() -> None:
    with pytest.raises(InvalidInput, match="clusterRefs does not name them"):
        mesh_of(play("c1", "c2", inventory=("c1", "c2", "c3"), limit="c1,c2"), ALL)


@in_one_test
@pytest.mark.parametrize(
    ("raw", "missing"),
    [
        (None, "cilium_mesh.binding.name and cilium_mesh.binding.clusterRefs are not set"),
        ({}, "cilium_mesh.binding.name and cilium_mesh.binding.clusterRefs are not set"),
        ({"binding": None}, "cilium_mesh.binding.name and cilium_mesh.binding.clusterRefs are not set"),
        ({"binding": {"clusterRefs": ["c1", "c2"]}}, "cilium_mesh.binding.name is not set"),
        ({"binding": {"name": "edge"}}, "cilium_mesh.binding.clusterRefs is not set"),
        ({"binding": {"name": "edge", "clusterRefs": None}}, "cilium_mesh.binding.clusterRefs is not set"),
    ],
)
@pytest.mark.parametrize("limited", [False, True])
def test_a_mesh_is_named_with_its_members_or_the_lines_to_write_are_shown(raw: Any, missing: str, limited: bool) -> None:
    with pytest.raises(InvalidInput) as caught:
        mesh_of(play("c1", "c2"), raw, limited=limited)
    assert caught.value.message == f"{missing}: a mesh needs its name and its members."
    written = yaml.safe_load(caught.value.remedy.partition(":\n")[2])
    assert mesh_of(play("c1", "c2"), written["cilium_mesh"]).clusters == ("c1", "c2")


def test_a_key_that_is_spelled_wrong_is_named_before_what_is_missing() -> None:
    with pytest.raises(InvalidInput, match="did you mean binding"):
        mesh_of(play("c1", "c2"), {"bindings": {"name": "edge", "clusterRefs": ["c1", "c2"]}})


def test_a_first_verification_needs_no_binding_and_one_that_is_begun_needs_both() -> None:
    assert [mesh_to_verify(play("c1", "c2"), None)[1], mesh_to_verify(play("c1", "c2"), BOTH)[1]] == [True, False]
    with pytest.raises(InvalidInput, match=r"binding\.name is not set"):
        mesh_to_verify(play("c1", "c2"), {"binding": {"clusterRefs": ["c1", "c2"]}})


def test_a_limit_that_keeps_every_member_is_fine() -> None:
    assert mesh_of(play("c1", "c2", inventory=("c1", "c2", "c3"), limit="c1,c2"), BOTH).clusters == ("c1", "c2")


@pytest.mark.parametrize("hosts", [(), ("localhost",)])
def test_an_empty_inventory_is_an_error(hosts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="No host of the inventory"):
        mesh_of(Play(hosts=hosts, inventory=(), limit="", hostvars={}), None)


def test_a_cluster_may_be_called_localhost() -> None:
    assert lone_clusters(play("localhost"), None).clusters == ("localhost",)


def test_one_cluster_is_enough_when_each_is_looked_at_by_itself() -> None:
    assert lone_clusters(play("c1"), None).clusters == ("c1",)


def test_a_limit_chooses_among_members_when_each_is_looked_at_by_itself() -> None:
    assert lone_clusters(play("c1", "c3", inventory=("c1", "c2", "c3"), limit="c1,c3"), BOTH).clusters == ("c1",)


def test_a_wrong_mesh_is_refused_even_when_clusters_are_looked_at_by_themselves() -> None:
    with pytest.raises(InvalidInput, match="bindings"):
        lone_clusters(play("c1", "c2"), {"bindings": {}})


def test_a_relative_kubeconfig_starts_at_the_inventory_and_a_tilde_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    found = accesses(
        play(
            "c1",
            "c2",
            "c3",
            c1={"cilium_mesh_kubeconfig": "k/c1", "inventory_dir": "/inventory"},
            c2={"cilium_mesh_kubeconfig": "~/.kube/config", "cilium_mesh_context": "ctx", "inventory_dir": "/inventory"},
            c3={"cilium_mesh_kubeconfig": "/a:b", "inventory_dir": "/inventory", "cilium_mesh_namespace": "cilium"},
        ),
        ("c1", "c2", "c3"),
    )
    assert [access.kubeconfig for access in found] == ["/inventory/k/c1", "/home/someone/.kube/config", "/a:/inventory/b"]
    assert [access.context for access in found] == [None, "ctx", None]
    assert [access.namespace for access in found] == ["kube-system", "kube-system", "cilium"]


def test_a_kubeconfig_may_be_a_mapping() -> None:
    document = {"apiVersion": "v1", "clusters": []}
    (found,) = accesses(play("c1", c1={"cilium_mesh_kubeconfig": document}), ("c1",))
    assert found.kubeconfig == document


def test_every_host_without_usable_variables_is_named_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        accesses(
            play("c1", "c2", "c3", c2={"cilium_mesh_kubeconfig": 7}, c3={"cilium_mesh_kubeconfig": "k", "cilium_mesh_context": 5}),
            ("c1", "c2", "c3"),
        )
    message = refused.value.message
    assert "c1: the host has no cilium_mesh_kubeconfig" in message
    assert "c2: cilium_mesh_kubeconfig must be a path, a text or a mapping" in message
    assert "c3: cilium_mesh_context must be a text" in message


def test_a_kubeconfig_may_be_a_text_and_nothing_of_one_that_cannot_be_used_is_quoted() -> None:
    (found,) = accesses(play("c1", c1={"cilium_mesh_kubeconfig": "apiVersion: v1\nclusters: []\n"}), ("c1",))
    assert found.kubeconfig == {"apiVersion": "v1", "clusters": []}
    for text in ("users: [canary\n", "canary\nand more", "- canary\n- b\n", "#canary\n", "!!python/object:canary {}\n"):
        with pytest.raises(InvalidInput) as refused:
            accesses(play("c1", c1={"cilium_mesh_kubeconfig": text}), ("c1",))
        assert (
            "canary" not in str(refused.value)
            and "c1: the text of cilium_mesh_kubeconfig cannot be used: it is no" in refused.value.message
        ), text


def test_a_file_that_ansible_vault_encrypted_is_decrypted_and_nothing_of_it_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "c1.yaml"
    path.write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n", encoding="utf-8")
    hosts = play("c1", c1={"cilium_mesh_kubeconfig": str(path)})
    (found,) = accesses(replace(hosts, decrypted=lambda asked: {str(path): "clusters: []"}[asked]), ("c1",))
    assert found.kubeconfig == {"clusters": []}

    def refuse(_path: str) -> str:
        raise RuntimeError("canary")

    for decrypted in (hosts.decrypted, refuse, lambda _path: "canary"):
        with pytest.raises(InvalidInput) as refused:
            accesses(replace(hosts, decrypted=decrypted), ("c1",))
        assert "canary" not in str(refused.value) and str(path) in refused.value.message
        assert refused.value.__context__ is None, "ansible-core would print the chain"

    both = play("c1", c1={"cilium_mesh_kubeconfig": f"{path}:{tmp_path}/other.yaml"})
    with pytest.raises(InvalidInput, match="stands in a list of files"):
        accesses(replace(both, decrypted=lambda _path: "clusters: []"), ("c1",))


def test_a_variable_that_cannot_be_templated_is_named_without_what_the_error_quotes() -> None:
    hosts = Play(hosts=("c1",), inventory=("c1",), limit="", hostvars={"c1": Untemplatable(RuntimeError("canary"))})
    with pytest.raises(InvalidInput) as refused:
        accesses(hosts, ("c1",))
    assert "c1: cilium_mesh_kubeconfig cannot be templated (RuntimeError)" in refused.value.message
    assert refused.value.__context__ is None, "ansible-core would print the chain"


def test_tagged_values_become_plain_ones() -> None:
    class Tagged(str):
        pass

    value = plain({Tagged("a"): [Tagged("b"), {"c": (Tagged("d"), 1, True, None)}]})
    assert value == {"a": ["b", {"c": ["d", 1, True, None]}]}
    assert {type(key) for key in value} == {str}
    assert type(value["a"][0]) is str


def test_the_play_is_read_off_the_task_variables() -> None:
    found = play_of({"ansible_play_hosts_all": ["c1"], "groups": {"all": ["c1", "c2"]}, "ansible_limit": "c1", "hostvars": {"c1": {}}})
    assert found == Play(hosts=("c1",), inventory=("c1", "c2"), limit="c1", hostvars={"c1": {}})


def on(host: str, limit: str = "", inventory: tuple[str, ...] = ("c1", "c2"), **more: Any) -> Play:
    """A play on one host."""
    hostvars = {name: more.pop(name, {}) for name in inventory}
    return play_of(
        {"ansible_play_hosts_all": [host], "groups": {"all": [*inventory]}, "ansible_limit": limit, "hostvars": hostvars, **more}
    )


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_play_on_localhost_is_about_the_members_that_the_binding_names(host: str) -> None:
    for found in (on(host), on(host, inventory=("c1", "c2", host))):
        assert found.on_controller and found.hosts == ("c1", "c2")
        mesh = mesh_of(found, BOTH)
        assert (mesh.clusters, participating_members(found, mesh), left_out(found, mesh)) == (("c1", "c2"), ("c1", "c2"), ())
        assert lone_clusters(found, BOTH).clusters == ("c1", "c2")


def test_a_play_on_localhost_has_no_members_of_its_own_and_no_limit() -> None:
    for ask in (lambda found: mesh_of(found, ALL), lambda found: mesh_to_verify(found, None), lambda found: lone_clusters(found, None)):
        with pytest.raises(InvalidInput, match="The play runs on localhost, which is no member"):
            ask(on("localhost"))
    with pytest.raises(InvalidInput, match='--limit "c1,localhost" chooses among the hosts of a play'):
        mesh_of(on("localhost", limit="c1,localhost"), BOTH)
    with pytest.raises(InvalidInput, match="No host of the inventory"):
        mesh_of(on("localhost", inventory=()), BOTH)


@pytest.mark.parametrize("variable", ["cilium_mesh_kubeconfig", "cilium_mesh_auth", "cilium_mesh_unavailable"])
def test_a_localhost_that_is_a_cluster_is_the_host_of_its_play(variable: str) -> None:
    found = on("localhost", inventory=("c1", "localhost"), localhost={variable: "x"})
    assert (found.on_controller, found.hosts) == (False, ("localhost",))


def test_a_playbook_that_fell_back_to_localhost_still_fails_and_a_play_with_other_hosts_is_as_it_was() -> None:
    with pytest.raises(InvalidInput, match="No host of the inventory takes part"):
        mesh_of(on("localhost", mesh_needs_hosts=True), BOTH)
    assert not play_of(
        {"ansible_play_hosts_all": ["localhost", "c1"], "groups": {"all": ["localhost", "c1"]}, "hostvars": {}}
    ).on_controller


def test_the_variables_of_each_host_are_read_once_however_often_they_are_needed() -> None:
    """Ansible merges all sources of a host's variables anew at each read; at 25 clusters a second read was a tenth of a first connect."""
    read: list[str] = []

    class Hostvars(dict[str, Mapping[str, object]]):
        def __getitem__(self, host: str) -> Mapping[str, object]:
            read.append(host)
            return super().__getitem__(host)

    hosts = Hostvars({name: {"cilium_mesh_kubeconfig": "/k"} for name in ("c1", "c2", "c3")})
    found = play_of({"ansible_play_hosts_all": ["c1", "c2"], "groups": {"all": [*hosts]}, "hostvars": hosts})
    assert unknown_variables({}, found.own_variables()) == []
    assert len(found.access(["c1", "c2", "c3"])) == 3
    assert sorted(read) == ["c1", "c2", "c3"]


def test_the_id_of_a_load_balancer_is_a_uuid_in_one_spelling() -> None:
    host = {"cilium_mesh_kubeconfig": "/k", "cilium_mesh_elb_id": "41FAE315-2964-49C4-AFDE-BC6D358CD031"}
    assert accesses(play("c1", c1=host), ["c1"])[0].elb_id == "41fae315-2964-49c4-afde-bc6d358cd031"
    assert accesses(play("c1", c1={"cilium_mesh_kubeconfig": "/k"}), ["c1"])[0].elb_id == ""


@pytest.mark.parametrize("value", ["my-elb", "41fae315-2964-49c4-afde-bc6d358cd03", "41fae315-2964-49c4-afde-bc6d358cd031\n", "{{ x }}", 7])
def test_the_id_of_a_load_balancer_that_is_none_names_host_and_variable(value: object) -> None:
    host = {"cilium_mesh_kubeconfig": "/k", "cilium_mesh_elb_id": value}
    with pytest.raises(InvalidInput, match="c1: cilium_mesh_elb_id must be"):
        accesses(play("c1", c1=host), ["c1"])


def test_domains_and_networks_of_endpoints_are_lists_in_one_spelling() -> None:
    host = {
        "cilium_mesh_kubeconfig": "/k",
        "cilium_mesh_endpoint_domains": ["Mesh.Example.com."],
        "cilium_mesh_endpoint_networks": "127.0.0.0/8",
    }
    access = accesses(play("c1", c1=host), ["c1"])[0]
    assert (access.endpoint_domains, access.endpoint_networks) == (("mesh.example.com",), ("127.0.0.0/8",))
    access = accesses(play("c1", c1={"cilium_mesh_kubeconfig": "/k"}), ["c1"])[0]
    assert (access.endpoint_domains, access.endpoint_networks) == ((), ())


def test_annotations_that_items_may_set_are_listed_for_the_host() -> None:
    host = {"cilium_mesh_kubeconfig": "/k", "cilium_mesh_allowed_annotations": ["example.com/team"]}
    assert accesses(play("c1", c1=host), ["c1"])[0].allowed_annotations == ("example.com/team",)
    assert accesses(play("c1", c1={"cilium_mesh_kubeconfig": "/k"}), ["c1"])[0].allowed_annotations == ()


@pytest.mark.parametrize(
    "value", [["team"], ["example.com/*"], ["cilium-mesh.edge-portal.eu/item"], [7], {"example.com/team": "x"}], ids=str
)
def test_annotations_that_are_none_name_host_and_variable(value: object) -> None:
    host = {"cilium_mesh_kubeconfig": "/k", "cilium_mesh_allowed_annotations": value}
    with pytest.raises(InvalidInput, match="c1: cilium_mesh_allowed_annotations must"):
        accesses(play("c1", c1=host), ["c1"])


@one_test(
    "variable value",
    *(("domains", value) for value in (["com"], ["cluster.local"], ["default.svc"], ["a.svc.k8s.example"], ["a b.com"], [7], 7)),
    *(("networks", value) for value in (["10.0.0.1/8"], ["all"], [7], {"a": 1})),
)
def test_domains_and_networks_that_are_none_name_host_and_variable(variable: str, value: object) -> None:
    host = {"cilium_mesh_kubeconfig": "/k", f"cilium_mesh_endpoint_{variable}": value}
    with pytest.raises(InvalidInput, match=f"c1: cilium_mesh_endpoint_{variable} must"):
        accesses(play("c1", c1=host), ["c1"])


def test_a_cluster_that_is_known_to_be_away_needs_no_kubeconfig_and_keeps_the_reason_on_one_line() -> None:
    [access] = accesses(play("c1", c1={"cilium_mesh_unavailable": "Its Secret\nis gone."}), ["c1"])
    assert (access.kubeconfig, access.unavailable) == (None, "Its Secret is gone.")
    assert accesses(play("c1", c1={"cilium_mesh_kubeconfig": "/k"}), ["c1"])[0].unavailable == ""


@pytest.mark.parametrize("value", [True, ["x"], {"x": "y"}, 1])
def test_why_a_cluster_is_away_has_to_be_a_text(value: object) -> None:
    with pytest.raises(InvalidInput, match="c1: cilium_mesh_unavailable must be a text"):
        accesses(play("c1", c1={"cilium_mesh_unavailable": value}), ["c1"])


def test_why_a_cluster_is_away_shows_no_secret_and_no_control_characters() -> None:
    [access] = accesses(play("c1", c1={"cilium_mesh_unavailable": "\x1b[2J token=c4n4ry " + "word " * 1000}), ["c1"])
    assert "c4n4ry" not in access.unavailable and access.unavailable.isprintable() and len(access.unavailable) == 400


def test_numbers_lose_the_tags_of_ansible_as_texts_do() -> None:
    """A tagged number cannot be written as YAML, which a diff is."""

    class Tagged(int):
        """A number as ansible-core 2.19 hands it over."""

    port, enabled = plain([Tagged(8080), True])
    assert (type(port), port, enabled) == (int, 8080, True)

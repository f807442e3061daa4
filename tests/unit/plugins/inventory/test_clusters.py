# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The inventory plugin, by ``ansible-inventory``: which hosts a user gets, and what he reads when a file is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.files import read_kubeconfigs
from tests.collection_path import link
from tests.testing.playbooks import list_inventory

PLUGIN = "plugin: edge_portal.cilium_mesh.clusters\n"
CANARY = "canary-77aa"


def kubeconfig(*contexts: str, current: str = "") -> str:
    rows = [{"name": name, "context": {"cluster": "a", "user": "a"}} for name in contexts]
    users = [{"name": "a", "user": {"token": CANARY}}]
    return json.dumps({"apiVersion": "v1", "contexts": rows, "current-context": current, "users": users})


class Desk:
    """A folder with an inventory in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def start(self, *sources: str, arguments: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Start the program itself, as a user does."""
        command = [str(Path(sys.executable).with_name("ansible-inventory")), "--list", "--export", *arguments]
        for source in sources:
            command += ["-i", source]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path / "home"),
            "ANSIBLE_COLLECTIONS_PATH": str(link()),
            "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
            "ANSIBLE_NOCOLOR": "1",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "2000",
        }
        return subprocess.run(command, cwd=self.path, env=environment, capture_output=True, text=True, check=False)

    def hosts(self, *sources: str) -> dict[str, dict[str, Any]]:
        """Host -> its variables, of an inventory that is fine."""
        status, document, beside = list_inventory(self.path, *sources)
        assert status == 0, beside
        return self.read(document)

    def groups(self, *sources: str) -> dict[str, list[str]]:
        """Group -> its hosts, without the group of all clusters."""
        status, document, beside = list_inventory(self.path, *sources)
        assert status == 0, beside
        known = ("_meta", "all", "cilium_mesh_clusters", "ungrouped")
        return {name: sorted(group.get("hosts", ())) for name, group in json.loads(document).items() if name not in known}

    def read(self, document: str) -> dict[str, dict[str, Any]]:
        listed = json.loads(document)
        assert CANARY not in document
        grouped = listed.get("cilium_mesh_clusters", {}).get("hosts", [])
        return {host: _plain(listed["_meta"]["hostvars"].get(host, {})) for host in grouped}

    def refusal(self, *sources: str) -> str:
        """What is said of an inventory that is not."""
        status, document, said = list_inventory(self.path, *sources)
        assert status != 0
        assert "Traceback" not in said
        assert CANARY not in said + document
        return " ".join(said.split())


def _plain(variables: dict[str, Any]) -> dict[str, Any]:
    """Without the marks that keep values from being templates."""
    return {name: value["__ansible_unsafe"] if isinstance(value, dict) else value for name, value in variables.items()}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_every_context_of_a_kubeconfig_becomes_a_host(desk: Desk) -> None:
    file = desk.write("config", kubeconfig("kind-ffm", "Admin@Ber.example.com", "arn:aws:eks:eu-central-1:1:cluster/x"))
    desk.write("clusters.yml", PLUGIN + "kubeconfig: config\n")
    hosts = desk.hosts("clusters.yml")
    assert list(hosts) == ["kind-ffm", "admin-ber.example.com", "arn-aws-eks-eu-central-1-1-cluster-x"]
    assert hosts["admin-ber.example.com"] == {
        "ansible_connection": "local",
        "cilium_mesh_context": "Admin@Ber.example.com",
        "cilium_mesh_kubeconfig": str(file),
        "cilium_mesh_namespace": "kube-system",
    }


@pytest.mark.slow
def test_a_process_of_its_own_lists_what_a_forked_one_does(desk: Desk) -> None:
    desk.write("config", kubeconfig("kind-ffm", "other"))
    desk.write("clusters.yml", PLUGIN + "kubeconfig: config\n")
    done = desk.start("clusters.yml")
    assert done.returncode == 0, done.stderr
    assert desk.read(done.stdout) == desk.hosts("clusters.yml") != {}


def test_contexts_can_be_listed_chosen_by_pattern_and_named(desk: Desk) -> None:
    desk.write("config", kubeconfig("kind-ffm", "kind-ber", "other"))
    desk.write("a.clusters.yml", PLUGIN + "kubeconfig: config\npattern: kind-*\nnames: {kind-ffm: cluster-ffm-1}\nnamespace: cilium\n")
    hosts = desk.hosts("a.clusters.yml")
    assert list(hosts) == ["cluster-ffm-1", "kind-ber"]
    assert hosts["kind-ber"]["cilium_mesh_namespace"] == "cilium"
    desk.write("b.clusters.yml", PLUGIN + "kubeconfig: config\ncontexts: [other, kind-ffm]\n")
    assert list(desk.hosts("b.clusters.yml")) == ["other", "kind-ffm"]


def test_every_file_of_a_folder_becomes_a_host_under_its_own_name(desk: Desk) -> None:
    desk.write("k/cluster-ffm-1.kubeconfig", kubeconfig("x", "y", current="y"))
    desk.write("k/cluster-ber-2.yaml", kubeconfig("only"))
    desk.write("k/.hidden", "no kubeconfig")
    desk.write("k/cluster-ber-2.yaml~", "no kubeconfig")
    desk.write("any.yml", PLUGIN + "kubeconfigs: k\n")
    hosts = desk.hosts("any.yml")
    assert {host: variables["cilium_mesh_context"] for host, variables in hosts.items()} == {"cluster-ber-2": "only", "cluster-ffm-1": "y"}


def test_what_else_is_in_a_folder_is_left_out_unless_its_name_is_that_of_a_kubeconfig(desk: Desk) -> None:
    desk.write("k/ffm.yaml", kubeconfig("a"))
    desk.write("k/ffm-ca.crt", "-----BEGIN CERTIFICATE-----\n")
    desk.write("k/ffm.yaml.lock", "")
    desk.write("any.yml", PLUGIN + "kubeconfigs: k\n")
    assert list(desk.hosts("any.yml")) == ["ffm"]
    desk.write("k/ber.conf", "-----BEGIN CERTIFICATE-----\n")
    assert "k/ber.conf cannot be used: it is no mapping" in desk.refusal("any.yml")


def test_several_files_are_one_kubeconfig_as_in_the_variable_of_kubectl(desk: Desk) -> None:
    files = [str(desk.write(f"{number}/config", kubeconfig(*names))) for number, names in enumerate(("a", "ab", "c"))]
    desk.write("clusters.yml", PLUGIN + f"kubeconfig: 0/config:1/config:{desk.path}/2/config:none\n")
    hosts = desk.hosts("clusters.yml")
    assert list(hosts) == ["a", "b", "c"]
    assert {variables["cilium_mesh_kubeconfig"] for variables in hosts.values()} == {":".join((*files, str(desk.path / "none")))}


def test_a_kubeconfig_in_utf_16_is_read_here_and_by_the_run(desk: Desk) -> None:
    text = kubeconfig("a")
    file = desk.write("config", "")
    file.write_bytes(text.encode("utf-16"))
    desk.write("clusters.yml", PLUGIN + "kubeconfig: config\n")
    assert list(desk.hosts("clusters.yml")) == ["a"]
    assert list(read_kubeconfigs((str(file),)).contexts) == ["a"]


def test_variables_of_single_hosts_stand_beside_the_file(desk: Desk) -> None:
    desk.write("k/c1.yaml", kubeconfig("a"))
    desk.write("clusters.yml", PLUGIN + "kubeconfigs: k\n")
    desk.write("host_vars/c1.yml", "cilium_mesh_endpoint_override: 192.0.2.1:2379\n")
    assert desk.hosts("clusters.yml")["c1"]["cilium_mesh_endpoint_override"] == "192.0.2.1:2379"


def vaulted(text: str, password: bytes = b"word") -> str:
    return str(VaultLib([("default", VaultSecret(password))]).encrypt(text).decode())


def test_a_file_of_a_folder_that_is_encrypted_is_a_host_without_a_password(desk: Desk) -> None:
    file = desk.write("k/ffm.yaml", vaulted(kubeconfig("a", current="a")))
    desk.write("k/ber.yaml", kubeconfig("b"))
    desk.write("k/notes.txt", vaulted("no kubeconfig"))
    desk.write("clusters.yml", PLUGIN + "kubeconfigs: k\n")
    hosts = desk.hosts("clusters.yml")
    assert list(hosts) == ["ber", "ffm"] and hosts["ffm"]["cilium_mesh_kubeconfig"] == str(file)
    assert "cilium_mesh_context" not in hosts["ffm"] and hosts["ber"]["cilium_mesh_context"] == "b"


@pytest.mark.slow
def test_the_contexts_of_an_encrypted_kubeconfig_are_read_with_the_passwords_of_ansible(desk: Desk) -> None:
    desk.write("config", vaulted(kubeconfig("a", "b")))
    desk.write("clusters.yml", PLUGIN + "kubeconfig: config\n")
    desk.write("word", "word")
    done = desk.start("clusters.yml", arguments=("--vault-password-file", "word"))
    assert done.returncode == 0, done.stderr
    assert list(desk.read(done.stdout)) == ["a", "b"]
    desk.write("word", "another")
    for arguments in (("--vault-password-file", "word"), ()):
        done = desk.start("clusters.yml", arguments=arguments)
        assert done.returncode != 0 and "is encrypted, and cannot be decrypted" in done.stderr and CANARY not in done.stderr
    desk.write("clusters.yml", PLUGIN + "kubeconfig: config:other\n")
    assert "stands in a list of files" in desk.refusal("clusters.yml")


def test_what_is_wrong_stands_before_what_the_plugins_of_ansible_say_of_the_file(desk: Desk) -> None:
    desk.write("config", kubeconfig("ffm", "ber"))
    desk.write("clusters.yml", PLUGIN + "kubeconfig: config\ncontexts: [fffm, x, ber]\n")
    said = desk.refusal("clusters.yml")
    config = desk.path / "config"
    assert said.startswith(
        f"[ERROR]: {desk.path}/clusters.yml: Kubeconfig {config} has no context fffm; did you mean ffm? "
        f"Kubeconfig {config} has no context x; it has ffm, ber. [WARNING]"
    )


def test_a_name_of_a_context_brings_no_escape_sequence_to_the_terminal(desk: Desk) -> None:
    desk.write("config", kubeconfig("\x1b[31mffm", "\x1b]31mffm"))
    desk.write("clusters.yml", PLUGIN + "kubeconfig: config\n")
    said = desk.refusal("clusters.yml")
    assert "tell them apart with names" in said and "\x1b" not in said


def test_a_wrong_kubeconfig_is_named_and_not_quoted(desk: Desk) -> None:
    desk.write("k/c1.yaml", f"users: [{CANARY}\n")
    desk.write("clusters.yml", PLUGIN + "kubeconfigs: k\n")
    assert f"Kubeconfig {desk.path / 'k/c1.yaml'} cannot be used: it is not YAML, line 2" in desk.refusal("clusters.yml")


def test_two_clusters_with_one_name_are_both_named(desk: Desk) -> None:
    desk.write("k/c1.yaml", kubeconfig("a"))
    desk.write("k/c1.conf", kubeconfig("a"))
    desk.write("clusters.yml", PLUGIN + "kubeconfigs: k\n")
    said = desk.refusal("clusters.yml")
    assert str(desk.path / "k/c1.yaml") in said
    assert str(desk.path / "k/c1.conf") in said


def test_one_name_from_two_inventories_is_refused(desk: Desk) -> None:
    for folder in ("k", "l"):
        desk.write(f"{folder}/c1.yaml", kubeconfig("a"))
        desk.write(f"{folder}.clusters.yml", PLUGIN + f"kubeconfigs: {folder}\n")
    said = desk.refusal("k.clusters.yml", "l.clusters.yml")
    assert str(desk.path / "k/c1.yaml") in said
    assert str(desk.path / "l/c1.yaml") in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("kubeconfig: config\nkubeconfigs: k\n", "Give exactly one of kubeconfig (a file) and kubeconfigs (a folder)"),
        ("kubeconfigs: nowhere\n", "nowhere of kubeconfigs cannot be read"),
        ("kubeconfig: config\ncontexts: [c]\n", "has no context c; it has a, B_1."),
        ("kubeconfig: config\nnames: {c: d}\n", "names speaks of c, which is no cluster found here"),
        ("kubeconfig: config\nnames: {a: Not_A_Name}\n", "'Not_A_Name', for 'a' in"),
        ("kubeconfig: config\npattern: x*\n", "No cluster was found"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(desk: Desk, options: str, says: str) -> None:
    desk.write("config", kubeconfig("a", "B_1"))
    desk.write("clusters.yml", PLUGIN + options)
    said = desk.refusal("clusters.yml")
    assert says.replace("'", "") in said.replace("'", "")


HOSTILE = ("{{ lookup('pipe', 'touch ran') }}", "{% set x = 1 %}", "ffm' ~ lookup('pipe', 'touch ran') ~ '", "all", "cilium_mesh_clusters")


def test_groups_and_variables_are_made_of_expressions(desk: Desk) -> None:
    desk.write("config", kubeconfig("kind-ffm", "kind-ber", "other"))
    options = (
        "groups: {of_kind: cluster.name is match('kind-')}\n"
        "keyed_groups: [{prefix: place, key: \"cluster.name | regex_replace('^kind-')\"}]\n"
        "compose: {own: cilium_mesh_context ~ '!', cilium_mesh_namespace: \"'cilium' if cluster.name == 'other' else 'kube-system'\"}\n"
    )
    desk.write("clusters.yml", PLUGIN + "kubeconfig: config\n" + options)
    assert desk.groups("clusters.yml") == {
        "of_kind": ["kind-ber", "kind-ffm"],
        "place_ber": ["kind-ber"],
        "place_ffm": ["kind-ffm"],
        "place_other": ["other"],
    }
    hosts = desk.hosts("clusters.yml")
    assert (hosts["other"]["cilium_mesh_namespace"], hosts["kind-ffm"]["cilium_mesh_namespace"]) == ("cilium", "kube-system")
    assert hosts["kind-ffm"]["own"] == "kind-ffm!" and "cluster" not in hosts["kind-ffm"]


def test_what_a_source_has_is_data_in_expressions_and_in_what_comes_of_them(desk: Desk) -> None:
    desk.write("config", kubeconfig(*HOSTILE))
    names = json.dumps({name: f"c{number}" for number, name in enumerate(HOSTILE)})
    options = (
        f"names: {names}\ncompose: {{own: cluster.name, longer: \"'x' ~ cilium_mesh_context\", listed: [cluster.name]}}\n"
        "groups: {is_true: cluster.name}\n"
        "keyed_groups: [{prefix: of, key: cluster.name}, {prefix: of, key: '{cluster.name: cluster.name}'}]\n"
    )
    desk.write("clusters.yml", PLUGIN + "kubeconfig: config\n" + options)
    status, document, beside = list_inventory(desk.path, "clusters.yml")
    assert status == 0, beside
    assert not (desk.path / "ran").exists()
    variables = json.loads(document)["_meta"]["hostvars"]
    for number, name in enumerate(HOSTILE):
        host = variables[f"c{number}"]
        expected = {"own": name, "longer": f"x{name}", "cilium_mesh_context": name}
        assert {key: host[key] for key in expected} == {key: {"__ansible_unsafe": text} for key, text in expected.items()}
    assert all(name.startswith("of_") and name.isidentifier() for name in desk.groups("clusters.yml"))


def test_an_expression_that_fails_is_left_out_unless_strict_is_set(desk: Desk) -> None:
    desk.write("config", kubeconfig("a"))
    for option in ("compose: {own: no_such}", "groups: {own: no_such}", "keyed_groups: [{key: no_such}]"):
        desk.write("clusters.yml", PLUGIN + f"kubeconfig: config\n{option}\n")
        assert "own" not in desk.hosts("clusters.yml")["a"] and desk.groups("clusters.yml") == {}
        desk.write("clusters.yml", PLUGIN + f"kubeconfig: config\nstrict: true\n{option}\n")
        assert "no_such" in desk.refusal("clusters.yml")


CACHE = "cache: true\ncache_plugin: ansible.builtin.jsonfile\ncache_connection: cache\n"


def test_the_cache_holds_names_and_paths_and_is_asked_before_the_source(desk: Desk) -> None:
    config = desk.write("config", kubeconfig("a", "{{ b }}"))
    inventory = PLUGIN + "kubeconfig: config\n" + CACHE
    desk.write("clusters.yml", inventory)
    first = desk.hosts("clusters.yml")
    [cached] = (desk.path / "cache").iterdir()
    assert CANARY not in cached.read_text() and str(config) in cached.read_text()
    config.unlink()
    assert desk.hosts("clusters.yml") == first and list(first) == ["a", "b"]
    desk.write("clusters.yml", inventory + "names: {a: ffm}\nnamespace: cilium\ncompose: {own: cluster.name}\n")
    named = desk.hosts("clusters.yml")
    assert list(named) == ["ffm", "b"] and named["b"]["cilium_mesh_namespace"] == "cilium" and named["b"]["own"] == "{{ b }}"
    desk.write("clusters.yml", inventory + "pattern: a\n")
    assert "does not exist" in desk.refusal("clusters.yml"), "another question is not answered by the cache"


@pytest.mark.parametrize("content", ["{", "[]", '{"asked": "", "clusters": []}', '{"clusters": [{"name": 7}]}'])
def test_a_cache_that_is_damaged_is_read_anew(desk: Desk, content: str) -> None:
    desk.write("config", kubeconfig("a"))
    desk.write("clusters.yml", PLUGIN + "kubeconfig: config\n" + CACHE)
    first = desk.hosts("clusters.yml")
    [cached] = (desk.path / "cache").iterdir()
    whole = json.loads(cached.read_text())
    for text in (content, json.dumps({**whole, "clusters": [{"name": "x"}]}), json.dumps({**whole, "clusters": 7})):
        cached.write_text(text)
        assert desk.hosts("clusters.yml") == first


@pytest.mark.slow
def test_flush_cache_reads_the_source(desk: Desk) -> None:
    desk.write("config", kubeconfig("a"))
    desk.write("clusters.yml", PLUGIN + "kubeconfig: config\n" + CACHE)
    assert list(desk.hosts("clusters.yml")) == ["a"]
    desk.write("config", kubeconfig("a", "b"))
    assert list(desk.hosts("clusters.yml")) == ["a"]
    done = desk.start("clusters.yml", arguments=("--flush-cache",))
    assert done.returncode == 0, done.stderr
    assert list(desk.read(done.stdout)) == list(desk.hosts("clusters.yml")) == ["a", "b"]

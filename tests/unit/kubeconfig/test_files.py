# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs in files: several are one as kubectl has it, and what is wrong in one is said with its path and none of its text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.files import default_paths, read_kubeconfigs, split_paths
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.invalid import KubeconfigUnreadable

CANARY = "canary-31c0"


def document(name: str, server: str, **more: Any) -> dict[str, Any]:
    return {
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": {"token": server}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        **more,
    }


def write(path: Path, content: dict[str, Any] | str | bytes) -> str:
    path.parent.mkdir(exist_ok=True)
    text = json.dumps(content) if isinstance(content, dict) else content
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_the_first_file_counts_for_an_entry_and_for_the_current_context(tmp_path: Path) -> None:
    first = write(tmp_path / "1", document("a", "https://1"))
    second = write(tmp_path / "2", document("a", "https://2", **{"current-context": "a"}))
    third = write(tmp_path / "3", document("b", "https://3", **{"current-context": "b"}))
    found = read_kubeconfigs((first, second, third))
    assert (found.current_context, list(found.contexts)) == ("a", ["a", "b"])
    assert (found.clusters["a"]["server"], found.users["a"]["token"]) == ("https://1", "https://1")


def test_a_file_that_is_missing_or_empty_takes_nothing_from_the_others(tmp_path: Path) -> None:
    there, empty = write(tmp_path / "1", document("a", "https://1")), write(tmp_path / "2", "")
    for paths in ((there, empty), (empty, there), (str(tmp_path / "none"), there), (there, str(tmp_path / "none"))):
        assert list(read_kubeconfigs(paths).contexts) == ["a"]
    assert read_kubeconfigs((empty,)).contexts == {}
    with pytest.raises(KubeconfigUnreadable, match="none does not exist"):
        read_kubeconfigs((str(tmp_path / "none"),))


def test_paths_in_a_file_begin_at_its_folder_and_those_of_the_user_at_the_folder_of_the_user(tmp_path: Path) -> None:
    cluster = {"clusters": [{"name": "a", "cluster": {"server": "https://1", "certificate-authority": "../ca.crt"}}]}
    plugin = {"command": "../bin/plugin", "args": ["../untouched"]}
    user = {"client-certificate": "me.crt", "client-key": "/keys/me.key", "tokenFile": "./token", "exec": plugin}
    paths = write(tmp_path / "c" / "config", cluster), write(tmp_path / "u" / "config", {"users": [{"name": "a", "user": user}]})
    found = read_kubeconfigs(paths)
    assert found.clusters["a"]["certificate-authority"] == str(tmp_path / "ca.crt")
    assert found.users["a"] == {
        "client-certificate": str(tmp_path / "u" / "me.crt"),
        "client-key": "/keys/me.key",
        "tokenFile": str(tmp_path / "u" / "token"),
        "exec": {"command": str(tmp_path / "bin" / "plugin"), "args": ["../untouched"]},
    }


def test_a_command_without_a_slash_is_left_to_path(tmp_path: Path) -> None:
    path = write(tmp_path / "config", {"users": [{"name": "a", "user": {"exec": {"command": "aws"}}}]})
    assert read_kubeconfigs((path,)).users["a"]["exec"]["command"] == "aws"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_encodings_of_yaml_are_read(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path / "config", json.dumps(document("ä", "https://1"), ensure_ascii=False).encode(encoding))
    assert list(read_kubeconfigs((path,)).contexts) == ["ä"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f"users: [{CANARY}\n", "it is not YAML, line 2"),
        (f"{CANARY}: !!python/object/apply:os.system [x]\n", "it is not YAML, line 1"),
        (f"{CANARY}: 2024-99-99\n", "it is not YAML"),
        (b"\xff\xfe\x00", "it is neither in UTF-8 nor in UTF-16 with its mark"),
        (f"{CANARY}ä".encode("latin-1"), "it is neither in UTF-8 nor in UTF-16 with its mark"),
        ("[" * 100_000, "it is not YAML"),
        (f"{CANARY}\n", "it is no mapping"),
        ("a: b\n---\na: b\n", "it is not YAML"),
        ("contexts: {a: b}", "it has contexts that are no list"),
        ("contexts: [{name: a}, {name: a}]", 'context "a" stands twice in its contexts'),
        ("contexts: [{name: 7}]", "the name of entry 1 of its contexts is a number or a truth value where a text belongs"),
        ("contexts: [a]", "entry 1 of its contexts is no mapping"),
        ("current-context: 7", "its current-context is a number or a truth value where a text belongs"),
        ("apiVersion: v2", "it is none of v1: its apiVersion is not v1"),
        ("kind: Secret", "it is none of v1: its kind is not Config"),
    ],
    ids=str,
)
def test_a_wrong_file_is_named_and_not_quoted(tmp_path: Path, content: str | bytes, says: str) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(KubeconfigUnreadable) as refused:
        read_kubeconfigs((path,))
    assert f"Kubeconfig {path} cannot be used: {says}" in refused.value.message
    assert CANARY not in refused.value.message + refused.value.remedy and refused.value.__suppress_context__


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigUnreadable, match="cannot be read: Is a directory"):
        read_kubeconfigs((str(tmp_path),))


def test_paths_are_those_of_kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert split_paths("a::~/b:a") == ("a", "/home/me/b")
    monkeypatch.setenv("KUBECONFIG", "")
    assert default_paths() == ("/home/me/.kube/config",)
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    assert default_paths() == ("/a", "/b")

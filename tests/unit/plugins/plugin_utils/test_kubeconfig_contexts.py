# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The contexts of a kubeconfig, and what is said of a file that is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.kubeconfig_contexts import (
    Contexts,
    UnreadableKubeconfig,
    read_contexts,
)

CANARY = "canary-31c0"


def test_names_and_the_current_context_are_read_in_order(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(json.dumps({"contexts": [{"name": "b"}, {"name": "a"}], "current-context": "a", "users": [{"token": CANARY}]}))
    assert read_contexts(str(file)) == Contexts(names=("b", "a"), current="a")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f"users: [{CANARY}\n", "is not YAML, line 2."),
        (f"{CANARY}: !!python/object/apply:os.system [x]\n", "is not YAML, line 1."),
        (b"\xff\xfe\x00", "is not YAML."),
        ("[" * 100_000, "is not YAML"),
        (f"{CANARY}\n", "is not a kubeconfig: it has no list of contexts."),
        ("", "is not a kubeconfig: it has no list of contexts."),
        ("contexts: {a: b}", "is not a kubeconfig: it has no list of contexts."),
        ("contexts: [{name: a}, {name: a}]", "names the context 'a' twice."),
        (f"contexts: [{{context: {CANARY}}}]", "has a context without a name."),
    ],
    ids=["cut-off", "python-tag", "binary", "deep", "text", "empty", "no-list", "context-twice", "nameless-context"],
)
def test_a_wrong_file_is_named_and_not_quoted(tmp_path: Path, content: str | bytes, says: str) -> None:
    file = tmp_path / "config"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UnreadableKubeconfig) as refused:
        read_contexts(str(file))
    assert str(file) in str(refused.value)
    assert says in str(refused.value)
    assert CANARY not in str(refused.value)
    assert refused.value.__context__ is None or refused.value.__suppress_context__


def test_a_missing_file_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UnreadableKubeconfig, match="nowhere cannot be read: No such file or directory"):
        read_contexts(str(tmp_path / "nowhere"))

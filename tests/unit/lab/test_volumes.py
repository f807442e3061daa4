# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a pod sees in its volumes."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.volumes import AtomicFolder, FileEntry, VolumeNotReadyError, references, render

PEERS = {"name": "peers", "projected": {"defaultMode": 0o400, "sources": [{"secret": {"name": "cilium-kvstoremesh", "optional": True}}]}}
USERS = {"name": "users", "configMap": {"name": "clustermesh-remote-users", "defaultMode": 0o400}}


def api(**objects: dict[str, Any]) -> Any:
    return lambda kind, name: objects.get(f"{kind}_{name}".replace("-", "_"))


def secret(**data: str) -> dict[str, Any]:
    return {"data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}}


def test_a_missing_optional_secret_shows_nothing_and_a_missing_config_map_keeps_the_pod_waiting() -> None:
    assert render(PEERS, api()) == {}
    with pytest.raises(VolumeNotReadyError, match='configmap "clustermesh-remote-users" not found'):
        render(USERS, api())


def test_items_choose_keys_and_give_them_names() -> None:
    items = [{"key": "tls.key", "path": "common-etcd-client.key"}, {"key": "absent", "path": "x"}]
    volume = {"projected": {"sources": [{"secret": {"name": "s", "items": items, "optional": True}}]}}
    assert render(volume, api(Secret_s=secret(**{"tls.key": "k", "tls.crt": "c"}))) == {"common-etcd-client.key": FileEntry(b"k", 0o644)}


def test_a_missing_key_of_a_secret_that_is_needed_keeps_the_pod_waiting() -> None:
    volume = {"secret": {"secretName": "s", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    with pytest.raises(VolumeNotReadyError, match=r"non-existent secret key: ca\.crt"):
        render(volume, api(Secret_s=secret(other="x")))


def test_volumes_name_what_they_show() -> None:
    assert list(references(PEERS)) == [("Secret", "cilium-kvstoremesh")]
    assert list(references(USERS)) == [("ConfigMap", "clustermesh-remote-users")]
    assert list(references({"emptyDir": {}})) == []


def test_files_change_together_behind_one_link_as_cilium_watches_it(tmp_path: Path) -> None:
    folder = AtomicFolder(tmp_path / "v")
    assert folder.show({"c2": FileEntry(b"one", 0o400), "c2.key": FileEntry(b"k", 0o400)})
    before = os.readlink(tmp_path / "v" / "..data")
    assert (tmp_path / "v" / "c2").read_bytes() == b"one"
    assert os.readlink(tmp_path / "v" / "c2") == "..data/c2"
    assert (tmp_path / "v" / "c2").stat().st_mode & 0o777 == 0o400
    assert folder.show({"c2": FileEntry(b"two", 0o400)})
    assert os.readlink(tmp_path / "v" / "..data") != before
    assert sorted(path.name for path in (tmp_path / "v").iterdir() if not path.name.startswith("..")) == ["c2"]
    assert not folder.show({"c2": FileEntry(b"two", 0o400)})


def test_replaced_files_are_out_of_reach_before_the_first_of_them_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = AtomicFolder(tmp_path / "v")
    folder.show({"c2": FileEntry(b"one", 0o400), "c2.key": FileEntry(b"k", 0o400)})
    old = (tmp_path / "v" / "..data").resolve()
    removed: list[tuple[list[str], bool]] = []

    def removes(path: Path, **_options: bool) -> None:
        removed.append((sorted(entry.name for entry in path.iterdir()), old.exists()))

    monkeypatch.setattr(shutil, "rmtree", removes)
    folder.show({"c2": FileEntry(b"two", 0o400)})
    assert removed == [(["c2", "c2.key"], False)], "a reader of the old folder could find a part of it"


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "c", "d/e", "d/f"]), st.binary(max_size=8), max_size=5), max_size=4))
def test_whatever_was_shown_before_the_last_content_is_what_is_seen(
    tmp_path_factory: pytest.TempPathFactory, contents: list[dict[str, bytes]]
) -> None:
    root = tmp_path_factory.mktemp("v")
    folder = AtomicFolder(root)
    for content in contents:
        folder.show({name: FileEntry(data, 0o600) for name, data in content.items()})
    last = contents[-1] if contents else {}
    assert {name for name in ("a", "b", "c", "d/e", "d/f") if (root / name).exists()} == set(last)
    assert all((root / name).read_bytes() == data for name, data in last.items())
    assert len([path for path in root.iterdir() if path.is_dir() and not path.is_symlink()]) <= 1

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Files on the controller are written whole or stay as before, at places that are refused first, and an error repeats nothing of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.files import check_places, forget, read_json, write_whole


@pytest.mark.parametrize("content", [b"[" * 200_000, b"hunter2", b"\xff\xfe", b"9" * 5000])
def test_what_is_no_json_is_refused_and_not_repeated(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        read_json(str(path))
    assert "does not hold JSON" in str(caught.value) and "hunter2" not in str(caught.value)


def test_places_are_made_absolute_and_unset_ones_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert check_places({"junit": "found.xml", "json": ""}) == {"junit": str(tmp_path / "found.xml")}


@pytest.mark.parametrize(("path", "why"), [("missing/found.xml", "there is no folder"), (".", "is a folder")])
def test_a_place_that_cannot_be_is_refused_and_the_option_named(tmp_path: Path, path: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^junit: .*{why}") as refused:
        check_places({"junit": str(tmp_path / path)})
    assert refused.value.remedy


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InvalidInput, match=r"json: the folder .* cannot be written"):
        check_places({"json": str(tmp_path / "found.json")})


def test_two_options_do_not_share_a_file(tmp_path: Path) -> None:
    place = str(tmp_path / "found")
    with pytest.raises(InvalidInput, match="junit and json name the same file"):
        check_places({"junit": place, "json": place})


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    place = tmp_path / "found.json"
    place.write_bytes(b"earlier")
    write_whole("json", str(place), b"now")
    assert place.read_bytes() == b"now"
    assert [entry.name for entry in tmp_path.iterdir()] == ["found.json"]
    umask = os.umask(0)
    os.umask(umask)
    assert place.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_place_in_the_home_of_the_user_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_whole("plan_json", "~/plan.json", b"{}")
    assert (tmp_path / "plan.json").read_bytes() == b"{}"


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "found.json"
    place.write_bytes(b"earlier")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidInput, match=r"json: .* cannot be written: No space left on device"):
        write_whole("json", str(place), b"now")
    assert place.read_bytes() == b"earlier"
    assert [entry.name for entry in tmp_path.iterdir()] == ["found.json"]


def test_forgetting_a_file_that_is_not_there_is_fine(tmp_path: Path) -> None:
    place = tmp_path / "found.json"
    forget(str(place))
    place.write_bytes(b"earlier")
    forget(str(place))
    assert not place.exists()


@pytest.mark.parametrize(
    ("place", "advice"), [("missing/plan.json", "Make its folder first"), ("file/plan.json", "a part of the path is a file")]
)
def test_the_advice_fits_what_is_wrong_with_the_place(tmp_path: Path, place: str, advice: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput) as caught:
        write_whole("plan_json", str(tmp_path / place), b"{}")
    assert advice in caught.value.remedy

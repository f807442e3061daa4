# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Files of plans on the controller: whole or as before, and read with an error that repeats nothing of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.files import read_json, write_whole


@pytest.mark.parametrize("content", [b"[" * 200_000, b"hunter2", b"\xff\xfe", b"9" * 5000])
def test_what_is_no_json_is_refused_and_not_repeated(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        read_json(str(path))
    assert "does not hold JSON" in str(caught.value) and "hunter2" not in str(caught.value)


def test_a_text_that_cannot_be_written_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert write_whole(str(path), "old") and not write_whole(str(path), "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(str(path), "\ud800")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]

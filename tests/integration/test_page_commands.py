# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The commands in the tables of README.md and docs/troubleshooting.md, run as they stand, with the files of README.md."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.collection_path import CHECKOUT
from tests.integration.followed import PLACES, reader_of
from tests.integration.labs import TUTORIAL
from tests.integration.mesh_lab import MeshLab
from tests.integration.peer_objects import contents
from tests.integration.shop import furnish
from tests.testing.page_commands import FORM, RUN_BY, TABLES, table_commands
from tests.testing.tutorial import Block, Reader, blocks_of

pytestmark = pytest.mark.lab(TUTORIAL)

BEFORE: Final = {"README.md": (), "docs/troubleshooting.md": ("mesh",)}
"""What was run before a reader comes to the table of a page."""
LEAVES_NOTHING: Final = {"README.md": True, "docs/troubleshooting.md": False}
"""Whether the last commands of a table take the mesh away."""


def reader_of_readme(lab: MeshLab, folder: Path) -> Reader:
    """Return a reader who has written the files of README.md, and has the kubeconfigs where these look for them."""
    reader = reader_of(lab, folder)
    (folder / ".kube").mkdir()
    for place in PLACES:
        (folder / f"{place}.kubeconfig").rename(folder / ".kube" / f"{place}.yaml")
    for block in blocks_of((CHECKOUT / "README.md").read_text(encoding="utf-8")):
        if block.kind == "yaml":
            reader.follow(block)
    return reader


@pytest.mark.parametrize("page", TABLES)
def test_every_command_of_a_table_works_as_it_stands(page: str, lab: MeshLab, tmp_path: Path) -> None:
    furnish(lab)
    before = contents(lab)
    reader = reader_of_readme(lab, tmp_path)
    for command in (*BEFORE[page], *(command for command in table_commands(page) if command not in RUN_BY)):
        reader.follow(Block("shell", FORM.replace("NAME", command), 0))
    assert (contents(lab) == before) is LEAVES_NOTHING[page]

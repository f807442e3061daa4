# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the parts of the collection say of each other is true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from tests.collection_path import CHECKOUT


def read(path: str) -> Any:
    return load_yaml((CHECKOUT / path).read_text(encoding="utf-8"))


def names(folder: str) -> set[str]:
    return {path.stem for path in (CHECKOUT / "plugins" / folder).glob("*.py") if path.stem != "__init__"}


def importing(pattern: str) -> set[Path]:
    """The files below plugins with an import that begins so."""
    begins = re.compile(rf"^[ \t]*(?:from|import) {pattern}", re.MULTILINE)
    return {path for path in (CHECKOUT / "plugins").rglob("*.py") if begins.search(path.read_text(encoding="utf-8"))}


def test_every_action_is_documented_by_a_module_of_its_name_and_every_module_is_an_action() -> None:
    assert names("action") == names("modules")


def test_the_action_group_lists_every_module_in_order() -> None:
    group = read("meta/runtime.yml")["action_groups"]["cilium_mesh"]
    # mesh_publish and mesh_end look at no cluster; a default of the group, as mesh, would be an unknown option to them.
    assert group == sorted({*names("modules")} - {"mesh_publish", "mesh_end"})


FOLDERS = ("action", "doc_fragments", "inventory", "modules")
"""Folders of plugins of which every file is under the GPL, also one that imports Ansible by way of another file alone, or not at all."""


def test_files_that_ansible_loads_or_that_import_it_are_under_the_gpl() -> None:
    importers = importing(r"ansible\b")
    loaded = {folder: set((CHECKOUT / "plugins" / folder).glob("*.py")) for folder in FOLDERS}
    assert all(loaded.values()) and {"action", "filter", "inventory"} <= {path.parent.name for path in importers}
    files = importers.union(*loaded.values())
    assert [path for path in files if ": GPL-3.0-or-later\n" not in path.read_text(encoding="utf-8")] == []


def test_the_engine_imports_nothing_of_ansible() -> None:
    """Not by ``ansible_collections`` either, which the operator would need Ansible's loader for."""
    found = importing("ansible")
    assert found, "the plugins do, so the search finds what there is"
    assert [path for path in found if path.is_relative_to(CHECKOUT / "plugins" / "module_utils")] == []


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def test_the_oldest_ansible_that_is_promised_is_the_one_that_is_tested() -> None:
    promised = re.fullmatch(r">=(\d+\.\d+)\.0", read("meta/runtime.yml")["requires_ansible"])
    assert promised is not None
    for file, lines in (("dev.in", r"(?m)^ansible-core>=(\d+\.\d+),"), ("dev.txt", r"(?m)^ansible-core==(\d+\.\d+)\.\d+ ")):
        found = re.findall(lines, (CHECKOUT / "requirements" / file).read_text(encoding="utf-8"))
        assert min(map(version, found)) == version(promised[1]), file


PLACES = {
    "playbook": "playbooks/*.yml",
    "role": "roles/*",
    "module": "plugins/modules/mesh_*.py",
    "inventory plugin": "plugins/inventory/[a-z]*.py",
    "filter": "plugins/filter/[a-z]*.py",
}
"""First cell of a row of README.md -> where that of which the second cell names some lies."""


@pytest.mark.parametrize("what", PLACES)
def test_the_readme_names_each_part_of_the_collection_and_nothing_else(what: str) -> None:
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    named = [name for cell in re.findall(rf"(?m)^\| {what} \| ([^|]*) \|", readme) for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(path.stem for path in CHECKOUT.glob(PLACES[what]))

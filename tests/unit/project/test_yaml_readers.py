# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every text of another writer is read by the bounded reader (plugins/module_utils/base/yaml_reader.py)."""

from __future__ import annotations

import ast

from tests.collection_path import CHECKOUT

OWN_FILES = {
    "operator/mesh_operator/crds.py": "the collection's own CRDs",
    "plugins/module_utils/kubeconfig/files.py": "a kubeconfig file of the user who runs the playbook, as kubectl reads it",
    "plugins/module_utils/base/yaml_reader.py": "the bounded reader itself",
}
READS = {"load", "load_all", "safe_load", "safe_load_all", "full_load", "unsafe_load", "compose", "compose_all", "scan", "parse"}


def readers() -> set[str]:
    """Files with a call of one of PyYAML's readers."""
    found = set()
    for folder in ("plugins", "operator"):
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "yaml" in text else ():  # parsing takes a second where all files are parsed
                called = (
                    isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "yaml" and node.attr in READS
                )
                named = isinstance(node, ast.ImportFrom) and node.module == "yaml" and any(name.name in READS for name in node.names)
                if called or named:
                    found.add(path.relative_to(CHECKOUT).as_posix())
    return found


def test_only_files_of_the_user_and_of_the_project_are_read_without_bounds() -> None:
    assert readers() == OWN_FILES.keys()

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Actions, modules, playbooks and roles of items of one kind: a row for each kind and a template for each file (tests/testing/facades).

Ansible and Galaxy read each of these files as it stands, without running it. ``make generated``, or ``python -m
tests.testing.item_facades``, writes them, and a unit test holds that they are current. RETURN of a module is from returns.py, options and
defaults of a role are from options.py; both stay as they are here.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any, Final

import jinja2

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.wording import listed
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from tests.collection_path import CHECKOUT
from tests.testing.kind_tables import page_of
from tests.testing.options import WIDTH, WRAP, scalar

FOLDER: Final = CHECKOUT / "tests" / "testing" / "facades"
FILES: Final = {
    "action.py": "plugins/action/{module}.py",
    "module.py": "plugins/modules/{module}.py",
    "playbook.yml": "playbooks/{playbook}.yml",
    "role_meta.yml": "roles/{role}/meta/main.yml",
    "role_readme.md": "roles/{role}/README.md",
    "role_specs.yml": "roles/{role}/meta/argument_specs.yml",
    "role_tasks.yml": "roles/{role}/tasks/main.yml",
}
"""Template -> its file for a row."""

CONTINUED: Final = {"module.py": '"""\n', "role_specs.yml": ""}
"""Template of the beginning of a file that another generator continues -> how that goes on where there is no file yet."""

Row = dict[str, Any]


def rows() -> list[Row]:
    """Return the rows: that of all kinds, which has neither a role nor a playbook, and one for each kind."""
    found = []
    for module, given in load_yaml((FOLDER / "rows.yml").read_text(encoding="utf-8")).items():
        kind = ItemKind[given["kind"]]
        entry = given["entry"].rstrip()
        known = {"module": module, "key": kind.value, "crd": kind.crd, "page": page_of(kind.crd), "examples": [(kind.value, entry)]}
        found.append({"probes": False, "shows": "", **given, **known, "entry": entry})
    names = listed([row["items"] for row in found])
    shown = {"title": f"Carry out {names} of a mesh", "examples": [example for row in found for example in row["examples"]]}
    return [{"module": "mesh_items", "kind": "", "items": names, "probes": True, **shown}, *found]


def files() -> dict[Path, str]:
    """Return every file of the façades with the text that it is to have."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        # Other marks than those of Ansible, which stand in the files.
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["bullet"] = _bullet
    found, every = {}, rows()
    for row in every:
        for template, place in FILES.items():
            if "role" in row or "{module}" in place:
                path = CHECKOUT / place.format_map(row)
                text = environment.get_template(f"{template}.j2").render(row, modules=[other["module"] for other in every])
                found[path] = text + (_continuation(path, text) or CONTINUED[template] if template in CONTINUED else "")
    return found


def _bullet(text: str, depth: int) -> str:
    indent = " " * depth
    return textwrap.fill(scalar(text), WIDTH, initial_indent=f"{indent}- ", subsequent_indent=f"{indent}  ", **WRAP)


def _continuation(path: Path, beginning: str) -> str:
    """Return what stands in the file behind the last line of its beginning."""
    mark = beginning.splitlines(keepends=True)[-1]
    return path.read_text(encoding="utf-8").partition(mark)[2] if path.is_file() else ""


def main() -> int:
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

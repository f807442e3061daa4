# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Tables of the kinds in the documents, and their names in the roles of tenants: made of the rows of the kinds and of their CRDs.

``python -m tests.testing.kind_schemas --write`` writes them, each between two marks of its page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from mesh_operator.base.kinds import BINDING, BY_KIND, GROUP, ROWS
from mesh_operator.crds import MESH, crds
from tests.collection_path import CHECKOUT

DOCS: Final = CHECKOUT / "docs"
ROLES: Final = CHECKOUT / "operator" / "deploy" / "kcp" / "tenant-roles.yaml"
BEGIN, END = "<!-- {what}: begin -->\n", "<!-- {what}: end -->\n"
FIELDS: Final = "fields of {kind}"
"""What stands between the marks of a table of fields (kind_schemas.py); a page with them is the page of the kind."""


@cache
def page_of(kind: str) -> str:
    """Return the name of the page in docs that has the fields of the kind.

    :raises LookupError: no page has them, or several have.
    """
    mark = BEGIN.format(what=FIELDS.format(kind=kind))
    pages = [path.name for path in sorted(DOCS.glob("*.md")) if mark in path.read_text(encoding="utf-8")]
    if len(pages) != 1:
        raise LookupError(f"{len(pages)} pages of docs have the mark {mark.strip()}, and one has to: it is the page of {kind}")
    return pages[0]


def items_table() -> str:
    """Return the kinds of items."""
    rows = [f"| `{kind.value}` | {kind.crd} | [{page_of(kind.crd)}]({page_of(kind.crd)}) |" for kind in ItemKind]
    return "\n".join(["| List in `cilium_mesh` | Custom resource | Its page |", "| --- | --- | --- |", *rows]) + "\n"


def phases_table() -> str:
    """Return the phases of the kinds that have runs."""
    shown = [BY_KIND[BINDING], *(BY_KIND[kind.crd] for kind in ItemKind)]
    rows = [f"| {row.kind} | `Pending`, `{row.going_on}` | `{row.good}` | `Degraded` | `Error` |" for row in shown]
    head = ["| Kind | On the way | Good | Partly good | Bad |", "| --- | --- | --- | --- | --- |"]
    last = "| Fabric | the worst of its bindings, and `Error` where one does not exist | | | |"
    return "\n".join([*head, *rows, last]) + "\n"


def columns_table() -> str:
    """Return short names and columns of the kinds, from the CRDs; without those that all of them have."""
    found: Mapping[str, Mapping[str, Any]] = {crd["spec"]["names"]["kind"]: crd["spec"] for crd in crds(MESH)}
    rows = []
    for kind in (row.kind for row in ROWS if row.kind in found):
        names = [column["name"].lower() for column in found[kind]["versions"][0]["additionalPrinterColumns"]]
        shown = ", ".join(name for name in names if name not in ("message", "measured", "age"))
        rows.append(f"| {kind} | `{found[kind]['names']['shortNames'][0]}` | {shown} |")
    head = ["| Kind | Short | Columns (`-o wide` adds the message of `Ready`, and when it was measured) |", "| --- | --- | --- |"]
    return "\n".join([*head, *rows]) + "\n"


TABLES: Final[Mapping[str, tuple[str, Callable[[], str]]]] = {
    "kinds of items": ("items.md", items_table),
    "phases of the kinds": ("operator-status.md", phases_table),
    "columns of the kinds": ("kcp.md", columns_table),
}
"""What stands between the marks -> the page, and what makes it."""


def between(text: str, what: str, inner: str) -> str:
    """Return the text with ``inner`` between the marks of ``what``; a text without the marks stays as it is."""
    begin, end = BEGIN.format(what=what), END.format(what=what)
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _found: begin + inner + end, text, flags=re.DOTALL)


def generated() -> dict[Path, str]:
    """Return every file that has such a table or list, with the text that it has to have."""
    found = {DOCS / page: between((DOCS / page).read_text(encoding="utf-8"), what, make()) for what, (page, make) in TABLES.items()}
    names = ", ".join(row.plural for row in ROWS if row.group == GROUP)
    roles = ROLES.read_text(encoding="utf-8")
    return {**found, ROLES: re.sub(r"(?m)^(    resources: )\[.*\]$", rf"\g<1>[{names}]", roles)}

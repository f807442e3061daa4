# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The table of all findings in docs/verify.md, made from the registry of checks and the runbook pages.

``python -m tests.testing.code_table`` writes it anew; a unit test holds that it is current.
"""

from __future__ import annotations

import re
from typing import Final

from tests.collection_path import CHECKOUT, link

DOCUMENT: Final = CHECKOUT / "docs" / "verify.md"
BEGIN, END = "<!-- table of findings: begin -->\n", "<!-- table of findings: end -->\n"
_SCOPES: Final = {"cluster": "each cluster", "pair": "each link"}


def table() -> str:
    """Markdown. Checks first, then what observing, planning and acting come to; by code."""
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import all_codes
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings import registered

    checks = registered()
    rows = ["| code | finding | severity | looks at | cure |", "| --- | --- | --- | --- | --- |"]
    for code, entry in sorted(checks.items()):
        severity = entry.severity.value + (" (can be accepted)" if entry.acceptable else "")
        scope = _SCOPES.get(entry.scope.value, "the mesh")
        rows.append(f"| [{code}](runbooks/{code}.md) | {entry.title} | {severity} | {scope} | {entry.cure.value} |")
    rows += ["", "| code | finding that no check makes, but observing, planning or an action |", "| --- | --- |"]
    rows += [f"| [{code}](runbooks/{code}.md) | {_title(code)} |" for code in all_codes() if code not in checks]
    return "\n".join(rows) + "\n"


def documented() -> str:
    """The table that stands in the document."""
    return DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def _title(code: str) -> str:
    page = CHECKOUT / "docs" / "runbooks" / f"{code}.md"
    match = re.match(rf"# {code}: (.*)\n", page.read_text(encoding="utf-8")) if page.is_file() else None
    return match[1] if match else "(its page is missing)"


def _write() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(text.partition(BEGIN)[0] + BEGIN + table() + END + text.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    link()
    _write()

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the docs say of every finding, made from the catalogue: the table in docs/verify.md, the header of each runbook page, their index.

Beside it stands the table of the settings of Cilium that are read, made from mesh/versions/cilium_values.py.

``make findings`` (write_code_table.py) writes all of it; a unit test holds that it is current.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.registry import registered
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.catalogue import CATALOGUE, FAMILIES, Row
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Cure, Scope
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.cilium_values import KEYS, ValueType, key_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import SUPPORTED
from tests.collection_path import CHECKOUT

DOCUMENT: Final = CHECKOUT / "docs" / "verify.md"
RUNBOOKS: Final = CHECKOUT / "docs" / "runbooks"
INDEX: Final = RUNBOOKS / "README.md"
BEGIN, END = "<!-- table of findings: begin -->\n", "<!-- table of findings: end -->\n"
SETTINGS_BEGIN, SETTINGS_END = "<!-- table of settings: begin -->\n", "<!-- table of settings: end -->\n"
HEADER: Final = re.compile(r"# CM-[^\n]*\n\n(?:- \*\*[^\n]*\n)*")
"""The block that starts a page. What follows is written by hand."""

_SCOPES: Final = {
    Scope.CLUSTER: "one cluster",
    Scope.PAIR: "one link, from a cluster to its peer",
    Scope.MESH: "the mesh as a whole",
    Scope.COMMON_PEER: "clusters with a common peer",
    Scope.CONNECTED: "clusters that links connect, directly or over others",
    Scope.ITEM: "one item",
    Scope.FABRIC: "the bindings of a fabric together",
    Scope.RUN: "the run",
}
_ITEMS: Final = {
    "CM-GS": "one GlobalService",
    "CM-INT": "one ConnectivityIntent",
    "CM-REACH": "one ConnectivityIntent",
    "CM-EXPO": "one ExposedService",
}
_CURES: Final = {
    Cure.LIVE: "takes effect without a restart",
    Cure.RESTART: "workloads of Cilium restart",
    Cure.REINSTALL: "a cluster, its nodes or its pods have to be made anew",
}

_INTRODUCTION: Final = """# Runbooks

A page for every code that a finding can have: what it means, how it is found, why it matters and what to do. This index and the first lines
of each page are written from the catalogue (`plugins/module_utils/findings/catalogue.py`) by `make findings`.
No code yet? [Troubleshooting](../troubleshooting.md) leads from what you see to a command, and from there to a page.

A **blocking** finding stops the run before its first write; one about an item stops that item alone. An **outage** lets the run go on, and
its writes stop traffic that passes today. A **remediable** finding lets the run go on, but something does not work or will stop working,
and the fix is known. An **advisory** finding is for information.
"""


def table() -> str:
    """Return the Markdown for docs/verify.md: checks first, then what observing, planning and acting find; by code."""
    checks = registered()
    rows = ["| code | finding | severity | scope | cure |", "| --- | --- | --- | --- | --- |"]
    others = [
        "",
        "| code | finding that no check makes, but observing, planning or an action | severity | scope |",
        "| --- | --- | --- | --- |",
    ]
    for code, row in sorted(CATALOGUE.items()):
        cells = [
            f"[{code}](runbooks/{code}.md)",
            row.title,
            _severities(row) + (" (can be accepted)" if row.acceptable else ""),
            scope(row),
        ]
        if code in checks:
            rows.append(_row([*cells, row.cure.value]))
        else:
            others.append(_row(cells))
    return "\n".join([*rows, *others]) + "\n"


def settings_table() -> str:
    """Return the Markdown for docs/verify.md: every key of cilium-config that is read, and the values that the supported minors accept."""
    rows = ["| key | read by | value |", "| --- | --- | --- |"]
    for name in KEYS:
        ways: dict[str, list[str]] = {}
        for minor in SUPPORTED.minors:
            way = key_of(name, minor)
            if way is not None:
                ways.setdefault("text" if way.kind is ValueType.TEXT else way.shown(minor), []).append(str(minor))
        for accepted, minors in ways.items() or [("", [])]:
            read = "all" if len(minors) == len(SUPPORTED.minors) else f"{minors[0]} to {minors[-1]}" if minors else "none of these"
            rows.append(_row([f"`{name}`", read if len(minors) != 1 else minors[0], accepted]))
    return "\n".join(rows) + "\n"


def header(row: Row) -> str:
    """Return the first lines of the page of a code."""
    cases = "".join(f"; {severity.value} {case}" for severity, case in row.cases.items())
    accepted = "yes: list the code in the option `accept`" if row.acceptable else "no"
    return (
        f"# {row.code}: {row.title}\n\n"
        f"- **Severity:** {row.severity.value}{cases}\n"
        f"- **Scope:** {scope(row)}\n"
        f"- **Cure:** {row.cure.value}: {_CURES[row.cure]}\n"
        f"- **Can be accepted:** {accepted}\n"
    )


def index() -> str:
    """Return docs/runbooks/README.md: every code by family."""
    return _INTRODUCTION + "\n".join(_families())


def scope(row: Row) -> str:
    """Return what a finding of this code is about."""
    return _ITEMS.get(row.family, _SCOPES[row.scope]) if row.scope is Scope.ITEM else _SCOPES[row.scope]


def documented() -> str:
    """Return the table that stands in docs/verify.md."""
    return DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def documented_settings() -> str:
    """Return the table of settings that stands in docs/verify.md."""
    return DOCUMENT.read_text(encoding="utf-8").partition(SETTINGS_BEGIN)[2].partition(SETTINGS_END)[0]


def page(code: str) -> Path:
    """Return the path of a code's page."""
    return RUNBOOKS / f"{code}.md"


def documented_header(code: str) -> str:
    """Return the first lines of a page as they stand there; "" when it has no such block."""
    match = HEADER.match(page(code).read_text(encoding="utf-8"))
    return match[0] if match else ""


def _families() -> Iterator[str]:
    for family, about in FAMILIES.items():
        yield from ("", f"## {family}: {about}", "", "| code | finding | severity | scope |", "| --- | --- | --- | --- |")
        for row in CATALOGUE.values():
            if row.family == family:
                yield _row([f"[{row.code}]({row.code}.md)", row.title, _severities(row), scope(row)])
    yield ""


def _severities(row: Row) -> str:
    return " or ".join(severity.value for severity in (row.severity, *row.cases))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write() -> None:
    """Write the table, the index and the headers anew. A code without a page gets one that holds its header alone."""
    text = DOCUMENT.read_text(encoding="utf-8")
    for begin, made, end in ((SETTINGS_BEGIN, settings_table(), SETTINGS_END), (BEGIN, table(), END)):
        text = text.partition(begin)[0] + begin + made + end + text.partition(end)[2]
    DOCUMENT.write_text(text, encoding="utf-8")
    INDEX.write_text(index(), encoding="utf-8")
    for row in CATALOGUE.values():
        file = page(row.code)
        rest = HEADER.sub("", file.read_text(encoding="utf-8"), count=1) if file.is_file() else ""
        file.write_text(f"{header(row)}\n{rest.lstrip()}", encoding="utf-8")

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An archive for a bug report as lines for the terminal. Pure: data in, lines out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..module_utils.base.redact import one_line
from ..module_utils.base.tables import cell, count, row, text, widths
from .fitted import Line

FILES_SHOWN: Final = 40
MISSING_SHOWN: Final = 20
PATH_SHOWN: Final = 1000  # characters; the path is to be copied


def archive_lines(path: str, summary: Mapping[str, Any], size: int) -> list[Line]:
    """Return the files of the archive, what is missing, and what to do with it."""
    files = summary["files"]
    cells = [("file", "bytes", "removed"), *((entry["path"], str(entry["bytes"]), str(entry["removed"])) for entry in files[:FILES_SHOWN])]
    found = widths(cells)
    lines = [Line("Archive for a bug report:"), *(Line(f"  {row(entry, found)}".rstrip()) for entry in cells)]
    if len(files) > FILES_SHOWN:
        lines.append(Line(f"  and {len(files) - FILES_SHOWN} more files; MANIFEST.md in the archive lists all"))
    for entry in summary["missing"][:MISSING_SHOWN]:
        of = f"{cell(entry['cluster'])}: " if entry["cluster"] else ""
        lines.append(Line(f"  not read: {of}{text(entry['what'])}: {text(entry['reason'])}", "yellow"))
    if len(summary["missing"]) > MISSING_SHOWN:
        lines.append(Line(f"  and {len(summary['missing']) - MISSING_SHOWN} more that were not read", "yellow"))
    lines += [Line(f"  left out, as the archive was full: {text(entry['path'])}", "yellow") for entry in summary["leftOut"]]
    removed = sum(entry["removed"] for entry in files)
    lines.append(
        Line(
            f"Written: {one_line(path, PATH_SHOWN)}, {size} bytes, {count(len(files), 'file')}; {count(removed, 'value')} removed", "green"
        )
    )
    names = "Names and addresses are pseudonyms." if summary["pseudonyms"] else "Names and addresses of your clusters are in it."
    return [*lines, Line(f"{names} Read MANIFEST.md in the archive before you share it.")]

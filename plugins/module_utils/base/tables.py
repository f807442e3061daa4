# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Text tables in aligned columns. Text of clusters and tenants is cut to one printable line first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from .redact import one_line

COLUMN_LIMIT: Final = 60
TEXT_LIMIT: Final = 600


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Format rows as lines with aligned columns, without trailing blanks."""
    kept = list(rows)
    found = widths(kept)
    return [row(cells, found).rstrip() for cells in kept]


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column in characters."""
    return [max(len(cell(text)) for text in column) for column in zip(*rows, strict=True)]


def row(cells: Sequence[str], found: Sequence[int]) -> str:
    """Format one line, padding each cell to the width of its column in ``found``."""
    return "  ".join(cell(text).ljust(width) for text, width in zip(cells, found, strict=True))


def cell(value: str) -> str:
    """Return ``value`` as a short printable text for a column."""
    return one_line(str(value), COLUMN_LIMIT)


def text(value: str) -> str:
    """Return ``value`` as a printable sentence to stand after the columns."""
    return one_line(str(value), TEXT_LIMIT)


def count(number: int, noun: str) -> str:
    """Return a number with its noun, e.g. ``1 link``, ``2 links``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kleene's three-valued logic: True, False, and None for unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Ternary: TypeAlias = bool | None


def all_of(values: Iterable[Ternary]) -> Ternary:
    """Return False if any value is False, else None if any is unknown, else True. True for no values."""
    result: Ternary = True
    for value in values:
        if value is False:
            return False
        if value is None:
            result = None
    return result


def any_of(values: Iterable[Ternary]) -> Ternary:
    """Return True if any value is True, else None if any is unknown, else False. False for no values."""
    result: Ternary = False
    for value in values:
        if value is True:
            return True
        if value is None:
            result = None
    return result

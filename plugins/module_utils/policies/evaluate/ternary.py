# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""True, False, and None for what cannot be told: Kleene's three-valued logic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Ternary: TypeAlias = bool | None


def all_of(values: Iterable[Ternary]) -> Ternary:
    """False as soon as one is False; None when one of the rest is unknown. True for nothing at all."""
    result: Ternary = True
    for value in values:
        if value is False:
            return False
        if value is None:
            result = None
    return result


def any_of(values: Iterable[Ternary]) -> Ternary:
    """True as soon as one is True; None when one of the rest is unknown. False for nothing at all."""
    result: Ternary = False
    for value in values:
        if value is True:
            return True
        if value is None:
            result = None
    return result

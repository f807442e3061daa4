# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How arguments.py writes options and names of variables once that several actions or roles have: as words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Spec: TypeAlias = dict[str, dict[str, Any]]


def options_of(shared: Spec, actions: Mapping[str, tuple[str, Spec]]) -> dict[str, Spec]:
    """Return the options of each action by name, in order: the names of ``shared`` ones that it has, and its own."""
    return {
        action: dict(sorted({**{name: shared[name] for name in words.split()}, **own}.items())) for action, (words, own) in actions.items()
    }


def names_of(words: Mapping[str, str]) -> tuple[str, ...]:
    """Return names from what they begin with, and the rests."""
    return tuple(f"{prefix}{rest}" for prefix, rests in words.items() for rest in rests.split())


def variables_of(words: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return option -> its variables, from what these begin with and the options.

    Where a variable does not end with the name of the option, what it ends with stands behind ``=``.
    """
    found: dict[str, tuple[str, ...]] = {}
    for prefix, rests in words.items():
        for option, _sign, rest in (word.partition("=") for word in rests.split()):
            found[option] = (*found.get(option, ()), f"{prefix}{rest or option}")
    return found

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reader of foreign YAML with one error for every failure."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from .optional_imports import optional

if TYPE_CHECKING:
    import yaml
else:
    yaml = optional("yaml")


class NotYaml(ValueError):
    """Text that is not YAML. Safe to print: the message repeats nothing of the text."""


@cache
def loader(kind: str = "Safe") -> Any:
    """Return a loader class for foreign text: PyYAML's ``SafeLoader`` (``kind`` "Safe") or ``BaseLoader`` ("Base"), seven times as fast.

    libyaml scans the text, and Python makes the nodes: libyaml's own loaders end the process on deep nesting, and Python's scanner takes a
    second for five thousand open brackets; here the recursion limit ends both in milliseconds. Python's loader where libyaml is missing.
    """
    fast = getattr(yaml, f"C{kind}Loader", None)
    if not fast:
        return getattr(yaml, f"{kind}Loader")
    composer = yaml.composer.Composer

    def begin(self: Any, stream: Any) -> None:
        fast.__init__(self, stream)
        composer.__init__(self)

    return type(f"{kind}Loader", (composer, fast), {"__init__": begin})


def load_yaml(text: str | bytes) -> Any:
    """Parse one YAML document. The caller bounds the length.

    :raises NotYaml: when ``text`` is not a single valid document.
    """
    try:
        return yaml.load(text, loader())
    except Exception:  # PyYAML's constructors trust explicit tags: "!!int ''" is an IndexError, "!!bool x" a KeyError, and so on
        raise NotYaml("it is not YAML") from None

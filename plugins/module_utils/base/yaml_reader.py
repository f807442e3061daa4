# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reader of foreign YAML with one error for every failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .optional_imports import optional

if TYPE_CHECKING:
    import yaml
else:
    yaml = optional("yaml")


class NotYaml(ValueError):
    """Text that is not YAML. Safe to print: the message repeats nothing of the text."""


def load_yaml(text: str) -> Any:
    """Parse one YAML document. The caller bounds the length.

    :raises NotYaml: when ``text`` is not a single valid document.
    """
    try:
        return yaml.safe_load(text)
    except Exception:  # PyYAML's constructors trust explicit tags: "!!int ''" is an IndexError, "!!bool x" a KeyError, and so on
        raise NotYaml("it is not YAML") from None

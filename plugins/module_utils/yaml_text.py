# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""YAML that others wrote, read with one error for whatever it provokes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .libraries import optional

if TYPE_CHECKING:
    import yaml
else:
    yaml = optional("yaml")


class NotYaml(ValueError):
    """A text is no YAML; safe to print: it repeats nothing of the text."""


def load_yaml(text: str) -> Any:
    """The document. The caller bounds the length. Raises NotYaml."""
    try:
        return yaml.safe_load(text)
    except Exception:  # PyYAML's constructors trust explicit tags: "!!int ''" is an IndexError, "!!bool x" a KeyError, and so on
        raise NotYaml("it is not YAML") from None

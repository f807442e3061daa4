# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of the ConfigMap in which a member keeps the leases of a mesh; ``leases/registry.py`` parses its text."""

from __future__ import annotations

from typing import Any

from ..base.json_fields import labels_of, mapping, text
from ..leases.registry import KEY, LIMIT
from ..mesh.facts.cluster import RegistryFacts
from .ownership import managers


def registry_facts(value: Any) -> RegistryFacts:
    """Return the facts of the ConfigMap, present or missing.

    A text longer than any registry is cut, but stays too long to be valid.
    """
    if value is None:
        return RegistryFacts()
    content = mapping(value, "data").get(KEY)
    return RegistryFacts(
        present=True,
        uid=text(value, "metadata", "uid"),
        resource_version=text(value, "metadata", "resourceVersion"),
        text=content[: LIMIT + 1] if isinstance(content, str) else "",
        managers=managers(value),
        labels=labels_of(value),
    )

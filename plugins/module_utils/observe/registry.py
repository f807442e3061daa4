# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The ConfigMap in which a member keeps the leases of a mesh. What its text means is for ``registry.py`` to say."""

from __future__ import annotations

from typing import Any

from ..facts import RegistryFacts
from ..registry import KEY, LIMIT
from .objects import labels_of, mapping, text
from .ownership import managers


def registry_facts(value: Any) -> RegistryFacts:
    """The ConfigMap, or that there is none. A text longer than any registry is kept only so far that it is seen to be too long."""
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

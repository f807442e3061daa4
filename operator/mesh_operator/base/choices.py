# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Choices of the platform for all runs, and which choices of a ClusterMeshBinding it leaves to tenants. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

TENANT_CHOICES: Final = ("accept", "adopt", "nodeAddresses", "repair", "takeBack", "trust")
"""Fields of a spec by which a tenant chooses what else the option of a playbook says. ``accept=CODE`` is one finding of ``accept``."""

LEFT_TO_TENANTS: Final = tuple(name for name in TENANT_CHOICES if name != "adopt")
"""What is permitted without a flag. What another tool made may be the platform's, and is taken over only where that permits it."""


@dataclass(frozen=True, kw_only=True)
class PlatformChoices:
    """Choices of the platform that runs the operator. A tenant overrides none of them, but for the image that an intent names itself."""

    job_probes: bool = True  # runs may make Jobs that probe intents
    probe_image: str = ""  # as the variable cilium_mesh_probe_image
    assign_identities: bool = False  # as the variable cilium_mesh_assign_identities
    permitted: tuple[str, ...] = LEFT_TO_TENANTS  # of TENANT_CHOICES, or accept=CODE


DEFAULT: Final = PlatformChoices()


def refused_choices(spec: Mapping[str, Any], permitted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the choices of a binding that the platform does not permit, as ``--permit`` names them."""
    return tuple(dict.fromkeys(name for name in _chosen(spec) if name not in permitted and name.partition("=")[0] not in permitted))


def _chosen(spec: Mapping[str, Any]) -> Iterator[str]:
    for name in TENANT_CHOICES:
        if name == "accept":
            yield from (f"accept={entry['code']}" for entry in spec.get(name) or ())
        elif spec.get(name):
            yield name

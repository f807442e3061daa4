# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The annotations of a global Service: which there are, and what Cilium makes of them (pkg/annotation/clustermesh.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..items.models import GlobalService
from .choice import FAILED_OVER_ANNOTATION, Choice

GLOBAL: Final = "service.cilium.io/global"
SHARED: Final = "service.cilium.io/shared"
AFFINITY: Final = "service.cilium.io/affinity"
SYNC: Final = "service.cilium.io/global-sync-endpoint-slices"

ALIASES: Final[Mapping[str, str]] = {
    GLOBAL: "io.cilium/global-service",
    SHARED: "io.cilium/shared-service",
    AFFINITY: "io.cilium/service-affinity",
}
"""The older key of each. It counts only where the newer one is absent, whatever that says (annotation.Get)."""

NEWER: Final[Mapping[str, str]] = {alias: key for key, alias in ALIASES.items()}

MANAGED: Final = (GLOBAL, SHARED, AFFINITY, SYNC, *ALIASES.values(), FAILED_OVER_ANNOTATION)
"""Every key that is ever written or removed on a Service of somebody else, beside the record of it."""

BOOLEANS: Final = ("true", "false")
ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {SHARED: BOOLEANS, AFFINITY: ("none", "local", "remote"), SYNC: BOOLEANS}
"""What ``globalAnnotations`` may hold, with the values that Cilium knows."""


def wanted_annotations(service: GlobalService, choice: Choice | None = None) -> dict[str, str]:
    """What the item asks for on a Service. ``choice``: what failover decided in its cluster; where that says None, the spec counts.

    A key that the spec does not speak of is not in it: what stands there is left as it is.
    """
    wanted = {GLOBAL: "true", **service.annotations, **(choice.annotations if choice else {})}
    shared = choice.shared if choice and choice.shared is not None else service.shared
    affinity = choice.affinity if choice and choice.affinity is not None else service.affinity
    if shared is not None:
        wanted[SHARED] = str(shared).lower()
    if affinity is not None:
        wanted[AFFINITY] = affinity.lower()
    return wanted


def value_of(annotations: Mapping[str, str], key: str) -> str | None:
    """The value that Cilium sees, in lower case: of the key itself, else of its alias; None for neither."""
    value = annotations.get(key)
    if value is None and key in ALIASES:
        value = annotations.get(ALIASES[key])
    return None if value is None else value.lower()


def is_global(annotations: Mapping[str, str]) -> bool:
    """Does the Service use backends of other clusters, and may it export its own?"""
    return value_of(annotations, GLOBAL) == "true"


def is_shared(annotations: Mapping[str, str]) -> bool:
    """Does the Service export its backends? A global one does unless told otherwise."""
    return is_global(annotations) and value_of(annotations, SHARED) in (None, "true")


def affinity_of(annotations: Mapping[str, str]) -> str:
    """``Local``, ``Remote`` or ``None``; a value that Cilium does not know is None to it."""
    value = value_of(annotations, AFFINITY) if is_global(annotations) else None
    return {"local": "Local", "remote": "Remote"}.get(value or "", "None")


def syncs_slices(annotations: Mapping[str, str], *, headless: bool) -> bool:
    """Are EndpointSlices of other clusters asked for? Here the alias of "global" does not count (endpointslicesync/service_informer.go)."""
    if annotations.get(GLOBAL, "").lower() != "true":
        return False
    asked = annotations.get(SYNC)
    return headless if asked is None else asked.lower() == "true"

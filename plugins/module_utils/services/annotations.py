# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Annotations of a global Service, and how Cilium reads them (pkg/annotation/clustermesh.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ..items.labels import valid_key
from ..items.models import GlobalService
from ..mesh.binding.model import MANAGER_DOMAIN

GLOBAL: Final = "service.cilium.io/global"
SHARED: Final = "service.cilium.io/shared"
AFFINITY: Final = "service.cilium.io/affinity"
SYNC: Final = "service.cilium.io/global-sync-endpoint-slices"
FAILED_OVER_ANNOTATION: Final = f"{MANAGER_DOMAIN}/failed-over"
"""On a Service: ``true`` while its cluster has failed over; absent otherwise."""

ALIASES: Final[Mapping[str, str]] = {
    GLOBAL: "io.cilium/global-service",
    SHARED: "io.cilium/shared-service",
    AFFINITY: "io.cilium/service-affinity",
}
"""Older key of each annotation. It counts only where the newer key is absent, whatever its value (annotation.Get)."""

NEWER: Final[Mapping[str, str]] = {alias: key for key, alias in ALIASES.items()}

MANAGED: Final = (GLOBAL, SHARED, AFFINITY, SYNC, *ALIASES.values(), FAILED_OVER_ANNOTATION)
"""Every key that is ever written or removed on a Service of another owner, beside the record of it."""

BOOLEANS: Final = ("true", "false")
ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {SHARED: BOOLEANS, AFFINITY: ("none", "local", "remote"), SYNC: BOOLEANS}
"""Keys that ``globalAnnotations`` may hold without a permission, with the values that Cilium knows."""


def can_be_permitted(key: str) -> bool:
    """Return whether a platform can permit the annotation for Services of its cluster (host variable ``cilium_mesh_allowed_annotations``).

    The annotations of this project are no values of users: the record of a binding says what a run writes back.
    """
    domain = key.rpartition("/")[0]
    return valid_key(key) and bool(domain) and domain != MANAGER_DOMAIN and not domain.endswith(f".{MANAGER_DOMAIN}")


def written_keys(permitted: Iterable[str]) -> tuple[str, ...]:
    """Return every annotation that is ever written or removed on a Service, beside the record, in a cluster with these permissions."""
    return (*MANAGED, *sorted({key for key in permitted if can_be_permitted(key)} - set(MANAGED)))


def says(annotations: Mapping[str, str], key: str, value: str) -> bool:
    """Return whether the annotation has the value, for its reader: Cilium compares its own without case."""
    found = annotations.get(key)
    return found is not None and (found.lower() if key in MANAGED else found) == value


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Values that a Service gets in one cluster.

    ``decide`` always sets ``shared`` and ``affinity`` (of ``items.models.AFFINITIES``): a contract relies on both, whatever the
    Service's owner wrote. ``reason`` is one sentence. ``failed_over`` is kept by ``annotations``.
    """

    shared: bool | None
    affinity: str | None
    reason: str
    failed_over: bool = False

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the contract itself, to be written beside Cilium's."""
        return {FAILED_OVER_ANNOTATION: "true"} if self.failed_over else {}


def wanted_annotations(service: GlobalService, choice: Choice | None = None) -> dict[str, str]:
    """Return the annotations that the item asks for on a Service.

    Those that need a permission (``GlobalService.further``) are among them. ``choice`` is the decision of failover in its cluster; where it
    has None, the spec counts. A key that the spec does not mention is
    absent: its value is left as it is.
    """
    wanted = {**service.further, GLOBAL: "true", **service.annotations, **(choice.annotations if choice else {})}
    shared = choice.shared if choice and choice.shared is not None else service.shared
    affinity = choice.affinity if choice and choice.affinity is not None else service.affinity
    if shared is not None:
        wanted[SHARED] = str(shared).lower()
    if affinity is not None:
        wanted[AFFINITY] = affinity.lower()
    return wanted


def value_of(annotations: Mapping[str, str], key: str) -> str | None:
    """Return the value that Cilium reads, in lower case: of the key itself, else of its alias; None for neither."""
    value = annotations.get(key)
    if value is None and key in ALIASES:
        value = annotations.get(ALIASES[key])
    return None if value is None else value.lower()


def is_global(annotations: Mapping[str, str]) -> bool:
    """Return whether the Service uses backends of other clusters and may export its own."""
    return value_of(annotations, GLOBAL) == "true"


def is_shared(annotations: Mapping[str, str]) -> bool:
    """Return whether the Service exports its backends. A global one does unless its annotation says otherwise."""
    return is_global(annotations) and value_of(annotations, SHARED) in (None, "true")


def affinity_of(annotations: Mapping[str, str]) -> str:
    """Return ``Local``, ``Remote`` or ``None``. Cilium reads an unknown value as None."""
    value = value_of(annotations, AFFINITY) if is_global(annotations) else None
    return {"local": "Local", "remote": "Remote"}.get(value or "", "None")


def syncs_slices(annotations: Mapping[str, str], *, headless: bool) -> bool:
    """Return whether the annotations ask for EndpointSlices of other clusters.

    The alias of "global" does not count here (endpointslicesync/service_informer.go).
    """
    if annotations.get(GLOBAL, "").lower() != "true":
        return False
    asked = annotations.get(SYNC)
    return headless if asked is None else asked.lower() == "true"

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kinds of items with what is known of each, and the reference to one item in findings, steps, statuses and on its objects.

Data of a kind stands in its row here, and its functions in that of reconcile/kinds.py: engine, screens and operator read both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from ...base.input_problems import SUBDOMAIN


class ItemKind(StrEnum):
    """Kind of an item. The value is the key of its list in the variable ``cilium_mesh`` and in ``mesh_result.status``."""

    GLOBAL_SERVICE = "globalServices"
    INTENT = "connectivityIntents"
    EXPOSURE = "exposedServices"

    @property
    def crd(self) -> str:
        """Kind of the custom resource."""
        return _TRAITS[self].crd

    @property
    def going_on(self) -> str:
        """Phase while what it asks for is on its way."""
        return _TRAITS[self].going_on

    @property
    def good(self) -> str:
        """Phase when it is as asked."""
        return _TRAITS[self].good

    @property
    def reads(self) -> frozenset[str]:
        """Lists that planning it needs, besides the namespaces: names of observe/traffic.py."""
        return _TRAITS[self].reads

    @property
    def by_age(self) -> bool:
        """Whether the item that was made first wins; then planning takes ``createdAt``, which only the API server says."""
        return _TRAITS[self].by_age

    @property
    def waves(self) -> tuple[int, int]:
        """Waves of its writes and of its deletions (items/planned.py); (0, 0) where those follow from what it writes."""
        return _TRAITS[self].waves


@dataclass(frozen=True, kw_only=True)
class _Traits:
    """Data of one kind, as the properties of ItemKind say."""

    crd: str
    going_on: str
    good: str
    reads: frozenset[str]
    by_age: bool = False
    waves: tuple[int, int] = (0, 0)


_SERVICES: Final = frozenset({"services", "endpointslices"})
_POLICIES: Final = frozenset({"ciliumnetworkpolicies", "ciliumclusterwidenetworkpolicies"})

_TRAITS: Final = {
    ItemKind.GLOBAL_SERVICE: _Traits(
        crd="GlobalService",
        going_on="Exporting",
        good="Exported",
        reads=_SERVICES | {"serviceexports", "serviceimports"},
        waves=(13, 21),
    ),
    ItemKind.INTENT: _Traits(
        crd="ConnectivityIntent", going_on="Applying", good="Applied", reads=_POLICIES | {"networkpolicies", "pods", "hostpods"}
    ),
    ItemKind.EXPOSURE: _Traits(
        crd="ExposedService",
        going_on="Exposing",
        good="Exposed",
        reads=_SERVICES | _POLICIES | {"gateways", "gatewayclasses", "httproutes"},
        by_age=True,
        waves=(16, 17),
    ),
}


class ItemRef(NamedTuple):
    """Reference to one item of the mesh."""

    kind: ItemKind
    name: str  # metadata name

    def __str__(self) -> str:
        return f"{self.kind.value}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> ItemRef | None:
        """Parse ``globalServices/nginx``; None for anything else, since the text may stand on a tenant's object."""
        word, _sep, name = text.partition("/")
        kind = _BY_WORD.get(word)
        return cls(kind, name) if kind and SUBDOMAIN.fullmatch(name) else None


_BY_WORD: Final = {kind.value: kind for kind in ItemKind}

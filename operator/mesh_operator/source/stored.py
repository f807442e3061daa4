# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Objects as the store knows them: one, those of one mesh, and those of the fleet side of one namespace. Values that are not changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.keys import MeshKey, ObjectKey

Object = dict[str, Any]


@dataclass(frozen=True)
class Stored:
    """Object (not to be changed), and the URL that showed it last. ``missing_since`` is monotonic seconds; None while it is there."""

    key: ObjectKey
    obj: Object
    url: str
    missing_since: float | None = None
    beyond: str = ""  # the bound beyond which it is (bounds.py), in words

    @property
    def deleting(self) -> bool:
        """Whether its deletion is requested."""
        return bool((self.obj.get("metadata") or {}).get("deletionTimestamp"))

    @property
    def gone(self) -> bool:
        """Whether its deletion was requested and it has vanished since: missing alone would not mean that it is deleted."""
        return self.deleting and self.missing_since is not None

    @property
    def uid(self) -> str:
        """Its uid; "" if it has none."""
        return str((self.obj.get("metadata") or {}).get("uid") or "")


@dataclass(frozen=True, kw_only=True)
class MeshObjects:
    """All known objects of one mesh. ``items`` by kind, sorted by name; missing ones are included: see Stored.

    ``listed``: every kind was listed before this was put together, at the URL that has the binding, and what that has not at all others; at
    all URLs if none has it. If not, what is not in here may well exist.
    """

    key: MeshKey
    listed: bool
    binding: Stored | None
    unserved: frozenset[str] = frozenset()  # kinds that the URL with the binding does not serve: of their items nothing is known
    items: Mapping[str, tuple[Stored, ...]] = field(default_factory=dict)
    beyond: tuple[Stored, ...] = ()  # binding and items beyond the bounds of the workspace; no such item is in ``items``
    clusters: Mapping[str, Stored] = field(default_factory=dict)  # KubernetesClusters of the workspace's namespace, by name
    ignored: bool = False  # all is listed, and there is far more in the workspace than is kept: it is not ``listed`` then


@dataclass(frozen=True, kw_only=True)
class TenantObjects:
    """All known objects of the fleet side of one namespace, sorted by kind and name; missing ones are included: see Stored.

    ``listed``: everything was listed at all URLs before this was put together, and those that have an object of it serve every kind.
    """

    workspace: str
    namespace: str
    listed: bool
    objects: tuple[Stored, ...] = ()
    ignored: bool = False  # as MeshObjects.ignored

    def of(self, kind: str) -> tuple[Stored, ...]:
        """Return those of a kind."""
        return tuple(stored for stored in self.objects if stored.key.kind == kind)

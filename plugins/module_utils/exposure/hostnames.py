# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Ownership of hostnames: the oldest claim wins. A name on an object in a cluster beats one that an item only requests.

Among objects the time counts at which the API server created them, whichever binding they belong to. Among items without objects it
is ``createdAt``, and then the order in the file. The result does not name the owner to the item that loses: it may be another tenant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..items.desired import Desired
from ..items.models import ExposedService
from ..items.owned import owning_item
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.facts.traffic import ObjectFacts
from .names import CLAIM_ANNOTATION, DNS_ANNOTATION

_HOLDS: Final = 0
_ASKS: Final = 1
_NO_TIME: Final = "~"  # after every time


class HostnameRequest(NamedTuple):
    """A claim to a hostname. Requests sort by age; the first has the name."""

    kind: int  # an object holds the name, or an item asks for it
    time: str  # RFC 3339 in UTC
    order: int  # in the file
    who: str


@dataclass(frozen=True, kw_only=True)
class HostnameRequests:
    """Requests for hostnames in the whole mesh: the oldest one of each hostname. Built once per plan."""

    oldest: Mapping[str, HostnameRequest]

    @classmethod
    def of(cls, desired: Desired, scene: Scene) -> HostnameRequests:
        """Collect the requests of items, and the hostnames that objects of the scene hold already."""
        requesting = {str(item.ref): item for item in desired.each(ExposedService) if _wants(item)}
        refused = {str(entry.ref) for entry in desired.refused}
        found: dict[str, list[HostnameRequest]] = {}
        held: set[tuple[str, str]] = set()
        for name, who, observed in _holders(scene):
            gives_up = who in requesting and requesting[who].hostname != name
            if who and (gives_up or (who not in requesting and who not in refused)):
                continue  # an item of this binding that this plan removes, or that gets another hostname
            held.add((who, name))
            found.setdefault(name, []).append(HostnameRequest(_HOLDS, observed.created or _NO_TIME, 0, who or f"uid {observed.uid}"))
        for order, (who, item) in enumerate(requesting.items()):
            if (who, item.hostname) not in held:
                found.setdefault(item.hostname, []).append(HostnameRequest(_ASKS, item.created or _NO_TIME, order, who))
        return cls(oldest={name: min(claims) for name, claims in found.items()})

    def has(self, item: ExposedService) -> bool:
        """Return whether ``item`` may use its hostname."""
        return not _wants(item) or self.oldest[item.hostname].who == str(item.ref)


def _wants(item: ExposedService) -> bool:
    """Return whether the item needs its name. One without source ranges exposes nothing, and so needs none."""
    return bool(item.hostname and item.source_ranges)


def _holders(scene: Scene) -> Iterator[tuple[str, str, ObjectFacts]]:
    """Yield (name, our item as text or "", object) for every name on an object of any member."""
    for host in scene.hosts:
        for observed in scene.traffic[host].owned:
            names = frozenset(_names_on(observed))
            if names:
                ref = owning_item(scene.binding, observed)
                who = _text(ref)
                yield from ((name, who, observed) for name in sorted(names))


def _text(ref: ItemRef | None) -> str:
    return str(ref) if ref is not None and ref.kind is ItemKind.EXPOSURE else ""


def _names_on(observed: ObjectFacts) -> Iterator[str]:
    for key in (DNS_ANNOTATION, CLAIM_ANNOTATION):
        yield from filter(None, map(_canonical, observed.annotations.get(key, "").split(",")))
    if observed.kind == "Gateway":
        yield from filter(None, (_canonical(row.get("hostname")) for row in _rows(observed.spec.get("listeners"))))
    elif observed.kind.endswith("Route"):
        hostnames = observed.spec.get("hostnames")
        yield from filter(None, map(_canonical, hostnames if isinstance(hostnames, (list, tuple)) else ()))


def _rows(value: Any) -> Iterable[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, (list, tuple)) else []


def _canonical(text: Any) -> str:
    return text.strip().lower().removesuffix(".") if isinstance(text, str) else ""

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The Services of a scene, sorted once for all items: those that can be selected, and those that this binding marked or made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ..items.facts import Key, ObjectFacts
from ..items.kinds import ItemKind
from ..items.owned import item_of
from ..items.scene import Scene
from ..model import Binding
from .record import Record, read_record, record_key


class Held(NamedTuple):
    """A Service of somebody else that bears a record of this binding."""

    host: str
    service: ObjectFacts
    record: Record


class Made(NamedTuple):
    """An object of ours: a stub Service, or a ServiceExport."""

    host: str
    object: ObjectFacts


@dataclass(frozen=True, kw_only=True)
class Index:
    """By item as text (``globalServices/nginx``), or by host and namespace."""

    candidates: Mapping[tuple[str, str], tuple[ObjectFacts, ...]] = field(default_factory=dict)
    held: Mapping[str, tuple[Held, ...]] = field(default_factory=dict)
    stubs: Mapping[str, tuple[Made, ...]] = field(default_factory=dict)
    exports: Mapping[str, tuple[Made, ...]] = field(default_factory=dict)
    taken: tuple[Made, ...] = ()  # stubs that somebody gave a selector
    unreadable: tuple[Made, ...] = ()  # Services whose record cannot be read

    def named(self, host: str, key: Key) -> ObjectFacts | None:
        return self._by_name.get((host, *key))

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str, str], ObjectFacts]:
        return {(host, *entry.key): entry for (host, _namespace), entries in self.candidates.items() for entry in entries}


def index_of(scene: Scene) -> Index:
    """One pass over every Service and ServiceExport of the scene."""
    candidates: dict[tuple[str, str], list[ObjectFacts]] = {}
    held: dict[str, list[Held]] = {}
    stubs: dict[str, list[Made]] = {}
    exports: dict[str, list[Made]] = {}
    taken: list[Made] = []
    unreadable: list[Made] = []
    mark = record_key(scene.binding)
    for host in scene.hosts:
        for service in scene.traffic[host].services.values():
            stub_of = stub_item(scene.binding, service)
            if stub_of and not service.spec.get("selector"):
                stubs.setdefault(stub_of, []).append(Made(host, service))
                continue
            if stub_of:
                taken.append(Made(host, service))
            if not stub_of and not selectable(scene.binding, service):
                continue
            candidates.setdefault((host, service.namespace), []).append(service)
            if mark in service.annotations:
                record = read_record(service.annotations[mark])
                if record is None:
                    unreadable.append(Made(host, service))
                else:
                    held.setdefault(record.item, []).append(Held(host, service, record))
        for export in scene.traffic[host].exports.values():
            if (ref := item_of(scene.binding, export)) is not None:
                exports.setdefault(str(ref), []).append(Made(host, export))
    return Index(
        candidates={place: tuple(entries) for place, entries in candidates.items()},
        held={item: tuple(entries) for item, entries in held.items()},
        stubs={item: tuple(entries) for item, entries in stubs.items()},
        exports={item: tuple(entries) for item, entries in exports.items()},
        taken=tuple(taken),
        unreadable=tuple(unreadable),
    )


def stub_item(binding: Binding, service: ObjectFacts) -> str:
    """The GlobalService that the Service was made for as a stub; "" for any other."""
    ref = item_of(binding, service)
    return str(ref) if ref is not None and ref.kind is ItemKind.GLOBAL_SERVICE else ""


def selectable(binding: Binding, service: ObjectFacts) -> bool:
    """Not what an item made, and not what Cilium derives from a ServiceImport, with its labels (mcsapi/service_controller.go)."""
    return item_of(binding, service) is None and service.owner_kind != "ServiceImport"

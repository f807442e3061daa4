# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Index of the Services of a scene, made once for all items: those that can be selected, and those with a record or owner of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ..items.owned import owning_item
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind
from ..mesh.binding.model import Binding
from ..mesh.facts.traffic import Key, ObjectFacts
from .record import ServiceRecord, read_record, record_key


class RecordedService(NamedTuple):
    """A Service of another owner that has a record of this binding."""

    host: str
    service: ObjectFacts
    record: ServiceRecord


class OwnedObject(NamedTuple):
    """An object of this binding: a stub Service, or a ServiceExport."""

    host: str
    object: ObjectFacts


@dataclass(frozen=True, kw_only=True)
class Index:
    """Services and exports of a scene by item as text (``globalServices/nginx``), or by host and namespace."""

    candidates: Mapping[tuple[str, str], tuple[ObjectFacts, ...]] = field(default_factory=dict)
    held: Mapping[str, tuple[RecordedService, ...]] = field(default_factory=dict)
    stubs: Mapping[str, tuple[OwnedObject, ...]] = field(default_factory=dict)
    exports: Mapping[str, tuple[OwnedObject, ...]] = field(default_factory=dict)
    taken: tuple[OwnedObject, ...] = ()  # stubs to which another writer gave a selector
    unreadable: tuple[OwnedObject, ...] = ()  # Services whose record cannot be read

    def named(self, host: str, key: Key) -> ObjectFacts | None:
        """Return the Service of that name in the cluster; None if there is none that can be selected."""
        return self._by_name.get((host, *key))

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str, str], ObjectFacts]:
        return {(host, *entry.key): entry for (host, _namespace), entries in self.candidates.items() for entry in entries}


def index_of(scene: Scene) -> Index:
    """Index every Service and ServiceExport of the scene in one pass."""
    candidates: dict[tuple[str, str], list[ObjectFacts]] = {}
    held: dict[str, list[RecordedService]] = {}
    stubs: dict[str, list[OwnedObject]] = {}
    exports: dict[str, list[OwnedObject]] = {}
    taken: list[OwnedObject] = []
    unreadable: list[OwnedObject] = []
    mark = record_key(scene.binding)
    for host in scene.hosts:
        for service in scene.traffic[host].services.values():
            stub_of = stub_item(scene.binding, service)
            if stub_of and not service.spec.get("selector"):
                stubs.setdefault(stub_of, []).append(OwnedObject(host, service))
                continue
            if stub_of:
                taken.append(OwnedObject(host, service))
            if not stub_of and not selectable(scene.binding, service):
                continue
            candidates.setdefault((host, service.namespace), []).append(service)
            if mark in service.annotations:
                record = read_record(service.annotations[mark], scene.facts[host].allowed_annotations)
                if record is None:
                    unreadable.append(OwnedObject(host, service))
                else:
                    held.setdefault(record.item, []).append(RecordedService(host, service, record))
        for export in scene.traffic[host].exports.values():
            if (ref := owning_item(scene.binding, export)) is not None:
                exports.setdefault(str(ref), []).append(OwnedObject(host, export))
    return Index(
        candidates={place: tuple(entries) for place, entries in candidates.items()},
        held={item: tuple(entries) for item, entries in held.items()},
        stubs={item: tuple(entries) for item, entries in stubs.items()},
        exports={item: tuple(entries) for item, entries in exports.items()},
        taken=tuple(taken),
        unreadable=tuple(unreadable),
    )


def stub_item(binding: Binding, service: ObjectFacts) -> str:
    """Return the GlobalService whose stub the Service is; "" for any other Service."""
    ref = owning_item(binding, service)
    return str(ref) if ref is not None and ref.kind is ItemKind.GLOBAL_SERVICE else ""


def selectable(binding: Binding, service: ObjectFacts) -> bool:
    """Return whether items may select the Service.

    They may not select an item's own object, nor a Service that Cilium derives from a ServiceImport, with its labels
    (mcsapi/service_controller.go).
    """
    return owning_item(binding, service) is None and service.owner_kind != "ServiceImport"

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about the annotations, records and stubs of global services. viability_findings.py has those about Cilium's part."""

from __future__ import annotations

from collections.abc import Iterable

from ..findings.finding import Finding
from ..findings.wording import command, item_finding, lines, listed, show
from ..items.models import GlobalService
from ..items.owned import ITEM_ANNOTATION
from ..items.scene import Scene
from ..items.system import protected_service
from ..mesh.binding.item_kinds import ItemRef
from ..mesh.facts.traffic import Key, ObjectFacts
from ..mesh.ownership.marks import MANAGED_BY_LABEL, OWNER_LABEL
from .decisions import Decisions
from .index import OwnedObject
from .record import Foreign, ServiceWrites, record_key


def key_text(key: Key) -> str:
    """Return the key as ``namespace/name``."""
    return f"{key[0]}/{key[1]}"


def system_findings(item: GlobalService, decided: Decisions) -> list[Finding]:
    """Return findings for selected Services that items may not own.

    They concern every target, also those without the Service.
    """
    found: dict[tuple[Key, str], list[str]] = {}
    for key in decided.assignment.won[item.name]:
        for host in decided.scene.hosts:
            service = decided.index.named(host, key)
            selector = (service.spec.get("selector") or {}) if service else {}
            why = protected_service(key, selector, decided.scene.facts[host])
            if why and host in item.targets:
                found.setdefault((key, why), []).append(host)
    return [
        item_finding(
            item.ref,
            "CM-GS-22",
            hosts,
            summary=f"{listed(hosts)}: Service {key_text(key)} is {why}; it is not made global",
            evidence=f"GlobalService {item.name} selects it by {'name' if item.selector.name else 'its labels'}.",
            fix="Select another Service; where labels select it, name one more label that it does not have.",
        )
        for (key, why), hosts in found.items()
    ]


def changed_findings(item: GlobalService, host: str, service: ObjectFacts, change: ServiceWrites) -> list[Finding]:
    """Return findings about annotations of this item that another writer changed.

    They are written again where the item still asks for them.
    """
    found = []
    again = [entry for entry in change.foreign if entry.key in change.patch]
    if again:
        found.append(
            item_finding(
                item.ref,
                "CM-GS-04",
                [host],
                summary=f"Service {key_text(service.key)}: another writer changed {listed(entry.key for entry in again)} after this "
                "mesh had set it",
                evidence=f"{_values(again)}. This run sets it again, and keeps the value that it found as the earlier value.",
                fix="If that value is intended, put it into the GlobalService. If a GitOps tool sets it each time, configure the "
                "tool to ignore the key.",
            )
        )
    if change.unreadable:
        found.append(
            _unreadable(item.ref, host, service.key, "This run writes it again; the values that the Service had before are not known.")
        )
    return found


def left_findings(ref: ItemRef, host: str, service: ObjectFacts, change: ServiceWrites) -> list[Finding]:
    """Return findings about annotations that are not restored, because another writer changed them after this binding."""
    if not change.foreign:
        return []
    return [
        item_finding(
            ref,
            "CM-GS-04",
            [host],
            summary=f"Service {key_text(service.key)}: {listed(entry.key for entry in change.foreign)} was changed by another writer "
            "and stays as it is",
            evidence=f"{_values(change.foreign)}. Everything else is as it was before the item.",
            fix="Remove the annotation if it is not needed.",
        )
    ]


def unreadable_findings(entries: Iterable[OwnedObject], scene: Scene) -> list[Finding]:
    """Return findings about records whose item is unknown."""
    remark = "It may belong to an item that no longer exists: what the item set stays on the Service."
    return [_unreadable(None, entry.host, entry.object.key, remark, record_key(scene.binding)) for entry in entries]


def stub_findings(item: GlobalService, decided: Decisions) -> list[Finding]:
    """Return findings about stubs that another writer took over, and stubs without an original."""
    found = []
    for host, service in decided.index.taken:
        if service.annotations.get(ITEM_ANNOTATION) != str(item.ref):
            continue
        keys = (f"{OWNER_LABEL}-", f"{MANAGED_BY_LABEL}-")
        marks = command("kubectl", "label", "--namespace", service.namespace, "service", service.name, *keys)
        found.append(
            item_finding(
                item.ref,
                "CM-GS-20",
                [host],
                summary=f"Service {key_text(service.key)} was made here as a stub, and another writer gave it a selector; this mesh no "
                "longer owns it",
                evidence="This mesh neither changes nor deletes it any more. It still has shared false: its own backends are not exported.",
                fix=lines(f"Take this mesh's marks off: {marks}", "Remove service.cilium.io/shared, or set it to the intended value."),
            )
        )
    idle = sorted(
        {f"{host}: {key_text(key)}" for (host, key), stub in decided.stubs.items() if stub.item == item.name and stub.body is None}
    )
    if idle:
        found.append(
            item_finding(
                item.ref,
                "CM-GS-21",
                sorted({place[0] for place, stub in decided.stubs.items() if stub.item == item.name and stub.body is None}),
                summary=f"GlobalService {item.name}: no cluster that answers exports the Service from which its stubs were made; "
                "the stubs stay",
                evidence=f"{listed(idle)}. A name that clients use stays while its backends are missing.",
                fix="Deploy the Service in a target cluster again, or set createMissingServices to false.",
            )
        )
    return found


def _values(entries: Iterable[Foreign]) -> str:
    return "; ".join(f"{entry.key}: was set to {_value(entry.written)}, found {_value(entry.found)}" for entry in entries)


def _value(value: str | None) -> str:
    return "nothing" if value is None else show(value)


def _unreadable(ref: ItemRef | None, host: str, key: Key, remark: str, mark: str = "") -> Finding:
    return item_finding(
        ref,
        "CM-GS-05",
        [host],
        summary=f"Service {key_text(key)}: the record of the values that the Service had before this mesh cannot be read",
        evidence=f"Another writer changed the annotation. {remark}",
        fix=f"Set the annotations of the Service to the intended values, then: {_remove(key, mark)}" if mark else "Nothing has to be done.",
    )


def _remove(key: Key, mark: str) -> str:
    return command("kubectl", "annotate", "--namespace", key[0], "service", key[1], f"{mark}-")

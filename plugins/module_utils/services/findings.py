# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What has to be said about the annotations, records and stubs of global services. What Cilium makes of them: truth.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..checks.wording import command, lines, listed, printable, show
from ..findings import Finding, Severity
from ..items.facts import Key, ObjectFacts
from ..items.kinds import ItemKind, ItemRef
from ..items.models import GlobalService
from ..items.owned import ITEM_ANNOTATION
from ..items.scene import Scene
from ..items.system import why_not_for_items
from ..steps import MANAGED_BY_LABEL, OWNER_LABEL
from .codes import CHANGED, NO_ORIGINAL, OF_THE_SYSTEM, RECORD, STUB_TAKEN
from .decisions import Decisions, ref_of
from .index import Made
from .record import Change, Foreign, record_key

_LONGEST = 2000


def service_finding(
    item: GlobalService | ItemRef, code: str, severity: Severity, hosts: Sequence[str], *, summary: str, evidence: str = "", fix: str = ""
) -> Finding:
    """One finding about one or several clusters; the first is its cluster."""
    return Finding(
        code=code,
        severity=severity,
        cluster=hosts[0] if hosts else "",
        others=tuple(hosts[1:]),
        item=str(item if isinstance(item, ItemRef) else ref_of(item)),
        summary=printable(summary),
        evidence=printable(evidence)[:_LONGEST],
        fix=fix,
    )


def shown(key: Key) -> str:
    return f"{key[0]}/{key[1]}"


def system_findings(item: GlobalService, decided: Decisions) -> list[Finding]:
    """Services that the item selects and that are not for items; in every target, also where there is none yet."""
    found: dict[tuple[Key, str], list[str]] = {}
    for key in decided.claims.won[item.name]:
        for host in decided.scene.hosts:
            service = decided.index.named(host, key)
            selector = (service.spec.get("selector") or {}) if service else {}
            why = why_not_for_items(key, selector, decided.scene.facts[host])
            if why and host in item.targets:
                found.setdefault((key, why), []).append(host)
    return [
        service_finding(
            item,
            OF_THE_SYSTEM,
            Severity.BLOCKING,
            hosts,
            summary=f"{listed(hosts)}: Service {shown(key)} is {why}; it is not made global",
            evidence=f"GlobalService {item.name} selects it by {'name' if item.selector.name else 'its labels'}.",
            fix="Select another Service; where labels select it, name one more label that it does not have.",
        )
        for (key, why), hosts in found.items()
    ]


def changed_findings(item: GlobalService, host: str, service: ObjectFacts, change: Change) -> list[Finding]:
    """Somebody wrote over what this item had written; it is written again where the item still asks for it."""
    found = []
    again = [entry for entry in change.foreign if entry.key in change.patch]
    if again:
        found.append(
            service_finding(
                item,
                CHANGED,
                Severity.ADVISORY,
                [host],
                summary=f"Service {shown(service.key)}: somebody changed {listed(entry.key for entry in again)} after this mesh had set it",
                evidence=f"{_values(again)}. It is set again; what was found is kept as the earlier value.",
                fix="If that value is meant, put it into the GlobalService. If a GitOps tool sets it each time, let it ignore the key.",
            )
        )
    if change.unreadable:
        found.append(_unreadable(ref_of(item), host, service.key, "It is written anew; what stood on the Service before is not known."))
    return found


def left_findings(ref: ItemRef, host: str, service: ObjectFacts, change: Change) -> list[Finding]:
    """On the way back: what somebody changed after us is his, and stays."""
    if not change.foreign:
        return []
    return [
        service_finding(
            ref,
            CHANGED,
            Severity.ADVISORY,
            [host],
            summary=f"Service {shown(service.key)}: {listed(entry.key for entry in change.foreign)} was changed by somebody and is left",
            evidence=f"{_values(change.foreign)}. Everything else is as it was before the item.",
            fix="Remove the annotation if nobody needs it.",
        )
    ]


def unreadable_findings(entries: Iterable[Made], scene: Scene) -> list[Finding]:
    """Records of which nobody can say any more what item they are of."""
    remark = "It may be of an item that is no more: what it set is left on the Service."
    return [_unreadable(None, entry.host, entry.object.key, remark, record_key(scene.binding)) for entry in entries]


def stub_findings(item: GlobalService, decided: Decisions) -> list[Finding]:
    found = []
    for host, service in decided.index.taken:
        if service.annotations.get(ITEM_ANNOTATION) != str(ref_of(item)):
            continue
        keys = (f"{OWNER_LABEL}-", f"{MANAGED_BY_LABEL}-")
        marks = command("kubectl", "label", "--namespace", service.namespace, "service", service.name, *keys)
        found.append(
            service_finding(
                item,
                STUB_TAKEN,
                Severity.ADVISORY,
                [host],
                summary=f"Service {shown(service.key)} was made here as a stub, and somebody gave it a selector; it is his now",
                evidence="It is neither changed nor deleted any more. It still says shared false: its own backends are not exported.",
                fix=lines(f"Take this mesh's marks off: {marks}", "Remove or set service.cilium.io/shared as it is meant."),
            )
        )
    idle = sorted({f"{host}: {shown(key)}" for (host, key), stub in decided.stubs.items() if stub.item == item.name and stub.body is None})
    if idle:
        found.append(
            service_finding(
                item,
                NO_ORIGINAL,
                Severity.ADVISORY,
                sorted({place[0] for place, stub in decided.stubs.items() if stub.item == item.name and stub.body is None}),
                summary=f"GlobalService {item.name}: no cluster that answers exports the Service that its stubs were made like; they stay",
                evidence=f"{listed(idle)}. A name that clients use is not taken away because its backends are gone for the moment.",
                fix="Deploy the Service in a target cluster again, or set createMissingServices to false.",
            )
        )
    return found


def _values(entries: Iterable[Foreign]) -> str:
    return "; ".join(f"{entry.key}: was set to {_value(entry.written)}, found {_value(entry.found)}" for entry in entries)


def _value(value: str | None) -> str:
    return "nothing" if value is None else show(value)


def _unreadable(ref: ItemRef | None, host: str, key: Key, remark: str, mark: str = "") -> Finding:
    about = ref or ItemRef(ItemKind.GLOBAL_SERVICE, "")
    found = service_finding(
        about,
        RECORD,
        Severity.REMEDIABLE,
        [host],
        summary=f"Service {shown(key)}: the record of the values that stood there before this mesh cannot be read",
        evidence=f"Somebody changed the annotation. {remark}",
        fix=f"Set the annotations of the Service as they are meant, then: {_remove(key, mark)}" if mark else "Nothing has to be done.",
    )
    return found if ref else replace(found, item="")


def _remove(key: Key, mark: str) -> str:
    return command("kubectl", "annotate", "--namespace", key[0], "service", key[1], f"{mark}-")

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a binding changed on a Service of somebody else, kept on that Service, so that the way back is known. Pure.

The Service is its owner's. What stood there before is a value to be kept, and what somebody writes after us is theirs: on the way back it
stays, and while the item is there it becomes what the way back restores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from ..items.kinds import ItemKind, ItemRef
from ..model import MANAGER_DOMAIN, Binding
from .annotations import ALIASES, MANAGED

RECORD_PREFIX: Final = f"global-service.{MANAGER_DOMAIN}/"
"""Followed by the owner of the binding."""

Values: TypeAlias = Mapping[str, str | None]  # annotation -> value; None: it is not there


@dataclass(frozen=True, kw_only=True)
class Record:
    """``earlier``: what each key held that was changed. ``written``: what it was changed to. Both have the same keys."""

    item: str  # "globalServices/nginx"
    earlier: Values
    written: Values

    def text(self) -> str:
        """Canonical JSON: equal records are equal texts."""
        data = {"item": self.item, "earlier": dict(self.earlier), "written": dict(self.written)}
        return json.dumps(data, sort_keys=True, separators=(",", ":"))


class Foreign(NamedTuple):
    """A key that somebody changed after us."""

    key: str
    written: str | None  # by us
    found: str | None


@dataclass(frozen=True, kw_only=True)
class Change:
    """What has to be written on one Service: annotation -> value, None removes it. Empty: all is as it should be."""

    patch: Values
    foreign: tuple[Foreign, ...] = ()
    unreadable: bool = False  # there is a record, and it cannot be read: what stood there before is lost


def record_key(binding: Binding) -> str:
    return RECORD_PREFIX + binding.owner


def read_record(text: str) -> Record | None:
    """None for anything that ``Record.text`` would not write: whoever edits the Service can edit this too, and we write what it says."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or set(data) != {"item", "earlier", "written"} or not isinstance(data["item"], str):
        return None
    ref = ItemRef.parse(data["item"])
    if ref is None or ref.kind is not ItemKind.GLOBAL_SERVICE:
        return None
    earlier, written = data["earlier"], data["written"]
    if not (_are_values(earlier) and _are_values(written) and set(earlier) == set(written)):
        return None
    return Record(item=data["item"], earlier=earlier, written=written)


def reconcile(annotations: Mapping[str, str], wanted: Mapping[str, str], *, binding: Binding, item: str) -> Change:
    """How a Service with ``annotations`` comes to hold ``wanted`` (keys of ``MANAGED``); with nothing wanted it is the way back.

    What stands there as wanted already is its owner's and is neither written nor recorded.
    """
    key = record_key(binding)
    text = annotations.get(key)
    record = None if text is None else read_record(text)
    base: dict[str, str | None] = {name: annotations.get(name) for name in MANAGED}
    foreign = []
    for name, written in record.written.items() if record else ():
        if annotations.get(name) == written:
            base[name] = record.earlier[name] if record else None
        else:
            foreign.append(Foreign(name, written, annotations.get(name)))
    target = _target(base, wanted)
    changed = [name for name in MANAGED if target[name] != base[name]]
    after = Record(item=item, earlier={name: base[name] for name in changed}, written={name: target[name] for name in changed})
    patch: dict[str, str | None] = {name: target[name] for name in MANAGED if annotations.get(name) != target[name]}
    new = after.text() if changed else None
    if text != new:
        patch[key] = new
    return Change(patch=patch, foreign=tuple(foreign), unreadable=text is not None and record is None)


def patched(annotations: Mapping[str, str], patch: Values) -> dict[str, str]:
    """``annotations`` after a merge patch."""
    merged = {**annotations, **patch}
    return {name: value for name, value in merged.items() if value is not None}


def holders(annotations: Mapping[str, str]) -> dict[str, str]:
    """Owner of a binding -> text of its record, of every binding that marked the Service."""
    return {name.removeprefix(RECORD_PREFIX): text for name, text in annotations.items() if name.startswith(RECORD_PREFIX)}


def _target(base: Values, wanted: Mapping[str, str]) -> dict[str, str | None]:
    target = dict(base)
    for name, value in wanted.items():
        there = base[name]
        if there is None or there.lower() != value:  # Cilium compares without case
            target[name] = value
            if name in ALIASES:
                target[ALIASES[name]] = None
    return target


def _are_values(data: Any) -> bool:
    return isinstance(data, dict) and all(name in MANAGED and (value is None or isinstance(value, str)) for name, value in data.items())

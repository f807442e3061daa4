# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Record of the changes that a binding made on a Service of another owner, kept on that Service so that they can be undone. Pure.

A former value is kept, so that it can be restored. A value that another writer set after this binding is theirs: releasing the
Service leaves it, and while the item exists it becomes the value that the release restores.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from ..base.json_reader import NotJson, load_json
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.binding.model import MANAGER_DOMAIN, Binding
from .annotations import ALIASES, MANAGED, can_be_permitted, says, written_keys

RECORD_PREFIX: Final = f"global-service.{MANAGER_DOMAIN}/"
"""Followed by the owner of the binding."""

Values: TypeAlias = Mapping[str, str | None]  # annotation -> value; None: it is not there


@dataclass(frozen=True, kw_only=True)
class ServiceRecord:
    """Record of a binding on a Service.

    ``earlier``: the former values of the keys that were changed. ``written``: the new values. Both have the same keys.
    """

    item: str  # "globalServices/nginx"
    earlier: Values
    written: Values

    def text(self) -> str:
        """Return the record as canonical JSON: equal records are equal texts."""
        data = {"item": self.item, "earlier": dict(self.earlier), "written": dict(self.written)}
        return json.dumps(data, sort_keys=True, separators=(",", ":"))


class Foreign(NamedTuple):
    """A key that another writer changed after this binding."""

    key: str
    written: str | None  # by us
    found: str | None


@dataclass(frozen=True, kw_only=True)
class ServiceWrites:
    """Writes that one Service needs: annotation -> value, None removes it. Empty: it is as wanted."""

    patch: Values
    foreign: tuple[Foreign, ...] = ()
    unreadable: bool = False  # there is a record, and it cannot be read: what stood there before is lost


def record_key(binding: Binding) -> str:
    """Return the annotation that holds the record of the binding."""
    return RECORD_PREFIX + binding.owner


def read_record(text: str, permitted: Iterable[str] = ()) -> ServiceRecord | None:
    """Parse a record; None for anything that ``Record.text`` would not write.

    Any user who may edit the Service can edit the record, and its values are written: so only of keys that are written in this cluster.
    A key whose permission was withdrawn is left out, so that the rest of the record can still be undone; its annotation stays.

    :param permitted: further annotations that the cluster permits.
    """
    try:
        data = load_json(text)
    except NotJson:
        return None
    if not isinstance(data, dict) or set(data) != {"item", "earlier", "written"} or not isinstance(data["item"], str):
        return None
    ref = ItemRef.parse(data["item"])
    if ref is None or ref.kind is not ItemKind.GLOBAL_SERVICE:
        return None
    earlier, written = data["earlier"], data["written"]
    if not (_are_values(earlier) and _are_values(written) and set(earlier) == set(written)):
        return None
    known = set(earlier).intersection(written_keys(permitted))
    if earlier and not known:
        return None
    return ServiceRecord(item=data["item"], earlier=_only(earlier, known), written=_only(written, known))


def reconcile_annotations(
    annotations: Mapping[str, str], wanted: Mapping[str, str], *, binding: Binding, item: str, permitted: Iterable[str] = ()
) -> ServiceWrites:
    """Return the change that makes a Service with ``annotations`` hold ``wanted`` (keys of ``written_keys``).

    With an empty ``wanted`` it restores the former values. A value that is already as wanted is its owner's and is neither written nor
    recorded.

    :param permitted: further annotations that the cluster permits.
    """
    keys = written_keys(permitted)
    key = record_key(binding)
    text = annotations.get(key)
    record = None if text is None else read_record(text, permitted)
    base: dict[str, str | None] = {name: annotations.get(name) for name in keys}
    foreign = []
    for name, written in record.written.items() if record else ():
        if annotations.get(name) == written:
            base[name] = record.earlier[name] if record else None
        else:
            foreign.append(Foreign(name, written, annotations.get(name)))
    target = _target(base, wanted)
    changed = [name for name in keys if target[name] != base[name]]
    after = ServiceRecord(item=item, earlier={name: base[name] for name in changed}, written={name: target[name] for name in changed})
    patch: dict[str, str | None] = {name: target[name] for name in keys if annotations.get(name) != target[name]}
    new = after.text() if changed else None
    if text != new:
        patch[key] = new
    return ServiceWrites(patch=patch, foreign=tuple(foreign), unreadable=text is not None and record is None)


def patched(annotations: Mapping[str, str], patch: Values) -> dict[str, str]:
    """Return ``annotations`` after a merge patch."""
    merged = {**annotations, **patch}
    return {name: value for name, value in merged.items() if value is not None}


def records_by_binding(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the text of the record of every binding that marked the Service, by owner hash."""
    return {name.removeprefix(RECORD_PREFIX): text for name, text in annotations.items() if name.startswith(RECORD_PREFIX)}


def _target(base: Values, wanted: Mapping[str, str]) -> dict[str, str | None]:
    target = dict(base)
    given = {name: value for name, value in base.items() if value is not None}
    for name, value in wanted.items():
        if not says(given, name, value):
            target[name] = value
            if name in ALIASES:
                target[ALIASES[name]] = None
    return target


def _are_values(data: Any) -> bool:
    return isinstance(data, dict) and all(
        (name in MANAGED or can_be_permitted(name)) and (value is None or isinstance(value, str)) for name, value in data.items()
    )


def _only(values: Values, keys: Collection[str]) -> Values:
    return {name: value for name, value in values.items() if name in keys}

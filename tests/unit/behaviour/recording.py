# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How a recording is kept: a YAML file for each part of each family, of which little changes where behaviour changes little."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from .content import canonical
from .determinism import collector_off
from .text import Part, Sheet

FOLDER: Final = Path(__file__).parent / "recorded"
HEAD: Final = "".join([*Path(__file__).read_text(encoding="utf-8").splitlines(keepends=True)[:2], "---\n"])
"""The same two lines about rights as in this file."""
NAME: Final = 3
"""Characters of an anchor."""
ANCHORED: Final = "all that has an anchor"
"""A key that is added while a file is read, to know what its anchors stand for."""


def save(family: str, contents: Mapping[str, Any]) -> None:
    """Write the files of the family. What is recorded already keeps its anchor there."""
    FOLDER.mkdir(exist_ok=True)
    for part, data in contents.items():
        file = path(family, part)
        file.write_text(text(data, file.read_text(encoding="utf-8") if file.exists() else ""), encoding="utf-8")


@cache
def load(family: str, part: str) -> dict[str, Any]:
    """Return the content of one file; equal parts of it may be one object."""
    with collector_off():
        return read(path(family, part).read_text(encoding="utf-8"))


def path(family: str, part: str) -> Path:
    """Return the file of a part of a family."""
    return FOLDER / f"{family}.{part}.yaml"


def read(recorded: str) -> dict[str, Any]:
    """Return the data of the text of a file."""
    found: dict[str, Any] = yaml.load(recorded, yaml.CSafeLoader)  # it is the safe one
    return found


def text(data: Mapping[str, Any], before: str = "") -> str:
    """Return the text of a file. ``before``: its text until now.

    An anchor is made of the hash of what it names, when that is recorded first. It stays with it, and with what is in its place when
    it changes: so a text that is worded otherwise is one line, whatever refers to it, and no addition renames what is there.
    """
    sheet = Sheet.of(data)
    anchors = _kept(sheet, before) if before else {}
    taken = set(anchors.values())
    for part in sheet.named():
        if part not in anchors:
            anchors[part] = next(name for name in _names(part) if name not in taken)
            taken.add(anchors[part])
    return HEAD + sheet.text(anchors.__getitem__)


def _names(part: Part) -> Iterator[str]:
    digits = base64.b32encode(hashlib.sha256(canonical(part.value).encode()).digest()).decode().lower()
    return (digits[start : start + length] for length in range(NAME, len(digits)) for start in range(len(digits) - length))


def _kept(sheet: Sheet, before: str) -> dict[Part, str]:
    """Return the anchors that the text before has for parts of the sheet: for what is equal, then for what stood in their place."""
    data, anchored = _anchored(before)
    named = sheet.named()
    old = {canonical(value): anchor for anchor, value in anchored.items()}
    kept = {part: old[content] for part in named if (content := canonical(part.value)) in old}
    free = {id(value): anchor for anchor, value in anchored.items() if anchor not in set(kept.values())}
    for part, value in _same_places(sheet.root, data, set()):
        if part.named and part not in kept and (anchor := free.pop(id(value), None)):
            kept[part] = anchor
    return kept


def _anchored(recorded: str) -> tuple[Any, dict[str, Any]]:
    """Return the data of a text, and what each of its anchors stands for, as the very objects that are in the data."""
    anchors = [token.value for token in yaml.scan(recorded, yaml.CSafeLoader) if isinstance(token, yaml.AnchorToken)]
    if not anchors:
        return read(recorded), {}
    data = read(f"{recorded}? {ANCHORED}\n: [{', '.join(f'*{anchor}' for anchor in anchors)}]\n")
    return data, dict(zip(anchors, data.pop(ANCHORED), strict=True))


def _same_places(part: Part, value: Any, seen: set[tuple[Part, int]]) -> Iterator[tuple[Part, Any]]:
    if (part, id(value)) in seen:
        return
    seen.add((part, id(value)))
    yield part, value
    if part.keys is not None and isinstance(value, dict):
        pairs: Iterable[tuple[Part, Any]] = (
            (entry, value[key]) for key, entry in zip(part.keys, part.entries, strict=True) if key in value
        )
    else:
        pairs = zip(part.entries, value, strict=False) if part.keys is None and isinstance(value, list) else ()
    for entry, inner in pairs:
        yield from _same_places(entry, inner, seen)


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield each place at which the two differ, with both values, in the order of the data."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if key not in after:
                yield f"{path}/{key}: was recorded, and is gone: {_short(before[key])}"
            elif key not in before:
                yield f"{path}/{key}: is new: {_short(after[key])}"
            else:
                yield from differences(before[key], after[key], f"{path}/{key}")
        common = [key for key in before if key in after]
        if common != [key for key in after if key in before]:
            yield f"{path}: the keys have another order: {_short(common)} -> {_short([key for key in after if key in before])}"
    elif isinstance(before, list) and isinstance(after, list):
        for place, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from differences(one, other, f"{path}/{place}")
        if len(before) != len(after):
            rest = before[len(after) :] or after[len(before) :]
            yield f"{path}: {len(before)} entries were recorded, there are {len(after)}; the first of the others: {_short(rest[0])}"
    elif type(before) is not type(after) or before != after:
        yield f"{path}:\n      recorded: {_short(before)}\n      now:      {_short(after)}"


def _short(value: Any) -> str:
    shown = canonical(value)
    return shown if len(shown) <= 600 else f"{shown[:600]}… ({len(shown)} characters)"

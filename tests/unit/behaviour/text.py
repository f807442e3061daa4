# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The YAML text of plain data in which nothing that is longer than its name is written twice.

What stands in several places is written at the first one, with an anchor, and is an alias elsewhere. A mapping that differs little from
an earlier one is that one (``<<``) and the entries that differ. Any loader of YAML 1.1 reads it, and keeps the order of keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import yaml

WIDTH: Final = 160
LEAST: Final = 14
"""Characters of what is worth a name."""
WORTH: Final = 0.7
"""How much of a mapping may be left where it is written as another one and what differs."""
MERGED: Final = 60
"""Characters of a mapping that is worth such a comparison."""
ALIAS: Final = 5
"""Characters of an alias, about."""

_PLAIN: Final = re.compile(r"(?!\.\.\.)[\w./…(+|*-](?:[\w ./…|+*=<>()'\";!?&%@~$^-]|:(?=[\w./]))*(?<! )")
_UNSAFE: Final = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_RESOLVER: Final[Any] = yaml.resolver.Resolver()


@dataclass(eq=False, slots=True)
class Part:
    """A value of the data; equal values are one part."""

    value: Any
    keys: tuple[str, ...] | None = None
    entries: tuple[Part, ...] = ()
    places: int = 0
    size: int = 0
    base: Part | None = None
    named: bool = False

    @property
    def shared(self) -> bool:
        """Whether an alias stands for it at every place but the first one."""
        return self.places > 1 and self.size >= LEAST

    @property
    def inline(self) -> int:
        """How many characters it has where it is an entry of another part."""
        return ALIAS if self.shared else self.size

    def own(self) -> list[tuple[str, Part]]:
        """Return the entries of a mapping that its base does not have."""
        assert self.keys is not None
        same = self.base.entries if self.base else ()
        return [
            (key, entry)
            for place, (key, entry) in enumerate(zip(self.keys, self.entries, strict=True))
            if entry not in same[place : place + 1]
        ]


@dataclass(slots=True)
class Sheet:
    """Data whose parts are found, and the text of it."""

    root: Part
    _bases: dict[tuple[str, ...], list[Part]] = field(default_factory=dict)
    _seen: set[Part] = field(default_factory=set)

    @classmethod
    def of(cls, data: Any) -> Sheet:
        """Return the sheet of plain data."""
        made = cls(_parts(data))
        made._choose(made.root)
        return made

    def named(self) -> list[Part]:
        """Return the parts that have an anchor, in the order in which they are written."""
        return [part for part in _first_places(self.root, set()) if part.named]

    def text(self, name: Callable[[Part], str]) -> str:
        """Return the YAML text. ``name``: the anchor of a part."""
        writer = _Writer(name)
        lines = [line for key, entry in self.root.own() for line in writer._entry(key, entry, 0)]
        return "".join(f"{line}\n" for line in lines or ["{}"])

    def _choose(self, part: Part) -> None:
        """Decide in the order of the text which parts get a name, and which mappings a base."""
        if part in self._seen:
            part.named |= part.shared
            return
        self._seen.add(part)
        entries = part.entries
        if part.keys is not None and part.size >= MERGED:
            part.base = self._base(part)
            entries = tuple(entry for _, entry in part.own())
        for entry in entries:
            self._choose(entry)
        if part.base is not None:
            part.base.named = True
        elif part.keys:
            self._bases.setdefault(part.keys, []).append(part)

    def _base(self, part: Part) -> Part | None:
        """Return the earlier mapping with which ``part`` is shortest; its keys are the first ones of ``part``."""
        assert part.keys is not None
        length = [len(key) + 4 + entry.inline for key, entry in zip(part.keys, part.entries, strict=True)]
        least, found = WORTH * sum(length), None
        for count in range(len(part.keys), 1, -1):
            for base in self._bases.get(part.keys[:count], ()):
                same = sum(size for size, one, other in zip(length, part.entries, base.entries, strict=False) if one is other)
                if (left := sum(length) - same + 2 * ALIAS) < least:
                    least, found = left, base
        return found


def _parts(data: Any) -> Part:
    """Return the part of plain data; equal values become one part."""
    parts: dict[Any, Part] = {}

    def part_of(value: Any) -> Part:
        keys, entries, key = None, (), (type(value), value)  # type: tuple[str, ...] | None, tuple[Part, ...], Any
        if isinstance(value, Mapping):
            keys, entries = tuple(value), tuple(map(part_of, value.values()))
            key = (keys, *map(id, entries))
        elif isinstance(value, list):
            entries = tuple(map(part_of, value))
            key = (list, *map(id, entries))
        elif isinstance(value, float):
            key = (float, repr(value))
        if (found := parts.get(key)) is None:
            found = parts[key] = Part(value, keys, entries)
            for entry in entries:
                entry.places += 1
            names = sum(len(name) + 2 for name in keys or ())
            found.size = 2 + names + sum(entry.size + 2 for entry in entries) if isinstance(value, (Mapping, list)) else len(scalar(value))
        return found

    return part_of(data)


def _first_places(part: Part, seen: set[Part]) -> Iterator[Part]:
    if part in seen:
        return
    seen.add(part)
    yield part
    for entry in part.entries if part.keys is None else (entry for _, entry in part.own()):
        yield from _first_places(entry, seen)


@dataclass(slots=True)
class _Writer:
    name: Callable[[Part], str]
    done: set[Part] = field(default_factory=set)

    def rows(self, part: Part, column: int) -> list[str]:
        """Return the lines of a part that begins at this column; those after the first one are one character further to the right."""
        if part.named and part in self.done:
            return [f"*{self.name(part)}"]
        self.done.add(part)
        head = f"&{self.name(part)} " if part.named else ""
        if part.keys is not None:
            items = [[f"<<: *{self.name(part.base)}"]] if part.base else []
            items += [self._entry(key, entry, column + 1) for key, entry in part.own()]
            return _joined(f"{head}{{", items, "}", WIDTH - column)
        if isinstance(part.value, list):
            return _joined(f"{head}[", [self.rows(entry, column + 1) for entry in part.entries], "]", WIDTH - column)
        return [head + scalar(part.value)]

    def _entry(self, key: str, entry: Part, column: int) -> list[str]:
        first, *others = self.rows(entry, column)
        return [f"{scalar(key)}: {first}", *others]


def _joined(start: str, items: list[list[str]], end: str, width: int) -> list[str]:
    """Return the lines of a mapping or list: entries of one line side by side, each other one on lines of its own."""
    lines, beside = [start], True
    for place, item in enumerate(items):
        mark = "," if place < len(items) - 1 else end
        room = len(lines[-1]) + len(item[0]) + 2 < width
        if len(item) == 1 and ((beside and room) or lines == [start]):
            lines[-1] += item[0] + mark if lines == [start] else f" {item[0]}{mark}"
        else:
            lines += [f" {line}" for line in item]
            lines[-1] += mark
        beside = len(item) == 1
    return lines if items else [start + end]


@lru_cache(100_000)
def _string(value: str) -> str:
    if (
        _PLAIN.fullmatch(value)
        and value[0] not in "-|*"
        and _RESOLVER.resolve(yaml.ScalarNode, value, (True, False)) == "tag:yaml.org,2002:str"
    ):
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def scalar(value: Any) -> str:
    """Return the YAML text of a string, a number, a truth value or nothing."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        mantissa, sign, exponent = repr(value).partition("e")
        # Without a point and a sign it would be a string.
        return (mantissa if "." in mantissa or not sign else f"{mantissa}.0") + sign + exponent
    return json.dumps(value, default=_unknown)


def _unknown(value: Any) -> Any:
    raise TypeError(f"a recording holds plain data, not {type(value).__name__}")

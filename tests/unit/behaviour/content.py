# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is kept of the scenarios of a family, in two parts: what happened, and the hashes in it. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

PARTS: Final = ("told", "hashes")
HEXADECIMAL: Final = re.compile(r"[0-9a-f]{8,}")
SHORT: Final = {
    8: tuple(f"{digit}:" for digit in range(10)),  # of a certificate's extension (adapter.py)
    12: ("hash ", "hash=", "sha256:"),  # of a plan, and of a Secret's value, for people
    16: ("sha256 ", '"'),  # of a private key (adapter.py), and of what an item made
}
"""What stands before a hash that has fewer than 64 digits, by how many it has."""
DIGITS: Final = 3
"""Digits of each hash that are kept, to tell which one differs."""
SENTENCE: Final = 25
"""Characters of a text that a line of the output is split at."""

Scenarios = Mapping[str, Any]


def parts(scenarios: Scenarios) -> dict[str, Any]:
    """Return the two contents of a family, each by the names of its scenarios.

    ``told`` has everything, with a sign in place of each hash. ``hashes`` has a text for each entry of a scenario: the digest of all
    hashes in it, and the first digits of each different one.
    """
    found: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    for name, value in scenarios.items():
        units = {unit: _without_hashes(canonical(entry)) for unit, entry in _units(value)}
        read = {unit: json.loads(text) for unit, (text, _) in units.items()}
        plain = json.loads(canonical(value)) if not units else read if isinstance(value, Mapping) else [*read.values()]
        found["told"][name] = _readable(plain)
        if hashes := {unit: _held(held) for unit, (_, held) in units.items() if held}:
            found["hashes"][name] = hashes
    return found


def placed(hashes: Mapping[str, Any], scenarios: Scenarios) -> dict[str, Any]:
    """Return the hashes by the places at which ``scenarios`` have them first, for a message; others by their number."""
    found: dict[str, Any] = {}
    for name, units in hashes.items():
        found[name] = {}
        for unit, text in units.items():
            first: dict[str, str] = {}
            for one, place in _places(dict(_units(scenarios.get(name))).get(unit), ""):
                first.setdefault(one, place)
            whole, *held = text.split()
            places = dict(enumerate(first.values()))
            found[name][unit] = {places.get(number, f"/{number}"): one for number, one in enumerate(held)} | {"all of them": whole}
    return found


def canonical(value: Any) -> str:
    """Return the one JSON text of plain data; the order of keys is that of the data, as users see it."""
    return json.dumps(value, ensure_ascii=False, indent=None, separators=(",", ":"), default=_unknown)


def _unknown(value: Any) -> Any:
    raise TypeError(f"a recording holds plain data, not {type(value).__name__}")


def _held(hashes: list[str]) -> str:
    whole = hashlib.sha256(" ".join(hashes).encode()).hexdigest()[:12]
    return " ".join([whole, *(one[:DIGITS] for one in dict.fromkeys(hashes))])


def _without_hashes(text: str) -> tuple[str, list[str]]:
    """Return a JSON text with a sign for each hash in it, and the hashes."""
    hashes: list[str] = []

    def sign(found: re.Match[str]) -> str:
        digits = found[0]
        if len(digits) != 64 and not text.endswith(SHORT.get(len(digits), ()), 0, found.start()):
            return digits
        hashes.append(digits)
        return "\u2026" if len(digits) == 64 else f"\u2026{len(digits)}"

    return HEXADECIMAL.sub(sign, text), hashes


def _units(value: Any) -> Iterator[tuple[str, Any]]:
    entries = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    return ((str(key), entry) for key, entry in entries)


def _places(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        for number, one in enumerate(_without_hashes(canonical(value))[1]):
            yield one, f"{path} ({number})" if number else path
    for key, entry in _units(value):
        yield from _places(entry, f"{path}/{key}")


def _readable(value: Any) -> Any:
    texts: set[str] = set()
    outputs: list[list[Any]] = []
    found = _by_lines(value, "", texts, outputs)
    for output in outputs:
        output[:] = [_split(line, texts) if isinstance(line, str) else line for line in output]
    return found


def _by_lines(value: Any, key: str, texts: set[str], outputs: list[list[Any]]) -> Any:
    """Return texts of several lines as lists that begin with ``|``, and JSON in a text as ``{"json": ...}``; collect texts and outputs."""
    if isinstance(value, str):
        if len(value) < SENTENCE:
            return value
        if key != "output":
            texts.add(value)
        if "\n" in value:
            return ["|", *value.split("\n")]
        if value[0] in "{[" and (content := _json(value)) is not None:
            return {"json": content}
        return value
    if isinstance(value, dict):
        return {name: _by_lines(entry, name, texts, outputs) for name, entry in value.items()}
    if isinstance(value, list):
        made = [_by_lines(entry, key, texts, outputs) for entry in value]
        if key == "output":
            outputs.append(made)
        return made
    return value


def _json(text: str) -> Any:
    try:
        content = json.loads(text)
    except ValueError:
        return None
    return content if canonical(content) == text else None


def _split(line: str, texts: set[str]) -> str | list[str]:
    """Return a line that ends with a text of the same scenario, or with one and a remark in brackets, as a list that shows it."""
    for place in re.finditer(r"(?<=  )(?! )|(?<=: )", line):
        rest = line[place.start() :]
        for text in (rest, rest.rpartition(" (")[0]):
            if text in texts:
                return [part for part in (line[: place.start()], text, rest[len(text) :]) if part]
    return line

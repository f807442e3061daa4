# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How a recording is kept: one file with the structure, and one with the sentences for people, of each family of scenarios.

Pure but for ``load`` and ``save``. The two files of a family have the same scenarios; a sentence stands in the structure as ``SENTENCE``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "recorded"
PARTS: Final = ("structure", "sentences")
SENTENCE: Final = "\u2026"
SENTENCES: Final = frozenset(
    {
        *("summary", "evidence", "fix", "message", "msg", "title", "why", "undo", "disruption", "text", "what", "recipe", "reasons"),
        *("remedy", "description", "output", "problems_text", "doubts", "error", "how"),
        # A plan's hash, and the digest of each step, are made over the step's sentences too (README).
        *("hash", "digest"),
    }
)
"""Keys whose texts are for people, or depend on such texts."""

Scenarios = Mapping[str, Any]


def split(value: Any) -> tuple[Any, dict[str, str]]:
    """Return ``value`` without its sentences, and the sentences by their paths."""
    sentences: dict[str, str] = {}
    return _split(value, "", False, sentences), sentences


def _split(value: Any, path: str, told: bool, sentences: dict[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _split(entry, f"{path}/{key}", str(key) in SENTENCES, sentences) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        if told and all(isinstance(entry, str) for entry in value):
            # How many lines a text for people has is a matter of its wording.
            sentences[path] = "\n".join(value)
            return SENTENCE if value else []
        return [_split(entry, f"{path}/{place}", told, sentences) for place, entry in enumerate(value)]
    if told and isinstance(value, str):
        if not value:
            return ""
        sentences[path] = value
        return SENTENCE
    return value


def parts(scenarios: Scenarios) -> dict[str, Any]:
    """Return the two contents of a family: ``structure`` and ``sentences``."""
    structure: dict[str, Any] = {}
    sentences: dict[str, Any] = {}
    for name, value in scenarios.items():
        structure[name], told = split(value)
        if told:
            sentences[name] = told
    found: dict[str, Any] = json.loads(canonical({"structure": structure, "sentences": sentences}))
    return found


def canonical(value: Any) -> str:
    """Return the one JSON text of plain data; the order of keys is that of the data, as users see it."""
    return json.dumps(value, ensure_ascii=False, indent=None, separators=(",", ":"), default=_unknown)


def _unknown(value: Any) -> Any:
    raise TypeError(f"a recording holds plain data, not {type(value).__name__}")


def save(family: str, contents: Mapping[str, Any]) -> None:
    """Write both files of the family, a scenario a line."""
    FOLDER.mkdir(exist_ok=True)
    for part, scenarios in contents.items():
        lines = ",\n".join(f"{json.dumps(name)}: {canonical(value)}" for name, value in scenarios.items())
        # Without a time and a name in the header, equal contents are equal bytes.
        (FOLDER / f"{family}.{part}.json.gz").write_bytes(gzip.compress(f"{{\n{lines}\n}}\n".encode(), 9, mtime=0))


def load(family: str, part: str) -> dict[str, Any]:
    """Return the content of one file."""
    read: dict[str, Any] = json.loads(gzip.decompress((FOLDER / f"{family}.{part}.json.gz").read_bytes()))
    return read


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

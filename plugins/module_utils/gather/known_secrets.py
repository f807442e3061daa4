# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Values of Secrets that a run has read, as a last guard: whatever file holds one of them, or a line of one, loses it.

The rules of redaction decide by names and forms. This guard needs neither, so it also holds where a server repeats a value in a message.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Final

from ..base.redact import MASK

_LEAST: Final = 8  # characters; a shorter value is a part of ordinary words
_LINE: Final = 24
_RUN: Final = re.compile(r"[A-Za-z0-9+/=_-]{8,}")
_PUBLIC: Final = (b"-----BEGIN CERTIFICATE", b"endpoints:")
"""Beginnings of values that are not secret: certificates, and client configurations of etcd, in which names of files stand for keys."""
_CREDENTIAL: Final = re.compile(r"(?m)^\s*(?:username|password):\s*(.+?)\s*$")


class KnownSecrets:
    """The secret values of one run. No repr shows one."""

    def __init__(self, values: Iterable[bytes] = ()) -> None:
        runs: set[str] = set()
        others: set[str] = set()
        for value in values:
            for form in _forms(value):
                (runs if _RUN.fullmatch(form) else others).add(form)
        self._runs = frozenset(runs)
        self._others = tuple(sorted(others, key=lambda form: (-len(form), form)))

    def __repr__(self) -> str:
        return f"<KnownSecrets of {len(self._runs) + len(self._others)} forms>"

    def remove(self, text: str) -> tuple[str, int]:
        """Return the text without the values, and how many were removed."""
        removed = 0
        for form in self._others:
            if form in text:
                removed += text.count(form)
                text = text.replace(form, MASK)

        def replaced(found: re.Match[str]) -> str:
            nonlocal removed
            known = found[0] in self._runs or found[0].strip("=_-/+") in self._runs
            removed += known
            return MASK if known else found[0]

        return (_RUN.sub(replaced, text) if self._runs else text), removed


def _forms(value: bytes) -> Iterable[str]:
    """Yield the texts as which a value could stand in a file: itself, its lines, and base64 of it."""
    text = value.decode("utf-8", "replace").strip()
    if value.lstrip().startswith(_PUBLIC) and b"PRIVATE KEY" not in value:
        yield from (found for found in _CREDENTIAL.findall(text) if len(found) >= _LEAST)
        return
    if len(value) < _LEAST:
        return
    encoded = base64.b64encode(value).decode()
    yield from (encoded, encoded.rstrip("="))
    if len(text) >= _LEAST:
        yield text
        yield text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')  # as JSON writes it
    yield from (line.strip() for line in text.splitlines() if len(line.strip()) >= _LINE and not line.startswith("-----"))

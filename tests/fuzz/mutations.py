# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Mutations of kept inputs: of bytes, and of the values of JSON and YAML documents, so that what comes out still parses."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from tests.fuzz.parser import INPUT_LIMIT, Form

# Values at which parsers break: types that are not meant, bounds of numbers, text that printers and encoders refuse, calendars' ends.
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, float("inf"), float("nan")),
    *("", " ", "\x00", "\n", "\x1b[2J", "\ud800", "\u2028", "\u202e", "٣", "²", "a" * 300, "9" * 5000, "-1", "1e999", "0x7f", "null"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-02-30T00:00:00Z", "2026-11-01T00:00:60Z"),
    *("127.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "0.0.0.0/0", "::/0", "10.0.0.0/33", "1.2.3.4.5", "[::1]", "https://[::1", "a@b"),
    *([], {}, [[]], [None], {"": None}, {"a": {}}),
)
TOKENS: Final = (
    *(b"\x00", b"\xff", b"\r\n", b"\r\n\r\n", b'"', b"{", b"}", b"[", b"]", b": ", b"- ", b"&a ", b"*a", b"<<: *a", b"!!int "),
    *(b"!!python/name:os", b"---\n", b"...\n", b"%YAML 1.1\n", b"\\ud800", b"\xed\xa0\x80", b"1e999", b"NaN", b"endpoints:\n"),
    *(b"-----BEGIN CERTIFICATE-----\n", b"-----END CERTIFICATE-----\n", b"\x88\x00", b"\x82\x7e\xff\xff", b"\x82\x7f" + b"\xff" * 8),
    *(b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: gzip\r\n"),
    *(b"Retry-After: 1e99\r\n", b"Location: http://127.0.0.1:1/\r\n"),
)


def mutated(random: Random, corpus: Sequence[bytes], form: Form) -> bytes:
    """Return one to four mutations of a kept input, of at most INPUT_LIMIT bytes."""
    data = random.choice(corpus) if corpus else b""
    for _ in range(random.randint(1, 4)):
        data = _once(random, data, corpus, form)
    return data[:INPUT_LIMIT]


def _once(random: Random, data: bytes, corpus: Sequence[bytes], form: Form) -> bytes:
    if form is not Form.BYTES and random.random() < 0.75:
        document = _document(data, form)
        if document is not None:
            return _text(_value(random, document), form)
    return random.choice(_BYTES)(random, data, corpus)


def _document(data: bytes, form: Form) -> Any:
    try:
        return json.loads(data) if form is Form.JSON else load_yaml(data, "Base")
    except (ValueError, RecursionError):  # only bytes of it can be mutated
        return None


def _text(document: Any, form: Form) -> bytes:
    try:
        if form is Form.JSON:
            return json.dumps(document).encode()
        if "\x00" in str(document):  # which YAML cannot hold
            return json.dumps(document).encode()
        return yaml.safe_dump(document, sort_keys=False).encode(errors="replace")
    except RecursionError:
        return b"[" * 2000


def _value(random: Random, document: Any) -> Any:
    """Return a document with one of its values replaced, removed, repeated, moved or nested."""
    places = list(_places(document))
    if not places:
        return random.choice(VALUES)
    parent, key = random.choice(places)
    match random.randrange(7):
        case 0 | 1 | 2:
            parent[key] = random.choice(VALUES)
        case 3:
            del parent[key]
        case 4:
            other, place = random.choice(places)
            parent[key] = json.loads(json.dumps(other[place])) if key in _keys(parent) and place in _keys(other) else None
        case 5:
            for _ in range(random.choice((1, 3, 40, 300))):
                parent[key] = random.choice(([parent[key]], {"a": parent[key]}))
        case _:
            if isinstance(parent, list):
                parent[key:key] = [parent[key]] * random.choice((1, 20, 300))
            else:
                parent[random.choice(("", "name", "metadata", "items", "kind", "\n", "k:{", "f:", "0" * 40))] = parent[key]
    return document


def _keys(parent: Any) -> Any:
    return range(len(parent)) if isinstance(parent, list) else parent


def _places(document: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        parent = waiting.pop()
        if isinstance(parent, (dict, list)):
            children = list(enumerate(parent)) if isinstance(parent, list) else list(parent.items())
            found += [(parent, key) for key, _child in children]
            waiting += [child for _key, child in children]
    return found


def _cut(random: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    start = random.randint(0, len(data))
    return data[:start] + data[start + random.choice((1, 2, 8, 64, 4096)) :]


def _repeat(random: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    start = random.randint(0, len(data))
    part = data[start : start + random.choice((1, 2, 16, 200))]
    return data[:start] + part * random.choice((2, 50, 1000)) + data[start:]


def _flip(random: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    if not data:
        return data
    place = random.randrange(len(data))
    return data[:place] + bytes([random.choice((data[place] ^ (1 << random.randrange(8)), random.randrange(256)))]) + data[place + 1 :]


def _insert(random: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    place = random.randint(0, len(data))
    return data[:place] + random.choice(TOKENS) * random.choice((1, 1, 1, 2, 500)) + data[place:]


def _number(random: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    """Replace a run of digits by a number at a bound."""
    digits = [place for place, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    if not digits:
        return data
    start = random.choice(digits)
    end = start
    while end < len(data) and 0x30 <= data[end] <= 0x39:
        end += 1
    return data[:start] + random.choice((b"0", b"-1", b"9" * 5000, b"1" * 25, b"1e400", b"4294967296", b"9007199254740993")) + data[end:]


def _splice(random: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    other = random.choice(corpus) if corpus else b""
    return data[: random.randint(0, len(data))] + other[random.randint(0, len(other)) :]


_Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]
_BYTES: Final[tuple[_Mutation, ...]] = (_cut, _repeat, _flip, _flip, _insert, _insert, _number, _splice)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Collects everything that is wrong with what a user wrote, each with its path, so that all of it is told at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from .columns import count
from .errors import InvalidInput

_NAMES_SHOWN: Final = 20
_TEXT_SHOWN: Final = 80

LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS-1123 label, the form of names of namespaces and Services."""

SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)*")
"""A DNS-1123 subdomain, the form of metadata names."""


@dataclass
class Problems:
    """Collects what is wrong, so that the user sees all of it at once."""

    found: list[str] = field(default_factory=list)

    def add(self, path: str, text: str) -> None:
        self.found.append(f"{path or 'cilium_mesh'}: {text}")

    def mapping(self, path: str, value: Any, known: Sequence[str], *, optional: bool) -> Mapping[str, Any]:
        """``value`` as a mapping of known keys; {} when it is absent or wrong."""
        if value is None and optional:
            return {}
        if not isinstance(value, Mapping):
            self.add(path, f"must be a mapping with the keys {', '.join(known)}, not {kind_of(value)}")
            return {}
        for key in value:
            if not isinstance(key, str) or str(key) not in known:
                self.add(join(path, key), f"unknown key; {suggest(str(key), known, 'the keys here are')}")
        return {str(key): item for key, item in value.items()}

    def typed(self, path: str, value: Any, wanted: type, words: str) -> Any:
        """``value`` when it has the type or is None; else a problem and None."""
        if value is None or isinstance(value, wanted):
            return value
        self.add(path, f"must be {words}, not {kind_of(value)}")
        return None

    def raise_any(self) -> None:
        if self.found:
            raise InvalidInput(
                f"cilium_mesh has {count(len(self.found), 'problem')}: " + "; ".join(self.found) + ".",
                remedy="Correct the variable cilium_mesh; nothing was asked of any cluster.",
            )


def items_of(problems: Problems, path: str, value: Any, what: str) -> list[tuple[str, Any]]:
    """(path, value) of each element of a list; [] when it is absent or none."""
    if value is None:
        return []
    if not is_list(value):
        problems.add(path, f"must be a list of {what}, not {kind_of(value)}")
        return []
    return [(f"{path}[{place}]", item) for place, item in enumerate(value)]


def generation_of(problems: Problems, path: str, value: Any) -> int:
    """metadata.generation of a custom resource; 0 without one."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return int(value or 0)
    problems.add(path, f"must be a whole number, not {shown(str(value)) if isinstance(value, (int, float)) else kind_of(value)}")
    return 0


def length_of(value: Any) -> str:
    return f" of {len(value)}" if is_list(value) else ""


def is_empty(value: Any) -> bool:
    return value is None or (is_list(value) and not value)


def is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def join(path: str, key: Any) -> str:
    text = str(key) if isinstance(key, str) else repr(key)
    text = clip(text)
    return f"{path}.{text}" if path else text


def suggest(name: str, known: Sequence[str], otherwise: str) -> str:
    """What the user may have meant."""
    lowered = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    if close:
        return f"did you mean {lowered[close[0]]}?"
    if not known:
        return f"{otherwise} none"
    more = f" and {len(known) - _NAMES_SHOWN} more" if len(known) > _NAMES_SHOWN else ""
    return f"{otherwise} {', '.join(known[:_NAMES_SHOWN])}{more}"


_KINDS: Final[tuple[tuple[Callable[[Any], bool], str], ...]] = (
    (lambda v: v is None, "nothing"),
    (lambda v: isinstance(v, bool), "true or false"),
    (lambda v: isinstance(v, str), "a text"),
    (lambda v: isinstance(v, (int, float)), "a number"),
    (lambda v: isinstance(v, Mapping), "a mapping"),
    (lambda v: isinstance(v, Sequence), "a list"),
)


def kind_of(value: Any) -> str:
    return next((word for test, word in _KINDS if test(value)), "something else")


def clip(text: str) -> str:
    """Short and printable: the text may be a tenant's."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= _TEXT_SHOWN else text[: _TEXT_SHOWN - 3] + "..."


def shown(text: str) -> str:
    return f'"{clip(text)}"'

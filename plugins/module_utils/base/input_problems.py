# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Collector of problems in user input: each has its path, and all are reported at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from .errors import InvalidInput
from .tables import count

_NAMES_SHOWN: Final = 20
_TEXT_SHOWN: Final = 80

LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
"""Pattern of a DNS-1123 label, the form of names of namespaces and Services."""

SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)*")
"""Pattern of a DNS-1123 subdomain, the form of ``metadata.name``."""


@dataclass
class Problems:
    """Problems found in user input, collected so that the user sees all of them at once."""

    found: list[str] = field(default_factory=list)

    def add(self, path: str, text: str) -> None:
        """Add one problem. ``path`` is the place in the binding, "" for the binding itself."""
        self.found.append(f"{path or 'cilium_mesh'}: {text}")

    def mapping(self, path: str, value: Any, known: Sequence[str], *, optional: bool) -> Mapping[str, Any]:
        """Return ``value`` as a mapping with string keys, after reporting keys that are not in ``known``.

        Returns {} if ``value`` is no mapping, which is a problem unless it is None and ``optional``. Unknown keys are reported and kept.
        """
        if value is None and optional:
            return {}
        if not isinstance(value, Mapping):
            self.add(path, f"must be a mapping with the keys {', '.join(known)}, not {json_type_name(value)}")
            return {}
        for key in value:
            if not isinstance(key, str) or str(key) not in known:
                self.add(child_path(path, key), f"unknown key; {suggest(str(key), known, 'the keys here are')}")
        return {str(key): item for key, item in value.items()}

    def typed(self, path: str, value: Any, wanted: type, words: str) -> Any:
        """Return ``value`` if it is None or of type ``wanted``, else report a problem and return None.

        :param words: how the message names the type, e.g. "a text".
        """
        if value is None or isinstance(value, wanted):
            return value
        self.add(path, f"must be {words}, not {json_type_name(value)}")
        return None

    def raise_any(self) -> None:
        """Raise one error that lists all problems; do nothing if there are none.

        :raises InvalidInput: when at least one problem was added.
        """
        if self.found:
            raise InvalidInput(
                f"cilium_mesh has {count(len(self.found), 'problem')}: {sentence(self.found)}",
                remedy="Correct the variable cilium_mesh; no cluster was contacted.",
            )


def sentence(problems: Sequence[str]) -> str:
    """Return the problems as one sentence, which ends in a question mark if the last one does."""
    text = "; ".join(problems)
    return text if text.endswith("?") else f"{text}."


def list_items(problems: Problems, path: str, value: Any, what: str) -> list[tuple[str, Any]]:
    """Return (path, value) for each element of a list, [] if ``value`` is None; report a problem if it is no list.

    :param what: plural noun for the elements, e.g. "names".
    """
    if value is None:
        return []
    if not is_list(value):
        problems.add(path, f"must be a list of {what}, not {json_type_name(value)}")
        return []
    return [(f"{path}[{place}]", item) for place, item in enumerate(value)]


def generation_of(problems: Problems, path: str, value: Any) -> int:
    """Return ``metadata.generation`` of a custom resource, 0 if it is absent; report a problem if it is no whole number."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return int(value or 0)
    problems.add(path, f"must be a whole number, not {quoted(str(value)) if isinstance(value, (int, float)) else json_type_name(value)}")
    return 0


def is_list(value: Any) -> bool:
    """Return whether ``value`` is a sequence other than text or bytes."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def child_path(path: str, key: Any) -> str:
    """Append ``key`` to a dotted path; the key is cut to a printable length."""
    text = str(key) if isinstance(key, str) else repr(key)
    text = clip(text)
    return f"{path}.{text}" if path else text


def suggest(name: str, known: Sequence[str], otherwise: str) -> str:
    """Return a hint for an unknown name: the closest known name, else ``otherwise`` and the first 20 known names."""
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


def json_type_name(value: Any) -> str:
    """Return the name of a value's JSON type for messages, e.g. "a mapping"."""
    return next((word for test, word in _KINDS if test(value)), "something else")


def clip(text: str) -> str:
    """Return ``text`` printable and with at most 80 characters; it may be a tenant's."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= _TEXT_SHOWN else text[: _TEXT_SHOWN - 3] + "..."


def quoted(text: str) -> str:
    """Return ``text`` clipped and in double quotes."""
    return f'"{clip(text)}"'

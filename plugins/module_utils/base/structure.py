# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a value may look like, as the structural schema of a CRD says it, and what is wrong with one that looks otherwise.

The keywords are those of Kubernetes (apiextensions.k8s.io/v1, JSONSchemaProps) that mesh/schemas.py holds. Rules that need to know more
than one value stay with the parser of the kind: it gets values that fit, and so asks for no types. As on an API server, these rules are not
evaluated while the structure is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Final

from .input_problems import Problems, child_path, is_list, json_type_name, quoted, suggest

Schema = Mapping[str, Any]

RFC3339: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$"
FORMS: Final[Mapping[str, str]] = {
    r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$": "a DNS-1123 label (at most 63 lower-case letters, digits and '-')",
    r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$": (
        "a DNS-1123 name (lower-case letters, digits, '-' and '.')"
    ),
    r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$": "the value of a label (at most 63 letters, digits, '-', '_' and '.')",
    r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$": "the value of a label (at most 63 letters, digits, '-', '_' and '.')",
    r"^(\*\.)?[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?)+\.?$": (
        "a DNS name of two or more labels"
    ),
    r"^([A-Za-z0-9][-A-Za-z0-9._:/@=,+]*)?$": "a text of letters, digits and . _ : / @ = , + - that begins with a letter or digit",
    RFC3339: "a time with a zone, as 2027-01-31T00:00:00Z",
    r"^[A-Za-z0-9À-ɏ][-A-Za-z0-9À-ɏ .,:;()/#_@+=?]*$": (
        "a line of letters, digits, spaces and . , : ; ( ) / # _ @ + = ? - that begins with a letter or digit"
    ),
    r"^CM-[A-Z]+-[0-9]{2}$": "the code of a finding, as CM-CIDR-02",
    r"^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$": 'a time like "90s" or "1m30s"',
}
"""Every pattern of the CRDs in words."""

_SHOWN: Final = 10**9  # Python refuses to write numbers of thousands of digits
_SCALARS: Final[Mapping[str, tuple[type[Any], str]]] = {
    "string": (str, "a text"),
    "integer": (int, "a number"),
    "boolean": (bool, "true or false"),
}


@dataclass
class Reader:
    """One value, read by its schema.

    :param hints: path -> what to do where the value is missing or empty; of entries of lists with ``[]`` in place of the number.
    """

    problems: Problems
    hints: Mapping[str, str] = field(default_factory=dict)

    def read(self, schema: Schema, value: Any, path: str = "") -> Any:
        """Return the value as plain data with the defaults of the schema, without keys that are null or have nothing in them.

        An optional key with an empty list or mapping is the same as an absent one, as in the API conventions of Kubernetes: what a
        client written in Go sends for a field that its user left out depends on the type of the field alone. A mapping that has
        defaults says something by being there. What is wrong is added to ``problems``, and the returned value is then of no use.
        """
        if schema.get("x-kubernetes-int-or-string"):
            return self._int_or_string(schema, value, path)
        return _READERS.get(schema["type"], Reader._scalar)(self, schema, value, path)

    def _mapping(self, schema: Schema, value: Any, path: str) -> Any:
        known: Mapping[str, Schema] | None = schema.get("properties")
        if not isinstance(value, Mapping):
            keys = f" with the keys {', '.join(known)}" if known else ""
            self.problems.add(path, f"must be a mapping{keys}, not {json_type_name(value)}{self._hint(path)}")
            return {}
        if known is None:
            return {key: self.read(schema["additionalProperties"], item, child_path(path, key)) for key, item in value.items()}
        for key in value:
            if not isinstance(key, str) or str(key) not in known:
                self.problems.add(child_path(path, key), f"unknown key; {suggest(str(key), tuple(known), 'the keys here are')}")
        found = {}
        for key, inner in known.items():
            item = value.get(key)
            required = key in schema.get("required", ())
            if item is not None and (required or not _says_nothing(inner, item)):
                found[key] = self.read(inner, item, child_path(path, key))
                if not required and found[key] in ({}, []):  # all that was in it said nothing
                    del found[key]
            elif required:
                self._missing(inner, child_path(path, key))
            elif "default" in inner:
                found[key] = inner["default"]
        return found

    def _missing(self, schema: Schema, path: str) -> None:
        if "enum" in schema:
            self.problems.add(path, f"is missing; use one of {', '.join(schema['enum'])}")
        else:
            keys = f"; it is a mapping with the keys {', '.join(schema['properties'])}" if "properties" in schema else ""
            self.problems.add(path, f"is missing{self._hint(path) or keys}")

    def _list(self, schema: Schema, value: Any, path: str) -> Any:
        if not is_list(value):
            self.problems.add(path, f"must be a list, not {json_type_name(value)}{self._hint(path)}")
            return []
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most is not None and least == most and len(value) != most:
            self.problems.add(path, f"must have {most} entries, not {len(value)}{self._hint(path)}")
        elif len(value) < least:
            few = "is empty" if not value else f"has fewer than {least} entries"
            self.problems.add(path, f"{few}{self._hint(path)}")
        elif most is not None and len(value) > most:
            self.problems.add(path, f"has more than {most} entries")
        return [self.read(schema["items"], item, f"{path}[{place}]") for place, item in enumerate(value)]

    def _scalar(self, schema: Schema, value: Any, path: str) -> Any:
        if schema.get("pattern") == RFC3339 and isinstance(value, date):  # YAML reads a time without quotes as one
            value = _rfc3339(value)
        wanted, words = _SCALARS[schema["type"]]
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            quote = "; put it in quotes" if wanted is str and isinstance(value, (bool, int, float)) else ""
            quote = f"; use one of {', '.join(schema['enum'])}" if "enum" in schema else quote
            bounds = f" from {schema['minimum']} to {schema['maximum']}" if "minimum" in schema else ""
            self.problems.add(
                path, f"must be {words}{bounds}, not {quoted(value) if isinstance(value, str) else json_type_name(value)}{quote}"
            )
        elif isinstance(value, str):
            return self._text(schema, str(value), path)
        elif "minimum" in schema:
            self._number(schema, int(value), path)
        return value

    def _number(self, schema: Schema, value: int, path: str) -> None:
        least, most = schema["minimum"], schema["maximum"]
        if not least <= value <= most:
            self.problems.add(path, f"must be {least} to {most}, not {value if abs(value) < _SHOWN else 'a larger number'}")

    def _text(self, schema: Schema, value: str, path: str) -> str:
        pattern = schema.get("pattern", "")
        if "enum" in schema and value not in schema["enum"]:
            self.problems.add(path, f"{quoted(value)} is not known; {suggest(value, schema['enum'], 'use one of')}")
        elif pattern and not re.fullmatch(pattern.removesuffix("$"), value):
            self.problems.add(path, f"{quoted(value)} is not {FORMS[pattern]}")
        elif not schema.get("minLength", 0) <= len(value):
            self.problems.add(path, f"is empty{self._hint(path)}")
        elif len(value) > schema.get("maxLength", len(value)):
            form = f"{quoted(value)} is not {FORMS[pattern]}" if pattern else f"is longer than {schema['maxLength']} characters"
            self.problems.add(path, form)
        return value

    def _int_or_string(self, schema: Schema, value: Any, path: str) -> Any:
        if isinstance(value, str):
            return self._text(schema, str(value), path)
        return self._scalar({**schema, "type": "integer"}, value, path)

    def _hint(self, path: str) -> str:
        text = self.hints.get(re.sub(r"\[[0-9]+\]", "[]", path), "")
        return f"; {text}" if text else ""


def _says_nothing(schema: Schema, value: Any) -> bool:
    """Return whether the value is an empty list or mapping where the schema has one, and no default stands in it."""
    if schema.get("type") == "array":
        return is_list(value) and not value
    has_defaults = any("default" in inner for inner in schema.get("properties", {}).values())
    return schema.get("type") == "object" and isinstance(value, Mapping) and not value and not has_defaults


def _rfc3339(value: date) -> str:
    """Return a date or time of YAML as text. Without a zone it is UTC, as in YAML 1.1."""
    at = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()


_READERS: Final[Mapping[str, Callable[[Reader, Schema, Any, str], Any]]] = {"object": Reader._mapping, "array": Reader._list}

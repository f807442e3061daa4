# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a value may look like, as the structural schema of a CRD says it, and what is wrong with one that looks otherwise.

The keywords are those of Kubernetes (apiextensions.k8s.io/v1, JSONSchemaProps) that mesh/binding/schemas.py and fleet/schemas.py hold.
Rules that need to know more than one value stay with the parser of the kind: it gets values that fit, and so asks for no types. As on an
API server, these rules are not evaluated while the structure is wrong.
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
    r"^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$": "a DNS-1123 label of at most 52 lower-case letters, digits and '-'",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "the name of a port (at most 15 lower-case letters, digits and '-')",
    r"^[A-Za-z0-9][-A-Za-z0-9_.+]*$": "a text of letters, digits and - _ . + that begins with a letter or digit",
    r"^[A-Za-z0-9][-A-Za-z0-9_./]*$": "a text of letters, digits and - _ . / that begins with a letter or digit",
    r"^[A-Za-z0-9[][][A-Za-z0-9._:/@-]*$": "the name of an image, as registry.example.com/shop:1.2",
    r"^[A-Za-z0-9_.]([-A-Za-z0-9_.]*[A-Za-z0-9_.])?$": "a DNS domain",
    r"^[-._A-Za-z0-9]+$": "a key of a ConfigMap or Secret (letters, digits and - _ .)",
    r"^[-A-Za-z0-9_]+$": "the name of a header (letters, digits and - _)",
    r"^[A-Za-z0-9._-]+$": "a text of letters, digits and . _ -",
    r"^[-._A-Za-z][-._A-Za-z0-9]*$": "the name of an environment variable (letters, digits and - _ . without a digit first)",
    r"^([-._A-Za-z][-._A-Za-z0-9]*)?$": "a prefix of names of environment variables (letters, digits and - _ . without a digit first)",
    r"^[A-Z_]+$": "a capability of Linux, as NET_RAW, or ALL",
    r"^[0-9A-Fa-f.:]+$": "an IP address",
    r"^[0-9]+(\.[0-9]*)?([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$": "a quantity, as 500m or 2Gi",
    r"^(100|[1-9]?[0-9])%$": "a share from 0% to 100%",
}
"""Every pattern of the CRDs in words."""

_DEPTH: Final = 32
"""Levels of a value whose fields no schema tells: more than any object of Kubernetes has, and far less than Python's recursion allows."""

_SHOWN: Final = 10**9  # Python refuses to write numbers of thousands of digits
_SCALARS: Final[Mapping[str, tuple[type[Any], str]]] = {
    "string": (str, "a text"),
    "integer": (int, "a number"),
    "boolean": (bool, "true or false"),
}


@dataclass
class SchemaReader:
    """One value, read by its schema.

    :param hints: path -> what to do where the value is missing or empty; of entries of lists with ``[]`` in place of the number.
    """

    problems: Problems
    hints: Mapping[str, str] = field(default_factory=dict)

    def read(self, schema: Schema, value: Any, path: str = "") -> Any:
        """Return the value as plain data with the defaults of the schema, without keys that are null or have nothing in them.

        An optional key with an empty list or mapping is the same as an absent one, as in the API conventions of Kubernetes: what a
        client written in Go sends for a field that its user left out depends on the type of the field alone. A mapping that has
        defaults or needs a field says something by being there, and so does one with ``keepEmpty`` or of fields that the schema does not
        tell (``x-kubernetes-preserve-unknown-fields``), which comes back as it is. What is wrong is added to ``problems``, and the returned
        value is then of no use.
        """
        if schema.get("x-kubernetes-int-or-string"):
            return self._int_or_string(schema, value, path)
        return _READERS.get(schema["type"], SchemaReader._scalar)(self, schema, value, path)

    def _mapping(self, schema: Schema, value: Any, path: str) -> Any:
        known: Mapping[str, Schema] | None = schema.get("properties")
        if not isinstance(value, Mapping):
            keys = f" with the keys {', '.join(known)}" if known else ""
            self.problems.add(path, f"must be a mapping{keys}, not {json_type_name(value)}{self._hint(path)}")
            return {}
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return self._plain(value, path, _DEPTH)
        if known is None:
            if len(value) > schema.get("maxProperties", len(value)):
                self.problems.add(path, f"has more than {schema['maxProperties']} keys")
            for key in value:
                if not isinstance(key, str):
                    self.problems.add(child_path(path, key), "the key must be a text; put it in quotes")
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
                if not required and found[key] in ({}, []) and _says_nothing(inner, found[key]):  # all that was in it said nothing
                    del found[key]
            elif required:
                self._missing(inner, child_path(path, key))
            elif "default" in inner:
                found[key] = inner["default"]
        return found

    def _missing(self, schema: Schema, path: str) -> None:
        if "enum" in schema:
            self.problems.add(path, f"is missing; use one of {', '.join(map(_word, schema['enum']))}")
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
        found = [self.read(schema["items"], item, f"{path}[{place}]") for place, item in enumerate(value)]
        self._once(schema, found, path)
        return found

    def _once(self, schema: Schema, found: list[Any], path: str) -> None:
        """Report entries of a set, or of a map by some of its fields, that are there twice."""
        keys = schema.get("x-kubernetes-list-map-keys", ())
        seen = set()
        for place, item in enumerate(found):
            if keys and isinstance(item, Mapping) and set(keys) <= set(item):
                key = tuple((name, item[name]) for name in keys)
            elif schema.get("x-kubernetes-list-type") == "set":
                key = (("", item),)
            else:
                continue
            try:
                twice = key in seen
                seen.add(key)
            except TypeError:  # a list or mapping in its place, which was reported already
                continue
            if twice:
                words = " and ".join(f"{name} {quoted(str(text))}".strip() for name, text in key)
                self.problems.add(f"{path}[{place}]", f"{words} is there twice")

    def _plain(self, value: Any, path: str, depth: int) -> Any:
        """Return a value of any fields, if JSON can say it."""
        if depth == 0:
            self.problems.add(path, f"has more than {_DEPTH} levels")
        elif isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str):
                    self.problems.add(child_path(path, key), "the key must be a text; put it in quotes")
            return {str(key): self._plain(item, child_path(path, key), depth - 1) for key, item in value.items()}
        elif is_list(value):
            return [self._plain(item, f"{path}[{place}]", depth - 1) for place, item in enumerate(value)]
        elif value is not None and not isinstance(value, (str, int, float)):
            self.problems.add(
                path, f"must be a text, a number, true or false, a list or a mapping, not {json_type_name(value)}; put it in quotes"
            )
        return value

    def _scalar(self, schema: Schema, value: Any, path: str) -> Any:
        if schema.get("pattern") == RFC3339 and isinstance(value, date):  # YAML reads a time without quotes as one
            value = _rfc3339(value)
        wanted, words = _SCALARS[schema["type"]]
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            quote = "; put it in quotes" if wanted is str and isinstance(value, (bool, int, float)) else ""
            quote = f"; use one of {', '.join(map(_word, schema['enum']))}" if "enum" in schema else quote
            bounds = f" from {schema['minimum']} to {schema['maximum']}" if "minimum" in schema else ""
            self.problems.add(
                path, f"must be {words}{bounds}, not {quoted(value) if isinstance(value, str) else json_type_name(value)}{quote}"
            )
        elif isinstance(value, str):
            return self._text(schema, str(value), path)
        elif "minimum" in schema:
            self._number(schema, int(value), path)
        elif value not in schema.get("enum", (value,)):
            self.problems.add(path, f"can only be {' or '.join(map(_word, schema['enum']))}")
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
        if isinstance(value, float) and "pattern" in schema:
            self.problems.add(path, "must be a whole number or a text; put it in quotes")
            return value
        return self._scalar({**schema, "type": "integer"}, value, path)

    def _hint(self, path: str) -> str:
        text = self.hints.get(re.sub(r"\[[0-9]+\]", "[]", path), "")
        return f"; {text}" if text else ""


def _says_nothing(schema: Schema, value: Any) -> bool:
    """Return whether the value is an empty list or mapping where the schema has one, and no default stands in it."""
    if schema.get("type") == "array":
        return is_list(value) and not value
    if schema.get("required") or schema.get("keepEmpty") or schema.get("x-kubernetes-preserve-unknown-fields"):
        return False
    has_defaults = any("default" in inner for inner in schema.get("properties", {}).values())
    return schema.get("type") == "object" and isinstance(value, Mapping) and not value and not has_defaults


def _word(value: Any) -> str:
    """Return a value of an enum as a file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rfc3339(value: date) -> str:
    """Return a date or time of YAML as text. Without a zone it is UTC, as in YAML 1.1."""
    at = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()


_READERS: Final[Mapping[str, Callable[[SchemaReader, Schema, Any, str], Any]]] = {
    "object": SchemaReader._mapping,
    "array": SchemaReader._list,
}

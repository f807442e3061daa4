# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""RETURN of every module, from one text for each key (docs/returns.yml) and the types of the schema of results (result_schema.py).

ansible-core reads RETURN from the file of a module without running it, and knows no fragments of it. ``make generated``, or
``python -m tests.testing.returns``, writes the files, and a unit test holds that they are current.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from tests.collection_path import CHECKOUT
from tests.testing.options import WIDTH, WRAP, scalar
from tests.testing.result_schema import Schema, result_schema
from tests.testing.returned_keys import COMMON

TEXTS: Final = CHECKOUT / "docs" / "returns.yml"
MODULES: Final = CHECKOUT / "plugins" / "modules"
BEGIN: Final = 'RETURN = r"""\n'
END: Final = '"""\n'
TYPES: Final = {"string": "str", "integer": "int", "boolean": "bool", "array": "list", "object": "dict"}

Entry = dict[str, Any]


def source() -> dict[str, Any]:
    """Return docs/returns.yml."""
    return dict(load_yaml(TEXTS.read_text(encoding="utf-8")))


def entries(module: str, given: Mapping[str, Any]) -> dict[str, Entry]:
    """Return key -> its documentation, of every key that the module returns.

    :raises AssertionError: there is no text for a key, or for a field that the schema requires.
    """
    own: dict[str, Entry] = {}
    for names, keys in given["modules"].items():
        for key, said in keys.items() if module in names.split() else ():
            own[key] = {**own.get(key, {}), **_entry(said)}
    own |= {key: {} for key in given["every"] if "findings" in own}
    found = {}
    for key, said in own.items():
        name = said.pop("is", key)
        assert name in given["keys"], f"docs/returns.yml has no text of {name}, which {module} returns"
        entry = {"returned": "always", **_entry(given["keys"][name]), **said}
        found[key] = _typed(entry, None if "type" in entry else _part(entry.pop("as", name)), f"{module}: {key}")
    return found


def _entry(said: Any) -> Entry:
    return {"description": said} if isinstance(said, str) else dict(said or {})


def _part(path: str) -> Schema:
    found = result_schema()
    for name in path.split("."):
        found = _filled(found)["properties"][name]
    return found


def _filled(schema: Schema) -> Schema:
    """Return the schema of a value that is there, where it may also be null."""
    return schema["anyOf"][0] if "anyOf" in schema else schema


def _typed(entry: Entry, schema: Schema | None, where: str) -> Entry:
    """Return the entry with what the schema knows: types, and names for ``{fields}``. Each of its fields has a text, and no other one."""
    found = {**entry, "type": entry.get("type") or TYPES[_filled(schema or {})["type"]]}
    inner = _filled(schema or {})
    if found["type"] == "list" and schema:
        inner = _filled(inner["items"])
        found["elements"] = TYPES[inner["type"]]
    fields = inner.get("properties", {})
    if "{fields}" in str(found["description"]):
        found["description"] = found["description"].replace("{fields}", _listed(fields, inner["required"]))
    if "contains" in found:
        missing = sorted({*(inner.get("required", ()))} - {*found["contains"]})
        assert not missing, f"docs/returns.yml has no text of {where}.{', '.join(missing)}"
        said = {name: _entry(text) for name, text in found["contains"].items()}
        unknown = sorted(name for name, text in said.items() if name not in fields and "type" not in text)
        assert not unknown, f"the schema of results has no {where}.{', '.join(unknown)}"
        found["contains"] = {name: _typed(text, fields.get(name), f"{where}.{name}") for name, text in said.items()}
    return found


def _listed(fields: Mapping[str, Schema], required: list[str]) -> str:
    """Return fields as a list in words; those that may be absent come last."""
    always, rest = ([f"C({name})" for name in fields if (name in required) == wanted] for wanted in (True, False))
    return _words(always) + (f", in some also {_words(rest)}" if rest else "")


def _words(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def block(found: Mapping[str, Entry]) -> str:
    """Return entries as the text of RETURN."""
    return "".join(line + "\n" for line in _lines(found, ""))


def _lines(found: Mapping[str, Entry], indent: str) -> Iterator[str]:
    for key, entry in found.items():
        yield f"{indent}{key}:"
        inside = f"{indent}  "
        yield from _description(entry["description"], inside)
        yield from (f"{inside}{name}: {entry[name]}" for name in ("returned", "type", "elements") if name in entry)
        if "sample" in entry:
            yield from _sample(entry["sample"], inside)
        if "contains" in entry:
            yield f"{inside}contains:"
            yield from _lines(entry["contains"], f"{inside}  ")


def _description(said: str | list[str], indent: str) -> Iterator[str]:
    if isinstance(said, list):
        yield f"{indent}description:"
        for text in said:
            yield from textwrap.wrap(scalar(text), WIDTH, initial_indent=f"{indent}  - ", subsequent_indent=f"{indent}    ", **WRAP)
    elif len(line := f"{indent}description: {scalar(said)}") <= WIDTH:
        yield line
    else:
        yield f"{indent}description: >-"
        yield from textwrap.wrap(said, WIDTH, initial_indent=f"{indent}  ", subsequent_indent=f"{indent}  ", **WRAP)


def _sample(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, str):
        yield f"{indent}sample: {scalar(value)}"
    else:
        yield f"{indent}sample:"
        text = yaml.safe_dump(value, sort_keys=False, default_flow_style=None, width=WIDTH)
        yield from textwrap.indent(text, f"{indent}  ").splitlines()


def files() -> dict[Path, str]:
    """Return the file of every module with the text that it is to have."""
    given, found = source(), {}
    for path in sorted(MODULES.glob("*_*.py")):
        before, rest = path.read_text(encoding="utf-8").split(BEGIN)
        found[path] = f"{before}{BEGIN}{block(entries(path.stem, given))}{END}{rest.partition(END)[2]}"
    return found


@cache
def _documented(module: str) -> dict[str, Entry]:
    return {**entries(module, source()), **{key: {} for key in COMMON}}


def hold_to_documentation(module: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of an action.

    :raises AssertionError: it has something that RETURN of the module does not name.
    """
    places = _undocumented(result, _documented(module))
    assert not places, f"docs/returns.yml has no text of what {module} returns: {', '.join(places)}"
    return result


def _undocumented(result: Mapping[str, Any], known: Mapping[str, Entry], where: str = "") -> list[str]:
    """Return the places in a result that have no text. An empty value says nothing, and needs none."""
    found = set[str]()
    for key, value in result.items():
        inner = known.get(key, {}).get("contains", {})
        if key not in known and (any(value.values()) if isinstance(value, Mapping) else value):
            found.add(f"{where}{key}")
        for row in (value if isinstance(value, list) else [value]) if inner else ():
            found.update(_undocumented(row, inner, f"{where}{key}.") if isinstance(row, Mapping) else ())
    return sorted(found)


def main() -> int:
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

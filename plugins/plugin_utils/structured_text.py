# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Mappings and lists that are given as a text of YAML, as surveys of AWX and ``-e name=value`` give every value. Pure.

What Ansible takes for a mapping or a list of texts is left to it: ``key=value key=value`` and ``a,b``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..module_utils.base.input_problems import is_list, json_type_name, quoted
from ..module_utils.base.yaml_reader import NotYaml, compose_yaml, load_yaml

_WANTED: Final = {"dict": "a mapping", "list": "a list"}


class NotStructured(ValueError):
    """Text that is not the mapping or list that is wanted. Safe to print: the message repeats keys at most."""


def structured(text: str, kind: str, elements: str = "") -> Any:
    """Return what a text says: a mapping or a list, None for an empty text, or the text itself where Ansible reads it.

    :param kind: "dict" or "list", as in a specification of options; so is ``elements``.
    :raises NotStructured: when it is no YAML, names a key twice, or is something else; the message is a clause that says where.
    """
    simple = kind == "list" and elements != "dict" and not text.lstrip().startswith("[") and "\n" not in text.strip()
    if simple or not text.strip():
        return text if text.strip() else None
    try:
        found = load_yaml(text)
        twice = next(_twice(compose_yaml(text)), "")
    except NotYaml as error:
        where = f", {error.place}" if error.place else ""
        raise NotStructured(f"is a text that cannot be read as YAML{where}: {error}") from None
    if twice:
        raise NotStructured(f"is a text of YAML in which {twice}")
    if kind == "dict" and isinstance(found, str) and "=" in found:
        return text
    if found is None or (isinstance(found, Mapping) if kind == "dict" else is_list(found)):
        return found
    raise NotStructured(f"is a text of YAML that says {json_type_name(found)}, and not {_WANTED[kind]}")


def mapping_of(value: Any) -> Mapping[Any, Any]:
    """Return the mapping that a value is or says; {} for anything else."""
    try:
        found = structured(str(value), "dict") if isinstance(value, str) else value
    except NotStructured:
        found = None
    return found if isinstance(found, Mapping) else {}


def _twice(root: Any) -> Iterator[str]:
    """Yield a clause about each key that stands twice in one mapping; PyYAML would take the last one."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if getattr(node, "id", "") == "sequence":
            nodes.extend(node.value)
        elif getattr(node, "id", "") == "mapping":
            seen = set()
            for key, value in node.value:
                name = str(key.value) if key.id == "scalar" else ""
                if name and name in seen:
                    mark = key.start_mark
                    yield f"{quoted(name)} stands twice, again in line {mark.line + 1}, column {mark.column + 1}"
                seen.add(name)
                nodes.append(value)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What runs for an action, and which keys it can return, as the code says: what the calls that lead to an ``Outcome`` set of it.

Only names are followed: classes and functions of the actions and their pipelines, through imports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.collection_path import CHECKOUT

PLUGINS: Final = CHECKOUT / "plugins"
FOLLOWED: Final = (PLUGINS / "action", PLUGINS / "plugin_utils", PLUGINS / "module_utils" / "pipeline")
ALWAYS: Final = frozenset({"findings", "mesh", "requests", "requeue_seconds"})
FIELDS: Final[Mapping[str, str]] = {
    **{name: name for name in ("plan", "status", "binding_status", "withheld")},
    "unmet": "incomplete",
}
"""Field of ``Outcome`` -> key of the result."""
COMMON: Final = frozenset({"changed", "failed", "msg", "diff", "warnings", "ansible_stats"})
"""Keys that have a meaning for Ansible itself. https://docs.ansible.com/ansible/latest/reference_appendices/common_return_values.html"""

OF_THE_OPERATOR: Final = "_revisions("
"""What a run has only for a caller with ``known_revisions``, which no action is."""

OF_PARTS: Final[Mapping[str, frozenset[str]]] = {"mesh_reconcile": frozenset({"binding_status", "identities", "leases", "proofs"})}
"""Module -> what only parts of its run return: the run for a whole mesh makes one result of its parts (pipeline/mesh.py, _MeshRecorder)."""

Place = tuple[Path, ast.FunctionDef | ast.ClassDef]


def returned_keys(module: str) -> frozenset[str]:
    """Return the keys that the action of the module can return, without those of Ansible itself.

    :raises AssertionError: keys are made in a way that is not understood here.
    """
    path = PLUGINS / "action" / f"{module}.py"
    action = _definitions(path)[0]["ActionModule"]
    if any(isinstance(base, ast.Name) and base.id == "ActionBase" for base in getattr(action, "bases", ())):
        run = next(node for node in action.body if isinstance(node, ast.FunctionDef) and node.name == "run")
        return frozenset(_returned(path, run)) - COMMON
    found = {*ALWAYS, *(key for place, within, _names in followed(module) for key in _set_in(place, within))}
    parts = OF_PARTS.get(module, frozenset())
    assert parts <= found, f"OF_PARTS names what no part of {module} returns: {', '.join(sorted(parts - found))}"
    return frozenset(found) - parts


def followed(module: str, *but: str) -> Iterator[tuple[Path, ast.AST, set[str]]]:
    """Yield (file, function or class, names in it) of what runs for an action, but for files with the stems ``but``."""
    path = PLUGINS / "action" / f"{module}.py"
    seen, ahead = set[tuple[Path, str]](), [(path, _definitions(path)[0]["ActionModule"])]
    while ahead:
        file, within = ahead.pop()
        if (file, within.name) not in seen and file.stem not in but:
            seen.add((file, within.name))
            names = {node.id for node in ast.walk(within) if isinstance(node, ast.Name)}
            yield file, within, names
            ahead += [other for name in sorted(names) if (other := _place(file, name)) is not None]


@cache
def _definitions(path: Path) -> tuple[dict[str, ast.FunctionDef | ast.ClassDef], dict[str, tuple[Path, str]]]:
    """Return what a file defines, by name, and its relative imports: name -> (file, name there)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and node.module:
            file = path.parents[node.level - 1].joinpath(*node.module.split(".")).with_suffix(".py")
            imported.update({alias.asname or alias.name: (file, alias.name) for alias in node.names})
    return defined, imported


def _place(path: Path, name: str) -> Place | None:
    defined, imported = _definitions(path)
    if name in defined:
        return path, defined[name]
    file, other = imported.get(name, (path, ""))
    return _place(file, other) if file.parent in FOLLOWED and file.is_file() and other else None


def _set_in(path: Path, within: ast.AST) -> Iterator[str]:
    """Yield the keys of results that the calls in a function or class set."""
    for call in (node for node in ast.walk(within) if isinstance(node, ast.Call)):
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        place = _place(path, name)
        passes_on = place is not None and isinstance(place[1], ast.FunctionDef) and place[1].args.kwarg is not None
        if name in ("Outcome", "Contacts", "note", "replace") or passes_on:
            given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
            yield from (FIELDS[field] for field in given if field in FIELDS)
            yield from _keys(path, given["extra"], within) if "extra" in given else ()


def _keys(path: Path, value: ast.AST, within: ast.AST) -> Iterator[str]:
    """Yield the keys of a mapping: a literal, a variable that is one, or a call of a function that returns one."""
    if isinstance(value, ast.Dict):
        for key, inner in zip(value.keys, value.values, strict=True):
            if key is not None:
                assert isinstance(key, ast.Constant), f"{path.name}: {ast.unparse(key)}"
                yield str(key.value)
            elif not (isinstance(inner, ast.Attribute) or ast.unparse(inner).startswith(OF_THE_OPERATOR)):
                yield from _keys(path, inner, within)  # an attribute, such as outcome.extra, was set elsewhere
    elif isinstance(value, ast.IfExp):
        yield from (key for branch in (value.body, value.orelse) for key in _keys(path, branch, within))
    elif isinstance(value, ast.Name):
        assigned = [node for node in ast.walk(within) if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == value.id]
        assert assigned, f"{path.name}: {value.id}"
        yield from (key for node in assigned for key in _keys(path, node.value, within))
    else:
        place = _place(path, value.func.id) if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else None
        assert place is not None, f"{path.name}: {ast.unparse(value)}"
        yield from _returned(*place)


def _returned(path: Path, function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            yield from _keys(path, node.value, function)

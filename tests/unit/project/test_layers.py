# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The layers of the engine: which package may import which, no cycle, nothing hidden in a function, nothing private across files."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.collection_path import CHECKOUT
from tests.testing.layers import (
    ALLOWED,
    ANSIBLE_RIM,
    ENGINE,
    HOUSES,
    MACHINE,
    MESH_ROOMS,
    OPERATOR,
    PORTS,
    REAL_CLOCKS,
    RIM,
    ROOMS,
    docstrings,
)

COLLECTION: Final = "ansible_collections.edge_portal.cilium_mesh."


class Import(NamedTuple):
    """One imported name: where the statement stands, and the module that it names, as a path below the checkout without suffix."""

    file: Path
    line: int
    module: str
    name: str
    top_level: bool


def sources() -> list[Path]:
    return sorted([*(CHECKOUT / "plugins").rglob("*.py"), *(CHECKOUT / "operator" / "mesh_operator").rglob("*.py")])


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement of a file at any depth, and no expression, which are twelve times as many and hold no import."""
    yield tree
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, name, ()):
            yield from statements(node)


@functools.cache
def own_imports(file: Path) -> tuple[Import, ...]:
    """The imports of modules of this project in ``file``."""
    return tuple(_own_imports(file))


def _own_imports(file: Path) -> Iterator[Import]:
    nodes = list(statements(ast.parse(file.read_text(encoding="utf-8"))))
    top = {id(node) for node in nodes if isinstance(node, (ast.Module, ast.If)) for node in node.body}
    folder = file.relative_to(CHECKOUT).parent.parts
    for node in nodes:
        if not isinstance(node, ast.ImportFrom):
            continue
        named = node.module or ""
        if node.level:
            module = "/".join([*folder[: len(folder) - node.level + 1], *named.split(".")]).rstrip("/")
        elif named.startswith(COLLECTION):
            module = named.removeprefix(COLLECTION).replace(".", "/")
        else:
            continue
        for alias in node.names:
            yield Import(file=file, line=node.lineno, module=module, name=alias.name, top_level=id(node) in top)


def package_of(path: str) -> str:
    """``checks`` of plugins/module_utils/checks/network, ``action`` of plugins/action/mesh_plan, ``operator`` of the operator's files."""
    parts = path.split("/")
    if parts[:2] == ["plugins", "module_utils"]:
        return parts[2] if len(parts) > 2 else ""
    return parts[1] if parts[0] == "plugins" else "operator"


def room_of(path: str, house: Path) -> str:
    """``source`` of operator/mesh_operator/source/store, "" of the files that put the rooms together, and of the package itself."""
    first = path.removeprefix(str(house.relative_to(CHECKOUT))).strip("/").partition("/")[0]
    return first if first in dict(HOUSES)[house] else ""


@functools.cache
def room_edges(house: Path) -> dict[tuple[str, str], list[str]]:
    """(importing room, imported room) -> where."""
    found: dict[tuple[str, str], list[str]] = {}
    for file in house.rglob("*.py"):
        source = room_of(str(file.relative_to(CHECKOUT).with_suffix("")), house)
        for entry in own_imports(file):
            if not f"{entry.module}/".startswith(f"{house.relative_to(CHECKOUT)}/") or entry.name == "__version__":
                continue
            target = room_of(f"{entry.module}/{entry.name}", house)
            if source != target:
                found.setdefault((source, target), []).append(f"{file.relative_to(CHECKOUT)}:{entry.line}")
    return found


@functools.cache
def edges() -> dict[tuple[str, str], list[str]]:
    """(importing package, imported package) -> where."""
    found: dict[tuple[str, str], list[str]] = {}
    for file in sources():
        source = package_of(str(file.relative_to(CHECKOUT).with_suffix("")))
        for entry in own_imports(file):
            target = package_of(f"{entry.module}/{entry.name}" if entry.module == "plugins/module_utils" else entry.module)
            if source != target:
                found.setdefault((source, target), []).append(f"{file.relative_to(CHECKOUT)}:{entry.line}")
    return found


def allowed(package: str) -> set[str]:
    return set(ALLOWED[package].split())


def test_every_module_of_the_engine_lies_in_a_package_of_a_layer() -> None:
    assert {path.name for path in ENGINE.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(ALLOWED)
    assert [path.name for path in ENGINE.glob("*.py")] in ([], ["__init__.py"])


def test_a_package_imports_only_what_stands_below_it() -> None:
    wrong = {
        f"{source} -> {target}": places
        for (source, target), places in edges().items()
        if source in ALLOWED and target not in allowed(source)
    }
    assert wrong == {}


def test_no_edge_is_allowed_that_is_not_used() -> None:
    used = set(edges())
    unused = [f"{source} -> {target}" for source in ALLOWED for target in sorted(allowed(source)) if (source, target) not in used]
    assert unused == []


def test_the_allowed_edges_make_no_cycle_and_are_listed_from_the_ground_up() -> None:
    TopologicalSorter({package: allowed(package) for package in ALLOWED}).prepare()  # raises CycleError
    above: set[str] = set()
    for package in ALLOWED:
        assert allowed(package) <= above, f"{package} is listed below something that it imports"
        above.add(package)


def test_the_operator_has_these_rooms_and_a_file_beside_them_only_to_put_them_together() -> None:
    folders = {path.name for path in OPERATOR.iterdir() if path.is_dir() and path.name not in ("__pycache__", "deploy")}
    assert folders == set(ROOMS)
    beside = {path.name for path in OPERATOR.glob("*.py")}
    assert beside == {"__init__.py", "__main__.py", "crds.py", "first_status.py", "manifests.py", "operator.py", "replica.py"}


def test_mesh_has_these_rooms_and_beside_them_only_what_needs_several() -> None:
    mesh = ENGINE / "mesh"
    assert {path.name for path in mesh.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(MESH_ROOMS)
    beside = {path.name for path in mesh.glob("*.py")}
    assert beside == {"__init__.py", "cidrs.py", "link_decisions.py", "link_stage.py", "node_ports.py", "tolerance.py"}


@pytest.mark.parametrize("house", dict(HOUSES), ids=lambda house: house.name)
def test_a_room_imports_exactly_the_rooms_that_it_may(house: Path) -> None:
    rooms = dict(HOUSES)[house]
    wrong = {edge: places for edge, places in room_edges(house).items() if edge[0] in rooms and edge[1] not in rooms[edge[0]].split()}
    assert wrong == {}
    assert [(source, target) for source in rooms for target in rooms[source].split() if (source, target) not in room_edges(house)] == []


@pytest.mark.parametrize("rooms", [ROOMS, MESH_ROOMS], ids=["operator", "mesh"])
def test_the_rooms_make_no_cycle_and_are_listed_from_the_ground_up(rooms: dict[str, str]) -> None:
    above: set[str] = set()
    for room, names in rooms.items():
        assert set(names.split()) <= above, f"{room} is listed below something that it imports"
        above.add(room)


def test_each_package_and_each_room_says_what_is_in_it_and_what_it_may_import() -> None:
    """``python -m tests.testing.drawings`` writes what it may import."""
    found = dict(docstrings())
    assert len(found) == len(ALLOWED) + sum(len(rooms) for _house, rooms in HOUSES)
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text
        said = ast.get_docstring(ast.parse(text)) or ""
        assert len(said.partition("May import: ")[0]) > 20 and "May import: " in said, path


def test_the_operator_knows_no_code_of_a_finding() -> None:
    """What a finding means for the next turn is the engine's to say (pipeline/meaning.py)."""
    texts = [(file, node) for file in OPERATOR.rglob("*.py") for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    found = [
        f"{file.relative_to(CHECKOUT)}:{node.lineno}: {node.value}"
        for file, node in texts
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"CM-[A-Z]{2,}", node.value)
    ]
    assert found == []


def test_the_engine_knows_neither_ansible_nor_the_operator() -> None:
    outside = {target for source, target in edges() if source in ALLOWED and target not in ALLOWED}
    assert outside == set()
    assert not [source for source, target in edges() if target == "operator"]


def test_no_import_hides_in_a_function_and_no_private_name_crosses_files() -> None:
    """An import in a function hides an edge: what both need belongs further down. The operator's start is the exception: a wrong
    option is refused before anything heavy is imported."""
    every = [entry for file in sources() for entry in own_imports(file)]
    assert len(every) > 1000
    assert [entry for entry in every if not entry.top_level and entry.file.name != "__main__.py"] == []
    assert [entry for entry in every if entry.name.startswith("_") and not entry.name.endswith("__")] == []


PLUGINS: Final = CHECKOUT / "plugins"
PURE: Final = frozenset({"refused", "pods_read", "rolled_out", "missing_library", "identity_range"}) | {
    "diff_plan",
    "merge_patched",
    "part_of",
    "readable_object",
}
"""Functions of the rim that send nothing: about a read or its answer, a package that may be missing, and those of apply/diff.py."""

SENDING: Final = frozenset({"ClusterCopies", "ClusterEvidence", "MemberLock", "MeshLock"})
"""Classes of the rim that send requests."""

TIME: Final = ("datetime.now", "datetime.utcnow", "date.today")


def in_plugins() -> list[tuple[str, tuple[Import, ...]]]:
    """Each file of the collection, as a path below plugins, with its imports."""
    return [(str(file.relative_to(PLUGINS)), own_imports(file)) for file in sorted(PLUGINS.rglob("*.py"))]


def imports(entry: Import, package: str) -> bool:
    return f"{entry.module}/{entry.name}".startswith(f"plugins/module_utils/{package}/")


def test_only_the_rim_imports_the_client_of_api_servers() -> None:
    assert {package for package in ALLOWED if "kube" in allowed(package)} == RIM
    found = {path for path, entries in in_plugins() if any(imports(entry, "kube") for entry in entries)}
    assert {path for path in found if not path.startswith("module_utils/")} == ANSIBLE_RIM
    assert {path.split("/")[1] for path in found if path.startswith("module_utils/")} == RIM | {"kube"}


def test_a_run_gets_what_reads_and_writes_clusters_as_ports() -> None:
    """Elsewhere only values of the rim are named, and functions that send nothing."""
    rim = (*RIM, "etcd")
    found = {
        f"{path}: {entry.name}"
        for path, entries in in_plugins()
        for entry in entries
        if path.split("/")[1] not in rim and path.removeprefix("module_utils/pipeline/") not in PORTS
        if entry.name in SENDING or (entry.name.islower() and entry.name not in PURE)
        if any(imports(entry, package) for package in rim)
    }
    assert found == set()


def machine(file: Path) -> str:
    """What ``file`` uses of the clocks and the network of this machine, as ``MACHINE`` has it."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    asked = any(isinstance(node, ast.Attribute) and ast.unparse(node).endswith(TIME) for node in nodes)
    return " ".join([*(name for name in ("socket", "time") if name in named), *(["datetime"] if asked else [])])


def test_clocks_and_sockets_are_used_in_these_files_alone() -> None:
    found = {str(file.relative_to(PLUGINS)): machine(file) for file in sorted(PLUGINS.rglob("*.py"))}
    assert {path: used for path, used in found.items() if used} == MACHINE
    assert {path for path, entries in in_plugins() if any(entry.name == "real_clocks" for entry in entries)} == REAL_CLOCKS

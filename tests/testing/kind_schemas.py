# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the collection has of the CRDs: the structure of specs (mesh/binding/schemas.py, fleet/schemas.py) and the tables of fields in docs.

The CRDs (operator/deploy/crds, operator/deploy/fleet-crds) are the source. ``python -m tests.testing.kind_schemas --write`` writes what is
made of them, and a unit test holds that it is current. What a file may have beyond a custom resource is said here, in RELAXED.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from tests.collection_path import CHECKOUT
from tests.testing import kind_tables
from tests.testing.crd_schema import nodes, schemas
from tests.testing.fleet_examples import KEEP_EMPTY
from tests.testing.options import HEADER

FILE: Final = CHECKOUT / "plugins" / "module_utils" / "mesh" / "binding" / "schemas.py"
KINDS: Final = ("ClusterMeshBinding", *(kind.crd for kind in ItemKind))
"""Kinds of meshes that a file may have too."""
FLEET_FILE: Final = CHECKOUT / "plugins" / "module_utils" / "fleet" / "schemas.py"
FLEET_KINDS: Final = ("KubernetesCluster", "Fleet", "PlacementPolicy", "FleetWorkload")
POD: Final = "template.spec"
"""Where the fields of pods begin, which have a table of their own in docs."""
NAME: Final = "tests.testing.kind_schemas"

KEYWORDS: Final = (
    *("type", "x-kubernetes-int-or-string", "required", "enum", "default", "minimum", "maximum", "minLength", "maxLength", "pattern"),
    *("minItems", "maxItems", "minProperties"),
)
"""What the engine reads. CEL rules are Python in the parsers, and lists without a name twice are checked there, with the members."""

FLEET_KEYWORDS: Final = (
    *KEYWORDS,
    *("maxProperties", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-preserve-unknown-fields"),
)

RELAXED: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    # Limits that keep tenants of a management plane apart; a file is one author's.
    ("ClusterMeshBinding", "topology.hubs"): ("maxItems",),
    ("ClusterMeshBinding", "topology.pairs"): ("maxItems",),
    ("ConnectivityIntent", "ports"): ("maxItems",),
    ("ConnectivityIntent", "probe.image"): ("pattern",),
    **{("ConnectivityIntent", f"{side}.expressions"): ("maxItems",) for side in ("source", "destination")},
    **{("ConnectivityIntent", f"{side}.expressions[].values"): ("maxItems",) for side in ("source", "destination")},
    # The inventory decides which names of clusters there are, and its answer says more than the form of a name.
    ("ClusterMeshBinding", "topology.hubs[]"): ("pattern", "minLength", "maxLength"),
    ("ClusterMeshBinding", "topology.pairs[][]"): ("pattern", "minLength", "maxLength"),
    ("ClusterMeshBinding", "clusterRefs"): ("minItems", "maxItems"),
    ("ClusterMeshBinding", "clusterRefs[].name"): ("pattern", "minLength", "maxLength"),
    ("ClusterMeshBinding", ""): ("required",),
    **{("ClusterMeshBinding", field): ("maxItems",) for field in ("accept", "takeBack")},
    ("ClusterMeshBinding", "takeBack[].cluster"): ("pattern", "minLength", "maxLength"),
    ("GlobalService", "targetClusters"): ("maxItems",),
    ("GlobalService", "targetClusters[]"): ("pattern", "minLength", "maxLength"),
    **{("ConnectivityIntent", f"{side}.clusters"): ("maxItems",) for side in ("source", "destination")},
    **{("ConnectivityIntent", f"{side}.clusters[]"): ("pattern", "minLength", "maxLength") for side in ("source", "destination")},
    **{("ExposedService", f"clusters.{field}"): ("maxItems",) for field in ("names", "standby")},
    **{("ExposedService", f"clusters.{field}"): ("pattern", "minLength", "maxLength") for field in ("names[]", "standby[]", "primary")},
}
"""(kind, path) -> keywords of the CRD that a file is not held to."""


def specs() -> dict[str, dict[str, Any]]:
    """Return kind -> the structure of its spec as the engine reads it; meshRef is the caller's."""
    found = {}
    for kind, schema in sorted(schemas().items()):
        if kind in KINDS:
            spec = _kept(kind, "", schema["properties"]["spec"])
            spec["properties"].pop("meshRef", None)
            spec["required"] = [name for name in spec.get("required", []) if name != "meshRef"]
            found[kind] = spec
    return found


def fleet_specs() -> dict[str, dict[str, Any]]:
    """Return kind of the fleet -> the structure of its spec."""
    found = schemas("fleet")
    return {kind: _kept(kind, "", found[kind]["properties"]["spec"], FLEET_KEYWORDS) for kind in sorted(FLEET_KINDS)}


def _kept(kind: str, path: str, schema: Mapping[str, Any], keywords: Sequence[str] = KEYWORDS) -> dict[str, Any]:
    dropped = RELAXED.get((kind, path), ())
    found = {key: schema[key] for key in keywords if key in schema and key not in dropped}
    if "x-kubernetes-int-or-string" in schema:
        found["type"] = "integer"
    if keywords is FLEET_KEYWORDS and path.rpartition(".")[2] in KEEP_EMPTY:
        found["keepEmpty"] = True
    if "properties" in schema:
        inner = schema["properties"].items()
        found["properties"] = {name: _kept(kind, f"{path}.{name}" if path else name, entry, keywords) for name, entry in inner}
    for key, sign in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            found[key] = _kept(kind, f"{path}{sign}", schema[key], keywords)
    return found


def schemas_file(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of mesh/binding/schemas.py, or of fleet/schemas.py, in which what is there several times has a name."""
    names = _Shared(found)
    body = "".join(f'    "{kind}": {_literal(schema, 4, names)},\n' for kind, schema in found.items())
    lines = [
        HEADER,
        f'"""The structure of the specs, made of the CRDs by ``python -m {NAME} --write``."""\n\n',
        "from __future__ import annotations\n\nfrom collections.abc import Mapping\nfrom typing import Any, Final\n\n",
        *names.made,
        "SPECS: Final[Mapping[str, Mapping[str, Any]]] = {\n",
    ]
    return "".join([*lines, body, "}\n"])


class _Shared:
    """Schemas that are there several times; ``made``: a constant for each of them, the inner ones first."""

    def __init__(self, found: Mapping[str, Mapping[str, Any]]) -> None:
        self.made: list[str] = []
        self._names: dict[str, str] = {}
        self._times = Counter(repr(schema) for spec in found.values() for _path, schema in nodes(spec))

    def name_of(self, key: str, schema: Mapping[str, Any]) -> str:
        """Return the name of the constant of a schema; "" if it is there once, or short."""
        text = repr(schema)
        if self._times[text] < 2 or len(text) < 60:
            return ""
        if text not in self._names:
            wanted = "_" + re.sub("([A-Z]+)", r"_\1", key).upper()
            taken = sum(1 for name in self._names.values() if re.fullmatch(f"{wanted}(_[0-9]+)?", name))
            self._names[text] = f"{wanted}_{taken + 1}" if taken else wanted
            head = f"{self._names[text]}: Final = "
            self.made.append(f"{head}{_literal(schema, 0, self, len(head))}\n")  # after those within it
        return self._names[text]


def _literal(value: Any, indent: int, shared: _Shared | None = None, before: int = 30) -> str:
    """Return a literal as ruff formats it: what fits on one line is there, unless it is three mappings deep.

    :param before: characters on the line before it, besides the indent.
    """
    blank = " " * indent
    if isinstance(value, dict):
        names = {key: shared.name_of(key, item) if shared and isinstance(item, dict) else "" for key, item in value.items()}
        if not any(_holds_mappings(item) and not names[key] for key, item in value.items()):
            inner = {key: name or _literal(value[key], 0, shared, 0) for key, name in names.items()}
            short = "{" + ", ".join(f'"{key}": {text}' for key, text in inner.items()) + "}"
            if "\n" not in short and before + len(short) + indent < 140:
                return short
        heads = {key: f'{blank}    "{key}": ' for key in value}
        rows = (f"{head}{names[key] or _literal(value[key], indent + 4, shared, len(head) - indent - 4)},\n" for key, head in heads.items())
        return "{\n" + "".join(rows) + blank + "}"
    if isinstance(value, list):
        short = "[" + ", ".join(_literal(item, 0) for item in value) + "]"
        if before + len(short) + indent < 140:
            return short
        return "[\n" + "".join(f"{blank}    {_literal(item, 0)},\n" for item in value) + blank + "]"
    if isinstance(value, str):
        return ('r"' if "\\" in value else '"') + value + '"'
    return repr(value)


def _holds_mappings(value: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(item, dict) for item in value.values())


# --- docs ------------------------------------------------------------------------------------------------------------------------------


def table(kind: str) -> str:
    """Return the fields of the kind's spec as Markdown, from the CRD as it is; those of pods by their names alone."""
    profile = "fleet" if kind in FLEET_KINDS else "mesh"
    spec = schemas(profile)[kind]["properties"]["spec"]
    lines = ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    pods: list[str] = []
    first: dict[str, str] = {}  # fields of pods -> where they are listed; elsewhere that place is named
    repeated: list[str] = []
    for path, schema, required in _fields(spec, ""):
        if path.startswith(f"{POD}."):
            where, inner = path.removeprefix(f"{POD}."), _inner(schema)
            if inner and not where.startswith(tuple(f"{other}." for other in repeated)):
                same = first.setdefault(repr(inner), where) if len(inner) > 4 else where
                repeated += [where] if same != where else []
                pods.append(_pod_row(where, schema, same))
            continue
        default = "required" if required else f"`{_shown(schema['default'])}`" if "default" in schema else ""
        text = str(schema.get("description", "")).replace("|", "\\|")
        lines.append(f"| `{path}` | {_type(schema)} | {default} | {text} |")
    if pods:
        lines += ["", f"The fields of pods, below `{POD}`:", "", "| where | fields |", "| --- | --- |"]
        lines += [_pod_row("", spec["properties"]["template"]["properties"]["spec"]), *pods]
    return "\n".join(lines) + "\n"


def _inner(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of an object, or of the objects of a list."""
    found: Mapping[str, Any] = schema.get("properties") or schema.get("items", {}).get("properties", {})
    return found


def _pod_row(where: str, schema: Mapping[str, Any], same: str = "") -> str:
    def entry(name: str, inner: Mapping[str, Any]) -> str:
        return f"`{name}`" + (f" ({_type(inner)})" if "enum" in inner else "")

    fields = ", ".join(entry(name, inner) for name, inner in _inner(schema).items()) if same in ("", where) else f"as `{same}`"
    place = f"`{where}{'[]' if 'items' in schema else ''}`" if where else "the pod"
    return f"| {place} | {fields} |"


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        yield where, inner, name in schema.get("required", ())
        if where == f"{POD}.initContainers":  # the fields of containers, and one more, which is in its row
            continue
        element = inner.get("items", {})
        yield from _fields(inner, where)
        yield from _fields(element, f"{where}[]")


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{_shown(word)}`" if word != "" else '`""`' for word in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "minimum" in schema:
        return f"integer, {schema['minimum']} to {schema['maximum']}"
    if schema["type"] == "array":
        return f"list of {'objects' if schema['items']['type'] == 'object' else f'''{schema['items']['type']}s'''}"
    return "map of strings" if "additionalProperties" in schema else str(schema["type"])


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def documented(page: str) -> str:
    """Return a page with the tables of its kinds anew."""
    text = (CHECKOUT / "docs" / page).read_text(encoding="utf-8")
    for kind in (kind for kind in (*KINDS, *FLEET_KINDS) if kind_tables.page_of(kind) == page):
        text = kind_tables.between(text, kind_tables.FIELDS.format(kind=kind), table(kind))
    return text


def generated() -> dict[Path, str]:
    """Return every file that is made from the CRDs, with the text that it has to have."""
    pages = sorted({kind_tables.page_of(kind) for kind in (*KINDS, *FLEET_KINDS)})
    return {
        FILE: schemas_file(specs()),
        FLEET_FILE: schemas_file(fleet_specs()),
        **{CHECKOUT / "docs" / page: documented(page) for page in pages},
        **kind_tables.generated(),
    }


if __name__ == "__main__":
    for path, text in generated().items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            if "--write" in sys.argv:
                path.write_text(text, encoding="utf-8")
            print(("written: " if "--write" in sys.argv else "not current: ") + str(path.relative_to(CHECKOUT)))

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the collection has of the CRDs: the structure of every spec (plugins/module_utils/mesh/schemas.py) and the tables of fields in docs.

The CRDs (operator/deploy/crds) are the source. ``python -m tests.testing.kind_schemas --write`` writes what is made of them, and a unit
test holds that it is current. What a file may have beyond a custom resource is said here, in RELAXED.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.collection_path import CHECKOUT, link
from tests.testing.crd_schema import schemas
from tests.testing.options import HEADER

FILE: Final = CHECKOUT / "plugins" / "module_utils" / "mesh" / "schemas.py"
PAGES: Final = {
    "ClusterMeshBinding": "mesh.md",
    "ConnectivityIntent": "policies.md",
    "ExposedService": "exposed-services.md",
    "GlobalService": "global-services.md",
}
NAME: Final = "tests.testing.kind_schemas"
BEGIN, END = "<!-- fields of {kind}: begin -->\n", "<!-- fields of {kind}: end -->\n"

KEYWORDS: Final = (
    *("type", "x-kubernetes-int-or-string", "required", "enum", "default", "minimum", "maximum", "minLength", "maxLength", "pattern"),
    *("minItems", "maxItems", "minProperties"),
)
"""What the engine reads. CEL rules are Python in the parsers, and lists without a name twice are looked at there, with the members."""

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
        if kind in PAGES:
            spec = _kept(kind, "", schema["properties"]["spec"])
            spec["properties"].pop("meshRef", None)
            spec["required"] = [name for name in spec.get("required", []) if name != "meshRef"]
            found[kind] = spec
    return found


def _kept(kind: str, path: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    dropped = RELAXED.get((kind, path), ())
    found = {key: schema[key] for key in KEYWORDS if key in schema and key not in dropped}
    if "x-kubernetes-int-or-string" in schema:
        found["type"] = "integer"
    if "properties" in schema:
        inner = schema["properties"].items()
        found["properties"] = {name: _kept(kind, f"{path}.{name}" if path else name, entry) for name, entry in inner}
    for key, sign in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            found[key] = _kept(kind, f"{path}{sign}", schema[key])
    return found


def schemas_file() -> str:
    """Return the text of mesh/schemas.py."""
    lines = [
        HEADER,
        f'"""The structure of the specs, made of the CRDs by ``python -m {NAME} --write``."""\n\n',
        "from __future__ import annotations\n\nfrom collections.abc import Mapping\nfrom typing import Any, Final\n\n",
        "SPECS: Final[Mapping[str, Mapping[str, Any]]] = {\n",
    ]
    for kind, schema in specs().items():
        lines.append(f'    "{kind}": {_literal(schema, 4)},\n')
    return "".join([*lines, "}\n"])


def _literal(value: Any, indent: int) -> str:
    """Return a literal as ruff formats it: mappings that hold mappings on several lines."""
    if isinstance(value, dict):
        if not any(isinstance(item, dict) for item in value.values()):
            short = "{" + ", ".join(f'"{key}": {_literal(item, 0)}' for key, item in value.items()) + "}"
            if len(short) + indent < 110:
                return short
        blank = " " * indent
        inner = "".join(f'{blank}    "{key}": {_literal(item, indent + 4)},\n' for key, item in value.items())
        return "{\n" + inner + blank + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_literal(item, 0) for item in value) + "]"
    if isinstance(value, str):
        return ('r"' if "\\" in value else '"') + value + '"'
    return repr(value)


# --- docs ------------------------------------------------------------------------------------------------------------------------------


def table(kind: str) -> str:
    """Return the fields of the kind's spec as Markdown, from the CRD as it is."""
    lines = ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    for path, schema, required in _fields(schemas()[kind]["properties"]["spec"], ""):
        default = "required" if required else f"`{_shown(schema['default'])}`" if "default" in schema else ""
        text = str(schema.get("description", "")).replace("|", "\\|")
        lines.append(f"| `{path}` | {_type(schema)} | {default} | {text} |")
    return "\n".join(lines) + "\n"


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        yield where, inner, name in schema.get("required", ())
        element = inner.get("items", {})
        yield from _fields(inner, where)
        yield from _fields(element, f"{where}[]")


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "minimum" in schema:
        return f"integer, {schema['minimum']} to {schema['maximum']}"
    if schema["type"] == "array":
        return f"list of {'objects' if schema['items']['type'] == 'object' else f'''{schema['items']['type']}s'''}"
    return "map of strings" if "additionalProperties" in schema else str(schema["type"])


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def documented(kind: str) -> str:
    """Return the page of the kind with its table anew."""
    text = (CHECKOUT / "docs" / PAGES[kind]).read_text(encoding="utf-8")
    begin, end = BEGIN.format(kind=kind), END.format(kind=kind)
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: begin + table(kind) + end, text, flags=re.DOTALL)


def generated() -> dict[Path, str]:
    """Return every file that is made from the CRDs, with the text that it has to have."""
    return {FILE: schemas_file(), **{CHECKOUT / "docs" / page: documented(kind) for kind, page in PAGES.items()}}


if __name__ == "__main__":
    link()
    sys.path.insert(0, str(CHECKOUT / "operator"))
    for path, text in generated().items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            if "--write" in sys.argv:
                path.write_text(text, encoding="utf-8")
            print(("written: " if "--write" in sys.argv else "not current: ") + str(path.relative_to(CHECKOUT)))

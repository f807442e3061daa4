# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The schemas of the CRDs, walked: which fields there are, and what of a value the API server would drop or refuse for its type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import parse_time

_TYPES: Final[dict[str, type | tuple[type, ...]]] = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


@cache
def schemas(profile: str = "mesh") -> dict[str, dict[str, Any]]:
    """Kind -> its openAPIV3Schema, of the kinds of meshes or of ``fleet``, to be read only: the files take a tenth of a second to parse."""
    from mesh_operator.crds import crds

    return {crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for crd in crds(profile)}


def kubernetes_clusters() -> dict[str, Any]:
    """The CRD of KubernetesClusters, which the kinds of meshes refer to."""
    from mesh_operator.crds import FLEET, crds

    return next(crd for crd in crds(FLEET) if crd["spec"]["names"]["kind"] == "KubernetesCluster")


def nodes(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(path, schema) of every field below; an element of a list is ``path[]``, a value of a map ``path{}``."""
    for name, inner in schema.get("properties", {}).items():
        yield from _with_inner(f"{path}.{name}" if path else name, inner)
    for key, sign in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            yield from _with_inner(f"{path}{sign}", schema[key])


def _with_inner(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, schema
    yield from nodes(schema, path)


def paths_of(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The fields of the schema that the value has, in the form of ``nodes``."""
    if path:
        yield path
    if isinstance(value, list):
        for entry in value:
            yield from paths_of(entry, schema.get("items", {}), f"{path}[]")
    elif isinstance(value, dict) and "additionalProperties" in schema:
        for entry in value.values():
            yield from paths_of(entry, schema["additionalProperties"], f"{path}{{}}")
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from paths_of(entry, schema.get("properties", {}).get(name, {}), f"{path}.{name}" if path else name)


def misfits(value: Any, schema: Mapping[str, Any], path: str = "") -> list[str]:
    """What is not in the schema, and would be dropped without a word; what has another type, is not in an enum, or is no time where one is
    needed, and would be refused."""
    if value is None:
        return [] if schema.get("nullable") else [f"{path} is null"]
    if schema.get("x-kubernetes-int-or-string"):
        return [] if isinstance(value, (int, str)) and not isinstance(value, bool) else [f"{path} is neither int nor string"]
    kind = str(schema["type"])
    if not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
        return [f"{path} is no {kind}: {value!r}"]
    if value not in schema.get("enum", (value,)):
        return [f"{path} is none of {schema['enum']}: {value!r}"]
    if schema.get("format") == "date-time" and parse_time(str(value)) is None:
        return [f"{path} is no time: {value!r}"]
    found = [f"{path}.{name} is missing" for name in schema.get("required", ()) if isinstance(value, dict) and name not in value]
    if isinstance(value, list):
        return found + [text for place, entry in enumerate(value) for text in misfits(entry, schema["items"], f"{path}[{place}]")]
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return found
    known = schema.get("properties", {})
    for name, entry in value.items():
        inner = known.get(name, schema.get("additionalProperties"))
        found += [f"{path}.{name} is unknown"] if inner is None else misfits(entry, inner, f"{path}.{name}")
    return found

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The spec of an ExposedService -> ``items.models.ExposedService``. Its structure is that of the CRD (mesh/binding/schemas.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from ..base.conditions import timestamp
from ..base.input_problems import Problems, is_list, quoted, suggest
from ..base.structure import SchemaReader
from ..items.models import ExposedPort, ExposedService
from ..mesh.binding.schemas import SPECS
from .ranges import parse_ranges

DEFAULT_GATEWAY_CLASS: Final = "cilium"

_HINTS: Final = {
    "service": "it takes the namespace and the name of a Service",
    "port": "an ExposedService has one port, by its number or its name",
    "clusters": "write all, a list of clusters, or a mapping with primary and standby",
}


def parse_exposed_service(problems: Problems, name: str, spec: Mapping[str, Any], members: tuple[str, ...]) -> ExposedService | None:
    """See ``parse`` of ``reconcile.kinds.KindRow``."""
    before = len(problems.found)
    given = SchemaReader(problems, _HINTS).read(SPECS["ExposedService"], _as_resource(spec))
    if len(problems.found) == before:
        return _meant(problems, name, given, spec, members)
    if is_list(spec.get("clusters")):  # the path as its author wrote it
        problems.found[before:] = [text.replace("clusters.names", "clusters", 1) for text in problems.found[before:]]
    return None


def _meant(
    problems: Problems, name: str, given: Mapping[str, Any], spec: Mapping[str, Any], members: tuple[str, ...]
) -> ExposedService | None:
    """Look at what more than one field says; ``given`` is ``spec`` as the schema has it."""
    before = len(problems.found)
    exposure, port = given["class"], given["port"]
    if "number" not in port and "name" not in port:
        problems.add("port", "needs a number or a name")
    listed = "clusters" if is_list(spec.get("clusters")) else "clusters.names"
    clusters, primary = _clusters(problems, given.get("clusters"), members, listed)
    item = ExposedService(
        name=name,
        namespace=given["service"]["namespace"],
        service=given["service"]["name"],
        port=ExposedPort(number=port.get("number", 0), name=port.get("name", ""), protocol=port.get("protocol", "")),
        exposure=exposure,
        clusters=clusters,
        primary=primary,
        hostname=_hostname(problems, given.get("hostname", ""), exposure),
        source_ranges=parse_ranges(problems, "sourceRanges", given.get("sourceRanges")),
        node_ports=given.get("allocateLoadBalancerNodePorts", True),
        gateway_class=given.get("gatewayClassName", DEFAULT_GATEWAY_CLASS),
        tls_secret=given.get("tlsRef", {}).get("name", ""),
        created=_created(problems, spec.get("createdAt")),
    )
    _refuse_other_classes(problems, given)
    return None if len(problems.found) > before else item


def _as_resource(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec as a custom resource has it: a field has one type there, and who made an item when stands in its metadata."""
    if not isinstance(spec, Mapping):
        return spec
    found = {key: value for key, value in spec.items() if key != "createdAt"}
    clusters = found.get("clusters")
    if clusters == "all":
        del found["clusters"]
    elif is_list(clusters):
        found["clusters"] = {"names": clusters}
    if found.get("hostname") == "":
        del found["hostname"]
    return found


def _clusters(problems: Problems, given: Mapping[str, Any] | None, members: tuple[str, ...], listed: str) -> tuple[tuple[str, ...], str]:
    """(clusters, primary) as the model has them. Absent is all. ``listed``: path of the list of names."""
    if given is None:
        return members, ""
    if ("names" in given) is ("primary" in given or "standby" in given) or ("primary" in given) is not ("standby" in given):
        problems.add("clusters", "needs either names, or primary and standby")
        return (), ""
    if "names" in given:
        return _members(problems, listed, given["names"], members), ""
    primary = _members(problems, "clusters.primary", [given["primary"]], members)
    others = _members(problems, "clusters.standby", given["standby"], members)
    if primary and primary[0] in others:
        problems.add("clusters.standby", f"{quoted(primary[0])} is the primary")
    return others, primary[0] if primary else ""


def _members(problems: Problems, path: str, names: Sequence[str], members: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    for place, name in enumerate(names):
        where = path if path == "clusters.primary" else f"{path}[{place}]"
        if name not in members:
            hint = suggest(name, members, "the clusters of the binding are")
            problems.add(where, f"{quoted(name)} is not a cluster of the binding; {hint}")
        elif name in found:
            problems.add(where, f"{quoted(name)} is there twice")
        else:
            found.append(name)
    return tuple(found)


def _hostname(problems: Problems, given: str, exposure: str) -> str:
    """Parse a hostname into lower case, without the dot at the end."""
    text = given.lower().removesuffix(".")
    if text.rpartition(".")[2].isdecimal():
        problems.add("hostname", f"{quoted(given)} is an address, not a name")
    elif text.startswith("*.") and exposure != "Gateway":
        problems.add("hostname", f"{quoted(given)}: a wildcard is possible with class Gateway alone, which tells names apart")
    return text


_OF_ONE_CLASS: Final = {
    "allocateLoadBalancerNodePorts": ("LoadBalancer", ""),
    "gatewayClassName": ("Gateway", ""),
    "tlsRef": ("Gateway", ": the other classes forward the connection unchanged"),
}


def _refuse_other_classes(problems: Problems, given: Mapping[str, Any]) -> None:
    for key, (exposure, why) in _OF_ONE_CLASS.items():
        if key in given and given["class"] != exposure:
            problems.add(key, f"is for class {exposure} alone{why}")


def _created(problems: Problems, value: Any) -> str:
    """Parse a time into RFC 3339 in UTC, so that times compare as texts. YAML may have parsed it already."""
    if value is None or value == "":
        return ""
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        problems.add("createdAt", f"{quoted(str(value))} is not a time like 2026-04-21T10:00:00Z (RFC 3339)")
        return ""
    if time.tzinfo is None:
        problems.add("createdAt", f"{quoted(str(value))} has no time zone; write 2026-04-21T10:00:00Z")
        return ""
    try:
        return timestamp(time)
    except OverflowError:  # UTC is before the first year, or after the last
        problems.add("createdAt", f"{quoted(str(value))} is no time at which anything was made")
        return ""

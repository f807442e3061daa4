# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The spec of an ExposedService -> ``items.models.ExposedService``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from ..items.conditions import timestamp
from ..items.models import ExposedPort, ExposedService
from ..problems import LABEL, SUBDOMAIN, Problems, is_list, items_of, kind_of, shown, suggest
from .ranges import parse_ranges

CLASSES: Final = ("LoadBalancer", "NodePort", "Gateway")
PROTOCOLS: Final = ("TCP", "UDP")
DEFAULT_GATEWAY_CLASS: Final = "cilium"

KEYS: Final = (
    "service",
    "port",
    "class",
    "clusters",
    "hostname",
    "tlsRef",
    "sourceRanges",
    "gatewayClassName",
    "allocateLoadBalancerNodePorts",
    "createdAt",
)

_PORTS: Final = range(1, 65536)
_HOST_LABEL: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
_HOST_LIMIT: Final = 253


def parse_exposed_service(problems: Problems, name: str, spec: Mapping[str, Any], members: tuple[str, ...]) -> ExposedService | None:
    """See ``items.parse.ItemParser``."""
    given = problems.mapping("", spec, KEYS, optional=False)
    exposure = _one_of(problems, "class", given.get("class"), CLASSES)
    namespace, service = _service(problems, given.get("service"))
    port = _port(problems, given.get("port"))
    clusters, primary = _clusters(problems, given.get("clusters"), members)
    item = ExposedService(
        name=name,
        namespace=namespace,
        service=service,
        port=port,
        exposure=exposure,
        clusters=clusters,
        primary=primary,
        hostname=_hostname(problems, given.get("hostname"), exposure),
        source_ranges=parse_ranges(problems, "sourceRanges", given.get("sourceRanges")),
        node_ports=_node_ports(problems, given.get("allocateLoadBalancerNodePorts"), exposure),
        gateway_class=_gateway_class(problems, given.get("gatewayClassName"), exposure),
        tls_secret=_tls_secret(problems, given.get("tlsRef"), exposure),
        created=_created(problems, given.get("createdAt")),
    )
    return None if problems.found else item


def _one_of(problems: Problems, path: str, value: Any, known: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in known:
        return str(value)
    if value is None:
        problems.add(path, f"is missing; one of {', '.join(known)}")
    else:
        problems.add(path, f"{shown(str(value))}: {suggest(str(value), known, 'one of')}")
    return ""


def _name(problems: Problems, path: str, value: Any, form: re.Pattern[str] = LABEL) -> str:
    if value is None:
        problems.add(path, "is missing")
    elif not isinstance(value, str) or not form.fullmatch(value):
        problems.add(path, f"{shown(str(value))} is not a DNS-1123 name")
    else:
        return str(value)
    return ""


def _service(problems: Problems, value: Any) -> tuple[str, str]:
    """(namespace, name)."""
    found = problems.mapping("service", value, ("namespace", "name"), optional=False)
    if not found:
        return "", ""
    return _name(problems, "service.namespace", found.get("namespace")), _name(problems, "service.name", found.get("name"))


def _port(problems: Problems, value: Any) -> ExposedPort:
    if isinstance(value, str) and "-" in value and value.replace("-", "").isdecimal():
        problems.add("port", f"{shown(value)} is a range; an ExposedService has one port")
        return ExposedPort()
    found = problems.mapping("port", value, ("number", "name", "protocol"), optional=False)
    number, name = found.get("number"), found.get("name")
    if isinstance(value, Mapping) and number is None and name is None:
        problems.add("port", "needs a number or a name")
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number not in _PORTS):
        problems.add("port.number", f"must be 1 to 65535, not {shown(str(number))}")
        number = None
    if name is not None and (not isinstance(name, str) or not LABEL.fullmatch(name)):
        problems.add("port.name", f"{shown(str(name))} is not a name of a port")
        name = None
    protocol = found.get("protocol")
    return ExposedPort(
        number=int(number or 0),
        name=str(name or ""),
        protocol=_one_of(problems, "port.protocol", protocol, PROTOCOLS) if protocol is not None else "",
    )


def _clusters(problems: Problems, value: Any, members: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """(clusters, primary) as the model has them. Absent is all."""
    if value is None or value == "all":
        return members, ""
    path = "clusters"
    if isinstance(value, Mapping) and "names" in value:  # the list as custom resources write it, in which a field has one type
        path, value = "clusters.names", problems.mapping(path, value, ("names",), optional=False)["names"]
    if isinstance(value, Mapping):
        found = problems.mapping("clusters", value, ("primary", "standby"), optional=False)
        primary = _members(problems, "clusters.primary", [found.get("primary")], members)
        standby = found.get("standby")
        if not is_list(standby) or not standby:
            problems.add("clusters.standby", "must be a list of clusters, in the order in which they take over")
            return (), ""
        others = _members(problems, "clusters.standby", standby, members)
        if primary and primary[0] in others:
            problems.add("clusters.standby", f"{shown(primary[0])} is the primary")
        return others, primary[0] if primary else ""
    if not is_list(value):
        problems.add(path, f"must be all, a list of clusters, or a mapping with primary and standby, not {kind_of(value)}")
        return (), ""
    if not value:
        problems.add(path, "is empty; leave it out for all clusters of the binding")
    return _members(problems, path, value, members), ""


def _members(problems: Problems, path: str, value: Any, members: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    for where, entry in items_of(problems, path, value, "clusters"):
        if not isinstance(entry, str) or entry not in members:
            hint = suggest(str(entry), members, "the clusters of the binding are")
            problems.add(where, f"{shown(str(entry))} is not a cluster of the binding; {hint}")
        elif entry in found:
            problems.add(where, f"{shown(entry)} is there twice")
        else:
            found.append(str(entry))
    return tuple(found)


def _hostname(problems: Problems, value: Any, exposure: str) -> str:
    """Lower case, without the dot at the end."""
    if value is None or value == "":
        return ""
    if not isinstance(value, str):
        problems.add("hostname", f"must be a DNS name, not {kind_of(value)}")
        return ""
    text = str(value).lower().removesuffix(".")
    wildcard = text.startswith("*.")
    labels = text.removeprefix("*.").split(".")
    if len(text) > _HOST_LIMIT or len(labels) < 2 or not all(_HOST_LABEL.fullmatch(label) for label in labels):
        problems.add("hostname", f"{shown(value)} is not a DNS name of two or more labels")
    elif labels[-1].isdecimal():
        problems.add("hostname", f"{shown(value)} is an address, not a name")
    elif wildcard and exposure != "Gateway":
        problems.add("hostname", f"{shown(value)}: a wildcard is possible with class Gateway alone, which tells names apart")
    else:
        return text
    return ""


def _node_ports(problems: Problems, value: Any, exposure: str) -> bool:
    found = problems.typed("allocateLoadBalancerNodePorts", value, bool, "true or false")
    if found is not None and exposure and exposure != "LoadBalancer":
        problems.add("allocateLoadBalancerNodePorts", "is for class LoadBalancer alone")
    return found is not False


def _gateway_class(problems: Problems, value: Any, exposure: str) -> str:
    if value is None:
        return DEFAULT_GATEWAY_CLASS
    if exposure and exposure != "Gateway":
        problems.add("gatewayClassName", "is for class Gateway alone")
    return _name(problems, "gatewayClassName", value, SUBDOMAIN)


def _tls_secret(problems: Problems, value: Any, exposure: str) -> str:
    if value is None:
        return ""
    if exposure and exposure != "Gateway":
        problems.add("tlsRef", "is for class Gateway alone: the other classes pass the connection on as it is")
    found = problems.mapping("tlsRef", value, ("name",), optional=False)
    return _name(problems, "tlsRef.name", found.get("name"), SUBDOMAIN) if found else ""


def _created(problems: Problems, value: Any) -> str:
    """RFC 3339 in UTC, so that times compare as texts. YAML may have made a time of it already."""
    if value is None or value == "":
        return ""
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        problems.add("createdAt", f"{shown(str(value))} is not a time like 2026-04-21T10:00:00Z (RFC 3339)")
        return ""
    if time.tzinfo is None:
        problems.add("createdAt", f"{shown(str(value))} has no time zone; write 2026-04-21T10:00:00Z")
        return ""
    try:
        return timestamp(time)
    except OverflowError:  # UTC is before the first year, or after the last
        problems.add("createdAt", f"{shown(str(value))} is no time at which anything was made")
        return ""

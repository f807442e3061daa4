# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Will the Service work with backend MCS? Cilium itself makes what consumers need, and says where exports do not go together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..checks.wording import lines
from ..findings import Finding, Severity
from ..items.facts import Key
from ..items.models import GlobalService
from .codes import MCS_CONFLICT, MCS_UNAVAILABLE
from .decisions import Decisions
from .findings import service_finding, shown
from .mcs import conditions_of, is_exported, obstacle
from .truth import kinds_of_service, local_namespaces, no_endpoints, targets


def mcs_truth(item: GlobalService, decided: Decisions) -> list[Finding]:
    """Backend MCS: Cilium itself makes what consumers need, and says where exports do not go together."""
    world = decided.world
    found = [*targets(item, decided), *_unavailable(item, decided)]
    for key, hosts in decided.claims.won[item.name].items():
        local = [host for host in hosts if not world.namespace_global(host, key[0])]
        found += [*kinds_of_service(item, key, decided), *local_namespaces(item, key, local, world)]
        found += _conflicts(item, key, hosts, decided)
        if hosts and not world.ready(hosts, key):
            found.append(no_endpoints(item, key, hosts, world))
    return found


def _unavailable(item: GlobalService, decided: Decisions) -> Iterator[Finding]:
    scene = decided.scene
    for host in scene.hosts:
        found = obstacle(scene.facts[host], scene.traffic[host]) if host in item.targets else None
        if found:
            yield service_finding(
                item,
                MCS_UNAVAILABLE,
                Severity.REMEDIABLE,
                [host],
                summary=f"{host} cannot export by MCS-API: {found.what}",
                evidence=found.evidence,
                fix=lines(*found.fix.splitlines(), "Or use backend: Annotations."),
            )


def _conflicts(item: GlobalService, key: Key, hosts: Iterable[str], decided: Decisions) -> Iterator[Finding]:
    for host in hosts:
        export = decided.scene.traffic[host].exports.get(key)
        if export is None:
            continue
        conditions = conditions_of(export)
        conflict = "Conflict" in conditions and conditions["Conflict"].status == "True"
        if conflict or is_exported(export) is False:
            bad = [c for c in conditions.values() if (c.kind == "Conflict") == (c.status == "True")]
            yield service_finding(
                item,
                MCS_CONFLICT,
                Severity.REMEDIABLE,
                [host],
                summary=f"{host}: Cilium says of ServiceExport {shown(key)}: {', '.join(f'{c.kind} {c.status} ({c.reason})' for c in bad)}",
                evidence="; ".join(c.message for c in bad if c.message),
                fix="Make the Services equal in all clusters that export them: ports, type, session affinity. The oldest export wins.",
            )

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about backend MCS: obstacles to an export, and conflicts that Cilium reports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..findings.finding import Finding
from ..findings.wording import lines
from ..items.models import GlobalService
from ..mesh.traffic_facts import Key
from .decisions import Decisions
from .findings import key_text, service_finding
from .mcs import conditions_of, export_obstacle, is_exported
from .viability_findings import namespace_findings, no_endpoint_finding, service_type_findings, target_findings


def mcs_findings(item: GlobalService, decided: Decisions) -> list[Finding]:
    """Return the findings about one GlobalService with backend MCS.

    Cilium itself creates what consumers need, and reports exports that do not fit together.
    """
    view = decided.view
    found = [*target_findings(item, decided), *_unavailable(item, decided)]
    for key, hosts in decided.assignment.won[item.name].items():
        local = [host for host in hosts if not view.namespace_global(host, key[0])]
        found += [*service_type_findings(item, key, decided), *namespace_findings(item, key, local, view)]
        found += _conflicts(item, key, hosts, decided)
        if hosts and not view.ready(hosts, key):
            found.append(no_endpoint_finding(item, key, hosts, view))
    return found


def _unavailable(item: GlobalService, decided: Decisions) -> Iterator[Finding]:
    scene = decided.scene
    for host in scene.hosts:
        found = export_obstacle(scene.facts[host], scene.traffic[host]) if host in item.targets else None
        if found:
            yield service_finding(
                item,
                "CM-GS-18",
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
                "CM-GS-19",
                [host],
                summary=f"{host}: Cilium reports for ServiceExport {key_text(key)}: "
                + ", ".join(f"{c.kind} {c.status} ({c.reason})" for c in bad),
                evidence="; ".join(c.message for c in bad if c.message),
                fix="Make the Services equal in all clusters that export them: ports, type, session affinity. The oldest export wins.",
            )

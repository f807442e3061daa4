# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Backend MCS: a ServiceExport per cluster, and its status as Cilium reports it (pkg/clustermesh/mcsapi); with the findings about both.

Cilium creates a ServiceImport in every cluster that has the namespace, and a Service derived from it; no object has to exist there.
Conflicts between exports are conditions of each ServiceExport; the oldest export wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..base.input_problems import clip
from ..findings.finding import Finding
from ..findings.wording import config_evidence, helm, item_finding, lines, listed, printable, restart
from ..items.models import GlobalService
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.traffic import MCS_GROUP, Key, ObjectFacts, TrafficFacts
from ..mesh.versions.cilium_config import enabled
from ..mesh.versions.minors import cilium_version, first_minor, holds
from .annotations import GLOBAL, SHARED, wanted_annotations
from .decisions import Decisions
from .findings import key_text
from .stubs import is_headless
from .viability_findings import namespace_findings, no_endpoint_finding, service_type_findings, target_findings

KINDS: Final = ("Valid", "Conflict", "Ready")
"""Conditions of a ServiceExport; Ready is younger than the others."""


class ExportObstacle(NamedTuple):
    """Reason why a cluster cannot export with MCS-API."""

    what: str
    evidence: str
    fix: str


class Condition(NamedTuple):
    """One condition of a ServiceExport, printable and short: its message contains names that tenants choose."""

    kind: str
    status: str
    reason: str
    message: str

    def to_dict(self) -> dict[str, str]:
        """Return the condition as status rows have it."""
        return {"type": self.kind, "status": self.status, "reason": self.reason, "message": self.message}


def export_obstacle(facts: ClusterFacts, traffic: TrafficFacts) -> ExportObstacle | None:
    """Return why Cilium cannot export there; None if it can."""
    version = cilium_version(facts)
    value = "clustermesh.mcsapi.enabled" if holds("mcs_api_value", version) else "clustermesh.enableMCSAPISupport"
    turn_on = lines(helm(facts, f"{value}=true"), restart(facts))
    if not holds("mcs_export", version):
        since = first_minor("mcs_export")
        what = f"Cilium {version} does not export a ServiceExport"
        return ExportObstacle(what, f"{since} is the first that does", f"Upgrade to {since} or newer.")
    if not enabled(facts, "clustermesh-enable-mcs-api"):
        return ExportObstacle(f"Helm value {value} is not set", config_evidence(facts, "clustermesh-enable-mcs-api"), turn_on)
    unread = traffic.could_not_read("serviceexports")
    if unread is not None:
        return ExportObstacle("the user of the kubeconfig may not read its ServiceExports", unread.message, unread.remedy)
    if not traffic.serves(MCS_GROUP):
        crds = "From 1.19 on cilium-operator installs the CRDs when it starts, unless clustermesh.mcsapi.installCRDs is false."
        fix = lines(crds, "Else install them from https://github.com/kubernetes-sigs/mcs-api (config/crd) and restart:", restart(facts))
        return ExportObstacle(f"{MCS_GROUP} is not served", f"/apis of the cluster has no group {MCS_GROUP}", fix)
    return None


def exports_path(traffic: TrafficFacts, namespace: str) -> str:
    """Return the API path of ServiceExports in the namespace."""
    return f"/apis/{traffic.serves(MCS_GROUP)}/namespaces/{namespace}/serviceexports"


def export_body(service: GlobalService, key: Key, traffic: TrafficFacts) -> dict[str, Any]:
    """Return the ServiceExport. Its annotations go to the derived Services of all clusters; Cilium itself makes those global."""
    body: dict[str, Any] = {
        "apiVersion": traffic.serves(MCS_GROUP),
        "kind": "ServiceExport",
        "metadata": {"name": key[1], "namespace": key[0]},
    }
    exported = exported_annotations(service)
    return {**body, "spec": {"exportedAnnotations": exported}} if exported else body


def exported_annotations(service: GlobalService) -> dict[str, str]:
    """Return the annotations that the derived Services get."""
    return {name: value for name, value in sorted(wanted_annotations(service).items()) if name not in (GLOBAL, SHARED)}


def conditions_of(export: ObjectFacts) -> dict[str, Condition]:
    """Return the conditions of a ServiceExport by type."""
    found = {}
    for entry in export.status.get("conditions") or ():
        if isinstance(entry, Mapping) and entry.get("type") in KINDS:
            kind, status, reason = (clip(printable(str(entry.get(name, "")))) for name in ("type", "status", "reason"))
            found[kind] = Condition(kind, status, reason, printable(str(entry.get("message", "")))[:500])
    return found


def is_exported(export: ObjectFacts) -> bool | None:
    """Return whether Cilium exports it; None while Cilium has not reported it."""
    found = conditions_of(export)
    if any(kind in found and found[kind].status == "False" for kind in ("Valid", "Ready")):
        return False
    return True if "Valid" in found and found["Valid"].status == "True" else None


def importing_clusters(traffic: TrafficFacts, key: Key) -> tuple[str, ...] | None:
    """Return the names of clusters whose backends the ServiceImport has; None without a ServiceImport."""
    found = traffic.imports.get(key)
    if found is None:
        return None
    clusters = found.status.get("clusters") or ()
    return tuple(clip(printable(str(entry.get("cluster", "")))) for entry in clusters if isinstance(entry, Mapping))


def mcs_findings(item: GlobalService, decided: Decisions) -> list[Finding]:
    """Return the findings about one GlobalService with backend MCS.

    Cilium itself creates what consumers need, and reports exports that do not fit together.
    """
    view = decided.view
    found = [*target_findings(item, decided), *_unavailable(item, decided)]
    for key, hosts in decided.assignment.won[item.name].items():
        local = [host for host in hosts if not view.namespace_global(host, key[0])]
        found += [*service_type_findings(item, key, decided), *namespace_findings(item, key, local, view)]
        found += [*_unlike(item, key, hosts, decided), *_conflicts(item, key, hosts, decided)]
        if hosts and not view.ready(hosts, key):
            found.append(no_endpoint_finding(item, key, hosts, view))
    return found


def _unavailable(item: GlobalService, decided: Decisions) -> Iterator[Finding]:
    scene = decided.scene
    for host in scene.hosts:
        found = export_obstacle(scene.facts[host], scene.traffic[host]) if host in item.targets else None
        if found:
            yield item_finding(
                item.ref,
                "CM-GS-18",
                [host],
                summary=f"{host} cannot export by MCS-API: {found.what}",
                evidence=found.evidence,
                fix=lines(*found.fix.splitlines(), "Or use backend: Annotations."),
            )


def _unlike(item: GlobalService, key: Key, hosts: Iterable[str], decided: Decisions) -> Iterator[Finding]:
    """Yield a finding if exports will be in conflict, before they are written (KEP-1645; cilium/cilium pkg/clustermesh/mcsapi).

    Of two ports with one name the number and the protocol have to be equal; and the Services of all exports are headless, or none is.
    """
    values: dict[str, dict[str, list[str]]] = {}
    for host in hosts:
        service = decided.index.named(host, key)
        if service is None or service.spec.get("type") == "ExternalName":
            continue
        for port in service.spec.get("ports") or ():
            name, text = clip(str(port.get("name") or "")), f"{port.get('port')}/{port.get('protocol') or 'TCP'}"
            values.setdefault(f"port {name or 'without a name'}", {}).setdefault(text, []).append(host)
        values.setdefault("kind", {}).setdefault("headless" if is_headless(service) else "not headless", []).append(host)
        affinity = str(service.spec.get("sessionAffinity") or "None")
        values.setdefault("sessionAffinity", {}).setdefault(affinity, []).append(host)
    differ = {what: found for what, found in values.items() if len(found) > 1}
    if differ:
        concerned = sorted({host for found in differ.values() for holders in found.values() for host in holders})
        texts = [
            f"{what} is " + ", ".join(f"{value} in {listed(holders)}" for value, holders in found.items()) for what, found in differ.items()
        ]
        yield item_finding(
            item.ref,
            "CM-GS-24",
            concerned,
            summary=f"{listed(concerned)}: exports of Service {key_text(key)} do not fit together, so that only the oldest one decides: "
            + printable(texts[0]),
            evidence="; ".join(printable(text) for text in texts),
            fix="Give the ports the same numbers and protocols, and the Services the same kind and sessionAffinity, in all clusters that "
            "export them; or use backend: Annotations, to which numbers of ports do not matter.",
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
            yield item_finding(
                item.ref,
                "CM-GS-19",
                [host],
                summary=f"{host}: Cilium reports for ServiceExport {key_text(key)}: "
                + ", ".join(f"{c.kind} {c.status} ({c.reason})" for c in bad),
                evidence="; ".join(c.message for c in bad if c.message),
                fix="Make the Services equal in all clusters that export them: ports, type, session affinity. The oldest export wins.",
            )

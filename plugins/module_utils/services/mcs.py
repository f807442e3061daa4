# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Backend MCS: a ServiceExport per cluster, and what Cilium says of it (pkg/clustermesh/mcsapi).

Cilium makes a ServiceImport in every cluster that has the namespace, and a Service derived from it; nothing has to exist there. Conflicts
between exports are told as conditions of each ServiceExport, the oldest export wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ..checks.wording import config_evidence, enabled, helm, lines, printable, restart
from ..facts import ClusterFacts
from ..items.facts import Key, ObjectFacts, TrafficFacts
from ..items.models import GlobalService
from ..observe.traffic import MCS_GROUP
from ..problems import clip
from ..versions import Minor, cilium_version, holds
from .annotations import GLOBAL, SHARED, wanted_annotations

KINDS: Final = ("Valid", "Conflict", "Ready")
"""Conditions of a ServiceExport; Ready is younger than the others."""

SINCE: Final = Minor(1, 17)
"""Before, clustermesh-apiserver did not export anything for a ServiceExport (1.16 has no serviceexportsync.go)."""


class Obstacle(NamedTuple):
    """Why a cluster cannot export with MCS-API."""

    what: str
    evidence: str
    fix: str


class Condition(NamedTuple):
    """One condition of a ServiceExport, printable and short: its message is made of names that tenants choose."""

    kind: str
    status: str
    reason: str
    message: str

    def to_dict(self) -> dict[str, str]:
        return {"type": self.kind, "status": self.status, "reason": self.reason, "message": self.message}


def obstacle(facts: ClusterFacts, traffic: TrafficFacts) -> Obstacle | None:
    """None: Cilium exports there."""
    version = cilium_version(facts)
    value = "clustermesh.mcsapi.enabled" if holds("mcs_api_value", version) else "clustermesh.enableMCSAPISupport"
    turn_on = lines(helm(facts, f"{value}=true"), restart(facts))
    if version is not None and version.release < SINCE:
        what = f"Cilium {version} does not export a ServiceExport"
        return Obstacle(what, f"{SINCE} is the first that does", f"Upgrade to {SINCE} or newer.")
    if not enabled(facts, "clustermesh-enable-mcs-api"):
        return Obstacle(f"Helm value {value} is not set", config_evidence(facts, "clustermesh-enable-mcs-api"), turn_on)
    unread = traffic.could_not_read("serviceexports")
    if unread is not None:
        return Obstacle("its ServiceExports may not be read", unread.message, unread.remedy)
    if not traffic.serves(MCS_GROUP):
        crds = "From 1.19 on cilium-operator installs the CRDs when it starts, unless clustermesh.mcsapi.installCRDs is false."
        fix = lines(crds, "Else install them from https://github.com/kubernetes-sigs/mcs-api (config/crd) and restart:", restart(facts))
        return Obstacle(f"{MCS_GROUP} is not served", f"/apis of the cluster has no group {MCS_GROUP}", fix)
    return None


def collection(traffic: TrafficFacts, namespace: str) -> str:
    return f"/apis/{traffic.serves(MCS_GROUP)}/namespaces/{namespace}/serviceexports"


def export_body(service: GlobalService, key: Key, traffic: TrafficFacts) -> dict[str, Any]:
    """The annotations go to the derived Services of all clusters; Cilium itself makes those global."""
    body: dict[str, Any] = {
        "apiVersion": traffic.serves(MCS_GROUP),
        "kind": "ServiceExport",
        "metadata": {"name": key[1], "namespace": key[0]},
    }
    exported = exported_annotations(service)
    return {**body, "spec": {"exportedAnnotations": exported}} if exported else body


def exported_annotations(service: GlobalService) -> dict[str, str]:
    return {name: value for name, value in sorted(wanted_annotations(service).items()) if name not in (GLOBAL, SHARED)}


def conditions_of(export: ObjectFacts) -> dict[str, Condition]:
    """By type."""
    found = {}
    for entry in export.status.get("conditions") or ():
        if isinstance(entry, Mapping) and entry.get("type") in KINDS:
            kind, status, reason = (clip(printable(str(entry.get(name, "")))) for name in ("type", "status", "reason"))
            found[kind] = Condition(kind, status, reason, printable(str(entry.get("message", "")))[:500])
    return found


def is_exported(export: ObjectFacts) -> bool | None:
    """None: Cilium has not said yet."""
    found = conditions_of(export)
    if any(kind in found and found[kind].status == "False" for kind in ("Valid", "Ready")):
        return False
    return True if "Valid" in found and found["Valid"].status == "True" else None


def importing(traffic: TrafficFacts, key: Key) -> tuple[str, ...] | None:
    """Cluster names whose backends the ServiceImport has; None where there is no ServiceImport."""
    found = traffic.imports.get(key)
    if found is None:
        return None
    clusters = found.status.get("clusters") or ()
    return tuple(clip(printable(str(entry.get("cluster", "")))) for entry in clusters if isinstance(entry, Mapping))

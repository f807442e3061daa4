# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of the facts on which the plan of items relies, one digest per section, so that a change can be named.

They cover only objects that the plan touches, and findings about items: a Service or a pod that no item is about changes nothing.
Of findings the codes count and not the texts, which contain numbers of pods and endpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..findings.finding import Finding, Severity
from ..items.planned import ItemPlan, ItemVerdict
from ..items.scene import Scene
from ..mesh.traffic_facts import ObjectFacts, TrafficFacts
from ..mesh.versions import cilium_version
from ..plan.steps import ApiWrite, Step, digest_of

RELIED_SEVERITIES = (Severity.BLOCKING, Severity.REMEDIABLE)


def items_fingerprint(
    scene: Scene, items: Iterable[ItemPlan], steps: Iterable[Step], findings: Iterable[Finding]
) -> dict[str, dict[str, str]]:
    """Return inventory name -> section -> SHA-256 hex; an empty section has no row.

    Sections: ``identity``, ``cilium``, ``served`` (API groups), ``objects`` (before the writes), ``namespaces`` (of those objects),
    ``findings``, and on every cluster ``items`` (which ones are carried out).
    """
    touched: dict[str, list[Step]] = {}
    for step in steps:
        touched.setdefault(step.cluster, []).append(step)
    relied: dict[str, list[list[str]]] = {}
    for finding in findings:
        if finding.severity in RELIED_SEVERITIES:
            relied.setdefault(finding.cluster, []).append([finding.code, finding.item, finding.peer, finding.severity.value])
    verdicts = sorted([str(plan.ref), plan.verdict.value] for plan in items if plan.verdict is not ItemVerdict.ACCEPTED)
    found = {}
    for host in scene.hosts:
        sections = {**_cluster(scene, host), **_objects(scene.traffic[host], touched.get(host, ()))}
        sections |= {"findings": sorted(relied.get(host, ())), "items": verdicts}
        found[host] = {name: digest_of(value) for name, value in sections.items() if value}
    return found


def _cluster(scene: Scene, host: str) -> dict[str, Any]:
    facts = scene.facts[host]
    return {
        "identity": [host, facts.uid, facts.namespace, facts.name, facts.id],
        "cilium": [str(cilium_version(facts))],
        "served": sorted(scene.traffic[host].served),
    }


def _objects(traffic: TrafficFacts, steps: Iterable[Step]) -> dict[str, Any]:
    paths = {step.action.path for step in steps if isinstance(step.action, ApiWrite)}
    there = {path: traffic.by_path[path] for path in paths if path in traffic.by_path}
    namespaces = {entry.namespace for entry in there.values() if entry.namespace}
    return {
        "objects": {path: _content(entry) for path, entry in there.items()},
        "namespaces": {name: _content(traffic.namespaces[name]) for name in namespaces if name in traffic.namespaces},
    }


def _content(entry: ObjectFacts) -> list[Any]:
    return [dict(entry.labels), dict(entry.annotations), _plain(entry.spec), [_plain(rule) for rule in entry.specs]]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A Karmada that moves one small step at a time: its detector, its dispatcher and its reports are steps that a test orders as it likes.

It does what trials on a real Karmada 1.18.2 showed: a template goes to every member that its ResourceBinding does not suspend, whatever the
policy says by then; the report of a dead member stays as it was; a template without a policy keeps what it had. A template that was deleted
and made again gets a new ResourceBinding, when that of the deleted one is gone (Karmada: pkg/detector/detector.go, the UID of the owner).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import annotations_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.contents import KINDS, REVISION_ANNOTATION, TenantObject
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.facts import (
    APPLIED_PLACEMENT,
    TenantFacts,
    binding_facts,
    member_facts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, karmada_namespace
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import NOW, ApiWrite, Step

Object = dict[str, Any]

START: Final = datetime(2026, 11, 1, tzinfo=UTC)


class Refused(Exception):
    """The API server refuses a write."""


@dataclass
class KarmadaModel:
    """Objects by API path, and what each member runs."""

    tenant: Tenant
    members: dict[str, dict[str, str]]  # name -> labels
    now: datetime = START
    objects: dict[str, Object] = field(default_factory=dict)
    bindings: dict[TenantObject, Object] = field(default_factory=dict)
    running: dict[str, dict[TenantObject, Object]] = field(default_factory=dict)  # member -> its copies
    dead: set[str] = field(default_factory=set)
    since: dict[str, datetime] = field(default_factory=dict)  # member -> when it died or came back
    refusing: dict[str, str] = field(default_factory=dict)  # member, or "MEMBER KIND" -> what its API server says of such writes
    holds: dict[str, str] = field(default_factory=dict)  # API path -> finalizer that keeps the object when it is deleted
    waits_for_dead: bool = False  # whether a ResourceBinding stays until its members that are dead have let its object go
    full: set[str] = field(default_factory=set)  # members that the scheduler takes last for what has replicas
    unfit: str = ""  # reason for which the scheduler decides nothing
    broken: set[str] = field(default_factory=set)  # images whose pods are never ready; "MEMBER IMAGE" in one member
    paths: set[str] = field(default_factory=set)  # every path that was written
    serial: int = 0

    def facts(self) -> TenantFacts:
        """Return what an observation reads."""
        name = karmada_namespace(self.tenant)
        live = copy.deepcopy(self._live())
        return TenantFacts(
            now=self.now,
            namespace=live.get(f"/api/v1/namespaces/{name}"),
            namespace_policy=live.get(f"/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies/{name}"),
            objects=self._templates(live),
            policies=_policies(live),
            revisions={path.rpartition("/")[2]: found for path, found in live.items() if "/controllerrevisions/" in path},
            bindings={key.binding: binding_facts(found) for key, found in self.bindings.items()},
            members={member: member_facts(self._cluster(member)) for member in self.members},
        )

    def _live(self) -> dict[str, Object]:
        """Every object by its path, as an element of a list: without apiVersion and kind."""
        return {
            path: {key: value for key, value in found.items() if key not in ("apiVersion", "kind")} for path, found in self.objects.items()
        }

    def _templates(self, live: Mapping[str, Object]) -> dict[TenantObject, Object]:
        plurals = {row.collection.format(karmada_namespace(self.tenant)): kind for kind, row in KINDS.items()}
        parts = [(*path.rpartition("/"), found) for path, found in live.items()]
        return {TenantObject(plurals[folder], name): found for folder, _, name, found in parts if folder in plurals}

    def stored(self) -> list[tuple[str, Object]]:
        """Return every object that the API serves, with its path; ResourceBindings and Clusters too."""
        name = karmada_namespace(self.tenant)
        bindings = [
            (f"/apis/work.karmada.io/v1alpha2/namespaces/{name}/resourcebindings/{key.binding}", _named(found, key.binding))
            for key, found in self.bindings.items()
        ]
        clusters = [(f"/apis/cluster.karmada.io/v1alpha1/clusters/{member}", self._cluster(member)) for member in self.members]
        return [*self._live().items(), *bindings, *clusters]

    def write(self, steps: Iterable[Step]) -> None:
        """Carry out steps as the API server does.

        :raises Refused: a precondition does not hold, or what must not change would.
        """
        for step in steps:
            action = step.action
            assert isinstance(action, ApiWrite)
            self.write_one(action.method, action.path, _timed(action.body, self.now.strftime("%Y-%m-%dT%H:%M:%SZ")))

    def write_one(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        """Carry out one write as the API server does.

        :param method: as ``ApiWrite`` has it.
        :raises Refused: see `write`.
        """
        if method == "create":
            path = f"{path}/{body['metadata']['name']}"
        self.paths.add(path)
        live, metadata = self.objects.get(path), body["metadata"]
        if method == "create" and live is not None:
            raise Refused(f"{path} exists")
        if live is None and (method == "delete" or metadata.get("resourceVersion")):
            raise Refused(f"{path} does not exist")
        for part in ("uid", "resourceVersion"):
            if live is not None and metadata.get(part, live["metadata"][part]) != live["metadata"][part]:
                raise Refused(f"{path} has another {part}")
        if method == "delete":
            if path in self.holds:
                assert live is not None
                live["metadata"] |= {"deletionTimestamp": "2026-11-01T00:00:00Z", "finalizers": [self.holds[path]]}
            else:
                del self.objects[path]
            return
        self.serial += 1
        generation = live["metadata"]["generation"] + (live.get("spec") != body.get("spec")) if live is not None else 1
        first = {"uid": f"uid-{self.serial}", "creationTimestamp": self.now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        kept = {key: live["metadata"][key] if live is not None else value for key, value in first.items()}
        kept["resourceVersion"] = str(self.serial)
        self.objects[path] = {**body, "metadata": {**metadata, **kept, "generation": generation}}

    def collection(self, path: str) -> list[Object]:
        """Return what a list of a collection has: elements of lists come without apiVersion and kind."""
        if path.endswith("/resourcebindings"):
            found = [{**entry, "metadata": {**entry["metadata"], "name": key.binding}} for key, entry in self.bindings.items()]
        elif path.endswith("/clusters"):
            found = [self._cluster(member) for member in self.members]
        else:
            found = [entry for place, entry in self.objects.items() if place.rpartition("/")[0] == path]
        return copy.deepcopy([{key: value for key, value in entry.items() if key not in ("apiVersion", "kind")} for entry in found])

    def detect(self, kinds: Collection[str] = tuple(KINDS)) -> None:
        """Make ResourceBindings as policies say; delete those whose template is gone.

        :param kinds: of the objects that the detector comes to; each is a turn of its own in Karmada.
        """
        live = self._live()
        templates = self._templates(live)
        for key in [key for key, found in self.bindings.items() if key.kind in kinds and found["owner"] != _uid(templates.get(key))]:
            if self.dead.isdisjoint(binding_facts(self.bindings[key]).replicas) or not self.waits_for_dead:
                del self.bindings[key]
        for policy in _policies(live).values():
            for selector in policy["spec"]["resourceSelectors"]:
                key = TenantObject(selector["kind"], selector["name"])
                if key.kind in kinds and key in templates:
                    spec = {
                        "clusters": self._scheduled(policy, templates[key]),
                        "suspension": policy["spec"].get("suspension"),
                        "replicas": templates[key].get("spec", {}).get("replicas", 0),
                    }
                    before = self.bindings.get(key, {"status": {"aggregatedStatus": []}})
                    if self.unfit:
                        spec["clusters"] = before.get("spec", {}).get("clusters", [])
                    good = {"type": "Scheduled", "status": "False" if self.unfit else "True", "reason": self.unfit or "Success"}
                    metadata = {"annotations": {APPLIED_PLACEMENT: json.dumps(policy["spec"]["placement"])}}
                    self.bindings[key] = {
                        **before,
                        "owner": _uid(templates[key]),
                        "metadata": metadata,
                        "spec": spec,
                        "status": {**before["status"], "conditions": [good]},
                    }

    def dispatch(self, member: str, kinds: Collection[str] = tuple(KINDS)) -> None:
        """Bring the present templates of some kinds to one member, as far as the ResourceBindings let them."""
        if member in self.dead or member in self.refusing:
            return
        templates, copies = self._templates(self._live()), self.running.setdefault(member, {})
        for key, binding in self.bindings.items():
            held = binding_facts(binding)
            if (
                member in held.replicas
                and member not in held.suspended
                and key in templates
                and f"{member} {key.kind}" not in self.refusing
            ):
                copies[key] = templates[key]  # a write replaces an object, so the copy stays what it is
        for key in [key for key in copies if key.kind in kinds]:
            if key not in self.bindings or member not in binding_facts(self.bindings[key]).replicas:
                del copies[key]

    def report(self, member: str) -> None:
        """Write what one member runs into the ResourceBindings."""
        if member in self.dead:
            return
        for key, binding in self.bindings.items():
            rows = [row for row in binding["status"]["aggregatedStatus"] if row["clusterName"] != member]
            found = self.running.get(member, {}).get(key)
            refused = self.refusing.get(member) or self.refusing.get(f"{member} {key.kind}")
            if refused and member in binding_facts(binding).replicas:
                rows.append({"clusterName": member, "applied": False, "appliedMessage": refused, "health": "Unknown"})
            elif found is not None:
                rows.append(self._row(member, key, found))
            binding["status"] = {**binding["status"], "aggregatedStatus": rows}

    def settle(self) -> None:
        """Let everything that can happen happen once."""
        self.detect()
        for member in self.members:
            self.dispatch(member)
            self.report(member)

    def kill(self, member: str) -> None:
        """Take a member away."""
        self.dead.add(member)
        self.since[member] = self.now

    def revive(self, member: str) -> None:
        """Bring a member back."""
        self.dead.discard(member)
        self.since[member] = self.now

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def revision_in(self, member: str, key: TenantObject) -> int:
        """Return the revision that a member runs, 0 for none."""
        found = self.running.get(member, {}).get(key)
        return int(annotations_of(found).get(REVISION_ANNOTATION, "0")) if found is not None else 0

    def image_in(self, member: str, key: TenantObject) -> str:
        """Return the image that a member runs, "" for none."""
        found = self.running.get(member, {}).get(key)
        return _image(found) if found is not None else ""

    def _row(self, member: str, key: TenantObject, found: Object) -> Object:
        row: Object = {"clusterName": member, "applied": True, "health": "Healthy"}
        if key.kind in ("Deployment", "StatefulSet", "DaemonSet"):
            count = found["spec"].get("replicas", 1)
            ready = 0 if {_image(found), f"{member} {_image(found)}"} & self.broken else count
            row["health"] = "Healthy" if ready == count else "Unhealthy"
            row["status"] = {
                "replicas": count,
                "readyReplicas": ready,
                "updatedReplicas": count,
                "resourceTemplateGeneration": found["metadata"]["generation"],
            }
        return row

    def _scheduled(self, policy: Mapping[str, Any], template: Mapping[str, Any]) -> list[Object]:
        affinity = policy["spec"]["placement"]["clusterAffinity"]
        wanted = affinity["labelSelector"]["matchLabels"]
        expressions = affinity["labelSelector"].get("matchExpressions", ())
        names = affinity.get("clusterNames") or list(self.members)
        count = template.get("spec", {}).get("replicas", 0)
        found = [
            member
            for member, labels in sorted(self.members.items())
            if member in names
            and member not in affinity.get("exclude", ())
            and wanted.items() <= labels.items()
            and all(_matches(labels, entry) for entry in expressions)
        ]
        if count:
            found = sorted(found, key=lambda member: member in self.full)
        most = [
            entry["maxGroups"] for entry in policy["spec"]["placement"].get("spreadConstraints", ()) if entry["spreadByField"] == "cluster"
        ]
        return [{"name": member, "replicas": count} for member in sorted(found[: min(most, default=None)])]

    def _cluster(self, member: str) -> Object:
        status = "False" if member in self.dead else "True"
        since = self.since.get(member, START - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": status, "reason": "ClusterReady", "lastTransitionTime": since}
        return {"metadata": {"name": member, "labels": self.members[member]}, "spec": {}, "status": {"conditions": [ready]}}


def _matches(labels: Mapping[str, str], expression: Mapping[str, Any]) -> bool:
    """Return whether labels meet an expression of a selector (apimachinery: a label that is missing meets NotIn)."""
    value, operator = labels.get(expression["key"]), expression["operator"]
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) is (operator == "Exists")
    return (value in expression["values"]) is (operator == "In")


def _policies(live: Mapping[str, Object]) -> dict[str, Object]:
    return {path.rpartition("/")[2]: found for path, found in live.items() if "/propagationpolicies/" in path}


def _uid(found: Mapping[str, Any] | None) -> str:
    return str(found["metadata"]["uid"]) if found is not None else ""


def _named(found: Object, name: str) -> Object:
    return {**found, "metadata": {**found.get("metadata", {}), "name": name}}


def _image(found: Mapping[str, Any]) -> str:
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])


def _timed(value: Any, now: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _timed(item, now) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_timed(item, now) for item in value]
    return value.replace(NOW, now) if isinstance(value, str) else value

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The content of a workload, which a revision keeps, and the objects that it becomes in Karmada. Pure.

Only the kinds below are ever rendered, each from the fields that the CRD names: Karmada checks nothing of what a template holds, and
would bring a ClusterRoleBinding to every member.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ..base.input_problems import LABEL
from ..base.json_fields import text
from ..plan.steps import digest_of
from .models import FleetWorkload
from .names import DOMAIN, Tenant, karmada_namespace

WORKLOAD_LABEL: Final = f"{DOMAIN}/workload"
"""Label of the pods of a workload, by which the Deployment and the Service select them."""

RESTART_ANNOTATION: Final = f"{DOMAIN}/restarted-by"
"""Annotation of the pod template: the id of the operation that restarted the pods."""

REVISION_ANNOTATION: Final = f"{DOMAIN}/revision"
CONTENT_ANNOTATION: Final = f"{DOMAIN}/content"
"""Digest of the applied object: a field that is no longer wanted shows by it alone."""


class RenderedKind(NamedTuple):
    """One kind that is rendered: where it lives in the API, and its key in a ResourceBinding's name."""

    api_version: str
    plural: str

    @property
    def collection(self) -> str:
        """API path of the kind up to the namespace, with a placeholder for it."""
        group = "/api/v1" if self.api_version == "v1" else f"/apis/{self.api_version}"
        return f"{group}/namespaces/{{}}/{self.plural}"


WORKLOAD_KINDS: Final = ("Deployment", "StatefulSet", "DaemonSet")
KINDS: Final[Mapping[str, RenderedKind]] = {
    "Deployment": RenderedKind("apps/v1", "deployments"),
    "StatefulSet": RenderedKind("apps/v1", "statefulsets"),
    "DaemonSet": RenderedKind("apps/v1", "daemonsets"),
    "Service": RenderedKind("v1", "services"),
    "ConfigMap": RenderedKind("v1", "configmaps"),
    "ServiceAccount": RenderedKind("v1", "serviceaccounts"),
    "PersistentVolumeClaim": RenderedKind("v1", "persistentvolumeclaims"),
    "PodDisruptionBudget": RenderedKind("policy/v1", "poddisruptionbudgets"),
    "NetworkPolicy": RenderedKind("networking.k8s.io/v1", "networkpolicies"),
    "Ingress": RenderedKind("networking.k8s.io/v1", "ingresses"),
}
"""Every kind that a workload may consist of. No two of them have one name in different groups: a ResourceBinding is named by both."""

RESOURCE_KINDS: Final = tuple(kind for kind in KINDS if kind not in (*WORKLOAD_KINDS, "Service"))
"""Kinds that a tenant writes out beside a workload."""


class TenantObject(NamedTuple):
    """Kind and name of an object in the tenant's namespace."""

    kind: str
    name: str

    @property
    def binding(self) -> str:
        """Name of its ResourceBinding (Karmada: pkg/util/names, GenerateBindingName)."""
        return f"{self.name}-{self.kind.lower()}"

    def path(self, namespace: str) -> str:
        """Return the API path of the object."""
        return f"{KINDS[self.kind].collection.format(namespace)}/{self.name}"


def content_of(workload: FleetWorkload, restart: str = "") -> dict[str, Any]:
    """Return everything of a workload that a revision keeps: what its pods are and what is beside them, not how many and where.

    :param restart: id of the last restart, "" for none.
    """
    content: dict[str, Any] = {"kind": workload.kind, "template": dict(workload.template)}
    if workload.service is not None:
        content["service"] = dict(workload.service)
    if workload.resources:
        content["resources"] = [dict(resource) for resource in workload.resources]
    if workload.rollout.max_unavailable is not None:
        content["maxUnavailable"] = workload.rollout.max_unavailable
    if restart:
        content["restart"] = restart
    return content


def is_content(found: Mapping[str, Any]) -> bool:
    """Return whether the functions below can render it: a revision may have been made or changed by another program."""
    template, service, resources = found.get("template"), found.get("service", {"ports": []}), found.get("resources", [])
    if not isinstance(template, Mapping) or not isinstance(service, Mapping) or not isinstance(resources, list):
        return False
    ports = service.get("ports")
    named = all(
        isinstance(entry, Mapping) and entry.get("kind") in RESOURCE_KINDS and LABEL.fullmatch(text(entry, "name")) for entry in resources
    )
    return (
        found.get("kind") in WORKLOAD_KINDS
        and named
        and isinstance(template.get("spec"), Mapping)
        and isinstance(ports, list)
        and all(isinstance(port, Mapping) for port in ports)
        and isinstance(found.get("restart", ""), str)
        and all(_has_texts(part, field) for part in (template, service, *resources) for field in ("labels", "annotations"))
    )


def _has_texts(part: Mapping[str, Any], field: str) -> bool:
    value = part.get(field, {})
    return isinstance(value, Mapping) and all(isinstance(entry, str) for entry in value.values())


def content_hash(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 hex by which equal contents are known."""
    return digest_of(content)


def objects_of(tenant: Tenant, workload: FleetWorkload, content: Mapping[str, Any], revision: int) -> dict[TenantObject, dict[str, Any]]:
    """Return the templates of a workload with this content, by key, ready to be applied."""
    bodies = [_workload(workload, content), *_beside(workload.name, content)]
    found = {}
    for body in bodies:
        key = TenantObject(body["kind"], body["metadata"]["name"])
        found[key] = _marked(tenant, workload.name, body, revision)
    return found


def keys_of(name: str, content: Mapping[str, Any]) -> tuple[TenantObject, ...]:
    """Return the keys of all objects of a content."""
    service = (TenantObject("Service", name),) if "service" in content else ()
    further = tuple(TenantObject(entry["kind"], entry["name"]) for entry in content.get("resources", ()))
    return (TenantObject(content["kind"], name), *service, *further)


def _workload(workload: FleetWorkload, content: Mapping[str, Any]) -> dict[str, Any]:
    template, selector = content["template"], {WORKLOAD_LABEL: workload.name}
    metadata: dict[str, Any] = {"labels": {**template.get("labels", {}), **selector}}
    annotations = dict(template.get("annotations", {}))
    if content.get("restart"):
        annotations[RESTART_ANNOTATION] = content["restart"]
    if annotations:
        metadata["annotations"] = annotations
    spec: dict[str, Any] = {"selector": {"matchLabels": selector}, "template": {"metadata": metadata, "spec": dict(template["spec"])}}
    if content["kind"] != "DaemonSet":
        spec["replicas"] = workload.replicas
    if content["kind"] == "StatefulSet":
        spec["serviceName"] = workload.name
    if "maxUnavailable" in content:
        strategy = "strategy" if content["kind"] == "Deployment" else "updateStrategy"
        spec[strategy] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": content["maxUnavailable"]}}
    return _body(content["kind"], workload.name, spec=spec)


def _beside(name: str, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = []
    if "service" in content:
        found.append(_service(name, content["service"]))
    for entry in content.get("resources", ()):
        more = {part: entry[part] for part in ("data", "spec") if part in entry}
        found.append(_body(entry["kind"], entry["name"], labels=entry.get("labels"), annotations=entry.get("annotations"), **more))
    return found


def _service(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "type": given.get("type", "ClusterIP"),
        "selector": {WORKLOAD_LABEL: name},
        "ports": [{"protocol": "TCP", **port} for port in given["ports"]],
    }
    if given.get("headless"):
        spec["clusterIP"] = "None"
    return _body("Service", name, annotations=given.get("annotations"), spec=spec)


def _body(
    kind: str, name: str, *, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None, **parts: Any
) -> dict[str, Any]:
    metadata = {"name": name, **({"labels": dict(labels)} if labels else {}), **({"annotations": dict(annotations)} if annotations else {})}
    return {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": metadata, **parts}


def _marked(tenant: Tenant, workload: str, body: dict[str, Any], revision: int) -> dict[str, Any]:
    metadata = body["metadata"]
    metadata["namespace"] = karmada_namespace(tenant)
    metadata["labels"] = {**metadata.get("labels", {}), **tenant.labels_of(workload)}
    return with_digest(body, {REVISION_ANNOTATION: str(revision)} if body["kind"] in WORKLOAD_KINDS else {})


def with_digest(body: Mapping[str, Any], annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the body with these annotations and the digest of all of it."""
    metadata = dict(body["metadata"])
    metadata["annotations"] = {**metadata.get("annotations", {}), **(annotations or {})}
    digest = digest_of({**body, "metadata": metadata})[:16]
    metadata["annotations"] = {**metadata["annotations"], CONTENT_ANNOTATION: digest}
    return {**body, "metadata": metadata}


def is_part(wanted: Any, live: Any) -> bool:
    """Return whether ``live`` has all of ``wanted``; API servers and webhooks add defaults to mappings, never to lists of ours."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(key in live and is_part(value, live[key]) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(wanted) == len(live) and all(map(is_part, wanted, live))
    return bool(wanted == live)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Writes that make the RBAC objects of one cluster as wanted, and withdraw those that no function needs any more. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..base.json_fields import mapping, text
from ..findings.finding import Finding
from ..findings.wording import finding
from ..plan.steps import ApiWrite, Step
from .manifest import GROUP, SERVICE_ACCOUNT, Grant, Object, is_own, objects_of

ROOT: Final = f"/apis/{GROUP}/v1"
COLLECTIONS: Final = ("clusterrolebindings", "rolebindings", "clusterroles", "roles")
"""Resources of RBAC in the order in which they are withdrawn: a binding goes before its role."""

_PLURALS: Final = {
    "ClusterRoleBinding": "clusterrolebindings",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "Role": "roles",
}
_KINDS: Final = {plural: kind for kind, plural in _PLURALS.items()}
_COMPARED: Final = ("rules", "roleRef", "subjects")
_WAVE_WRITE, _WAVE_DELETE = 1, 2


@dataclass(frozen=True, kw_only=True)
class Present:
    """What a cluster has: ``at`` the paths of the wanted objects (None: nothing), and by resource the ``own`` objects of the mesh."""

    at: Mapping[str, Object | None]
    own: Mapping[str, Iterable[Object]]


def path_of(body: Mapping[str, Any]) -> str:
    """Return the API path of an object that this package makes."""
    metadata = body["metadata"]
    if body["kind"] == SERVICE_ACCOUNT:
        return f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{metadata['name']}"
    return _path(_PLURALS[body["kind"]], metadata)


def rbac_steps(grant: Grant, cluster: str, present: Present, *, wanted: bool) -> tuple[list[Step], list[Finding]]:
    """Return the writes, and a finding for each object of a wanted name that is not of this mesh.

    A ServiceAccount that is there stays as it is, and no ServiceAccount is deleted: others may use it.

    :param wanted: false withdraws everything.
    """
    steps: list[Step] = []
    findings: list[Finding] = []
    bodies = {path_of(body): body for body in objects_of(grant)} if wanted else {}
    for path, body in bodies.items():
        existing = present.at.get(path)
        if existing is None:
            steps.append(_write(cluster, path, body, "create"))
        elif body["kind"] == SERVICE_ACCOUNT:
            continue
        elif not is_own(existing, grant):
            findings.append(_foreign(cluster, body))
        elif any((existing.get(key) or []) != body.get(key, []) for key in _COMPARED):
            steps.append(_write(cluster, path, _changed(body, existing), "patch"))
    for plural in COLLECTIONS:
        for found in present.own.get(plural, ()):
            metadata = mapping(found, "metadata")
            path = _path(plural, metadata)
            if path not in bodies and text(metadata, "name") in (grant.name, f"{grant.name}-items") and is_own(found, grant):
                steps.append(_delete(cluster, plural, path, metadata))
    return steps, findings


def _path(plural: str, metadata: Mapping[str, Any]) -> str:
    namespace = metadata.get("namespace")
    return f"{ROOT}/{f'namespaces/{namespace}/' if namespace else ''}{plural}/{metadata['name']}"


def _changed(body: Object, existing: Object) -> Object:
    """Return the body of a merge patch, which replaces lists as a whole, and which the API server refuses if the object changed since."""
    metadata = {"labels": body["metadata"]["labels"], "resourceVersion": text(existing, "metadata", "resourceVersion")}
    return {**{key: body[key] for key in _COMPARED if key in body}, "metadata": metadata}


def _write(cluster: str, path: str, body: Object, verb: str) -> Step:
    kind, metadata = str(body.get("kind", "")) or _KINDS[path.split("/")[-2]], body["metadata"]
    place = path.split("/namespaces/")[1].partition("/")[0] if "/namespaces/" in path else ""
    return Step(
        wave=_WAVE_WRITE,
        cluster=cluster,
        verb=verb,
        object=_shown(kind, place, path.rpartition("/")[2]),
        why=_WHY[kind],
        undo="run rbac with the state absent",
        action=ApiWrite(method="apply" if verb == "create" else "merge", path=path, body={**body, "metadata": metadata}),
    )


def _delete(cluster: str, plural: str, path: str, metadata: Mapping[str, Any]) -> Step:
    body = {"metadata": {"uid": text(metadata, "uid"), "resourceVersion": text(metadata, "resourceVersion")}}
    return Step(
        wave=_WAVE_DELETE,
        cluster=cluster,
        verb="delete",
        object=_shown(_KINDS[plural], text(metadata, "namespace"), text(metadata, "name")),
        why="no function that is asked for needs it",
        undo="run rbac with the state present",
        action=ApiWrite(method="delete", path=path, body=body),
    )


_WHY: Final = {
    SERVICE_ACCOUNT: "it gets the rights",
    "ClusterRole": "rights in the whole cluster, or for items",
    "ClusterRoleBinding": "gives them to the account",
    "Role": "rights in the namespace of Cilium",
    "RoleBinding": "gives them to the account",
}


def _shown(kind: str, namespace: str, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def _foreign(cluster: str, body: Object) -> Finding:
    metadata = body["metadata"]
    shown = _shown(body["kind"], metadata.get("namespace", ""), metadata["name"])
    return finding(
        "CM-RBAC-03",
        cluster=cluster,
        summary=f"{shown} of {cluster} was made by others, or for another mesh: no rights are written there",
        evidence=f"{shown}: it has not the labels of this mesh",
        fix="Set cilium_mesh_rbac_name to another name, or delete the object if it is not needed.",
    )

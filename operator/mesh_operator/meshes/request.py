# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Request for a run, built from the objects of a mesh. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding

from ..base.choices import DEFAULT, PlatformChoices, refused_choices
from ..base.keys import MeshKey
from ..base.kinds import BY_KIND, INTENT, ITEMS
from ..credentials.management_plane import NotUsable, Usable
from ..source.stored import MeshObjects, Stored
from .records import Record

MESH_NOT_FOUND: Final = "MeshNotFound"
NOT_PERMITTED: Final = "NotPermitted"
ASSIGNS: Final = "cilium_mesh_assign_identities"  # variable of a run; a dry run that finds nothing to assign makes it needless
_NO_CLUSTER: Final = "There is no KubernetesCluster of this name in the namespace."

Json = Mapping[str, Any]
Found = Mapping[str, Usable | NotUsable]


@dataclass(frozen=True, kw_only=True)
class MeshRequest:
    """Run to be made. ``items``: those it carries out; ``leaving``: those it removes, with the binding when ``absent``."""

    key: MeshKey
    absent: bool  # remove everything
    cilium_mesh: Json
    hosts: Mapping[str, Json] = field(repr=False)  # with credentials
    variables: Json  # all variables of the run besides its hosts, cilium_mesh among them
    items: tuple[Stored, ...] = ()
    leaving: tuple[Stored, ...] = ()
    unavailable: Mapping[str, NotUsable] = field(default_factory=dict)  # those among ``hosts`` that the run will not reach
    linked: str = ""  # digest of everything that the links depend on, credentials included
    owner: str = ""  # owner hash of the mesh, without a tenant's text


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Mesh for which there is no run now. ``phase`` is Pending or Error; ``standing``: the objects of an earlier run still exist."""

    phase: str
    reason: str
    message: str
    standing: bool = False


@dataclass(frozen=True)
class NoOp:
    """Binding that is being deleted, and for which nothing was ever written."""


def request_of(
    mesh: MeshObjects, clusters: Found, record: Record | None, choices: PlatformChoices = DEFAULT
) -> MeshRequest | Wait | NoOp | None:
    """Return the request for a mesh; None if there is nothing to do: no binding and no item of it, or a binding that is missing just now.

    A mesh that was never carried out waits until all clusters are usable. One that was goes on with those that are; the others are given to
    the run as unavailable, with the reason (host variable cilium_mesh_unavailable).

    :param clusters: every cluster that the binding names, and every one that the record names.
    :param choices: of the platform. Without Jobs, the probe of an intent looks at flows alone, whatever the intent says.
    """
    binding = mesh.binding
    if binding is None:
        message = f"ClusterMeshBinding {mesh.key.name} does not exist in this namespace"
        return Wait(phase="Error", reason=MESH_NOT_FOUND, message=message) if any(mesh.items.values()) else None
    if binding.missing_since is not None:
        return None  # missing is not deleted
    refs = tuple(ref["name"] for ref in binding.obj["spec"]["clusterRefs"])
    recorded = record.clusters if record else ()
    found = {name: clusters.get(name) or NotUsable(name=name, reason="ClusterNotFound", message=_NO_CLUSTER) for name in (*refs, *recorded)}
    if binding.deleting:
        return _removal(mesh, refs, recorded, found) if recorded else NoOp()
    unusable = [entry for name in refs if isinstance(entry := found[name], NotUsable)]
    standing = record is not None and not record.tombstone
    if refused := refused_choices(binding.obj["spec"], choices.permitted):
        message = (
            f"The platform does not leave this choice to tenants: {', '.join(refused)}. Remove it from the spec, or ask the platform team."
        )
        return Wait(phase="Error", reason=NOT_PERMITTED, message=message, standing=standing)
    if unusable and (not standing or len(unusable) == len(refs)):
        return _wait(unusable, standing)
    return _present(mesh, binding, refs, recorded, found, choices)


def _wait(unusable: list[NotUsable], standing: bool) -> Wait:
    first = next((entry for entry in unusable if entry.fatal), unusable[0])
    message = " ".join(f"{entry.name}: {entry.message}" for entry in unusable)
    return Wait(phase="Error" if first.fatal else "Pending", reason=first.reason, message=message, standing=standing)


def _present(
    mesh: MeshObjects, binding: Stored, refs: tuple[str, ...], recorded: tuple[str, ...], found: Found, choices: PlatformChoices
) -> MeshRequest:
    """Return the run for an existing binding.

    A list in the variable is complete for its kind, also when it is empty: objects of items that are in no list are pruned. A kind that is
    not served has no list, and nothing of it is touched.
    """
    raw: dict[str, Any] = {"binding": {**entry_of(binding), **place_of(mesh.key)}}
    previous: dict[str, Any] = {"binding": binding.obj.get("status") or {}}
    items, leaving = list[Stored](), list[Stored]()
    for row in (row for row in ITEMS if row.kind not in mesh.unserved):
        every = mesh.items.get(row.kind, ())
        kept = [stored for stored in every if not stored.deleting and mesh.key.name in row.names_of_bindings(stored.obj)]
        raw[row.listed] = [entry_of(stored) if choices.job_probes else _without_job(stored.key.kind, entry_of(stored)) for stored in kept]
        previous[row.listed] = [{**(stored.obj.get("status") or {}), "name": stored.key.name} for stored in kept]
        items += kept
        staying = {stored.key for stored in kept}
        leaving += [stored for stored in every if stored.key not in staying and stored.missing_since is None]
    variables: dict[str, Any] = {"cilium_mesh_former": [name for name in recorded if name not in refs]}
    silent = {name for name in refs if isinstance(found[name], NotUsable)}
    if silent - set(
        recorded
    ):  # one that the mesh does not hold yet stops a run, unless so many may be silent (module_utils/mesh/tolerance.py)
        variables["mesh_connect_max_failures"] = len(silent)
    variables["cilium_mesh_previous_status"] = previous
    variables |= {"cilium_mesh_probe_image": choices.probe_image} if choices.probe_image else {}
    variables |= {ASSIGNS: True} if choices.assign_identities else {}
    return _request(mesh, raw, found, variables, items=tuple(items), leaving=tuple(leaving))


def _removal(mesh: MeshObjects, refs: tuple[str, ...], recorded: tuple[str, ...], found: Found) -> MeshRequest:
    """Return the run that removes the mesh from every cluster of the record.

    Usable clusters that are not in the record are observed too; the run waits for none of them.
    """
    kept = {name: entry for name, entry in found.items() if name in recorded or isinstance(entry, Usable)}
    raw = {"binding": {**place_of(mesh.key), "clusterRefs": [{"name": name} for name in kept]}}
    leaving = (*filter(None, [mesh.binding]), *(stored for row in ITEMS for stored in mesh.items.get(row.kind, ())))
    return _request(mesh, raw, kept, {"cilium_mesh_state": "absent"}, absent=True, leaving=leaving)


def _request(mesh: MeshObjects, raw: Json, found: Found, variables: Json, **rest: Any) -> MeshRequest:
    key = mesh.key
    hosts: dict[str, dict[str, Any]] = {ref["name"]: {} for ref in raw["binding"]["clusterRefs"]}
    hosts |= {name: _variables(entry) for name, entry in found.items()}
    links = [raw["binding"], hosts, variables.get("cilium_mesh_former")]
    return MeshRequest(
        key=key,
        cilium_mesh=raw,
        hosts=hosts,
        variables={"cilium_mesh": raw, **variables},
        unavailable={name: entry for name, entry in found.items() if isinstance(entry, NotUsable)},
        linked=hashlib.sha256(json.dumps(links, sort_keys=True).encode()).hexdigest(),
        owner=Binding(name=key.name, cluster_refs=(), workspace=key.workspace, namespace=key.namespace).owner,
        **{"absent": False, **rest},
    )


def _variables(entry: Usable | NotUsable) -> dict[str, Any]:
    if isinstance(entry, NotUsable):
        return {"cilium_mesh_unavailable": entry.message}
    return {"cilium_mesh_kubeconfig": dict(entry.kubeconfig), **entry.variables}


def entry_of(stored: Stored) -> dict[str, Any]:
    """Return all of an object that reaches a run: name, generation and spec, and its creation time by the server where that counts."""
    metadata = stored.obj["metadata"]
    spec = {key: value for key, value in stored.obj["spec"].items() if key != "meshRef"}
    made = {"createdAt": metadata["creationTimestamp"]} if BY_KIND[stored.key.kind].by_age and "creationTimestamp" in metadata else {}
    return {**spec, **made, "name": stored.key.name, "generation": int(metadata.get("generation") or 0)}


def _without_job(kind: str, entry: dict[str, Any]) -> dict[str, Any]:
    probe = entry.get("probe")
    if kind != INTENT or not isinstance(probe, Mapping):
        return entry
    return {**entry, "probe": {**{key: value for key, value in probe.items() if key not in ("image", "command")}, "method": "hubble"}}


def place_of(key: MeshKey) -> dict[str, str]:
    """Return name, workspace and namespace of a mesh, as the variable ``cilium_mesh`` has them."""
    return {"name": key.name, "workspace": key.workspace, "namespace": key.namespace}

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reading of what the members of a tenant are, in Karmada, in the management plane and in the clusters themselves. It writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..base.errors import ServerRefused
from ..base.json_fields import annotations_of, items, mapping, text, texts
from ..fleet.names import karmada_namespace
from ..kube.client import Cluster
from .contents import Found, found_at, namespaced_kinds, read_contents
from .facts import ClusterSide, KarmadaFacts, PreservedWork
from .management import CLUSTERS as PLANE_CLUSTERS
from .models import Member, MemberRequest
from .names import (
    ACCOUNTS,
    BINDINGS,
    CLUSTERS,
    CONFIG_MAPS,
    CORE,
    IMPERSONATOR,
    NAMESPACE,
    RBAC,
    TOMBSTONE_LABEL,
    WORK_NAMESPACE,
    WORKS,
    account_of,
    role_of,
)


def read_karmada(karmada: Cluster, request: MemberRequest, leaving: bool) -> KarmadaFacts:
    """Return Karmada's side of all members.

    :param leaving: whether the members are to leave; only then workloads and Works are read.
    :raises ClusterError: when it does not answer, or is no Karmada.
    """
    clusters = karmada.list_if_served(CLUSTERS)
    if clusters is None:
        raise ServerRefused(
            "The API server serves no Cluster of cluster.karmada.io, so it is not Karmada's.",
            remedy="Let fleet.karmada name the host whose kubeconfig leads to Karmada's API server.",
            cluster=karmada.host,
            status=404,
        )
    tombstones = karmada.list(CONFIG_MAPS, label_selector=f"{TOMBSTONE_LABEL}=true")
    names = {member.member for member in request.members}
    bindings = karmada.list(BINDINGS.format(karmada_namespace(request.tenant))) if leaving else []
    return KarmadaFacts(
        clusters={text(found, "metadata", "name"): found for found in clusters},
        tombstones={text(found, "data", "member"): found for found in tombstones},
        placed=_placed((binding for binding in bindings if not _is_going(binding)), names),
        going=_placed((binding for binding in bindings if _is_going(binding)), names),
        works={name: preserved_works(karmada, name) for name in names} if leaving else {},
    )


def _is_going(binding: Mapping[str, Any]) -> bool:
    """Return whether a ResourceBinding is being deleted, as each is whose template, its owner, is gone (Karmada: pkg/detector)."""
    return bool(text(binding, "metadata", "deletionTimestamp"))


def _placed(bindings: Iterable[Mapping[str, Any]], names: Collection[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for binding in bindings:
        resource = mapping(binding, "spec", "resource")
        for target in items(binding, "spec", "clusters"):
            if text(target, "name") in names:
                found.setdefault(text(target, "name"), []).append(f"{text(resource, 'kind')} {text(resource, 'name')}")
    return {name: tuple(sorted(every)) for name, every in found.items()}


def preserved_works(karmada: Cluster, name: str) -> tuple[PreservedWork, ...]:
    """Return the Works of a member that Karmada would not delete there.

    :param name: of the member.
    :raises ClusterError: when Karmada does not answer.
    """
    found = []
    for work in karmada.list(WORKS.format(name)):
        if mapping(work, "spec").get("preserveResourcesOnDeletion") is True:
            metadata = mapping(work, "metadata")
            deleting = bool(text(metadata, "deletionTimestamp"))
            found.append(PreservedWork(text(metadata, "name"), text(metadata, "resourceVersion"), texts(metadata, "finalizers"), deleting))
    return tuple(found)


def read_plane(plane: Cluster, request: MemberRequest) -> dict[str, Mapping[str, Any]]:
    """Return the Clusters of the management plane, by name.

    :raises ClusterError: when it does not answer, or has no such type.
    """
    found = plane.list_if_served(PLANE_CLUSTERS.format(request.management_namespace))
    if found is None:
        raise ServerRefused(
            "The API server serves no Cluster of platform.edge-portal.eu, so it is not the management plane's.",
            remedy="Let fleet.managementPlane name the host whose kubeconfig leads to the management plane.",
            cluster=plane.host,
            status=404,
        )
    return {text(entry, "metadata", "name"): entry for entry in found}


def read_side(cluster: Cluster, member: Member, networks: tuple[str, ...], *, contents: bool) -> ClusterSide:
    """Return what a cluster itself holds.

    :param networks: ranges at which its API server may be although they are special.
    :param contents: whether to look into its namespaces, by one list for each of its resource types.
    :raises ClusterError: when it does not answer.
    """
    system = cluster.get(f"{CORE}/kube-system") or {}
    account = account_of(member)
    kinds = namespaced_kinds(cluster) if contents else ()
    own = (("serviceaccounts", account), ("serviceaccounts", IMPERSONATOR))
    return ClusterSide(
        uid=text(system, "metadata", "uid"),
        endpoint=cluster.endpoint,
        endpoint_networks=networks,
        namespace=cluster.get(f"{CORE}/{NAMESPACE}"),
        account=cluster.get(f"{ACCOUNTS}/{account}"),
        impersonator=cluster.get(f"{ACCOUNTS}/{IMPERSONATOR}"),
        role=cluster.get(f"{RBAC}/clusterroles/{role_of(member)}"),
        binding=cluster.get(f"{RBAC}/clusterrolebindings/{role_of(member)}"),
        contents=read_contents(cluster, karmada_namespace(member.tenant), kinds) if contents else None,
        rest=read_contents(cluster, NAMESPACE, kinds, own) if contents else None,
        brought=_impersonation(cluster, member) if contents else (),
    )


def _impersonation(cluster: Cluster, member: Member) -> tuple[Found, ...]:
    """Return the rights of the impersonator, which Karmada brings to each member, and takes back only from one that answers.

    Source: pkg/controllers/unifiedauth of Karmada.
    """
    found = []
    for plural in ("clusterrolebindings", "clusterroles"):
        path = f"{RBAC}/{plural}/{IMPERSONATOR}"
        there = cluster.get(path)
        if there is not None and annotations_of(there).get(WORK_NAMESPACE) == f"karmada-es-{member.member}":
            found.append(found_at(path, f"{plural} {IMPERSONATOR}", there))
    return tuple(found)


def still_there(cluster: Cluster, member: Member, awaited: Iterable[Found]) -> tuple[Found, ...]:
    """Return those of the objects that are still there.

    :raises ClusterError: when the cluster does not answer.
    """
    inside = f"/namespaces/{karmada_namespace(member.tenant)}/"  # where the documented rights are to list and delete, not to get
    return tuple(entry for entry in awaited if _uid(cluster, entry.path, listed=inside in entry.path) == entry.uid)


def _uid(cluster: Cluster, path: str, *, listed: bool) -> str:
    if not listed:
        return text(cluster.get(path) or {}, "metadata", "uid")
    collection, name = path.rsplit("/", 1)
    every = cluster.list(collection, metadata_only=True)
    return next((text(entry, "metadata", "uid") for entry in every if text(entry, "metadata", "name") == name), "")

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reads of what the members of a tenant are, and the facts in the answers of Karmada, the management plane and the clusters. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ..base.errors import ServerRefused
from ..base.json_fields import annotations_of, items, mapping, text, texts
from ..fleet.names import karmada_namespace
from ..kubeconfig.endpoint import Endpoint
from ..observe.namespaces import NamespaceContents
from ..observe.reads import Read
from .contents import Found, found_at, judge
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

ALL_CLUSTERS: Final = Read(path=CLUSTERS, many=True, if_served=True)

_BROUGHT: Final = ("clusterrolebindings", "clusterroles")


def get(path: str) -> dict[str, Read]:
    """Return the read of one object, by its path."""
    return {path: Read(path=path)}


def karmada_reads(request: MemberRequest, *, leaving: bool) -> dict[str, Read]:
    """Return the reads of Karmada's side of all members, beside ``ALL_CLUSTERS``.

    :param leaving: whether the members are to leave; only then workloads and Works are read.
    """
    tombstones = Read(path=CONFIG_MAPS, many=True, label_selector=f"{TOMBSTONE_LABEL}=true")
    if not leaving:
        return {"tombstones": tombstones}
    bindings = Read(path=BINDINGS.format(karmada_namespace(request.tenant)), many=True)
    return {"tombstones": tombstones, "bindings": bindings, **{_works(member.member): works_read(member) for member in request.members}}


def _works(name: str) -> str:
    return f"works {name}"


def works_read(member: Member) -> Read:
    """Return the read of the Works of a member."""
    return Read(path=WORKS.format(member.member), many=True)


def served_clusters(found: Sequence[Mapping[str, Any]] | None, host: str) -> dict[str, Mapping[str, Any]]:
    """Return the Clusters of Karmada, by name.

    :param found: answer to ``ALL_CLUSTERS``; None: they are not served.
    :raises ServerRefused: when it is no Karmada.
    """
    if found is None:
        raise ServerRefused(
            "The API server serves no Cluster of cluster.karmada.io, so it is not Karmada's.",
            remedy="Let fleet.karmada name the host whose kubeconfig leads to Karmada's API server.",
            cluster=host,
            status=404,
        )
    return {text(entry, "metadata", "name"): entry for entry in found}


def karmada_facts(request: MemberRequest, clusters: Mapping[str, Mapping[str, Any]], found: Mapping[str, Any]) -> KarmadaFacts:
    """Return Karmada's side of all members.

    :param found: answers to ``karmada_reads``.
    """
    names = {member.member for member in request.members}
    bindings = found.get("bindings", ())
    return KarmadaFacts(
        clusters=clusters,
        tombstones={text(entry, "data", "member"): entry for entry in found["tombstones"]},
        placed=_placed((binding for binding in bindings if not _is_going(binding)), names),
        going=_placed((binding for binding in bindings if _is_going(binding)), names),
        works={name: preserved_works(found[_works(name)]) for name in names if _works(name) in found},
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


def preserved_works(works: Iterable[Mapping[str, Any]]) -> tuple[PreservedWork, ...]:
    """Return the Works of a member that Karmada would not delete there."""
    found = []
    for work in works:
        if mapping(work, "spec").get("preserveResourcesOnDeletion") is True:
            metadata = mapping(work, "metadata")
            deleting = bool(text(metadata, "deletionTimestamp"))
            found.append(PreservedWork(text(metadata, "name"), text(metadata, "resourceVersion"), texts(metadata, "finalizers"), deleting))
    return tuple(found)


def plane_read(request: MemberRequest) -> Read:
    """Return the read of the Clusters of the management plane."""
    return Read(path=PLANE_CLUSTERS.format(request.management_namespace), many=True, if_served=True)


def plane_clusters(found: Sequence[Mapping[str, Any]] | None, host: str) -> dict[str, Mapping[str, Any]]:
    """Return the Clusters of the management plane, by name.

    :param found: answer to ``plane_read``.
    :raises ServerRefused: when it has no such type.
    """
    if found is None:
        raise ServerRefused(
            "The API server serves no Cluster of platform.edge-portal.eu, so it is not the management plane's.",
            remedy="Let fleet.managementPlane name the host whose kubeconfig leads to the management plane.",
            cluster=host,
            status=404,
        )
    return {text(entry, "metadata", "name"): entry for entry in found}


def side_reads(member: Member, *, contents: bool) -> dict[str, Read]:
    """Return the reads of what a cluster itself holds, beside the contents of ``namespaces_of``.

    :param contents: whether they are read too.
    """
    account, role = account_of(member), role_of(member)
    brought = {f"{plural} {IMPERSONATOR}": Read(path=f"{RBAC}/{plural}/{IMPERSONATOR}") for plural in _BROUGHT}
    return {
        "system": Read(path=f"{CORE}/kube-system"),
        "namespace": Read(path=f"{CORE}/{NAMESPACE}"),
        "account": Read(path=f"{ACCOUNTS}/{account}"),
        "impersonator": Read(path=f"{ACCOUNTS}/{IMPERSONATOR}"),
        "role": Read(path=f"{RBAC}/clusterroles/{role}"),
        "binding": Read(path=f"{RBAC}/clusterrolebindings/{role}"),
        **(brought if contents else {}),
    }


def namespaces_of(member: Member) -> tuple[str, str]:
    """Return the namespaces whose contents decide what may be removed: the tenant's, and that of the accounts."""
    return karmada_namespace(member.tenant), NAMESPACE


def side_of(
    member: Member,
    found: Mapping[str, Any],
    contents: Mapping[str, NamespaceContents | None],
    *,
    endpoint: Endpoint,
    networks: tuple[str, ...],
) -> ClusterSide:
    """Return what a cluster itself holds.

    :param found: answers to ``side_reads``.
    :param contents: of ``namespaces_of``; {} if they were not read.
    :param networks: ranges at which its API server may be although they are special.
    """
    tenants, accounts = namespaces_of(member)
    own = (("serviceaccounts", account_of(member)), ("serviceaccounts", IMPERSONATOR))
    return ClusterSide(
        uid=text(found["system"] or {}, "metadata", "uid"),
        endpoint=endpoint,
        endpoint_networks=networks,
        namespace=found["namespace"],
        account=found["account"],
        impersonator=found["impersonator"],
        role=found["role"],
        binding=found["binding"],
        contents=judge(contents.get(tenants)),
        rest=judge(contents.get(accounts), own),
        brought=tuple(_impersonation(member, found)),
    )


def _impersonation(member: Member, found: Mapping[str, Any]) -> Iterator[Found]:
    """Yield the rights of the impersonator, which Karmada brings to each member, and takes back only from one that answers.

    Source: pkg/controllers/unifiedauth of Karmada.
    """
    for plural in _BROUGHT:
        name = f"{plural} {IMPERSONATOR}"
        existing = found.get(name)
        if existing is not None and annotations_of(existing).get(WORK_NAMESPACE) == f"karmada-es-{member.member}":
            yield found_at(f"{RBAC}/{plural}/{IMPERSONATOR}", name, existing)


def awaited_reads(member: Member, awaited: Iterable[Found]) -> dict[str, Read]:
    """Return the reads that tell which of the objects are still there, by path."""
    inside = f"/namespaces/{karmada_namespace(member.tenant)}/"  # where the documented rights are to list and delete, not to get
    paths = [entry.path for entry in awaited]
    lists = {path: Read(path=path.rpartition("/")[0], many=True, metadata_only=True) for path in paths if inside in path}
    return {path: lists.get(path) or Read(path=path) for path in paths}


def still_there(awaited: Iterable[Found], found: Mapping[str, Any]) -> tuple[Found, ...]:
    """Return those of the objects that are still there.

    :param found: answers to ``awaited_reads``.
    """
    return tuple(entry for entry in awaited if _uid(entry.path.rpartition("/")[2], found[entry.path]) == entry.uid)


def _uid(name: str, answer: Any) -> str:
    listed = answer if isinstance(answer, list) else [answer or {}]
    return next((text(entry, "metadata", "uid") for entry in listed if text(entry, "metadata", "name") == name), "")

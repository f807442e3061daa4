# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Observation of clusters as ``TrafficFacts``. Lists only: their number depends on the kinds of items, never on the number of items.

    1 /apis (served API groups) · 1 list of namespaces                                                   always
    1 list each of services, endpointslices                                                              global services, exposures
    1 list each of CiliumNetworkPolicy, CiliumClusterwideNetworkPolicy                                   intents, exposures
    1 list each of NetworkPolicy, pods, pods of the host's network (metadata alone)                      intents
    1 list each of ServiceExport, ServiceImport where MCS-API is served                                  global services
    1 list each of GatewayClass, Gateway, HTTPRoute where they are served                                exposures

RBAC wanted: ``list`` on these, in all namespaces. Reads that planning can do without are ``optional`` and become ``TrafficFacts.unread``.

An absent object is pruned in other clusters, so half an answer must never look like an empty one: a cluster whose lists cannot be read
whole counts as one that does not answer. A kind that goes away while it is read (its CRD is replaced, say) becomes ``unread`` too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from ..base.errors import ClusterError, Forbidden, ServerRefused
from ..base.json_fields import annotations_of, items, labels_of, mapping, number, text, texts
from ..kube.client import Cluster
from ..mesh.binding.item_kinds import ItemKind
from ..mesh.facts.cluster import ObserveFailure, Unread
from ..mesh.facts.traffic import GATEWAY_GROUP, MCS_GROUP, EndpointFacts, Key, ObjectFacts, PodMeta, SliceFacts, TrafficFacts

REQUESTS_AT_ONCE: Final = 4


ALWAYS: Final = frozenset({"discovery.k8s.io/v1", "networking.k8s.io/v1"})
"""API groups built into every API server. An answer without them comes from a proxy or a starting server: CRDs come even later."""


@dataclass(frozen=True, kw_only=True)
class _List:
    """One list in all namespaces. ``group`` "" is the core; ``version`` "" is any served version (then none is no error)."""

    kind: str
    resource: str
    group: str = ""
    version: str = ""
    metadata_only: bool = False
    optional: bool = False
    field_selector: str = ""

    def collection(self, served: Collection[str]) -> str:
        """Return the API path; "" if the cluster does not serve it."""
        if not self.group:
            return f"/api/v1/{self.resource}"
        versions = sorted(entry.partition("/")[2] for entry in served if entry.partition("/")[0] == self.group)
        version = self.version or (versions[0] if versions else "")
        return f"/apis/{self.group}/{version}/{self.resource}" if version in versions else ""


LISTS: Final[Mapping[str, _List]] = {
    "namespaces": _List(kind="Namespace", resource="namespaces"),
    "services": _List(kind="Service", resource="services"),
    "endpointslices": _List(kind="EndpointSlice", resource="endpointslices", group="discovery.k8s.io", version="v1"),
    "ciliumnetworkpolicies": _List(kind="CiliumNetworkPolicy", resource="ciliumnetworkpolicies", group="cilium.io", version="v2"),
    "ciliumclusterwidenetworkpolicies": _List(
        kind="CiliumClusterwideNetworkPolicy", resource="ciliumclusterwidenetworkpolicies", group="cilium.io", version="v2"
    ),
    "networkpolicies": _List(kind="NetworkPolicy", resource="networkpolicies", group="networking.k8s.io", version="v1", optional=True),
    "pods": _List(kind="Pod", resource="pods", metadata_only=True, optional=True),
    "hostpods": _List(
        kind="Pod",
        resource="pods",
        metadata_only=True,
        optional=True,
        field_selector="spec.hostNetwork=true",  # from Kubernetes 1.28 (kubernetes/kubernetes, pull request 110477)
    ),
    "serviceexports": _List(kind="ServiceExport", resource="serviceexports", group=MCS_GROUP, optional=True),
    "serviceimports": _List(kind="ServiceImport", resource="serviceimports", group=MCS_GROUP, optional=True),
    "gateways": _List(kind="Gateway", resource="gateways", group=GATEWAY_GROUP, version="v1", optional=True),
    "gatewayclasses": _List(kind="GatewayClass", resource="gatewayclasses", group=GATEWAY_GROUP, version="v1", optional=True),
    "httproutes": _List(kind="HTTPRoute", resource="httproutes", group=GATEWAY_GROUP, version="v1", optional=True),
}


def lists_of(kinds: Collection[ItemKind]) -> dict[str, _List]:
    """Return the lists that planning items of ``kinds`` needs, by name."""
    needed = {"namespaces"}.union(*(kind.reads for kind in kinds)) if kinds else set()
    return {name: entry for name, entry in LISTS.items() if name in needed}


def read_traffic(cluster: Cluster, kinds: Collection[ItemKind]) -> TrafficFacts:
    """Read all facts of one cluster that planning items of ``kinds`` needs.

    :raises ClusterError: when it does not answer, or RBAC forbids lists that planning cannot do without; all of those in one message.
    """
    served = _served(cluster)
    wanted = {name: path for name, entry in lists_of(kinds).items() if (path := entry.collection(served))}
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        pending = {
            name: pool.submit(
                cluster.list_if_served, path, metadata_only=LISTS[name].metadata_only, field_selector=LISTS[name].field_selector
            )
            for name, path in wanted.items()
        }
        answers: dict[str, Any] = {}
        errors: dict[str, ClusterError] = {}
        for name, future in pending.items():
            try:
                answers[name] = future.result()
            except ClusterError as error:
                errors[name] = error
    hard = {name: error for name, error in errors.items() if not _dispensable(LISTS[name], error)}
    if hard:
        raise _one_error(cluster.host, hard)
    unread = tuple(Unread(what=name, message=error.message, remedy=error.remedy) for name, error in errors.items())
    gone = tuple(_not_served(cluster.host, wanted[name], name) for name, answer in answers.items() if answer is None)
    if not answers["namespaces"]:
        raise ServerRefused("The API server lists no namespace at all, and every cluster has some.", remedy=_WHOLE, cluster=cluster.host)
    return assemble(cluster.host, served, answers, (*unread, *gone))


def _dispensable(entry: _List, error: ClusterError) -> bool:
    """Return whether planning can do without a list. An API server answers 400 to a field selector that it does not know."""
    unknown = isinstance(error, ServerRefused) and error.status == HTTPStatus.BAD_REQUEST and bool(entry.field_selector)
    return entry.optional and (isinstance(error, Forbidden) or unknown)


ReadTraffic = Callable[..., tuple[dict[str, TrafficFacts], dict[str, ObserveFailure]]]
"""The port of which ``read_all_traffic`` is the one to real clusters."""


def read_all_traffic(
    clusters: Mapping[str, Cluster], kinds: Collection[ItemKind], *, parallel: int = 10
) -> tuple[dict[str, TrafficFacts], dict[str, ObserveFailure]]:
    """Read the traffic facts of all clusters side by side; return the facts and the failures by inventory name."""
    found: dict[str, TrafficFacts] = {}
    failures: dict[str, ObserveFailure] = {}
    with ThreadPoolExecutor(max(1, min(parallel, len(clusters) or 1))) as pool:
        pending = {host: pool.submit(read_traffic, cluster, kinds) for host, cluster in clusters.items()}
        for host, future in pending.items():
            try:
                found[host] = future.result()
            except ClusterError as error:
                failures[host] = ObserveFailure(host=host, code=error.code, message=error.message, remedy=error.remedy, detail=error.detail)
    return found, failures


def assemble(host: str, served: Iterable[str], answers: Mapping[str, Any], unread: tuple[Unread, ...] = ()) -> TrafficFacts:
    """Return the decoded lists, by the names of ``LISTS``, as facts. Pure."""

    def objects(name: str) -> tuple[ObjectFacts, ...]:
        entry = LISTS[name]
        base = entry.collection(tuple(served_now))
        return tuple(object_facts(entry.kind, entry.resource, base, value) for value in answers.get(name) or ())

    served_now = frozenset(served)
    on_host = {(text(pod, "metadata", "namespace"), text(pod, "metadata", "name")) for pod in answers.get("hostpods") or ()}
    policies = ("ciliumnetworkpolicies", "ciliumclusterwidenetworkpolicies", "networkpolicies")
    return TrafficFacts(
        host=host,
        served=served_now,
        namespaces={entry.name: entry for entry in objects("namespaces")},
        services={entry.key: entry for entry in objects("services")},
        slices=tuple(_slice(value) for value in answers.get("endpointslices") or ()),
        pods=tuple(_pod(value, on_host) for value in answers.get("pods") or ()),
        policies=tuple(entry for name in policies for entry in objects(name)),
        exports={entry.key: entry for entry in objects("serviceexports")},
        imports={entry.key: entry for entry in objects("serviceimports")},
        gateways={entry.key: entry for entry in objects("gateways")},
        gateway_classes={entry.name: entry for entry in objects("gatewayclasses")},
        routes=objects("httproutes"),
        unread=unread,
    )


def object_facts(kind: str, resource: str, collection: str, value: Any) -> ObjectFacts:
    """Return the facts of one object of a list.

    :param collection: the path that lists ``resource`` in all namespaces.
    """
    namespace, name = text(value, "metadata", "namespace"), text(value, "metadata", "name")
    root = collection[: -len(resource)]
    path = f"{root}namespaces/{namespace}/{resource}/{name}" if namespace else f"{collection}/{name}"
    owner: Mapping[str, Any] = next((o for o in items(value, "metadata", "ownerReferences") if o.get("controller") is True), {})
    return ObjectFacts(
        kind=kind,
        path=path,
        namespace=namespace,
        name=name,
        uid=text(value, "metadata", "uid"),
        resource_version=text(value, "metadata", "resourceVersion"),
        created=text(value, "metadata", "creationTimestamp"),
        changed=_changed(value),
        labels=labels_of(value),
        annotations=annotations_of(value),
        owner_kind=text(owner, "kind"),
        writers=tuple(sorted({text(entry, "manager") for entry in _writes(value)})),
        spec=mapping(value, "spec"),
        specs=tuple(items(value, "specs")),
        status=mapping(value, "status"),
    )


def _changed(value: Any) -> str:
    """Return the time of the newest write of the object itself."""
    return max((text(entry, "time") for entry in _writes(value)), default="")


def _writes(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of managedFields, without those of the status, which agents and controllers write."""
    return (entry for entry in items(value, "metadata", "managedFields") if not text(entry, "subresource"))


def _slice(value: Any) -> SliceFacts:
    labels = labels_of(value)
    return SliceFacts(
        namespace=text(value, "metadata", "namespace"),
        name=text(value, "metadata", "name"),
        service=labels.get("kubernetes.io/service-name", ""),
        managed_by=labels.get("endpointslice.kubernetes.io/managed-by", ""),
        source_cluster=labels.get("multicluster.kubernetes.io/source-cluster", ""),
        ports=tuple((text(p, "name"), text(p, "protocol") or "TCP", number(p, "port")) for p in items(value, "ports")),
        endpoints=tuple(_endpoint(address, e) for e in items(value, "endpoints") for address in texts(e, "addresses") if address),
    )


def _endpoint(address: str, value: Mapping[str, Any]) -> EndpointFacts:
    """Return one endpoint. Unset conditions mean ready (EndpointSlice API: "nil should be interpreted as true")."""
    conditions = mapping(value, "conditions")
    ready = conditions.get("ready") is not False
    return EndpointFacts(
        address=address,
        ready=ready,
        serving=ready if conditions.get("serving") is None else conditions.get("serving") is True,
        node=text(value, "nodeName"),
        pod=text(value, "targetRef", "name") if text(value, "targetRef", "kind") == "Pod" else "",
    )


def _pod(value: Any, on_host: Collection[Key]) -> PodMeta:
    owner: Mapping[str, Any] = next((o for o in items(value, "metadata", "ownerReferences") if o.get("controller") is True), {})
    namespace, name = text(value, "metadata", "namespace"), text(value, "metadata", "name")
    return PodMeta(
        namespace=namespace,
        name=name,
        host_network=(namespace, name) in on_host,
        labels=labels_of(value),
        owner=f"{text(owner, 'kind')} {text(owner, 'name')}" if owner else "",
    )


_WHOLE: Final = (
    "Run again; if the error stays, check whether a proxy before the API server answers in its place or hides a part of the API."
)


def _served(cluster: Cluster) -> frozenset[str]:
    answer = cluster.get("/apis") or {}
    found = frozenset(text(version, "groupVersion") for group in items(answer, "groups") for version in items(group, "versions"))
    if not found >= ALWAYS:
        raise ServerRefused("The API server does not list all of its API groups (/apis).", remedy=_WHOLE, cluster=cluster.host)
    return found


def _not_served(host: str, path: str, name: str) -> Unread:
    """Return the unread entry for a 404 on a kind that /apis announced. A CRD may come and go; a built-in kind may not.

    :raises ServerRefused: when the kind is built in.
    """
    group = LISTS[name].group
    if not group or f"{group}/{LISTS[name].version}" in ALWAYS:
        raise ServerRefused(f"The API server answered 404 to list {name}, which every cluster has.", remedy=_WHOLE, cluster=host)
    return Unread(what=name, message=f"The cluster does not serve {name} ({path}).", remedy="Install the CRD, or run again in a minute.")


def _one_error(host: str, errors: Mapping[str, ClusterError]) -> ClusterError:
    """Return all that RBAC forbids in one message, so that the role is extended once; else the first error of another kind."""
    other = next((error for error in errors.values() if not isinstance(error, Forbidden)), None)
    if other is not None:
        return other
    return Forbidden.of_several((error for error in errors.values() if isinstance(error, Forbidden)), host)

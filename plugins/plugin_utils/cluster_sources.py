# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters that a management cluster knows: of the management plane, of Cluster API, and of Argo CD.

A cluster whose kubeconfig cannot be had is found all the same, with the reason: that nothing is known of it does not mean that it is gone.
A list that fails is an error, since then nothing is known of any cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from ..module_utils.base.errors import ClusterError, InvalidInput
from ..module_utils.base.input_problems import LABEL
from ..module_utils.base.json_fields import annotations_of, items, labels_of, mapping, text
from ..module_utils.base.redact import one_line
from ..module_utils.kube.client import Cluster, Object
from ..module_utils.kubeconfig.invalid import KubeconfigInvalid
from ..module_utils.kubeconfig.secret import ARGO_LABEL, argo_text
from ..module_utils.members.management import provisioning_of
from .found_cluster import FoundCluster
from .host_credentials import KUBECONFIG_FROM
from .play import ENDPOINT_OVERRIDE, NAMESPACE, UNAVAILABLE
from .secret_kubeconfigs import SecretReference, kubeconfig_from, kubeconfig_of_found, reason_of, reference_of

PARALLEL: Final = 8  # Secrets that are read at once
PLANE: Final = "platform.edge-portal.eu/v1alpha1"
CAPI: Final = "cluster.x-k8s.io"
SOURCE_NAME: Final = "edge-connect.eu/source-name"
ANNOTATIONS: Final = {
    "networking.edge-portal.eu/cilium-namespace": NAMESPACE,
    "networking.edge-portal.eu/endpoint": ENDPOINT_OVERRIDE,
}
"""Annotations of a Cluster, and the host variables that they become (docs/management-plane.md)."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the clusters of a management cluster are asked for.

    :param kubeconfig: absolute paths of the kubeconfig of the management cluster, and ``context`` in it.
    :param namespaces: of it; () for all.
    :param exec: as in SecretReference.
    """

    source: str
    kubeconfig: str
    context: str = ""
    namespaces: tuple[str, ...] = ()
    label_selector: str = ""
    exec: bool = False


@dataclass(frozen=True)
class _Named:
    """Cluster with the name of the Secret of its kubeconfig, None where none is named.

    ``why``: it is not available, "" for not known yet. ``secret``: the Secret itself, where the list had it.
    """

    found: FoundCluster
    reference: SecretReference | None
    why: str = ""
    secret: Object | None = field(default=None, repr=False)


def clusters_of(asked: Asked, cluster: Cluster, is_wanted: Callable[[str], bool] = lambda name: True) -> list[FoundCluster]:
    """Return every cluster of a source. Hosts of those whose kubeconfig cannot be had have the reason as ``cilium_mesh_unavailable``.

    :param is_wanted: judges a name; Secrets of other clusters are not read, except for those of Argo CD, which have the names.
    :raises ClusterError: when a list fails.
    :raises InvalidInput: when the management cluster does not have the kind of the source.
    """
    every = [named for named in _SOURCES[asked.source](asked, cluster) if is_wanted(named.found.name)]
    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(lambda named: _host(_seen(named, cluster)), every))


def _of_management_plane(asked: Asked, cluster: Cluster) -> list[_Named]:
    def named(obj: Object) -> _Named:
        made = provisioning_of(obj)
        why = "" if made.ready else f"The management plane does not report it as ready (reason: {made.reason or 'none'})."
        ref = mapping(obj, "status", "kubeconfigSecretRef")
        found = _found("Cluster", obj, labels_of(obj).get(SOURCE_NAME, ""))
        if not text(ref, "name"):
            return _Named(found, None, why or "The management plane names no Secret with its kubeconfig.")
        return _named(asked, found, obj, text(ref, "name"), text(ref, "key"), why)

    return [named(obj) for obj in _listed(cluster, asked, f"/apis/{PLANE}", "clusters")]


def _of_cluster_api(asked: Asked, cluster: Cluster) -> list[_Named]:
    def named(obj: Object) -> _Named:
        # cluster-api, util/secret: the Secret is NAME-kubeconfig, with the key value
        return _named(asked, _found("Cluster", obj), obj, f"{text(obj, 'metadata', 'name')}-kubeconfig", "value", _not_initialised(obj))

    group = cluster.get(f"/apis/{CAPI}")
    version = text(group, "preferredVersion", "groupVersion")
    if not version.startswith(f"{CAPI}/"):
        raise _not_served("clusters", CAPI)
    return [named(obj) for obj in _listed(cluster, asked, f"/apis/{version}", "clusters")]


def _not_initialised(obj: Object) -> str:
    """Return why the control plane of a Cluster of Cluster API takes no requests; "" if it does.

    v1beta2 has ``status.initialization.controlPlaneInitialized``, v1beta1 the condition and ``status.controlPlaneReady``.
    """
    status = mapping(obj, "status")
    conditions = [*items(status, "conditions"), *items(status, "v1beta2", "conditions")]
    states = [one for one in conditions if one.get("type") == "ControlPlaneInitialized"]
    if (
        mapping(status, "initialization").get("controlPlaneInitialized") is True
        or status.get("controlPlaneReady") is True
        or any(one.get("status") == "True" for one in states)
    ):
        return ""
    reason = next((one_line(text(one, "reason"), 60) for one in states if text(one, "reason")), "") or one_line(text(status, "phase"), 60)
    return f"Cluster API does not report its control plane as initialised (reason: {reason or 'none'})."


def _of_argo(asked: Asked, cluster: Cluster) -> list[_Named]:
    selector = ",".join(filter(None, (f"{ARGO_LABEL}=cluster", asked.label_selector)))

    def named(secret: Object) -> _Named:
        name = why = ""
        try:
            name = one_line(argo_text(secret, "name"), 253)
        except KubeconfigInvalid as invalid:
            why = f"Its Secret of Argo CD cannot be used: {invalid.message}."
        found = _named(asked, _found("Secret", secret, name), secret, text(secret, "metadata", "name"), "", why)
        return replace(found, secret=secret)

    return [named(secret) for secret in _listed(cluster, replace(asked, label_selector=selector), "/api/v1", "secrets")]


def _named(asked: Asked, found: FoundCluster, obj: Object, secret: str, key: str, why: str) -> _Named:
    """Return the cluster with its Secret, which is beside the object. The owner of an imported cluster chooses the name of the Secret."""
    named = {"namespace": text(obj, "metadata", "namespace"), "secret": secret, "key": key}
    try:
        reference = reference_of({"kubeconfig": asked.kubeconfig, "context": asked.context, "exec": asked.exec, **named})
    except ValueError as problem:
        return _Named(found, None, why or f"The Secret that is named for its kubeconfig cannot be one: the reference {problem}.")
    return _Named(found, reference, why)


def _found(kind: str, obj: Object, name: str = "") -> FoundCluster:
    """Return the cluster of an object of the management cluster; its own name unless the source has another one."""
    namespace, own = text(obj, "metadata", "namespace"), text(obj, "metadata", "name")
    return FoundCluster(
        name=name or own,
        place=f"{kind} {namespace}/{own}",
        also=tuple(dict.fromkeys((own, f"{namespace}/{own}"))),
        namespace=namespace,
        labels=labels_of(obj),
        variables={ANNOTATIONS[key]: value for key, value in annotations_of(obj).items() if key in ANNOTATIONS and value},
    )


def _seen(named: _Named, cluster: Cluster) -> _Named:
    """Return the cluster with the reason why its Secret gives no kubeconfig, after a read of it. What it holds is not kept."""
    if named.why or named.reference is None:
        return named
    try:
        if named.secret is None:
            kubeconfig_from(cluster, named.reference)
        else:
            kubeconfig_of_found(named.secret, named.reference)
    except ClusterError as error:
        return replace(named, why=reason_of(error, named.reference))
    return named


def _host(named: _Named) -> FoundCluster:
    variables = dict(named.found.variables)
    why = named.why
    namespace = variables.get(NAMESPACE)
    if namespace is not None and not LABEL.fullmatch(namespace):  # it becomes a part of paths
        del variables[NAMESPACE]
        why = why or "The annotation with the namespace of its Cilium has no name of a namespace."
    if named.reference is not None:
        variables[KUBECONFIG_FROM] = named.reference.to_variable()
    if why:
        variables[UNAVAILABLE] = why
    return replace(named.found, variables=variables)


def _listed(cluster: Cluster, asked: Asked, base: str, resource: str) -> Iterator[Object]:
    """Yield the objects of every namespace that is asked for, in the order of their names.

    :raises InvalidInput: when the API server has no such kind, which is no empty list.
    """
    paths = [f"{base}/namespaces/{namespace}/{resource}" for namespace in asked.namespaces] or [f"{base}/{resource}"]
    for path in paths:
        found = cluster.list_if_served(path, label_selector=asked.label_selector)
        if found is None:
            raise _not_served(resource, base.removeprefix("/apis/"))
        yield from sorted(found, key=lambda obj: (text(obj, "metadata", "namespace"), text(obj, "metadata", "name")))


def _not_served(resource: str, group: str) -> InvalidInput:
    return InvalidInput(
        f"The management cluster has no {resource} of {group}.",
        remedy="Check source, kubeconfig and context, and whether its CRD is installed.",
    )


_SOURCES: Final[Mapping[str, Callable[[Asked, Cluster], list[_Named]]]] = {
    "management_plane": _of_management_plane,
    "cluster_api": _of_cluster_api,
    "argocd": _of_argo,
}

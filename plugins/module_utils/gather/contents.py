# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What an archive says of one cluster, made from its facts: each document with what it is for and the objects that it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..leases.registry import RegistryProblem, parse_registry
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts, TlsSecretFacts, VolumeSource, WorkloadFacts, as_data
from ..mesh.versions.minors import cilium_version
from .document import Document, Missing
from .pseudonyms import named

_TEXTS: Final = frozenset({"text", "reencoded", "entry"})
"""Fields of facts with whole texts of objects, of which the archive has the meaning instead."""


@dataclass(frozen=True, kw_only=True)
class Extras:
    """What was read of a cluster beside its facts: states of containers, and its global Services."""

    containers: Sequence[Mapping[str, Any]] | None = None
    services: Sequence[Mapping[str, Any]] | None = None


def cluster_documents(facts: ClusterFacts, extras: Extras) -> Iterator[Document]:
    """Yield the documents of one cluster, the most important first."""
    folder, space = f"clusters/{facts.host}", facts.namespace

    def document(name: str, what: str, why: str, source: Sequence[str], content: Any) -> Document:
        return Document(path=f"{folder}/{name}.json", what=what, why=why, source=tuple(source), content=content)

    yield document(
        "cluster",
        "versions, identity, and what the inventory says of the cluster",
        "most differences between clusters are differences of version, name or id",
        (f"Namespace {space}", "/version", "inventory"),
        _overview(facts),
    )
    yield document(
        "config",
        "the settings of Cilium",
        "a mesh needs several of them to agree between clusters",
        (f"ConfigMap {space}/cilium-config",),
        {"cilium-config": facts.config, "labels": facts.config_labels, "annotations": facts.config_annotations, "changed": _time(facts)},
    )
    yield document(
        "certificates",
        "names, ends and issuers of certificates, which keys are there, and whether they fit; no key",
        "a link needs certificates that the other side accepts",
        [f"Secret {space}/{name}" for name in ("cilium-ca", *(secret.name for secret in _tls(facts)))],
        {"cilium-ca": _kept(facts.ca), "caBundle": _kept(facts.ca_bundle), "pairs": {s.name: _kept(s) for s in _tls(facts)}},
    )
    yield document(
        "peers",
        "which peers the cluster dials, where, by whose certificate, and which writer owns each key",
        "these keys are what a connection writes",
        [f"Secret {space}/{secret.name}" for secret in (facts.clustermesh, facts.kvstoremesh)],
        {secret.name: _peers(secret) for secret in (facts.clustermesh, facts.kvstoremesh)},
    )
    yield document(
        "users",
        "the users of the mesh etcd and their roles",
        "a peer without its user is refused",
        (f"ConfigMap {space}/clustermesh-remote-users",),
        _kept(facts.users),
    )
    yield document("service", "the mesh endpoint", "peers dial it", (f"Service {space}/clustermesh-apiserver",), _kept(facts.service))
    yield document(
        "workloads",
        "images, arguments, volumes, host aliases and rollouts of Cilium's workloads",
        "they show what runs, and whether it runs what was asked for",
        (f"DaemonSet {space}/cilium", f"Deployment {space}/clustermesh-apiserver", f"other Deployments of Cilium in {space}"),
        {w.name: _workload(w) for w in (facts.agent, facts.apiserver, facts.operator, *facts.parts.values()) if w is not None},
    )
    yield document(
        "pods",
        "pods of the agents and of clustermesh-apiserver, with restarts and the reason of the last end",
        "a reader that restarts reports no link",
        (f"Pods of {space}",),
        {
            "agents": [_kept(pod) for pod in facts.agent_pods],
            "clustermesh-apiserver": [_kept(pod) for pod in facts.apiserver_pods],
            "containers": extras.containers,
        },
    )
    yield document(
        "leases", "names and ids that the mesh has assigned", "two clusters must not hold one id", _lease_source(facts), _leases(facts)
    )
    yield document(
        "services",
        "the global Services, without selectors and endpoints",
        "their annotations decide what the mesh shares",
        ("Services with service.cilium.io/global",),
        extras.services,
    )
    yield document(
        "nodes",
        "nodes with their addresses and pod ranges",
        "packets need them to be distinct and reachable",
        ("Nodes", "CiliumNodes", "CiliumPodIPPools"),
        {"nodes": [_kept(node) for node in facts.nodes], "pools": [_kept(pool) for pool in facts.pod_pools]},
    )
    yield document(
        "writers",
        "which field managers wrote the objects, when; names of fields, no values",
        "two writers of one field undo each other's work",
        ("metadata.managedFields of the objects above",),
        _kept(facts.writers),
    )


def missing_of(facts: ClusterFacts) -> Iterator[Missing]:
    """Yield what RBAC kept an observation from reading."""
    for entry in facts.unread:
        yield Missing(cluster=facts.host, what=entry.what, reason=entry.message)


def names_of(mesh: Mesh, facts: Mapping[str, ClusterFacts], services: Mapping[str, Extras]) -> dict[str, str]:
    """Return every name of the mesh, its clusters and their objects, with what it names."""
    found = named("host", _host_names(facts.values()))
    for extras in services.values():
        found |= named("namespace", (str(row["namespace"]) for row in extras.services or ()))
        found |= named("service", (str(row["name"]) for row in extras.services or ()))
    for cluster in facts.values():
        found |= named("namespace", (cluster.namespace,))
        found |= named("pod", (pod.name for pod in (*cluster.agent_pods, *cluster.apiserver_pods)))
        found |= named("node", (node.name for node in cluster.nodes))
    binding = mesh.binding
    found |= named("namespace", (binding.namespace,)) | named("workspace", (binding.workspace,)) | named("mesh", (binding.name,))
    # Last: a name that is also one of these keeps the meaning that tells most.
    return found | named("cluster", (*mesh.clusters, *facts, *(cluster.name for cluster in facts.values())))


def _host_names(clusters: Iterable[ClusterFacts]) -> Iterator[str]:
    for facts in clusters:
        yield from facts.service.ingress_hostnames if facts.service else ()
        yield from facts.endpoint_domains
        yield facts.endpoint_override.rpartition(":")[0]
        for workload in (facts.agent, facts.apiserver):
            yield from (name for alias in (workload.host_aliases if workload else ()) for name in alias.hostnames)
        for secret in _tls(facts):
            yield from secret.certificate.dns_names if secret.certificate else ()


def _tls(facts: ClusterFacts) -> tuple[TlsSecretFacts, ...]:
    return (facts.server_cert, facts.remote_cert, facts.local_cert, facts.admin_cert)


def _overview(facts: ClusterFacts) -> dict[str, Any]:
    return {
        "host": facts.host,
        "clusterName": facts.name,
        "clusterId": facts.id,
        "cilium": cilium_version(facts),
        "kubernetes": facts.kubernetes_version,
        "namespace": facts.namespace,
        "uid": facts.uid,
        "inventory": {
            "endpointOverride": facts.endpoint_override,
            "endpointDomains": list(facts.endpoint_domains),
            "endpointNetworks": list(facts.endpoint_networks),
            "deniedNetworks": list(facts.denied_networks),
            "allowedAnnotations": list(facts.allowed_annotations),
            "loadBalancer": facts.elb_id,
        },
        "numberOfNodes": len(facts.nodes),
        "kvstoremesh": facts.runs_kvstoremesh,
        "usersPerPeer": facts.users_enabled,
        "ipsec": {"keyIds": sorted(facts.ipsec.keys), "problem": facts.ipsec.problem} if facts.ipsec else None,
        "notReadable": [entry.what for entry in facts.unread],
    }


def _time(facts: ClusterFacts) -> Any:
    return as_data(facts.config_changed)


def _kept(value: Any) -> Any:
    """Return facts as plain data, without the fields that repeat whole texts of objects."""
    return _without_texts(as_data(value))


def _without_texts(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_texts(part) for key, part in value.items() if key not in _TEXTS}
    return [_without_texts(part) for part in value] if isinstance(value, list) else value


def _peers(secret: PeerSecretFacts) -> dict[str, Any]:
    """Return the Secret with a row per key, so that the names of keys are values and not names of fields."""
    rows = [{"entry": name, **as_data(key)} for name, key in sorted(secret.keys.items())]
    return {**{key: part for key, part in _kept(secret).items() if key != "keys"}, "entries": rows}


def _workload(workload: WorkloadFacts) -> dict[str, Any]:
    volumes = {name: [_mount(source) for source in sources] for name, sources in workload.volumes.items()}
    return {**_kept(workload), "volumes": volumes}


def _mount(source: VolumeSource) -> str:
    shown = ", ".join(f"{path} <- {key}" for path, key in sorted(source.items.items()))
    return f"{source.kind} {source.name} ({shown or 'all keys'})"


def _leases(facts: ClusterFacts) -> Any:
    if not facts.registry.present:
        return {"present": False, "unread": facts.registry.unread}
    try:
        registry = parse_registry(facts.registry.text)
    except RegistryProblem as problem:
        return {"present": True, "problem": str(problem)}
    return {"present": True, "leases": [lease.to_dict() for lease in registry.leases]}


def _lease_source(facts: ClusterFacts) -> tuple[str, ...]:
    return (f"ConfigMap of the leases in {facts.namespace}",)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Builders of facts: a healthy cluster in one call, and anything wrong with it by one override.

What a healthy cluster holds follows Cilium's chart of that minor with ``clustermesh.useAPIServer=true`` and
``clustermesh.config.enabled=false``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.context import HELD, CheckContext
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import (
    CaSecretFacts,
    CertificateFacts,
    ClusterFacts,
    HostAlias,
    LinkFacts,
    NodeFacts,
    ObserveFailure,
    PeerSecretFacts,
    PodFacts,
    ReaderFacts,
    RemoteUsersFacts,
    SecretKeyFacts,
    ServiceFacts,
    TlsSecretFacts,
    VolumeSource,
    WorkloadFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_decisions import decide_links

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
NAMESPACE = "kube-system"
HELM_LABELS = {"app.kubernetes.io/managed-by": "Helm"}
HELM_ANNOTATIONS = {"meta.helm.sh/release-name": "cilium", "meta.helm.sh/release-namespace": NAMESPACE}


def digest(text: str) -> str:
    """SHA-256 hex, as facts hold it."""
    return hashlib.sha256(text.encode()).hexdigest()


def number(host: str) -> int:
    """The number at the end of a host's name: c7 -> 7; 1 where there is none."""
    digits = "".join(c for c in host if c.isdigit())
    return int(digits) if digits else 1


def certificate(
    common_name: str,
    *,
    signer: str = "",
    days: int = 365,
    dns_names: Sequence[str] = (),
    ip_addresses: Sequence[str] = (),
    **overrides: Any,
) -> CertificateFacts:
    """A certificate made 30 days ago that ends ``days`` after NOW. ``signer`` names the key that signed it; own name: self-signed CA."""
    is_ca = signer in ("", common_name)
    values: dict[str, Any] = {
        "common_name": common_name,
        "issuer": f"CN={signer or common_name}",
        "fingerprint": digest(f"fingerprint {common_name} {signer} {days}"),
        "public_key": digest(f"public key {common_name} {signer}"),
        "subject_key_id": digest(f"key {signer or common_name}")[:40] if is_ca else None,
        "authority_key_id": digest(f"key {signer or common_name}")[:40],
        "not_before": NOW - timedelta(days=30),
        "not_after": NOW + timedelta(days=days),
        "dns_names": tuple(dns_names),
        "ip_addresses": tuple(ip_addresses),
        "is_ca": is_ca,
    }
    return CertificateFacts(**{**values, **overrides})


@cache
def tls_secret(name: str, common_name: str, *, signer: str, owner: str = "Helm", **certificate_overrides: Any) -> TlsSecretFacts:
    """A complete TLS Secret whose certificate chains to ``signer``."""
    return TlsSecretFacts(
        name=name,
        present=True,
        certificate=certificate(common_name, signer=signer, **certificate_overrides),
        ca=(certificate(signer),),
        key_matches=True,
        chain_valid=True,
        digests={key: digest(f"{name} {common_name} {signer} {key}") for key in ("ca.crt", "tls.crt", "tls.key")},
        owner=owner,
    )


def key_facts(content: str, *, managers: Iterable[str] = (), config: str | None = None) -> SecretKeyFacts:
    """One key of a Secret of peers."""
    return SecretKeyFacts(digest=digest(content), managers=tuple(sorted(managers)), config=config)


def peer_secret(name: str, keys: Mapping[str, SecretKeyFacts] | None = None, *, helm: bool = False, **overrides: Any) -> PeerSecretFacts:
    """Secret ``cilium-clustermesh`` or ``cilium-kvstoremesh`` that exists."""
    values: dict[str, Any] = {
        "name": name,
        "present": True,
        "resource_version": "7",
        "keys": dict(keys or {}),
        "managers": ("helm",) if helm else (),
        "labels": HELM_LABELS if helm else {},
        "annotations": HELM_ANNOTATIONS if helm else {},
    }
    return PeerSecretFacts(**{**values, **overrides})


def config_map(host: str, version: str, **overrides: str | None) -> dict[str, str]:
    """Data of cilium-config. Keyword names use "_" for "-"; None removes a key."""
    n, minor = number(host), int(version.split(".")[1])
    data = {
        "cluster-name": host,
        "cluster-id": str(n),
        "identity-allocation-mode": "crd",
        "ipam": "cluster-pool",
        "cluster-pool-ipv4-cidr": f"10.{n}.0.0/16",
        "cluster-pool-ipv4-mask-size": "24",
        "enable-ipv4": "true",
        "enable-ipv6": "false",
        "enable-ipv4-masquerade": "true",
        "kube-proxy-replacement": "true",
        "routing-mode": "tunnel",
        "tunnel-protocol": "vxlan",
    }
    if minor >= 15:
        data["max-connected-clusters"] = "255"
    if minor >= 16:
        data |= {"clustermesh-enable-endpoint-sync": "false", "clustermesh-enable-mcs-api": "false"}
    if minor >= 18:
        data["policy-default-local-cluster"] = "true" if minor >= 19 else "false"
    if minor >= 20:
        data["clustermesh-default-global-namespace"] = "true"
    for name, value in overrides.items():
        key = name.replace("_", "-")
        if value is None:
            data.pop(key, None)
        else:
            data[key] = value
    return data


def agent_workload(version: str, *, nodes: int = 2, aliases: Sequence[HostAlias] = (), **overrides: Any) -> WorkloadFacts:
    """DaemonSet cilium."""
    values: dict[str, Any] = {
        "kind": "DaemonSet",
        "name": "cilium",
        "generation": 1,
        "observed_generation": 1,
        "desired": nodes,
        "ready": nodes,
        "updated": nodes,
        "containers": {"cilium-agent": f"quay.io/cilium/cilium:v{version}"},
        "environment": {"cilium-agent": {"CILIUM_CLUSTERMESH_CONFIG": "/var/lib/cilium/clustermesh/"}},
        "host_aliases": tuple(aliases),
        "labels": HELM_LABELS,
        "annotations": HELM_ANNOTATIONS,
        "pod_labels": {"k8s-app": "cilium"},
        "volumes": {"clustermesh-secrets": peer_volume("cilium-clustermesh", local=True)},
    }
    return WorkloadFacts(**{**values, **overrides})


def peer_volume(secret: str, *, local: bool = False) -> tuple[VolumeSource, ...]:
    """What the charts' volumes of agents, operator and kvstoremesh show: the Secret of peers whole, and the certificates."""
    shown = {"common": "remote", **({"local": "local"} if local else {})}
    files = (("ca.crt", "-ca.crt"), ("tls.crt", ".crt"), ("tls.key", ".key"))
    certificates = tuple(
        VolumeSource(
            kind="Secret", name=f"clustermesh-apiserver-{name}-cert", items={f"{prefix}-etcd-client{end}": key for key, end in files}
        )
        for prefix, name in shown.items()
    )
    return (VolumeSource(kind="Secret", name=secret), *certificates)


def operator_workload(version: str, **overrides: Any) -> WorkloadFacts:
    """Deployment cilium-operator, without a part in the mesh."""
    values: dict[str, Any] = {
        "kind": "Deployment",
        "name": "cilium-operator",
        "desired": 1,
        "ready": 1,
        "updated": 1,
        "containers": {"cilium-operator": f"quay.io/cilium/operator-generic:v{version}"},
        "labels": HELM_LABELS,
        "annotations": HELM_ANNOTATIONS,
    }
    return WorkloadFacts(**{**values, **overrides})


def apiserver_workload(
    version: str, *, kvstoremesh: bool = True, users: bool = True, aliases: Sequence[HostAlias] = (), **overrides: Any
) -> WorkloadFacts:
    """Deployment clustermesh-apiserver."""
    image = f"quay.io/cilium/clustermesh-apiserver:v{version}"
    names = ["etcd", "apiserver"] + (["kvstoremesh"] if kvstoremesh else [])
    values: dict[str, Any] = {
        "kind": "Deployment",
        "name": "clustermesh-apiserver",
        "generation": 1,
        "observed_generation": 1,
        "desired": 1,
        "ready": 1,
        "updated": 1,
        "containers": dict.fromkeys(names, image),
        "arguments": {"apiserver": ("clustermesh", *(("--cluster-users-enabled",) if users else ()))},
        "host_aliases": tuple(aliases),
        "labels": HELM_LABELS,
        "annotations": HELM_ANNOTATIONS,
        "pod_labels": {"k8s-app": "clustermesh-apiserver"},
        "volumes": {"kvstoremesh-secrets": peer_volume("cilium-kvstoremesh")} if kvstoremesh else {},
    }
    return WorkloadFacts(**{**values, **overrides})


def nodes(host: str, count: int = 2) -> tuple[NodeFacts, ...]:
    """Ready nodes with addresses and a /24 each out of the cluster's pool 10.<number>.0.0/16."""
    n = number(host)
    return tuple(
        NodeFacts(
            name=f"{host}-n{i}",
            ready=True,
            internal_ips=(f"172.16.{n}.{i}",),
            pod_cidrs=(f"10.{n}.{i}.0/24",),
            allocated_cidrs=(f"10.{n}.{i}.0/24",),
        )
        for i in range(1, count + 1)
    )


def pods(host: str, kind: str, count: int) -> tuple[PodFacts, ...]:
    return tuple(PodFacts(name=f"{kind}-{host}-{i}", node=f"{host}-n{i}", ready=True, phase="Running") for i in range(1, count + 1))


def cluster_facts(
    host: str = "c1",
    *,
    version: str = "1.18.11",
    kvstoremesh: bool = True,
    auth_mode: str = "",
    service: str | ServiceFacts | None = "LoadBalancer",
    ca: str | CaSecretFacts = "",
    node_count: int = 2,
    config: Mapping[str, str | None] | None = None,
    **overrides: Any,
) -> ClusterFacts:
    """A healthy cluster, not yet meshed.

    :param version: of Cilium, MAJOR.MINOR.PATCH.
    :param auth_mode: legacy, migration or cluster; "" for the version's default.
    :param service: type of the clustermesh-apiserver Service, or its facts.
    :param ca: name of its CA; equal names are the same CA. Own CA by default. Or the facts of Secret cilium-ca.
    :param config: keys of cilium-config to change, in "-" or "_" form; None removes one.
    :param overrides: fields of ClusterFacts.
    """
    n, minor = number(host), int(version.split(".")[1])
    auth_mode = auth_mode or ("migration" if minor >= 19 else "legacy")
    signer = ca if ca and isinstance(ca, str) else f"Cilium CA of {host}"
    users = auth_mode != "legacy"
    server_cn = f"clustermesh-apiserver.{NAMESPACE}.svc" if minor >= 20 else "clustermesh-apiserver.cilium.io"
    data = config_map(host, version, **{k.replace("-", "_"): v for k, v in (config or {}).items()})
    values: dict[str, Any] = {
        "host": host,
        "uid": f"uid-of-{host}",
        "namespace": NAMESPACE,
        "kubernetes_version": "v1.36.4",
        "config": data,
        "config_labels": HELM_LABELS,
        "config_annotations": HELM_ANNOTATIONS,
        "agent": agent_workload(version, nodes=node_count),
        "apiserver": apiserver_workload(version, kvstoremesh=kvstoremesh, users=users),
        "service": _service(service, n) if isinstance(service, str) else service,
        "nodes": nodes(host, node_count),
        "agent_pods": pods(host, "cilium", node_count),
        "apiserver_pods": pods(host, "clustermesh-apiserver", 1),
        "ca": ca if isinstance(ca, CaSecretFacts) else _ca(signer),
        "server_cert": tls_secret(
            "clustermesh-apiserver-server-cert",
            server_cn,
            signer=signer,
            dns_names=("clustermesh-apiserver.cilium.io", "*.mesh.cilium.io", f"clustermesh-apiserver.{NAMESPACE}.svc"),
            ip_addresses=("127.0.0.1", "::1"),
        ),
        "admin_cert": tls_secret("clustermesh-apiserver-admin-cert", f"admin-{data.get('cluster-name', '')}", signer=signer),
        "remote_cert": tls_secret(
            "clustermesh-apiserver-remote-cert",
            f"remote-{data.get('cluster-name', '')}" if auth_mode == "cluster" else "remote",
            signer=signer,
        ),
        "users": RemoteUsersFacts(present=True, resource_version="5", text="users:\n") if users else RemoteUsersFacts(),
        "operator": operator_workload(version),
    }
    if minor >= 16:
        values["local_cert"] = tls_secret("clustermesh-apiserver-local-cert", f"local-{data.get('cluster-name', '')}", signer=signer)
    return ClusterFacts(**{**values, **overrides})


@cache
def _ca(name: str) -> CaSecretFacts:
    return CaSecretFacts(present=True, certificates=(certificate(name),), has_key=True, key_matches=True, digest=digest(f"ca {name}"))


def _service(kind: str, n: int) -> ServiceFacts:
    if kind == "LoadBalancer":
        return ServiceFacts(type=kind, cluster_ip=f"10.96.{n}.10", ingress_ips=(f"192.0.2.{n}",), node_port=30000 + n)
    if kind == "NodePort":
        return ServiceFacts(type=kind, cluster_ip=f"10.96.{n}.10", node_port=32000 + n)
    return ServiceFacts(type=kind, cluster_ip=f"10.96.{n}.10")


def mesh_of(*hosts: str, name: str = "edge-mesh-eu", **overrides: Any) -> Mesh:
    return Mesh(binding=Binding(name=name, cluster_refs=tuple(hosts), **overrides))


def context_of(
    *facts: ClusterFacts,
    failures: Iterable[ObserveFailure] = (),
    accept: Collection[str] = (),
    now: datetime = NOW,
    mesh: Mesh | None = None,
) -> CheckContext:
    """A context whose mesh has every given cluster and every failed one."""
    failed = {f.host: f for f in failures}
    return CheckContext(
        decisions=decide_links(
            mesh or mesh_of(*(f.host for f in facts), *failed), {f.host: f for f in facts}, LinkPolicy(follow=HELD in accept), now
        ),
        failures=failed,
        accept=frozenset(accept),
    )


def choosing(context: CheckContext, **choices: Any) -> CheckContext:
    """The context with other choices about links."""
    decided = context.decisions
    return replace(context, decisions=decide_links(decided.mesh, decided.facts, replace(decided.policy, **choices), decided.now))


def failure(
    host: str, code: str = "CM-API-01", message: str = "the API server does not answer", remedy: str = "Start it."
) -> ObserveFailure:
    return ObserveFailure(host=host, code=code, message=message, remedy=remedy)


SYNCED = {"nodes": True, "endpoints": True, "identities": True, "services": True}


def link_facts(cluster: str, peer: str, *, reader: str = "kvstoremesh", pod: str = "", **overrides: Any) -> LinkFacts:
    """A reader that says ready."""
    values: dict[str, Any] = {
        "cluster": cluster,
        "peer": peer,
        "reader": reader,
        "pod": pod or f"{reader}-{cluster}-1",
        "known": True,
        "ready": True,
        "connected": True,
        "status": "etcd: 1/1 connected",
        "config_required": True,
        "config_retrieved": True,
        "cluster_id": number(peer),
        "synced": SYNCED,
        "source": "exec",
    }
    return LinkFacts(**{**values, **overrides})


def not_ready(link: LinkFacts, **overrides: Any) -> LinkFacts:
    """The same reader, still without a connection."""
    values: dict[str, Any] = {
        "ready": False,
        "connected": False,
        "status": "Waiting for initial connection to be established",
        "config_required": None,
        "config_retrieved": None,
        "cluster_id": None,
        "synced": {},
    }
    return replace(link, **{**values, **overrides})


def reader_facts(cluster: str, peers: Sequence[str], *, agents: int = 2, kvstoremesh: bool = True, **overrides: Any) -> ReaderFacts:
    """Readers of a cluster that all say ready of all peers."""
    links = [link_facts(cluster, peer) for peer in peers] if kvstoremesh else []
    links += [
        link_facts(cluster, peer, reader="agent", pod=f"cilium-{cluster}-{i}", node=f"{cluster}-n{i}")
        for peer in peers
        for i in range(1, agents + 1)
    ]
    values: dict[str, Any] = {"cluster": cluster, "links": tuple(links), "agents_total": agents, "agents_asked": agents}
    return ReaderFacts(**{**values, **overrides})

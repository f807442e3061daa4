# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every check, on meshes where it must speak and on meshes where it must be silent.

One file although it is long: it is the catalogue, and a check without a row in it fails a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.context import CheckContext
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.registry import registered
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.catalogue import CATALOGUE as ROWS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding, Scope, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.load_balancer import ELB_AUTOCREATE, ELB_ID
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.address_moves import write_moves
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import (
    CaSecretFacts,
    ClusterFacts,
    HostAlias,
    NodeFacts,
    PodFacts,
    ProbeResult,
    RemoteUsersFacts,
    ServiceFacts,
    TlsSecretFacts,
    WriterFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.objects import (
    moves_annotation,
    peers_annotation,
    write_peers,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.ca_roll import MARK, Roll, RollStage, write_roll
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import KNOWN
from tests.testing.facts_builders import (
    HELM_ANNOTATIONS,
    HELM_LABELS,
    NOW,
    agent_workload,
    apiserver_workload,
    certificate,
    choosing,
    cluster_facts,
    context_of,
    failure,
    key_facts,
    mesh_of,
    peer_secret,
)
from tests.testing.known import known
from tests.testing.rows import in_one_test, one_test
from tests.testing.texts import mentions, stop_inside
from tests.unit.checks.catalogue_dead_peers import DEAD_PEERS
from tests.unit.checks.catalogue_leases import LEASES
from tests.unit.checks.catalogue_verify import MORE, VERIFY

T = TypeVar("T")

C1, C2, C3 = (cluster_facts(f"c{n}") for n in (1, 2, 3))
OLD, NEW = "1.18.11", "1.20.0"


def with_config(host: str = "c1", version: str = OLD, **keys: str | None) -> ClusterFacts:
    return cluster_facts(host, version=version, config=keys)


def pair(c1: ClusterFacts, c2: ClusterFacts = C2) -> CheckContext:
    return context_of(c1, c2)


def one(**facts: Any) -> CheckContext:
    return pair(cluster_facts("c1", **facts))


def configured(version: str = OLD, **config: str | None) -> CheckContext:
    return pair(with_config("c1", version, **config))


def remembering(peer: str) -> ClusterFacts:
    """c1, in which the mesh wrote this peer."""
    annotations = {peers_annotation(mesh_of().binding): write_peers({peer: peer})}
    return replace(C1, kvstoremesh=peer_secret("cilium-kvstoremesh", annotations=annotations))


def both(**keys: str) -> CheckContext:
    return context_of(with_config("c1", **keys), with_config("c2", **keys))


def expired(facts: ClusterFacts, field: str, days: int) -> ClusterFacts:
    secret: TlsSecretFacts = getattr(facts, field)
    ends = replace(known(secret.certificate), not_after=NOW + timedelta(days=days))
    overrides: dict[str, Any] = {field: replace(secret, certificate=ends)}
    return replace(facts, **overrides)


def changed(field: str, **values: object) -> ClusterFacts:
    facts = cluster_facts("c1")
    return replace(facts, **{field: replace(getattr(facts, field), **values)})


def leaf(field: str, **values: object) -> ClusterFacts:
    facts = cluster_facts("c1")
    secret: TlsSecretFacts = getattr(facts, field)
    assert secret.certificate is not None
    return replace(facts, **{field: replace(secret, certificate=replace(secret.certificate, **values))})  # type: ignore[arg-type]  # fields of a certificate by their names


def ca_expired() -> ClusterFacts:
    facts = cluster_facts("c1")
    ca = tuple(replace(c, not_after=NOW - timedelta(days=1)) for c in facts.server_cert.ca)
    return replace(facts, server_cert=replace(facts.server_cert, ca=ca))


def missing(name: str) -> TlsSecretFacts:
    return TlsSecretFacts(name=f"clustermesh-apiserver-{name}-cert")


def without_certificate(name: str) -> CheckContext:
    overrides: dict[str, Any] = {f"{name}_cert": missing(name)}
    return pair(cluster_facts("c1", **overrides))


def allocating(
    host: str, *cidrs: str, ipam: str = "cluster-pool", node_cidrs: tuple[str, ...] = (), pool: str | None = None
) -> ClusterFacts:
    nodes = (NodeFacts(name=f"{host}-n1", ready=True, internal_ips=(f"172.16.{host[1:]}.1",), pod_cidrs=node_cidrs, allocated_cidrs=cidrs),)
    return cluster_facts(host, config={"ipam": ipam, "cluster-pool-ipv4-cidr": pool}, nodes=nodes)


def native(host: str, cidr: str, masquerade: str = "true") -> ClusterFacts:
    keys = {"routing-mode": "native", "ipv4-native-routing-cidr": cidr, "enable-ipv4-masquerade": masquerade}
    return cluster_facts(host, config=keys)


def node_at(host: str, ip: str) -> ClusterFacts:
    return cluster_facts(host, nodes=(NodeFacts(name="n1", ready=True, internal_ips=(ip,)),))


def node_port(host: str, port: int, *, version: str = OLD, kube_proxy: str = "true", **overrides: Any) -> ClusterFacts:
    service = ServiceFacts(type="NodePort", cluster_ip="10.96.0.10", node_port=port)
    return cluster_facts(host, version=version, config={"kube-proxy-replacement": kube_proxy}, service=service, **overrides)


def other_service(facts: ClusterFacts, service: ServiceFacts | None, override: str = "") -> ClusterFacts:
    return replace(facts, service=service, endpoint_override=override)


def balancer(host: str, *, elb_id: str = "", **service: Any) -> ClusterFacts:
    """A Service of type LoadBalancer, without an address unless one is given."""
    return replace(cluster_facts(host), service=ServiceFacts(type="LoadBalancer", cluster_ip="10.96.1.10", **service), elb_id=elb_id)


def uses(peer: str, ip: str) -> ClusterFacts:
    """c1 of Cilium 1.18, which reaches a peer already."""
    config = f"endpoints:\n- https://{peer}.mesh.cilium.io:2379\n"
    alias_of_peer = HostAlias(ip=ip, hostnames=(f"{peer}.mesh.cilium.io",), managers=(OURS,))
    entry = {peer: key_facts(config, managers=(OURS,), config=config)}
    apiserver = apiserver_workload(OLD, users=False, aliases=[alias_of_peer])
    return replace(cluster_facts("c1"), apiserver=apiserver, kvstoremesh=peer_secret("cilium-kvstoremesh", entry))


def moved_before(cluster: ClusterFacts) -> ClusterFacts:
    """The cluster with the record that the addresses of c2 changed in it a minute ago."""
    record = write_moves({"c2": ((NOW - timedelta(minutes=1)).isoformat(),)})
    annotations = {moves_annotation(mesh_of("c1", "c2").binding): record}
    return replace(cluster, apiserver=replace(known(cluster.apiserver), annotations=annotations))


def fingerprint_of(host: str) -> str:
    return known(cluster_facts(host).server_cert.certificate).fingerprint


def probed(outcome: str, **values: Any) -> CheckContext:
    result = ProbeResult(cluster="c1", address="192.0.2.1", port=2379, hostname="c1.mesh.cilium.io", outcome=outcome, **values)
    return replace(pair(cluster_facts("c1")), probes=(result,))


def renewed(context: CheckContext) -> CheckContext:
    fresh = leaf("server_cert", not_before=NOW - timedelta(minutes=3))
    return replace(context, decisions=context.decisions.with_facts({**context.facts, "c1": fresh}))


def without_ca_key(host: str) -> ClusterFacts:
    facts = cluster_facts(host)
    return replace(facts, ca=replace(facts.ca, has_key=False, key_matches=None))


def untrustable(host: str) -> ClusterFacts:
    """Neither its CA key nor its own client certificate can be used."""
    return replace(without_ca_key(host), remote_cert=missing("remote"))


def helm_secrets(*, keep: bool) -> ClusterFacts:
    annotations = HELM_ANNOTATIONS | ({"helm.sh/resource-policy": "keep"} if keep else {})
    return cluster_facts("c1", clustermesh=peer_secret("cilium-clustermesh", helm=True, annotations=annotations))


def peer_key(*managers: str, secret: str = "kvstoremesh", key: str = "c2") -> ClusterFacts:
    entry = {key: key_facts("endpoints: []", managers=managers)}
    overrides: dict[str, Any] = {secret: peer_secret(f"cilium-{secret}", entry)}
    return replace(cluster_facts("c1"), **overrides)


def drifted(*managers: str, reverted_by: str = "") -> ClusterFacts:
    """c1, into which this binding wrote the peer c2: gone since, without managers, else theirs with another value."""
    entry = {"c2": key_facts("endpoints: []", managers=managers)} if managers else {}
    noted = {f"peers.{OURS}": '{"c2": "c2"}'}
    writers: tuple[WriterFacts, ...] = (WriterFacts(manager=OURS, operation="Apply", time="2026-09-01T11:00:00Z"),)
    if reverted_by:
        writers = (*writers, WriterFacts(manager=reverted_by, operation="Apply", time="2026-09-01T11:30:00Z"))
    secret = peer_secret("cilium-kvstoremesh", entry, annotations=noted)
    return replace(cluster_facts("c1"), kvstoremesh=secret, writers={"Secret cilium-kvstoremesh": writers})


def unread_secret() -> ClusterFacts:
    """Without kvstoremesh no reader uses cilium-kvstoremesh, and connect does not write it."""
    return replace(peer_key("helm"), apiserver=apiserver_workload(OLD, kvstoremesh=False, users=False))


def tracked_by_argo() -> ClusterFacts:
    tracking = {"argocd.argoproj.io/tracking-id": "cilium:/Secret:kube-system/cilium-clustermesh"}
    return cluster_facts("c1", clustermesh=peer_secret("cilium-clustermesh", annotations=tracking))


def alias(version: str, names: tuple[str, ...], *managers: str, ip: str = "192.0.2.2") -> ClusterFacts:
    entry = HostAlias(ip=ip, hostnames=names, managers=managers)
    return cluster_facts("c1", version=version, apiserver=apiserver_workload(version, users=False, aliases=[entry]))


def with_binding(c1: ClusterFacts, **binding: Any) -> CheckContext:
    return context_of(c1, C2, mesh=mesh_of("c1", "c2", **binding))


OURS = mesh_of("c1", "c2").binding.manager
ELB, OTHER_ELB = "41fae315-2964-49c4-afde-bc6d358cd031", "c582b56c-2b4e-4c83-9d9e-29e12893c6f6"
NOT_INSTALLED = replace(cluster_facts("c1"), config=None, agent=None, apiserver=None, service=None)
MESH_OFF = cluster_facts(
    "c1", apiserver=None, service=None, server_cert=missing("server"), admin_cert=missing("admin"), remote_cert=missing("remote")
)
WAITING = PodFacts(name="p", node="n", ready=False, phase="Pending", waiting="etcd: ImagePullBackOff")

Case = Callable[[], CheckContext]
Table = dict[str, tuple[list[Case], list[Case]]]


def each(case: Callable[[T], CheckContext], values: Iterable[T]) -> list[Case]:
    """A case for every value."""
    return [partial(case, value) for value in values]


IDENTITY: Table = {
    "CM-ID-01": ([lambda: configured(cluster_name=None), lambda: configured(cluster_name="default")], [lambda: pair(NOT_INSTALLED)]),
    "CM-ID-02": (
        each(lambda n: configured(cluster_name=n), ("C1", "a.b", "-a", "a-", "a" * 33, "a\n")),
        each(lambda n: configured(cluster_name=n), ("a", "1", "a" * 32, "a--b", "", "default")),
    ),
    "CM-ID-03": (
        [
            *each(lambda n: configured(cluster_id=n), (None, "", "0", "256", "-1", "one", "\u0661")),
            lambda: both(cluster_id="512", max_connected_clusters="511"),
        ],
        [lambda: configured(cluster_id="255"), lambda: both(cluster_id="511", max_connected_clusters="511")],
    ),
    "CM-ID-04": (
        [lambda: configured(cluster_name="c2")],
        [lambda: pair(with_config(cluster_name="default"), with_config("c2", cluster_name="default"))],
    ),
    "CM-ID-05": ([lambda: configured(cluster_id="2")], [lambda: pair(with_config(cluster_id="0"), with_config("c2", cluster_id="0"))]),
    "CM-ID-06": (
        [
            *each(lambda n: configured(identity_allocation_mode=n, kvstore="etcd"), ("kvstore", "doublewrite-readkvstore", None)),
            lambda: configured(identity_allocation_mode="consul"),
        ],
        [
            *each(lambda n: configured(identity_allocation_mode=n, kvstore="etcd"), ("crd", "doublewrite-readcrd")),
            *each(lambda n: configured(identity_allocation_mode=n), ("kvstore", "doublewrite-readkvstore", "doublewrite-readcrd", None)),
        ],
    ),
    "CM-ID-07": (
        [lambda: configured(max_connected_clusters="511")],
        [lambda: configured(max_connected_clusters=None), lambda: both(max_connected_clusters="511")],
    ),
    "CM-ID-08": ([lambda: both(max_connected_clusters="300")], [lambda: both(max_connected_clusters="511")]),
    "CM-ID-09": (
        [
            lambda: configured(cluster_id="128", ipam="eni"),
            lambda: configured(cluster_id="255", cni_chaining_mode="aws-cni"),
            lambda: both(cluster_id="384", ipam="alibabacloud", max_connected_clusters="511"),
        ],
        [
            lambda: configured(cluster_id="127", ipam="eni"),
            lambda: configured(cluster_id="128"),
            lambda: both(cluster_id="256", ipam="eni", max_connected_clusters="511"),
        ],
    ),
    "CM-MESH-01": (
        [lambda: pair(C1, cluster_facts("c2", uid="uid-of-c1"))],
        [lambda: pair(cluster_facts("c1", uid=""), cluster_facts("c2", uid=""))],
    ),
}

INSTALLATION: Table = {
    "CM-INST-01": ([lambda: pair(NOT_INSTALLED), lambda: pair(replace(C1, config=None))], [lambda: pair(MESH_OFF)]),
    "CM-INST-02": ([lambda: pair(MESH_OFF)], [lambda: pair(NOT_INSTALLED)]),
    "CM-INST-03": (
        [lambda: pair(changed("apiserver", ready=0)), lambda: pair(changed("apiserver", ready=0, desired=0))],
        [lambda: pair(MESH_OFF), lambda: pair(changed("apiserver", desired=3))],
    ),
    "CM-INST-04": (
        [lambda: pair(changed("agent", ready=1)), lambda: pair(changed("agent", ready=0, desired=0))],
        [lambda: pair(NOT_INSTALLED)],
    ),
    "CM-USER-01": (
        [lambda: one(auth_mode="migration", users=RemoteUsersFacts())],
        [lambda: one(auth_mode="legacy"), lambda: one(auth_mode="cluster")],
    ),
    "CM-USER-02": ([lambda: one(users=RemoteUsersFacts(present=True, problem="users is not a list"))], [lambda: one(auth_mode="cluster")]),
}

CERTIFICATES: Table = {
    "CM-CERT-01": (
        [
            *each(without_certificate, ("server", "admin", "remote")),
            lambda: pair(changed("server_cert", missing_keys=("tls.key",), key_matches=None)),
        ],
        [lambda: pair(MESH_OFF), lambda: one(local_cert=missing("local"))],
    ),
    "CM-CERT-02": (
        [
            lambda: pair(changed("server_cert", problem="tls.crt is not a PEM certificate", certificate=None, chain_valid=None)),
            lambda: pair(changed("local_cert", key_matches=False)),
        ],
        [lambda: pair(changed("remote_cert", missing_keys=("tls.key",), key_matches=None))],
    ),
    "CM-CERT-03": (
        [
            lambda: pair(expired(C1, "server_cert", -1)),
            lambda: pair(expired(C1, "local_cert", 0)),
            lambda: pair(ca_expired()),
            lambda: pair(leaf("admin_cert", not_before=NOW + timedelta(hours=1))),
        ],
        [lambda: pair(expired(C1, "server_cert", 1))],
    ),
    "CM-CERT-04": (
        [lambda: pair(expired(C1, "remote_cert", 30)), lambda: pair(expired(C1, "remote_cert", 1))],
        [lambda: pair(expired(C1, "remote_cert", 31)), lambda: pair(expired(C1, "remote_cert", -1))],
    ),
    "CM-CERT-05": (
        [lambda: pair(leaf("server_cert", dns_names=("clustermesh-apiserver.cilium.io",)))],
        [
            lambda: pair(leaf("server_cert", dns_names=("c1.mesh.cilium.io",))),
            lambda: pair(
                replace(leaf("server_cert", dns_names=("mesh.example.com", "*.mesh.cilium.io")), endpoint_override="mesh.example.com:2379")
            ),
        ],
    ),
    "CM-CERT-06": ([lambda: pair(changed("server_cert", chain_valid=False))], [lambda: pair(changed("server_cert", chain_valid=None))]),
    "CM-CERT-07": (
        [lambda: one(version="1.17.17", local_cert=missing("local")), lambda: pair(changed("local_cert", missing_keys=("ca.crt",)))],
        [
            lambda: pair(cluster_facts("c1", version="1.16.19", local_cert=missing("local")), cluster_facts("c2", version="1.17.17")),
            lambda: one(kvstoremesh=False, local_cert=missing("local")),
        ],
    ),
    "CM-CERT-08": (
        [lambda: pair(leaf("server_cert", server_auth=False)), lambda: pair(leaf("remote_cert", client_auth=False))],
        [lambda: pair(leaf("server_cert", client_auth=False)), lambda: pair(leaf("admin_cert", server_auth=False))],
    ),
    "CM-CERT-09": (
        [lambda: pair(leaf("admin_cert", common_name="admin-old")), lambda: pair(leaf("remote_cert", common_name="externalworkload"))],
        [lambda: pair(leaf("remote_cert", common_name="remote-c1")), lambda: pair(leaf("server_cert", common_name="anything"))],
    ),
}

TRUST: Table = {
    "CM-TRUST-01": ([lambda: pair(C1, untrustable("c2"))], [lambda: pair(C1, without_ca_key("c2")), lambda: pair(MESH_OFF)]),
    "CM-TRUST-02": ([lambda: pair(without_ca_key("c1"))], [lambda: pair(cluster_facts("c1", ca="one"), cluster_facts("c2", ca="one"))]),
    "CM-CERT-11": (
        [
            lambda: pair(changed("server_cert", unshareable={"ca.crt": "has 9 certificates, and 8 are the limit"})),
            lambda: pair(changed("remote_cert", unshareable={"tls.key": "has text besides the PEM of a key"})),
            lambda: pair(changed("ca", unshareable="has 9 certificates, and 8 are the limit")),
        ],
        [lambda: pair(changed("server_cert", unshareable={"tls.key": "has text besides the PEM of a key"}))],
    ),
    "CM-TRUST-03": ([lambda: pair(changed("ca", certificates=(certificate("A"), certificate("B"))))], []),
    "CM-TRUST-04": (
        [
            lambda: pair(changed("ca", problem="ca.crt is not a PEM certificate", certificates=())),
            lambda: pair(changed("ca", key_matches=False)),
        ],
        [lambda: pair(replace(C1, ca=CaSecretFacts()))],
    ),
    "CM-CA-07": (
        [
            lambda: pair(changed("ca", annotations={MARK: write_roll(Roll(stage=RollStage.TRUST, owner="0" * 12, old="old", new="new"))})),
            lambda: pair(changed("ca", annotations={MARK: "{"})),
        ],
        [lambda: pair(changed("ca", annotations={"someone.example/note": "x"}))],
    ),
}

ENDPOINTS: Table = {
    "CM-EP-01": (
        [lambda: pair(other_service(C1, None)), lambda: pair(other_service(C1, None, "192.0.2.9:2379"))],
        [lambda: pair(MESH_OFF)],
    ),
    "CM-EP-02": (
        [
            lambda: pair(other_service(C1, ServiceFacts(type="LoadBalancer", node_port=30001))),
            lambda: pair(node_port("c1", 32379, nodes=(NodeFacts(name="n", ready=False, internal_ips=("172.16.1.1",)),))),
            lambda: pair(other_service(C1, ServiceFacts(type="ExternalName"))),
            lambda: pair(other_service(C1, ServiceFacts(type="LoadBalancer", ingress_hostnames=("lb.example.com",)))),
            *each(lambda ip: pair(balancer("c1", ingress_ips=(ip,))), ("127.0.0.1", "169.254.169.254", "::ffff:127.0.0.1")),
            *each(
                lambda name: pair(balancer("c1", ingress_hostnames=(name,))),
                ("kubernetes.default.svc", "kubernetes.default.svc.k8s.example", "printer.local", "localhost", "c2.mesh.cilium.io", "a b"),
            ),
        ],
        [
            lambda: pair(other_service(C1, ServiceFacts(type="LoadBalancer"), "192.0.2.9:2379")),
            lambda: pair(other_service(C1, None)),
            lambda: choosing(
                pair(other_service(C1, ServiceFacts(type="LoadBalancer", ingress_hostnames=("lb.example.com",)))),
                resolved={"lb.example.com": ("192.0.2.9",)},
            ),
        ],
    ),
    "CM-EP-03": ([lambda: one(service="ClusterIP")], [lambda: one(service="ClusterIP", endpoint_override="192.0.2.9:2379")]),
    "CM-EP-04": (
        each(lambda t: one(endpoint_override=t), ("https://x:1", "a:b", "a:0", ":2379", "a b:1")),
        each(lambda t: one(endpoint_override=t), ("192.0.2.9:2379", "[2001:db8::1]:2379", "a.example.com:1")),
    ),
    "CM-EP-05": (
        [
            lambda: pair(node_port("c1", 32379), node_port("c2", 32379)),
            lambda: pair(node_port("c1", 32379, kube_proxy="strict", version="1.15.19"), node_port("c2", 32379, version="1.19.5")),
            lambda: pair(C1, node_port("c2", 30001)),  # a LoadBalancer Service has a node port too
            lambda: pair(node_port("c1", 32379), cluster_facts("c2", endpoint_override="172.16.2.1:32379")),
        ],
        [
            lambda: pair(node_port("c1", 32379), node_port("c2", 32380)),
            lambda: pair(node_port("c1", 32379, version="1.19.5"), node_port("c2", 32379, version="1.19.5")),
            lambda: pair(node_port("c1", 32379, kube_proxy="false"), node_port("c2", 32379, kube_proxy="false")),
            lambda: pair(node_port("c1", 32379), cluster_facts("c2", endpoint_override="192.0.2.9:32379")),
        ],
    ),
    "CM-EP-06": (
        [
            lambda: pair(C1, cluster_facts("c2", endpoint_override="[2001:db8::2]:2379")),
            lambda: pair(with_config(enable_ipv4="false", enable_ipv6="true"), C2),
            lambda: pair(cluster_facts("c1", kvstoremesh=False), cluster_facts("c2", endpoint_override="2001:db8::2")),
        ],
        [
            lambda: pair(with_config(enable_ipv6="true"), cluster_facts("c2", endpoint_override="[2001:db8::2]:2379")),
            lambda: pair(C1, balancer("c2", ingress_ips=("192.0.2.2", "2001:db8::2"))),
            lambda: pair(with_config(enable_ipv4="false", enable_ipv6="true"), cluster_facts("c2", endpoint_override="c2.mesh.cilium.io")),
        ],
    ),
    "CM-EP-07": (
        [
            lambda: pair(uses("c2", "192.0.2.2"), balancer("c2", ingress_hostnames=("lb.example.com",))),
            lambda: pair(uses("c2", "192.0.2.2"), cluster_facts("c2", endpoint_override="lb.example.com:2379")),
        ],
        [
            lambda: pair(uses("c2", "192.0.2.2"), C2),
            lambda: choosing(
                pair(uses("c2", "192.0.2.2"), balancer("c2", ingress_hostnames=("lb.example.com",))),
                resolved={"lb.example.com": ("192.0.2.9",)},
            ),
            lambda: pair(uses("c2", "192.0.2.2"), balancer("c2", elb_id=ELB)),
        ],
    ),
    "CM-EP-08": (
        [
            *each(
                lambda ip: pair(balancer("c1", ingress_ips=("192.0.2.1", ip))),
                (
                    *("127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0", "fe80::1", "ff02::1", "::1", "::ffff:127.0.0.1"),
                    "64:ff9b::7f00:1",
                ),
            ),
            lambda: choosing(
                pair(balancer("c1", ingress_hostnames=("kubernetes.default.svc", "lb.example.com"))),
                resolved={"lb.example.com": ("192.0.2.9",)},
            ),
            lambda: choosing(
                pair(balancer("c1", ingress_hostnames=("lb.example.com",))), resolved={"lb.example.com": ("192.0.2.9", "127.0.0.1")}
            ),
            lambda: pair(node_port("c1", 32379, nodes=(node_at("c1", "172.16.1.1").nodes[0], *node_at("c1", "127.0.0.1").nodes))),
            lambda: pair(balancer("c1", ingress_ips=tuple(f"192.0.2.{n}" for n in range(1, 18)))),
        ],
        [
            lambda: pair(balancer("c1", ingress_ips=("192.0.2.1", "10.0.0.1", "fd00::1", "100.64.0.1"))),
            lambda: pair(replace(balancer("c1", ingress_ips=("127.0.0.1",)), endpoint_networks=("127.0.0.0/8",))),
            lambda: pair(balancer("c1", ingress_ips=("127.0.0.1",))),
            lambda: pair(replace(balancer("c1", ingress_ips=("127.0.0.1",)), endpoint_override="192.0.2.9:2379")),
            lambda: one(service=None),
        ],
    ),
    "CM-EP-09": (
        [
            lambda: choosing(pair(uses("c2", "192.0.2.2"), balancer("c2", ingress_ips=("192.0.2.9",))), unproven=frozenset({"c2"})),
            lambda: pair(moved_before(uses("c2", "192.0.2.2")), balancer("c2", ingress_ips=("192.0.2.9",))),
        ],
        [
            lambda: pair(uses("c2", "192.0.2.2"), balancer("c2", ingress_ips=("192.0.2.9",))),
            lambda: pair(moved_before(uses("c2", "192.0.2.2")), balancer("c2", ingress_ips=("192.0.2.2",))),
            lambda: choosing(pair(moved_before(uses("c2", "192.0.2.2")), balancer("c2", ingress_ips=("192.0.2.9",))), follow=True),
        ],
    ),
    "CM-ELB-01": (
        [
            lambda: pair(balancer("c1", elb_id=ELB, annotations={ELB_ID: OTHER_ELB})),
            lambda: pair(balancer("c1", elb_id=ELB, annotations={ELB_ID: OTHER_ELB}, annotation_managers={ELB_ID: ("cloud",)})),
            lambda: pair(balancer("c1", elb_id=ELB, annotations={ELB_ID: OTHER_ELB}, annotation_managers={ELB_ID: (OURS, "cloud")})),
            lambda: pair(balancer("c1", elb_id=ELB, annotations={ELB_AUTOCREATE: "{}"}, annotation_managers={ELB_AUTOCREATE: ("helm",)})),
        ],
        [
            lambda: pair(balancer("c1", elb_id=ELB, annotations={ELB_ID: ELB}, annotation_managers={ELB_ID: ("helm",)})),
            lambda: pair(balancer("c1", elb_id=ELB, annotations={ELB_ID: OTHER_ELB}, annotation_managers={ELB_ID: (OURS,)})),
            lambda: pair(balancer("c1", annotations={ELB_ID: OTHER_ELB})),
            lambda: pair(balancer("c1", elb_id=ELB)),
        ],
    ),
    "CM-ELB-02": (
        each(lambda kind: one(service=kind, elb_id=ELB), ("NodePort", "ClusterIP")),
        [lambda: pair(balancer("c1", elb_id=ELB)), lambda: one(service="NodePort")],
    ),
    "CM-ELB-03": (
        [lambda: pair(balancer("c1", elb_id=ELB)), lambda: pair(uses("c2", "192.0.2.2"), balancer("c2", elb_id=ELB))],
        [
            lambda: pair(balancer("c1")),
            lambda: pair(balancer("c1", elb_id=ELB, ingress_ips=("192.0.2.1",))),
            lambda: pair(replace(balancer("c1", elb_id=ELB), endpoint_override="192.0.2.1:2379")),
        ],
    ),
}

PROBES: Table = {
    "CM-PROBE-01": (
        [
            lambda: probed("refuted", error="Hostname mismatch"),
            lambda: probed("refuted", fingerprint=fingerprint_of("c2"), error="x\n\x1b[0m"),
        ],
        [
            lambda: probed("proven", verified=True),
            lambda: probed("unreachable"),
            lambda: probed("refuted", verified=True, fingerprint="ff"),
        ],
    ),
    "CM-PROBE-02": (
        [
            lambda: probed("refuted", verified=True, fingerprint="ff"),
            lambda: probed("refuted", verified=True, fingerprint=fingerprint_of("c2")),
            lambda: renewed(probed("refuted", verified=True, fingerprint=fingerprint_of("c2"))),
        ],
        [lambda: probed("refuted"), lambda: renewed(probed("refuted", verified=True, fingerprint="ff"))],
    ),
    "CM-PROBE-03": (
        [lambda: probed("unreachable", error="the connection is refused")],
        [lambda: probed("proven"), lambda: probed("refuted")],
    ),
    "CM-PROBE-04": (
        [lambda: renewed(probed("refuted", verified=True, fingerprint="ff"))],
        [lambda: probed("refuted", verified=True, fingerprint="ff"), lambda: renewed(probed("refuted"))],
    ),
}

NETWORK: Table = {
    "CM-CIDR-01": (
        [
            lambda: pair(allocating("c1", "10.1.0.0/24"), allocating("c2", "10.1.0.0/24")),
            lambda: pair(allocating("c1", "10.1.0.0/16"), allocating("c2", "10.1.7.0/24")),
            lambda: pair(allocating("c1", ipam="kubernetes", node_cidrs=("10.1.0.0/24",)), allocating("c2", "10.1.0.0/24")),
            lambda: pair(allocating("c1", "fd00:1::/64"), allocating("c2", "fd00:1::/96")),
        ],
        [
            lambda: pair(allocating("c1", "10.1.0.0/24"), allocating("c2", "10.1.1.0/24")),
            # kube-controller-manager may fill Node.spec.podCIDRs although Cilium does not use it
            lambda: pair(
                allocating("c1", "10.1.0.0/24", node_cidrs=("10.9.0.0/24",)), allocating("c2", "10.2.0.0/24", node_cidrs=("10.9.0.0/24",))
            ),
            lambda: pair(allocating("c1", "not a range"), allocating("c2", "not a range")),
        ],
    ),
    "CM-CIDR-02": (
        [
            lambda: both(cluster_pool_ipv4_cidr="10.0.0.0/8"),
            lambda: pair(
                allocating("c1", "10.1.0.0/24", pool="10.0.0.0/8"), allocating("c2", ipam="kubernetes", node_cidrs=("10.244.0.0/24",))
            ),
            lambda: both(enable_ipv6="true", cluster_pool_ipv6_cidr="fd00::/104", cluster_pool_ipv4_cidr=""),
            lambda: pair(
                with_config(cluster_pool_ipv4_cidr="10.1.0.0/16 10.77.0.0/16"), with_config("c2", cluster_pool_ipv4_cidr="10.77.0.0/20")
            ),
        ],
        [
            lambda: both(cluster_pool_ipv4_cidr="10.0.0.0/8", ipam="kubernetes"),
            lambda: both(cluster_pool_ipv4_cidr="10.0.0.0/8", ipam="eni"),
            lambda: both(cluster_pool_ipv6_cidr="fd00::/104", cluster_pool_ipv4_cidr=""),
            lambda: pair(allocating("c1", "10.1.0.0/24", ipam="kubernetes"), allocating("c2", "10.1.0.0/24", ipam="kubernetes")),
        ],
    ),
    "CM-CIDR-03": (
        [lambda: pair(allocating("c1", "172.16.2.0/24"))],
        [lambda: pair(allocating("c1", "172.16.3.0/24")), lambda: pair(node_at("c1", "172.16.9.9"), node_at("c2", "172.16.9.9"))],
    ),
    "CM-CIDR-04": (
        [
            lambda: pair(allocating("c2", "10.96.1.0/24"), C1),  # 10.96.1.10 is the Service of c1
            lambda: configured(cluster_pool_ipv4_cidr="10.96.0.0/12"),  # both Services are in it, also its own
            lambda: pair(node_at("c1", "10.96.2.10")),
            lambda: pair(
                replace(
                    allocating("c1", "10.1.0.0/24"), nodes=(replace(allocating("c1", "10.1.0.0/24").nodes[0], internal_ips=("10.1.0.9",)),)
                )
            ),
        ],
        [
            lambda: configured(cluster_pool_ipv4_cidr="10.0.0.0/8"),  # the chart's default holds every Service range
            lambda: pair(node_at("c1", "10.2.0.9")),  # CM-CIDR-03
            lambda: pair(cluster_facts("c1", service=None), cluster_facts("c2", service=None)),
        ],
    ),
    "CM-NODE-01": (
        [
            lambda: pair(node_at("c1", "172.16.9.9"), node_at("c2", "172.16.9.9")),
            lambda: pair(node_at("c1", "FD00::1"), node_at("c2", "fd00:0::1")),
        ],
        [lambda: pair(node_at("c1", "172.16.9.8"), node_at("c2", "172.16.9.9"))],
    ),
    "CM-NET-01": (
        [lambda: configured(routing_mode="native"), lambda: configured(version="1.14.20", routing_mode=None, tunnel="disabled")],
        [
            lambda: configured(routing_mode=None),
            lambda: configured(routing_mode=None, tunnel="disabled"),  # none reads the key any more
            lambda: both(routing_mode="native"),
        ],
    ),
    "CM-NET-02": (
        [lambda: configured(tunnel_protocol="geneve"), lambda: configured(tunnel_port="9999")],
        [
            lambda: configured(tunnel_protocol=None, tunnel_port="8472"),
            lambda: pair(
                native("c1", ""), replace(native("c2", ""), config={**(native("c2", "").config or {}), "tunnel-protocol": "geneve"})
            ),
        ],
    ),
    "CM-NET-03": (
        [lambda: configured(enable_ipv6="true"), lambda: configured(enable_ipv4="false")],
        [lambda: configured(enable_ipv4=None), lambda: pair(with_config(enable_ipv6=None), with_config("c2", enable_ipv6="true"))],
    ),
    "CM-NET-04": (
        [lambda: pair(native("c1", "10.1.0.0/16"), native("c2", "10.0.0.0/8"))],
        [
            lambda: pair(native("c1", "10.0.0.0/8"), native("c2", "10.0.0.0/8")),
            lambda: pair(native("c1", "10.1.0.0/16", masquerade="false"), native("c2", "10.0.0.0/8")),
            lambda: both(ipv4_native_routing_cidr="10.1.0.0/16"),
        ],
    ),
    "CM-ENC-01": (
        [
            lambda: configured(enable_wireguard="true"),
            lambda: pair(with_config(enable_ipsec="true"), with_config("c2", enable_wireguard="true")),
        ],
        [lambda: both(enable_ipsec="true"), lambda: configured(enable_ipsec="false")],
    ),
    "CM-ENC-02": (
        [lambda: one(service="NodePort", config={"enable-wireguard": "true", "encrypt-node": "true"})],
        [lambda: both(enable_wireguard="true", encrypt_node="true")],
    ),
}

VERSIONS: Table = {
    "CM-VER-01": (
        [lambda: pair(cluster_facts("c1", version="1.16.19"), cluster_facts("c2", version="1.18.11"))],
        [lambda: one(version="1.17.17"), lambda: one(version="1.18.0")],
    ),
    "CM-VER-02": (
        [lambda: one(agent=agent_workload("x", containers={"cilium-agent": "r/cilium:latest"}), apiserver=None)],
        [lambda: one(agent=agent_workload("x", containers={"cilium-agent": "r/cilium:latest"}))],
    ),
    "CM-VER-03": (
        each(lambda v: one(version=v), (f"1.{KNOWN.first.minor - 1}.18", f"1.{KNOWN.last.minor + 1}.0", "2.0.0")),
        each(lambda v: one(version=v), (f"{KNOWN.first}.0", f"{KNOWN.last}.0-pre.0")),
    ),
    "CM-VER-04": ([lambda: one(apiserver=apiserver_workload("1.17.17"))], [lambda: one(apiserver=apiserver_workload("1.18.2"))]),
}

OWNERSHIP: Table = {
    "CM-OWN-01": (
        [
            lambda: pair(helm_secrets(keep=False)),
            lambda: one(auth_mode="migration", users=RemoteUsersFacts(present=True, labels=HELM_LABELS)),
        ],
        [lambda: pair(helm_secrets(keep=True)), lambda: pair(peer_key("kubectl"))],
    ),
    "CM-OWN-02": (
        [
            lambda: pair(peer_key("kubectl-edit")),
            lambda: pair(peer_key()),
            lambda: pair(peer_key(OURS, "helm")),
            lambda: pair(peer_key("cilium-mesh.edge-portal.eu/0123456789ab")),
            lambda: pair(peer_key("helm", secret="clustermesh")),
            lambda: pair(peer_key("helm", key="c2.etcd-client.key")),
            lambda: pair(
                replace(peer_key("x", secret="clustermesh", key="c2.etcd-client.crt"), apiserver=apiserver_workload(OLD, kvstoremesh=False))
            ),
        ],
        [lambda: pair(peer_key(OURS)), lambda: pair(peer_key("helm", key="c9")), lambda: pair(unread_secret())],
    ),
    "CM-OWN-03": (
        [
            lambda: pair(alias("1.18.11", ("registry.example.com",), "kubectl")),
            lambda: pair(alias("1.19.5", ("c2.mesh.cilium.io", "x"), "helm")),
        ],
        [
            lambda: pair(alias("1.18.11", ("c2.mesh.cilium.io",), "helm")),
            lambda: pair(alias("1.18.11", ("registry.example.com",), OURS)),
            lambda: pair(alias("1.18.11", ("registry.example.com",), "kubectl", ip="192.0.2.77")),
            lambda: pair(alias("1.20.0", ("registry.example.com",), "kubectl"), cluster_facts("c2", version=NEW)),
        ],
    ),
    "CM-OWN-04": ([lambda: pair(helm_secrets(keep=True))], [lambda: pair(helm_secrets(keep=False))]),
    "CM-DRIFT-01": ([lambda: pair(drifted())], [lambda: pair(drifted(OURS)), lambda: pair(drifted(reverted_by="argocd-controller"))]),
    "CM-DRIFT-02": (
        [lambda: pair(drifted("kubectl-edit")), lambda: pair(drifted("kustomize-controller"))],
        [lambda: pair(drifted(OURS)), lambda: pair(peer_key("kubectl-edit"))],
    ),
    "CM-DRIFT-03": (
        [lambda: pair(drifted("argocd-controller", reverted_by="argocd-controller")), lambda: pair(drifted(reverted_by="helm-controller"))],
        [lambda: pair(drifted("kubectl-edit")), lambda: pair(drifted())],
    ),
    "CM-OWN-05": ([lambda: pair(tracked_by_argo())], [lambda: pair(peer_key("argocd-controller", key="c9"))]),
}

CATALOGUE: Table = IDENTITY | INSTALLATION | CERTIFICATES | TRUST | ENDPOINTS | PROBES | NETWORK | VERSIONS | OWNERSHIP
CATALOGUE |= {
    "CM-CFG-01": (
        [
            lambda: configured(policy_default_local_cluster="true"),
            lambda: one(version="1.19.5", config={"policy-default-local-cluster": None}),
            lambda: configured(clustermesh_enable_mcs_api="true"),
            lambda: configured(clustermesh_enable_endpoint_sync="true"),
            lambda: configured(enable_non_default_deny_policies="false"),
            lambda: pair(with_config(version=NEW, clustermesh_default_global_namespace="false"), cluster_facts("c2", version="1.19.5")),
        ],
        [
            lambda: configured(policy_default_local_cluster=None),
            lambda: pair(cluster_facts("c1", version=NEW), cluster_facts("c2", version="1.19.5")),
        ],
    ),
    "CM-CFG-02": (
        [
            lambda: with_binding(C1, service_type="NodePort"),
            lambda: with_binding(C1, enable_kvstoremesh=False),
            lambda: with_binding(C1, hubble_enabled=True),
        ],
        [lambda: with_binding(C1, service_type="LoadBalancer", enable_kvstoremesh=True, hubble_enabled=False)],
    ),
    "CM-TOPO-01": (
        [lambda: context_of(C1, C2, mesh=mesh_of("c1", "c2", "c3", topology=Topology(mode=Mode.PAIRS, pairs=(("c2", "c3"),))))],
        [lambda: pair(C1), lambda: context_of(C1, C2, mesh=mesh_of("c1", "c2", topology=Topology(mode=Mode.HUB_AND_SPOKE, hubs=("c1",))))],
    ),
    "CM-TOPO-02": (
        [lambda: context_of(C1, mesh=mesh_of("c1", "c2"))],
        [lambda: pair(C1), lambda: context_of(C1, failures=[failure("c2")])],
    ),
    "CM-TOPO-03": (
        [
            lambda: context_of(remembering("c2"), C3, mesh=mesh_of("c1", "c3")),
            lambda: replace(context_of(remembering("c2"), C3, mesh=mesh_of("c1", "c3")), former_failures={"c2": failure("c2")}),
        ],
        [lambda: pair(remembering("c2")), lambda: replace(context_of(remembering("c2"), C3, mesh=mesh_of("c1", "c3")), former={"c2": C2})],
    ),
}


CATALOGUE |= VERIFY | DEAD_PEERS | LEASES
CATALOGUE |= {code: (CATALOGUE[code][0] + more[0], CATALOGUE[code][1] + more[1]) for code, more in MORE.items()}


def found(code: str, context: CheckContext) -> list[Finding]:
    return [f for f in run_checks(context, "verify") if f.code == code]


def fires(which: int) -> list[object]:
    return [pytest.param(code, case, id=f"{code}-{i}") for code, entry in sorted(CATALOGUE.items()) for i, case in enumerate(entry[which])]


@one_test("code case", *fires(0))
def test_a_check_speaks_when_it_must(code: str, case: Callable[[], CheckContext]) -> None:
    findings = found(code, case())
    assert findings
    for finding in findings:
        assert ROWS[code].severity_in(finding.severity) is finding.severity
        assert finding.summary and not finding.summary.endswith(".")
        assert finding.evidence
        assert finding.fix
        if registered()[code].scope is Scope.PAIR:
            assert {finding.cluster, finding.peer} == {"c1", "c2"}
            assert mentions(f"{finding.summary} {finding.evidence} {finding.fix}", "c1", "c2")
        else:
            assert finding.cluster in ("c1", "c2") or code.startswith("CM-WAIV-")  # about the binding
        for text in (finding.summary, finding.evidence, finding.fix):
            assert all(c.isprintable() or c == "\n" for c in text) and not stop_inside(text)


@one_test("code case", *fires(1))
def test_a_check_is_silent_when_it_must(code: str, case: Callable[[], CheckContext]) -> None:
    assert found(code, case()) == []


def test_every_check_has_cases() -> None:
    assert set(CATALOGUE) == set(registered())
    assert all(entry[0] for entry in CATALOGUE.values())


@in_one_test
@pytest.mark.parametrize("version", ["1.14.20", "1.15.19", "1.16.19", "1.17.17", "1.18.11", "1.19.5", "1.20.0", "1.21.0-pre.0"])
@pytest.mark.parametrize("kvstoremesh", [True, False])
@pytest.mark.parametrize("auth_mode", ["legacy", "migration", "cluster"])
@pytest.mark.parametrize("service", ["LoadBalancer", "NodePort"])
def test_a_healthy_mesh_has_no_findings(version: str, kvstoremesh: bool, auth_mode: str, service: str) -> None:
    clusters = [
        cluster_facts(h, version=version, kvstoremesh=kvstoremesh, auth_mode=auth_mode, service=service) for h in ("c1", "c2", "c3")
    ]
    assert run_checks(context_of(*clusters)) == ()


@one_test(
    "mode kvstore version severity fix",
    ("crd", "etcd", "1.18.11", None, ""),
    ("crd", "", "1.18.11", None, ""),
    ("doublewrite-readcrd", "etcd", "1.18.11", None, ""),
    ("doublewrite-readkvstore", "etcd", "1.18.11", Severity.REMEDIABLE, "identityAllocationMode=doublewrite-readcrd"),
    ("doublewrite-readkvstore", "", "1.18.11", None, ""),
    ("kvstore", "etcd", "1.18.11", Severity.BLOCKING, "identityAllocationMode=doublewrite-readkvstore"),
    ("kvstore", "etcd", "1.16.19", Severity.BLOCKING, "migrate-identity"),
    ("kvstore", "", "1.18.11", None, ""),
    (None, "etcd", "1.18.11", Severity.BLOCKING, "identityAllocationMode=doublewrite-readkvstore"),
    (None, "", "1.18.11", None, ""),
    ("CRD", "", "1.18.11", Severity.BLOCKING, "identityAllocationMode=crd"),
    ("doublewrite-readcrd", "etcd", "1.16.19", Severity.BLOCKING, "identityAllocationMode=crd"),
    ("doublewrite-readkvstore", "", "1.16.19", Severity.BLOCKING, "identityAllocationMode=crd"),
)
def test_every_mode_of_identities_has_its_verdict(
    mode: str | None, kvstore: str, version: str, severity: Severity | None, fix: str
) -> None:
    found_here = found("CM-ID-06", pair(with_config(version=version, identity_allocation_mode=mode, kvstore=kvstore)))
    assert [finding.severity for finding in found_here] == ([severity] if severity else [])
    assert all(fix in finding.fix for finding in found_here)

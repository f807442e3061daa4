# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rows of the catalogue (test_checks_catalogue.py) for the checks of workloads, nodes, Services, encryption, rights and installers.

Long, as the catalogue is: a row for every way in which a check speaks, and for every way in which it must not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.context import CheckContext
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.waivers import Waiver, WaiverKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import (
    CaSecretFacts,
    ClusterFacts,
    HostAlias,
    IpsecFacts,
    NodeFacts,
    PodFacts,
    PodPoolFacts,
    ServiceFacts,
    TrustBundleFacts,
    Unread,
    VolumeSource,
    WorkloadFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.sizes import SizeFacts
from tests.testing.facts_builders import (
    HELM_ANNOTATIONS,
    NOW,
    agent_workload,
    apiserver_workload,
    certificate,
    cluster_facts,
    context_of,
    key_facts,
    mesh_of,
    operator_workload,
    peer_secret,
    peer_volume,
)

Case = Callable[[], CheckContext]
Table = dict[str, tuple[list[Case], list[Case]]]

C2 = cluster_facts("c2")
LOCAL_CONFIG = "endpoints:\n- https://clustermesh-apiserver.kube-system.svc:2379\n"
REMOTE_CONFIG = "endpoints:\n- https://c2.mesh.cilium.io:2379\n"
FORBIDDEN = "RBAC forbids to get it (403)."
ENVIRONMENT = {"CILIUM_CLUSTERMESH_CONFIG": "/var/lib/cilium/clustermesh/"}


def pair(c1: ClusterFacts, c2: ClusterFacts = C2) -> CheckContext:
    return context_of(c1, c2)


def sized(members: int = 2, **numbers: int) -> CheckContext:
    """c1 with these numbers of objects, in a mesh of that many members."""
    hosts = [f"c{number}" for number in range(1, members + 1)]
    context = context_of(cluster_facts("c1"), C2, mesh=mesh_of(*hosts))
    values: dict[str, Any] = {"identities": 9, "endpoints": 9, **numbers}
    return replace(context, sizes={host: SizeFacts(host=host, **values) for host in ("c1", "c2")})


def one(version: str = "1.18.11", config: dict[str, str | None] | None = None, **overrides: Any) -> CheckContext:
    """c1 with something changed, beside a healthy c2 of the same version."""
    return pair(cluster_facts("c1", version=version, config=config, **overrides), cluster_facts("c2", version=version))


def both(version: str = "1.18.11", **config: str | None) -> CheckContext:
    return pair(*(cluster_facts(host, version=version, config=config) for host in ("c1", "c2")))


def started(minutes: int, kind: str = "agent_pods", changed: bool = True) -> CheckContext:
    """Pods that started so many minutes after cilium-config was changed."""
    pod = PodFacts(name="p", node="c1-n1", ready=True, phase="Running", started=NOW + timedelta(minutes=minutes))
    pods: dict[str, Any] = {kind: (pod,)}
    return one(config_changed=NOW if changed else None, **pods)


def syncing(
    operator: WorkloadFacts | None, *, version: str = "1.18.11", key: str = "clustermesh-enable-endpoint-sync", **more: Any
) -> CheckContext:
    return one(version, {key: "true"}, operator=operator, **more)


def joined(version: str = "1.18.11", **overrides: Any) -> WorkloadFacts:
    """An operator that takes part in the mesh."""
    volumes = {"clustermesh-secrets": peer_volume("cilium-clustermesh", local=True)}
    return operator_workload(version, environment={"cilium-operator": ENVIRONMENT}, volumes=volumes, **overrides)


def node(name: str = "n1", *, ready: bool = True, ip: str = "172.16.1.1", **overrides: Any) -> NodeFacts:
    return NodeFacts(name=name, ready=ready, internal_ips=(ip,), **overrides)


def router(host: str, ip: str, cidr: str) -> ClusterFacts:
    return cluster_facts(host, nodes=(node(f"{host}-n1", ip=f"172.16.{host[1:]}.1", router_ips=(ip,), allocated_cidrs=(cidr,)),))


def dialled(*ips: str, private: str = "172.16.1.1") -> CheckContext:
    return one(service=ServiceFacts(type="LoadBalancer", ingress_ips=ips), nodes=(node(ip=private),))


def ipsec(first: dict[int, str], second: dict[int, str] | None, **overrides: Any) -> CheckContext:
    on: dict[str, str | None] = {"enable-ipsec": "true"}
    facts = [
        cluster_facts(host, config=on, ipsec=None if keys is None else IpsecFacts(name="cilium-ipsec-keys", present=True, keys=keys))
        for host, keys in (("c1", first), ("c2", second))
    ]
    return pair(replace(facts[0], **overrides), facts[1])


def native(**config: str | None) -> CheckContext:
    return one(config={"routing-mode": "native", **config})


def local_policy(kind: str, pod_node: str, *, ready: bool = True, **service: Any) -> CheckContext:
    pod = PodFacts(name="p", node=pod_node, ready=ready, phase="Running")
    values: dict[str, Any] = {"type": kind, "node_port": 32001, "external_traffic_policy": "Local", **service}
    return one(service=ServiceFacts(**values), apiserver_pods=(pod,), nodes=tuple(node(f"n{i}", ip=f"172.16.1.{i}") for i in range(1, 6)))


def selecting(selector: dict[str, str]) -> CheckContext:
    return one(service=ServiceFacts(type="LoadBalancer", ingress_ips=("192.0.2.1",), selector=selector))


def replicas(count: int, affinity: str) -> CheckContext:
    service = ServiceFacts(type="LoadBalancer", ingress_ips=("192.0.2.1",), session_affinity=affinity)
    return one(service=service, apiserver=apiserver_workload("1.18.11", users=False, desired=count, ready=count))


def entry(config: str, *, kvstoremesh: bool = True, known: bool = True, peer: str = "c2") -> CheckContext:
    """c1 with an entry of cilium-clustermesh, and of cilium-kvstoremesh where the peer is ``known``."""
    keys = {peer: key_facts(config, managers=["x"], config=config)}
    mirrored = {peer: key_facts(REMOTE_CONFIG, managers=["x"], config=REMOTE_CONFIG)} if known else {}
    facts = cluster_facts("c1", kvstoremesh=kvstoremesh, clustermesh=peer_secret("cilium-clustermesh", keys))
    return pair(replace(facts, kvstoremesh=peer_secret("cilium-kvstoremesh", mirrored)))


def bundled(volume: str) -> tuple[VolumeSource, ...]:
    whole, remote, *others = peer_volume(volume, local=volume == "cilium-clustermesh")
    items = {path: key for path, key in remote.items.items() if key != "ca.crt"}
    authority = VolumeSource(kind="ConfigMap", name="cilium-root-ca.crt", items={"common-etcd-client-ca.crt": "ca.crt"})
    return (whole, replace(remote, items=items), authority, *others)


def with_bundle(*, agents: bool, kvstoremesh: bool) -> CheckContext:
    agent = {"clustermesh-secrets": bundled("cilium-clustermesh") if agents else peer_volume("cilium-clustermesh", local=True)}
    reader = {"kvstoremesh-secrets": bundled("cilium-kvstoremesh") if kvstoremesh else peer_volume("cilium-kvstoremesh")}
    return one(agent=agent_workload("1.18.11", volumes=agent), apiserver=apiserver_workload("1.18.11", users=False, volumes=reader))


def bundle(**values: Any) -> CheckContext:
    return one(ca_bundle=TrustBundleFacts(kind="ConfigMap", name="cilium-root-ca.crt", key="ca.crt", **values))


def unread(*names: str, hubble_ui: bool | None = None) -> CheckContext:
    facts = cluster_facts("c1", unread=tuple(Unread(what=name, message=FORBIDDEN, remedy="Grant it.") for name in names))
    return context_of(facts, C2, mesh=mesh_of("c1", "c2", hubble_ui=hubble_ui))


def marked(
    config: dict[str, str] | None = None, *, agent: dict[str, str] | None = None, owners: tuple[str, ...] = (), os: str = ""
) -> CheckContext:
    """cilium-config and DaemonSet cilium with these marks, beside those that Helm leaves."""
    notes = {**HELM_ANNOTATIONS, **(config or {})}
    workload = agent_workload("1.18.11", annotations={**HELM_ANNOTATIONS, **(agent or {})}, owner_kinds=owners)
    return one(config_annotations=notes, agent=workload, nodes=(node(os_image=os),))


def unmarked() -> CheckContext:
    return one(config_annotations={}, agent=agent_workload("1.18.11", annotations={}), nodes=(node(os_image="Talos (v1.11.0)"),))


def ending(days: int) -> CheckContext:
    return one(ca=CaSecretFacts(present=True, certificates=(certificate("Cilium CA of c1", days=days),), has_key=True, key_matches=True))


def relays(*, ca: str = "", hubble: bool | None = None, relay: bool = True) -> CheckContext:
    parts = {"hubble-relay": operator_workload("1.18.11", name="hubble-relay")} if relay else {}
    clusters = [cluster_facts("c1", ca=ca, parts=parts), cluster_facts("c2", ca=ca)]
    return context_of(*clusters, mesh=mesh_of("c1", "c2", hubble_enabled=hubble))


WORKLOADS: Table = {
    "CM-INST-05": (
        [
            lambda: one(agent=agent_workload("1.18.11", environment={})),
            lambda: one(agent=agent_workload("1.18.11", volumes={})),
        ],
        [
            lambda: one(agent=agent_workload("1.18.11", environment={}, arguments={"cilium-agent": ("--clustermesh-config=/x",)})),
            lambda: one(config={"clustermesh-config": "/x"}, agent=agent_workload("1.18.11", environment={})),
        ],
    ),
    "CM-INST-06": (
        [lambda: one(apiserver=apiserver_workload("1.18.11", users=False, volumes={}))],
        [lambda: one(apiserver=apiserver_workload("1.18.11", users=False, kvstoremesh=False))],
    ),
    "CM-INST-07": (
        [lambda: started(-1), lambda: started(-1, "apiserver_pods")],
        [lambda: started(0), lambda: started(1), lambda: started(-1, changed=False)],
    ),
    "CM-INST-08": (
        [
            lambda: syncing(operator_workload("1.18.11")),
            lambda: syncing(operator_workload("1.20.0"), version="1.20.0", key="clustermesh-enable-mcs-api"),
            lambda: syncing(replace(joined(), volumes={})),
        ],
        [
            lambda: syncing(joined()),
            lambda: syncing(None),
            lambda: syncing(operator_workload("1.16.19"), version="1.16.19", key="clustermesh-enable-mcs-api"),
            lambda: syncing(operator_workload("1.15.19"), version="1.15.19"),
        ],
    ),
    "CM-INST-09": ([lambda: one(operator=operator_workload("1.18.11", ready=0))], [lambda: one(operator=None)]),
    "CM-INST-10": ([lambda: one(config={"disable-endpoint-crd": "true"})], [lambda: one(config={"disable-endpoint-crd": "false"})]),
    "CM-INST-11": (
        [lambda: syncing(joined(), apiserver=apiserver_workload("1.18.11", kvstoremesh=False, users=False))],
        [
            lambda: syncing(joined()),
            lambda: one(apiserver=apiserver_workload("1.18.11", kvstoremesh=False, users=False)),
            lambda: syncing(joined("1.20.0"), version="1.20.0", apiserver=apiserver_workload("1.20.0", kvstoremesh=False)),
            lambda: syncing(
                joined(host_aliases=(HostAlias(ip="192.0.2.2", hostnames=("c2.mesh.cilium.io",)),)),
                apiserver=apiserver_workload("1.18.11", kvstoremesh=False, users=False),
            ),
        ],
    ),
}

NODES: Table = {
    "CM-NODE-02": (
        [lambda: pair(router("c1", "10.1.9.9", "10.1.0.0/24"), router("c2", "10.1.9.9", "10.2.0.0/24"))],
        [
            lambda: pair(router("c1", "10.1.0.9", "10.1.0.0/24"), router("c2", "10.2.0.9", "10.2.0.0/24")),
            lambda: pair(router("c1", "10.1.0.9", "10.1.0.0/24"), router("c2", "10.1.0.9", "10.1.0.0/24")),  # CM-CIDR-01
        ],
    ),
    "CM-NODE-03": (
        [lambda: dialled("9.9.9.9")],
        [lambda: dialled("10.9.9.9"), lambda: dialled("9.9.9.9", private="8.8.8.8")],
    ),
    "CM-NODE-04": ([lambda: one(nodes=(node("n1", ready=False), node("n2", ip="172.16.1.2")))], [lambda: one(nodes=())]),
    "CM-NODE-05": (
        [lambda: one(nodes=(node(mesh_ips=("172.16.1.99",)),))],
        [lambda: one(nodes=(node(mesh_ips=("172.16.1.1", "fd00::1")),)), lambda: one(nodes=(node(),))],
    ),
}

ENCRYPTION: Table = {
    "CM-ENC-03": (
        [partial(ipsec, {3: "a"}, {3: "b"}), partial(ipsec, {3: "a"}, {4: "a"}), partial(ipsec, {3: "a"}, {3: "a", 4: "b"})],
        [partial(ipsec, {3: "a"}, {3: "a"}), partial(ipsec, {2: "x", 3: "a"}, {3: "a"}), partial(ipsec, {3: "a"}, None)],
    ),
    "CM-ENC-04": (
        [
            partial(ipsec, {}, {3: "a"}, ipsec=IpsecFacts(name="cilium-ipsec-keys")),
            partial(ipsec, {}, {3: "a"}, ipsec=IpsecFacts(name="cilium-ipsec-keys", present=True, problem="it holds no key")),
        ],
        [partial(ipsec, {3: "a"}, None)],
    ),
    "CM-ENC-05": ([lambda: both("1.20.0", **{"enable-ztunnel": "true"})], [lambda: both("1.20.0", **{"enable-ztunnel": "false"})]),
    "CM-ENC-06": (
        [
            lambda: pair(
                *(cluster_facts(h, config={"enable-wireguard": "true", "encrypt-node": n}) for h, n in (("c1", "true"), ("c2", None)))
            ),
            lambda: pair(
                *(
                    cluster_facts(h, version="1.19.5", config={"enable-wireguard": "true", "enable-encryption-strict-mode-ingress": n})
                    for h, n in (("c1", "true"), ("c2", "false"))
                )
            ),
        ],
        [
            lambda: one(config={"encrypt-node": "true"}),  # without encryption it means nothing
            lambda: pair(
                cluster_facts("c1", config={"enable-wireguard": "true", "enable-encryption-strict-mode": "true"}),
                cluster_facts("c2", version="1.19.5", config={"enable-wireguard": "true", "enable-encryption-strict-mode-egress": "true"}),
            ),
        ],
    ),
    "CM-ENC-07": (
        [lambda: one(config={"enable-encryption-strict-mode": "true", "encryption-strict-mode-cidr": "10.1.0.0/16"})],
        [
            lambda: one(config={"enable-encryption-strict-mode": "true", "encryption-strict-mode-cidr": "10.0.0.0/8"}),
            lambda: one(config={"encryption-strict-mode-cidr": "10.1.0.0/16"}),
        ],
    ),
}

IPV6_ALONE: dict[str, str | None] = {"enable-ipv4": "false", "enable-ipv6": "true"}
NETWORK: Table = {
    "CM-NET-05": (
        [
            lambda: native(),
            lambda: native(**{"ipam": "eni"}),
            lambda: native(**{"ipv4-native-routing-cidr": "10.0.0.0/8", "enable-ip-masq-agent": "true"}),
            lambda: native(**{"ipv4-native-routing-cidr": "10.0.0.0/8", "enable-ipv6": "true"}),
        ],
        [
            lambda: native(**{"ipv4-native-routing-cidr": "10.0.0.0/8"}),
            lambda: native(**{"enable-ipv4-masquerade": "false"}),
            lambda: one(),
        ],
    ),
    "CM-NET-06": (
        [
            lambda: one(config={"mtu": "1400"}),
            lambda: pair(
                cluster_facts("c1", config={"routing-mode": "native", "auto-direct-node-routes": "true"}),
                cluster_facts("c2", config={"routing-mode": "native"}),
            ),
        ],
        [lambda: one(config={"auto-direct-node-routes": "true"}), lambda: both(mtu="1400"), lambda: one(config={"mtu": "0"})],
    ),
    "CM-NET-07": (
        [
            lambda: one(config={"underlay-protocol": "ipv6"}),
            lambda: one("1.20.0", {"underlay-protocol": "ipv6", "enable-ipv6": "true"}),
            lambda: one("1.20.0", {"underlay-protocol": "auto", **IPV6_ALONE}),
            lambda: one("1.20.0", IPV6_ALONE),
        ],
        [
            lambda: one(config={"underlay-protocol": "ipv4"}),
            lambda: one("1.17.17", {"underlay-protocol": "ipv6"}),  # before 1.18 the key means nothing
            lambda: one("1.20.0", {"underlay-protocol": "auto"}),
            lambda: both(**{"underlay-protocol": "ipv6"}),
            lambda: pair(  # unset is auto in 1.20, which is IPv6 here
                cluster_facts("c1", version="1.20.0", config=IPV6_ALONE),
                cluster_facts("c2", version="1.19.5", config={**IPV6_ALONE, "underlay-protocol": "ipv6"}),
            ),
        ],
    ),
}

SERVICE: Table = {
    "CM-SIZE-01": (
        [lambda: sized(256), lambda: sized(identities=65_536), lambda: sized(endpoints=300_000)],
        [lambda: sized(255), lambda: sized(identities=65_535), lambda: sized(endpoints=200_000), lambda: pair(C2)],
    ),
    "CM-SIZE-02": (
        [lambda: sized(204), lambda: sized(identities=60_000), lambda: sized(endpoints=210_000)],
        [lambda: sized(203), lambda: sized(256), lambda: sized(identities=52_000), lambda: sized(endpoints=200_000)],
    ),
    "CM-SVC-01": (
        [lambda: local_policy("NodePort", "n5")],  # the first three nodes are dialled
        [
            lambda: local_policy("NodePort", "n2"),
            lambda: local_policy("NodePort", "n5", external_traffic_policy="Cluster"),
            lambda: local_policy("NodePort", "n5", ready=False),  # CM-INST-03
            lambda: local_policy("LoadBalancer", "n5", ingress_ips=("192.0.2.9",)),
        ],
    ),
    "CM-SVC-02": (
        [lambda: local_policy("NodePort", "n2"), lambda: local_policy("LoadBalancer", "n2", ingress_ips=("192.0.2.9",))],
        [lambda: local_policy("NodePort", "n2", external_traffic_policy="Cluster")],
    ),
    "CM-SVC-03": (
        [lambda: selecting({"k8s-app": "clustermesh"}), lambda: selecting({"k8s-app": "clustermesh-apiserver", "zone": "a"})],
        [lambda: selecting({"k8s-app": "clustermesh-apiserver"}), lambda: selecting({})],
    ),
    "CM-SVC-04": ([lambda: replicas(2, "None")], [lambda: replicas(2, "ClientIP"), lambda: replicas(1, "None")]),
}

OTHERS: Table = {
    "CM-KVM-01": (
        [lambda: entry(REMOTE_CONFIG), lambda: entry(REMOTE_CONFIG, peer="elsewhere")],
        [lambda: entry(LOCAL_CONFIG), lambda: entry(REMOTE_CONFIG, kvstoremesh=False), lambda: entry(REMOTE_CONFIG, peer="c1")],
    ),
    "CM-KVM-02": (
        [lambda: entry(LOCAL_CONFIG, known=False), lambda: entry(LOCAL_CONFIG, kvstoremesh=False)],
        [lambda: entry(LOCAL_CONFIG), lambda: entry(REMOTE_CONFIG, known=False), lambda: entry(LOCAL_CONFIG, known=False, peer="c1")],
    ),
    "CM-CA-01": (
        [lambda: bundle(), lambda: bundle(present=True, problem="it has no key ca.crt")],
        [lambda: bundle(present=True, certificates=(certificate("A"), certificate("B")))],
    ),
    "CM-CA-02": (
        [lambda: with_bundle(agents=True, kvstoremesh=False)],
        [lambda: with_bundle(agents=True, kvstoremesh=True), lambda: with_bundle(agents=False, kvstoremesh=False)],
    ),
    "CM-CERT-10": ([lambda: ending(30), lambda: ending(-1)], [lambda: ending(31), lambda: one(ca=CaSecretFacts())]),
    "CM-HUB-01": (
        [lambda: relays(), lambda: relays(relay=False, hubble=True)],
        [lambda: relays(ca="one"), lambda: relays(relay=False), lambda: relays(relay=False, hubble=False)],
    ),
    "CM-RBAC-01": ([lambda: unread("parts"), lambda: unread("ca", "ipsec")], [lambda: unread("ca"), lambda: unread()]),
    "CM-RBAC-02": ([lambda: unread("ca")], [lambda: unread("parts")]),
    "CM-CFG-04": (
        [
            lambda: one(config={"enable-wireguard": "yes"}),
            lambda: one(config={"routing-mode": "disabled", "mtu": ""}),
            lambda: one("1.19.5", {"policy-cidr-match-mode": "pods"}),
            lambda: one(config={"kube-proxy-replacement": "strict"}),
        ],
        [
            lambda: one(config={"enable-wireguard": "f", "enable-host-firewall": "FALSE"}),
            lambda: one("1.20.0", {"policy-cidr-match-mode": "nodes pods"}),
            lambda: one("1.18.11", {"enable-ztunnel": "yes"}),  # no minor before 1.19 reads the key
            lambda: one("1.15.19", {"kube-proxy-replacement": "strict"}),  # its values were not read
        ],
    ),
    "CM-CFG-03": (
        [lambda: unread("parts", hubble_ui=True), lambda: unread("parts", hubble_ui=False)],
        [lambda: unread(hubble_ui=True), lambda: unread("parts")],
    ),
    "CM-DIST-01": (
        [
            lambda: marked({"resources.gardener.cloud/managed-by": "gardener"}),
            lambda: marked(agent={"kubeone.io/addon": "cni-cilium"}),
            lambda: marked({"kubernetes.azure.com/managedby": "aks"}),
            lambda: marked(owners=("CiliumConfig",)),
            lambda: marked({"helm.toolkit.fluxcd.io/name": "cilium", "helm.toolkit.fluxcd.io/namespace": "flux-system"}),
            lambda: marked({"kustomize.toolkit.fluxcd.io/name": "infra"}),
            lambda: marked({"argocd.argoproj.io/tracking-id": "cilium:/ConfigMap:kube-system/cilium-config"}),
            lambda: marked({"meta.helm.sh/release-name": "rke2-cilium"}),
            lambda: marked({"meta.helm.sh/release-name": "kube-system-cilium"}),
            unmarked,
        ],
        [lambda: marked(), lambda: marked({"meta.helm.sh/release-name": "my-cilium"}), lambda: marked(os="Talos (v1.11.0)")],
    ),
}


def waived(days: int) -> CheckContext:
    """Two healthy clusters of a binding with a waiver that ends after so many days."""
    waiver = Waiver(kind=WaiverKind.ACCEPT, subject="CM-CIDR-02", reason="the pools are split", until=NOW + timedelta(days=days))
    return context_of(cluster_facts("c1"), C2, mesh=mesh_of("c1", "c2", waivers=(waiver,)))


WAIVERS: Table = {
    "CM-WAIV-01": ([lambda: waived(0), lambda: waived(-500)], [lambda: waived(1), lambda: waived(400)]),
    "CM-WAIV-02": ([lambda: waived(1), lambda: waived(14)], [lambda: waived(0), lambda: waived(15)]),
    "CM-WAIV-03": ([lambda: waived(367)], [lambda: waived(366), lambda: waived(-1)]),
}

VERIFY: Table = WORKLOADS | NODES | ENCRYPTION | NETWORK | SERVICE | OTHERS | WAIVERS


def pools(*cidrs: str) -> CheckContext:
    """c1 takes its ranges from CiliumPodIPPools."""
    return one(
        config={"ipam": "multi-pool", "cluster-pool-ipv4-cidr": None}, pod_pools=(PodPoolFacts(name="default", cidrs=cidrs),), nodes=()
    )


def with_intermediate(days: int) -> CheckContext:
    facts = cluster_facts("c1")
    between = certificate("Intermediate", signer="Cilium CA of c1", days=days)
    return pair(replace(facts, server_cert=replace(facts.server_cert, intermediates=(between,))))


MORE: Table = {
    "CM-CERT-03": ([lambda: with_intermediate(-1)], [lambda: with_intermediate(40)]),
    "CM-CERT-04": ([lambda: with_intermediate(10)], [lambda: with_intermediate(40)]),
    "CM-CIDR-01": (
        [lambda: pair(cluster_facts("c1", config={"ipam": "eni"}, nodes=(node(allocated_cidrs=("10.2.1.7/32",)),)), cluster_facts("c2"))],
        [
            lambda: pair(  # one subnet of one VPC, and every address given out once
                cluster_facts("c1", config={"ipam": "eni"}, nodes=(node(allocated_cidrs=("10.9.0.4/31",), pod_cidrs=("10.9.0.0/24",)),)),
                cluster_facts(
                    "c2",
                    config={"ipam": "eni"},
                    nodes=(node(ip="172.16.2.1", allocated_cidrs=("10.9.0.6/32",), pod_cidrs=("10.9.0.0/24",)),),
                ),
            )
        ],
    ),
    "CM-CIDR-02": ([lambda: pools("10.2.0.0/15"), lambda: pools("10.99.0.0/16", "10.0.0.0/8")], [lambda: pools("10.99.0.0/16")]),
    "CM-NODE-01": (
        [
            lambda: pair(
                cluster_facts("c1", nodes=(node(mesh_ips=("172.16.1.1", "fd00::1")),)), cluster_facts("c2", nodes=(node(ip="fd00::1"),))
            )
        ],
        [],
    ),
    "CM-ENC-02": (
        [lambda: one(config={"enable-wireguard": "true", "enable-host-firewall": "true"}, service="NodePort")],
        [lambda: one(config={"encrypt-node": "true"}, service="NodePort")],
    ),
    "CM-NET-04": (
        [
            lambda: pair(
                *(
                    cluster_facts(
                        f"c{n}",
                        config={
                            "routing-mode": "native",
                            "enable-ipv6": "true",
                            "ipv4-native-routing-cidr": "10.0.0.0/8",
                            "ipv6-native-routing-cidr": f"fd00:{n}::/48",
                            "cluster-pool-ipv6-cidr": f"fd00:{n}::/104",
                        },
                    )
                    for n in (1, 2)
                )
            )
        ],
        [lambda: both(**{"routing-mode": "native", "ipv4-native-routing-cidr": "10.99.0.0/16", "enable-ip-masq-agent": "true"})],
    ),
    "CM-CFG-01": (
        [lambda: pair(cluster_facts("c1", version="1.17.17"), cluster_facts("c2", version="1.19.5"))],
        [
            lambda: pair(  # before 1.20 the key means nothing
                cluster_facts("c1", version="1.19.5", config={"clustermesh-default-global-namespace": "false"}),
                cluster_facts("c2", version="1.19.5"),
            ),
            lambda: one("1.18.11", {"enable-non-default-deny-policies": None}),
        ],
    ),
    "CM-CFG-02": (
        [lambda: context_of(cluster_facts("c1"), C2, mesh=mesh_of("c1", "c2", hubble_ui=True))],
        [
            lambda: context_of(
                *(cluster_facts(h, parts={"hubble-ui": operator_workload("1.18.11", name="hubble-ui")}) for h in ("c1", "c2")),
                mesh=mesh_of("c1", "c2", hubble_ui=True),
            ),
            lambda: context_of(cluster_facts("c1"), C2, mesh=mesh_of("c1", "c2", hubble_ui=False)),
        ],
    ),
}
"""Further rows of checks that have some already."""

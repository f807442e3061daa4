# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lab's profiles say what real charts leave behind. Expected values: objects of real installs of the five versions, copied by hand.

The install that was read: cluster.name c1, cluster.id 1, useAPIServer, config.enabled, tls.auto.method helm, LoadBalancer, one peer named
``peer`` at 127.0.9.1:2379, everything else as the chart has it.
"""

from __future__ import annotations

from base64 import b64decode
from functools import cache
from typing import Any

import pytest

from tests.lab.profiles import HelmPeer, Manifest, ProfileOptions, build

VERSIONS = ("1.16", "1.17", "1.18", "1.19", "1.20")
PATCH = {"1.16": "1.16.19", "1.17": "1.17.17", "1.18": "1.18.11", "1.19": "1.19.5", "1.20": "1.20.0-pre.3"}
PEER = HelmPeer(name="peer", ips=("127.0.9.1",))
FOLDER = "/var/lib/cilium/clustermesh"


@cache
def install(version: str, **options: Any) -> dict[str, Manifest]:
    """Objects by "Kind name". EC keys: these tests look at everything but keys."""
    options = {"config_enabled": True, "peers": (PEER,), **options}
    manifests = build(ProfileOptions(cluster_name="c1", cluster_id=1, version=version, key_type="ec", **options))
    return {f"{manifest['kind']} {manifest['metadata']['name']}": manifest for manifest in manifests}


def pod(objects: dict[str, Manifest], name: str) -> dict[str, Any]:
    spec: dict[str, Any] = objects[name]["spec"]["template"]["spec"]
    return spec


def container(objects: dict[str, Manifest], name: str) -> dict[str, Any]:
    every = pod(objects, "Deployment clustermesh-apiserver")
    return next(item for item in every["initContainers"] + every["containers"] if item["name"] == name)


def text(objects: dict[str, Manifest], secret: str, key: str) -> str:
    return b64decode(objects[f"Secret {secret}"]["data"][key]).decode()


ETCD_BEFORE_118 = """--data-dir=/var/run/etcd --name=clustermesh-apiserver --client-cert-auth --trusted-ca-file=/var/lib/etcd-secrets/ca.crt
 --cert-file=/var/lib/etcd-secrets/tls.crt --key-file=/var/lib/etcd-secrets/tls.key
 --listen-client-urls=https://127.0.0.1:2379,https://[$(HOSTNAME_IP)]:2379 --advertise-client-urls=https://[$(HOSTNAME_IP)]:2379
 --initial-cluster-token=$(INITIAL_CLUSTER_TOKEN) --auto-compaction-retention=1 --listen-metrics-urls=http://[$(HOSTNAME_IP)]:9963
 --metrics=basic"""
ETCD_118 = """--data-dir=/var/run/etcd --name=clustermesh-apiserver --client-cert-auth --trusted-ca-file=/var/lib/etcd-secrets/ca.crt
 --cert-file=/var/lib/etcd-secrets/tls.crt --key-file=/var/lib/etcd-secrets/tls.key --listen-client-urls=https://0.0.0.0:2379
 --advertise-client-urls=https://localhost:2379 --initial-cluster-token=$(INITIAL_CLUSTER_TOKEN) --auto-compaction-retention=1
 --listen-metrics-urls=http://0.0.0.0:9963 --metrics=basic"""
ETCD_SINCE_119 = ETCD_118.replace(" --listen-metrics", " --enable-grpc-gateway=false --listen-metrics")
APISERVER_BEFORE_118 = """clustermesh --cluster-name=$(CLUSTER_NAME) --cluster-id=$(CLUSTER_ID)
 --kvstore-opt=etcd.config=/var/lib/cilium/etcd-config.yaml --kvstore-opt=etcd.qps=20 --kvstore-opt=etcd.bootstrapQps=10000
 --max-connected-clusters=255 --health-port=9880 --enable-external-workloads=false --prometheus-serve-addr=:9962
 --controller-group-metrics=all"""
APISERVER_118 = APISERVER_BEFORE_118.replace(" --enable-external-workloads=false", "")
USERS = " --cluster-users-enabled --cluster-users-config-path=/var/lib/cilium/etcd-config/users.yaml"
APISERVER_119 = APISERVER_118.replace(" --prometheus", f"{USERS} --prometheus")
KVSTOREMESH_BEFORE_118 = """kvstoremesh --cluster-name=$(CLUSTER_NAME) --cluster-id=$(CLUSTER_ID)
 --kvstore-opt=etcd.config=/var/lib/cilium/etcd-config.yaml --kvstore-opt=etcd.qps=100 --kvstore-opt=etcd.bootstrapQps=10000
 --kvstore-opt=etcd.maxInflight=10 --clustermesh-config=/var/lib/cilium/clustermesh --max-connected-clusters=255 --health-port=9881
 --prometheus-serve-addr=:9964 --controller-group-metrics=all"""
KVSTOREMESH_118 = f"{KVSTOREMESH_BEFORE_118} --enable-heartbeat=false"
KVSTOREMESH_SINCE_119 = KVSTOREMESH_118.replace(" --health-port", " --clustermesh-cache-ttl=0s --health-port")
INIT = """etcdinit --etcd-cluster-name=clustermesh-apiserver --etcd-initial-cluster-token=$(INITIAL_CLUSTER_TOKEN)
 --etcd-data-dir=/var/run/etcd"""
ARGS = {
    "1.16": (INIT, ETCD_BEFORE_118, APISERVER_BEFORE_118, KVSTOREMESH_BEFORE_118),
    "1.17": (INIT, ETCD_BEFORE_118, APISERVER_BEFORE_118, KVSTOREMESH_BEFORE_118),
    "1.18": (INIT, ETCD_118, APISERVER_118, KVSTOREMESH_118),
    "1.19": (INIT, ETCD_SINCE_119, APISERVER_119, KVSTOREMESH_SINCE_119),
    "1.20": (INIT, ETCD_SINCE_119, f"{APISERVER_119} --clustermesh-default-global-namespace=true", KVSTOREMESH_SINCE_119),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_mesh_pod_runs_the_commands_of_its_chart(version: str) -> None:
    objects = install(version)
    names = ("etcd-init", "etcd", "apiserver", "kvstoremesh")
    assert [item["name"] for item in pod(objects, "Deployment clustermesh-apiserver")["containers"]] == list(names[1:])
    assert tuple(container(objects, name)["args"] for name in names) == tuple(line.split() for line in ARGS[version])
    assert [container(objects, name)["command"] for name in names] == [
        ["/usr/bin/etcd"] if name == "etcd" else ["/usr/bin/clustermesh-apiserver"] for name in names
    ]
    assert {container(objects, name)["image"] for name in names} == {f"quay.io/cilium/clustermesh-apiserver:v{PATCH[version]}"}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_environment_comes_from_cilium_config_and_the_pod(version: str) -> None:
    def names(which: str) -> list[str]:
        return [f"{item['name']}<{next(iter(item.get('valueFrom', {'value': 0})))}" for item in container(install(version), which)["env"]]

    pod_ip = ["HOSTNAME_IP<fieldRef"] if version in ("1.16", "1.17") else []
    assert names("etcd-init") == ["CILIUM_CLUSTER_NAME<configMapKeyRef", "INITIAL_CLUSTER_TOKEN<fieldRef"]
    assert names("etcd") == ["ETCDCTL_API<value", *pod_ip, "INITIAL_CLUSTER_TOKEN<fieldRef"]
    assert names("apiserver") == [
        "CLUSTER_NAME<configMapKeyRef",
        "CLUSTER_ID<configMapKeyRef",
        "ENABLE_K8S_ENDPOINT_SLICE<configMapKeyRef",
    ]
    assert names("kvstoremesh") == ["CLUSTER_NAME<configMapKeyRef", "CLUSTER_ID<configMapKeyRef"]


@pytest.mark.parametrize("version", VERSIONS)
def test_ports_and_probes_are_where_a_kubelet_expects_them(version: str) -> None:
    objects = install(version)
    ports = {
        name: {port["name"]: port["containerPort"] for port in container(objects, name)["ports"]}
        for name in ("etcd", "apiserver", "kvstoremesh")
    }
    assert ports == {
        "etcd": {"etcd": 2379, "etcd-metrics": 9963},
        "apiserver": {"apiserv-health": 9880, "apiserv-metrics": 9962},
        "kvstoremesh": {"kvmesh-health": 9881, "kvmesh-metrics": 9964},
    }
    for name, port in (("apiserver", "apiserv-health"), ("kvstoremesh", "kvmesh-health")):
        probe = container(objects, name)["readinessProbe"]
        assert probe == {"failureThreshold": 3, "httpGet": {"path": "/readyz", "port": port, "scheme": "HTTP"}, "periodSeconds": 10}
    assert "readinessProbe" not in container(objects, "etcd")


def sources(volume: dict[str, Any]) -> list[str]:
    """A projected volume in short: "secret: key=path key=path", with "?" after an optional one."""
    lines = []
    for source in volume["projected"]["sources"]:
        secret = source["secret"]
        items = " ".join(f"{item['key']}={item['path']}" for item in secret.get("items", ()))
        lines.append(f"{secret['name']}{'?' if secret.get('optional') else ''}: {items}".rstrip(": "))
    return lines


PLAIN = "tls.crt=tls.crt tls.key=tls.key ca.crt=ca.crt"
COMMON = (
    "clustermesh-apiserver-remote-cert?: tls.key=common-etcd-client.key tls.crt=common-etcd-client.crt ca.crt=common-etcd-client-ca.crt"
)
LOCAL = "clustermesh-apiserver-local-cert?: tls.key=local-etcd-client.key tls.crt=local-etcd-client.crt ca.crt=local-etcd-client-ca.crt"


@pytest.mark.parametrize("version", VERSIONS)
def test_volumes_project_the_secrets_under_the_names_that_processes_read(version: str) -> None:
    objects = install(version)
    volumes = {volume["name"]: volume for volume in pod(objects, "Deployment clustermesh-apiserver")["volumes"]}
    users = ["etcd-users-config"] if version in ("1.19", "1.20") else []
    assert list(volumes) == ["etcd-server-secrets", "etcd-admin-client", *users, "etcd-data-dir", "kvstoremesh-secrets"]
    assert sources(volumes["etcd-server-secrets"]) == [f"clustermesh-apiserver-server-cert: {PLAIN}"]
    assert sources(volumes["etcd-admin-client"]) == [f"clustermesh-apiserver-admin-cert: {PLAIN}"]
    assert sources(volumes["kvstoremesh-secrets"]) == ["cilium-kvstoremesh?", COMMON]
    for name in users:
        assert volumes[name]["configMap"] == {"defaultMode": 0o400, "name": "clustermesh-remote-users"}, "not optional"
    (agents,) = pod(objects, "DaemonSet cilium")["volumes"]
    assert sources(agents) == ["cilium-clustermesh?", COMMON, LOCAL]
    assert agents["projected"]["defaultMode"] == 0o400


@pytest.mark.parametrize("version", VERSIONS)
def test_mounts(version: str) -> None:
    objects = install(version)

    def mounts(name: str) -> dict[str, str]:
        return {mount["name"]: mount["mountPath"] for mount in container(objects, name)["volumeMounts"]}

    users = {"etcd-users-config": "/var/lib/cilium/etcd-config"} if version in ("1.19", "1.20") else {}
    assert mounts("etcd-init") == {"etcd-data-dir": "/var/run/etcd"}
    assert mounts("etcd") == {"etcd-server-secrets": "/var/lib/etcd-secrets", "etcd-data-dir": "/var/run/etcd"}
    assert mounts("apiserver") == {"etcd-admin-client": "/var/lib/cilium/etcd-secrets", **users}
    assert mounts("kvstoremesh") == {"etcd-admin-client": "/var/lib/cilium/etcd-secrets", "kvstoremesh-secrets": FOLDER}


def etcd_config(endpoint: str, prefix: str) -> str:
    files = f"{FOLDER}/{prefix}-etcd-client"
    return f"endpoints:\n- {endpoint}\ntrusted-ca-file: {files}-ca.crt\nkey-file: {files}.key\ncert-file: {files}.crt"


ALIASES = "\ncilium-host-aliases:\n- hostname: peer.mesh.cilium.io\n  ips: \n    - 127.0.9.1"
PEER_DIRECT = etcd_config("https://peer.mesh.cilium.io:2379", "common")
OWN_MESH = "https://clustermesh-apiserver.kube-system.svc:2379"


@pytest.mark.parametrize("version", VERSIONS)
def test_agents_reach_their_own_kvstoremesh_with_the_files_of_their_version(version: str) -> None:
    prefix = "common" if version == "1.16" else "local"
    assert text(install(version), "cilium-clustermesh", "peer") == etcd_config(OWN_MESH, prefix)


@pytest.mark.parametrize("version", VERSIONS)
def test_kvstoremesh_dials_the_peer_and_from_120_knows_its_addresses(version: str) -> None:
    assert text(install(version), "cilium-kvstoremesh", "peer") == PEER_DIRECT + (ALIASES if version == "1.20" else "")


@pytest.mark.parametrize("version", VERSIONS)
def test_without_kvstoremesh_the_agents_dial_the_peer_themselves(version: str) -> None:
    objects = install(version, kvstoremesh=False)
    assert text(objects, "cilium-clustermesh", "peer") == PEER_DIRECT + (ALIASES if version == "1.20" else "")
    assert "Secret cilium-kvstoremesh" not in objects
    assert "Secret clustermesh-apiserver-local-cert" not in objects
    assert [item["name"] for item in pod(objects, "Deployment clustermesh-apiserver")["containers"]] == ["etcd", "apiserver"]
    metrics = objects["Service clustermesh-apiserver-metrics"]["spec"]["ports"]
    assert [port["name"] for port in metrics] == ["apiserv-metrics", "etcd-metrics"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kvstoremesh", [True, False])
def test_host_aliases_are_on_the_workload_that_dials(version: str, kvstoremesh: bool) -> None:
    two = HelmPeer(name="peer", ips=("127.0.9.1", "127.0.9.2"))
    objects = install(version, kvstoremesh=kvstoremesh, peers=(two, HelmPeer(name="dns", address="mesh.example.org")))
    expected = [{"ip": ip, "hostnames": ["peer.mesh.cilium.io"]} for ip in two.ips]
    dialler, other = "Deployment clustermesh-apiserver", "DaemonSet cilium"
    if not kvstoremesh:
        dialler, other = other, dialler
    assert pod(objects, dialler)["hostAliases"] == expected
    assert "hostAliases" not in pod(objects, other)


def test_a_peer_with_a_dns_name_is_dialled_by_it() -> None:
    objects = install("1.20", peers=(HelmPeer(name="dns", address="mesh.example.org", port=32380),))
    assert text(objects, "cilium-kvstoremesh", "dns") == etcd_config("https://mesh.example.org:32380", "common")


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        ("1.16", {}, None),
        ("1.18", {}, None),
        ("1.19", {}, "users:\n- name: remote-peer\n  role: remote\n"),
        ("1.20", {}, "users:\n- name: remote-peer\n  role: remote\n"),
        ("1.20", {"auth_mode": "legacy"}, None),
        ("1.16", {"auth_mode": "cluster"}, "users:\n- name: remote-c1\n  role: remote\n- name: remote-peer\n  role: remote\n"),
        ("1.16", {"auth_mode": "cluster", "kvstoremesh": False}, "users:\n- name: remote-peer\n  role: remote\n"),
        ("1.17", {"auth_mode": "migration"}, "users:\n- name: remote-peer\n  role: remote\n"),
        ("1.19", {"peers": ()}, "users:\n"),
        ("1.16", {"peers": (), "auth_mode": "migration", "config_enabled": False}, "users:\n- name: remote-c1\n  role: remote\n"),
        ("1.17", {"peers": (), "auth_mode": "migration", "config_enabled": False}, "users:\n"),
        ("1.18", {"peers": (), "auth_mode": "migration", "config_enabled": False}, "users:\n"),
    ],
)
def test_remote_users_that_helm_renders(version: str, options: dict[str, Any], expected: str | None) -> None:
    users = install(version, **options).get("ConfigMap clustermesh-remote-users")
    assert (users and users["data"]["users.yaml"]) == expected
    if users:
        assert users["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"


@pytest.mark.parametrize("version", VERSIONS)
def test_without_config_enabled_no_tool_owns_peer_objects(version: str) -> None:
    objects = install(version, config_enabled=False, peers=())
    assert "Secret cilium-clustermesh" not in objects
    assert "Secret cilium-kvstoremesh" not in objects
    users = objects.get("ConfigMap clustermesh-remote-users")
    if version in ("1.19", "1.20"):
        assert users is not None
        assert users["data"] == {"users.yaml": "users: []\n"}
        assert "labels" not in users["metadata"], "made by an operator, not by Helm"
        assert "ConfigMap clustermesh-remote-users" not in install(version, config_enabled=False, peers=(), remote_users=False)
    else:
        assert users is None, "legacy needs none"


@pytest.mark.parametrize("version", VERSIONS)
def test_helm_marks_what_it_owns(version: str) -> None:
    objects = install(version)
    ownership = {"meta.helm.sh/release-name": "cilium", "meta.helm.sh/release-namespace": "kube-system"}
    assert all(item["metadata"]["annotations"].items() >= ownership.items() for item in objects.values())
    assert {item["metadata"]["labels"]["app.kubernetes.io/managed-by"] for item in objects.values()} == {"Helm"}
    again = {name.split()[1] for name, item in objects.items() if "cilium.io/helm-template-non-idempotent" in item["metadata"]["labels"]}
    assert again == (set() if version in ("1.16", "1.17", "1.18") else TLS)
    charts = {item["metadata"]["labels"].get("helm.sh/chart") for name, item in objects.items() if name.startswith(("D", "Service "))}
    assert charts == ({"cilium-1.20.0-pre.3"} if version == "1.20" else {None})


TLS = {
    "cilium-ca",
    "clustermesh-apiserver-admin-cert",
    "clustermesh-apiserver-local-cert",
    "clustermesh-apiserver-remote-cert",
    "clustermesh-apiserver-server-cert",
    "hubble-server-certs",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_services(version: str) -> None:
    objects = install(version)
    mesh = objects["Service clustermesh-apiserver"]["spec"]
    assert mesh["type"] == "LoadBalancer"
    assert mesh["ports"] == [{"port": 2379, "protocol": "TCP", "targetPort": 2379}]
    assert mesh["selector"] == {"k8s-app": "clustermesh-apiserver"}
    metrics = objects["Service clustermesh-apiserver-metrics"]["spec"]
    assert metrics["clusterIP"] == "None"
    assert {port["name"]: port["port"] for port in metrics["ports"]} == {
        "apiserv-metrics": 9962,
        "kvmesh-metrics": 9964,
        "etcd-metrics": 9963,
    }
    node_port = install(version, service_type="NodePort")["Service clustermesh-apiserver"]["spec"]
    assert (node_port["type"], node_port["ports"][0]["nodePort"]) == ("NodePort", 32379)


@pytest.mark.parametrize("version", VERSIONS)
def test_agents_and_operator(version: str) -> None:
    objects = install(version)
    (agent,) = pod(objects, "DaemonSet cilium")["containers"]
    assert agent["image"] == f"quay.io/cilium/cilium:v{PATCH[version]}"
    assert agent["env"] == [{"name": "CILIUM_CLUSTERMESH_CONFIG", "value": f"{FOLDER}/"}]
    named = {"health": 9879, "peer-service": 4244} if version in ("1.19", "1.20") else {}
    assert {port["name"]: port["containerPort"] for port in agent.get("ports", ())} == named
    (operator,) = pod(objects, "Deployment cilium-operator")["containers"]
    assert operator["image"] == f"quay.io/cilium/operator-generic:v{PATCH[version]}"
    assert [port["containerPort"] for port in operator["ports"]] == ([9234, 9963] if named else [9963])
    for name, kubectl_means in (("Deployment clustermesh-apiserver", "apiserver"), ("DaemonSet cilium", "cilium-agent")):
        annotations = objects[name]["spec"]["template"]["metadata"].get("annotations", {})
        assert annotations == ({} if version in ("1.16", "1.17") else {"kubectl.kubernetes.io/default-container": kubectl_means})


@pytest.mark.parametrize("version", VERSIONS)
def test_the_operator_reads_the_mesh_only_where_it_has_to(version: str) -> None:
    def volumes(**extra: str) -> list[str]:
        config = {f"clustermesh-{key.replace('_', '-')}": value for key, value in extra.items()}
        manifests = build(ProfileOptions(cluster_name="c1", cluster_id=1, version=version, key_type="ec", extra_config=config))
        (operator,) = (item for item in manifests if item["metadata"]["name"] == "cilium-operator" and item["kind"] == "Deployment")
        return [volume["name"] for volume in operator["spec"]["template"]["spec"]["volumes"]]

    assert volumes() == ["cilium-config-path"]
    assert volumes(enable_endpoint_sync="true") == ["cilium-config-path", "clustermesh-secrets"]
    assert ("clustermesh-secrets" in volumes(enable_mcs_api="true")) == (version != "1.16")


SINCE_117 = "default-lb-service-ipam=lbipam enable-lb-ipam=true enable-non-default-deny-policies=true tunnel-source-port-range=0-0"
SINCE_118 = f"{SINCE_117} hubble-network-policy-correlation-enabled=true"
SINCE_119 = f"""{SINCE_118} clustermesh-cache-ttl=0s clustermesh-mcs-api-install-crds=true mesh-auth-enabled=false
 policy-default-local-cluster=true proxy-cluster-max-connections=1024 proxy-cluster-max-requests=1024"""
EXPORT = "hubble-export-file-max-backups=5 hubble-export-file-max-size-mb=10 mesh-auth-enabled=true"
CONFIG = """bpf-lb-external-clusterip=false cluster-id=1 cluster-name=c1 cluster-pool-ipv4-cidr=10.0.0.0/8 cluster-pool-ipv4-mask-size=24
 clustermesh-enable-endpoint-sync=false clustermesh-enable-mcs-api=false enable-hubble=true enable-ipv4=true enable-ipv4-big-tcp=false
 enable-ipv4-masquerade=true enable-ipv6=false enable-ipv6-big-tcp=false enable-ipv6-masquerade=true hubble-disable-tls=false
 hubble-listen-address=:4244 hubble-socket-path=/var/run/cilium/hubble.sock
 hubble-tls-cert-file=/var/lib/cilium/tls/hubble/server.crt hubble-tls-client-ca-files=/var/lib/cilium/tls/hubble/client-ca.crt
 hubble-tls-key-file=/var/lib/cilium/tls/hubble/server.key identity-allocation-mode=crd ipam=cluster-pool
 ipam-cilium-node-update-rate=15s kube-proxy-replacement=true kube-proxy-replacement-healthz-bind-address= max-connected-clusters=255
 mesh-auth-gc-interval=5m0s mesh-auth-queue-size=1024 mesh-auth-rotated-identities-queue-size=1024 operator-prometheus-serve-addr=:9963
 routing-mode=tunnel tunnel-protocol=vxlan"""
CONFIG_OF = {
    "1.16": EXPORT,
    "1.17": f"{SINCE_117} {EXPORT}",
    "1.18": f"{SINCE_118} mesh-auth-enabled=true policy-default-local-cluster=false",
    "1.19": SINCE_119,
    "1.20": f"{SINCE_119} clustermesh-default-global-namespace=true",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_cilium_config_has_the_keys_of_its_version(version: str) -> None:
    expected = dict(pair.split("=", 1) for pair in f"{CONFIG} {CONFIG_OF[version]}".split())
    assert install(version)["ConfigMap cilium-config"]["data"] == expected


def test_cilium_config_can_be_overridden_and_emptied() -> None:
    options = ProfileOptions(
        cluster_name="c1", cluster_id=1, key_type="ec", extra_config={"tunnel-protocol": "geneve", "cluster-name": None, "debug": "true"}
    )
    (config,) = (item["data"] for item in build(options) if item["metadata"]["name"] == "cilium-config")
    assert (config["tunnel-protocol"], config["debug"]) == ("geneve", "true")
    assert "cluster-name" not in config


@pytest.mark.parametrize(("version", "first"), [("1.16", "b"), ("1.17", "b"), ("1.18", "b"), ("1.19", "a"), ("1.20", "a")])
def test_charts_that_take_a_map_write_peers_in_the_order_of_names(version: str, first: str) -> None:
    peers = (HelmPeer(name="b", ips=("127.0.9.2",)), HelmPeer(name="a", ips=("127.0.9.1",)))
    users = install(version, peers=peers, auth_mode="migration", kvstoremesh=False)["ConfigMap clustermesh-remote-users"]
    assert users["data"]["users.yaml"].split()[3] == f"remote-{first}"


def test_another_namespace_comes_first_and_is_in_every_name() -> None:
    manifests = build(
        ProfileOptions(cluster_name="c1", cluster_id=1, namespace="cilium", key_type="ec", config_enabled=True, peers=(PEER,))
    )
    assert (manifests[0]["kind"], manifests[0]["metadata"]["name"]) == ("Namespace", "cilium")
    assert {item["metadata"]["namespace"] for item in manifests[1:]} == {"cilium"}
    (agents,) = (item for item in manifests if item["metadata"]["name"] == "cilium-clustermesh")
    assert "https://clustermesh-apiserver.cilium.svc:2379" in b64decode(agents["data"]["peer"]).decode()


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"version": "1.15"}, "1.16, 1.17, 1.18, 1.19, 1.20"),
        ({"auth_mode": "none"}, "legacy, migration, cluster"),
        ({"service_type": "Ingress"}, "LoadBalancer, NodePort, ClusterIP"),
        ({"tls_method": "vault"}, "helm, cronJob, provided"),
        ({"peers": (HelmPeer(name="lost"),)}, "neither ips nor an address"),
    ],
)
def test_wrong_options_are_refused_with_what_would_be_right(wrong: dict[str, Any], hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        ProfileOptions(cluster_name="c1", cluster_id=1, **wrong)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is concluded from each object; pure."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.assemble import assemble
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.certificates import ca_secret_facts, tls_secret_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.config import config_data, kubernetes_version
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.nodes import node_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.peers import peer_secret_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.pods import pod_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.reads import Read, first_read, further_reads, other_reads
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.service import service_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.users import parse_users, remote_users_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.workloads import workload_facts
from tests.testing.declared_types import strays
from tests.testing.made_certificates import NOW, Made, make
from tests.testing.observed_objects import HELM, PEER_YAML, cluster_objects, deployment, node, owns, pod, secret, tls_secret
from tests.testing.rows import one_test

CANARY = "canary-91ab"


@pytest.fixture(scope="module")
def authority() -> Made:
    return make("Cilium CA", ca=True)


# certificates


def test_a_sound_tls_secret_is_found_sound(authority: Made) -> None:
    facts = tls_secret_facts(tls_secret("server", make("server", issuer=authority), authority), "server")
    assert (facts.present, facts.missing_keys, facts.problem) == (True, (), "")
    assert (facts.key_matches, facts.chain_valid) == (True, True)
    assert facts.certificate and facts.certificate.common_name == "server" and facts.ca[0].common_name == "Cilium CA"
    assert set(facts.digests) == {"ca.crt", "tls.crt", "tls.key"}


def test_a_missing_secret_is_absent() -> None:
    assert not tls_secret_facts(None, "x").present and not ca_secret_facts(None).present


def test_half_made_secrets_say_which_half(authority: Made) -> None:
    made, other = make("x", issuer=authority), make("Cilium CA", ca=True)
    facts = tls_secret_facts(secret("x", {"tls.crt": made.pem, "tls.key": b""}), "x")
    assert facts.missing_keys == ("ca.crt", "tls.key") and facts.key_matches is None and facts.chain_valid is None
    facts = tls_secret_facts(secret("x", {"ca.crt": other.pem, "tls.crt": made.pem, "tls.key": other.key}), "x")
    assert (facts.key_matches, facts.chain_valid) == (False, False)
    facts = tls_secret_facts(secret("x", {"ca.crt": b"x", "tls.crt": CANARY.encode(), "tls.key": made.key}), "x")
    assert facts.problem == "tls.crt is not a PEM certificate; ca.crt is not a PEM certificate" and facts.certificate is None
    facts = tls_secret_facts(secret("x", {"ca.crt": authority.pem, "tls.crt": made.pem, "tls.key": CANARY.encode()}), "x")
    assert facts.problem == "tls.key is not an unencrypted PEM private key" and facts.key_matches is None


def test_intermediates_in_tls_crt_are_distinguished_from_the_leaf_and_used_for_the_chain(authority: Made) -> None:
    middle = make("middle", issuer=authority, ca=True)
    leaf = make("x", issuer=middle)
    facts = tls_secret_facts(secret("x", {"ca.crt": authority.pem, "tls.crt": leaf.pem + middle.pem, "tls.key": leaf.key}), "x")
    assert facts.certificate and facts.certificate.common_name == "x"
    assert [c.common_name for c in facts.intermediates] == ["middle"] and facts.chain_valid


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        (HELM, "Helm"),
        ({**HELM, "annotations": {"cert-manager.io/certificate-name": "x"}}, "cert-manager"),
        ({"managed": [owns("cilium-certgen", "data", fields=["f:tls.crt"])]}, "certgen"),
        (
            {"managed": [owns("kubectl-create", "data", fields=["f:tls.crt"]), owns("other", "metadata", fields=["f:labels"])]},
            "kubectl-create",
        ),
        ({}, ""),
    ],
)
def test_who_renews_a_certificate_is_reported(authority: Made, metadata: dict[str, Any], owner: str) -> None:
    assert tls_secret_facts(tls_secret("x", make("x", issuer=authority), authority, **metadata), "x").owner == owner


def test_a_ca_is_found_in_the_charts_form_and_in_cert_managers(authority: Made) -> None:
    chart = ca_secret_facts(secret("cilium-ca", {"ca.crt": authority.pem, "ca.key": authority.key}))
    manager = ca_secret_facts(
        secret("cilium-ca", {"ca.crt": make("root", ca=True).pem, "tls.crt": authority.pem, "tls.key": authority.key})
    )
    assert chart == manager
    assert chart.has_key and chart.key_matches and chart.certificates[0].is_ca and len(chart.digest) == 64


def test_a_ca_without_key_and_one_with_a_foreign_key_are_distinguished(authority: Made) -> None:
    facts = ca_secret_facts(secret("cilium-ca", {"ca.crt": authority.pem}))
    assert (facts.has_key, facts.key_matches, facts.problem) == (False, None, "")
    facts = ca_secret_facts(secret("cilium-ca", {"ca.crt": authority.pem, "ca.key": make("x").key}))
    assert (facts.has_key, facts.key_matches) == (True, False)


# the two Secrets of peers


def peer_keys(data: dict[str, bytes], *managed: dict[str, Any]) -> Any:
    return peer_secret_facts(secret("cilium-kvstoremesh", data, managed=list(managed)), "cilium-kvstoremesh").keys


def test_every_key_has_its_owners(authority: Made) -> None:
    facts = peer_secret_facts(
        secret(
            "cilium-kvstoremesh",
            {"c2": PEER_YAML.encode(), "c3": b"x", "c4": b"y"},
            managed=[
                owns("ours", "data", fields=[".", "f:c2"]),
                owns("helm", "data", fields=["f:c2", "f:c3"]),
                owns("x", "metadata", fields=["f:c4"]),
            ],
            **HELM,
        ),
        "cilium-kvstoremesh",
    )
    assert {k: v.managers for k, v in facts.keys.items()} == {"c2": ("helm", "ours"), "c3": ("helm",), "c4": ()}
    assert facts.managers == ("helm", "ours", "x") and facts.labels == HELM["labels"]
    assert (facts.uid, facts.resource_version) == ("uid-of-cilium-kvstoremesh", "7")


def test_certificates_beside_a_peer_are_parsed_and_their_keys_never_shown(authority: Made) -> None:
    client, foreign = make("remote", issuer=authority), make("x")
    keys = peer_keys(
        {
            "c2.etcd-client.crt": client.pem,
            "c2.etcd-client.key": client.key,
            "c2.etcd-client-ca.crt": authority.pem,
            "c3.etcd-client.crt": client.pem,
            "c3.etcd-client.key": foreign.key,
            "c4.etcd-client.crt": client.pem,
            "c5.etcd-client.crt": b"rubbish",
        }
    )
    assert keys["c2.etcd-client.crt"].certificate.common_name == "remote"
    assert keys["c2.etcd-client-ca.crt"].certificate.is_ca
    assert [keys[f"c{i}.etcd-client.crt"].certificate_key_matches for i in (2, 3, 4, 5)] == [True, False, None, None]
    assert keys["c2.etcd-client.key"].config is None and keys["c2.etcd-client.key"].certificate is None


def test_a_peers_configuration_is_shown_as_it_is() -> None:
    assert peer_keys({"c2": PEER_YAML.encode()})["c2"].config == PEER_YAML


@one_test(
    "content",
    PEER_YAML + f"password: {CANARY}\n",
    PEER_YAML + f"PassWord: {CANARY}\n",
    PEER_YAML + f"username: {CANARY}\n",
    *(f"endpoints:\n- https://root:{CANARY}@10.0.0.1:2379\n", f"endpoints: {CANARY}\n", f"endpoints: [{CANARY}"),
    *(f"endpoints:\n- '{CANARY}'\n# -----BEGIN PRIVATE KEY-----\n", f"# endpoints: {CANARY}\n", CANARY),
)
def test_a_configuration_with_credentials_or_of_another_form_is_not_shown(content: str) -> None:
    facts = peer_keys({"c2": content.encode()})["c2"]
    assert facts.config is None and CANARY not in repr(facts)


def test_a_copy_that_kubectl_left_in_an_annotation_is_not_taken_over() -> None:
    note = {"kubectl.kubernetes.io/last-applied-configuration": CANARY, "mine": "x"}
    assert peer_secret_facts(secret("s", {}, annotations=note), "s").annotations == {"mine": "x"}


# users


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("users:\n- name: remote-b\n  role: remote\n- name: remote-a\n  role: remote\n", ["remote-b", "remote-a"]),
        ("users:", []),
        ("users: []\n", []),
        ("", []),
        ("{}", []),
    ],
)
def test_users_are_read_in_order_and_an_empty_value_is_an_empty_list(text: str, users: list[str]) -> None:
    found, problem = parse_users(text)
    assert list(found) == users and problem == ""


@one_test("text", "users: [", "users: x", "- a", "users:\n- remote-a", "users:\n- name: a", "users:\n- name: 3\n  role: x", "x" * 300_000)
def test_users_that_cannot_be_parsed_are_a_problem_without_users(text: str) -> None:
    found, problem = parse_users(text)
    assert found == {} and problem.startswith("users.yaml ")


def test_a_config_map_without_users_yaml_says_so() -> None:
    facts = remote_users_facts({"metadata": {"uid": "u", "resourceVersion": "5"}, "data": {}})
    assert (facts.uid, facts.resource_version) == ("u", "5")
    assert facts.present and facts.problem == "it has no key users.yaml"
    assert not remote_users_facts(None).present


# workloads, service, nodes, pods


def test_a_deployment_is_read_with_arguments_and_the_owner_of_each_host_alias() -> None:
    facts = workload_facts(deployment(), "Deployment")
    assert facts is not None
    assert (facts.desired, facts.ready, facts.updated, facts.generation, facts.observed_generation) == (1, 1, 1, 3, 3)
    assert list(facts.containers) == ["etcd", "apiserver", "kvstoremesh"]
    assert facts.arguments["apiserver"] == ("clustermesh", "--cluster-users-enabled")
    assert facts.environment["apiserver"] == {"PLAIN": "1"}
    assert [(a.ip, a.hostnames, a.managers) for a in facts.host_aliases] == [
        ("10.0.0.9", ("c2.mesh.cilium.io",), ("ours",)),
        ("10.0.0.8", ("other",), ("helm",)),
    ]


def test_a_deployment_scaled_to_nothing_wants_nothing() -> None:
    scaled = deployment()
    scaled["spec"]["replicas"] = 0
    facts = workload_facts(scaled, "Deployment")
    assert facts is not None and facts.desired == 0
    assert workload_facts(None, "Deployment") is None


def test_a_service_has_all_the_ways_in() -> None:
    ingress = [{"ip": "192.0.2.7"}, {"hostname": "lb.example.org"}, {}]
    facts = service_facts(
        {
            "spec": {
                "type": "LoadBalancer",
                "clusterIP": "10.1.0.5",
                "ports": [{"name": "x", "port": 1}, {"name": "apiserv", "port": 2380, "nodePort": 3}],
            },
            "status": {"loadBalancer": {"ingress": ingress}},
        }
    )
    assert facts is not None
    assert (facts.type, facts.cluster_ip, facts.port, facts.node_port) == ("LoadBalancer", "10.1.0.5", 2380, 3)
    assert (facts.ingress_ips, facts.ingress_hostnames) == (("192.0.2.7",), ("lb.example.org",))
    assert service_facts(None) is None


def test_nodes_have_their_addresses_and_every_kind_of_allocation() -> None:
    pools = {"allocated": [{"pool": "a", "cidrs": ["10.8.0.0/26"]}, {"pool": "b", "cidrs": ["10.8.1.0/26", "10.0.0.0/24"]}]}
    found = node_facts(
        [node("b", "10.9.0.2", ready=False, podCIDR="10.244.1.0/24"), node("a", "10.9.0.1", podCIDRs=["10.244.0.0/24", "fd00::/80"])],
        [
            {"metadata": {"name": "b"}, "spec": {"ipam": {"podCIDRs": ["10.0.0.0/24"], "pools": pools}}},
            {"metadata": {"name": "external"}, "spec": {}},
        ],
    )
    assert [(n.name, n.ready, n.pod_cidrs) for n in found] == [
        ("a", True, ("10.244.0.0/24", "fd00::/80")),
        ("b", False, ("10.244.1.0/24",)),
    ]
    assert found[1].allocated_cidrs == ("10.0.0.0/24", "10.8.0.0/26", "10.8.1.0/26")
    assert found[0].internal_ips == ("10.9.0.1",) and found[0].external_ips == ("203.0.113.1",)


def test_pods_that_are_being_deleted_are_left_out_and_waiting_ones_say_why() -> None:
    waiting = pod("c", "cilium", ready=False, phase="Pending")
    waiting["status"]["containerStatuses"] = [{"name": "agent", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    found = pod_facts(
        [waiting, pod("a", "cilium"), pod("b", "cilium", deletionTimestamp="now"), pod("m", "clustermesh-apiserver")], "cilium"
    )
    assert [(p.name, p.ready, p.phase, p.waiting) for p in found] == [
        ("a", True, "Running", ""),
        ("c", False, "Pending", "agent: ContainerCreating"),
    ]


def test_config_and_version() -> None:
    assert config_data(None) is None and config_data({"data": {"a": "b", "c": 3}}) == {"a": "b"} and config_data({}) == {}
    assert kubernetes_version({"gitVersion": "v1.36.4"}) == "v1.36.4" and kubernetes_version(None) == ""


# whatever an API server sends

NAMESPACE = "kube-system"
ACCESS = ClusterAccess(host="c1", kubeconfig="", context=None)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every value within a value."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from parts(value[key])


@pytest.fixture(scope="module")
def sound(authority: Made) -> dict[str, Any]:
    return cluster_objects(authority)


def observed(objects: Mapping[str, Any]) -> ClusterFacts:
    """What an observation makes of these objects, by path."""

    def answers(reads: Mapping[str, Read]) -> dict[str, Any]:
        return {name: objects.get(read.path, [] if read.many else None) for name, read in reads.items()}

    found = answers({"first": first_read(NAMESPACE), **other_reads(NAMESPACE, "cilium-mesh-x")})
    return assemble(ACCESS, found | answers(further_reads(NAMESPACE, found)))


@given(st.data())
def test_sound_objects_with_parts_of_other_types_give_facts_of_the_declared_types_and_no_key(
    sound: dict[str, Any], data: st.DataObject
) -> None:
    objects = copy.deepcopy(sound)
    for _ in range(data.draw(st.integers(1, 8))):
        one = data.draw(st.sampled_from(sorted(objects)))
        container, key = data.draw(st.sampled_from(list(parts(objects[one]))))
        container[key] = data.draw(json_values)
    facts = observed(objects)
    assert strays(facts, ClusterFacts) == []
    assert "PRIVATE KEY" not in repr(facts)


def test_an_expired_certificate_is_still_read(authority: Made) -> None:
    old = make("x", issuer=authority, starts=NOW - timedelta(days=9), ends=NOW - timedelta(days=1))
    facts = tls_secret_facts(tls_secret("x", old, authority), "x")
    assert facts.chain_valid and facts.certificate and facts.certificate.not_after == NOW - timedelta(days=1)

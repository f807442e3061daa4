# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parts of an observation: IPsec keys, volumes, addresses of CiliumNodes, when a configuration was changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import VolumeSource
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.config import config_changed
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.ipsec import ipsec_facts, parse_keys, secret_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.nodes import node_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.pods import pod_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.service import service_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.workloads import workload_facts
from tests.testing.observed_objects import node, pod, secret
from tests.testing.rows import one_test

AEAD = b"3+ rfc4106(gcm(aes)) 0xCAFE01 128"


@pytest.mark.parametrize(
    "same",
    [b"3 rfc4106(gcm(aes)) cafe01 128", b"3+   rfc4106(gcm(aes))\tcafe01 128\n", b"3+ rfc4106(gcm(aes)) 0xcafe01 128\r\n"],
)
def test_one_ipsec_key_in_other_spellings_is_the_same_key(same: bytes) -> None:
    assert parse_keys(same) == parse_keys(AEAD)


@one_test(
    "other",
    b"3+ rfc4106(gcm(aes)) cafe02 128",
    b"3+ rfc4106(gcm(aes)) cafe01 96",
    b"3+ rfc4106(gcm(camellia)) cafe01 128",
    b"4+ rfc4106(gcm(aes)) cafe01 128",
    b"3 hmac(sha256) cafe01 cbc(aes) cafe01",
    AEAD + b"\n" + b"4+ rfc4106(gcm(aes)) cafe02 128",
)
def test_another_ipsec_key_is_another_key(other: bytes) -> None:
    keys, problem = parse_keys(other)
    assert problem == "" and keys and keys != parse_keys(AEAD)[0]


def test_the_interface_of_the_long_form_is_no_part_of_the_key() -> None:
    line = b"3 hmac(sha256) cafe01 cbc(aes) cafe02"
    assert parse_keys(line + b" eth0") == parse_keys(line)


@one_test(
    "broken",
    b"",
    b"\n",
    b"rfc4106(gcm(aes)) cafe01 128",
    b"0 a b c",
    b"16 a b c",
    b"3 a",
    b"\xff\xfe",
    b"3 a b c d e f",
    b"9" * 5000 + b" a b c",
)
def test_keys_that_agents_refuse_are_a_problem_without_a_value(broken: bytes) -> None:
    keys, problem = parse_keys(broken)
    assert keys == {} and problem and "cafe" not in problem


@given(st.binary(max_size=300))
def test_keys_of_any_bytes_are_read_without_an_exception(content: bytes) -> None:
    keys, problem = parse_keys(content)
    assert bool(keys) != bool(problem)


def test_the_secret_of_the_agents_volume_and_the_file_of_the_configuration_are_used() -> None:
    volumes = [{"name": "other"}, {"name": "cilium-ipsec-secrets", "secret": {"secretName": "my-keys"}}]
    assert secret_name({"spec": {"template": {"spec": {"volumes": volumes}}}}) == "my-keys"
    assert secret_name(None) == "cilium-ipsec-keys"
    held = secret("my-keys", {"ring": AEAD})
    assert ipsec_facts(held, "my-keys", {"ipsec-key-file": "/etc/ipsec/ring"}).keys
    assert ipsec_facts(held, "my-keys", {}).problem == "it has no key keys"
    assert not ipsec_facts(None, "my-keys", {}).present


def test_volumes_say_which_objects_they_show_and_under_which_paths() -> None:
    volumes = [
        {
            "name": "clustermesh-secrets",
            "projected": {
                "sources": [
                    {"secret": {"name": "cilium-clustermesh", "optional": True}},
                    {"configMap": {"name": "cilium-root-ca.crt", "items": [{"key": "bundle", "path": "common-etcd-client-ca.crt"}]}},
                    {"downwardAPI": {}},
                ]
            },
        },
        {"name": "keys", "secret": {"secretName": "cilium-ipsec-keys"}},
        {"name": "run", "hostPath": {"path": "/var/run/cilium"}},
    ]
    value: dict[str, Any] = {
        "metadata": {"name": "cilium", "ownerReferences": [{"kind": "CiliumConfig"}, "?"]},
        "spec": {"template": {"metadata": {"labels": {"k8s-app": "cilium"}}, "spec": {"volumes": volumes}}},
    }
    facts = workload_facts(value, "DaemonSet")
    assert facts is not None and facts.owner_kinds == ("CiliumConfig",) and facts.pod_labels == {"k8s-app": "cilium"}
    assert facts.volumes == {
        "clustermesh-secrets": (
            VolumeSource(kind="Secret", name="cilium-clustermesh"),
            VolumeSource(kind="ConfigMap", name="cilium-root-ca.crt", items={"common-etcd-client-ca.crt": "bundle"}),
        ),
        "keys": (VolumeSource(kind="Secret", name="cilium-ipsec-keys"),),
    }


def test_a_node_has_the_addresses_that_peers_get_and_those_that_a_cloud_gave_to_its_pods() -> None:
    addresses = [
        {"type": t, "ip": ip} for t, ip in (("InternalIP", "10.9.0.1"), ("CiliumInternalIP", "10.0.0.7"), ("InternalIP", "fd00::1"))
    ]
    pool: dict[str, Any] = {f"10.0.1.{i}": {} for i in range(4)} | {"10.0.1.9": {}, "not an address": {}}
    cilium_node = {"metadata": {"name": "n1"}, "spec": {"addresses": addresses, "ipam": {"pool": pool}}}
    (facts,) = node_facts([node("n1", "10.9.0.1")], [cilium_node])
    assert facts.mesh_ips == ("10.9.0.1", "fd00::1") and facts.router_ips == ("10.0.0.7",)
    assert facts.allocated_cidrs == ("10.0.1.0/30", "10.0.1.9/32")


def entry(time: str, *path: str) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for step in reversed(path):
        tree = {f"f:{step}": tree}
    return {"manager": "helm", "time": time, "fieldsV1": tree}


def test_a_configuration_was_changed_when_the_newest_owner_of_a_value_says_so() -> None:
    managed = [
        entry("2026-09-01T10:00:00Z", "data", "cluster-id"),
        entry("2026-09-01T11:00:00+01:00", "data", "debug"),
        entry("2026-09-01T12:00:00Z", "metadata", "labels"),
        entry("no time", "data", "x"),
    ]
    assert config_changed({"metadata": {"managedFields": managed}}) == datetime(2026, 9, 1, 10, 0, tzinfo=UTC)
    assert config_changed({"metadata": {}}) is None


def test_a_pod_says_when_it_started() -> None:
    running = pod("cilium-a", "cilium")
    running["status"]["startTime"] = "2026-09-01T10:00:00Z"
    (facts,) = pod_facts([running], "cilium")
    assert facts.started == datetime(2026, 9, 1, 10, 0, tzinfo=UTC)


def test_a_service_says_which_pods_it_selects_and_which_answer() -> None:
    spec = {"type": "NodePort", "selector": {"k8s-app": "x"}, "externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP"}
    facts = service_facts({"spec": spec})
    assert facts is not None
    assert (facts.selector, facts.external_traffic_policy, facts.session_affinity) == ({"k8s-app": "x"}, "Local", "ClientIP")

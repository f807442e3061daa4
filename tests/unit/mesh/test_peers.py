# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The YAML of a peer is what the chart of each version writes, plus the trust comment."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.trust_mode import TrustMode
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.endpoint import MeshEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.etcd_config import local_config, peer_config
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import CiliumVersion
from tests.testing.rows import one_test

DIRECTORY = "/var/lib/cilium/clustermesh"
ENDPOINT = MeshEndpoint(hostname="peer.mesh.cilium.io", port=2379, ips=("192.0.2.1",))

# As charts 1.16 to 1.20 render it for one peer with the same CA (templates/clustermesh-config).
CHART = {
    "endpoints": ["https://peer.mesh.cilium.io:2379"],
    "trusted-ca-file": f"{DIRECTORY}/common-etcd-client-ca.crt",
    "key-file": f"{DIRECTORY}/common-etcd-client.key",
    "cert-file": f"{DIRECTORY}/common-etcd-client.crt",
}
ALIASES = {"cilium-host-aliases": [{"hostname": "peer.mesh.cilium.io", "ips": ["192.0.2.1"]}]}


def _version(text: str) -> CiliumVersion:
    version = CiliumVersion.from_tag(text)
    assert version is not None
    return version


@pytest.mark.parametrize(
    ("version", "aliases"), [("1.16.19", {}), ("1.17.17", {}), ("1.18.11", {}), ("1.19.5", {}), ("1.20.0-pre.3", ALIASES)]
)
def test_a_peer_with_the_same_ca_reads_as_the_chart_writes_it(version: str, aliases: dict[str, object]) -> None:
    text = peer_config("peer", ENDPOINT, version=_version(version), mode=TrustMode.SAME_CA)
    assert yaml.safe_load(text) == {**CHART, **aliases}


@pytest.mark.parametrize("mode", [TrustMode.MINTED, TrustMode.COPIED])
def test_a_peer_with_another_ca_has_three_files_of_its_own(mode: TrustMode) -> None:
    config = yaml.safe_load(peer_config("peer", ENDPOINT, version=_version("1.18.11"), mode=mode))
    files = [config[key] for key in ("trusted-ca-file", "cert-file", "key-file")]
    assert files == [f"{DIRECTORY}/peer.etcd-client-ca.crt", f"{DIRECTORY}/peer.etcd-client.crt", f"{DIRECTORY}/peer.etcd-client.key"]


def test_a_name_left_to_dns_has_no_aliases() -> None:
    text = peer_config("peer", MeshEndpoint(hostname="mesh.example.com", port=443), version=_version("1.20.1"), mode=TrustMode.SAME_CA)
    assert yaml.safe_load(text)["endpoints"] == ["https://mesh.example.com:443"]
    assert "cilium-host-aliases" not in text


@given(st.lists(st.ip_addresses().map(str), min_size=1, max_size=4, unique=True))
def test_every_address_survives_as_text(ips: list[str]) -> None:
    endpoint = MeshEndpoint(hostname="peer.mesh.cilium.io", port=2379, ips=tuple(ips))
    config = yaml.safe_load(peer_config("peer", endpoint, version=_version("1.20.1"), mode=TrustMode.SAME_CA))
    assert config["cilium-host-aliases"] == [{"hostname": "peer.mesh.cilium.io", "ips": ips}]


@pytest.mark.parametrize(("version", "prefix"), [("1.16.19", "common-"), ("1.17.17", "local-"), ("1.20.0", "local-")])
def test_agents_reach_their_own_kvstoremesh_with_the_files_of_their_version(version: str, prefix: str) -> None:
    config = yaml.safe_load(local_config("kube-system", version=_version(version)))
    assert config == {
        "endpoints": ["https://clustermesh-apiserver.kube-system.svc:2379"],
        "trusted-ca-file": f"{DIRECTORY}/{prefix}etcd-client-ca.crt",
        "key-file": f"{DIRECTORY}/{prefix}etcd-client.key",
        "cert-file": f"{DIRECTORY}/{prefix}etcd-client.crt",
    }


def test_the_trust_comment_changes_the_text_and_nothing_that_is_read() -> None:
    one, other = (
        peer_config("peer", ENDPOINT, version=_version("1.20.1"), mode=TrustMode.MINTED, trust_digest=digit * 64) for digit in "ab"
    )
    assert one != other and yaml.safe_load(one) == yaml.safe_load(other)


@one_test("name", "", "Peer", "a.b", "-a", "a-", "a" * 33, "a\n", "../x")
def test_a_name_that_cannot_be_a_cluster_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="not a cluster name"):
        peer_config(name, ENDPOINT, version=None, mode=TrustMode.SAME_CA)


@given(st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?(\.[a-z]{1,8}){0,2}", fullmatch=True), st.text(max_size=20))
def test_no_host_name_can_add_a_line_to_the_configuration(name: str, more: str) -> None:
    for hostname in (
        name,
        f"{name}{more}",
        f"{more}{name}",
        *(f"{name}{sign}{more}" for sign in ("\n", "\r", "\x85", "\u2028", " #", '"')),
    ):
        try:
            text = peer_config("peer", MeshEndpoint(hostname=hostname, port=1), version=None, mode=TrustMode.SAME_CA)
        except InvalidInput:
            assert hostname != name
            continue
        assert len(text.splitlines()) == 5 and yaml.safe_load(text)["endpoints"] == [f"https://{hostname}:1"]

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Generated peers publish what peers publish, each its own, and hundreds of them are ready for who reads them."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.peer_records import parse_node
from tests.lab.patience import scaled
from tests.lab.peer_generator import GeneratedPeers, PeerSize, PeersUnavailable, peer_keys, peer_name
from tests.lab.tools.provide import Tools, at_hand

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
SIZE = PeerSize(nodes=2, services=2, identities=5, addresses=5)


def kinds(keys: dict[str, str]) -> Counter[str]:
    return Counter(key.split("/")[2] for key in keys if key.startswith("cilium/cache/"))


@given(st.integers(1, 511), st.builds(PeerSize, nodes=st.integers(0, 9), services=st.integers(0, 9), identities=st.integers(0, 9)))
def test_a_peer_publishes_as_much_as_was_asked_for_and_a_canary_of_each_kind(number: int, size: PeerSize) -> None:
    keys = peer_keys(number, size, now=NOW, most=511)
    name = peer_name(number)

    assert kinds(keys) == Counter({k: n for k, n in zip(("nodes", "services", "identities", "ip"), _sizes(size), strict=True) if n})
    assert json.loads(keys[f"cilium/cluster-config/{name}"])["id"] == number
    assert sum(key.startswith(f"cilium/synced/{name}/cilium/cache/") for key in keys) == 4
    for key, value in keys.items():
        if "/nodes/v1/" in key:
            node = parse_node(key.partition("/nodes/v1/")[2].partition("/")[2], value.encode())
            assert (node.problem, node.cluster, node.cluster_id) == ("", name, number)
        if "/identities/v1/" in key:
            assert int(key.rpartition("/")[2]) >> 15 == number  # the range of a mesh of up to 511 clusters
            assert f"k8s:io.cilium.k8s.policy.cluster={name};" in value


def _sizes(size: PeerSize) -> tuple[int, ...]:
    return size.nodes, size.services, size.identities, size.addresses


def test_no_two_of_all_peers_share_an_address_or_an_identity() -> None:
    size = PeerSize(nodes=3, services=3, identities=3, addresses=3)
    found: Counter[str] = Counter()
    for number in range(1, 512):
        keys = peer_keys(number, size, now=NOW, most=511)
        found.update(key.rpartition("/")[2] for key in keys if "/ip/v1/" in key or "/identities/v1/" in key)
        nodes = (json.loads(value)["IPAddresses"][0]["IP"] for key, value in keys.items() if "/nodes/v1/" in key)
        found.update(f"node {address}" for address in nodes)

    assert len(found) == 511 * 9 and set(found.values()) == {1}


@pytest.mark.parametrize(("clusters", "first"), [(0, 2), (512, 1), (511, 2), (1, 0)])
def test_more_peers_than_a_mesh_can_have_are_refused(tmp_path: Path, clusters: int, first: int) -> None:
    with pytest.raises(PeersUnavailable, match="a mesh has ids 1 to 511"):
        GeneratedPeers(tmp_path, tmp_path, clusters=clusters, first_id=first)


@pytest.mark.slow
@pytest.mark.parametrize("alike", [True, False], ids=["read from one kvstoremesh", "each dialled"])
def test_the_agent_stand_in_sees_hundreds_of_peers_ready(tmp_path: Path, alike: bool) -> None:
    names = ("etcd", "lab-agent")
    tools = Tools(at_hand(names, print))
    if missing := set(names) - set(tools):
        pytest.skip(f"not built yet: {', '.join(sorted(missing))} (python -m tests.lab.tools build)")
    with GeneratedPeers(tools.path("etcd"), tmp_path, clusters=200, size=SIZE) as peers:
        peers.write_configurations(tmp_path / "mesh", alike=alike)
        environment = {**os.environ, "CILIUM_CLUSTERMESH_CONFIG": str(tmp_path / "mesh"), "LAB_CLUSTER_NAME": "c1"}
        argv = [str(tools.path("lab-agent")), "status", "-o", "json"]
        answer = subprocess.run(argv, env=environment, check=True, capture_output=True, timeout=scaled(20))
        found = json.loads(answer.stdout)["cluster-mesh"]["clusters"]

        assert [cluster["name"] for cluster in found] == list(peers.names)
        assert [cluster for cluster in found if not cluster.get("ready")] == []
        assert {(c["num-nodes"], c["num-shared-services"], c["num-identities"], c["num-endpoints"]) for c in found} == {(2, 2, 5, 5)}

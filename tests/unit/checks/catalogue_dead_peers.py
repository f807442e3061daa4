# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rows of the catalogue for peers that died and for what peers claim. See test_checks_catalogue.py."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.context import CheckContext
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.peer_records import (
    ADDRESSES,
    IDENTITIES,
    KEYS,
    NODES,
    PeerRecords,
    parse_address,
    parse_identity,
    parse_node,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import (
    Lease,
    LeaseState,
    Registry,
    lease_of,
    write_registry,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, RegistryFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.marks import OWNER_LABEL
from tests.testing.facts_builders import cluster_facts, context_of, mesh_of

Table = dict[str, tuple[list[Callable[[], CheckContext]], list[Callable[[], CheckContext]]]]

MESH = mesh_of("c1", "c2", "c3")
SINCE = "2026-08-01T00:00:00Z"
C1, C2, C3 = (cluster_facts(host) for host in ("c1", "c2", "c3"))
CONFIG = {"id": 2, "capabilities": {"syncedCanaries": True, "maxConnectedClusters": 255}}


def dead(cluster: ClusterFacts, **changes: Any) -> Lease:
    """The tombstone of a cluster that was as ``cluster`` is, but for ``changes``."""
    return replace(lease_of(cluster), **{"state": LeaseState.DEAD, "since": SINCE, "serial": 2, **changes})


def keeping(cluster: ClusterFacts, *leases: Lease) -> ClusterFacts:
    """A member with a copy of these leases."""
    text = write_registry(Registry(mesh=MESH.binding.owner, leases=leases))
    return replace(cluster, registry=RegistryFacts(present=True, uid="r", text=text, labels={OWNER_LABEL: MESH.binding.owner}))


def returned(tombstone: Lease, cluster: ClusterFacts = C2, **changes: Any) -> CheckContext:
    """c1 remembers the dead; ``cluster`` is back."""
    return replace(context_of(keeping(C1, tombstone), cluster, mesh=mesh_of("c1", "c2")), **changes)


def remembering(cluster: ClusterFacts) -> CheckContext:
    """``cluster`` remembers c3, which is dead and away."""
    return context_of(keeping(cluster, dead(C3)), cluster_facts("c2", auth_mode="migration"), mesh=mesh_of("c1", "c2"))


def user_of_c3(cluster: ClusterFacts) -> ClusterFacts:
    return replace(cluster, users=replace(cluster.users, users={**cluster.users.users, "remote-c3": "remote"}))


def node_value(name: str, cluster: str = "c2", number: int = 2, address: str = "172.16.2.1", cidr: str = "10.2.1.0/24") -> bytes:
    network = ip_network(cidr)
    mask = b64encode(network.netmask.packed).decode()
    allocated = {"IP": str(network.network_address), "Mask": mask}
    addresses = [{"Type": "InternalIP", "IP": address}]
    return json.dumps(
        {"Name": name, "Cluster": cluster, "ClusterID": number, "IPAddresses": addresses, "IPv4AllocCIDR": allocated}
    ).encode()


def claimed(**parts: Any) -> CheckContext:
    """c2 claims what is its own, but for ``parts``: ``nodes``, ``identities`` and ``addresses`` are mappings of key and value."""
    nodes = {"c2/c2-n1": node_value("c2-n1"), **parts.pop("nodes", {})}
    identities = {str((2 << 16) + 1): b"k8s:io.cilium.k8s.policy.cluster=c2;k8s:app=a;", **parts.pop("identities", {})}
    own = json.dumps({"IP": "10.2.1.7", "HostIP": "172.16.2.1", "ID": (2 << 16) + 1}).encode()
    addresses = {"10.2.1.7": own, **parts.pop("addresses", {})}
    claims = PeerRecords(
        host="c2",
        reader="c1",
        config=parts.pop("config", CONFIG),
        nodes=tuple(parse_node(key, value) for key, value in nodes.items()),
        identities=tuple(parse_identity(key, value) for key, value in identities.items()),
        addresses=tuple(parse_address(key, value) for key, value in addresses.items()),
        counts={NODES: len(nodes), IDENTITIES: len(identities), ADDRESSES: len(addresses), **parts.pop("counts", {})},
        **parts,
    )
    return replace(context_of(C1, C2), peer_records={"c2": claims})


def address(text: str, host_ip: str = "172.16.2.1", identity: int = (2 << 16) + 1) -> dict[str, bytes]:
    return {text: json.dumps({"IP": text.partition("/")[0], "HostIP": host_ip, "ID": identity}).encode()}


DEAD_PEERS: Table = {
    "CM-TOMB-01": (
        [
            lambda: returned(dead(C2, ca="ab" * 32)),
            lambda: returned(dead(C2, ca="")),
            lambda: returned(dead(C2, id=9)),
            lambda: returned(dead(C2, name="was")),
            lambda: returned(dead(C2, pod_cidrs=("10.9.0.0/16",))),
            lambda: returned(dead(C2, host="old-name", ca="ab" * 32)),
            lambda: returned(dead(C2, ca="ab" * 32), keeping(C2, replace(lease_of(C2), serial=99))),  # its own copy proves nothing
            lambda: returned(dead(C2, ca="ab" * 32), take_back=frozenset({"c1"})),
        ],
        [
            lambda: returned(dead(C2)),
            lambda: returned(dead(C2, uid="rebuilt with the same CA")),
            lambda: returned(dead(C2, pod_cidrs=("10.2.0.0/15",))),
            lambda: returned(dead(C2, ca="ab" * 32), take_back=frozenset({"c2"})),
            lambda: returned(replace(lease_of(C2), ca="ab" * 32)),  # never died
            lambda: context_of(C1, C2),
        ],
    ),
    "CM-TOMB-02": (
        [
            lambda: remembering(cluster_facts("c1", auth_mode="legacy")),
            lambda: remembering(user_of_c3(cluster_facts("c1", auth_mode="migration"))),
            lambda: context_of(
                keeping(cluster_facts("c1", auth_mode="cluster"), dead(C3, ca=lease_of(C1).ca)), C2, mesh=mesh_of("c1", "c2")
            ),
        ],
        [
            lambda: remembering(cluster_facts("c1", auth_mode="migration")),
            lambda: context_of(cluster_facts("c1", auth_mode="legacy"), C2),
        ],
    ),
    "CM-CLAIM-01": (
        [lambda: claimed(config=None), lambda: claimed(config={"id": 3}), lambda: claimed(config={"id": "2"}), lambda: claimed(config={})],
        [lambda: claimed(), lambda: context_of(C1, C2)],
    ),
    "CM-CLAIM-02": (
        [
            lambda: claimed(nodes={"c1/c1-n1": node_value("c1-n1", "c1", 1)}),
            lambda: claimed(nodes={"c2/x": node_value("x", "c1")}),
            lambda: claimed(nodes={"c2/x": node_value("x", number=1)}),
            lambda: claimed(nodes={"c2/x": node_value("y")}),
            lambda: claimed(nodes={"c2/x": node_value("x", address="172.16.1.1")}),
            lambda: claimed(nodes={"c2/x": node_value("x", address="::ffff:172.16.1.1")}),
            lambda: claimed(nodes={"c2/\x1b[2J": b"[" * 100_000}),
            lambda: claimed(nodes={"c2/x": b"null"}),
        ],
        [lambda: claimed()],
    ),
    "CM-CLAIM-03": (
        [
            lambda: claimed(addresses=address("10.1.1.7")),
            lambda: claimed(addresses=address("172.16.1.1")),
            lambda: claimed(addresses=address("0.0.0.0/0")),
            lambda: claimed(addresses=address("10.2.1.8", host_ip="172.16.1.1")),
            lambda: claimed(nodes={"c2/x": node_value("x", cidr="10.1.1.0/24")}),
        ],
        [lambda: claimed(), lambda: claimed(addresses=address("8.8.8.8"))],
    ),
    "CM-CLAIM-04": (
        [
            lambda: claimed(addresses=address("8.8.8.8")),
            lambda: claimed(addresses={"no address\n": b"{}"}),
            lambda: claimed(nodes={"c2/x": node_value("x", cidr="10.99.0.0/24")}),
        ],
        [lambda: claimed(), lambda: claimed(addresses=address("10.2.200.1"))],
    ),
    "CM-CLAIM-05": (
        [
            lambda: claimed(identities={str((1 << 16) + 1): b""}),
            lambda: claimed(identities={str(3 << 16): b""}),
            lambda: claimed(identities={"12": b""}),
            lambda: claimed(identities={"x\x1b": b""}),
            lambda: claimed(identities={str((2 << 16) + 2): b"k8s:io.cilium.k8s.policy.cluster=c1;"}),
            lambda: claimed(identities={str((2 << 16) + 2): b"any:io.cilium.k8s.policy.cluster=c2;k8s:io.cilium.k8s.policy.cluster=c1"}),
            lambda: claimed(addresses=address("10.2.1.8", identity=(1 << 16) + 1)),
        ],
        [lambda: claimed(), lambda: claimed(addresses=address("10.2.1.8", identity=1)), lambda: claimed(identities={str(2 << 16): b""})],
    ),
    "CM-CLAIM-06": (
        [lambda: claimed(config={"id": 2, "capabilities": {"maxConnectedClusters": 511}})],
        [lambda: claimed(), lambda: claimed(config={"id": 2, "capabilities": {}}), lambda: claimed(config={"id": 2, "capabilities": []})],
    ),
    "CM-CLAIM-07": (
        [
            lambda: claimed(counts={NODES: KEYS + 1}),
            lambda: claimed(problem="c2.mesh.cilium.io:2379 cannot be reached from the controller: the connection is refused."),
            lambda: replace(context_of(C1, C2), peer_records={"c2": PeerRecords(host="c2", problem="there is no link to it")}),
        ],
        [lambda: claimed(), lambda: context_of(C1, C2)],
    ),
}

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Peer records: what a cluster publishes to its peers in its mesh etcd. Pure.

A member may write anything into its own etcd, and peers act on it: a node of another name takes its tunnel, an address its
traffic, an identity its rights (upstream: one mesh is one trust domain). Cilium drops some of it from 1.16 on (validators in
pkg/node/store/store.go and pkg/identity/cache/allocator.go; in pkg/ipcache/kvstore.go they stand in 1.18, not in 1.16); 1.15 takes all.
All of this input is hostile: parsers assume nothing of it, and messages show one short line of it.

Layout of the keys: pkg/kvstore/store, pkg/node/types/node.go, pkg/identity/identity.go, pkg/clustermesh/types/types.go.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any, Final

from ..base.json_reader import NotJson, load_json
from ..base.networks import Network

CONFIG: Final = "cilium/cluster-config/"
NODES: Final = "cilium/state/nodes/v1/"
IDENTITIES: Final = "cilium/state/identities/v1/id/"
ADDRESSES: Final = "cilium/state/ip/v1/default/"
PREFIXES: Final = (NODES, IDENTITIES, ADDRESSES)
KEYS: Final = 5000  # of each prefix are read at most; the rest is counted
VALUE_LIMIT: Final = 64 * 1024  # bytes of a value that are parsed; a node has some 2 KiB
CLUSTER_LABEL: Final = "io.cilium.k8s.policy.cluster"
RESERVED: Final = 256  # pkg/identity: MinimalNumericIdentity; below it no identity belongs to a cluster


@dataclass(frozen=True, kw_only=True)
class NodeRecord:
    """Value below ``cilium/state/nodes/v1/``. ``problem``: why it is no node."""

    key: str  # CLUSTER/NAME, as in etcd
    cluster: str = ""
    cluster_id: int | None = None
    name: str = ""
    addresses: tuple[str, ...] = ()
    pod_networks: tuple[Network, ...] = ()
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class AddressRecord:
    """Value below ``cilium/state/ip/v1/default/``: an address or range with its identity and its node."""

    network: Network | None
    key: str
    identity: int | None = None
    host_ip: str = ""


@dataclass(frozen=True, kw_only=True)
class IdentityRecord:
    """Value below ``cilium/state/identities/v1/id/``. ``clusters``: the cluster labels in it."""

    key: str
    number: int | None = None
    clusters: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PeerRecords:
    """Records of one cluster. ``counts``: keys in etcd by prefix; where a count exceeds KEYS, only KEYS were read."""

    host: str  # inventory name of the cluster whose etcd it is
    reader: str = ""  # inventory name of the cluster with whose credentials it was read
    problem: str = ""  # why it was not read, or not to the end
    config: Mapping[str, Any] | None = None  # its cluster-config under the name on record; None: there is none
    nodes: tuple[NodeRecord, ...] = ()
    identities: tuple[IdentityRecord, ...] = ()
    addresses: tuple[AddressRecord, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def cut(self) -> tuple[str, ...]:
        """Prefixes with more keys than are read."""
        return tuple(prefix for prefix, count in self.counts.items() if count > KEYS)


def identity_range(cluster_id: int, max_connected: int) -> range:
    """Return the numeric identities of a cluster.

    They have 24 bits, of which the cluster's id takes 8 (255 clusters) or 9 (511) (pkg/identity/numericidentity.go, GetClusterIDShift).
    """
    shift = 15 if max_connected > 255 else 16
    return range(cluster_id << shift, (cluster_id + 1) << shift)


def parse_config(value: bytes | None) -> Mapping[str, Any] | None:
    """Parse a CiliumClusterConfig; None if it is no object. Levels deeper than any of Cilium's are left out."""
    document = _document(value or b"")
    return _shallow(document, 3) if isinstance(document, dict) else None


def parse_node(key: str, value: bytes) -> NodeRecord:
    """Parse a node record. ``key`` is what follows the prefix."""
    document = _document(value)
    if not isinstance(document, dict):
        return NodeRecord(key=key, problem="is not an object" if len(value) <= VALUE_LIMIT else "is too large")
    listed = document.get("IPAddresses")
    addresses = [_ip(entry.get("IP")) for entry in listed[:100] if isinstance(entry, dict)] if isinstance(listed, list) else []
    return NodeRecord(
        key=key,
        cluster=_text(document.get("Cluster")),
        cluster_id=_number(document.get("ClusterID", 0)),
        name=_text(document.get("Name")),
        addresses=tuple(ip for ip in addresses if ip),
        pod_networks=tuple(_networks(document)),
    )


def parse_identity(key: str, value: bytes) -> IdentityRecord:
    """Parse an identity record: a list of labels, each ``source:key=value``, ended by ``;``."""
    text = value[:VALUE_LIMIT].decode("utf-8", "replace")
    labels = [label.partition(":")[2].partition("=") for label in text.split(";")[:1000]]
    clusters = dict.fromkeys(_text(content) for name, separator, content in labels if name == CLUSTER_LABEL)
    return IdentityRecord(
        key=key, number=int(key) if key.isascii() and key.isdecimal() and len(key) < 12 else None, clusters=tuple(clusters)
    )


def parse_address(key: str, value: bytes) -> AddressRecord:
    """Parse an address record. ``key`` is an address, or a range in CIDR notation."""
    document = _document(value)
    found = document if isinstance(document, dict) else {}
    return AddressRecord(network=_network(key), key=key, identity=_number(found.get("ID")), host_ip=_ip(found.get("HostIP")))


def _document(value: bytes) -> Any:
    if len(value) > VALUE_LIMIT:
        return None
    try:
        return load_json(value)
    except NotJson:
        return None


def _shallow(value: Any, depth: int) -> Any:
    """Return a document without its deeper levels: one nested as deep as the parser bears could not be printed later."""
    if isinstance(value, dict):
        return {key: _shallow(below, depth - 1) for key, below in value.items()} if depth else None
    if isinstance(value, list):
        return [_shallow(below, depth - 1) for below in value] if depth else None
    return value


def _networks(document: Mapping[str, Any]) -> list[Network]:
    """Return pod ranges and addresses that a node publishes as its own: ``{"IP": "10.1.0.0", "Mask": "////AA=="}`` (Go's net.IPNet)."""
    found: list[Network] = []
    for family in ("IPv4", "IPv6"):
        secondary = document.get(f"{family}SecondaryAllocCIDRs")
        for entry in [document.get(f"{family}AllocCIDR"), *(secondary[:100] if isinstance(secondary, list) else [])]:
            network = _go_network(entry)
            found += [network] if network is not None else []
        for name in ("HealthIP", "IngressIP"):
            ip = _ip(document.get(f"{family}{name}"))
            found += [ip_network(ip)] if ip else []
    return found


def _go_network(entry: Any) -> Network | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("Mask"), str):
        return None
    try:
        mask = b64decode(entry["Mask"], validate=True)
    except ValueError:
        return None
    bits = "".join(f"{byte:08b}" for byte in mask[:16])
    length = len(bits.rstrip("0"))
    return _network(f"{entry.get('IP')}/{length}") if bits and "0" not in bits[:length] else None


def _network(text: str) -> Network | None:
    if "%" in text:  # a zone means nothing in another cluster, and Python accepts any text as one
        return None
    try:
        return ip_network(text[:64], strict=False)
    except ValueError:
        return None


def _ip(value: Any) -> str:
    """Return the canonical spelling of an address; "" for anything else.

    An IPv4 address in IPv6 form is the IPv4 address, as Go reads it.
    """
    if not isinstance(value, str) or "%" in value:
        return ""
    try:
        found = ip_address(value[:64])
    except ValueError:
        return ""
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def _text(value: Any) -> str:
    return value[:300] if isinstance(value, str) else ""

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Claims are read from who may be hostile: anything parses, nothing breaks, nothing long or unprintable is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.sealed import Sealed, SecretStore
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.client import EtcdAccess, EtcdError, KeyValue, ReadFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.peer_records import (
    ADDRESSES,
    IDENTITIES,
    KEYS,
    NODES,
    VALUE_LIMIT,
    PeerRecords,
    identity_range,
    parse_address,
    parse_config,
    parse_identity,
    parse_node,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import peer_records as reading
from tests.testing.facts_builders import cluster_facts, context_of
from tests.unit.checks.catalogue_dead_peers import CONFIG, node_value

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("Name", "Cluster", "ClusterID", "IPAddresses", "IP", "Mask", "IPv4AllocCIDR", "IPv6SecondaryAllocCIDRs", "HostIP"),
                    *("ID", "id", "capabilities", "maxConnectedClusters"),
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)
VALUES = st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode())


@given(config=VALUES, pairs=st.lists(st.tuples(st.text(max_size=20), VALUES), max_size=4))
def test_whatever_a_peer_writes_is_judged_and_shown_in_printable_lines(config: bytes, pairs: list[tuple[str, bytes]]) -> None:
    claims = PeerRecords(
        host="c2",
        reader="c1",
        config=parse_config(config),
        nodes=tuple(parse_node(*pair) for pair in pairs),
        identities=tuple(parse_identity(*pair) for pair in pairs),
        addresses=tuple(parse_address(*pair) for pair in pairs),
        counts={NODES: len(pairs), IDENTITIES: len(pairs), ADDRESSES: len(pairs)},
    )
    context = replace(context_of(cluster_facts("c1"), cluster_facts("c2")), peer_records={"c2": claims})
    for finding in run_checks(context, "verify"):
        assert finding.code.startswith("CM-CLAIM-")
        text = finding.summary + finding.evidence
        assert text.isprintable() and len(text) < 3000


@pytest.mark.parametrize(
    ("number", "most", "first", "last"),
    [(1, 255, 65536, 131071), (255, 255, 255 << 16, (1 << 24) - 1), (1, 511, 32768, 65535), (511, 511, 511 << 15, (1 << 24) - 1)],
)
def test_the_range_of_identities_is_that_of_cilium(number: int, most: int, first: int, last: int) -> None:
    allowed = identity_range(number, most)
    assert (allowed.start, allowed.stop - 1) == (first, last)


def test_a_node_as_cilium_writes_it() -> None:
    node = parse_node("c2/n1", node_value("n1"))
    assert (node.cluster, node.cluster_id, node.name, node.addresses) == ("c2", 2, "n1", ("172.16.2.1",))
    assert [str(network) for network in node.pod_networks] == ["10.2.1.0/24"]


def test_what_is_too_large_is_not_parsed() -> None:
    assert parse_node("c2/n1", b'{"Name": "' + b"a" * VALUE_LIMIT + b'"}').problem == "is too large"
    assert parse_config(b"[" * 100_000) is None


class PlayedReader:
    """An etcd whose keys are ``keys``; ``fails`` is raised when a prefix is scanned that begins so."""

    keys: ClassVar[dict[str, bytes]] = {}
    fails: ClassVar[tuple[str, EtcdError] | None] = None
    opened: ClassVar[list[str]] = []

    def __init__(self, access: EtcdAccess, *, timeout: float) -> None:
        PlayedReader.opened.append(access.hostname)
        if access.hostname == "dead":
            raise EtcdError(ReadFailure.UNREACHED, "it cannot be reached")

    def __enter__(self) -> PlayedReader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get(self, key: str) -> bytes | None:
        return self.keys.get(key)

    def count(self, prefix: str) -> int:
        return sum(key.startswith(prefix) for key in self.keys)

    def scan(self, prefix: str, *, most: int) -> Iterator[KeyValue]:
        if self.fails and prefix.startswith(self.fails[0]):
            raise self.fails[1]
        yield from [KeyValue(key, value) for key, value in sorted(self.keys.items()) if key.startswith(prefix)][:most]


def read(
    monkeypatch: pytest.MonkeyPatch, keys: dict[str, bytes], fails: Any = None, ways: dict[str, str | None] | None = None
) -> PeerRecords:
    """What is read of c3. ``ways``: by reading cluster, where its link leads; None: nowhere."""
    PlayedReader.keys, PlayedReader.fails, PlayedReader.opened = keys, fails, []
    monkeypatch.setattr(reading, "EtcdReader", PlayedReader)
    targets = ways or {"c1": "alive", "c2": "alive"}

    def access(local: ClusterFacts, name: str, secrets: SecretStore) -> EtcdAccess | str:
        target = targets[local.host]
        sealed = Sealed(b"")
        return EtcdAccess(hostname=target, port=1, ca=sealed, certificate=sealed, key=sealed) if target else "no configuration"

    monkeypatch.setattr(reading, "link_access", access)
    facts = {host: cluster_facts(host) for host in targets}
    links = [(host, "c3") for host in targets]
    return reading.read_peer_records(links, dict.fromkeys(links, "c3"), facts, SecretStore())["c3"]


def test_everything_is_read_once_by_the_first_link_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"cilium/cluster-config/c3": json.dumps(CONFIG).encode(), f"{NODES}c3/n1": node_value("n1"), f"{ADDRESSES}10.3.0.1": b"{}"}
    found = read(monkeypatch, keys, ways={"c1": None, "c2": "dead", "c4": "alive"})
    assert (found.reader, found.problem, PlayedReader.opened) == ("c4", "", ["dead", "alive"])
    assert (found.config, len(found.nodes), len(found.addresses), found.counts) == (CONFIG, 1, 1, {NODES: 1, IDENTITIES: 0, ADDRESSES: 1})


def test_no_more_keys_are_held_than_are_worth_it_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, {f"{IDENTITIES}{n}": b"" for n in range(KEYS + 7)})
    assert (len(found.identities), found.counts[IDENTITIES], found.cut) == (KEYS, KEYS + 7, (IDENTITIES,))


def test_what_was_read_before_an_error_is_kept_and_the_error_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, {f"{NODES}c3/n1": node_value("n1")}, fails=(ADDRESSES, EtcdError(ReadFailure.BROKEN, "too large")))
    assert (len(found.nodes), found.problem, found.reader) == (1, "too large", "c1")


@pytest.mark.parametrize("ways", [{"c1": None}, {"c1": "dead", "c2": "dead"}])
def test_a_peer_that_cannot_be_read_says_why(monkeypatch: pytest.MonkeyPatch, ways: dict[str, str | None]) -> None:
    found = read(monkeypatch, {}, ways=ways)
    assert found.problem in ("no configuration", "it cannot be reached") and not found.counts


@pytest.mark.parametrize("zone", ["fe80::1%\x1b[31mred", "fe80::1%a\nb"])
def test_an_address_with_a_zone_is_none_as_anything_may_stand_in_a_zone(zone: str) -> None:
    document = {"IPAddresses": [{"IP": zone}], "IPv6HealthIP": zone, "IPv6AllocCIDR": {"IP": zone, "Mask": "/////////////////////w=="}}
    node = parse_node("c2/n", json.dumps(document).encode())
    assert (node.addresses, node.pod_networks) == ((), ())
    address = parse_address(zone, json.dumps({"HostIP": zone}).encode())
    assert (address.network, address.host_ip) == (None, "")


def test_numbers_and_documents_larger_than_any_of_cilium_are_not_kept() -> None:
    assert parse_node("c2/n", b'{"ClusterID":' + b"9" * 4000 + b"}").cluster_id is None
    assert parse_config(b'{"id":' + b"[" * 100 + b"]" * 100 + b"}") == {"id": [[None]]}
    assert parse_config(b'{"id":' + b"[" * 400 + b"]" * 400 + b"}") is None  # as all foreign JSON of that depth
    assert parse_config(b'{"id":1,"capabilities":{"maxConnectedClusters":255}}') == {"id": 1, "capabilities": {"maxConnectedClusters": 255}}
    (name,) = parse_identity("7", b"k8s:io.cilium.k8s.policy.cluster=" + b"x" * 60_000).clusters
    assert len(name) == 300

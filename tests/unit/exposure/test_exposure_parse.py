# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The spec of an ExposedService: what is understood, and what is refused with its path."""

from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.input_problems import Problems
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.parse import parse_exposed_service
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.ranges import parse_ranges
from tests.testing.exposure_world import MEMBERS, item, spec
from tests.testing.rows import alike, one_test


def problems_of(**overrides: Any) -> list[str]:
    problems = Problems()
    found = parse_exposed_service(problems, "shop", spec(**overrides), MEMBERS)
    assert (found is None) == bool(problems.found)
    return problems.found


def ranges_of(*values: Any) -> tuple[tuple[str, ...], list[str]]:
    problems = Problems()
    return parse_ranges(problems, "sourceRanges", list(values)), problems.found


def test_a_whole_spec() -> None:
    found = item(
        **{"class": "Gateway"},
        port={"name": "http", "protocol": "TCP"},
        clusters={"primary": "c2", "standby": ["c3", "c1"]},
        hostname="Shop.Example.COM.",
        tlsRef={"name": "shop-tls"},
        gatewayClassName="edge",
        createdAt="2026-04-21T12:00:00+02:00",
    )
    assert (found.namespace, found.service, found.exposure) == ("production", "nginx", "Gateway")
    assert (found.port.number, found.port.name, found.port.protocol) == (0, "http", "TCP")
    assert (found.primary, found.clusters) == ("c2", ("c3", "c1"))
    assert (found.hostname, found.tls_secret, found.gateway_class) == ("shop.example.com", "shop-tls", "edge")
    assert found.created == "2026-04-21T10:00:00Z"


def test_a_custom_resource_writes_the_list_of_clusters_as_a_mapping() -> None:
    assert item(clusters={"names": ["c3", "c1"]}) == item(clusters=["c3", "c1"])


def test_what_is_left_out() -> None:
    found = item(sourceRanges=None)
    assert found.clusters == MEMBERS
    assert found.source_ranges == ()
    assert found.port.protocol == ""
    assert found.node_ports is True


def test_yaml_may_have_made_a_time_of_the_time() -> None:
    assert item(createdAt=datetime(2026, 4, 21, 10, tzinfo=UTC)).created == "2026-04-21T10:00:00Z"


@one_test(
    "overrides path word",
    ({"class": "Loadbalancer"}, "class", "did you mean LoadBalancer"),
    ({"class": None}, "class", "is missing"),
    ({"service": {"name": "nginx"}}, "service.namespace", "is missing"),
    ({"service": {"namespace": "production", "name": "../secrets"}}, "service.name", "not a DNS-1123 label"),
    ({"service": "nginx"}, "service", "must be a mapping"),
    ({"port": {}}, "port", "needs a number or a name"),
    ({"port": {"number": 0}}, "port.number", "1 to 65535"),
    ({"port": {"number": 65536}}, "port.number", "1 to 65535"),
    ({"port": {"number": True}}, "port.number", "1 to 65535"),
    ({"port": {"number": "80"}}, "port.number", "1 to 65535"),
    ({"port": {"number": 80, "endPort": 90}}, "port.endPort", "unknown key"),
    ({"port": "80-90"}, "port", "has one port, by its number or its name"),
    ({"port": {"name": "not a name"}}, "port.name", "not a DNS-1123 label"),
    ({"port": {"number": 80, "protocol": "SCTP"}}, "port.protocol", "one of TCP, UDP"),
    ({"clusters": ["c1", "c9"]}, "clusters[1]", "not a cluster of the binding"),
    ({"clusters": ["c1", "c1"]}, "clusters[1]", "is there twice"),
    ({"clusters": {"names": ["c1", "c9"]}}, "clusters.names[1]", "not a cluster of the binding"),
    ({"clusters": {"names": ["c1"], "primary": "c2"}}, "clusters", "needs either names, or primary and standby"),
    ({"clusters": "some"}, "clusters", "write all, a list of clusters"),
    ({"clusters": {"primary": "c1"}}, "clusters", "primary and standby"),
    ({"clusters": {"primary": "c1", "standby": ["c1"]}}, "clusters.standby", "is the primary"),
    ({"clusters": {"standby": ["c1"]}}, "clusters", "primary and standby"),
    ({"hostname": "localhost"}, "hostname", "two or more labels"),
    ({"hostname": "192.0.2.1"}, "hostname", "is an address"),
    ({"hostname": "a..example.com"}, "hostname", "not a DNS name"),
    ({"hostname": "-a.example.com"}, "hostname", "not a DNS name"),
    ({"hostname": "a.example.com,b.example.com"}, "hostname", "not a DNS name"),
    ({"hostname": "a.example.com\n"}, "hostname", "not a DNS name"),
    ({"hostname": "\u0456.example.com"}, "hostname", "not a DNS name"),
    ({"hostname": f"{'a' * 64}.example.com"}, "hostname", "not a DNS name"),
    ({"hostname": "*.example.com"}, "hostname", "a wildcard is possible with class Gateway alone"),
    ({"tlsRef": {"name": "x"}}, "tlsRef", "for class Gateway alone"),
    ({"gatewayClassName": "cilium"}, "gatewayClassName", "for class Gateway alone"),
    ({"allocateLoadBalancerNodePorts": "no"}, "allocateLoadBalancerNodePorts", "must be true or false"),
    ({"class": "NodePort", "allocateLoadBalancerNodePorts": False}, "allocateLoadBalancerNodePorts", "for class LoadBalancer alone"),
    ({"createdAt": "yesterday"}, "createdAt", "RFC 3339"),
    ({"createdAt": "2026-04-21T10:00:00"}, "createdAt", "no time zone"),
    ({"sourceRanges": "0.0.0.0/0"}, "sourceRanges", "must be a list"),
    ({"annotations": {}}, "annotations", "unknown key"),
)
def test_what_is_refused(overrides: dict[str, Any], path: str, word: str) -> None:
    found = problems_of(**overrides)
    assert any(text.startswith(f"{path}: ") and word in text for text in found), found


def test_everything_about_the_structure_is_said_at_once_and_then_everything_about_the_meaning() -> None:
    found = problems_of(**{"class": "Ingress"}, port={"number": 0}, hostname="x", sourceRanges=["10.0.0.1/8"])
    assert [text.partition(":")[0] for text in found] == ["port.number", "class", "hostname"]
    found = problems_of(port={}, hostname="192.0.2.1", sourceRanges=["10.0.0.1/8"], gatewayClassName="edge")
    assert sorted(text.partition(":")[0] for text in found) == ["gatewayClassName", "hostname", "port", "sourceRanges[0]"]


@one_test(
    "value word",
    ("10.0.0.1/8", "the range is 10.0.0.0/8, one address would be 10.0.0.1/32"),
    ("2001:db8::1/64", "the range is 2001:db8::/64, one address would be 2001:db8::1/128"),
    ("192.0.2.7", "like 192.0.2.7/32"),
    ("10.0.0.0/255.0.0.0", "write 10.0.0.0/8"),
    *alike("not a CIDR", "10.0.0.0/33", "fe80::%eth0/64", "all", 10, None),
    ("::ffff:10.0.0.0/104", "write it as IPv4"),
)
def test_ranges_that_are_none(value: Any, word: str) -> None:
    found, problems = ranges_of(value)
    assert found == ()
    assert len(problems) == 1 and problems[0].startswith("sourceRanges[0]: ") and word in problems[0], problems


def test_ranges_become_canonical() -> None:
    values = ("2001:DB8:0::/32", "10.1.0.0/16", "10.0.0.0/8", "10.0.0.0/8", "192.0.2.7/32")
    assert ranges_of(*values) == (("10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32"), [])


def test_open_to_all_clients_is_said_in_words() -> None:
    assert ranges_of("0.0.0.0/0", "::/0") == (("0.0.0.0/0", "::/0"), [])
    _found, problems = ranges_of("0.0.0.0/1", "128.0.0.0/1")
    assert problems == ["sourceRanges: together these are every address; write 0.0.0.0/0 if that is intended"]


def test_a_list_has_an_end() -> None:
    _found, problems = ranges_of(*(f"10.0.{number}.0/32" for number in range(257)))
    assert problems == ["sourceRanges: has 257 ranges; at most 256"]


ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))


@given(st.lists(st.tuples(ADDRESSES, st.integers(1, 32)), max_size=8))
def test_what_comes_out_covers_what_went_in_and_nothing_twice(pairs: list[tuple[Any, int]]) -> None:
    networks = [ip_network(f"{address}/{length}", strict=False) for address, length in pairs]
    found, problems = ranges_of(*map(str, networks))
    if problems:
        return  # IPv4 in the form of IPv6, or all addresses in halves: said, not taken
    result = [ip_network(entry) for entry in found]
    assert all(any(n.version == r.version and n.subnet_of(r) for r in result) for n in networks)  # type: ignore[arg-type]  # the versions were compared before
    assert not any(a is not b and a.version == b.version and a.overlaps(b) for a in result for b in result)
    assert ranges_of(*found) == (found, [])

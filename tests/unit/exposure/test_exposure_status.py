# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The status of an exposed service: what stands in it, and that it claims nothing that was not observed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.testing.exposure_world import EVERYONE, MEMBERS, changed, cluster, clusters, item, run, status, with_endpoints, without
from tests.testing.facts_builders import cluster_facts, nodes
from tests.testing.traffic_builders import service


def condition(found: dict[str, Any], kind: str) -> tuple[str, str]:
    return next((row["status"], row["reason"]) for row in found["conditions"] if row["type"] == kind)


def test_all_is_well() -> None:
    wanted = item(hostname="shop.example.com")
    found = status(run(clusters(), wanted), wanted)
    assert (found["phase"], found["hostname"]) == ("Exposed", "shop.example.com")
    assert found["addresses"][1] == {
        "clusterName": "c2",
        "role": "active",
        "serving": True,
        "addresses": ["203.0.113.2"],
        "port": 80,
        "protocol": "TCP",
        "endpoints": 2,
        "sourceRangesBy": "Cluster",
        "conditions": [
            {"type": "Programmed", "status": "True", "reason": "AddressAssigned", "message": ""},
            {"type": "Ready", "status": "True", "reason": "Exposed", "message": ""},
        ],
    }
    assert condition(found, "Accepted") == ("True", "SpecValid")
    assert condition(found, "Programmed") == ("True", "AllClustersProgrammed")
    assert condition(found, "Ready") == ("True", "Exposed")
    assert condition(found, "Degraded") == ("False", "AllClustersServe")


def test_no_client_connected_from_outside() -> None:
    wanted = item()
    for current in (clusters(), run(clusters(), wanted), run(clusters(), wanted, settle=False)):
        assert condition(status(current, wanted), "Reachable") == ("Unknown", "NotProbed")


def test_no_source_ranges() -> None:
    wanted = item(sourceRanges=[], hostname="shop.example.com")
    found = status(clusters(), wanted)
    assert found["phase"] == "Pending" and "hostname" not in found
    assert condition(found, "Programmed") == ("False", "NoSourceRanges")
    assert condition(found, "Ready") == ("False", "NoSourceRanges")
    assert condition(found, "Degraded") == ("False", "NoSourceRanges")


def test_an_address_that_is_yet_to_come() -> None:
    wanted = item()
    current = run(clusters(), wanted, settle=False)
    found = status(current, wanted)
    assert found["phase"] == "Exposing"
    assert condition(found, "Programmed") == ("False", "AddressPending")
    assert condition(found, "Ready") == ("False", "AddressPending")
    late = status(replace(current, now=current.now.replace(hour=current.now.hour + 1)), wanted)
    assert late["phase"] == "Degraded"
    assert condition(late, "Programmed") == ("False", "AddressPending")


def test_a_host_name_is_an_address() -> None:
    wanted = item(clusters=["c1"])
    current = run(clusters(cluster("c1")), wanted)
    answered = {"loadBalancer": {"ingress": [{"hostname": "lb-7.example.net"}]}}
    current = changed(
        current,
        "c1",
        lambda entry: replace(
            entry,
            services={k: replace(s, status=answered) if s.spec["type"] == "LoadBalancer" else s for k, s in entry.services.items()},
        ),
    )
    row = status(current, wanted)["addresses"][0]
    assert (row["addresses"], row["sourceRangesBy"]) == (["lb-7.example.net"], "LoadBalancer")


@pytest.mark.parametrize(
    ("ranges", "config", "by"),
    [
        (EVERYONE, {}, "Nobody"),
        (("192.0.2.0/24",), {}, "Cluster"),
        (("192.0.2.0/24",), {"enable-svc-source-range-check": "false"}, "LoadBalancer"),
    ],
)
def test_who_holds_to_the_ranges(ranges: tuple[str, ...], config: dict[str, str | None], by: str) -> None:
    wanted = item(clusters=["c1"], sourceRanges=list(ranges))
    current = run(clusters(cluster("c1"), facts={"c1": cluster_facts("c1", config=config)}), wanted)
    assert status(current, wanted)["addresses"][0]["sourceRangesBy"] == by


def test_node_ports_answer_at_nodes() -> None:
    one, two = nodes("c1")
    facts = {"c1": cluster_facts("c1", nodes=(replace(one, external_ips=("198.51.100.1",)), two))}
    open_to_all = item(clusters=["c1"], sourceRanges=list(EVERYONE), **{"class": "NodePort"})
    row = status(run(clusters(cluster("c1"), facts=facts), open_to_all), open_to_all)["addresses"][0]
    assert (row["addresses"], row["port"], row["sourceRangesBy"]) == (["198.51.100.1"], 30080, "Nobody")
    plain = {"c1": cluster_facts("c1", nodes=(one, two))}
    row = status(run(clusters(cluster("c1"), facts=plain), open_to_all), open_to_all)["addresses"][0]
    assert row["addresses"] == [*one.internal_ips, *two.internal_ips]
    held = item(clusters=["c1"], **{"class": "NodePort"})
    row = status(run(clusters(cluster("c1"), facts=plain), held), held)["addresses"][0]
    assert (row["addresses"], row["sourceRangesBy"]) == (list(one.internal_ips), "NetworkPolicy")  # the endpoints are on the first node


def test_some_clusters_lack() -> None:
    wanted = item()
    current = clusters(cluster("c1"), cluster("c2", services=[]), cluster("c3"))
    current = with_endpoints(run(current, wanted), "c3", 0)
    found = status(current, wanted)
    assert found["phase"] == "Degraded"
    assert condition(found, "Ready") == ("True", "Exposed")
    assert condition(found, "Degraded") == ("True", "SomeClustersLack")
    assert condition(found, "Programmed") == ("False", "PartlyProgrammed")
    assert [row["conditions"][1]["reason"] for row in found["addresses"]] == ["Exposed", "ServiceNotFound", "NoReadyEndpoints"]


def test_silent_members_are_named() -> None:
    wanted = item()
    current = run(without(clusters(), "c3"), wanted)
    found = status(replace(current, names={**current.names, "c3": "another-name-in-cilium"}), wanted)
    assert found["phase"] == "Degraded"
    assert found["addresses"][2]["clusterName"] == "c3"
    assert found["addresses"][2]["conditions"][0]["status"] == "Unknown"
    none_answers = without(without(without(clusters(), "c1"), "c2"), "c3")
    assert status(none_answers, wanted)["phase"] == "Degraded"


def test_writes_that_failed() -> None:
    wanted = item()
    current = run(clusters(), wanted)
    found = status(current, wanted, failed={"c2": "Forbidden: services"})
    assert found["phase"] == "Degraded"
    assert condition(found, "Degraded") == ("True", "WriteFailed")
    assert found["addresses"][1]["conditions"][0]["message"] == "Forbidden: services"
    none = status(clusters(), wanted, failed=dict.fromkeys(MEMBERS, "Forbidden"))
    assert none["phase"] == "Error"
    assert condition(none, "Ready") == ("False", "WriteFailed")


def test_endpoints_of_others_are_distinguished() -> None:
    given = {"service.cilium.io/global": "true"}
    current = clusters(*(cluster(host, services=[service(annotations=given)]) for host in MEMBERS))
    wanted = item()
    found = status(with_endpoints(run(current, wanted), "c2", 0), wanted)
    assert (found["addresses"][1]["endpoints"], found["addresses"][1]["remoteEndpoints"]) == (0, 4)
    assert found["phase"] == "Exposed"


def test_with_kube_proxy_clients_from_outside_reach_no_other_cluster() -> None:
    given = {"service.cilium.io/global": "true"}
    facts = {host: cluster_facts(host, config={"kube-proxy-replacement": "false"}) for host in MEMBERS}
    current = clusters(*(cluster(host, services=[service(annotations=given)]) for host in MEMBERS), facts=facts)
    wanted = item()
    found = status(with_endpoints(run(current, wanted), "c2", 0), wanted)
    assert found["phase"] == "Degraded" and "remoteEndpoints" not in found["addresses"][1]


def test_a_gateway_that_is_refused_says_why() -> None:
    wanted = item(clusters=["c1"], sourceRanges=list(EVERYONE), tlsRef={"name": "gone"}, **{"class": "Gateway"})
    current = run(clusters(cluster("c1"), facts={"c1": cluster_facts("c1", config={"enable-gateway-api": "true"})}), wanted)
    assert status(current, wanted)["addresses"][0]["port"] == 443
    said_no = {"type": "ResolvedRefs", "status": "False", "reason": "InvalidCertificateRef", "message": "Secret gone"}
    refused = {"addresses": [{"value": "203.0.113.1"}], "listeners": [{"conditions": [said_no]}]}
    current = changed(
        current, "c1", lambda entry: replace(entry, gateways={k: replace(gw, status=refused) for k, gw in entry.gateways.items()})
    )
    found = status(current, wanted)
    assert found["addresses"][0]["conditions"][0]["reason"] == "InvalidCertificateRef"
    assert condition(found, "Ready") == ("False", "InvalidCertificateRef")
    assert found["phase"] == "Degraded"

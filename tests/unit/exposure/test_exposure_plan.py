# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is written for an exposed service, what is refused, and what is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.names import CLAIM_ANNOTATION, DNS_ANNOTATION
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemPlan, ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import Unread
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite
from tests.testing.exposure_world import (
    EVERYONE,
    MEMBERS,
    OFFICE,
    changed,
    cluster,
    clusters,
    gateway_class,
    item,
    ours,
    planned,
    run,
    settled,
    with_endpoints,
    without,
)
from tests.testing.facts_builders import cluster_facts
from tests.testing.rows import alike
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import namespace_facts, service, slice_facts


def one(*, config: dict[str, str | None] | None = None, version: str = "1.18.11", **fields: Any) -> Scene:
    """One cluster c1."""
    return clusters(cluster("c1", **fields), facts={"c1": cluster_facts("c1", version=version, config=config)})


def plan_of(current: Scene, **overrides: Any) -> ItemPlan:
    return planned(current, item(**{"clusters": ["c1"], **overrides}))[0][0]


def bodies(plan: ItemPlan) -> dict[str, dict[str, Any]]:
    """What is applied, by kind; each kind once."""
    found = {}
    for step in plan.steps:
        assert isinstance(step.action, ApiWrite) and step.action.method == "apply"
        assert step.action.body["kind"] not in found
        found[str(step.action.body["kind"])] = dict(step.action.body)
    return found


def codes_of(plan: ItemPlan) -> set[str]:
    return {finding.code for finding in plan.findings}


def only(plan: ItemPlan, code: str) -> Any:
    found = [finding for finding in plan.findings if finding.code == code]
    assert len(found) == 1, plan.findings
    return found[0]


def answered(ingress: Mapping[str, str], entry: TrafficFacts) -> TrafficFacts:
    """The load balancers of a cluster have this address."""
    status = {"loadBalancer": {"ingress": [dict(ingress)]}}
    found = {key: replace(s, status=status) if s.spec["type"] == "LoadBalancer" else s for key, s in entry.services.items()}
    return replace(entry, services=found)


class TestLoadBalancer:
    def test_a_service_of_our_own_beside_the_tenants(self) -> None:
        plan = plan_of(one())
        spec = bodies(plan)["Service"]["spec"]
        assert spec == {
            "type": "LoadBalancer",
            "selector": {"app": "nginx"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
            "ipFamilyPolicy": "SingleStack",
            "ipFamilies": ["IPv4"],
            "loadBalancerSourceRanges": list(OFFICE),
        }
        assert [step.action.path for step in plan.steps if isinstance(step.action, ApiWrite)] == [
            f"/api/v1/namespaces/production/services/{bodies(plan)['Service']['metadata']['name']}"
        ]

    def test_exactly_the_one_port(self) -> None:
        ports = [
            {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "web"},
            {"name": "admin", "port": 9000, "protocol": "TCP", "targetPort": 9000},
            {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
        ]
        current = one(services=[service(ports=ports)])
        for port in ({"name": "dns"}, {"number": 53}, {"name": "dns", "number": 53, "protocol": "UDP"}):
            found = bodies(plan_of(current, port=port))["Service"]["spec"]["ports"]
            assert found == [{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53}]

    def test_names_begin_with_a_letter(self) -> None:
        plan = planned(one(), item("3" * 80, clusters=["c1"]))[0][0]
        name = bodies(plan)["Service"]["metadata"]["name"]
        assert name[0].isalpha() and len(name) <= 63

    def test_only_ip_versions_that_have_a_range(self) -> None:
        dual = one(config={"enable-ipv6": "true"})
        assert bodies(plan_of(dual))["Service"]["spec"]["ipFamilies"] == ["IPv4"]
        six = bodies(plan_of(dual, sourceRanges=["2001:db8::/32"]))["Service"]
        assert six["spec"]["ipFamilies"] == ["IPv6"]
        assert six["metadata"]["name"] != bodies(plan_of(dual))["Service"]["metadata"]["name"]  # the first version cannot be changed
        both = bodies(plan_of(dual, sourceRanges=list(EVERYONE)))["Service"]["spec"]
        assert both["ipFamilyPolicy"] == "PreferDualStack" and "ipFamilies" not in both
        plan = plan_of(one(), sourceRanges=["2001:db8::/32"])
        assert (plan.verdict, plan.reason) == (ItemVerdict.REFUSED, "FamilyNotServed")

    def test_ranges_of_versions_that_the_cluster_has_not_are_not_written(self) -> None:
        assert bodies(plan_of(one(), sourceRanges=list(EVERYONE)))["Service"]["spec"]["loadBalancerSourceRanges"] == ["0.0.0.0/0"]

    @pytest.mark.parametrize(
        ("version", "config", "reasons"),
        [
            ("1.18.11", {}, ["NodePortNotCovered"]),
            ("1.18.11", {"bpf-lb-source-range-all-types": "true"}, []),
            ("1.16.19", {"bpf-lb-source-range-all-types": "true"}, ["NodePortNotCovered"]),
            ("1.18.11", {"bpf-lb-source-range-all-types": "true", "kube-proxy-replacement": "false"}, ["NodePortNotCovered"]),
            ("1.18.11", {"enable-svc-source-range-check": "false"}, ["RangesNotChecked"]),
            ("1.20.0", {"enable-svc-source-range-check": "false"}, ["NodePortNotCovered"]),
        ],
    )
    def test_what_is_not_held_to_the_ranges_is_said(self, version: str, config: dict[str, str | None], reasons: list[str]) -> None:
        plan = plan_of(one(version=version, config=config))
        found = [f for f in plan.findings if f.code == "CM-EXPO-08"]
        assert ["NodePortNotCovered" if "node port" in f.summary else "RangesNotChecked" for f in found] == reasons
        assert all(f.severity is Severity.REMEDIABLE and f.cluster == "c1" for f in found)
        assert plan.verdict is ItemVerdict.ACCEPTED
        assert "CM-EXPO-08" not in codes_of(plan_of(one(version=version, config=config), sourceRanges=list(EVERYONE)))

    def test_node_ports_can_be_left_out(self) -> None:
        plan = plan_of(one(), allocateLoadBalancerNodePorts=False)
        assert bodies(plan)["Service"]["spec"]["allocateLoadBalancerNodePorts"] is False
        assert plan.findings == ()

    def test_an_address_beyond_the_cluster_rests_on_the_provider(self) -> None:
        wanted = item(clusters=["c1"], allocateLoadBalancerNodePorts=False)
        current = run(one(), wanted)
        for ingress in ({"hostname": "lb.example.net"}, {"ip": "203.0.113.9", "ipMode": "Proxy"}):
            addressed = changed(current, "c1", partial(answered, ingress))
            plan = planned(addressed, wanted)[0][0]
            assert "Only the load balancer itself" in only(plan, "CM-EXPO-08").summary
            assert plan.steps == ()


class TestDefaultDeny:
    def test_without_a_range_no_client_gets_in(self) -> None:
        plan = plan_of(one(), sourceRanges=None)
        assert (plan.verdict, plan.steps) == (ItemVerdict.ACCEPTED, ())
        assert only(plan, "CM-EXPO-07").severity is Severity.ADVISORY

    @pytest.mark.parametrize("exposure", ["LoadBalancer", "NodePort", "Gateway"])
    def test_taking_the_ranges_away_closes_what_was_open(self, exposure: str) -> None:
        wide: dict[str, Any] = {"class": exposure, "sourceRanges": list(EVERYONE)}
        facts = {host: cluster_facts(host, config=TestGateway.ON) for host in MEMBERS}
        current = run(clusters(facts=facts), item(**wide))
        assert all(ours(current, host) for host in MEMBERS)
        closed = run(current, item(**{**wide, "sourceRanges": []}))
        assert not any(ours(closed, host) for host in MEMBERS)


class TestNodePort:
    def test_open_to_all_clients_needs_no_policy(self) -> None:
        found = bodies(plan_of(one(), **{"class": "NodePort", "sourceRanges": list(EVERYONE)}))
        assert found.keys() == {"Service"}
        assert "externalTrafficPolicy" not in found["Service"]["spec"]
        assert "loadBalancerSourceRanges" not in found["Service"]["spec"]

    def test_ranges_are_held_by_a_policy_that_is_there_first(self) -> None:
        plan = plan_of(one(config={"enable-ipv6": "true"}), **{"class": "NodePort", "sourceRanges": [*OFFICE, "::/0"]})
        found = bodies(plan)
        assert list(found) == ["CiliumNetworkPolicy", "Service"]  # steps of one item in one cluster keep their order
        assert found["Service"]["spec"]["externalTrafficPolicy"] == "Local"
        assert found["CiliumNetworkPolicy"]["spec"] == {
            "endpointSelector": {"matchLabels": {"k8s:app": "nginx"}},
            "ingressDeny": [
                {
                    "fromCIDRSet": [{"cidr": "0.0.0.0/0", "except": list(OFFICE)}],
                    "toPorts": [{"ports": [{"port": "8080", "protocol": "TCP"}]}],
                }
            ],
            "enableDefaultDeny": {"ingress": False},
        }
        assert plan.findings == ()

    @pytest.mark.parametrize("replacement", ["true", "false"])
    def test_with_kube_proxy_too(self, replacement: str) -> None:
        """Local keeps the client's address with either; the policy is Cilium's in both."""
        assert bodies(plan_of(one(config={"kube-proxy-replacement": replacement}), **{"class": "NodePort"})).keys() == {
            "CiliumNetworkPolicy",
            "Service",
        }

    @pytest.mark.parametrize(
        ("version", "config", "word"),
        [
            ("1.15.19", {}, "Cilium 1.15.19 cannot deny without isolating"),
            ("1.18.11", {"enable-policy": "never"}, "policies are not enforced"),
            ("1.18.11", {"enable-non-default-deny-policies": "false"}, "enable-non-default-deny-policies"),
            ("1.18.11", {"enable-cilium-network-policy": "false"}, "enable-cilium-network-policy"),
            ("1.18.11", {"policy-cidr-match-mode": "nodes"}, "CIDRs select nodes too"),
            ("1.20.2", {"policy-cidr-match-mode": "pods"}, "CIDRs select pods too"),
            ("1.18.11", {"policy-audit-mode": "yes"}, "Cilium does not read the value"),
            ("1.18.11", {"labels": "k8s:team"}, "does not take app into identities"),
            ("1.18.11", {"labels": "k8s:(a|b)+"}, "which labels count for policies is not known"),
            ("1.18.11", {"label-prefix-file": "/etc/x"}, "which labels count for policies is not known"),
        ],
    )
    def test_it_is_not_opened_where_the_ranges_would_not_hold(self, version: str, config: dict[str, str | None], word: str) -> None:
        plan = plan_of(one(version=version, config=config), **{"class": "NodePort"})
        assert (plan.verdict, plan.reason, plan.steps) == (ItemVerdict.REFUSED, "RangesNotEnforceable", ())
        found = only(plan, "CM-EXPO-04")
        assert found.blocks and word in found.evidence

    def test_pods_in_the_network_of_their_node(self) -> None:
        node = cluster_facts("c1").nodes[0].internal_ips[0]
        entry = slice_facts()
        entry = replace(entry, endpoints=(replace(entry.endpoints[0], address=node), *entry.endpoints[1:]))
        plan = plan_of(one(slices=[entry]), **{"class": "NodePort"})
        assert "nginx-0 is in the network of its node" in only(plan, "CM-EXPO-04").evidence

    @pytest.mark.parametrize(
        ("other", "closes"),
        [
            ({"type": "LoadBalancer"}, True),
            ({"type": "NodePort", "ports": [{"port": 8080, "protocol": "TCP", "targetPort": "web"}]}, True),  # may be the same port
            ({"externalIPs": ["198.51.100.1"]}, True),
            ({"type": "LoadBalancer", "selector": {"app": "nginx", "tier": "a"}}, True),
            ({"type": "LoadBalancer", "selector": {"app": "other"}}, False),
            ({"type": "LoadBalancer", "ports": [{"port": 53, "protocol": "UDP", "targetPort": 8080}]}, False),
            ({"type": "LoadBalancer", "ports": [{"port": 81, "protocol": "TCP", "targetPort": 81}]}, False),
            ({"type": "ClusterIP"}, False),
        ],
    )
    def test_a_policy_would_close_other_doors_to_the_same_pods(self, other: dict[str, Any], closes: bool) -> None:
        door = service("door", **{"selector": {"app": "nginx"}, **other})
        plan = plan_of(one(services=[service(), door]), **{"class": "NodePort"})
        assert (plan.verdict is ItemVerdict.REFUSED) == closes
        if closes:
            assert "would also close Service door" in only(plan, "CM-EXPO-04").evidence

    def test_other_items_count_by_what_they_ask_for(self) -> None:
        held, other = item("held", clusters=["c1"], **{"class": "NodePort"}), item("other", clusters=["c1"])
        plan = planned(one(), held, other)[0][0]
        assert "would also close exposedServices/other" in only(plan, "CM-EXPO-04").evidence
        for beside in (item("other", clusters=["c1"], sourceRanges=[]), item("other", clusters=["c1"], **TestGateway.WIDE)):
            assert planned(one(config=TestGateway.ON), held, beside)[0][0].verdict is ItemVerdict.ACCEPTED
        current = run(one(), other)
        assert planned(current, held)[0][0].verdict is ItemVerdict.ACCEPTED  # the other one goes with this plan

    def test_its_own_door_is_none(self) -> None:
        wanted = item(clusters=["c1"], **{"class": "NodePort"})
        current = run(one(), wanted)
        plans, steps = planned(current, wanted)
        assert (plans[0].verdict, steps) == (ItemVerdict.ACCEPTED, [])


class TestGateway:
    WIDE: ClassVar[dict[str, Any]] = {"class": "Gateway", "sourceRanges": list(EVERYONE)}
    ON: ClassVar[dict[str, str | None]] = {"enable-gateway-api": "true"}

    def test_a_gateway_and_its_route(self) -> None:
        found = bodies(plan_of(one(config=self.ON), **self.WIDE, hostname="*.example.com", tlsRef={"name": "shop-tls"}))
        name = found["Gateway"]["metadata"]["name"]
        assert found["Gateway"]["spec"] == {
            "gatewayClassName": "cilium",
            "listeners": [
                {
                    "name": "https",
                    "port": 443,
                    "protocol": "HTTPS",
                    "allowedRoutes": {"namespaces": {"from": "Same"}},
                    "hostname": "*.example.com",
                    "tls": {"mode": "Terminate", "certificateRefs": [{"kind": "Secret", "name": "shop-tls"}]},
                }
            ],
        }
        assert found["HTTPRoute"]["spec"] == {
            "parentRefs": [{"name": name}],
            "rules": [{"backendRefs": [{"name": "nginx", "port": 80}]}],
            "hostnames": ["*.example.com"],
        }
        assert "Service" not in found

    def test_without_tls(self) -> None:
        listener = bodies(plan_of(one(config=self.ON), **self.WIDE))["Gateway"]["spec"]["listeners"][0]
        assert (listener["port"], listener["protocol"]) == (80, "HTTP")
        assert "tls" not in listener and "hostname" not in listener

    def test_a_service_without_selector_will_do(self) -> None:
        current = one(config=self.ON, services=[service(selector=None)])
        assert plan_of(current, **self.WIDE).verdict is ItemVerdict.ACCEPTED
        assert plan_of(current).reason == "NoSelector"

    @pytest.mark.parametrize(
        ("config", "ranges", "possible"),
        [
            ({}, ["0.0.0.0/0"], True),
            ({}, ["0.0.0.0/0", "::/0"], True),
            ({}, ["192.0.2.0/24"], False),
            ({"enable-ipv6": "true"}, ["0.0.0.0/0"], False),
            ({"enable-ipv6": "true"}, ["0.0.0.0/0", "::/0"], True),
        ],
    )
    def test_ranges_cannot_be_held_by_one_gateway(self, config: dict[str, str | None], ranges: list[str], possible: bool) -> None:
        plan = plan_of(one(config={**self.ON, **config}), **{**self.WIDE, "sourceRanges": ranges})
        assert (plan.verdict is ItemVerdict.ACCEPTED) == possible
        if not possible:
            assert (plan.reason, plan.steps) == ("RangesNotEnforceable", ())

    @pytest.mark.parametrize(
        ("port", "fits"),
        [
            *alike(True, {"name": "http"}, {"name": "http-admin"}, {"name": "grpc", "port": 9000}, {"name": "", "port": 8080}),
            *alike(True, {"name": "postgres", "appProtocol": "http"}, {"name": "http", "appProtocol": "kubernetes.io/h2c"}),
            *alike(False, {"name": "", "port": 5432}, {"name": "postgres"}, {"name": "https"}, {"name": "httpd"}),
            *alike(False, {"name": "http", "appProtocol": "https"}, {"name": "http", "protocol": "UDP"}),
        ],
    )
    def test_only_http_passes(self, port: dict[str, Any], fits: bool) -> None:
        entry = {"port": 80, "protocol": "TCP", "targetPort": 8080, **port}
        plan = plan_of(one(config=self.ON, services=[service(ports=[entry])]), **self.WIDE, port={"number": entry["port"]})
        assert (plan.verdict is ItemVerdict.ACCEPTED) == fits
        assert fits or plan.reason == "ProtocolNotSupported"

    @pytest.mark.parametrize(
        ("config", "fields", "spec", "word"),
        [
            ({}, {"gateways": False}, {}, "does not have the Gateway API"),
            ({"enable-gateway-api": "false"}, {}, {}, "Cilium does not serve Gateways"),
            ({}, {}, {"gatewayClassName": "other"}, "no GatewayClass other"),
            ({}, {"unread": (Unread(what="gateways", message="m", remedy="r"),)}, {}, "may not read"),
        ],
    )
    def test_where_there_is_none(self, config: dict[str, str | None], fields: dict[str, Any], spec: dict[str, Any], word: str) -> None:
        plan = plan_of(one(config={**self.ON, **config}, **fields), **self.WIDE, **spec)
        assert plan.verdict is ItemVerdict.REFUSED
        assert word in only(plan, "CM-EXPO-05").summary

    def test_a_foreign_class_needs_nothing_of_cilium(self) -> None:
        classes = {"edge": gateway_class("edge", "example.com/gateway-controller")}
        assert plan_of(one(gateway_classes=classes), **self.WIDE, gatewayClassName="edge").verdict is ItemVerdict.ACCEPTED


class TestWhatDoesNotFit:
    @pytest.mark.parametrize(
        ("services", "spec", "code", "reason"),
        [
            ([], {}, "CM-EXPO-01", "ServiceNotFound"),
            ([service(type="ExternalName", externalName="a.example.com")], {}, "CM-EXPO-02", "ExternalName"),
            ([service(selector=None)], {}, "CM-EXPO-02", "NoSelector"),
            ([service()], {"port": {"number": 81}}, "CM-EXPO-03", "PortNotFound"),
            ([service()], {"port": {"name": "https"}}, "CM-EXPO-03", "PortNotFound"),
            ([service()], {"port": {"number": 80, "name": "https"}}, "CM-EXPO-03", "PortNotFound"),
            ([service()], {"port": {"number": 80, "protocol": "UDP"}}, "CM-EXPO-03", "ProtocolMismatch"),
            (
                [service(ports=[{"name": "a", "port": 53, "protocol": "TCP"}, {"name": "b", "port": 53, "protocol": "UDP"}])],
                {"port": {"number": 53}},
                "CM-EXPO-03",
                "PortAmbiguous",
            ),
        ],
    )
    def test_it_is_refused_where_it_fits_nowhere(self, services: list[Any], spec: dict[str, Any], code: str, reason: str) -> None:
        plan = plan_of(one(services=services), **spec)
        assert (plan.verdict, plan.reason, plan.steps) == (ItemVerdict.REFUSED, reason, ())
        assert only(plan, code).blocks and plan.message

    def test_a_namespace_that_is_going(self) -> None:
        going = replace(namespace_facts("production"), status={"phase": "Terminating"})
        assert plan_of(one(namespaces=[going])).reason == "NamespaceTerminating"

    def test_what_was_made_for_an_exposed_service_is_not_exposed_again(self) -> None:
        current = run(one(), item(clusters=["c1"]))
        made = ours(current, "c1")[0].name
        plan = planned(current, item(clusters=["c1"]), item("again", clusters=["c1"], service={"namespace": "production", "name": made}))[
            0
        ][1]
        assert plan.reason == "MadeByAMesh"

    def test_where_it_fits_it_is_made_and_the_others_are_named(self) -> None:
        current = clusters(cluster("c1"), cluster("c2", services=[]), cluster("c3", services=[]))
        plan = planned(current, item())[0][0]
        assert plan.verdict is ItemVerdict.ACCEPTED
        assert {step.cluster for step in plan.steps} == {"c1"}
        found = only(plan, "CM-EXPO-01")
        assert (found.severity, found.cluster, found.others) == (Severity.REMEDIABLE, "c2", ("c3",))

    @pytest.mark.parametrize("exposure", ["LoadBalancer", "NodePort"])
    def test_what_was_made_before_stays(self, exposure: str) -> None:
        """A Service that is deleted and made anew must not cost the address."""
        wanted = item(**{"class": exposure})
        current = run(clusters(), wanted)
        for hosts in (("c2",), MEMBERS):
            gone = current
            for host in hosts:
                gone = changed(
                    gone,
                    host,
                    lambda entry: replace(entry, services={k: v for k, v in entry.services.items() if k != ("production", "nginx")}),
                )
            plans, steps = planned(gone, wanted)
            assert steps == []
            assert plans[0].verdict is (ItemVerdict.REFUSED if hosts == MEMBERS else ItemVerdict.ACCEPTED)

    def test_a_foreign_object_in_the_way(self) -> None:
        wanted = item(clusters=["c1"])
        made = ours(run(one(), wanted), "c1")[0]
        current = one(services=[service(), service(made.name)])
        plan = planned(current, wanted)[0][0]
        assert (plan.verdict, plan.reason, plan.steps) == (ItemVerdict.REFUSED, "ForeignObject", ())

    def test_no_ready_endpoints_are_said_and_it_is_made_all_the_same(self) -> None:
        plan = plan_of(one(ready=0))
        assert plan.steps and only(plan, "CM-EXPO-10").severity is Severity.REMEDIABLE

    def test_an_address_that_does_not_come(self) -> None:
        wanted = item(clusters=["c1"])
        current = run(one(), wanted, settle=False)
        assert "CM-EXPO-09" not in codes_of(planned(current, wanted)[0][0])
        later = replace(current, now=current.now.replace(hour=current.now.hour + 1))
        assert "5 minutes" in only(planned(later, wanted)[0][0], "CM-EXPO-09").summary

    def test_a_gateway_that_is_refused(self) -> None:
        wanted = item(clusters=["c1"], **TestGateway.WIDE)
        current = run(one(config=TestGateway.ON), wanted, settle=False)
        said_no = {"type": "ResolvedRefs", "status": "False", "reason": "InvalidCertificateRef", "message": "Secret not found"}
        refused = changed(
            current,
            "c1",
            lambda entry: replace(
                entry,
                gateways={key: replace(gw, status={"listeners": [{"conditions": [said_no]}]}) for key, gw in entry.gateways.items()},
            ),
        )
        found = only(planned(refused, wanted)[0][0], "CM-EXPO-09")
        assert "InvalidCertificateRef: Secret not found" in found.evidence


class TestTheMesh:
    def test_a_service_that_is_global_stays_global_on_its_new_address(self) -> None:
        names = set()
        for shared in (None, "false"):
            given = {"service.cilium.io/global": "true", **({"service.cilium.io/shared": shared} if shared else {})}
            metadata = bodies(plan_of(one(services=[service(annotations=given)])))["Service"]["metadata"]
            found = {key: value for key, value in metadata["annotations"].items() if key.startswith("service.cilium.io/")}
            assert found == {
                "service.cilium.io/global": "true",
                "service.cilium.io/shared": shared or "true",
                "service.cilium.io/affinity": "local",
            }
            names.add(metadata["name"])
        assert len(names) == 1

    def test_one_name_in_all_clusters(self) -> None:
        current = run(clusters(), item())
        assert len({ours(current, host)[0].key for host in MEMBERS}) == 1

    @pytest.mark.parametrize("overrides", [{}, {"class": "NodePort"}])
    def test_one_that_is_not_global_or_held_by_a_policy_has_no_annotation(self, overrides: dict[str, Any]) -> None:
        given = {"service.cilium.io/global": "true"} if overrides else {}
        metadata = bodies(plan_of(one(services=[service(annotations=given)]), **overrides))["Service"]["metadata"]
        assert not any(key.startswith("service.cilium.io/") for key in metadata["annotations"])

    def test_endpoints_elsewhere_answer_for_a_global_service(self) -> None:
        given = {"service.cilium.io/global": "true"}
        current = clusters(*(cluster(host, services=[service(annotations=given)]) for host in MEMBERS))
        emptied = with_endpoints(current, "c2", 0)
        assert "CM-EXPO-10" not in codes_of(planned(emptied, item())[0][0])
        alone = with_endpoints(clusters(), "c2", 0)
        assert only(planned(alone, item())[0][0], "CM-EXPO-10").cluster == "c2"


class TestTheWayBack:
    @pytest.mark.parametrize("exposure", ["LoadBalancer", "NodePort", "Gateway"])
    def test_an_item_that_is_gone_leaves_nothing(self, exposure: str) -> None:
        before = clusters(facts={host: cluster_facts(host, config=TestGateway.ON) for host in MEMBERS})
        ranges = list(EVERYONE) if exposure == "Gateway" else list(OFFICE)
        asked: dict[str, Any] = {"class": exposure, "sourceRanges": ranges, "hostname": "shop.example.com"}
        current = run(before, item(**asked))
        assert ours(current, "c2")
        assert applied(current, planned(current)[1], current.binding).traffic == before.traffic

    def test_another_class_takes_the_place_of_the_first(self) -> None:
        facts = {host: cluster_facts(host, config=TestGateway.ON) for host in MEMBERS}
        wide: dict[str, Any] = {"sourceRanges": list(EVERYONE), "clusters": ["c1"]}
        current = run(clusters(facts=facts), item(**{**wide, "class": "Gateway"}))
        current = run(current, item(**{**wide, "class": "NodePort"}))
        assert [entry.kind for entry in ours(current, "c1")] == ["Service"]
        current = run(current, item(**{**wide, "class": "NodePort", "sourceRanges": list(OFFICE)}))
        assert {entry.kind for entry in ours(current, "c1")} == {"Service", "CiliumNetworkPolicy"}
        current = run(current, item(**{**wide, "class": "LoadBalancer"}))
        assert [entry.spec["type"] for entry in ours(current, "c1")] == ["LoadBalancer"]

    def test_a_cluster_that_is_no_longer_named(self) -> None:
        current = run(clusters(), item())
        after = run(current, item(clusters=["c1"]))
        assert [bool(ours(after, host)) for host in MEMBERS] == [True, False, False]

    def test_a_refused_item_keeps_what_it_has(self) -> None:
        current = run(clusters(), item(hostname="shop.example.com"))
        wrong = item(port={"number": 81})
        plans, steps = planned(current, wrong)
        assert (plans[0].verdict, steps) == (ItemVerdict.REFUSED, [])

    def test_a_silent_cluster_is_left(self) -> None:
        current = run(clusters(), item())
        _plans, steps = planned(without(current, "c3"))
        assert {step.cluster for step in steps} == {"c1", "c2"}

    def test_nothing_is_known_of_a_list_that_is_absent(self) -> None:
        from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.plan import prune_exposures
        from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired

        current = run(clusters(), item())
        assert prune_exposures(Desired(mesh=current.mesh), current) == ([], [])


def test_a_hostname_is_one_annotation_for_dns_and_one_for_us() -> None:
    plan = plan_of(one(), hostname="shop.example.com")
    annotations = bodies(plan)["Service"]["metadata"]["annotations"]
    assert (annotations[DNS_ANNOTATION], annotations[CLAIM_ANNOTATION]) == ("shop.example.com", "shop.example.com")


def test_what_is_no_longer_wanted_on_an_object_goes() -> None:
    """Everything that is wanted is there already; only the digest tells that the name is too much."""
    current = run(one(), item(clusters=["c1"], hostname="shop.example.com"))
    after = run(current, item(clusters=["c1"]))
    assert DNS_ANNOTATION not in ours(after, "c1")[0].annotations
    assert planned(settled(after), item(clusters=["c1"]))[1] == []

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a member reports of its own endpoint never becomes a name or an address that means something else in another member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.addresses import (
    MOST_ADDRESSES,
    is_ip,
    refusal_of_address,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.endpoint import MeshEndpoint, endpoint_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.names import is_inner_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import (
    ClusterFacts,
    HostAlias,
    NodeFacts,
    ServiceFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import (
    ApplyHostAliases,
    ApplySecret,
    Literal,
    Plan,
    PlanOptions,
)
from tests.testing.facts_builders import NOW, agent_workload, apiserver_workload, cluster_facts, context_of, key_facts, mesh_of, peer_secret
from tests.testing.link_plans import plan_links
from tests.testing.properties import examples

MESH = mesh_of("c1", "c2", "c3")
OURS = MESH.binding.manager
ELB = "41fae315-2964-49c4-afde-bc6d358cd031"
BALANCER = {"type": "LoadBalancer", "ingress_ips": ("192.0.2.3",)}
API = "api.example.com"  # where the agents of c1 reach their API server

LABELS = st.sampled_from(
    [
        *("kubernetes", "default", "svc", "cluster", "local", "localhost", "mesh", "cilium", "io", "example", "com", "api", "lb", "c1"),
        *("c3", "SVC"),
    ]
)
NAMES = st.one_of(
    st.lists(LABELS, min_size=1, max_size=5).map(".".join),
    st.sampled_from(
        [
            *("c1.mesh.cilium.io", "c3.mesh.cilium.io", "kubernetes.default.svc.", "KUBERNETES.default.svc", API, "x.elb.amazonaws.com"),
            *("a b", ""),
        ]
    ),
)
WILDCARDS = NAMES.map("*.{}".format)
ADDRESSES = st.one_of(
    st.sampled_from(
        ["192.0.2.7", "127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "0.0.0.0", "fe80::1", "x"]
    ),
    st.ip_addresses().map(str),
)
TEXTS = st.lists(st.one_of(NAMES, WILDCARDS), max_size=4).map(tuple)


def reporting(facts: ClusterFacts, service: Mapping[str, Any], dns_names: tuple[str, ...]) -> ClusterFacts:
    assert facts.server_cert.certificate is not None
    certificate = replace(facts.server_cert.certificate, dns_names=dns_names)
    return replace(facts, service=ServiceFacts(**service), server_cert=replace(facts.server_cert, certificate=certificate))


def forged(facts: ClusterFacts, peer: str, name: str, ip: str) -> ClusterFacts:
    """A member that wrote, as if it were the mesh, how it dials a peer."""
    config = f"endpoints:\n- https://{name}:2379\ncilium-host-aliases:\n- hostname: {name}\n  ips:\n    - {ip}\n"
    alias = HostAlias(ip=ip, hostnames=(f"{peer}.{name}",), managers=(OURS,))
    secret = peer_secret("cilium-kvstoremesh", {peer: key_facts(config, managers=(OURS,), config=config)})
    return replace(facts, kvstoremesh=secret, apiserver=apiserver_workload("1.18.11", aliases=[alias]))


def planned(facts: Mapping[str, ClusterFacts], resolved: Mapping[str, tuple[str, ...]]) -> Plan:
    return plan_links(MESH, facts, PlanOptions(), NOW, policy=LinkPolicy(resolved=resolved))


def written(plan: Plan, cluster: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Every (peer, name, addresses) that the plan writes into a cluster; the peer is "" for entries that several may share."""
    for step in plan.steps:
        if step.cluster != cluster:
            continue
        if isinstance(step.action, ApplyHostAliases):
            yield from (("", name, (ip,)) for ip, names in step.action.aliases.items() for name in names)
        if isinstance(step.action, ApplySecret):
            texts = {key: recipe.text for key, recipe in step.action.data.items() if isinstance(recipe, Literal) and "." not in key}
            for peer, text in texts.items():
                config = yaml.safe_load(text)
                (url,) = config["endpoints"]
                yield peer, url.removeprefix("https://").rpartition(":")[0], ()
                yield from ((peer, alias["hostname"], tuple(alias["ips"])) for alias in config.get("cilium-host-aliases", ()))


@st.composite
def hostile(draw: st.DrawFn) -> tuple[ClusterFacts, dict[str, tuple[str, ...]]]:
    version = draw(st.sampled_from(["1.18.11", "1.20.0"]))
    facts = cluster_facts("c3", version=version, config={"cluster_name": draw(st.sampled_from(["c3", "kubernetes", "api", "c1", "x.svc"]))})
    names = tuple(draw(st.lists(NAMES, max_size=3)))
    ips = tuple(draw(st.lists(ADDRESSES, max_size=3)))
    service: dict[str, Any] = {"type": draw(st.sampled_from(["LoadBalancer", "NodePort", "ClusterIP"])), "node_port": 32379}
    service |= {"ingress_ips": ips if draw(st.booleans()) else (), "ingress_hostnames": names, "cluster_ip": draw(ADDRESSES)}
    made = reporting(facts, service, (*draw(TEXTS), *draw(st.sampled_from([(), names, ("*.mesh.cilium.io",)]))))
    made = replace(made, nodes=(NodeFacts(name="n1", ready=True, internal_ips=ips),), elb_id=draw(st.sampled_from(["", ELB])))
    if draw(st.booleans()):
        made = forged(made, draw(st.sampled_from(["c1", "c2", made.name])), draw(NAMES), draw(ADDRESSES))
    if draw(st.booleans()):
        made = replace(made, endpoint_domains=draw(st.sampled_from([("example.com",), ("mesh.example.com",)])))
    return made, {name: tuple(ip for ip in draw(st.lists(ADDRESSES, max_size=2)) if is_ip(ip)) for name in names}


@given(hostile())
@examples(60)
def test_a_member_chooses_no_name_and_no_address_outside_its_own_place_in_others(world: tuple[ClusterFacts, dict[str, Any]]) -> None:
    bad, resolved = world
    agent = agent_workload("1.18.11", environment={"cilium-agent": {"KUBERNETES_SERVICE_HOST": API}})
    innocent = {"c1": cluster_facts("c1", version="1.18.11", agent=agent), "c2": cluster_facts("c2", version="1.20.0", elb_id=ELB)}
    plan = planned({**innocent, "c3": bad}, resolved)
    own = {f"{host}.mesh.cilium.io" for host in innocent}
    roots = ("mesh.cilium.io", *bad.endpoint_domains)
    assert bad.service is not None
    for cluster in innocent:
        for peer, name, addresses in written(plan, cluster):
            if name == "clustermesh-apiserver.kube-system.svc" and not addresses:
                continue  # the agents' own kvstoremesh
            assert not any(refusal_of_address(ip) for ip in addresses), (cluster, peer, name, addresses)
            if is_ip(name):
                assert not refusal_of_address(name)
                continue
            # Without addresses a name means to the reader what it means to anybody; with them it would mean something else in its pods.
            assert not is_inner_name(name) and not (addresses and name == API)
            assert peer in ("", bad.name) or name in own, "what it wrote into its own Secret is no news of others"
            first, _dot, domain = name.partition(".")
            below = name in own or (first == bad.name and any(f".{domain}".endswith(f".{root}") for root in roots))
            assert below or (not addresses and name in bad.service.ingress_hostnames)


@pytest.mark.parametrize(
    ("name", "wildcard"),
    [
        ("kubernetes", "*.default.svc"),
        ("kubernetes", "*.default.svc.cluster.local"),
        ("api", "*.example.com"),
        ("clustermesh-apiserver", "*.kube-system.svc"),
        ("printer", "*.local"),
    ],
)
def test_a_wildcard_below_a_strange_domain_gives_no_host_alias_and_its_owner_learns_why(name: str, wildcard: str) -> None:
    facts = reporting(
        cluster_facts("c3", config={"cluster_name": name}), {"type": "LoadBalancer", "ingress_ips": ("192.0.2.3",)}, (wildcard,)
    )
    found = endpoint_of(facts)
    assert isinstance(found, MeshEndpoint) and found.hostname == f"{name}.mesh.cilium.io"
    context = context_of(cluster_facts("c1"), cluster_facts("c2"), facts)
    (finding,) = [f for f in run_checks(context) if f.code == "CM-CERT-05"]
    assert finding.blocks and finding.cluster == "c3"
    assert ("cilium_mesh_endpoint_domains" in finding.fix) == (wildcard == "*.example.com")


def test_a_listed_domain_gives_a_name_unless_another_member_has_it_or_dials_it() -> None:
    reported = reporting(cluster_facts("c3", config={"cluster_name": "api"}), BALANCER, ("*.example.com",))
    facts = replace(reported, endpoint_domains=("example.com",))
    free = cluster_facts("c1")
    at_the_name = replace(free, agent=agent_workload("1.20.0", environment={"config": {"KUBERNETES_SERVICE_HOST": "API.example.com"}}))
    config = "endpoints:\n- https://api.example.com:2379\n"
    dialling = replace(free, clustermesh=peer_secret("cilium-clustermesh", {"other": key_facts(config, managers=("helm",), config=config)}))
    named = replace(free, service=ServiceFacts(type="LoadBalancer", ingress_hostnames=("api.example.com",)))
    expected = {"free": "api.example.com"} | dict.fromkeys(("at_the_name", "dialling", "named"), "api.mesh.cilium.io")
    for case, other in (("free", free), ("at_the_name", at_the_name), ("dialling", dialling), ("named", named)):
        endpoint = context_of(other, cluster_facts("c2"), facts).decisions.endpoints["c3"]
        assert isinstance(endpoint, MeshEndpoint) and endpoint.hostname == expected[case], case


@pytest.mark.parametrize("version", ["1.18.11", "1.20.0"])  # aliases stand in pod templates before 1.20, and in configurations from then on
def test_the_name_of_a_cloud_load_balancer_is_dialled_and_is_no_host_alias(version: str) -> None:
    name = "a1b2-1234.elb.eu-central-1.amazonaws.com"
    balancer = {"type": "LoadBalancer", "ingress_hostnames": (name,)}
    facts = {host: cluster_facts(host, version=version) for host in ("c1", "c2")}
    facts["c3"] = reporting(cluster_facts("c3", version=version), balancer, ("*.mesh.cilium.io", name))
    found = list(written(planned(facts, {name: ("192.0.2.9",)}), "c1"))
    assert ("c3", name, ()) in found
    aliases = {(alias, ips) for _peer, alias, ips in found if ips}
    assert aliases == {("c2.mesh.cilium.io", ("192.0.2.2",))}


def test_a_load_balancer_with_very_many_addresses_fills_no_secret_of_others() -> None:
    ips = tuple(f"10.{n // 250}.0.{n % 250}" for n in range(5000))
    found = endpoint_of(reporting(cluster_facts("c3"), {"type": "LoadBalancer", "ingress_ips": ips}, ("*.mesh.cilium.io",)))
    assert isinstance(found, MeshEndpoint) and len(found.ips) == MOST_ADDRESSES


@given(st.ip_addresses())
def test_an_address_is_refused_as_pythons_own_tables_say(address: Any) -> None:
    special = address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    assert not special or refusal_of_address(str(address))
    if address.version == 4:
        assert refusal_of_address(f"::ffff:{address}") == refusal_of_address(f"64:ff9b::{address}") == refusal_of_address(str(address))
        assert not refusal_of_address(str(address), (f"{ip_address(address)}/32",))

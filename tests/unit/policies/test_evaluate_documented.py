# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The evaluator against what Cilium's documentation says of its own examples (Documentation/security/policy and examples/policies)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import EndpointKind, PolicyEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import PolicyOutcome
from tests.testing.policy_worlds import ALLOWED, DENIED, UNKNOWN, VERSIONS, WORLD, judged, outcome, pod, world
from tests.testing.rows import in_one_test

HOST, NODE = PolicyEndpoint(kind=EndpointKind.HOST, cluster="c1"), PolicyEndpoint(kind=EndpointKind.REMOTE_NODE, cluster="c1")


def cnp(spec: str, *, namespace: str = "default", kind: str = "CiliumNetworkPolicy", name: str = "example") -> str:
    """A policy around a spec in YAML flow style."""
    where = "" if kind == "CiliumClusterwideNetworkPolicy" else f", namespace: {namespace}"
    return f"---\n{{apiVersion: cilium.io/v2, kind: {kind}, metadata: {{name: {name}{where}}}, spec: {spec}}}\n"


class Case(NamedTuple):
    source: str  # where the documentation says so
    policies: str
    flows: tuple[tuple[PolicyEndpoint, PolicyEndpoint, str, PolicyOutcome], ...]


def role(name: str, **more: Any) -> PolicyEndpoint:
    return pod(role=name, **more)


CCNP = "CiliumClusterwideNetworkPolicy"
SIMPLE = cnp("{endpointSelector: {matchLabels: {role: backend}}, ingress: [{fromEndpoints: [{matchLabels: {role: frontend}}]}]}")
CASES = {
    "no policy": Case(
        "intro.rst, Endpoint default policy", "", ((role("a"), role("b"), "TCP/80", ALLOWED), (WORLD, role("b"), "UDP/53", ALLOWED))
    ),
    "simple ingress": Case(
        "layer3.rst, Simple Ingress Allow; l3/simple/l3.yaml",
        SIMPLE,
        (
            (role("frontend"), role("backend"), "TCP/80", ALLOWED),
            (role("frontend"), role("backend"), "ICMP/8", ALLOWED),  # layer4.rst: without layer 4 all ports and protocols, ICMP included
            (role("other"), role("backend"), "TCP/80", DENIED),
            (WORLD, role("backend"), "TCP/80", DENIED),
            (role("other"), role("frontend"), "TCP/80", ALLOWED),
            (role("backend"), role("other"), "TCP/80", ALLOWED),  # per direction
            (role("frontend", namespace="other"), role("backend"), "TCP/80", DENIED),
            (role("frontend"), role("backend", namespace="other"), "TCP/80", ALLOWED),
        ),
    ),
    "ingress from all endpoints": Case(
        "layer3.rst, Ingress Allow All Endpoints; kubernetes/namespace: {} is the own namespace",
        cnp("{endpointSelector: {matchLabels: {role: victim}}, ingress: [{fromEndpoints: [{}]}]}"),
        (
            (role("any"), role("victim"), "TCP/80", ALLOWED),
            (role("any", namespace="other"), role("victim"), "TCP/80", DENIED),
            (WORLD, role("victim"), "TCP/80", DENIED),
        ),
    ),
    "simple egress": Case(
        "layer3.rst, Simple Egress Allow; l3/simple/l3_egress.yaml",
        cnp("{endpointSelector: {matchLabels: {role: frontend}}, egress: [{toEndpoints: [{matchLabels: {role: backend}}]}]}"),
        (
            (role("frontend"), role("backend"), "TCP/80", ALLOWED),
            (role("frontend"), role("other"), "TCP/80", DENIED),
            (role("frontend"), WORLD, "TCP/80", DENIED),
            (role("other"), role("frontend"), "TCP/80", ALLOWED),
        ),
    ),
    "egress deny": Case(
        "layer3.rst, Simple Egress Deny; l3/egress-deny/egress-deny.yaml",
        cnp(
            "{endpointSelector: {matchLabels: {role: frontend}}, egress: [{toEntities: [all]}], "
            "egressDeny: [{toEndpoints: [{matchLabels: {role: backend}}]}]}"
        ),
        (
            (role("frontend"), role("backend"), "TCP/80", DENIED),
            (role("frontend"), role("other"), "TCP/80", ALLOWED),
            (role("frontend"), WORLD, "TCP/80", ALLOWED),
        ),
    ),
    "egress default deny": Case(
        "layer3.rst, Ingress/Egress Default Deny; l3/egress-default-deny",
        cnp("{endpointSelector: {matchLabels: {role: restricted}}, egress: [{}]}"),
        (
            (role("restricted"), role("other"), "TCP/80", DENIED),
            (role("restricted"), WORLD, "UDP/53", DENIED),
            (role("other"), role("restricted"), "TCP/80", ALLOWED),
        ),
    ),
    "and": Case(
        "layer3.rst; l3/match-expressions/and-statement.yaml",
        cnp(
            "{endpointSelector: {}, ingress: [{fromEndpoints: [{matchExpressions: ["
            "{key: 'k8s:io.kubernetes.pod.namespace', operator: In, values: [production]}, "
            "{key: 'k8s:cilium.example.com/policy', operator: In, values: [strict]}]}]}]}"
        ),
        (
            (replace(pod(namespace="production"), labels={"cilium.example.com/policy": "strict"}), pod(), "TCP/80", ALLOWED),
            (pod(namespace="production"), pod(), "TCP/80", DENIED),
            (replace(pod(), labels={"cilium.example.com/policy": "strict"}), pod(), "TCP/80", DENIED),
        ),
    ),
    "or": Case(
        "layer3.rst; l3/match-expressions/or-statement.yaml: the second selector names no namespace, so it is the own one",
        cnp(
            "{endpointSelector: {}, ingress: [{fromEndpoints: [{matchExpressions: ["
            "{key: 'k8s:io.kubernetes.pod.namespace', operator: In, values: [production]}]}, {matchExpressions: ["
            "{key: 'k8s:cilium.example.com/policy', operator: In, values: [strict]}]}]}]}"
        ),
        (
            (pod(namespace="production"), pod(), "TCP/80", ALLOWED),
            (replace(pod(), labels={"cilium.example.com/policy": "strict"}), pod(), "TCP/80", ALLOWED),
            (replace(pod(namespace="other"), labels={"cilium.example.com/policy": "strict"}), pod(), "TCP/80", DENIED),
        ),
    ),
    "world": Case(
        "layer3.rst, Access to/from outside cluster; l3/entities/world.yaml",
        cnp("{endpointSelector: {matchLabels: {role: public}}, ingress: [{fromEntities: [world]}]}"),
        (
            (WORLD, role("public"), "TCP/80", ALLOWED),
            (role("other"), role("public"), "TCP/80", DENIED),
            (role("other", cluster="c2"), role("public"), "TCP/80", DENIED),
            (NODE, role("public"), "TCP/80", DENIED),
        ),
    ),
    "nodes of the cluster": Case(
        "layer3.rst, Access to/from all nodes; l3/entities/nodes.yaml: remote nodes of every connected cluster",
        cnp("{endpointSelector: {matchLabels: {env: dev}}, ingress: [{fromEntities: [host, remote-node]}]}"),
        (
            (HOST, pod(env="dev"), "TCP/80", ALLOWED),
            (NODE, pod(env="dev"), "TCP/80", ALLOWED),
            (replace(NODE, cluster="c2"), pod(env="dev"), "TCP/80", ALLOWED),
            (WORLD, pod(env="dev"), "TCP/80", DENIED),
        ),
    ),
    "own cluster": Case(
        "layer3.rst, entity cluster: the own cluster's endpoints, and all remote nodes of a mesh",
        cnp("{endpointSelector: {}, ingress: [{fromEntities: [cluster]}]}"),
        (
            (pod(namespace="other"), pod(), "TCP/80", ALLOWED),
            (pod("c2"), pod(), "TCP/80", DENIED),
            (replace(NODE, cluster="c2"), pod(), "TCP/80", ALLOWED),
            (WORLD, pod(), "TCP/80", DENIED),
        ),
    ),
    "all": Case(
        "layer3.rst, entity all: every cluster and the world",
        cnp("{endpointSelector: {}, ingress: [{fromEntities: [all]}]}"),
        ((pod("c2", "other"), pod(), "TCP/80", ALLOWED), (WORLD, pod(), "TCP/80", ALLOWED), (NODE, pod(), "TCP/80", ALLOWED)),
    ),
    "own node": Case(
        "layer3.rst, Access to/from local host: Kubernetes allows the own node by itself",
        cnp("{endpointSelector: {}, ingress: [{}]}"),
        ((HOST, pod(), "TCP/80", ALLOWED), (NODE, pod(), "TCP/80", DENIED)),
    ),
    "external lockdown": Case(
        "deny.rst; l3/entities/from_world_deny.yaml: deny from world, allow from everywhere else",
        cnp("{endpointSelector: {}, ingressDeny: [{fromEntities: [world]}], ingress: [{fromEntities: [all]}]}", kind=CCNP),
        ((WORLD, pod(), "TCP/80", DENIED), (pod("c2"), pod(), "TCP/80", ALLOWED), (NODE, pod(namespace="x"), "TCP/80", ALLOWED)),
    ),
    "cidr": Case(
        "layer3.rst, IP/CIDR based; l3/cidr/cidr.yaml with one kind of peers per rule: pods are never meant by an address",
        cnp(
            "{endpointSelector: {matchLabels: {app: x}}, "
            "egress: [{toCIDR: [20.1.1.1/32]}, {toCIDRSet: [{cidr: 10.0.0.0/8, except: [10.96.0.0/12]}]}]}"
        ),
        (
            (pod(app="x"), replace(WORLD, address="20.1.1.1"), "TCP/80", ALLOWED),
            (pod(app="x"), replace(WORLD, address="20.1.1.2"), "TCP/80", DENIED),
            (pod(app="x"), replace(WORLD, address="10.1.1.2"), "TCP/80", ALLOWED),
            (pod(app="x"), replace(WORLD, address="10.97.0.1"), "TCP/80", DENIED),
            (pod(app="x"), replace(WORLD, address="2001:db8::1"), "TCP/80", DENIED),
            (pod(app="x"), replace(WORLD, address=""), "TCP/80", UNKNOWN),
            (pod(app="x"), pod(app="y"), "TCP/80", DENIED),
        ),
    ),
    "layer 4": Case(
        "layer4.rst, Example (L4); l4/l4.yaml: to any layer 3 destination; ICMP is then blocked",
        cnp("{endpointSelector: {matchLabels: {app: myService}}, egress: [{toPorts: [{ports: [{port: '80', protocol: TCP}]}]}]}"),
        (
            (pod(app="myService"), WORLD, "TCP/80", ALLOWED),
            (pod(app="myService"), pod("c2", "other"), "TCP/80", ALLOWED),
            (pod(app="myService"), WORLD, "TCP/81", DENIED),
            (pod(app="myService"), WORLD, "UDP/80", DENIED),
            (pod(app="myService"), WORLD, "ICMP/8", DENIED),
        ),
    ),
    "port range": Case(
        "layer4.rst, Example Port Ranges; l4/l4_port_range.yaml",
        cnp("{endpointSelector: {matchLabels: {app: s}}, egress: [{toPorts: [{ports: [{port: '80', endPort: 444, protocol: TCP}]}]}]}"),
        (
            (pod(app="s"), WORLD, "TCP/79", DENIED),
            (pod(app="s"), WORLD, "TCP/80", ALLOWED),
            (pod(app="s"), WORLD, "TCP/444", ALLOWED),
            (pod(app="s"), WORLD, "TCP/445", DENIED),
        ),
    ),
    "layer 3 and 4": Case(
        "layer4.rst, Labels-dependent Layer 4 rule; l4/l3_l4_combined.yaml",
        cnp(
            "{endpointSelector: {matchLabels: {role: backend}}, ingress: [{fromEndpoints: [{matchLabels: {role: frontend}}], "
            "toPorts: [{ports: [{port: '80', protocol: TCP}]}]}]}"
        ),
        (
            (role("frontend"), role("backend"), "TCP/80", ALLOWED),
            (role("frontend"), role("backend"), "TCP/81", DENIED),
            (role("other"), role("backend"), "TCP/80", DENIED),
        ),
    ),
    "two rules": Case(
        "l4/multi_rule.yaml: a union of rules",
        cnp(
            "{endpointSelector: {matchLabels: {role: backend}}, ingress: [{fromEndpoints: [{matchLabels: {role: frontend}}]}, "
            "{toPorts: [{ports: [{port: '80', protocol: TCP}]}]}]}"
        ),
        (
            (role("frontend"), role("backend"), "TCP/81", ALLOWED),
            (role("other"), role("backend"), "TCP/80", ALLOWED),
            (role("other"), role("backend"), "TCP/81", DENIED),
        ),
    ),
    "cidr and port": Case(
        "layer4.rst, CIDR-dependent Layer 4 Rule; l4/cidr_l4_combined.yaml",
        cnp(
            "{endpointSelector: {matchLabels: {role: crawler}}, egress: [{toCIDR: [192.0.2.0/24], "
            "toPorts: [{ports: [{port: '80', protocol: TCP}]}]}]}"
        ),
        (
            (role("crawler"), WORLD, "TCP/80", ALLOWED),
            (role("crawler"), WORLD, "TCP/443", DENIED),
            (role("crawler"), replace(WORLD, address="198.51.100.1"), "TCP/80", DENIED),
            (role("other"), WORLD, "TCP/443", ALLOWED),
        ),
    ),
    "icmp": Case(
        "layer4.rst, Example (ICMP/ICMPv6); l4/icmp.yaml: everything else of layer 4 is blocked",
        cnp(
            "{endpointSelector: {matchLabels: {app: s}}, "
            "egress: [{icmps: [{fields: [{type: 8, family: IPv4}, {type: EchoRequest, family: IPv6}]}]}]}"
        ),
        (
            (pod(app="s"), WORLD, "ICMP/8", ALLOWED),
            (pod(app="s"), WORLD, "ICMPv6/128", ALLOWED),
            (pod(app="s"), WORLD, "ICMP/13", DENIED),
            (pod(app="s"), WORLD, "ICMPv6/8", DENIED),
            (pod(app="s"), WORLD, "TCP/80", DENIED),
        ),
    ),
    "clusterwide": Case(
        "kubernetes.rst, CiliumClusterwideNetworkPolicy; kubernetes/clusterwide: any namespace",
        cnp("{endpointSelector: {matchLabels: {name: leia}}, ingress: [{fromEndpoints: [{matchLabels: {name: luke}}]}]}", kind=CCNP),
        (
            (pod(namespace="ns2", name="luke"), pod(namespace="ns1", name="leia"), "TCP/80", ALLOWED),
            (pod(namespace="ns2", name="vader"), pod(namespace="ns1", name="leia"), "TCP/80", DENIED),
        ),
    ),
    "clusterwide wildcard": Case(
        "kubernetes/clusterwide/wildcard-from-endpoints.yaml: managed pods only, the world is none",
        cnp(
            "{endpointSelector: {matchLabels: {'k8s:io.kubernetes.pod.namespace': kube-system, k8s-app: kube-dns}}, "
            "ingress: [{fromEndpoints: [{}], toPorts: [{ports: [{port: '53', protocol: UDP}]}]}]}",
            kind=CCNP,
        ),
        (
            (pod(namespace="x"), pod(namespace="kube-system", k8s_app="kube-dns"), "UDP/53", ALLOWED),
            (pod(namespace="x"), pod(namespace="kube-system", k8s_app="kube-dns"), "TCP/53", DENIED),
            (WORLD, pod(namespace="kube-system", k8s_app="kube-dns"), "UDP/53", DENIED),
            (WORLD, pod(namespace="other", k8s_app="kube-dns"), "UDP/53", ALLOWED),
        ),
    ),
    "namespaces isolated": Case(
        "kubernetes/namespace/isolate-namespaces.yaml",
        cnp("{endpointSelector: {}, ingress: [{fromEndpoints: [{matchLabels: {}}]}]}", namespace="ns1")
        + cnp("{endpointSelector: {}, ingress: [{fromEndpoints: [{matchLabels: {}}]}]}", namespace="ns2"),
        (
            (pod(namespace="ns1"), pod(namespace="ns1"), "TCP/80", ALLOWED),
            (pod(namespace="ns2"), pod(namespace="ns1"), "TCP/80", DENIED),
            (pod(namespace="ns1"), pod(namespace="ns3"), "TCP/80", ALLOWED),
        ),
    ),
    "another namespace": Case(
        "kubernetes/namespace/namespace-policy.yaml",
        cnp(
            "{endpointSelector: {matchLabels: {name: leia}}, ingress: [{fromEndpoints: "
            "[{matchLabels: {'k8s:io.kubernetes.pod.namespace': ns2, name: luke}}]}]}",
            namespace="ns1",
        ),
        (
            (pod(namespace="ns2", name="luke"), pod(namespace="ns1", name="leia"), "TCP/80", ALLOWED),
            (pod(namespace="ns1", name="luke"), pod(namespace="ns1", name="leia"), "TCP/80", DENIED),
        ),
    ),
    "labels of namespaces": Case(
        "kubernetes/namespace/demo-namespace labels: io.cilium.k8s.namespace.labels",
        cnp(
            "{endpointSelector: {matchLabels: {name: rebel-base}}, ingress: [{fromEndpoints: "
            "[{matchLabels: {io.cilium.k8s.namespace.labels.faction: alliance}}]}]}"
        ),
        (
            (replace(pod(namespace="x"), namespace_labels={"faction": "alliance"}), pod(name="rebel-base"), "TCP/80", ALLOWED),
            (replace(pod(namespace="x"), namespace_labels={"faction": "empire"}), pod(name="rebel-base"), "TCP/80", DENIED),
            (replace(pod(namespace="x"), namespace_labels=None), pod(name="rebel-base"), "TCP/80", UNKNOWN),
        ),
    ),
    "service accounts": Case(
        "kubernetes/serviceaccount without its layer 7",
        cnp(
            "{endpointSelector: {matchLabels: {io.cilium.k8s.policy.serviceaccount: leia}}, ingress: [{fromEndpoints: "
            "[{matchLabels: {io.cilium.k8s.policy.serviceaccount: luke}}]}]}"
        ),
        (
            (replace(pod(), service_account="luke"), replace(pod(), service_account="leia"), "TCP/80", ALLOWED),
            (replace(pod(), service_account="vader"), replace(pod(), service_account="leia"), "TCP/80", DENIED),
            (replace(pod(), service_account="vader"), replace(pod(), service_account=None), "TCP/80", UNKNOWN),
        ),
    ),
    "across clusters": Case(
        "network/clustermesh/policy.rst; kubernetes/clustermesh/cross-cluster-policy.yaml",
        cnp(
            "{endpointSelector: {matchLabels: {name: x-wing, io.cilium.k8s.policy.cluster: c1}}, egress: [{toEndpoints: "
            "[{matchLabels: {name: rebel-base, io.kubernetes.pod.namespace: default, io.cilium.k8s.policy.cluster: c2}}]}]}"
        ),
        (
            (pod(name="x-wing"), pod("c2", name="rebel-base"), "TCP/80", ALLOWED),
            (pod(name="x-wing"), pod("c3", name="rebel-base"), "TCP/80", DENIED),
            (pod(name="x-wing"), pod("c1", name="rebel-base"), "TCP/80", DENIED),
            (pod(name="x-wing"), pod("c2", "other", name="rebel-base"), "TCP/80", DENIED),
        ),
    ),
    "across clusters, any namespace": Case(
        "kubernetes/clustermesh/cross-cluster-any-ns-policy.yaml: Exists on the key of namespaces suppresses the own one",
        cnp(
            "{endpointSelector: {matchLabels: {name: x-wing}}, egress: [{toEndpoints: [{matchExpressions: ["
            "{key: 'k8s:io.kubernetes.pod.namespace', operator: Exists}, "
            "{key: 'k8s:io.cilium.k8s.policy.cluster', operator: In, values: [c2]}, "
            "{key: 'k8s:name', operator: In, values: [rebel-base]}]}]}]}"
        ),
        (
            (pod(name="x-wing"), pod("c2", "anywhere", name="rebel-base"), "TCP/80", ALLOWED),
            (pod(name="x-wing"), pod("c1", name="rebel-base"), "TCP/80", DENIED),
        ),
    ),
    "without default deny": Case(
        "intro.rst, intercept-all-dns without its layer 7: a policy that puts no pod into default deny",
        cnp(
            "{endpointSelector: {matchExpressions: [{key: io.kubernetes.pod.namespace, operator: NotIn, values: [kube-system]}, "
            "{key: k8s-app, operator: NotIn, values: [kube-dns]}]}, enableDefaultDeny: {egress: false, ingress: false}, "
            "egress: [{toEndpoints: [{matchLabels: {io.kubernetes.pod.namespace: kube-system, k8s-app: kube-dns}}], "
            "toPorts: [{ports: [{port: '53', protocol: UDP}]}]}]}",
            kind=CCNP,
        ),
        ((pod(), WORLD, "TCP/443", ALLOWED), (pod(), pod(namespace="kube-system", k8s_app="kube-dns"), "UDP/53", ALLOWED)),
    ),
    "no peers": Case(
        "rule.go: an empty list of peers that is there selects nothing, also with ports",
        cnp("{endpointSelector: {}, ingress: [{fromEndpoints: [], toPorts: [{ports: [{port: '80', protocol: TCP}]}]}]}"),
        ((pod(), pod(), "TCP/80", DENIED), (WORLD, pod(), "TCP/80", DENIED)),
    ),
}


@in_one_test
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CASES)
def test_documented_example(name: str, version: str) -> None:
    case = CASES[name]
    policy_world = world(case.policies, version=version)

    for source, destination, what, expected in case.flows:
        found = judged(policy_world, source, destination, what)
        assert found.outcome is expected, (case.source, source.shown, destination.shown, what, found.reasons)


LAYER_7 = "{toPorts: [{ports: [{port: '80', protocol: TCP}], rules: {http: [{method: GET}]}}]}"
PORTS = "{toPorts: [{ports: [{port: '80', protocol: TCP}]}]}, {toPorts: [{ports: [{port: '81', protocol: TCP}]}]}"
CLIENT = "{fromEndpoints: [{matchLabels: {app: client}}]}"
DENY_80, DENY_CLIENT = "{toPorts: [{ports: [{port: '80', protocol: TCP}]}]}", CLIENT
ALLOWS = f"ingress: [{LAYER_7}, {PORTS}, {CLIENT}]"

DENY_TABLE = (
    (ALLOWS, (ALLOWED, ALLOWED, ALLOWED)),
    (f"{ALLOWS}, ingressDeny: [{DENY_80}]", (ALLOWED, DENIED, ALLOWED)),
    (f"{ALLOWS}, ingressDeny: [{DENY_CLIENT}]", (DENIED, DENIED, DENIED)),
    (f"{ALLOWS}, ingressDeny: [{DENY_80}, {DENY_CLIENT}]", (DENIED, DENIED, DENIED)),
    (f"ingressDeny: [{DENY_80}]", (DENIED, DENIED, DENIED)),
)


@in_one_test
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("rules", "expected"), DENY_TABLE)
def test_table_of_deny_policies(rules: str, expected: tuple[PolicyOutcome, PolicyOutcome, PolicyOutcome], version: str) -> None:
    """deny.rst: the table of allow and deny policies, its columns here as rows: port 81, port 80, ping."""
    policy_world = world(cnp(f"{{endpointSelector: {{matchLabels: {{app: server}}}}, {rules}}}"), version=version)
    client, server = pod(app="client"), pod(app="server")

    assert tuple(outcome(policy_world, client, server, what) for what in ("TCP/81", "TCP/80", "ICMP/8")) == expected


@pytest.mark.parametrize("version", ("1.16.19", "1.17.9", "1.18.11"))
def test_requires_are_demanded_of_all_rules(version: str) -> None:
    """layer3.rst, Additional Label Requirements; l3/requires/requires.yaml and endpoints.yaml."""
    requires = cnp("{endpointSelector: {matchLabels: {env: prod}}, ingress: [{fromRequires: [{matchLabels: {env: prod}}]}]}")
    allow = cnp(
        "{endpointSelector: {matchLabels: {env: prod}}, ingress: [{fromEndpoints: [{matchLabels: {role: frontend}}]}]}", name="allow"
    )
    both, alone = world(requires + allow, version=version), world(requires, version=version)

    assert outcome(both, pod(role="frontend", env="prod"), pod(env="prod")) is ALLOWED
    assert outcome(both, pod(role="frontend", env="dev"), pod(env="prod")) is DENIED
    assert outcome(alone, pod(role="frontend", env="prod"), pod(env="prod")) is DENIED


@pytest.mark.parametrize("version", ("1.19.5", "1.20.2"))
def test_requires_are_not_known_where_they_were_taken_out(version: str) -> None:
    requires = cnp("{endpointSelector: {matchLabels: {env: prod}}, ingress: [{fromRequires: [{matchLabels: {env: prod}}]}]}")

    assert outcome(world(requires, version=version), pod(), pod(env="prod")) is UNKNOWN


def test_all_clusters_of_the_mesh_as_an_entity() -> None:
    """layer3.rst of 1.20, entity cluster-mesh; entity.go of 1.19 does not know it, and refuses the policy."""
    policy = cnp("{endpointSelector: {}, ingress: [{fromEntities: [cluster-mesh]}]}")

    assert outcome(world(policy), pod("c2", "other"), pod()) is ALLOWED
    assert outcome(world(policy), WORLD, pod()) is DENIED
    assert outcome(world(policy, version="1.19.5"), pod("c2", "other"), pod()) is UNKNOWN

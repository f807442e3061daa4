# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Connectivity intents as their users meet them: API servers take what is written, with Cilium's CRDs of every minor; a second run changes
nothing; what leaves the file is taken away; what has another owner stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.owned import DesiredObject, matches_body, owned_object
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.traffic import object_facts
from tests.integration.labs import THREE_120
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import ApiError, LabApi, Object
from tests.lab.tools import cilium_crds
from tests.testing.namespaced import install_clusters, install_definitions, inventory_of, mesh_variable
from tests.testing.one_server import OneServer
from tests.testing.playbooks import PlaybookRun, run_warm
from tests.testing.policy_goldens import BINDING, MEMBERS, Golden, goldens
from tests.testing.refused_policies import BAD_BESIDE_GOOD, FROM_B, GOOD, REFUSED_RULES
from tests.testing.waiting import wait_for

OWNER: Final = Binding(name=BINDING, cluster_refs=MEMBERS)
RELEASES: Final = {"1.15": "1.15.19", "1.16": "1.16.19", "1.18": "1.18.11", "1.19": "1.19.5", "1.20": "1.20.2"}
"""A release of each minor whose CRDs can be had as a Go module."""

RESOURCES: Final = {
    "CiliumNetworkPolicy": "ciliumnetworkpolicies",
    "CiliumClusterwideNetworkPolicy": "ciliumclusterwidenetworkpolicies",
}
GROUP: Final = "/apis/cilium.io/v2"


@pytest.fixture(scope="module")
def server(servers: None) -> Iterator[OneServer]:
    with OneServer() as running:
        yield running


@pytest.fixture(scope="module")
def cluster(server: OneServer) -> Iterator[Cluster]:
    """The engine's own client of that server."""
    for namespace in sorted({body["metadata"].get("namespace", "default") for golden in goldens() for body in golden.policies("1.20")}):
        if server.api.get(f"/api/v1/namespaces/{namespace}") is None:
            server.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    with open_cluster(ClusterAccess(host="one", kubeconfig=str(server.kubeconfig), context=None)) as client:
        yield client


def use_crds(api: LabApi, cluster: Cluster, release: str) -> None:
    """Cilium's two CRDs of policies, as of ``release``, in force: a field ``labRelease`` beside spec tells when the server took them up."""
    for crd in (crd for crd in cilium_crds(release) if crd["spec"]["names"]["plural"] in RESOURCES.values()):
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["labRelease"] = {"type": "string", "enum": [release]}
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}"
        if api.get(path) is None:
            api.create(crd)
        else:
            api.patch(path, {"spec": crd["spec"]})
    for kind, resource in RESOURCES.items():
        where = f"{GROUP}/namespaces/default/{resource}" if kind == "CiliumNetworkPolicy" else f"{GROUP}/{resource}"
        spec: dict[str, Any] = {"endpointSelector": {}, "ingress": [{}]}
        probe = {"apiVersion": "cilium.io/v2", "kind": kind, "metadata": {"name": "probe"}, "spec": spec, "labRelease": release}
        taken = partial(refusal, cluster, f"{where}/probe", probe, dry_run=True)
        wait_for(taken, lambda error: error is None, what=f"the API server takes a {kind} of {release}")


def refusal(cluster: Cluster, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> str | None:
    try:
        cluster.apply(path, body, manager=OWNER.manager, dry_run=dry_run)
    except ClusterError as error:
        return error.message
    return None


def wanted_of(golden: Golden, minor: str) -> list[DesiredObject]:
    """One server plays every cluster, so one policy of each namespace and name is enough."""
    ref = ItemRef(ItemKind.INTENT, str(golden.intent["name"]))
    found = {}
    for body in golden.policies(minor):
        namespace, resource = body["metadata"].get("namespace", ""), RESOURCES[body["kind"]]
        collection = f"{GROUP}/namespaces/{namespace}/{resource}" if namespace else f"{GROUP}/{resource}"
        entry = owned_object(OWNER, ref, "one", collection, body, why="")
        found[entry.path] = entry
    return list(found.values())


@pytest.mark.parametrize("minor", RELEASES)
def test_cilium_s_crds_take_every_policy_as_it_is(server: OneServer, cluster: Cluster, minor: str) -> None:
    use_crds(server.api, cluster, RELEASES[minor])
    tried = 0
    for golden in goldens():
        for entry in wanted_of(golden, minor):
            first = cluster.apply(entry.path, entry.body, manager=OWNER.manager)
            resource = RESOURCES[entry.body["kind"]]
            found = object_facts(entry.body["kind"], resource, f"{GROUP}/{resource}", cluster.get(entry.path))
            assert found.path == entry.path and matches_body(found, entry.body), f"{golden.name}: what stands there is not what was written"
            assert found.spec == entry.body["spec"], f"{golden.name}: the server adds to it, or takes from it"
            second = cluster.apply(entry.path, entry.body, manager=OWNER.manager)
            assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
            cluster.delete(entry.path)
            tried += 1
    assert tried == sum(bool(golden.policies(minor)) for golden in goldens())


def test_what_1_15_cannot_say_is_refused_there_and_not_dropped_in_silence(server: OneServer, cluster: Cluster) -> None:
    """The planner refuses it before. Should the CRDs be older than the agents say, the API server refuses it too, and writes nothing."""
    use_crds(server.api, cluster, RELEASES["1.15"])
    later = [golden for golden in goldens() if not golden.policies("1.15")]
    assert len(later) >= 4
    for golden in later:
        for entry in wanted_of(golden, "1.20"):
            message = refusal(cluster, entry.path, entry.body)
            assert message is not None and ("field .spec.enableDefaultDeny" in message or "].endPort;" in message), (
                f"{golden.name}: {message}"
            )
            assert cluster.get(entry.path) is None


def test_the_api_server_takes_every_policy_that_cilium_refuses(server: OneServer, cluster: Cluster) -> None:
    """So they are there, and look like protection: CM-INT-19 is about them."""
    use_crds(server.api, cluster, RELEASES["1.20"])
    bodies: dict[str, Object] = {
        name: {"spec": {"endpointSelector": {}, "ingress": [FROM_B, rule]}} for name, rule in REFUSED_RULES.items()
    }
    bodies |= {name: {"specs": [GOOD, bad]} for name, bad in BAD_BESIDE_GOOD.items()}
    refused = {}
    for name, body in bodies.items():
        kind = "CiliumClusterwideNetworkPolicy" if "nodeSelector" in str(body) else "CiliumNetworkPolicy"
        where = f"{GROUP}/{RESOURCES[kind]}" if kind.startswith("CiliumC") else f"{GROUP}/namespaces/default/{RESOURCES[kind]}"
        policy = {"apiVersion": "cilium.io/v2", "kind": kind, "metadata": {"name": "refused"}, **body}
        refused[name] = refusal(cluster, f"{where}/refused", policy, dry_run=True)
    assert {name: message for name, message in refused.items() if message is not None} == {}


# A user's runs: playbook policies over two clusters

POLICIES: Final = f"{GROUP}/namespaces/production/ciliumnetworkpolicies"
SHOP: Final = f"{GROUP}/namespaces/shop/ciliumnetworkpolicies"
ORDERS: Final = f"{GROUP}/namespaces/orders/ciliumnetworkpolicies"
FOREIGN: Final = {
    "apiVersion": "cilium.io/v2",
    "kind": "CiliumNetworkPolicy",
    "metadata": {"name": "of-the-team", "namespace": "production"},
    "spec": {"endpointSelector": {"matchLabels": {"app": "backend"}}, "egress": [{}]},
}


def intent(name: str, **fields: Any) -> dict[str, Any]:
    source = {"namespace": "production", "name": "frontend", "clusters": ["c1"]}
    destination = {"namespace": "production", "name": "backend"}
    ports = [{"protocol": "TCP", "port": 8080}]
    return {"name": name, "action": "Allow", "source": source, "destination": destination, "ports": ports, **fields}


def serves(api: LabApi, resource: str) -> bool:
    try:
        return api.get(f"{GROUP}/{resource}") is not None
    except ApiError as error:
        assert error.status == 429, error  # "storage is (re)initializing", for a moment
        return False


class TwoClusters:
    """Two API servers, each with all the objects of a cluster that runs Cilium. Nothing runs there: policies are about objects alone."""

    names = ("c1", "c2")

    def __init__(self, *servers: OneServer) -> None:
        self._servers = dict(zip(self.names, servers, strict=True))
        for number, (name, server) in enumerate(self._servers.items(), 1):
            install_definitions(server.api)
            install_clusters(server, [name], version="1.18", first_id=number)
        for name in self.names:
            for resource in RESOURCES.values():
                wait_for(partial(serves, self.api(name), resource), what=f"{name} serves {resource}")

    def api(self, name: str) -> LabApi:
        return self._servers[name].api

    def play(self, *intents: Mapping[str, Any], arguments: tuple[str, ...] = ()) -> PlaybookRun:
        """Playbook policies. The links do not matter here: test_connect and its neighbours look at them."""
        hosts = {name: inventory_of(server, [name])["all"] for name, server in self._servers.items()}
        rows = {name: {**entry["vars"], **entry["hosts"][name]} for name, entry in hosts.items()}
        return run_warm(
            "policies",
            inventory={"all": {"hosts": rows}},
            variables={
                "cilium_mesh": {**mesh_variable(self.names, "edge-mesh-eu"), "connectivityIntents": list(intents)},
                "network_policy_require_connected": False,
            },
            arguments=arguments,
        )

    def pod(self, cluster: str, name: str, app: str, *, on_host: bool) -> None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "production"}}
        if self.api(cluster).get("/api/v1/namespaces/production/serviceaccounts/default") is None:
            self.api(cluster).create(account)
        spec = {"containers": [{"name": "main", "image": "main"}], "hostNetwork": on_host}
        about = {"name": name, "namespace": "production", "labels": {"app": app}}
        self.api(cluster).create({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec})

    def policies(self) -> dict[tuple[str, str], Object]:
        """See `policies_of`, of namespace production."""
        return policies_of(self, POLICIES)


def policies_of(clusters: TwoClusters | MeshLab, path: str) -> dict[tuple[str, str], Object]:
    """(cluster, name without its digest) -> the policy, of every cluster."""
    return {(name, item["metadata"]["name"].rpartition("-")[0]): item for name in clusters.names for item in clusters.api(name).list(path)}


REFUSED: Final[Object] = {
    "apiVersion": "cilium.io/v2",
    "kind": "CiliumNetworkPolicy",
    "metadata": {"name": "refused-by-cilium", "namespace": "production"},
    "spec": {"endpointSelector": {}, "ingress": [{"fromNodes": [{}]}]},
}


@pytest.fixture(scope="module")
def clusters(servers: None) -> Iterator[TwoClusters]:
    with OneServer() as first, OneServer() as second:
        yield TwoClusters(first, second)


def rows(run: PlaybookRun) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in run.result["status"]["connectivityIntents"]}


def test_intents_from_first_to_last(clusters: TwoClusters) -> None:
    for name in clusters.names:
        clusters.api(name).create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "production"}})
    clusters.api("c1").create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    clusters.api("c2").create(FOREIGN)

    allow, deny = (
        intent("allow"),
        intent("deny", action="Deny", destination={"namespace": "production", "allPods": True, "clusters": ["c2"]}),
    )
    for name, app, on_host in (("backend", "backend", False), ("client", "client", False), ("exporter", "exporter", True)):
        clusters.pod("c1", name, app, on_host=on_host)
    first = clusters.play(allow, deny)
    assert first.rc == 0 and first.changed == 1, first.output
    loss = "c1: 2 workloads lose access to production/Pod backend (1 pod): production/Pod backend in c1; production/Pod client in c1"
    assert first.output.count(loss) == 1 and 0 < first.output.index("Plan: ") < first.output.index(loss) < first.output.index(
        "  Applied  "
    ), first.output
    assert first.result["outages"] == ["connectivityIntents/allow"] and "outage: 1 item took access" in first.output
    assert "exporter" not in first.output and "is not known: no agent runs on the nodes in question in c1." in first.output
    made = clusters.policies()
    assert set(made) == {("c1", "allow"), ("c2", "allow"), ("c2", "deny"), ("c2", "of-the")}
    assert made["c2", "allow"]["spec"]["endpointSelector"]["matchLabels"] == {
        "k8s:app": "backend",
        "k8s:io.cilium.k8s.policy.cluster": "c2",
    }
    assert made["c2", "deny"]["spec"]["enableDefaultDeny"] == {"ingress": False}
    row = rows(first)["allow"]
    assert (row["phase"], row["appliedClusters"]) == ("Applied", ["c1", "c2"])
    assert {entry["type"]: entry["reason"] for entry in row["conditions"] if entry["status"] == "True"} == {
        "Accepted": "SpecValid",
        "Applied": "AllClustersApplied",
        "Ready": "Applied",
    }
    assert [entry["clusterName"] for entry in rows(first)["deny"]["policies"]] == ["c2"]

    second = clusters.play(allow, deny)
    assert (second.rc, second.changed) == (0, 0), second.output
    assert clusters.policies() == made, "the second run wrote something"

    changed = intent("allow", ports=[{"protocol": "TCP", "port": 9090}, {"protocol": "ICMP", "type": 8}])
    clusters.api("c2").create(REFUSED)
    foretold = clusters.play(changed, arguments=("--check", "--diff"))
    clusters.api("c2").delete(f"{POLICIES}/{REFUSED['metadata']['name']}")
    assert "CM-INT-19" in foretold.finding_codes() and "fromNodes needs enable-node-selector-labels" in foretold.output, foretold.output
    assert (foretold.rc, foretold.changed) == (0, 1) and "9090" in foretold.output, foretold.output
    assert clusters.policies() == made, "check mode wrote something"

    wrong = intent("wrong", source={"namespace": "production", "selector": {"reserved:host": ""}})
    shop = intent("shop", destination={"namespace": "shop", "allPods": True})  # a namespace of c1 alone
    third = clusters.play(changed, wrong, shop)
    assert third.rc != 0, third.output
    assert {name: row["phase"] for name, row in rows(third).items()} == {"allow": "Applied", "wrong": "Error", "shop": "Degraded"}
    assert rows(third)["shop"]["appliedClusters"] == ["c1"] and "CM-INT-08" in third.finding_codes()
    assert len(clusters.api("c1").list(SHOP)) == 1
    now = clusters.policies()
    assert set(now) == {*made}, "while an intent is refused, the one that left the file stays in force"
    assert "CM-ITEM-05" in third.finding_codes()
    assert [list(rule) for rule in now["c2", "allow"]["spec"]["ingress"]] == [["fromEndpoints", "toPorts"], ["fromEndpoints", "icmps"]]

    name = now["c1", "allow"]["metadata"]["name"]
    clusters.api("c1").patch(f"{POLICIES}/{name}", {"metadata": {"labels": None, "annotations": None}})  # now it has another owner
    theirs = clusters.policies()["c1", "allow"]
    fourth = clusters.play(intent("allow", action="Isolate", source=None, ports=None))
    assert fourth.rc != 0 and "CM-ITEM-02" in fourth.finding_codes(), fourth.output
    assert clusters.policies() == {**now, ("c1", "allow"): theirs}, "what is refused in one cluster is written in none"
    assert len(clusters.api("c1").list(SHOP)) == 1

    last = clusters.play()
    assert last.rc == 0 and set(clusters.policies()) == {("c1", "allow"), ("c2", "of-the")}, last.output
    assert clusters.api("c1").list(SHOP) == []
    assert clusters.policies()["c2", "of-the"] == made["c2", "of-the"] and clusters.policies()["c1", "allow"] == theirs


@pytest.mark.lab(THREE_120, use=2)
def test_an_intent_that_is_renamed_and_mistyped_stays_in_force_until_it_is_corrected(lab: MeshLab) -> None:
    for name in lab.names:
        lab.api(name).create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "orders"}})
        lab.api(name).create({**FOREIGN, "metadata": {"name": "of-the-team", "namespace": "orders"}})
    where, theirs = {"destination": {"namespace": "orders", "name": "backend"}}, {(name, "of-the") for name in lab.names}

    def play(*intents: Mapping[str, Any]) -> PlaybookRun:
        mesh = {**lab.mesh(), "connectivityIntents": list(intents)}
        return lab.play("policies", mesh=mesh, network_policy_require_connected=False)

    first = play(intent("frontend-to-orders", **where))
    assert first.rc == 0 and first.changed == 1, first.output
    made = policies_of(lab, ORDERS)
    assert set(made) == {(name, "frontend-to-orders") for name in lab.names} | theirs
    again = play(intent("frontend-to-orders", **where))
    assert (again.rc, again.changed) == (0, 0) and policies_of(lab, ORDERS) == made, again.output

    mistyped = play(intent("fe-to-orders", **where, ports=[{"protocol": "TCP", "port": 80800}]))
    assert mistyped.rc != 0 and mistyped.changed == 0, mistyped.output
    assert policies_of(lab, ORDERS) == made, "the policies in force are untouched"
    assert sorted(mistyped.finding_codes()) == ["CM-ITEM-01", "CM-ITEM-05"]
    kept = next(finding for finding in mistyped.result["findings"] if finding["code"] == "CM-ITEM-05")
    assert kept["item"] == "connectivityIntents/frontend-to-orders" and kept["summary"] in mistyped.output
    ours = {host: policy for (host, name), policy in made.items() if name == "frontend-to-orders"}
    assert all(f"{host}: CiliumNetworkPolicy orders/{policy['metadata']['name']}" in kept["evidence"] for host, policy in ours.items())
    assert mistyped.result["plan"]["notCarriedOut"] == ["connectivityIntents/fe-to-orders"]

    corrected = play(intent("fe-to-orders", **where))
    assert corrected.rc == 0 and set(policies_of(lab, ORDERS)) == {(name, "fe-to-orders") for name in lab.names} | theirs, corrected.output
    last = play()
    assert last.rc == 0 and set(policies_of(lab, ORDERS)) == theirs, last.output

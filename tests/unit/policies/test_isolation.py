# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which pods an intent newly isolates and which workloads lose access, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent, PodSelection, PortRule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.owned import item_marks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import Unread
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.flows import SeenFlows
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts, PodMeta, TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import Minor
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.compile import compile_intent
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.impact_findings import (
    impact_findings,
    intent_impact,
    planned_intents,
)
from tests.testing.facts_builders import cluster_facts
from tests.testing.lines_run import lines_run
from tests.testing.policy_worlds import policy_facts
from tests.testing.texts import mentions
from tests.testing.traffic_builders import NAMESPACE, namespace_facts, scene, traffic

Bodies = Mapping[str, Sequence[dict[str, Any]]]


def pods(app: str, count: int = 2, namespace: str = NAMESPACE, **labels: str) -> list[PodMeta]:
    """Pods of a Deployment, as it makes them: with a hash in their labels and in the name of their ReplicaSet."""
    found = {"app": app, "pod-template-hash": "5d9f", **labels}
    return [PodMeta(namespace=namespace, name=f"{app}-5d9f-{n}", labels=found, owner=f"ReplicaSet {app}-5d9f") for n in range(count)]


def side(app: str, *clusters: str, namespace: str = NAMESPACE) -> PodSelection:
    return PodSelection(namespace=namespace, labels={"app": app}, clusters=clusters)


def intent(action: str = "Allow", **fields: Any) -> ConnectivityIntent:
    values: dict[str, Any] = {"source": None if action == "Isolate" else side("frontend", "c1"), "destination": side("backend", "c2")}
    return ConnectivityIntent(name="front-to-back", action=action, **{**values, **fields})


def place(*policies: ObjectFacts, in_c1: Sequence[ObjectFacts] = (), unread: Sequence[str] = (), **fields: Any) -> Scene:
    """c1: frontend (2 pods), cron. c2: backend (3 pods), monitor, and in namespace "other" a pod called app=backend."""
    namespaces = [namespace_facts(), namespace_facts("other")]
    return scene(
        traffic("c1", namespaces=namespaces, pods=(*pods("frontend"), *pods("cron", 1)), policies=tuple(in_c1)),
        traffic(
            "c2",
            namespaces=namespaces,
            pods=(*pods("backend", 3), *pods("monitor", 1), *pods("backend", 1, "other")),
            policies=policies,
            unread=tuple(Unread(what=what, message="forbidden", remedy="grant it") for what in unread),
        ),
        **fields,
    )


def compiled(wanted: ConnectivityIntent, where: Scene) -> Bodies:
    return compile_intent(wanted, names=where.names, members=where.mesh.clusters, version=Minor(1, 18), binding=where.binding)


def findings_of(wanted: ConnectivityIntent, where: Scene, seen: Mapping[str, SeenFlows] | None = None) -> dict[str, Finding]:
    """Code -> finding; each at most once per cluster here."""
    found = impact_findings(intent_impact(wanted, compiled(wanted, where), where), seen)
    assert len({f.code for f in found}) == len(found)
    assert all(f.item == "connectivityIntents/front-to-back" for f in found)
    return {f.code: f for f in found}


def cnp(name: str, app: str = "backend", **spec: Any) -> ObjectFacts:
    body = {"endpointSelector": {"matchLabels": {"app": app}}, **spec}
    return policy_facts({"kind": "CiliumNetworkPolicy", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": body})


def test_an_allow_isolates_pods_that_nothing_isolated() -> None:
    found = findings_of(intent(), place())

    assert set(found) == {"CM-INT-30", "CM-INT-31"}
    isolated, lost = found["CM-INT-30"], found["CM-INT-31"]
    assert isolated.severity is Severity.REMEDIABLE
    assert isolated.cluster == "c2"
    assert "3 pods" in isolated.summary
    assert "production/backend (3 pods: backend-5d9f-0, backend-5d9f-1 and backend-5d9f-2)" in isolated.summary
    assert mentions(isolated.evidence, "No other policy", "outside of the clusters", "not reach")
    # frontend gets in; cron of c1, and backend itself, monitor and the other namespace of c2 do not
    assert lost.severity is Severity.OUTAGE
    assert "4 workloads" in lost.summary
    assert "production/cron in c1" in lost.summary
    assert "production/backend in c2" in lost.summary
    assert "frontend" not in lost.summary
    assert "5 workloads of c1 and c2" in lost.evidence


def test_ports_leave_the_source_less_than_it_had() -> None:
    found = findings_of(intent(ports=(PortRule(protocol="TCP", port=8080),)), place())

    assert mentions(found["CM-INT-31"].evidence, "1 workload", "ports")


def test_what_is_isolated_already_is_not_newly_isolated() -> None:
    by_cnp = cnp("wall", ingress=[{"fromEndpoints": [{}]}])
    by_np = policy_facts({"kind": "NetworkPolicy", "metadata": {"name": "wall", "namespace": NAMESPACE}, "spec": {"podSelector": {}}})
    by_ccnp = policy_facts(
        {"kind": "CiliumClusterwideNetworkPolicy", "metadata": {"name": "wall"}, "spec": {"endpointSelector": {}, "ingressDeny": [{}]}}
    )

    for wall in (by_cnp, by_np, by_ccnp):
        assert findings_of(intent(), place(wall)) == {}


def test_what_does_not_isolate_does_not_count_as_isolation() -> None:
    egress = cnp("egress", egress=[{"toEntities": ["all"]}])
    open_deny = cnp("open", ingressDeny=[{"fromEntities": ["world"]}], enableDefaultDeny={"ingress": False})
    elsewhere = cnp("elsewhere", app="monitor", ingress=[{}])

    for policy in (egress, open_deny, elsewhere):
        assert "CM-INT-30" in findings_of(intent(), place(policy))


def test_a_cluster_that_always_enforces_isolates_everything_already() -> None:
    always = cluster_facts("c2", config={"enable-policy": "always"})

    assert findings_of(intent(), place(facts={"c2": always})) == {}


@pytest.mark.parametrize("config", [{"enable-policy": "never"}, {"policy-audit-mode": "true"}])
def test_a_cluster_that_enforces_nothing_takes_nothing_away(config: dict[str, str]) -> None:
    assert findings_of(intent(), place(facts={"c2": cluster_facts("c2", config=config)})) == {}


def test_another_policy_that_goes_on_letting_people_in_is_named() -> None:
    """Default deny is turned on by the intent; what a policy without default deny allowed becomes what is left."""
    monitoring = cnp("monitoring", ingress=[{"fromEndpoints": [{"matchLabels": {"app": "monitor"}}]}], enableDefaultDeny={"ingress": False})
    world = cnp("public", ingress=[{"fromEntities": ["world", "remote-node"]}], enableDefaultDeny={"ingress": False})

    found = findings_of(intent(), place(monitoring, world))

    isolated = found["CM-INT-30"].evidence
    assert mentions(isolated, "CiliumNetworkPolicy production/monitoring", "CiliumNetworkPolicy production/public")
    assert mentions(isolated, "outside of the clusters still", "other nodes still")
    assert "monitor" not in found["CM-INT-31"].summary
    assert "3 workloads" in found["CM-INT-31"].summary


def test_addresses_alone_leave_the_world_in_doubt() -> None:
    block = cnp("office", ingress=[{"fromCIDR": ["192.0.2.0/24"]}], enableDefaultDeny={"ingress": False})

    assert mentions(findings_of(intent(), place(block))["CM-INT-30"].evidence, "outside of the clusters", "may still reach")


def test_who_could_not_reach_before_does_not_lose() -> None:
    """A deny of all ports, or egress that never let the source out."""
    denied = cnp("no-cron", ingressDeny=[{"fromEndpoints": [{"matchLabels": {"app": "monitor"}}]}], enableDefaultDeny={"ingress": False})
    shut_in = cnp("shut-in", app="cron", egress=[{}])

    found = findings_of(intent(), place(denied, in_c1=[shut_in]))

    assert "monitor" not in found["CM-INT-31"].summary
    assert "cron" not in found["CM-INT-31"].summary
    assert "2 workloads" in found["CM-INT-31"].summary


def test_isolate_is_reported_and_is_what_was_asked_for() -> None:
    found = findings_of(intent("Isolate"), place())

    assert {f.severity for f in found.values()} == {Severity.ADVISORY}
    assert "5 workloads" in found["CM-INT-31"].summary


def test_a_deny_isolates_no_pod_and_names_who_loses() -> None:
    found = findings_of(intent("Deny"), place())

    assert set(found) == {"CM-INT-31"}
    assert found["CM-INT-31"].severity is Severity.ADVISORY
    assert "production/frontend in c1" in found["CM-INT-31"].summary
    assert "1 workload loses" in found["CM-INT-31"].summary


def test_a_deny_takes_nothing_from_who_was_not_let_in() -> None:
    wall = cnp("wall", ingress=[{"fromEndpoints": [{"matchLabels": {"app": "monitor"}}]}])
    gate = cnp("gate", ingress=[{"fromEntities": ["all"], "toPorts": [{"ports": [{"port": "80", "protocol": "TCP"}]}]}])
    on_80 = intent("Deny", ports=(PortRule(protocol="TCP", port=80),))
    on_90 = intent("Deny", ports=(PortRule(protocol="TCP", port=90),))

    assert findings_of(intent("Deny"), place(wall)) == {}
    assert "CM-INT-31" in findings_of(on_80, place(gate))
    assert findings_of(on_90, place(gate)) == {}


def test_a_deny_isolates_where_the_configuration_says_so() -> None:
    """enable-non-default-deny-policies: "false": Cilium does not heed enableDefaultDeny."""
    facts = cluster_facts("c2", config={"enable-non-default-deny-policies": "false"})

    assert set(findings_of(intent("Deny"), place(facts={"c2": facts}))) == {"CM-INT-30", "CM-INT-31"}


def test_once_it_is_written_nothing_is_new() -> None:
    """What the intent itself made isolates already; changing it is no new isolation either."""
    where = place()
    (body,) = compiled(intent(), where)["c2"]
    own = item_marks(where.binding, ItemRef(ItemKind.INTENT, "front-to-back"))
    made = replace(policy_facts(body), labels=own["labels"], annotations=own["annotations"])

    assert findings_of(intent(), place(made)) == {}
    assert findings_of(intent(source=side("cron", "c1")), place(made)) == {}


def test_what_cilium_refused_of_an_intent_keeps_no_source_of_another_one_out() -> None:
    """Its policy stays as it is, so it stays refused. A changed one is judged anew."""
    where = place()
    deny, allow = replace(intent("Deny"), name="no-front"), intent()
    bodies = {wanted.name: compiled(wanted, where) for wanted in (deny, allow)}
    (body,) = bodies["no-front"]["c2"]
    own = item_marks(where.binding, ItemRef(ItemKind.INTENT, "no-front"))
    refused = {"conditions": [{"type": "Valid", "status": "False", "message": "no"}]}

    def codes_with(made: ObjectFacts) -> set[str]:
        changed = place(replace(made, labels=own["labels"], annotations=own["annotations"]))
        return {f.code for f in impact_findings(intent_impact(allow, bodies[allow.name], changed, planned_intents(bodies, changed)))}

    made = policy_facts(body)
    assert "CM-INT-33" in codes_with(made)
    assert "CM-INT-33" not in codes_with(replace(made, status=refused))
    assert "CM-INT-33" in codes_with(replace(made, status=refused, spec={**made.spec, "ingressDeny": []}))


def test_intents_of_one_run_are_seen_together() -> None:
    """Who another intent lets in does not lose access."""
    where = place()
    first = intent()
    second = replace(intent(source=side("cron", "c1")), name="cron-to-back")
    bodies = {wanted.name: compiled(wanted, where) for wanted in (first, second)}
    together = planned_intents(bodies, where)

    found = {f.code: f for f in impact_findings(intent_impact(first, bodies[first.name], where, together))}

    assert "cron" not in found["CM-INT-31"].summary
    assert "3 workloads" in found["CM-INT-31"].summary
    assert "CiliumNetworkPolicy production/cron-to-back-" in found["CM-INT-30"].evidence


def test_what_is_still_kept_out_is_said_with_the_policy() -> None:
    denied = cnp("freeze", ingressDeny=[{"fromEntities": ["all"]}])
    shut_in = cnp("shut-in", app="frontend", egress=[{"toEntities": ["world"]}])

    by_ingress, by_egress = findings_of(intent(), place(denied)), findings_of(intent(), place(in_c1=[shut_in]))

    assert mentions(by_ingress["CM-INT-33"].evidence, "ingress in c2", "CiliumNetworkPolicy production/freeze")
    assert "production/frontend in c1" in by_ingress["CM-INT-33"].summary
    assert mentions(by_egress["CM-INT-33"].evidence, "egress in c1", "CiliumNetworkPolicy production/shut-in")
    assert by_ingress["CM-INT-33"].severity is Severity.REMEDIABLE


@pytest.mark.parametrize("what", ["pods", "networkpolicies"])
def test_nothing_is_certain_where_lists_could_not_be_read(what: str) -> None:
    where = place(unread=[what])
    if what == "pods":
        where = replace(where, traffic={**where.traffic, "c2": replace(where.traffic["c2"], pods=())})

    found = findings_of(intent(), where)

    assert "CM-INT-30" not in found
    assert found["CM-INT-32"].severity is Severity.ADVISORY
    assert mentions(found["CM-INT-32"].evidence, what)
    if what == "networkpolicies":
        assert mentions(found["CM-INT-32"].evidence, "3 pods")
        assert mentions(found["CM-INT-31"].summary, "perhaps")


def test_a_policy_that_is_not_understood_leaves_it_open() -> None:
    found = findings_of(intent(), place(cnp("strange", ingress=[{"fromEntities": ["galaxy"]}])))

    assert "CM-INT-30" not in found
    assert mentions(found["CM-INT-32"].evidence, "CiliumNetworkPolicy production/strange")


def test_pods_of_clusters_that_do_not_answer_are_not_counted_as_safe() -> None:
    found = findings_of(intent(), place(members=["c3"]))

    assert mentions(found["CM-INT-31"].evidence, "c3")


def test_clusterwide_intents_reach_every_namespace() -> None:
    anywhere = PodSelection(labels={"app": "backend"}, all_namespaces=True, clusters=("c2",))

    found = findings_of(intent(mode="Clusterwide", destination=anywhere), place())

    assert "4 pods" in found["CM-INT-30"].summary
    assert "other/backend (1 pod: backend-5d9f-0)" in found["CM-INT-30"].summary


def test_long_lists_are_counted() -> None:
    many = [pod for n in range(40) for pod in pods(f"job-{n}", 1)]
    where = place()
    where = replace(where, traffic={**where.traffic, "c1": replace(where.traffic["c1"], pods=tuple(many))})

    summary = findings_of(intent(), where)["CM-INT-31"].summary

    assert "43 workloads" in summary
    assert "and 38 more" in summary


def big(host: str, workloads: int, each: int, policies: int) -> TrafficFacts:
    names = [f"team-{n % 20}" for n in range(workloads)]
    running = [pod for n, namespace in enumerate(names) for pod in pods(f"app-{n}", each, namespace)]
    existing = [
        policy_facts(
            {
                "kind": "CiliumNetworkPolicy",
                "metadata": {"name": f"p-{n}", "namespace": f"team-{n % 20}"},
                "spec": {"endpointSelector": {"matchLabels": {"app": f"app-{n}"}}, "ingress": [{"fromEndpoints": [{}]}]},
            }
        )
        for n in range(policies)
    ]
    return traffic(host, namespaces=[namespace_facts(name) for name in set(names)], pods=tuple(running), policies=tuple(existing))


def test_work_grows_with_intents_and_not_with_intents_times_pods() -> None:
    def lines_with(pods: int) -> int:
        where = scene(*(big(host, workloads=100, each=pods, policies=20) for host in ("c1", "c2", "c3")))
        place_of = [(f"app-{n}", f"team-{n % 20}") for n in range(51)]
        wanted = [
            replace(intent(source=side(client, namespace=in_client), destination=side(here, namespace=in_here)), name=f"i-{n}")
            for n, ((here, in_here), (client, in_client)) in enumerate(pairwise(place_of))
        ]
        bodies = {item.name: compiled(item, where) for item in wanted}
        found: list[Finding] = []

        def decide() -> None:
            together = planned_intents(bodies, where)
            found.extend(f for item in wanted for f in impact_findings(intent_impact(item, bodies[item.name], where, together)))

        lines = lines_run(decide)
        assert sum(f.code == "CM-INT-30" for f in found) == 30  # one for the three clusters, in which they do the same
        return lines

    assert lines_with(pods=30) < 2 * lines_with(pods=3)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parsers of the fleet side: what Karmada, its members and a management plane hold for a tenant, and the state of a rollout.

An input is a mapping of API paths to objects. Everything that a run decides on it is decided, with the diff and the statuses.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.models import (
    Fleet,
    FleetCluster,
    FleetRequest,
    FleetWorkload,
    Migration,
    Operation,
    PlacementPolicy,
    RolloutRules,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, member_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.plan import plan_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.reads import tenant_facts, tenant_reads
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.rollout_state import PREPARING, state_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.status import workload_status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.streams import decoded_json
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.endpoint import Endpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.decide import Rules, decide_join, decide_leave, plan_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.facts import ClusterSide, Facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.models import Member, MemberRequest
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.parse import parse_members
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.reads import (
    ALL_CLUSTERS,
    karmada_facts,
    karmada_reads,
    namespaces_of,
    plane_clusters,
    plane_read,
    served_clusters,
    side_of,
    side_reads,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.status import member_status, metrics
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.answers import read_answers
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.namespaces import read_namespaces
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet_diff import diff_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.member_diff import diff_members
from tests.fuzz.parse_objects import NotAnObject
from tests.fuzz.parser import Form, parser
from tests.testing.connecting import opened
from tests.testing.crd_schema import misfits, schemas

TENANT: Final = Tenant("shop", "default")
CLUSTERS: Final = {name: FleetCluster(name=name, member=member_name(TENANT, name)) for name in ("a", "b", "c")}
NOW: Final = datetime(2026, 11, 1, 12, tzinfo=UTC)


def _object(data: bytes) -> dict[str, Any]:
    found = decoded_json(data)  # the reader of the client, which the parser kube-answer holds
    if not isinstance(found, dict):
        raise NotAnObject
    return found


class _Answers:
    """A client whose API server has the objects of the input, by path."""

    def __init__(self, host: str, objects: Any) -> None:
        self.host = host
        self.endpoint = Endpoint(url=f"https://{host}.example.com:6443", host=f"{host}.example.com", authority="x", server_name="")
        self._objects = {path: found for path, found in objects.items() if isinstance(found, dict)} if isinstance(objects, dict) else {}

    def get(self, path: str) -> Any:
        return self._objects.get(path)

    def list(self, path: str, **_: Any) -> Any:
        return [found for place, found in self._objects.items() if place.rpartition("/")[0] == path]

    list_if_served = list

    def server_time(self) -> datetime:
        return NOW


@cache
def fleet_request() -> FleetRequest:
    """Return what the tenant asks for: a Deployment that rolls out by waves, moves and is rolled back, and a DaemonSet."""
    template = {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}
    service = {"ports": [{"port": 80}], "global": True, "meshRef": {"name": "edge"}}
    web = FleetWorkload(
        name="web",
        fleet="all",
        placement="movable",
        template=template,
        service=service,
        rollout=RolloutRules(batch_size=1, pause=5),
        history_limit=1,
        operation=Operation("Rollback", "back", 1),
    )
    node = FleetWorkload(name="node", fleet="all", kind="DaemonSet", template=template)
    movable = PlacementPolicy(name="movable", strategy="Weighted", migration=Migration(auto=True, dwell=60, unhealthy=60))
    return FleetRequest(
        tenant=TENANT,
        clusters=CLUSTERS,
        fleets={"all": Fleet(name="all", clusters=tuple(CLUSTERS))},
        policies={"movable": movable},
        workloads={"node": node, "web": web},
    )


@parser(
    "karmada-objects",
    "Karmada, with what members report, and others who may write there",
    "fleet/facts.py",
    form=Form.JSON,
    raises=(NotAnObject,),
    growth=200,
    tries=60,
)
def karmada_objects(data: bytes) -> object:
    """Take the input for what Karmada holds of a tenant, and plan and report its workloads."""
    request = fleet_request()
    karmada = opened(karmada=_Answers("karmada", _object(data)))
    facts = tenant_facts(TENANT, read_answers(karmada, "karmada", tenant_reads(TENANT)), "karmada", NOW)
    planned = plan_fleet(request, facts, "karmada")
    statuses = [workload_status(request, facts, decision) for decision in planned.decisions.values()]
    diff_fleet(planned.plan, facts)
    unfit = [text for status in statuses for text in misfits({**status.status}, status_schema())]
    assert not unfit, f"the API server would not take the status: {unfit[0]}"
    return len(planned.plan.to_dict()["steps"]), [str(entry) for status in statuses for entry in status.findings][:50]


@cache
def status_schema() -> dict[str, Any]:
    """Return the schema of the status of a FleetWorkload."""
    found: dict[str, Any] = schemas("fleet")["FleetWorkload"]["properties"]["status"]
    return found


@cache
def member_request() -> MemberRequest:
    """Return what the tenant asks for: a cluster of the management plane, and one with a name that is too long for a label."""
    entries = [{"name": "c1", "labels": {"tier": "edge"}, "spec": {"region": "eu-de"}}, {"name": f"c2.{'x' * 63}.net", "host": "c2"}]
    given = {"workspace": TENANT.workspace, "karmada": "karmada", "managementPlane": "plane", "clusters": entries}
    return parse_members(given, ("karmada", "plane", "c1", "c2"))


def member_side(every: Observation, member: Member, *, contents: bool) -> ClusterSide:
    """Return what a cluster itself holds, as a run reads it."""
    found = read_answers(every, member.host, side_reads(member, contents=contents))
    inside = read_namespaces(every, member.host, namespaces_of(member)) if contents else {}
    return side_of(member, found, inside, endpoint=every.clusters[member.host].endpoint, networks=())


@parser(
    "member-objects",
    "Karmada, a management plane and members, and others who may write there",
    form=Form.JSON,
    raises=(NotAnObject,),
    growth=200,
    tries=60,
)
def member_objects(data: bytes) -> object:
    """Take the input for what Karmada, a management plane and two clusters hold, and decide who joins and who leaves."""
    request, rules, answers = member_request(), Rules(), _object(data)
    every = opened(**{host: _Answers(host, answers.get(host)) for host in ("karmada", "plane", "c1", "c2")})
    planes = plane_clusters(read_answers(every, "plane", {"": plane_read(request)})[""], "plane")
    clusters = served_clusters(read_answers(every, "karmada", {"": ALL_CLUSTERS})[""], "karmada")
    found: list[object] = []
    for leaving in (False, True):
        karmada = karmada_facts(request, clusters, read_answers(every, "karmada", karmada_reads(request, leaving=leaving)))
        sides = {member.name: member_side(every, member, contents=leaving) for member in request.members}
        facts = Facts(karmada=karmada, planes=planes, sides=sides)
        decisions = [(decide_leave if leaving else decide_join)(request, facts, member, rules, NOW) for member in request.members]
        plan = plan_of(decisions, facts)
        diff_members(plan, request, facts)
        for decision in decisions:
            own = facts.karmada.clusters.get(decision.member.member)
            status = member_status(decision.member, own, decision.provisioning, NOW, refused=decision.refused, leaving=leaving)
            json.dumps([status, metrics(decision.member, own, NOW)])
        found.append((plan.to_dict()["hash"], [str(entry) for decision in decisions for entry in decision.findings]))
    return found


@parser("rollout-state", "those who may write a PropagationPolicy in Karmada", "fleet/rollout_state.py", form=Form.JSON, growth=100)
def rollout_state(data: bytes) -> object:
    """Read the annotation with the state of a rollout: what is read and written again is read alike, and keeps every later wave back."""
    found = state_of(data.decode("utf-8", "replace"))
    if found is None:
        return ""
    assert state_of(found.to_text()) == found, "a state that is written again is read as another one"
    later = found.waves[1:] if found.phase == PREPARING else ()
    assert {member for wave in later for member in wave} <= set(found.suspended), "a later wave is not kept back"
    return found

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""No refused, mistyped, renamed, doubled or left-out exposure or global service opens more than valid items ask for.

The same for intents is in tests/unit/policies/test_refused_items_keep_protection.py.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from itertools import product
from typing import Any, Final

import hypothesis.strategies as st
from hypothesis import given

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import (
    ClusterError,
    InvalidInput,
    ServerRefused,
    Unreachable,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.keeping import KEPT, is_unsettled
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ExposedService, GlobalService
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts, TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import EndpointKind, PolicyEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import PolicyOutcome
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.world import policy_world
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import ItemsPlan, plan_items
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.annotations import GLOBAL, SHARED, is_global, is_shared
from tests.testing import intent_runs
from tests.testing.exposure_world import cluster, settled
from tests.testing.intent_runs import observed
from tests.testing.policy_worlds import judged
from tests.testing.policy_worlds import pod as endpoint
from tests.testing.properties import examples
from tests.testing.simulated_items import applied, in_any_order
from tests.testing.traffic_builders import NAMESPACE, scene, service
from tests.testing.written_scene import Refuses, write

HOSTS: Final = ("c1", "c2")
SERVICES: Final = ("nginx", "web")
PORTS: Final = (8080, 9090)
CLIENTS: Final = {"office": "192.0.2.10", "elsewhere": "198.51.100.10"}
RANGES: Final[tuple[list[str], ...]] = (["192.0.2.0/24"], ["198.51.100.0/24"], ["0.0.0.0/0", "::/0"], ["0.0.0.0/0"], [])

Spec = dict[str, Any]
Opening = tuple[str, ...]
"""What is open: (cluster, client, app, port of the pods), or (cluster, Service, "uses" or "shares")."""


@dataclass(frozen=True)
class Run:
    """One run: the file, or None for one without the kind; what tenants changed before it; and what goes wrong in it."""

    file: tuple[Spec, ...] | None
    ports: tuple[int, int] = (8080, 8080)  # target port of each Service
    phase: str = "Connected"
    silent: str = ""
    refused: tuple[str, str] = ("", "")  # cluster, and the kind of object of which writes are refused; "" in place of the kind: all
    gone: bool = False
    killed_after: int | None = None


@dataclass(frozen=True)
class Case:
    """A mesh in which tenants annotated their Services, and runs in it."""

    annotations: tuple[Mapping[str, str], ...]
    runs: tuple[Run, ...]


@st.composite
def exposures(draw: st.DrawFn, name: str) -> Spec:
    hosts = draw(st.permutations(HOSTS))
    return {
        "name": name,
        "service": {"namespace": NAMESPACE, "name": draw(st.sampled_from(SERVICES))},
        "port": {"number": 80},
        "class": draw(st.sampled_from(("LoadBalancer", "NodePort", "NodePort", "NodePort"))),
        "clusters": draw(st.sampled_from(("all", [hosts[0]], {"primary": hosts[0], "standby": [hosts[1]]}))),
        "sourceRanges": draw(st.sampled_from(RANGES)),
    }


@st.composite
def services(draw: st.DrawFn, name: str) -> Spec:
    spec: Spec = {"name": name, "selector": {"namespace": NAMESPACE, "name": draw(st.sampled_from(SERVICES))}}
    if draw(st.booleans()):
        spec["selector"] = {"namespace": NAMESPACE, "labelSelector": {"matchLabels": {"tier": draw(st.sampled_from(("one", "all")))}}}
    if draw(st.booleans()):
        spec["targetClusters"] = [draw(st.sampled_from(HOSTS))]
    if draw(st.booleans()):
        spec["shared"] = draw(st.booleans())
    return spec


def mistyped(spec: Spec, what: str) -> Spec:
    """The spec with one mistake. All but the name of the Service refuse the item."""
    wrong = copy.deepcopy(spec)
    about = "service" if "class" in wrong else "selector"
    if what == "field":
        wrong["sorceRanges"] = []
    elif what == "value":
        wrong.update({"sourceRanges": ["192.0.2.0/33"]} if about == "service" else {"shared": "flase"})
    elif what == "cluster":
        wrong["clusters" if about == "service" else "targetClusters"] = ["c3"]
    elif what == "missing":
        wrong.pop(about, None)
    else:
        wrong[about] = {"namespace": NAMESPACE, "name": "ngin"}
    return wrong


MISTAKES: Final = ("field", "value", "cluster", "missing", "name")


@st.composite
def edits(draw: st.DrawFn, file: tuple[Spec, ...], specs: Callable[[str], st.SearchStrategy[Spec]]) -> tuple[Spec, ...]:
    """The file after a person edited it."""
    found: list[Spec] = []
    for spec in file:
        edit = draw(st.sampled_from(("keep", "remove", "rename", "change", "mistype", "rename and mistype", "double")))
        if edit == "remove":
            continue
        after = draw(specs(spec["name"])) if edit == "change" else copy.deepcopy(spec)
        if "rename" in edit:
            after["name"] = f"new-{spec['name']}"
        if "mistype" in edit:
            after = mistyped(after, draw(st.sampled_from(MISTAKES)))
        found += [after, *([draw(specs(spec["name"]))] if edit == "double" else [])]
    return (*found, *([draw(specs(draw(st.sampled_from(("d", "e")))))] if draw(st.booleans()) else []))


def cases(specs: Callable[[str], st.SearchStrategy[Spec]], kinds: tuple[str, ...]) -> st.SearchStrategy[Case]:
    @st.composite
    def made(draw: st.DrawFn) -> Case:
        tenants = st.sampled_from(({}, {}, {GLOBAL: "true"}, {GLOBAL: "true", SHARED: "false"}))
        names = draw(st.lists(st.sampled_from(("a", "b", "c")), min_size=1, max_size=3, unique=True))
        file: tuple[Spec, ...] = tuple(draw(specs(name)) for name in names)
        found = [Run(file)]
        for _edit in range(3):
            file = draw(edits(file, specs))
            trouble = draw(st.sampled_from(("none", "none", "waits", "silent", "refused", "gone", "killed")))
            host = draw(st.sampled_from(HOSTS))
            found.append(
                Run(
                    None if not draw(st.integers(0, 9)) else file,
                    ports=(draw(st.sampled_from(PORTS)), 8080),
                    phase="Connecting" if trouble == "waits" else "Connected",
                    silent=host if trouble == "silent" else "",
                    refused=(host, draw(st.sampled_from(kinds))) if trouble in ("refused", "gone") else ("", ""),
                    gone=trouble == "gone",
                    killed_after=draw(st.integers(0, 6)) if trouble == "killed" else None,
                )
            )
        return Case(tuple(draw(tenants) for _host in HOSTS), tuple(found))

    return made()


def world(case: Case) -> Scene:
    """Two clusters with Services of both names."""
    labels = {"nginx": {"tier": "all"}, "web": {"tier": "all", "one": ""}}
    members = []
    for host, given_annotations in zip(HOSTS, case.annotations, strict=True):
        own = [service(name, annotations=given_annotations, labels=labels[name]) for name in SERVICES]
        members.append(cluster(host, services=own))
    return scene(*members)


def with_ports(at: Scene, ports: tuple[int, int]) -> Scene:
    """The clusters after tenants changed which port of the pods their Services lead to."""

    def changed(facts: TrafficFacts) -> TrafficFacts:
        own = {}
        for name, target in zip(SERVICES, ports, strict=True):
            entry = facts.services[NAMESPACE, name]
            own[entry.key] = replace(entry, spec={**entry.spec, "ports": [{**entry.spec["ports"][0], "targetPort": target}]})
        return replace(facts, services={**facts.services, **own})

    return replace(at, traffic={host: changed(facts) for host, facts in at.traffic.items()})


def refusing(run: Run) -> Refuses:
    def refuses(host: str, method: str, body: Mapping[str, Any]) -> ClusterError | None:
        if host != run.refused[0]:
            return None
        if run.gone:
            return Unreachable("gone", cluster=host)
        return ServerRefused("no", cluster=host) if run.refused[1] in ("", body.get("kind")) else None

    return refuses


Asks = Callable[[Desired, ItemsPlan, Scene, Case], set[Opening]]


def check(case: Case, kind: ItemKind, openings: Callable[[Scene], set[Opening]], asked: Asks, order: random.Random) -> None:
    """Hold that after each run nothing is open that was closed before it and that no valid item asks for.

    At each write of a run in which no write is refused, nothing is open that is open neither before nor after the whole run.
    """
    at = world(case)
    for run in case.runs:
        at = settled(with_ports(at, run.ports))
        seen = observed(at, intent_runs.Run((), phase=run.phase, silent=run.silent))
        try:
            wanted = desired_of({} if run.file is None else {kind.value: list(run.file)}, seen.mesh)
        except InvalidInput:  # an item stands twice in the file, so nothing is written
            assert run.file and len({spec["name"] for spec in run.file}) < len(run.file)
            continue
        decided = plan_items(wanted, seen)
        before = openings(at)
        whole = before | openings(applied(at, decided.plan.steps, at.binding)) if run.refused == ("", "") else None
        if whole is None:
            after, _result = write(seen, decided.plan, refusing(run))
            at = replace(at, traffic={**at.traffic, **after.traffic})
        else:
            for step in in_any_order(decided.plan.steps, order)[: run.killed_after]:
                at = applied(at, [step], at.binding)
                opened = openings(at) - whole
                assert not opened, f"{opened} after {step.verb} {step.object} of {step.item} in {step.cluster}, wave {step.wave}"
        opened = openings(at) - before - asked(wanted, decided, seen, case)
        assert not opened, f"{opened} after {run}"


# Exposures


def doors(at: Scene) -> set[Opening]:
    """Return which clients outside reach which port of which pods, through the Services of exposures and past the policies."""
    enforced = policy_world(at)

    def passes(host: str, client: str, app: str, port: str) -> bool:
        flow = judged(enforced, _outside(CLIENTS[client]), endpoint(host, NAMESPACE, app=app), f"TCP/{port}")
        return flow.outcome is PolicyOutcome.ALLOWED

    return {opening for opening in _through(at) if passes(*opening)}


def _through(at: Scene, *, unguarded: bool = False) -> set[tuple[str, str, str, str]]:
    """Return what the Services let through, if no policy stands in the way. ``unguarded``: of those without a policy of their own."""
    return {
        (host, client, app, str(port))
        for host, facts in at.traffic.items()
        for entry in facts.services.values()
        for app, (client, address), port in product(SERVICES, CLIENTS.items(), PORTS)
        if entry.spec["type"] in ("LoadBalancer", "NodePort") and entry.spec["selector"] == {"app": app} and _leads(entry, address, port)
        if not (unguarded and any(policy.name == entry.name for policy in facts.policies))
    }


def _outside(address: str) -> PolicyEndpoint:
    return PolicyEndpoint(kind=EndpointKind.WORLD, address=address)


def _leads(found: ObjectFacts, address: str, port: int) -> bool:
    ranges = found.spec["loadBalancerSourceRanges"] if found.spec["type"] == "LoadBalancer" else ["0.0.0.0/0"]
    return found.spec["ports"][0]["targetPort"] == port and _within(address, ranges)


def _within(address: str, ranges: Iterable[str]) -> bool:
    return any(ip_address(address) in ip_network(entry) for entry in ranges)


def doors_asked(wanted: Desired, decided: ItemsPlan, seen: Scene, case: Case) -> set[Opening]:
    """Return what accepted items ask for, and what Services without a policy admit already, which another item may close for a while."""
    accepted = {plan.ref.name for plan in decided.items if plan.verdict is ItemVerdict.ACCEPTED}
    found: set[Opening] = {
        (host, client, item.service, str(seen.traffic[host].services[NAMESPACE, item.service].spec["ports"][0]["targetPort"]))
        for item in wanted.each(ExposedService)
        if item.name in accepted and item.service in SERVICES
        for host in {*item.clusters, item.primary} & set(seen.hosts)
        for client, address in CLIENTS.items()
        if _within(address, item.source_ranges)
    }
    return found | _through(seen, unguarded=True)


@examples(100)
@given(cases(exposures, ("", "Service", "CiliumNetworkPolicy")), st.randoms(use_true_random=False))
def test_no_exposure_opens_what_no_valid_exposure_asks_for(case: Case, order: random.Random) -> None:
    check(case, ItemKind.EXPOSURE, doors, doors_asked, order)


# Global services


def uses(at: Scene) -> set[Opening]:
    """Return which Services use backends of other clusters, and which share theirs."""
    found: set[Opening] = set()
    for host in HOSTS:
        for name in SERVICES:
            annotations = at.traffic[host].services[NAMESPACE, name].annotations
            found |= _opened(host, name, uses=is_global(annotations), shares=is_shared(annotations))
    return found


def _opened(host: str, name: str, *, uses: bool, shares: bool) -> set[Opening]:
    return ({(host, name, "uses")} if uses else set()) | ({(host, name, "shares")} if shares else set())


def uses_asked(wanted: Desired, decided: ItemsPlan, seen: Scene, case: Case) -> set[Opening]:
    """Of each Service: what an accepted item asks for; or, where no item asks and no item of the file is unsettled, its tenant."""
    accepted = {plan.ref.name for plan in decided.items if plan.verdict is ItemVerdict.ACCEPTED}
    settled_file = not any(is_unsettled(plan) for plan in decided.items)
    found: set[Opening] = set()
    for host, tenant in zip(HOSTS, case.annotations, strict=True):
        for name in SERVICES:
            items = [item for item in wanted.each(GlobalService) if item.name in accepted and host in item.targets and _selects(item, name)]
            for item in items:
                shared = is_shared({**tenant, GLOBAL: "true"}) if item.shared is None else item.shared
                found |= _opened(host, name, uses=True, shares=shared)
            if not items and (settled_file or accepted):
                found |= ({(host, name, "uses")} if is_global(tenant) else set()) | (
                    {(host, name, "shares")} if is_shared(tenant) else set()
                )
    return found


def _selects(item: GlobalService, name: str) -> bool:
    return item.selector.name == name or item.selector.labels == {"tier": "all"}


@examples(100)
@given(cases(services, ("", "Service")), st.randoms(use_true_random=False))
def test_no_global_service_opens_what_no_valid_one_asks_for(case: Case, order: random.Random) -> None:
    check(case, ItemKind.GLOBAL_SERVICE, uses, uses_asked, order)


def test_what_one_exposure_guards_stays_guarded_until_the_others_are_gone() -> None:
    """The source ranges of one exposure also hold for a Service of another one, as long as both lead to the same pods."""
    about = {"service": {"namespace": NAMESPACE, "name": "web"}, "port": {"number": 80}, "clusters": "all"}
    wide = {"name": "a", "class": "LoadBalancer", "sourceRanges": ["0.0.0.0/0"], **about}
    narrow = {"name": "b", "class": "NodePort", "sourceRanges": ["192.0.2.0/24"], **about}
    moved = {**narrow, "class": "LoadBalancer", "service": {"namespace": NAMESPACE, "name": "nginx"}}
    runs = (Run((wide, narrow)), Run((narrow,), refused=("c1", "Service")), Run((moved,), silent="c2"))
    for seed in range(20):
        check(Case(({}, {}), runs), ItemKind.EXPOSURE, doors, doors_asked, random.Random(seed))
        check(Case(({}, {}), (runs[0], Run((moved,)))), ItemKind.EXPOSURE, doors, doors_asked, random.Random(seed))


def exposure(name: str, app: str, kind: str, source: str, clusters: Any = "all") -> Spec:
    about = {"service": {"namespace": NAMESPACE, "name": app}, "port": {"number": 80}}
    return {"name": name, "class": kind, "clusters": clusters, "sourceRanges": [source], **about}


def test_a_port_that_changes_while_an_item_is_refused_leaves_the_former_port_guarded() -> None:
    """The Service of a is kept, since c is refused. It leads to the former port, which the policy of b restricted, and still restricts."""
    before = Run((exposure("a", "nginx", "NodePort", "192.0.2.0/24"), exposure("b", "web", "LoadBalancer", "192.0.2.0/24")))
    file = (exposure("b", "nginx", "NodePort", "198.51.100.0/24"), {"name": "c"})
    at = world(case := Case(({}, {}), (before, Run(file), Run(file, ports=(9090, 8080)), Run(file[:1], ports=(9090, 8080)))))
    check(case, ItemKind.EXPOSURE, doors, doors_asked, random.Random(0))
    said = []
    for run in case.runs:
        at = settled(with_ports(at, run.ports))
        decided = plan_items(desired_of({ItemKind.EXPOSURE.value: list(run.file or ())}, at.mesh), at)
        at = applied(at, decided.plan.steps, at.binding)
        said.append(sorted(entry.item for entry in decided.findings if entry.code == KEPT))
    assert said == [[], ["exposedServices/a"], ["exposedServices/a", "exposedServices/b"], []]
    assert plan_items(desired_of({ItemKind.EXPOSURE.value: list(file[:1])}, at.mesh), settled(at)).plan.steps == ()


def test_what_another_exposure_guards_stays_guarded_while_a_failed_write_elsewhere_keeps_a_service() -> None:
    """The Service of b stays in c2, since its new one could not be written in c1. The policy of a, which left the file, restricts it."""
    office, elsewhere = "192.0.2.0/24", "198.51.100.0/24"
    before = Run((exposure("a", "nginx", "NodePort", office), exposure("b", "web", "LoadBalancer", office)))
    kept = Run((exposure("b", "nginx", "NodePort", elsewhere), {"name": "c"}))  # c is refused, so that nothing of a is pruned
    moved = (exposure("b", "nginx", "LoadBalancer", office, ["c1"]),)
    for refused in (("c1", ""), ("c1", "Service"), ("c2", "Service")):
        runs = (before, kept, Run(moved, refused=refused), Run(moved))
        check(Case(({}, {}), runs), ItemKind.EXPOSURE, doors, doors_asked, random.Random(0))

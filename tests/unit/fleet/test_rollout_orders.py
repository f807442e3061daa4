# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Changes of a workload with a ConfigMap, in every order in which runs, kills, a lost cluster and Karmada's controllers may act.

Where rollouts are tried at random (test_rollout_interleavings.py) many things happen; here few do, and no order is left out.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.contents import TenantObject
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.models import (
    Fleet,
    FleetCluster,
    FleetRequest,
    FleetWorkload,
    RolloutRules,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, member_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.plan import plan_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.rollout import SETTLING
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Step
from tests.testing.gate import left_to_the_deep_run
from tests.testing.karmada_model import KarmadaModel

TENANT: Final = Tenant("shop", "default")
CLUSTERS: Final = {name: FleetCluster(name=name, member=member_name(TENANT, name)) for name in ("a", "b", "c")}
WEB, CONF = TenantObject("Deployment", "web"), TenantObject("ConfigMap", "conf")
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
MOST: Final = 60_000  # places: a search that goes on for ever is a defect of the test

Act = Callable[["Place"], None]


def request_of(tag: int) -> FleetRequest:
    wanted = FleetWorkload(
        name="web",
        fleet="all",
        template={"spec": {"containers": [{"name": "web", "image": f"web:{tag}"}]}},
        resources=({"kind": "ConfigMap", "name": "conf", "data": {"A": f"{tag}"}},),
        rollout=RolloutRules(batch_size=1),
    )
    fleets = {"all": Fleet(name="all", clusters=tuple(CLUSTERS))}
    return FleetRequest(tenant=TENANT, clusters=CLUSTERS, fleets=fleets, workloads={"web": wanted})


@dataclass
class Place:
    """Where Karmada and its clusters are, what is wanted, and which cluster had all of which revision at some time."""

    karmada: KarmadaModel
    tag: int = 1
    whole: frozenset[tuple[str, int]] = frozenset()

    def steps(self) -> Sequence[Step]:
        return plan_fleet(request_of(self.tag), self.karmada.facts(), "karmada").plan.steps

    def run(self, writes: int | None = None) -> None:
        self.karmada.write(self.steps()[:writes])

    def change(self) -> None:
        self.tag += 1

    def parts(self, name: str) -> set[tuple[str, int]]:
        """Which object of which revision a cluster runs."""
        copies: Mapping[TenantObject, Any] = self.karmada.running.get(CLUSTERS[name].member, {})
        image, value = self.karmada.image_in(CLUSTERS[name].member, WEB), copies.get(CONF, {}).get("data", {}).get("A", 0)
        return {("web", int(image.removeprefix("web:") or 0)), ("conf", int(value))}

    def after(self, act: Act) -> Place:
        then = copy.deepcopy(self)
        act(then)
        complete = {(name, tag) for name in CLUSTERS for tag in range(1, then.tag + 1) if then.parts(name) == {("web", tag), ("conf", tag)}}
        then.whole = self.whole | complete
        return then

    def detect(self, kind: str) -> None:
        self.karmada.detect((kind,))

    def dispatch(self, member: str, kind: str) -> None:
        self.karmada.dispatch(member, (kind,))

    def report(self, member: str) -> None:
        self.karmada.report(member)

    def kill(self, member: str) -> None:
        self.karmada.kill(member)

    def pass_time(self) -> None:
        """So long that every controller has had its turn."""
        self.karmada.settle()
        self.karmada.wait(SETTLING)

    def text(self) -> str:
        """The same text for places that differ in the time alone, as far as nothing follows from it."""

        def ago(found: re.Match[str]) -> str:
            return str(min(SETTLING, (self.karmada.now - datetime.fromisoformat(found[0])).total_seconds()))

        return TIME.sub(ago, self._text())

    def _text(self) -> str:
        karmada = self.karmada
        running = {member: {f"{key}": found for key, found in copies.items()} for member, copies in karmada.running.items()}
        bindings = {f"{key}": found for key, found in karmada.bindings.items()}
        return json.dumps([karmada.objects, bindings, running, sorted(karmada.dead), self.tag, sorted(self.whole)], sort_keys=True)

    def is_done(self) -> bool:
        alive = [name for name in CLUSTERS if CLUSTERS[name].member not in self.karmada.dead]
        return not self.steps() and all(self.parts(name) == {("web", self.tag), ("conf", self.tag)} for name in alive)


def acts_of(here: Place, *, changes: int, dies: str) -> Iterator[Act]:
    """What may happen next: a run, one that is killed after any of its writes, a turn of each controller, and what a test adds."""
    yield from (partial(Place.run, writes=writes) for writes in range(1, len(here.steps()) + 1))
    for kind in ("Deployment", "ConfigMap"):
        yield partial(Place.detect, kind=kind)
    for cluster in CLUSTERS.values():
        for kind in ("Deployment", "ConfigMap"):
            yield partial(Place.dispatch, member=cluster.member, kind=kind)
        yield partial(Place.report, member=cluster.member)
    yield Place.pass_time
    if here.tag < changes:
        yield Place.change
    if dies and CLUSTERS[dies].member not in here.karmada.dead:
        yield partial(Place.kill, member=CLUSTERS[dies].member)


def started() -> Place:
    """The first revision runs in all clusters."""
    place = Place(KarmadaModel(tenant=TENANT, members={cluster.member: dict(TENANT.labels) for cluster in CLUSTERS.values()}))
    for _ in range(4):
        place.run()
        place.karmada.settle()
    assert place.is_done()
    return place.after(Place.change)


def no_wave_began_early(place: Place) -> None:
    """A cluster has no object of a revision before the clusters of all earlier waves have had every object of it, or are lost."""
    for position, name in enumerate(CLUSTERS):
        before = [other for other in list(CLUSTERS)[:position] if CLUSTERS[other].member not in place.karmada.dead]
        for _part, tag in place.parts(name):
            assert tag == 1 or all((other, tag) in place.whole for other in before), (name, tag, place.parts(name))


ROWS: Final[Mapping[str, tuple[str, int, str]]] = {
    "one change": ("", 2, ""),
    "refused ConfigMap": ("ConfigMap", 2, ""),
    "refused Deployment": ("Deployment", 2, ""),
    "another change meanwhile": ("", 3, ""),
    "the cluster of the first wave is lost": ("", 2, "a"),
    "the cluster of the second wave is lost": ("", 2, "b"),
}
"""What is tried -> the kind that the cluster of the first wave refuses, the last revision, and the cluster that dies at some time."""


@pytest.mark.parametrize("row", left_to_the_deep_run(list(ROWS), but=("one change",)))
def test_no_order_brings_a_change_to_a_cluster_before_its_wave_and_each_order_leads_to_the_end(row: str) -> None:
    refused, changes, dies = ROWS[row]
    first = started()
    if refused:
        first.karmada.refusing[f"{CLUSTERS['a'].member} {refused}"] = "admission webhook denied the request"
    known, ways, left = {first.text(): first}, dict[str, set[str]](), [first.text()]
    while left:
        here = left.pop()
        no_wave_began_early(known[here])
        for act in acts_of(known[here], changes=changes, dies=dies):
            then = known[here].after(act)
            reached = then.text()
            ways.setdefault(reached, set()).add(here)
            if reached not in known:
                known[reached] = then
                left.append(reached)
        assert len(known) < MOST
    done = {text for text, place in known.items() if place.is_done() and place.tag == changes}
    lead = set(done)
    while done:
        done = {before for text in done for before in ways.get(text, ()) if before not in lead}
        lead |= done
    assert lead == (set() if refused else known.keys()), "from every place the change can be carried to its end"

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What losses do to global services: by hand for each rule, and against a slow judge for any mesh and any loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import Failover, GlobalService, ServiceSelector
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.lost_peer import Seconds
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.exposure_losses import without
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.loss import Loss
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.service_losses import (
    ServiceLoss,
    ServiceLosses,
    ServiceTally,
    Use,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.service_table import table_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.failover import decide
from tests.testing.facts_builders import cluster_facts
from tests.testing.traffic_builders import NAMESPACE, object_facts, scene, service, slice_facts, traffic

HOSTS = ("c1", "c2", "c3")
KEY = (NAMESPACE, "nginx")
GLOBAL = {"service.cilium.io/global": "true"}


def nginx(affinity: str = "", *, shared: bool = True) -> ObjectFacts:
    annotations = {**GLOBAL, **({"service.cilium.io/affinity": affinity} if affinity else {})}
    return service(annotations=annotations if shared else {**annotations, "service.cilium.io/shared": "false"})


def world(ready: Mapping[str, int], affinity: Mapping[str, str] | None = None, **fields: Any) -> Scene:
    """Service production/nginx, global in each of these clusters, with that many ready endpoints."""
    chosen = affinity or {}
    return scene(*(traffic(h, services=[nginx(chosen.get(h, ""))], slices=(slice_facts(ready=n),)) for h, n in ready.items()), **fields)


def with_ttl(host: str, ttl: str, version: str = "1.19.5") -> ClusterFacts:
    facts = cluster_facts(host, version=version)
    return replace(facts, config={**(facts.config or {}), "clustermesh-cache-ttl": ttl})


def contract(current: Scene, *, targets: tuple[str, ...] = HOSTS, affinity: str | None = None, least: int = 1) -> Desired:
    item = GlobalService(
        name="nginx",
        selector=ServiceSelector(namespace=NAMESPACE, name="nginx"),
        targets=targets,
        affinity=affinity,
        failover=Failover(detect_within=40, min_local_ready=least),
    )
    return Desired(mesh=current.mesh, items={ItemKind.GLOBAL_SERVICE: (item,)}, kinds=frozenset({ItemKind.GLOBAL_SERVICE}))


def judge(current: Scene, wanted: Desired | None = None) -> ServiceLosses:
    return ServiceLosses(table_of(current, wanted or Desired(mesh=current.mesh)), current)


def gone(*members: str) -> Loss:
    return Loss(name="gone", kind="members", members=frozenset(members))


def cut(*pairs: tuple[str, str]) -> Loss:
    return Loss(name="cut", kind="links", links=frozenset({*pairs, *((b, a) for a, b in pairs)}))


def only(losses: ServiceLosses, loss: Loss) -> ServiceLoss:
    (found,) = losses.details(loss)
    return found


def clients(found: ServiceLoss, host: str) -> Any:
    return next(entry for entry in found.clients if host in entry.clusters)


def test_a_service_in_one_cluster_has_no_backend_without_it_and_keeps_all_without_another() -> None:
    losses = judge(world({"c1": 0, "c2": 2, "c3": 0}))
    assert losses.tally(gone("c2")) == ServiceTally(lost=("production/nginx",), cut=2, kept=2)
    found = only(losses, gone("c2"))
    assert (found.remaining, clients(found, "c1").effect.at_once) == ({}, Use(0, 0, 2))
    assert clients(found, "c1").clusters == ("c1", "c3"), "equal clusters share a row"
    assert losses.tally(gone("c1")) == ServiceTally()
    assert losses.details(gone("c1")) == ()


def test_clients_go_to_dead_backends_beside_live_ones_unless_their_affinity_is_local() -> None:
    spread = judge(world({"c1": 2, "c2": 3}))
    assert clients(only(spread, gone("c2")), "c1").effect.at_once == Use(2, 0, 3)
    assert spread.tally(gone("c2")) == ServiceTally(dead=1, kept=1)
    local = judge(world({"c1": 2, "c2": 3}, {"c1": "local"}))
    assert clients(only(local, gone("c2")), "c1").effect.at_once == Use(2)
    assert local.tally(gone("c2")) == ServiceTally()
    remote = judge(world({"c1": 2, "c2": 3}, {"c1": "remote"}))
    assert clients(only(remote, gone("c2")), "c1").effect.at_once == Use(0, 0, 3)
    assert remote.tally(gone("c2")) == ServiceTally(cut=1, kept=1), "Cilium takes dead remote ones for active"


def test_clients_without_backends_of_their_own_are_cut_off_although_the_service_lives() -> None:
    """c3 is linked with both, and c1 with c2 alone."""
    current = world({"c1": 0, "c2": 2, "c3": 2}, link_errors={("c1", "c3"): "dialling: refused"})
    losses = judge(current)
    found = only(losses, gone("c2"))
    assert found.remaining == {"c3": 2}
    assert clients(found, "c1").effect.at_once == Use(0, 2, 2), "those of a link that is broken today may still answer"
    assert losses.tally(gone("c2")).lost == ()


@pytest.mark.parametrize(
    ("version", "ttl", "kept"),
    [
        ("1.18.11", "60s", None),
        ("1.19.5", "0s", None),
        ("1.19.5", "60s", Seconds(120, 190)),
        ("1.20.2", "1m30s", Seconds(150, 220)),
        ("1.20.2", "nonsense", None),
    ],
)
def test_dead_backends_are_dropped_by_version_and_cache_ttl(version: str, ttl: str, kept: Seconds | None) -> None:
    facts = {host: with_ttl(host, ttl, version) for host in ("c1", "c2")}
    losses = judge(world({"c1": 1, "c2": 2}, facts=facts))
    found = clients(only(losses, gone("c2")), "c1")
    assert (found.dropped_after, found.effect.dropped) == (kept, Use(1) if kept else None)
    assert losses.tally(gone("c2")) == ServiceTally(dead=1, kept=0 if kept else 1)


def test_a_cut_link_freezes_backends_and_the_cache_ttl_turns_that_into_an_outage() -> None:
    forever = judge(world({"c1": 0, "c2": 2}))
    assert forever.tally(cut(("c1", "c2"))) == ServiceTally(frozen=1, kept=1)
    limited = judge(world({"c1": 0, "c2": 2}, facts={host: with_ttl(host, "60s") for host in ("c1", "c2")}))
    assert limited.tally(cut(("c1", "c2"))) == ServiceTally(frozen=1, cut_later=1)
    network = Loss(name="network", kind="networks", networks=frozenset({("c1", "c2")}))
    assert limited.tally(network) == ServiceTally(cut=1), "without a network the backends do not answer at all"
    one_way = Loss(name="one way", kind="named", links=frozenset({("c2", "c1")}))
    assert limited.tally(one_way) == ServiceTally(), "c1 still reads c2"


def test_a_failover_contract_brings_clients_home_and_says_where_it_is_not_met() -> None:
    current = world({"c1": 2, "c2": 3, "c3": 0})
    losses = judge(current, contract(current, least=2))
    found = only(losses, gone("c2"))
    mine, others = clients(found, "c1"), clients(found, "c3")
    assert (mine.effect.at_once, mine.effect.contracted, mine.contracted_within) == (Use(2, 0, 3), Use(2), 40)
    assert (others.effect.contracted, others.effect.kept) == (Use(2, 0, 3), True), "c3 has no backend of its own to come home to"
    assert losses.tally(gone("c2")) == ServiceTally(dead=2, kept=1)
    assert losses.tally(gone("c1", "c2")).unmet == ("production/nginx",)
    assert losses.detect_times(gone("c2")) == {40}


def test_a_service_that_is_not_global_or_not_shared_is_no_backend_for_others() -> None:
    plain = scene(
        traffic("c1", services=[service()], slices=(slice_facts(ready=1),)),
        traffic("c2", services=[nginx()], slices=(slice_facts(ready=1),)),
    )
    assert judge(plain).tally(gone("c2")) == ServiceTally(lost=("production/nginx",))
    kept_back = scene(
        traffic("c1", services=[nginx()], slices=(slice_facts(ready=0),)),
        traffic("c2", services=[nginx(shared=False)], slices=(slice_facts(ready=1),)),
    )
    assert judge(kept_back).tally(gone("c2")) == ServiceTally(lost=("production/nginx",)), "clients of c1 had no backend before either"


def test_services_of_mcs_api_are_rehearsed_by_their_exports_and_imports() -> None:
    api = "/apis/multicluster.x-k8s.io/v1alpha1"
    valid = {"conditions": [{"type": "Valid", "status": "True"}]}
    export = object_facts("ServiceExport", "serviceexports", "nginx", namespace=NAMESPACE, api=api, status=valid)
    imported = object_facts("ServiceImport", "serviceimports", "nginx", namespace=NAMESPACE, api=api)
    current = scene(
        traffic("c1", imports={KEY: imported}),
        traffic("c2", services=[service()], slices=(slice_facts(ready=2),), exports={KEY: export}, imports={KEY: imported}),
    )
    losses = judge(current)
    assert losses.tally(gone("c2")) == ServiceTally(lost=("production/nginx",), cut=1, kept=1)
    assert only(losses, gone("c2")).to_dict()["kind"] == "ServiceImport"


# Any mesh and any loss, against a slow judge that knows only Cilium's rules


@st.composite
def any_world(draw: st.DrawFn) -> Scene:
    ready = {host: draw(st.integers(0, 3)) for host in HOSTS}
    affinity = {host: draw(st.sampled_from(["", "local", "remote"])) for host in HOSTS}
    ttl = {host: with_ttl(host, draw(st.sampled_from(["0s", "60s"])), draw(st.sampled_from(["1.18.11", "1.20.2"]))) for host in HOSTS}
    pairs = [(a, b) for a in HOSTS for b in HOSTS if a != b]
    broken = draw(st.sets(st.sampled_from(pairs), max_size=2))
    current = world(ready, affinity, facts=ttl, link_errors=dict.fromkeys(sorted(broken), "dialling: refused"))
    missing = draw(st.sets(st.sampled_from(HOSTS), max_size=1))
    kept_back = draw(st.sets(st.sampled_from(HOSTS), max_size=1))
    for host in missing:
        current = replace(current, traffic={**current.traffic, host: traffic(host)})
    for host in kept_back - missing:
        kept = replace(current.traffic[host], services={KEY: nginx(affinity[host], shared=False)})
        current = replace(current, traffic={**current.traffic, host: kept})
    return current


@st.composite
def any_loss(draw: st.DrawFn) -> Loss:
    pairs = [(a, b) for a in HOSTS for b in HOSTS if a != b]
    return Loss(
        name="any",
        kind="named",
        members=frozenset(draw(st.sets(st.sampled_from(HOSTS), max_size=2))),
        links=frozenset(draw(st.sets(st.sampled_from(pairs), max_size=2))),
        networks=frozenset(draw(st.sets(st.sampled_from([(a, b) for a, b in pairs if a < b]), max_size=1))),
    )


def chosen(current: Scene, host: str, states: Mapping[str, str]) -> Use:
    """The backends to which clients of a cluster are sent. ``states``: peer -> live, frozen, dead or dropped."""
    own = current.traffic[host].services.get(KEY)
    numbers = {peer: len(current.traffic[peer].slices[0].endpoints) if current.traffic[peer].services else 0 for peer in HOSTS}
    remote = dict.fromkeys(("live", "frozen", "dead", "dropped"), 0)
    for peer in HOSTS:
        shown = current.traffic[peer].services.get(KEY)
        if peer != host and shown is not None and shown.annotations.get("service.cilium.io/shared") != "false":
            remote[states[peer]] += numbers[peer]
    if own is None:
        return Use(0)
    affinity, local = own.annotations.get("service.cilium.io/affinity", ""), numbers[host]
    all_remote = remote["live"] + remote["frozen"] + remote["dead"]
    if affinity == "local" and local:
        return Use(local)
    if affinity == "remote" and all_remote:
        local = 0
    return Use(local + remote["live"], remote["frozen"], remote["dead"])


def states_of(current: Scene, host: str, loss: Loss | None) -> dict[str, str]:
    found = {}
    for peer in HOSTS:
        frozen = (host, peer) in current.link_errors or (loss is not None and (host, peer) in loss.links)
        lost = loss is not None and (peer in loss.members or tuple(sorted((host, peer))) in loss.networks)
        found[peer] = "dead" if lost else "frozen" if frozen else "live"
    return found


@given(any_world(), any_loss())
def test_any_loss_is_judged_as_by_a_slow_judge(current: Scene, loss: Loss) -> None:
    losses = judge(current)
    (found,) = losses.details(loss) or (None,)
    shown = {host: entry for entry in (found.clients if found else ()) for host in entry.clusters}
    cut_off = dead = 0
    for host in HOSTS:
        if host in loss.members:
            assert host not in shown
            continue
        before, after = states_of(current, host, None), states_of(current, host, loss)
        was, now = chosen(current, host, before), chosen(current, host, after)
        if host in shown:
            effect = shown[host].effect
            assert (effect.before, effect.at_once) == (was, now)
            if effect.dropped is not None:
                assert effect.dropped == chosen(current, host, {peer: "live" if s == "live" else "dropped" for peer, s in after.items()})
        else:
            assert was == now, "a cluster whose clients notice something is not shown"
        cut_off += was.answering > 0 and now.answering == 0
        dead += now.dead > 0 and not (was.answering > 0 and now.answering == 0)
    tally = losses.tally(loss)
    assert (tally.cut, tally.dead) == (cut_off, dead)
    own = {host: len(current.traffic[host].slices[0].endpoints) if current.traffic[host].services else 0 for host in HOSTS}
    left = sum(number for host, number in own.items() if host not in loss.members)
    taken = sum(number for host, number in own.items() if host in loss.members)
    assert tally.lost == (("production/nginx",) if taken and not left else ())


@given(any_world(), any_loss(), st.sampled_from([None, "Local", "Remote", "None"]), st.integers(1, 3))
def test_a_contract_then_decides_what_the_rehearsal_says(current: Scene, loss: Loss, affinity: str | None, least: int) -> None:
    """The affinity in the rehearsal is the one that the next run would write, by its own function."""
    current = replace(current, link_errors={}, traffic={h: t for h, t in current.traffic.items() if t.services})
    current = replace(current, facts={host: current.facts[host] for host in current.traffic})
    wanted = contract(current, affinity=affinity, least=least)
    details = judge(current, wanted).details(loss)
    (item,) = wanted.each(GlobalService)
    choices = decide(item, KEY, without(current, loss))
    for entry in (entry for found in details for entry in found.clients if entry.effect.contracted is not None):
        for host in entry.clusters:
            assert choices[host].affinity == "Local", choices[host]

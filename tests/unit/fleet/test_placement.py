# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A spread is met by the clusters that Karmada may choose, or the workload is refused with the reason."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.models import (
    SCHEDULED,
    Fleet,
    FleetCluster,
    FleetRequest,
    FleetWorkload,
    PlacementPolicy,
    Spread,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, member_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.placement import (
    candidates,
    placement_of,
    spread_groups,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.placement import chosen as chosen_of

TENANT = Tenant("shop", "default")
VALUES = st.sampled_from(["", "x", "y", "z"])
FLEET = Fleet(name="all", selector=())


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, FleetCluster]:
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1))
    return {
        name: FleetCluster(
            name=name, member=member_name(TENANT, name), region=draw(VALUES), zone=draw(VALUES), provider=draw(VALUES), labels=TENANT.labels
        )
        for name in names
    }


@st.composite
def spreads(draw: st.DrawFn) -> Spread:
    least = draw(st.integers(1, 4))
    most = draw(st.one_of(st.just(0), st.integers(least, 5)))
    return Spread(draw(st.sampled_from(["cluster", "region", "zone", "provider"])), least, most)


@given(clusters(), spreads())
def test_a_spread_is_met_by_the_candidates_or_refused(found: dict[str, FleetCluster], spread: Spread) -> None:
    policy = PlacementPolicy(name="wide", strategy="Spread", spread=spread)
    workload = FleetWorkload(name="web", fleet="all", placement="wide", replicas=8, template={})
    request = FleetRequest(tenant=TENANT, clusters=found, fleets={"all": FLEET}, policies={"wide": policy}, workloads={"web": workload})
    chosen = chosen_of(candidates(request, FLEET, policy), FLEET, policy, (), ())
    groups = spread_groups(found.values(), spread)
    if len(groups) < spread.least:
        assert (chosen.reason, chosen.clusters) == ("NoClusterFits", ()) and f"asks for {spread.least}" in chosen.message
        return
    placement = placement_of(request, workload, FLEET, policy, chosen)
    for constraint in placement["spreadConstraints"]:
        assert constraint["spreadByField"] in SCHEDULED and constraint["maxGroups"] >= constraint["minGroups"] >= 1
    assert [entry["spreadByField"] for entry in placement["spreadConstraints"]].count("cluster") == 1
    kept = spread_groups(chosen.clusters, spread)
    assert len(kept) >= spread.least
    if spread.by in SCHEDULED:
        assert {cluster.name for cluster in chosen.clusters} == set(found)
    else:
        assert placement["clusterAffinity"]["clusterNames"] == [cluster.member for cluster in chosen.clusters]
        assert len(kept) <= (spread.most or len(kept)) and sum(map(len, kept.values())) == len(chosen.clusters)

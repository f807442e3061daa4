# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a lab can be asked for."""

from __future__ import annotations

import pytest

from tests.lab.options import LabOptions, OptionError, parse_list, parse_switches


def test_two_clusters_get_names_ids_and_pod_networks_of_their_own() -> None:
    first, second = LabOptions().cluster_options()
    assert (first.name, first.cilium_name, first.cluster_id, first.pod_cidr) == ("c1", "c1", 1, "10.1.0.0/16")
    assert (second.name, second.cilium_name, second.cluster_id, second.pod_cidr) == ("c2", "c2", 2, "10.2.0.0/16")


def test_a_value_can_hold_for_all_clusters_or_for_each() -> None:
    clusters = LabOptions(clusters=3, cilium=("1.16", "1.18", "1.20"), kvstoremesh=False, nodes=(2,)).cluster_options()
    assert [cluster.cilium for cluster in clusters] == ["1.16", "1.18", "1.20"]
    assert [cluster.kvstoremesh for cluster in clusters] == [False, False, False]
    assert [cluster.nodes for cluster in clusters] == [2, 2, 2]


def test_overlapping_pod_networks_can_be_asked_for() -> None:
    clusters = LabOptions(pod_cidrs=("10.0.0.0/8",)).cluster_options()
    assert [cluster.pod_cidr for cluster in clusters] == ["10.0.0.0/8", "10.0.0.0/8"]


def test_options_survive_the_way_to_the_supervisor() -> None:
    options = LabOptions(
        name="x", clusters=2, cilium=("1.16", "1.20"), auth_mode=("legacy", None), kvstoremesh=(True, False), sync_delay=3.5
    )
    assert LabOptions.from_json(options.to_json()) == options


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"cilium": "1.15"}, "1.15"),
        ({"agents": "fake"}, "stand-in, real"),
        ({"agents": "real", "service": "NodePort"}, "LoadBalancer"),
        ({"clusters": 0}, "clusters 0"),
        ({"names": ("a", "b", "c")}, "names: 3 values for 2 clusters"),
        ({"names": ("a", "a")}, "name of its own"),
        ({"names": ("a", "controller")}, "controller"),
        ({"name": "Ä"}, "lab name"),
        ({"auth_mode": "none"}, "auth mode"),
        ({"service": "ClusterIP"}, "service"),
        ({"ca": "both"}, "ca 'both'"),
        ({"pod_cidrs": ("127.0.0.0/16", "10.0.0.0/16")}, "127.0.0.0/16"),
        ({"pod_cidrs": ("10.0.0.0/24",), "nodes": 2}, "/24 for every node"),
        ({"sync_delay": -1.0}, "sync delay"),
    ],
)
def test_what_no_lab_can_be_made_from_is_refused_by_name(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        LabOptions(**wrong)  # type: ignore[arg-type]  # wrong types are what is tested


def test_words_of_the_command_line() -> None:
    assert parse_list("a, b,,c") == ("a", "b", "c")
    assert parse_switches(("on", "False"), "kvstoremesh") == (True, False)
    with pytest.raises(OptionError, match="kvstoremesh 'maybe'"):
        parse_switches(("maybe",), "kvstoremesh")

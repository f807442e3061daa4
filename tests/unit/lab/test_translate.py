# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A chart's arguments for a binary of another version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.control import LabError
from tests.lab.options import LabOptions
from tests.lab.toolbox import PROGRAMS, resolve
from tests.lab.translate import Probe, expand, parse_version, readiness, translate, version_from_help, why_not_together

ENV = {"CLUSTER_NAME": "c1", "CLUSTER_ID": "1", "HOSTNAME_IP": "10.1.0.11", "INITIAL_CLUSTER_TOKEN": "t"}
APISERVER = [
    "clustermesh",
    "--cluster-name=$(CLUSTER_NAME)",
    "--kvstore-opt=etcd.config=/var/lib/cilium/etcd-config.yaml",
    "--kvstore-opt=etcd.bootstrapQps=10000",
    "--health-port=9880",
    "--clustermesh-default-global-namespace=true",
]
KVSTOREMESH = [
    "kvstoremesh",
    "--cluster-id=$(CLUSTER_ID)",
    "--health-port=9881",
    "--prometheus-serve-addr=:9964",
    "--enable-heartbeat=false",
]


def test_a_binary_of_the_charts_own_version_gets_the_arguments_as_they_are() -> None:
    translated = translate(APISERVER, ENV, "1.20", "1.20.2")
    assert translated.args == ("clustermesh", "--cluster-name=c1", *APISERVER[2:])
    assert translated.changes == ()


def test_an_older_binary_gets_no_flag_that_it_does_not_know_and_the_status_can_say_so() -> None:
    translated = translate(APISERVER, ENV, "1.20", "1.15.19")
    assert translated.args == (
        "clustermesh",
        "--cluster-name=c1",
        "--kvstore-opt=etcd.config=/var/lib/cilium/etcd-config.yaml",
        "--clustermesh-health-port=9880",
        "--enable-external-workloads=false",
    )
    assert len(translated.changes) == 4
    assert all("chart 1.20, binary 1.15.19" in change for change in translated.changes)


def test_kvstoremesh_of_1_15_has_no_health_port() -> None:
    assert translate(KVSTOREMESH, ENV, "1.18", "1.15.19").args == ("kvstoremesh", "--cluster-id=1", "--prometheus-serve-addr=:9964")


def test_a_newer_binary_no_longer_knows_external_workloads() -> None:
    args = ["clustermesh", "--enable-external-workloads=false"]
    assert translate(args, ENV, "1.17", "1.20.2").args == ("clustermesh",)
    assert translate(args, ENV, "1.17", "1.17.17").args == tuple(args)


def test_the_apiserver_is_led_to_the_labs_kubeconfig() -> None:
    assert "--k8s-kubeconfig-path=/k" in translate(APISERVER, ENV, "1.20", "1.20.2", kubeconfig="/k").args
    assert not any("kubeconfig" in arg for arg in translate(KVSTOREMESH, ENV, "1.20", "1.20.2", kubeconfig="/k").args)


@pytest.mark.parametrize(
    ("template", "here"),
    [
        ("--listen-client-urls=https://0.0.0.0:2379", "--listen-client-urls=https://127.0.0.1:2379"),
        ("--listen-client-urls=https://127.0.0.1:2379,https://[$(HOSTNAME_IP)]:2379", "--listen-client-urls=https://127.0.0.1:2379"),
        ("--listen-client-urls=https://127.0.0.1:2379,https://[::]:2379", "--listen-client-urls=https://127.0.0.1:2379"),
        ("--listen-metrics-urls=http://[$(HOSTNAME_IP)]:9963", "--listen-metrics-urls=http://127.0.0.1:9963"),
        ("--advertise-client-urls=https://localhost:2379", "--advertise-client-urls=https://localhost:2379"),
        ("--initial-cluster-token=$(INITIAL_CLUSTER_TOKEN)", "--initial-cluster-token=t"),
    ],
)
def test_etcd_listens_where_it_does_not_swallow_the_relays_ports(template: str, here: str) -> None:
    assert translate(["--data-dir=/d", template], ENV, "1.17", "1.15.19").args == ("--data-dir=/d", here)


def test_references_are_expanded_as_kubernetes_does() -> None:
    assert expand("$(A)-$$(A)-$(B)", {"A": "x"}) == "x-$(A)-$(B)"


def test_readiness_is_asked_where_the_binary_answers() -> None:
    chart = Probe(9880, "/readyz")
    assert readiness(["clustermesh"], chart, "1.18.11") == chart
    assert readiness(["clustermesh"], chart, "1.15.19") == Probe(9880, "/healthz")
    assert readiness(["kvstoremesh", "--prometheus-serve-addr=:9964"], Probe(9881, "/readyz"), "1.15.19") == Probe(9964)
    assert readiness(["kvstoremesh"], Probe(9881, "/readyz"), "1.15.19") == Probe(9889)
    assert readiness(["--listen-client-urls=https://127.0.0.1:2379"], None, "1.15.19") == Probe(2379)


def test_versions() -> None:
    assert parse_version("v1.20.0-pre.3") == (1, 20)
    with pytest.raises(ValueError, match="latest"):
        parse_version("latest")
    assert version_from_help("  --clustermesh-health-port int  TCP port") == "1.15"
    assert version_from_help("  --health-port int  TCP port") == "1.16"
    assert version_from_help("nothing of ours") == ""


@pytest.mark.parametrize(
    ("profile", "binary", "kvstoremesh", "together"),
    [
        ("1.16", "1.20.2", True, False),
        ("1.16", "1.17.0", True, False),
        ("1.16", "1.20.2", False, True),
        ("1.16", "1.16.19", True, True),
        ("1.16", "1.15.19", True, True),
        ("1.17", "1.20.2", True, True),
        ("1.19", "1.20.2", True, True),
        ("1.20", "1.15.19", True, True),
    ],
)
def test_a_chart_is_not_run_with_a_binary_that_its_agents_cannot_read_from(
    profile: str, binary: str, kvstoremesh: bool, together: bool
) -> None:
    why = why_not_together(profile, binary, kvstoremesh=kvstoremesh)

    assert (why == "") is together
    if not together:
        assert f"chart {profile}" in why and binary in why and "retrieving_configuration" in why


def test_the_lab_refuses_such_a_chart_at_once(tmp_path: Path) -> None:
    options = LabOptions(cilium=("1.18", "1.16"), binary_version="1.20.2")
    given = dict.fromkeys(PROGRAMS, tmp_path)

    with pytest.raises(LabError, match=r"^c2: the objects of chart 1\.16 do not go together with clustermesh-apiserver 1\.20\.2"):
        resolve(options, given)

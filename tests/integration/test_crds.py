# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a real API server makes of the CRDs: it takes them, costs of their rules included; it takes and refuses what the engine does; and it
keeps every status that the operator writes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from kubernetes.client.exceptions import ApiException

from mesh_operator.crds import crds
from tests.testing.crd_examples import BASES, BINDING, GONE, changed, examples, hostile
from tests.testing.crd_random import beyond_meaning, problems_of, random_specs
from tests.testing.crd_schema import kubernetes_clusters
from tests.testing.crd_server import CrdServer
from tests.testing.crd_statuses import statuses
from tests.testing.empty_values import pairs
from tests.testing.one_server import OneServer
from tests.testing.properties import examples as few
from tests.testing.provider_examples import CASES, REFUSED, documents, objects
from tests.testing.provider_examples import changed as provider_object

KINDS = sorted(BASES)


@pytest.fixture(scope="module")
def server(servers: None) -> Iterator[CrdServer]:
    with OneServer() as one:
        yield CrdServer(one, [*crds(), kubernetes_clusters()])


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_takes_and_refuses_what_the_examples_say(server: CrdServer, kind: str) -> None:
    wrong = [
        f"{example.about}: {said or 'taken'}"
        for example in examples()
        if example.kind == kind and (said := server.refuses(kind, example.spec), (said == "") != example.schema)[1]
    ]
    assert wrong == []


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"Fabric"}))
def test_the_server_and_the_engine_agree_on_random_objects(server: CrdServer, kind: str) -> None:
    """CEL rules stand in the CRD, and once more in the parser (decision 0035): each is held to the other."""
    verdicts: Counter[bool] = Counter()

    @few(60)
    @given(random_specs(kind))
    def agree(spec: dict[str, Any]) -> None:
        refused, problems = server.refuses(kind, spec), problems_of(kind, spec)
        verdicts[not refused] += 1
        assert not refused or problems, refused
        assert refused or beyond_meaning(problems) == "", problems

    agree()
    assert min(verdicts[True], verdicts[False]) >= 5, "no comparison: the server takes, or refuses, nearly all of them"


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_takes_an_empty_value_where_it_takes_none(server: CrdServer, kind: str) -> None:
    tried = {json.dumps(pair, sort_keys=True): pair for pair in pairs(kind)}.values()
    verdicts = [(pair, server.refuses(kind, pair.absent) == "", server.refuses(kind, pair.empty) == "") for pair in tried]
    assert [pair for pair, absent, empty in verdicts if absent is not empty] == []
    assert {pair.path for pair, absent, _empty in verdicts if absent} == {pair.path for pair in tried}


def test_the_server_takes_the_examples_of_the_provider_and_refuses_only_what_is_listed(server: CrdServer) -> None:
    found = {name: [server.refuses(obj["kind"], obj["spec"]) for obj in objects(case)] for name, case in CASES.items()}
    assert {name: refused for name, refused in found.items() if any(refused)} == {}
    for refusal in REFUSED:
        obj = provider_object(refusal.file, refusal.changes)
        refused = server.refuses(obj["kind"], obj["spec"])
        assert bool(refused) is (refusal.by == "schema"), (refusal.about, refused)
        assert refusal.by == "engine" or refusal.words in refused, refused


@pytest.mark.parametrize("name", ["binding", "global-service", "intent"])
def test_a_status_that_the_provider_left_is_taken_and_comes_back_whole(server: CrdServer, name: str) -> None:
    (obj,), (left,) = documents(f"overview-{name}"), documents(f"overview-{name}-status")
    now = "2026-04-21T10:00:00Z"  # the documentation leaves out what the API conventions demand of a condition
    conditions = [{"message": "", **condition, "lastTransitionTime": now} for condition in left["status"]["conditions"]]
    made = server.create(obj["kind"], obj["spec"], f"left-{name}", dry=False)
    status = {**left["status"], "conditions": conditions}
    assert server.replace({**made, "status": status}, status=True)["status"] == status


@pytest.mark.parametrize("kind", KINDS)
def test_no_hostile_text_gets_into_an_object(server: CrdServer, kind: str) -> None:
    tried = list(hostile(kind))
    assert len(tried) >= 12
    assert [what for what, spec in tried if server.refuses(kind, spec) == ""] == []


@pytest.mark.parametrize("name", ["a" * 64, "X", "a_b", "{{ x }}", "a" * 254, "a\n"])
def test_a_name_that_the_engine_could_not_distinguish_is_refused(server: CrdServer, name: str) -> None:
    assert all(server.refuses(kind, changed(kind, {}), name) for kind in KINDS)


def test_what_is_left_out_is_filled_in_with_what_the_engine_would_take(server: CrdServer) -> None:
    made = server.create("ConnectivityIntent", changed("ConnectivityIntent", {"ports": [{"port": 80}], "probe": {}}))["spec"]
    assert (made["policyMode"], made["ports"]) == ("Namespaced", [{"protocol": "TCP", "port": 80}])
    assert made["probe"] == {"enabled": False, "intervalSeconds": 60, "method": "auto"}
    made = server.create("GlobalService", changed("GlobalService", {"failover": {}}))["spec"]
    assert (made["backend"], made["createMissingServices"]) == ("Annotations", False)
    assert made["failover"] == {"detectWithin": 60, "minLocalReady": 1, "hysteresis": 0}


def test_rules_hold_at_the_limits(server: CrdServer) -> None:
    """Estimated costs are checked when a CRD is installed, real ones with each object."""
    refs = [{"name": f"cluster-{n}." + "a" * 60} for n in range(255)]
    names = [ref["name"] for ref in refs]
    side = {
        "namespace": "a",
        "selector": {f"example.com/label-{n}": "x" * 63 for n in range(32)},
        "expressions": [{"key": f"example.com/key-{n}", "operator": "In", "values": ["x" * 63] * 64} for n in range(16)],
        "clusters": names,
    }
    ports = [{"port": n, "endPort": n + 1} for n in range(1, 257)]
    assert server.refuses("ClusterMeshBinding", {"clusterRefs": refs[:64]}) == ""
    assert server.refuses("ClusterMeshBinding", {"clusterRefs": refs, "topology": {"mode": "HubAndSpoke", "hubs": names[-8:]}}) == ""
    pairs = [[names[n % 255], names[(n + 1 + n // 255) % 255]] for n in range(1024)]
    assert server.refuses("ClusterMeshBinding", {"clusterRefs": refs, "topology": {"mode": "Pairs", "pairs": pairs}}) == ""
    assert server.refuses("ConnectivityIntent", changed("ConnectivityIntent", {"source": side, "destination": side, "ports": ports})) == ""
    assert server.refuses("GlobalService", changed("GlobalService", {"targetClusters": names})) == ""
    standby = {"primary": names[0], "standby": names[1:]}
    ranges = [f"2001:db8:{n:x}::/48" for n in range(256)]
    assert server.refuses("ExposedService", changed("ExposedService", {"clusters": standby, "sourceRanges": ranges})) == ""
    assert server.refuses("Fabric", {"meshRefs": refs}) == ""
    assert "more than 64 clusters" in server.refuses("ClusterMeshBinding", {"clusterRefs": refs[:65]})
    assert "Too many" in server.refuses("ClusterMeshBinding", {"clusterRefs": [*refs, {"name": "more"}]})


def test_an_item_stays_with_its_mesh(server: CrdServer) -> None:
    made = server.create("ExposedService", changed("ExposedService", {}), "stays", dry=False)
    made = server.replace({**made, "spec": {**made["spec"], "class": "NodePort"}})
    with pytest.raises(ApiException, match="delete this object and make a new one"):
        server.replace({**made, "spec": {**made["spec"], "meshRef": {"name": "other"}}})


def test_every_status_is_taken_and_comes_back_whole(server: CrdServer) -> None:
    for number, made in enumerate(statuses()):
        created = server.create(made.kind, changed(made.kind, {}), f"status-{number}", dry=False)
        assert "status" not in created
        written = server.replace({**created, "status": made.status}, status=True)
        assert written["status"] == made.status, made.about
        assert server.replace({**written, "spec": created["spec"], "status": {}})["status"] == made.status  # not by the object itself


def test_kubectl_shows_phase_mesh_and_clusters(server: CrdServer) -> None:
    for kind in ("GlobalService", "ClusterMeshBinding"):
        number = next(place for place, made in enumerate(statuses()) if made.kind == kind)
        made = server.create(kind, changed(kind, {}), f"shown-{number}", dry=False)
        server.replace({**made, "status": statuses()[number].status}, status=True)
    columns, rows = server.table("GlobalService")
    row = dict(zip(columns, next(row for row in rows if row[0].startswith("shown-")), strict=True))
    assert (row["Mesh"], row["Phase"], row["Exported"]) == (BINDING, "Exported", '["c1","c2"]')
    columns, rows = server.table("ClusterMeshBinding")
    row = dict(zip(columns, next(row for row in rows if row[0].startswith("shown-")), strict=True))
    assert (row["Phase"], row["Message"]) == ("Connected", "Mesh established between 2 clusters")
    assert "c1" in row["Clusters"]


def test_a_missing_spec_is_refused(server: CrdServer) -> None:
    for kind in KINDS:
        assert "spec" in server.refuses(kind, None)
        for field in BASES[kind]:
            assert field in server.refuses(kind, changed(kind, {field: GONE}))

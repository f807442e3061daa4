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
import yaml
from hypothesis import given
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from mesh_operator.crds import crds
from mesh_operator.kinds import BY_KIND
from tests.collection_path import CHECKOUT
from tests.testing.crd_examples import BASES, BINDING, GONE, changed, examples, hostile
from tests.testing.crd_random import beyond_meaning, problems_of, random_specs
from tests.testing.crd_statuses import statuses
from tests.testing.empty_values import pairs
from tests.testing.one_server import OneServer
from tests.testing.properties import examples as few
from tests.testing.provider_examples import CASES, REFUSED, documents, objects
from tests.testing.provider_examples import changed as provider_object
from tests.testing.waiting import wait_for

FLEET = yaml.safe_load((CHECKOUT / "tests" / "testing" / "fleet_crd.yaml").read_text(encoding="utf-8"))
KINDS = sorted(BASES)


def is_established(crd: Any) -> bool:
    conditions = (crd.status.conditions if crd.status else None) or ()
    return any(condition.type == "Established" and condition.status == "True" for condition in conditions)


class Server:
    """A server with the CRDs. Unknown fields are errors, so that none is dropped without a word."""

    def __init__(self, one: OneServer) -> None:
        self._client = config.new_client_from_config(str(one.kubeconfig))
        self._objects = client.CustomObjectsApi(self._client)
        definitions = client.ApiextensionsV1Api(self._client)
        for crd in (*crds(), FLEET):
            definitions.create_custom_resource_definition(crd)
        wanted = {crd["metadata"]["name"] for crd in (*crds(), FLEET)}

        def not_established() -> set[str]:
            found = definitions.list_custom_resource_definition().items
            return wanted - {crd.metadata.name for crd in found if is_established(crd)}

        wait_for(not_established, lambda late: not late, what="every CRD is established")

    def create(self, kind: str, spec: Any, name: str = "x", *, dry: bool = True) -> dict[str, Any]:
        body = {"apiVersion": f"{BY_KIND[kind].group}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        place = (BY_KIND[kind].group, "v1alpha1", "default", BY_KIND[kind].plural)
        options = {"field_validation": "Strict"} | ({"dry_run": "All"} if dry else {})
        return dict(self._objects.create_namespaced_custom_object(*place, body, **options))

    def refuses(self, kind: str, spec: Any, name: str = "x") -> str:
        """Its words; "" when it takes the object."""
        try:
            self.create(kind, spec, name)
        except ApiException as error:
            assert error.status in (400, 422), error
            return str(error.body)
        return ""

    def replace(self, made: dict[str, Any], *, status: bool = False) -> dict[str, Any]:
        row = BY_KIND[made["kind"]]
        call = self._objects.replace_namespaced_custom_object_status if status else self._objects.replace_namespaced_custom_object
        found = call(row.group, "v1alpha1", "default", row.plural, made["metadata"]["name"], made, field_validation="Strict")
        return dict(found)

    def table(self, kind: str) -> tuple[list[str], list[list[Any]]]:
        """What kubectl shows: columns and rows."""
        row = BY_KIND[kind]
        url = f"{self._client.configuration.host}/apis/{row.group}/v1alpha1/namespaces/default/{row.plural}"
        answer = self._client.call_api("GET", url, header_params={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
        found = json.loads(answer.read())
        return [column["name"] for column in found["columnDefinitions"]], [row["cells"] for row in found["rows"]]


@pytest.fixture(scope="module")
def server(servers: None) -> Iterator[Server]:
    with OneServer() as one:
        yield Server(one)


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_takes_and_refuses_what_the_examples_say(server: Server, kind: str) -> None:
    wrong = [
        f"{example.about}: {said or 'taken'}"
        for example in examples()
        if example.kind == kind and (said := server.refuses(kind, example.spec), (said == "") != example.schema)[1]
    ]
    assert wrong == []


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"Fabric"}))
def test_the_server_and_the_engine_agree_on_random_objects(server: Server, kind: str) -> None:
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
def test_the_server_takes_an_empty_value_where_it_takes_none(server: Server, kind: str) -> None:
    tried = {json.dumps(pair, sort_keys=True): pair for pair in pairs(kind)}.values()
    verdicts = [(pair, server.refuses(kind, pair.absent) == "", server.refuses(kind, pair.empty) == "") for pair in tried]
    assert [pair for pair, absent, empty in verdicts if absent is not empty] == []
    assert {pair.path for pair, absent, _empty in verdicts if absent} == {pair.path for pair in tried}


def test_the_server_takes_the_examples_of_the_provider_and_refuses_only_what_is_listed(server: Server) -> None:
    found = {name: [server.refuses(obj["kind"], obj["spec"]) for obj in objects(case)] for name, case in CASES.items()}
    assert {name: refused for name, refused in found.items() if any(refused)} == {}
    for refusal in REFUSED:
        obj = provider_object(refusal.file, refusal.changes)
        refused = server.refuses(obj["kind"], obj["spec"])
        assert bool(refused) is (refusal.by == "schema"), (refusal.about, refused)
        assert refusal.by == "engine" or refusal.words in refused, refused


@pytest.mark.parametrize("name", ["binding", "global-service", "intent"])
def test_a_status_that_the_provider_left_is_taken_and_comes_back_whole(server: Server, name: str) -> None:
    (obj,), (left,) = documents(f"overview-{name}"), documents(f"overview-{name}-status")
    now = "2026-04-21T10:00:00Z"  # the documentation leaves out what the API conventions demand of a condition
    conditions = [{"message": "", **condition, "lastTransitionTime": now} for condition in left["status"]["conditions"]]
    made = server.create(obj["kind"], obj["spec"], f"left-{name}", dry=False)
    status = {**left["status"], "conditions": conditions}
    assert server.replace({**made, "status": status}, status=True)["status"] == status


@pytest.mark.parametrize("kind", KINDS)
def test_no_hostile_text_gets_into_an_object(server: Server, kind: str) -> None:
    tried = list(hostile(kind))
    assert len(tried) >= 12
    assert [what for what, spec in tried if server.refuses(kind, spec) == ""] == []


@pytest.mark.parametrize("name", ["a" * 64, "X", "a_b", "{{ x }}", "a" * 254, "a\n"])
def test_a_name_that_the_engine_could_not_distinguish_is_refused(server: Server, name: str) -> None:
    assert all(server.refuses(kind, changed(kind, {}), name) for kind in KINDS)


def test_what_is_left_out_is_filled_in_with_what_the_engine_would_take(server: Server) -> None:
    made = server.create("ConnectivityIntent", changed("ConnectivityIntent", {"ports": [{"port": 80}], "probe": {}}))["spec"]
    assert (made["policyMode"], made["ports"]) == ("Namespaced", [{"protocol": "TCP", "port": 80}])
    assert made["probe"] == {"enabled": False, "intervalSeconds": 60, "method": "auto"}
    made = server.create("GlobalService", changed("GlobalService", {"failover": {}}))["spec"]
    assert (made["backend"], made["createMissingServices"]) == ("Annotations", False)
    assert made["failover"] == {"detectWithin": 60, "minLocalReady": 1, "hysteresis": 0}


def test_rules_hold_at_the_limits(server: Server) -> None:
    """Estimated costs are looked at when a CRD is installed, real ones with each object."""
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


def test_an_item_stays_with_its_mesh(server: Server) -> None:
    made = server.create("ExposedService", changed("ExposedService", {}), "stays", dry=False)
    made = server.replace({**made, "spec": {**made["spec"], "class": "NodePort"}})
    with pytest.raises(ApiException, match="delete this object and make a new one"):
        server.replace({**made, "spec": {**made["spec"], "meshRef": {"name": "other"}}})


def test_every_status_is_taken_and_comes_back_whole(server: Server) -> None:
    for number, made in enumerate(statuses()):
        there = server.create(made.kind, changed(made.kind, {}), f"status-{number}", dry=False)
        assert "status" not in there
        written = server.replace({**there, "status": made.status}, status=True)
        assert written["status"] == made.status, made.about
        assert server.replace({**written, "spec": there["spec"], "status": {}})["status"] == made.status  # not by the object itself


def test_kubectl_shows_phase_mesh_and_clusters(server: Server) -> None:
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


def test_a_missing_spec_is_refused(server: Server) -> None:
    for kind in KINDS:
        assert "spec" in server.refuses(kind, None)
        for field in BASES[kind]:
            assert field in server.refuses(kind, changed(kind, {field: GONE}))

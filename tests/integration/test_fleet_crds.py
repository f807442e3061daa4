# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a real API server makes of the CRDs of fleets: it takes them, costs of their rules included; and it takes and refuses what the
examples say, with the words that they have."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from mesh_operator.crds import FLEET, crds
from tests.collection_path import CHECKOUT
from tests.testing.crd_examples import GONE
from tests.testing.crd_server import CrdServer
from tests.testing.fleet_examples import BASES, changed, empty_pairs, fleet_examples, name_of
from tests.testing.one_server import OneServer

KINDS = sorted(BASES)
WORKLOAD = "FleetWorkload"


@pytest.fixture(scope="module")
def server(servers: None) -> Iterator[CrdServer]:
    with OneServer() as one:
        yield CrdServer(one, crds(FLEET))


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_takes_and_refuses_what_the_examples_say(server: CrdServer, kind: str) -> None:
    wrong = []
    for example in fleet_examples():
        if example.kind == kind:
            said = server.refuses(kind, example.spec, name_of(kind))
            if bool(said) is not bool(example.says) or example.says not in said:
                wrong.append(f"{example.about}: {said or 'taken'}")
    assert wrong == []


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"FleetWorkloadRevision"}))
def test_an_empty_value_is_as_good_as_none_unless_it_says_something(server: CrdServer, kind: str) -> None:
    tried = list(empty_pairs(kind))
    verdicts = [(pair, server.refuses(kind, pair.absent) == "", server.refuses(kind, pair.empty) == "") for pair, says in tried if not says]
    assert [pair for pair, absent, empty in verdicts if absent is not empty] == []
    assert len(tried) >= 2


def test_a_workload_that_comes_back_is_what_was_sent(server: CrdServer) -> None:
    """Nothing of a right example is dropped; defaults are all that is added."""
    for number, example in enumerate(example for example in fleet_examples() if example.kind == WORKLOAD and not example.says):
        made = server.create(WORKLOAD, example.spec, f"whole-{number}", dry=False)["spec"]
        assert _within(example.spec, made), (example.about, made)


def _within(sent: Any, found: Any) -> bool:
    if isinstance(sent, dict):
        return isinstance(found, dict) and all(key in found and _within(value, found[key]) for key, value in sent.items())
    if isinstance(sent, list):
        return isinstance(found, list) and len(sent) == len(found) and all(map(_within, sent, found))
    return bool(sent == found)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("KubernetesCluster", ["X", "a_b", "a" * 64, "a" * 254, "{{ x }}"]),
        ("Fleet", ["X", "a.b", "a" * 64]),
        ("PlacementPolicy", ["X", "a.b", "a" * 64]),
        (WORKLOAD, ["X", "a.b", "a" * 53]),
        ("FleetWorkloadRevision", ["x", "x-r", "x-r01", "x-r2", "y-r1", "x-r1-r1", "x-r1000000000"]),
    ],
)
def test_a_name_that_could_not_be_carried_on_is_refused(server: CrdServer, kind: str, names: list[str]) -> None:
    assert [name for name in names if not server.refuses(kind, BASES[kind], name)] == []


def test_the_longest_names_are_taken(server: CrdServer) -> None:
    assert server.refuses(WORKLOAD, BASES[WORKLOAD], "1" * 52) == ""
    assert server.refuses("Fleet", BASES["Fleet"], "a" * 63) == ""
    revision = changed("FleetWorkloadRevision", {"workload": "a" * 52, "number": 999999999})
    assert server.refuses("FleetWorkloadRevision", revision, f"{'a' * 52}-r999999999") == ""
    assert server.refuses("FleetWorkloadRevision", changed("FleetWorkloadRevision", {"workload": "x-r1"}), "x-r1-r1") == ""


def test_a_workload_with_a_service_begins_with_a_letter(server: CrdServer) -> None:
    with_service = changed(WORKLOAD, {"service": {"ports": [{"port": 80}]}})
    assert "begins with a letter" in server.refuses(WORKLOAD, with_service, "1x")
    assert server.refuses(WORKLOAD, with_service, "x1") == ""


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        ("KubernetesCluster", {"providerRef": {"name": "other"}}, "cannot be changed, as a cluster cannot go to another provider"),
        ("KubernetesCluster", {"providerRef": None, "importedKubeconfigRef": {"name": "a", "key": "b"}}, "providerRef cannot be removed"),
        (WORKLOAD, {"kind": "StatefulSet"}, "cannot be changed; delete this object and make a new one"),
        ("FleetWorkloadRevision", {"hash": "1" * 64}, "a revision never changes"),
        ("FleetWorkloadRevision", {"snapshot": {"replicas": 2}}, "a revision never changes"),
        ("FleetWorkloadRevision", {"snapshot": {"replicas": 1, "paused": True}}, "a revision never changes"),
    ],
)
def test_what_cannot_be_changed_is_refused(server: CrdServer, kind: str, change: dict[str, Any], says: str) -> None:
    name = f"kept-{zlib.crc32(f'{says} {change}'.encode()):08x}"
    spec = BASES[kind]
    if kind == "FleetWorkloadRevision":
        spec, name = {**spec, "workload": name}, f"{name}-r1"
    made = server.create(kind, spec, name, dry=False)
    made = server.replace({**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}})  # the rest of the object can be
    with pytest.raises(ApiException, match=says):
        server.replace({**made, "spec": {**made["spec"], **change}})


def test_rules_hold_at_the_limits(server: CrdServer) -> None:
    """Estimated costs are checked when a CRD is installed, real ones with each object."""
    names = [f"cluster-{number}." + "a" * 60 for number in range(255)]
    labels = {f"example.com/label-{number}": "x" * 63 for number in range(32)}
    expressions = [{"key": f"example.com/key-{number}", "operator": "In", "values": ["x" * 63] * 64} for number in range(16)]
    refs = [{"name": name} for name in names]
    assert server.refuses("Fleet", {"clusterRefs": refs, "selector": {"matchLabels": labels, "matchExpressions": expressions}}) == ""
    weights = [{"cluster": name, "weight": 1000} for name in names]
    assert server.refuses("PlacementPolicy", {"strategy": "Weighted", "weights": weights, "requirements": expressions}) == ""
    assert server.refuses("KubernetesCluster", changed("KubernetesCluster", {"labels": labels})) == ""
    env = [{"name": f"VARIABLE_{number}", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}} for number in range(256)]
    mounts = [{"name": f"volume-{number}", "mountPath": f"/mnt/{number}"} for number in range(64)]
    one = {"image": "registry.example.com/" + "a" * 400, "env": env[:64], "volumeMounts": mounts}
    pod: dict[str, Any] = {
        "containers": [{**one, "name": f"container-{number}"} for number in range(32)],
        "initContainers": [{**one, "name": f"init-{number}"} for number in range(32)],
        "volumes": [{"name": f"volume-{number}", "emptyDir": {}} for number in range(64)],
    }
    pod["containers"][0]["env"] = env
    spec = changed(
        WORKLOAD,
        {
            "template": {"labels": labels, "annotations": labels, "spec": pod},
            "service": {"ports": [{"name": f"port-{number}", "port": number} for number in range(1, 65)], "annotations": labels},
            "resources": [
                {"kind": "ConfigMap", "name": f"map-{number}", "labels": labels, "annotations": labels, "data": {"a": "b"}}
                for number in range(32)
            ],
            "rollout": {"waves": [{"clusters": names[number::64]} for number in range(64)]},
        },
    )
    assert server.refuses(WORKLOAD, spec) == ""
    spec["template"]["spec"]["containers"].append({"name": "more", "image": "x"})
    assert "Too many" in server.refuses(WORKLOAD, spec)


STATUSES: dict[str, dict[str, Any]] = {
    "KubernetesCluster": {
        "phase": "Ready",
        "observedGeneration": 1,
        "memberName": "0123456789-ffm-1",
        "kubernetesVersion": "v1.34.2",
        "nodes": {"total": 3, "ready": 2},
    },
    "Fleet": {"phase": "Degraded", "observedGeneration": 1, "matchedClusters": ["ffm-1"], "readyClusters": 0, "totalClusters": 1},
    "PlacementPolicy": {"phase": "Accepted", "observedGeneration": 1, "usedBy": 2},
    WORKLOAD: {
        "phase": "Progressing",
        "observedGeneration": 2,
        "replicas": 3,
        "readyReplicas": 2,
        "updatedReplicas": 1,
        "placements": [
            {
                "clusterName": "ffm-1",
                "member": "0123456789-ffm-1",
                "replicas": 3,
                "readyReplicas": 2,
                "updatedReplicas": 1,
                "applied": True,
                "health": "Healthy",
                "current": False,
                "clusterReady": True,
                "message": "",
            }
        ],
        "rollout": {
            "phase": "Rolling",
            "wave": 1,
            "of": 2,
            "revision": 2,
            "fromRevision": 1,
            "suspendedClusters": ["ber-2"],
            "skippedClusters": [],
            "waveStartedAt": "2026-11-24T10:00:00Z",
            "message": "wave 1 of 2",
        },
        "currentRevision": 1,
        "updatedRevision": 2,
        "revisions": [{"number": 1, "hash": "0" * 64, "createdAt": "2026-11-24T09:00:00Z"}],
        "lastOperation": {"type": "Restart", "id": "a", "revision": 2, "result": "Accepted", "message": ""},
        "evictedClusters": [{"clusterName": "ham-3", "reason": "NotReady", "since": "2026-11-24T09:00:00Z"}],
    },
}
"""One with every field of a kind, but for those of all kinds."""
COMMON: dict[str, Any] = {
    "findings": [
        {
            "code": "CM-X-01",
            "severity": "advisory",
            "cluster": "ffm-1",
            "peer": "ber-2",
            "summary": "It is so.",
            "fix": ["Change it."],
            "page": "docs/x.md",
            "accepted": True,
        }
    ],
    "conditions": [
        {"type": "Ready", "status": "False", "reason": "Why", "message": "So it is.", "lastTransitionTime": "2026-11-24T10:00:00Z"}
    ],
}


@pytest.mark.parametrize("kind", sorted(STATUSES))
def test_a_status_is_taken_and_comes_back_whole_and_kubectl_shows_it(server: CrdServer, kind: str) -> None:
    made = server.create(kind, BASES[kind], "shown", dry=False)
    status = STATUSES[kind] | COMMON
    assert server.replace({**made, "status": status}, status=True)["status"] == status
    columns, rows = server.table(kind)
    row = dict(zip(columns, next(row for row in rows if row[0] == "shown"), strict=True))
    assert (row["Phase"], row["Message"]) == (status["phase"], "So it is.")
    shown: dict[str, dict[str, Any]] = {
        "KubernetesCluster": {"Provider": "kind", "Version": "v1.34.2", "Nodes": 2},
        "Fleet": {"Clusters": 1, "Ready": 0},
        "PlacementPolicy": {"Strategy": "FixedReplicas", "Used": 2},
        WORKLOAD: {"Fleet": "europe", "Replicas": 3, "Ready": 2, "Revision": 1, "Rollout": "Rolling"},
    }
    assert {name: row[name] for name in shown[kind]} == shown[kind]


def test_metrics_of_a_cluster_are_a_status_alone(server: CrdServer) -> None:
    made = server.create("ClusterMetrics", GONE, "ffm-1", dry=False)
    quantities = {"allocatable": "60Gi", "requested": "1500m", "pending": "0"}
    status = {
        "time": "2026-11-24T10:00:00Z",
        "nodes": {"total": 3, "ready": 2},
        "cpu": quantities,
        "memory": quantities,
        "pods": {"allocatable": "330", "requested": "12", "pending": "1"},
        "memberReady": True,
    }
    assert server.replace({**made, "status": status}, status=True)["status"] == status
    columns, (row, *_) = server.table("ClusterMetrics")
    assert dict(zip(columns, row, strict=True)).items() >= {"CPU": "60Gi", "Memory": "60Gi", "Nodes": 2}.items()


def test_the_samples_of_fleets_are_taken_whole(server: CrdServer) -> None:
    files = sorted((CHECKOUT / "samples" / "fleet").rglob("*.yaml"))
    for sample in [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]:
        made = server.create(sample["kind"], sample.get("spec", GONE), sample["metadata"]["name"])
        assert _within(sample.get("spec", {}), made.get("spec", {})), sample["kind"]
    assert len(files) == len(crds(FLEET))


def test_a_missing_spec_is_refused(server: CrdServer) -> None:
    assert [kind for kind in KINDS if "spec" not in server.refuses(kind, None, name_of(kind))] == []

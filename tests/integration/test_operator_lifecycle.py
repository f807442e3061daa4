# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a tenant notices of the operator from the first resource to the last, whatever happens to clusters, links, credentials, and to the
operator itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import pytest

from mesh_operator.base.kinds import BINDING, EXPOSURE, FABRIC, INTENT, SERVICE
from tests.integration import credentials, shop
from tests.integration.everything import everything
from tests.integration.mesh_lab import MeshLab
from tests.integration.operator_lab import CHECK, OperatorLab, Workspace, run_folders, run_processes
from tests.integration.status_recording import Recording, checked_against_clusters, recorded
from tests.lab.api import ApiError
from tests.lab.patience import scaled
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import wait_for

Object = dict[str, Any]
ALONE: Final = "--no-leader-elect"
OWNER: Final = "cilium-mesh.edge-portal.eu/owner"
DONE: Final = 'mesh_operator_reconciles_total{kind="ClusterMeshBinding",outcome="done"}'
SERVICES: Final = f"/api/v1/namespaces/{shop.NAMESPACE}/services"
POLICIES: Final = f"/apis/cilium.io/v2/namespaces/{shop.NAMESPACE}/ciliumnetworkpolicies"
MESH: Final = {"meshRef": {"name": "edge"}}
ASKED: Final[Mapping[tuple[str, str], Object]] = {
    (BINDING, "edge"): {"clusterRefs": [{"name": "c1"}, {"name": "c2"}, {"name": "c3"}]},
    (SERVICE, "nginx"): {**MESH, "selector": shop.SERVICE["selector"]},
    (SERVICE, "quiet"): {**MESH, "selector": {"namespace": shop.NAMESPACE, "name": "quiet"}},
    (INTENT, "frontend"): {**MESH, **{key: value for key, value in shop.INTENT.items() if key != "name"}},
    (EXPOSURE, "shop"): {**MESH, **{key: value for key, value in shop.EXPOSURE.items() if key != "name"}},
    (FABRIC, "europe"): {"meshRefs": [{"name": "edge"}]},
}
TRUE: Final = {
    (BINDING, "edge"): "Connected",
    (SERVICE, "nginx"): "Exported",
    (SERVICE, "quiet"): "Degraded",  # without a backend
    (INTENT, "frontend"): "Applied",
    (EXPOSURE, "shop"): "Exposed",
    (FABRIC, "europe"): "Connected",
}


pytestmark = pytest.mark.xdist_group("operator")


@pytest.fixture(scope="module", params=["kcp", pytest.param("kubernetes", marks=pytest.mark.full)])
def lab(request: pytest.FixtureRequest, operator_lab: OperatorLab) -> Iterator[OperatorLab]:
    """With the custom resources in workspaces of a kcp, and in namespaces of an ordinary cluster."""
    if request.param == "kcp":
        yield operator_lab
    else:
        with operator_lab.without_kcp() as without:
            yield without


@pytest.fixture(scope="module")
def untouched(lab: OperatorLab) -> dict[str, Any]:
    """Everything in the clusters before anybody asked for anything."""
    return everything(lab.clusters)


@pytest.fixture(scope="module", autouse=True)
def statuses_are_true(lab: OperatorLab, untouched: dict[str, Any]) -> Iterator[None]:
    """Through all tests of this file, no status is good while what it stands for is not there."""
    with checked_against_clusters(lab) as truth:
        yield
    assert not truth.falsehoods, "\n".join(truth.falsehoods)
    assert truth.claims > 20


@pytest.fixture(scope="module")
def running(lab: OperatorLab) -> Iterator[ExitStack]:
    """What ends the operator of `operator`."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def tenant(lab: OperatorLab, untouched: dict[str, Any], running: ExitStack) -> Iterator[Workspace]:
    """Who asks for everything that is in the clusters, and takes it back at the end."""
    tenant = lab.workspace("shop", "c1", "c2", "c3")
    yield tenant
    running.close()
    take_back(lab, tenant)


def take_back(lab: OperatorLab, tenant: Workspace) -> None:
    if tenant.resources():
        with lab.operator(ALONE) as operator:
            for place in tenant.resources():
                tenant.delete(*place.split("/"))
            operator.wait(lambda: not tenant.resources() and is_forgotten(tenant, "edge"), "nothing is asked for")


@pytest.fixture(autouse=True)
def one_operator(request: pytest.FixtureRequest, running: ExitStack) -> None:
    """A test that starts operators of its own has no other one beside them."""
    if "operator" not in request.fixturenames:
        running.close()


@pytest.fixture(scope="module")
def started() -> list[OperatorProcess]:
    """The operator of `operator`, at the end of what was started for it."""
    return []


@pytest.fixture
def operator(lab: OperatorLab, running: ExitStack, started: list[OperatorProcess]) -> OperatorProcess:
    """One operator for several tests, as a start costs as much as some of them; it knows nothing of them."""
    if not started or started[-1].process.poll() is not None:
        started.append(running.enter_context(lab.operator(ALONE)))
    return started[-1]


@pytest.fixture
def unasked(lab: OperatorLab, tenant: Workspace, one_operator: None) -> Workspace:
    """The tenant without any resource; what a test before asked for is taken back."""
    take_back(lab, tenant)
    return tenant


@pytest.fixture
def edge(tenant: Workspace) -> Workspace:
    """A tenant who asks for one resource of each kind; what a test before took back is asked for again."""
    for (kind, name), spec in ASKED.items():
        if tenant.get(kind, name) is None:
            tenant.create(kind, name, **spec)
    return tenant


def all_true(tenant: Workspace) -> bool:
    """Every resource is reported as it is, about the newest spec."""
    found = tenant.resources()
    seen = {place: found.get("/".join(place)) or {} for place in TRUE}
    return all(
        status.get("phase") == TRUE[place] and status.get("observedGeneration") == obj["metadata"]["generation"]
        for place, obj in seen.items()
        for status in [obj.get("status") or {}]
    )


def settle(tenant: Workspace, operator: OperatorProcess) -> None:
    operator.wait(lambda: all_true(tenant), "every resource is reported as it is", explain=lambda: str(phases(tenant)))


def phases(tenant: Workspace) -> dict[str, str]:
    return {name: str((found.get("status") or {}).get("phase")) for name, found in tenant.resources().items()}


def wait_for_dry_runs(operator: OperatorProcess, count: int) -> None:
    """Wait for so many more dry runs of meshes."""
    wanted = operator.metrics().get(DONE, 0) + count
    operator.wait(lambda: operator.metrics().get(DONE, 0) >= wanted, f"{count} more dry runs")


def is_(tenant: Workspace, kind: str, name: str, phase: str) -> Callable[[], bool]:
    return lambda: tenant.phase(kind, name) == phase


def leads(operator: OperatorProcess) -> bool:
    return bool(operator.metrics().get("mesh_operator_leader"))


def connected(tenant: Workspace, operator: OperatorProcess, *names: str) -> None:
    for name in names:
        operator.wait(is_(tenant, BINDING, name, "Connected"), f"{name} is connected")


def is_gone(tenant: Workspace, binding: str) -> bool:
    return tenant.get(BINDING, binding) is None


def is_forgotten(tenant: Workspace, binding: str) -> bool:
    return tenant.record(binding) is None


def gone(tenant: Workspace, operator: OperatorProcess, *names: str) -> None:
    for name in names:
        operator.wait(partial(is_gone, tenant, name), f"{name} is gone")


def owned(lab: MeshLab, cluster: str, owner: str) -> list[Object]:
    """What a mesh made for its items in a cluster."""
    api = lab.api(cluster)
    return [found for path in (SERVICES, POLICIES) for found in api.list(path, label_selector=f"{OWNER}={owner}")]


def written(lab: OperatorLab, tenant: Workspace) -> dict[str, Any]:
    """Versions of all resources and of everything in the clusters that could have been written."""
    found: dict[str, Any] = {name: obj["metadata"]["resourceVersion"] for name, obj in tenant.resources().items()}
    for cluster in lab.clusters.names:
        for path in (SERVICES, POLICIES):
            for entry in lab.clusters.api(cluster).list(path):
                found[f"{cluster}{path}/{entry['metadata']['name']}"] = entry["metadata"]["resourceVersion"]
    return found | lab.clusters.snapshot(volatile=True)


def test_every_kind_has_a_status_at_once_and_goes_through_its_phases_in_their_order(lab: OperatorLab, unasked: Workspace) -> None:
    tenant = unasked
    with recorded(tenant) as recording, lab.operator(ALONE) as operator:
        operator.wait(lambda: leads(operator), "it leads")
        for (kind, name), spec in ASKED.items():
            tenant.create(kind, name, **spec)
        settle(tenant, operator)
        # A change of a spec is on its way too, and a mesh that was connected stays so.
        tenant.change(INTENT, "frontend", ports=[{"protocol": "TCP", "port": 81}])
        settle(tenant, operator)
        tenant.change(INTENT, "frontend", ports=ASKED[INTENT, "frontend"]["ports"])
        settle(tenant, operator)
    # Who lost access with the first intent stood in its status when it was written, and is a Warning.
    (lost, *_others) = findings_in(recording, INTENT, "frontend", "CM-INT-31")
    assert (lost["severity"], lost["page"]) == ("outage", "docs/runbooks/CM-INT-31.md")
    assert "3 workloads lose access to production/nginx" in lost["summary"] and any("action Allow" in line for line in lost["fix"])
    assert event_of(tenant, INTENT, "frontend", "FindingCMINT31")["type"] == "Warning"
    seen = {place: recording.phases(*place) for place in ASKED}
    for place in ((BINDING, "edge"), (FABRIC, "europe")):  # links come up one after the other, and a part of them may be measured
        seen[place] = [phase for phase in seen[place] if phase != "Degraded"]
    for place in ((SERVICE, "nginx"), (SERVICE, "quiet"), (INTENT, "frontend"), (EXPOSURE, "shop")):
        # A run that ends before every link is ready leaves an item waiting, with that reason, and the next run goes on with it.
        while seen[place][2:4] == seen[place][:2]:
            assert "MeshNotConnected" in reasons_of_waiting(recording, *place)
            del seen[place][:2]
    # A Fabric says what its bindings say when it is observed: a binding of a quick operator may be on its way by then.
    seen[FABRIC, "europe"] = [*(["Pending"] if seen[FABRIC, "europe"][:1] == ["Connecting"] else []), *seen[FABRIC, "europe"]]
    assert seen == {
        (BINDING, "edge"): ["Pending", "Connecting", "Connected"],
        (SERVICE, "nginx"): ["Pending", "Exporting", "Exported"],
        (SERVICE, "quiet"): ["Pending", "Exporting", "Degraded"],
        (INTENT, "frontend"): ["Pending", "Applying", "Applied", "Applying", "Applied", "Applying", "Applied"],
        (EXPOSURE, "shop"): ["Pending", "Exposing", "Exposed"],
        (FABRIC, "europe"): ["Pending", "Connecting", "Connected"],
    }


def test_every_resource_is_reported_as_it_is_and_a_second_dry_run_writes_nothing(lab: OperatorLab, edge: Workspace) -> None:
    with lab.operator(ALONE) as operator:
        settle(edge, operator)
        found = edge.resources()
        for (kind, name), phase in TRUE.items():
            obj = found[f"{kind}/{name}"]
            conditions = {entry["type"]: entry for entry in obj["status"]["conditions"]}
            assert conditions["Ready"]["status"] == str(phase != "Degraded")
            assert conditions["Degraded"]["status"] == str(phase == "Degraded")
            assert all(entry["reason"] and entry["lastTransitionTime"].endswith("Z") for entry in conditions.values())
            expected = [] if kind == FABRIC else [f"networking.edge-portal.eu/{kind.lower()}-cleanup"]
            assert obj["metadata"].get("finalizers", []) == expected
            assert columns(edge, kind, name)["Phase"] == phase
        assert {row["clusterName"] for row in edge.status(BINDING, "edge")["meshStatus"] if row["connected"]} == {"c1", "c2", "c3"}
        assert edge.status(SERVICE, "nginx")["exportedClusters"] == ["c1", "c2", "c3"] == edge.status(INTENT, "frontend")["appliedClusters"]
        assert columns(edge, FABRIC, "europe")["Links"] == columns(edge, FABRIC, "europe")["Ready"] == 6
        assert columns(edge, EXPOSURE, "shop")["Address"]

        record = edge.record("edge") or {}
        assert set(record["clusters"]) == {"c1", "c2", "c3"} and not record["tombstone"]
        made = {cluster: owned(lab.clusters, cluster, edge.owner("edge")) for cluster in ("c1", "c2", "c3")}
        for objects in made.values():
            assert {entry["metadata"]["annotations"]["cilium-mesh.edge-portal.eu/item"] for entry in objects} == {
                "connectivityIntents/frontend",
                "exposedServices/shop",
            }
            assert {entry["metadata"]["labels"]["edge-connect.eu/source-workspace"] for entry in objects} == {edge.tenant.cluster}
        before = written(lab, edge)
        wait_for_dry_runs(operator, 2)
        assert written(lab, edge) == before
        assert len(runs(operator)) <= 2, "resources come one after another, but not each gets a run of its own"
    with lab.operator(ALONE) as again:  # it remembers nothing
        wait_for_dry_runs(again, 1)
        assert written(lab, edge) == before
        assert runs(again) == []


def test_findings_that_block_nothing_reach_the_tenant_and_so_does_what_mesh_config_would_take(
    lab: OperatorLab, edge: Workspace, operator: OperatorProcess
) -> None:
    settle(edge, operator)
    edge.change(SERVICE, "nginx", failover={"detectWithin": "1s"})
    edge.change(BINDING, "edge", meshConfig={"serviceType": "NodePort"})

    codes = partial(codes_of, edge)
    operator.wait(lambda: "CM-GS-33" in codes(SERVICE, "nginx"), "the service says that no second can be promised")
    operator.wait(lambda: "CM-CFG-02" in codes(BINDING, "edge"), "the binding says that its meshConfig is not met")
    assert edge.phase(BINDING, "edge") == "Connected", "neither of them blocks"
    met = edge.condition(BINDING, "edge", "ConfigMet")
    assert met["status"] == "False" and "clustermesh.apiserver.service.type=NodePort" in met["message"]
    row = next(row for row in edge.status(BINDING, "edge")["findings"] if row["code"] == "CM-CFG-02")
    assert row["page"] == "docs/runbooks/CM-CFG-02.md" and row["cluster"] in ("c1", "c2", "c3") and row["fix"]
    assert row["severity"] == "remediable" and "clustermesh.apiserver.service.type=NodePort" in " ".join(row["fix"])
    (advice,) = [row for row in edge.status(SERVICE, "nginx")["findings"] if row["code"] == "CM-GS-33"]
    assert advice["severity"] == "advisory" and advice["page"] == "docs/runbooks/CM-GS-33.md" and advice["summary"]
    for kind, name, code in ((BINDING, "edge", "CM-CFG-02"), (SERVICE, "nginx", "CM-GS-33")):
        advised = edge.condition(kind, name, "Advised")
        assert (advised["status"], advised["reason"]) == ("True", "FindingsReported") and code in advised["message"]
        event = event_of(edge, kind, name, f"Finding{code.replace('-', '')}")
        assert event["type"] == "Normal" and event["message"].startswith(code)
    edge.merge(SERVICE, "nginx", {"spec": {"failover": None}})
    edge.merge(BINDING, "edge", {"spec": {"meshConfig": None}})
    operator.wait(lambda: "CM-GS-33" not in codes(SERVICE, "nginx") and not edge.condition(BINDING, "edge", "ConfigMet"), "both are gone")


def codes_of(tenant: Workspace, kind: str, name: str) -> set[str]:
    return {row["code"] for row in tenant.status(kind, name).get("findings") or ()}


def findings_in(recording: Recording, kind: str, name: str, code: str) -> list[Object]:
    """Every finding of that code that a status of the object had."""
    return [row for seen in recording.seen[kind, name] for row in seen.status.get("findings") or () if row["code"] == code]


def reasons_of_waiting(recording: Recording, kind: str, name: str) -> set[str]:
    """Reasons of the condition Ready while the object was Pending."""
    waiting = [seen.status for seen in recording.seen[kind, name] if seen.status.get("phase") == "Pending"]
    return {entry["reason"] for status in waiting for entry in status["conditions"] if entry["type"] == "Ready"}


def event_of(tenant: Workspace, kind: str, name: str, reason: str) -> Object:
    """The Event with that reason about an object, not about one that had its name before. It is written after the status."""
    uid = (tenant.get(kind, name) or {})["metadata"]["uid"]

    def about() -> list[Object]:
        found = tenant.client.list(f"/api/v1/namespaces/{tenant.tenant.home}/events")
        return [event for event in found if (event["involvedObject"]["uid"], event["reason"]) == (uid, reason)]

    (event,) = wait_for(about, what=f"an Event {reason} about {kind} {name}")
    return event


def columns(tenant: Workspace, kind: str, name: str) -> Object:
    """What `kubectl get` shows of it."""
    plural = kind.lower() + "s"
    path = f"/apis/networking.edge-portal.eu/v1alpha1/namespaces/{tenant.tenant.home}/{plural}/{name}"
    table = tenant.client.call("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io").json
    return dict(zip([entry["name"] for entry in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))


def runs(operator: OperatorProcess) -> list[str]:
    """How its runs ended."""
    return [event["state"] for event in operator.events() if event["event"] == "run_ended"]


def test_a_cut_link_shows_within_the_check_interval_and_so_does_a_healed_one(
    lab: OperatorLab, edge: Workspace, operator: OperatorProcess
) -> None:
    settle(edge, operator)
    connected_since = edge.condition(BINDING, "edge")["lastTransitionTime"]
    wait_for_dry_runs(operator, 1)
    assert edge.condition(BINDING, "edge")["lastTransitionTime"] == connected_since

    lab.clusters.lab.cut("c1", "c2")
    try:
        cut = time.monotonic()
        operator.wait(is_(edge, BINDING, "edge", "Degraded"), "it is degraded")
        assert time.monotonic() - cut < scaled(CHECK + 8), "a dry run itself takes a moment"
        broken = edge.condition(BINDING, "edge")
        assert broken["status"] == "False" and broken["lastTransitionTime"] > connected_since
        down = {(row["cluster"], row["peer"]) for row in edge.status(BINDING, "edge")["links"] if not row["ready"]}
        assert down == {("c1", "c2"), ("c2", "c1")}
        operator.wait(is_(edge, FABRIC, "europe", "Degraded"), "the fabric shows it too")
        operator.wait(lambda: "CM-INT-17" in codes_of(edge, INTENT, "frontend"), "the intent says which of its links is down")
        (row,) = [row for row in edge.status(INTENT, "frontend")["findings"] if row["code"] == "CM-INT-17"]
        assert (row["severity"], row["page"]) == ("remediable", "docs/runbooks/CM-INT-17.md") and row["cluster"] in ("c1", "c2")
        assert "the link of c1 to c2 is not ready" in row["summary"] and row["fix"] and "c1 -> c2" in broken["message"]
        wait_for_dry_runs(operator, 1)
        assert edge.condition(BINDING, "edge")["lastTransitionTime"] == broken["lastTransitionTime"]
    finally:
        lab.clusters.lab.heal("c1", "c2")
    settle(edge, operator)
    assert edge.condition(BINDING, "edge")["lastTransitionTime"] > broken["lastTransitionTime"]


def test_a_renewed_secret_is_used_at_once_and_a_cluster_that_is_not_ready_is_reported(
    lab: OperatorLab, edge: Workspace, operator: OperatorProcess, tmp_path: Path
) -> None:
    original = lab.clusters.lab.clusters["c2"].kubeconfig
    with administrator(lab.clusters, "c2", tmp_path / "renewed.yaml") as renewed:
        settle(edge, operator)
        credentials.token(lab.clusters, "c2", tmp_path / "broken.yaml", "no-such-token")
        edge.rotate("c2", tmp_path / "broken.yaml")
        operator.wait(is_(edge, BINDING, "edge", "Degraded"), "c2 cannot be asked")
        edge.rotate("c2", renewed)
        edge.change(INTENT, "frontend", ports=[{"protocol": "TCP", "port": 9090}])
        settle(edge, operator)
        (policy,) = lab.clusters.api("c2").list(POLICIES, label_selector=f"{OWNER}={edge.owner('edge')}")
        assert "9090" in str(policy["spec"])

        edge.set_ready("c2", False)
        operator.wait(is_(edge, BINDING, "edge", "Degraded"), "c2 is not ready")
        assert "c2" in edge.condition(BINDING, "edge")["message"]
        edge.set_ready("c2", True)
        settle(edge, operator)
        edge.rotate("c2", original)
        wait_for_dry_runs(operator, 1)  # with the original, before the renewed one ends


def test_a_binding_whose_links_are_another_s_is_never_reported_as_connected(
    lab: OperatorLab, edge: Workspace, operator: OperatorProcess
) -> None:
    settle(edge, operator)
    edge.create(BINDING, "twin", clusterRefs=edge.refs("c1", "c2"))
    operator.wait(is_(edge, BINDING, "twin", "Error"), "it cannot be carried out")
    refused, plays = edge.condition(BINDING, "twin"), len(runs(operator))
    assert refused["reason"] == "PrerequisiteNotMet" and refused["message"].startswith("CM-OWN-02 c1: ")
    (blocking, *_others) = edge.status(BINDING, "twin")["findings"]
    assert (blocking["code"], blocking["severity"], blocking["cluster"], blocking["peer"]) == ("CM-OWN-02", "blocking", "c1", "c2")
    assert blocking["page"] == "docs/runbooks/CM-OWN-02.md" and blocking["summary"] and blocking["fix"]
    assert event_of(edge, BINDING, "twin", "FindingCMOWN02")["type"] == "Warning"
    wait_for_dry_runs(operator, 6)
    assert (edge.phase(BINDING, "twin"), edge.condition(BINDING, "twin")) == ("Error", refused)
    assert all(row["ready"] for row in edge.status(BINDING, "twin")["links"]), "what was measured is reported all the same"
    assert len(runs(operator)) == plays, "another play could do no more"
    edge.delete(BINDING, "twin")
    gone(edge, operator, "twin")
    assert all_true(edge)


@contextmanager
def administrator(lab: MeshLab, cluster: str, place: Path) -> Iterator[Path]:
    """A kubeconfig with other credentials than those of the lab, which end with the block."""
    api, name = lab.api(cluster), "renewed"
    metadata = {"name": name, "namespace": "kube-system"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    api.create({**kind, "metadata": {"name": name}, "roleRef": role, "subjects": [{"kind": "ServiceAccount", **metadata}]})
    try:
        credentials.service_account(lab, cluster, place, name)
        yield place
    finally:
        api.delete(f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}")
        api.delete(f"/api/v1/namespaces/kube-system/serviceaccounts/{name}")


def test_an_operator_that_is_stopped_in_the_middle_of_a_run_leaves_nothing_and_the_next_one_ends_it(
    lab: OperatorLab, edge: Workspace, operator: OperatorProcess
) -> None:
    key = edge.key("edge")
    settle(edge, operator)
    edge.change(INTENT, "frontend", ports=[{"protocol": "TCP", "port": 7070}])
    operator.wait(lambda: len(run_processes(key)) > 1, "the play is at work")
    began = time.monotonic()
    assert operator.stop() == 0, operator.output()
    assert time.monotonic() - began < scaled(8)
    assert runs(operator)[-1] == "canceled"
    assert (run_folders(key), run_processes(key)) == ([], {})
    with lab.operator(ALONE) as following:
        settle(edge, following)


def test_a_replica_takes_over_from_a_leader_that_dies_and_no_mesh_is_ever_in_two_runs(lab: OperatorLab, edge: Workspace) -> None:
    key, seen, held, ended = edge.key("edge"), list[set[str]](), Event(), Event()

    def observe() -> None:
        while not ended.wait(0.05):
            processes = run_processes(key)
            seen.append(set(processes.values()))
            if processes and not held.is_set():  # the play must not be done before its operator is dead
                for pid in processes:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)
                held.set()

    with lab.operator(node="first") as first, lab.operator(node="second") as second:
        first.wait(lambda: leads(first) or leads(second), "one of them leads")
        leader, waiting = (first, second) if leads(first) else (second, first)
        settle(edge, leader)
        observer = Thread(target=observe)
        observer.start()
        try:
            edge.change(INTENT, "frontend", ports=[{"protocol": "TCP", "port": 6060}])
            leader.wait(held.is_set, "the play is at work")
            leader.kill()
            settle(edge, waiting)
        finally:
            ended.set()
            observer.join()
        assert leads(waiting)
        assert max(len(marks) for marks in seen) == 1 < len(set[str]().union(*seen))
    assert (run_folders(key), run_processes(key)) == ([], {})


def test_what_a_tenant_takes_back_goes_from_the_clusters(lab: OperatorLab, edge: Workspace, untouched: dict[str, Any]) -> None:
    clusters = lab.clusters
    with lab.operator(ALONE) as operator:
        settle(edge, operator)
    with pytest.raises(ApiError, match="cannot be changed"):
        edge.change(INTENT, "frontend", meshRef={"name": "side"})
    edge.delete(EXPOSURE, "shop")
    edge.change(BINDING, "edge", clusterRefs=edge.refs("c1", "c2"))

    with lab.operator(ALONE) as operator:
        operator.wait(lambda: edge.get(EXPOSURE, "shop") is None, "the exposure is gone")
        operator.wait(lambda: remembered(edge, "edge") == {"c1", "c2"}, "nothing of the mesh is left in c3")
        connected(edge, operator, "edge")
        kinds = {c: {entry["kind"] for entry in owned(clusters, c, edge.owner("edge"))} for c in clusters.names}
        assert kinds == {"c1": {"CiliumNetworkPolicy"}, "c2": {"CiliumNetworkPolicy"}, "c3": set()}
        assert within(everything(clusters), "c3") == within(untouched, "c3")

        for place in edge.resources():  # as the deletion of a namespace does it: all at once, in no order
            edge.delete(*place.split("/"))
        operator.wait(lambda: not edge.resources(), "no resource is left")
    assert edge.record("edge") is None
    assert everything(clusters) == untouched


def within(found: Mapping[str, Any], cluster: str) -> dict[str, Any]:
    return {path: entry for path, entry in found.items() if path.startswith(f"{cluster}/")}


def remembered(tenant: Workspace, binding: str) -> set[str]:
    """Clusters in which something may be left of a mesh."""
    return set((tenant.record(binding) or {}).get("clusters") or ())


@pytest.mark.usefixtures("unasked")
def test_a_mesh_that_cannot_be_cleaned_is_released_and_pruned_when_its_cluster_is_back(
    lab: OperatorLab, untouched: dict[str, Any], tmp_path: Path
) -> None:
    leaving, files = lab.workspace("leaving", "c1", "c2", "c3"), lab.clusters.lab.clusters
    leaving.add("lost", kubeconfig=files["c3"].kubeconfig)
    leaving.add("dark", kubeconfig=files["c2"].kubeconfig)
    flags = (ALONE, "--orphan-grace", "2s", "--mesh-check-interval", "5s")  # what hangs is tried again that often
    pairs = {"gone": ("c1", "lost"), "abandoned": ("c1", "dark"), "bare": ("c2", "c3")}
    with lab.operator(*flags) as operator:
        for name, refs in pairs.items():
            leaving.create(BINDING, name, clusterRefs=leaving.refs(*refs))
        connected(leaving, operator, *pairs)

    leaving.lose("lost")
    credentials.unreachable(lab.clusters, "c2", tmp_path / "dark.yaml")
    leaving.rotate("dark", tmp_path / "dark.yaml")
    leaving.merge(BINDING, "bare", {"metadata": {"finalizers": []}})
    for name in pairs:
        leaving.delete(BINDING, name)
    assert leaving.get(BINDING, "bare") is None and leaving.record("bare") is not None

    with lab.operator(*flags) as operator:
        gone(leaving, operator, "gone")
        record = leaving.record("gone") or {}
        assert record["tombstone"] and record["clusters"] == ["lost"]
        operator.wait(lambda: leaving.record("bare") is None, "what was left without a resource is taken away")

        held = leaving.get(BINDING, "abandoned") or {}
        assert held["metadata"]["finalizers"] == ["networking.edge-portal.eu/clustermeshbinding-cleanup"]
        leaving.merge(BINDING, "abandoned", {"metadata": {"annotations": {"networking.edge-portal.eu/abandon": "true"}}})
        gone(leaving, operator, "abandoned")
        assert (leaving.record("abandoned") or {})["tombstone"]

    leaving.add("lost", kubeconfig=files["c3"].kubeconfig)
    leaving.rotate("dark", files["c2"].kubeconfig)
    with lab.operator(*flags) as operator:
        for name in pairs:
            operator.wait(partial(is_forgotten, leaving, name), f"nothing is left of {name}")
    assert everything(lab.clusters) == untouched


@pytest.mark.usefixtures("unasked")
def test_a_mesh_that_was_refused_before_its_first_write_is_deleted_at_once_though_a_cluster_is_silent(
    lab: OperatorLab, tmp_path: Path, untouched: dict[str, Any]
) -> None:
    late = lab.workspace("late", "c1")
    credentials.unreachable(lab.clusters, "c2", tmp_path / "silent.yaml")
    late.add("silent", kubeconfig=tmp_path / "silent.yaml")
    with lab.operator(ALONE) as operator:
        late.create(BINDING, "late", clusterRefs=late.refs())
        operator.wait(is_(late, BINDING, "late", "Error"), "it says that a cluster does not answer")
        late.delete(BINDING, "late")
        gone(late, operator, "late")
    assert late.record("late") is None
    assert everything(lab.clusters) == untouched


@pytest.mark.usefixtures("unasked")
def test_an_operator_that_is_killed_at_any_moment_loses_nothing(lab: OperatorLab, untouched: dict[str, Any]) -> None:
    if lab.namespaces:
        pytest.skip("a real API server loses no answer on demand; with the double of kcp the same operator is killed there")
    tenant = lab.workspace("killed", "c1", "c2")
    key, no_writes = tenant.key("edge"), partial(lab.world.faults.silence, plural="clustermeshbindings", verbs=("patch",))

    @contextmanager
    def killed() -> Iterator[OperatorProcess]:
        """An operator that is killed at the end of the block. It has removed first of all what the one before it left."""
        left = run_folders(key)
        with lab.operator(ALONE) as operator:
            yield operator
            operator.kill()
        assert not any(folder.exists() for folder in left)

    tenant.create(BINDING, "edge", clusterRefs=tenant.refs())
    with killed() as operator, no_writes() as refused:
        at_once(lambda: refused.met, "the finalizer is about to be written", operator)
    assert tenant.record("edge") is None and everything(lab.clusters) == untouched

    with killed() as operator:
        at_once(lambda: run_folders(key), "the inventory is being written", operator)
    assert tenant.record("edge") is not None and (tenant.get(BINDING, "edge") or {})["metadata"]["finalizers"]

    with killed() as operator:
        at_once(lambda: "c2" in lab.clusters.secret("c1", "cilium-clustermesh"), "the play writes", operator)
    assert run_folders(key)

    with killed() as operator:
        at_once(lambda: run_folders(key), "the play begins", operator)
        with no_writes() as refused:
            at_once(lambda: refused.met, "the status is about to be written", operator)
    assert tenant.phase(BINDING, "edge") == "Connecting", "what the play came to was never written"

    with lab.operator(ALONE) as operator:
        connected(tenant, operator, "edge")
        tenant.delete(BINDING, "edge")
        at_once(lambda: run_folders(key), "the mesh is being taken away", operator)
        with no_writes() as refused:
            at_once(lambda: refused.met, "the finalizer is about to be taken off", operator)
            operator.kill()
    assert (tenant.get(BINDING, "edge") or {})["metadata"]["finalizers"]

    with lab.operator(ALONE) as operator:
        gone(tenant, operator, "edge")
        operator.wait(lambda: tenant.record("edge") is None, "nothing is remembered")
    assert (run_folders(key), run_processes(key)) == ([], {})
    assert everything(lab.clusters) == untouched


def at_once(holds: Callable[[], object], what: str, operator: OperatorProcess) -> None:
    """Wait for what lasts a moment only."""
    operator.wait(holds, what, every=0.005)

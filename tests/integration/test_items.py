# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Items of a mesh as their users meet them: carried out one by one, each with its status, whatever happens to the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration import credentials
from tests.integration.labs import THREE_119, THREE_120
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import ApiError
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

pytestmark = pytest.mark.lab(THREE_119, use=2, gate=THREE_120)

ITEM = "cilium-mesh.edge-portal.eu/item"
NAMESPACE = "shop"
POLICIES = f"/apis/cilium.io/v2/namespaces/{NAMESPACE}/ciliumnetworkpolicies"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def lab(module_lab: MeshLab) -> MeshLab:
    """Two clusters with a namespace and two Services in each."""
    made = module_lab
    for name in made.names:
        made.api(name).create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for service in ("web", "api"):
            spec = {"selector": {"app": service}, "ports": [{"name": "http", "port": 80}]}
            body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": service, "namespace": NAMESPACE}, "spec": spec}
            made.api(name).create(body)
            made.api(name).create(_slice(service))
    return made


def _slice(service: str) -> dict[str, Any]:
    """A backend that is ready. Not managed by the endpointslice-controller, which the lab runs and which knows of no such pod."""
    labels = {"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": "another-controller"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{service}-1", "namespace": NAMESPACE, "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.1.0.9"], "conditions": {"ready": True}}],
    }


def intent(name: str, port: Any = 8080) -> dict[str, Any]:
    side = {"namespace": NAMESPACE, "name": name}
    ports = [{"protocol": "TCP", "port": port}]
    return {"name": name, "action": "Allow", "source": {"namespace": NAMESPACE, "name": "web"}, "destination": side, "ports": ports}


def service(name: str) -> dict[str, Any]:
    return {"name": name, "selector": {"namespace": NAMESPACE, "name": name}}


def mesh(lab: MeshLab, *intents: Mapping[str, Any], services: tuple[Mapping[str, Any], ...] = ()) -> dict[str, Any]:
    return {**lab.mesh(), "globalServices": list(services), "connectivityIntents": list(intents)}


def phases(run: PlaybookRun) -> dict[str, str]:
    """Of all items, by name."""
    status = run.result["status"]
    return {row["name"]: row["phase"] for key in ("globalServices", "connectivityIntents") for row in status[key]}


def made_for(lab: MeshLab, cluster: str) -> set[str]:
    """Items that have a policy in the cluster."""
    return {policy["metadata"]["annotations"][ITEM].partition("/")[2] for policy in lab.api(cluster).list(POLICIES)}


def exported(lab: MeshLab, cluster: str) -> bool:
    """Is there anything of ours, or of Cilium's, on Service web?"""
    web = lab.api(cluster).get(f"/api/v1/namespaces/{NAMESPACE}/services/web")
    return any("cilium" in key for key in ((web or {})["metadata"].get("annotations") or {}))


def given(lab: MeshLab, *intents: str, web: bool = False) -> None:
    """A connected mesh with these intents, and with Service web global if asked for. Nothing is run where it is so already."""
    if all(made_for(lab, name) == set(intents) and exported(lab, name) >= web for name in lab.names):
        return
    run = lab.play("mesh", mesh=mesh(lab, *map(intent, intents), services=(service("web"),)))
    assert run.rc == 0, run.output


def parted(lab: MeshLab) -> None:
    """The two clusters without items and without links."""
    if lab.secret("c1", "cilium-clustermesh"):
        for playbook in ("mesh", "disconnect"):
            run = lab.play(playbook, mesh=mesh(lab))
            assert run.rc == 0, run.output


def requests(run: PlaybookRun) -> dict[str, int]:
    """As the action that carries items out counted them; the last action of the run."""
    found: dict[str, int] = {}
    for event in map(json.loads, run.events):
        result = (event.get("event_data") or {}).get("res") or {}
        found = result.get("requests") or found
    return found


@contextmanager
def refusing(lab: MeshLab, cluster: str, item: str) -> Iterator[None]:
    """The API server of the cluster itself refuses every policy of one item."""
    name = "refuse-one"
    rule = f"!has(object.metadata.annotations) || object.metadata.annotations['{ITEM}'] != '{item}'"
    match = {"apiGroups": ["cilium.io"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["ciliumnetworkpolicies"]}
    version = "admissionregistration.k8s.io/v1"
    policy = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [match]}, "validations": [{"expression": rule}]}
    binding = {"policyName": name, "validationActions": ["Deny"]}
    api = lab.api(cluster)
    for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)):
        api.create({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
    body = {"apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy", "spec": {"endpointSelector": {}, "ingress": [{}]}}
    body["metadata"] = {"name": "trial", "namespace": NAMESPACE, "annotations": {ITEM: item}}
    # The API server takes a moment to know the policy, and to forget it.
    wait_for(lambda: _accepted(lab, cluster, body), equals(False), what="the API server refuses the policy")
    try:
        yield
    finally:
        api.delete(f"{ADMISSION}/validatingadmissionpolicybindings/{name}")
        api.delete(f"{ADMISSION}/validatingadmissionpolicies/{name}")
        wait_for(lambda: _accepted(lab, cluster, body), what="the API server takes the policy again")


def _accepted(lab: MeshLab, cluster: str, body: dict[str, Any]) -> bool:
    try:
        lab.api(cluster).create(body)
    except ApiError:
        return False
    lab.api(cluster).delete(f"{POLICIES}/{body['metadata']['name']}")
    return True


def test_items_wait_for_the_mesh_and_check_mode_knows_what_connecting_first_would_do(lab: MeshLab) -> None:
    parted(lab)
    wanted = mesh(lab, intent("api"), services=(service("web"),))
    waiting = lab.play("policies", mesh=wanted, own_process=True)
    assert waiting.rc != 0 and "Traceback" not in waiting.output
    assert (phases(waiting), waiting.result["changed"], waiting.result["requeueSeconds"]) == ({"api": "Pending"}, False, 30)
    assert "CM-ITEM-03" in waiting.finding_codes()
    before = lab.snapshot(volatile=True)
    promised = lab.play("mesh", mesh=wanted, arguments=["--check"], own_process=True)
    assert promised.rc == 0, promised.output
    assert lab.snapshot(volatile=True) == before
    done = lab.play("mesh", mesh=wanted)
    assert done.rc == 0, done.output
    assert [step["object"] for step in promised.result["plan"]["steps"]] == [step["object"] for step in done.result["plan"]["steps"]]
    assert phases(done) == {"web": "Exported", "api": "Applied"}
    again = lab.play("services", mesh=wanted)
    assert (again.rc, again.changed, again.result["plan"]["steps"], phases(again)) == (0, 0, [], {"web": "Exported"})


def test_a_cluster_that_refuses_one_object_gets_all_others(lab: MeshLab) -> None:
    given(lab, "api")
    wanted = mesh(lab, intent("api"), intent("web"), intent("db"))
    with refusing(lab, "c1", "connectivityIntents/db"):
        run = lab.play("policies", mesh=wanted)
    assert run.rc != 0 and "Traceback" not in run.output
    assert phases(run) == {"web": "Applied", "api": "Applied", "db": "Degraded"}
    assert (made_for(lab, "c1"), made_for(lab, "c2")) == ({"api", "web"}, {"api", "web", "db"})
    row = next(row for row in run.result["status"]["connectivityIntents"] if row["name"] == "db")
    assert row["appliedClusters"] == ["c2"]
    degraded = next(entry for entry in row["conditions"] if entry["type"] == "Degraded")
    assert (degraded["status"], "c1" in degraded["message"]) == ("True", True)
    (finding,) = [f for f in run.result["findings"] if f["severity"] == "blocking"]
    assert (finding["cluster"], finding["item"]) == ("c1", "connectivityIntents/db")
    repaired = lab.play("policies", mesh=wanted)
    assert repaired.rc == 0, repaired.output
    assert phases(repaired)["db"] == "Applied"
    assert made_for(lab, "c1") == {"api", "web", "db"}


def test_bad_input_refuses_its_item_keeps_its_good_state_and_stops_no_other(lab: MeshLab) -> None:
    given(lab, "api", "web", "db")
    policies = {p["metadata"]["name"]: p["spec"] for p in lab.api("c1").list(POLICIES)}
    run = lab.play("policies", mesh=mesh(lab, intent("api", 70000), intent("web"), intent("db"), intent("queue")))
    assert run.rc != 0
    assert phases(run) == {"api": "Error", "web": "Applied", "db": "Applied", "queue": "Applied"}
    row = run.result["status"]["connectivityIntents"][0]
    accepted = next(entry for entry in row["conditions"] if entry["type"] == "Accepted")
    assert (accepted["status"], accepted["reason"], "70000" in accepted["message"]) == ("False", "SpecInvalid", True)
    now = {p["metadata"]["name"]: p["spec"] for p in lab.api("c1").list(POLICIES)}
    assert {name: now[name] for name in policies} == policies
    assert made_for(lab, "c1") == made_for(lab, "c2") == {"api", "web", "db", "queue"}, "the new one is carried out all the same"


def test_a_silent_cluster_is_left_and_named_and_served_when_it_is_back(lab: MeshLab, tmp_path: Path) -> None:
    given(lab, "api", "web", "db")
    gone = credentials.unreachable(lab, "c2", tmp_path / "kubeconfig")
    run = lab.play("policies", mesh=mesh(lab, intent("web")), hosts=gone)
    assert run.rc == 2 and "No answer from 1 member (c2)" in run.output and "Traceback" not in run.output
    assert (phases(run), made_for(lab, "c1"), made_for(lab, "c2")) == ({"web": "Degraded"}, {"web"}, {"api", "web", "db"})
    assert ("CM-API-01", "c2") in {(f["code"], f["cluster"]) for f in run.result["findings"]}
    back = lab.play("policies", mesh=mesh(lab, intent("web")))
    assert (back.rc, phases(back), made_for(lab, "c2")) == (0, {"web": "Applied"}, {"web"})


def test_only_the_approved_plan_is_carried_out(lab: MeshLab) -> None:
    given(lab, "web")
    wanted = mesh(lab, intent("api"))
    approved = lab.play("policies", mesh=wanted, arguments=["--check"]).result["plan"]["hash"]
    lab.api("c1").create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "unrelated", "namespace": NAMESPACE}, "spec": _SPEC})
    other = lab.play("policies", mesh=mesh(lab, intent("api"), intent("db")), network_policy_hash=approved)
    assert (other.rc != 0, other.result["changed"], "CM-PLAN-01" in other.finding_codes()) == (True, False, True)
    done = lab.play("policies", mesh=wanted, network_policy_hash=approved)
    assert (done.rc, made_for(lab, "c1")) == (0, {"api"}), done.output
    lab.api("c1").delete(f"/api/v1/namespaces/{NAMESPACE}/services/unrelated")


_SPEC = {"ports": [{"port": 80}]}


def test_the_number_of_reads_does_not_grow_with_the_number_of_items(lab: MeshLab) -> None:
    few, many = (mesh(lab, *(intent(f"i{n}") for n in range(number)), services=(service("web"),)) for number in (1, 40))
    runs = [lab.play("mesh", mesh=wanted, arguments=["--check"]) for wanted in (few, many)]
    assert [run.rc for run in runs] == [0, 0]
    counts = [requests(run) for run in runs]
    assert counts[0] == counts[1] and counts[0]["c1"] > 0


def test_what_is_not_in_the_file_any_more_goes_and_absent_takes_the_rest_without_links(lab: MeshLab, tmp_path: Path) -> None:
    given(lab, "api", web=True)
    fewer = lab.play("mesh", mesh=mesh(lab, intent("db")))
    assert (fewer.rc, made_for(lab, "c1")) == (0, {"db"})
    assert not exported(lab, "c1")
    gone = credentials.unreachable(lab, "c2", tmp_path / "kubeconfig")
    absent = lab.play("policies", mesh=mesh(lab, intent("db")), hosts=gone, network_policy_state="absent")
    assert (absent.rc, made_for(lab, "c1"), made_for(lab, "c2")) == (2, set(), {"db"}), absent.output
    rest = lab.play("policies", mesh=lab.mesh(), network_policy_state="absent")
    assert (rest.rc, made_for(lab, "c2")) == (0, set())
    assert lab.play("policies", mesh=lab.mesh(), network_policy_state="absent").changed == 0

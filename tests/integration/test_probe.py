# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Probes as their users meet them: what flows and connections say becomes proven, refuted or unknown, and nothing is left afterwards.

Real API servers, Job, TTL and EndpointSlice controllers. Flows are the test's (the lab has no datapath); the command of a Job really runs
and makes real connections to listeners of this machine.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.clocks import real_clocks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.evidence.clusters import ClusterEvidence
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import observe
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.traffic import read_all_traffic
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.limits import Limits
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.outcome import Reachability
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.run import run_probes
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.scene import observe_scene
from tests.collection_path import CHECKOUT
from tests.integration.labs import TWO_118
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import Object
from tests.testing.flow_builders import flow, side
from tests.testing.waiting import wait_for

pytestmark = pytest.mark.lab(TWO_118)

NAMESPACE = "shop"
IMAGE = "registry.example/busybox:1.36"
QUICK = Limits(settle=0.0, poll=0.2, job_seconds=20, job_ttl=2)
START = "from tests.collection_path import link; link(); from tests.integration.test_probe import main"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def deployment(name: str) -> Object:
    container = {"name": "main", "image": "registry.example/app:1", "ports": [{"containerPort": 8080}]}
    template = {"metadata": {"labels": {"app": name, "tier": "web"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def intent(action: str, target: str, **probe: Any) -> dict[str, Any]:
    return {
        "name": f"{action.lower()}-{target}",
        "action": action,
        "source": {"namespace": NAMESPACE, "name": "frontend", "clusters": ["c1"]},
        "destination": {"namespace": NAMESPACE, "name": target, "clusters": ["c2"]},
        "ports": [{"protocol": "TCP", "port": 8080}],
        "probe": {"enabled": True, **probe},
    }


ALLOW, DENY = intent("Allow", "backend"), intent("Deny", "vault")


@dataclass
class Ground:
    """Two connected clusters with the policies of both intents in force."""

    lab: MeshLab
    first: Mapping[str, Any]  # rows of the run that wrote them, by name

    @property
    def variable(self) -> dict[str, Any]:
        return {**self.lab.mesh(), "connectivityIntents": [ALLOW, DENY]}

    def pod(self, cluster: str, app: str) -> Object:
        (found,) = [pod for pod in self.lab.api(cluster).list(PODS, label_selector=f"app={app}") if not is_probe(pod)]
        return found

    def flow(self, target: str, verdict: str = "FORWARDED", **fields: Any) -> str:
        """One that an agent of c2 saw just now."""
        source = side("c1", "frontend-1", namespace=NAMESPACE, app="frontend", tier="web")
        destination = side("c2", f"{target}-1", namespace=NAMESPACE, app=target, tier="web")
        kind = "drop" if verdict == "DROPPED" else "trace"
        node = f"c2/{self.pod('c2', target)['spec']['nodeName']}"
        return flow(verdict, kind=kind, time=datetime.now(UTC), source=source, destination=destination, node=node, **fields)

    def show(self, *lines: str) -> None:
        self.lab.lab.trials("c2").show(lines)

    def route(self, target: str, listener: str) -> None:
        """What is behind the address of the target's pod; "" lets bytes vanish."""
        address = f"{self.pod('c2', target)['status']['podIP']}:8080"
        self.lab.lab.trials("c1").lead({address: listener} if listener else {})

    def probe(self, *intents: Mapping[str, Any], phase: str = "Connected", limits: Limits = QUICK) -> dict[str, Reachability]:
        paths = {name: str(self.lab.lab.clusters[name].kubeconfig) for name in self.lab.names}
        return probe(paths, [*intents], self.lab.mesh(), phase, limits)

    def jobs(self) -> list[Object]:
        return [job for name in self.lab.names for job in self.lab.api(name).list("/apis/batch/v1/jobs")]

    def left(self) -> list[str]:
        """Names of the Jobs of probes, and of their pods."""
        pods = [pod for name in self.lab.names for pod in self.lab.api(name).list(PODS) if is_probe(pod)]
        return [item["metadata"]["name"] for item in (*self.jobs(), *pods)]

    def wait_empty(self) -> None:
        """Wait until neither a Job nor a pod of one is left."""
        wait_for(self.left, lambda left: not left, what="nothing is left of the probes")


def is_probe(pod: Object) -> bool:
    return "annotation.cilium-mesh.edge-portal.eu/probe" in pod["metadata"]["labels"]


def probe(kubeconfigs: Mapping[str, str], intents: list[Any], mesh: Any, phase: str, limits: Limits) -> dict[str, Reachability]:
    """One run of the engine's probes, as after writes."""
    parsed = parse({**mesh, "connectivityIntents": intents}, list(kubeconfigs))
    desired = desired_of({"connectivityIntents": intents}, parsed)
    assert not desired.refused
    accesses = [ClusterAccess(host=host, kubeconfig=path, context=None) for host, path in kubeconfigs.items()]
    with observe(accesses) as observation:
        scene = observe_scene(read_all_traffic, observation, parsed, [ItemKind.INTENT], now=datetime.now(UTC))
        scene = replace(scene, phase=phase, link_errors={})
        evidence = ClusterEvidence(observation.clusters, real_clocks())
        return run_probes(desired.each(ConnectivityIntent), scene, evidence, now=datetime.now(UTC), limits=limits)


@pytest.fixture(scope="module")
def ground(module_lab: MeshLab) -> Ground:
    lab = module_lab
    for cluster, apps in (("c1", ("frontend",)), ("c2", ("backend", "vault"))):
        api = lab.api(cluster)
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for app in apps:
            api.create(deployment(app))
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    service = {
        "kind": "Service",
        "metadata": {"name": "frontend", "namespace": NAMESPACE},
        "spec": {"selector": {"app": "frontend"}, "ports": ports},
    }
    lab.api("c1").create({"apiVersion": "v1", **service})
    made = Ground(lab, {})
    run = lab.play("mesh", mesh=made.variable)
    assert run.rc == 0, run.output
    made.first = {row["name"]: row for row in run.result["status"]["connectivityIntents"]}
    return made


@contextmanager
def listening() -> Iterator[str]:
    """A listener of this machine that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def refusing() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_playbook_claims_nothing_that_was_not_seen(ground: Ground) -> None:
    for name in ("allow-backend", "deny-vault"):
        row = ground.first[name]
        status = row["probeStatus"]
        assert (row["phase"], status["result"], status["method"]) == ("Applied", "unknown", "none"), status
        assert "success" not in status
        assert "hubble observe on node c2-node1 of c2 ended with exit code 1" in status["message"]  # no server: no agent wrote flows yet
        (reachable,) = [entry for entry in row["conditions"] if entry["type"] == "Reachable"]
        assert (reachable["status"], reachable["reason"]) == ("Unknown", "ProbeUnknown")


def test_flows_of_agents_prove_and_refute(ground: Ground) -> None:
    ground.show(ground.flow("backend"), ground.flow("vault", "DROPPED", drop_reason_desc="POLICY_DENY"), "not a flow")
    found = ground.probe(ALLOW, DENY)
    assert [(r.result, r.method) for r in found.values()] == [("proven", "hubble")] * 2, found
    assert found["deny-vault"].evidence[0].endswith("TCP 8080: DROPPED (POLICY_DENY)")

    ground.show(ground.flow("backend", "DROPPED"), ground.flow("vault"))
    assert [r.result for r in ground.probe(ALLOW, DENY).values()] == ["refuted", "refuted"]

    others = (
        ground.flow("backend", is_reply=True),
        ground.flow("backend", l4={"TCP": {"source_port": 1, "destination_port": 9090}}),
        ground.flow("vault", node_name="c2/another-node"),
    )
    ground.show(*others)
    found = ground.probe(ALLOW, DENY)
    assert [r.result for r in found.values()] == ["unknown", "unknown"], found
    assert "no flow between the two was recorded since" in found["allow-backend"].message


def test_a_job_connects_for_real_and_leaves_nothing(ground: Ground) -> None:
    ground.show()
    allow, deny = intent("Allow", "backend", image=IMAGE), intent("Deny", "vault", image=IMAGE)
    with listening() as listener:
        ground.route("backend", listener)
        proven = ground.probe(allow)["allow-backend"]
        ground.route("vault", listener)
        refuted = ground.probe(deny)["deny-vault"]
    assert (proven.result, proven.method, refuted.result, refuted.method) == ("proven", "job", "refuted", "job"), (proven, refuted)
    address = ground.pod("c2", "backend")["status"]["podIP"]
    assert proven.evidence[0].startswith(f"Job {NAMESPACE}/allow-backend-") and f"in c2 {address}:8080: connected" in proven.evidence[0]

    ground.route("backend", refusing())
    reset = ground.probe(allow)["allow-backend"]
    assert (reset.result, reset.method) == ("unknown", "job") and "the connection was refused" in reset.message
    ground.route("backend", "")
    assert ground.probe(allow)["allow-backend"].result == "refuted"
    assert ground.probe(allow, phase="")["allow-backend"].result == "unknown"
    silent = ground.probe(deny)["deny-vault"]
    assert silent.result == "unknown" and "timed out, which alone is no proof of a denial" in silent.message
    ground.show(ground.flow("vault", "DROPPED"))
    denied = ground.probe({**deny, "probe": {**deny["probe"], "method": "job"}})["deny-vault"]
    assert (denied.result, denied.method, len(denied.evidence)) == ("proven", "job", 2), denied
    ground.wait_empty()


def test_the_pod_of_a_job_gets_no_traffic_and_has_no_label_of_its_own(ground: Ground) -> None:
    """While it runs: the real EndpointSlice controller takes it for a backend of the source's Service, and never for a ready one."""
    ground.show()
    ground.route("backend", "")
    api = ground.lab.api("c1")
    seen: list[tuple[Object, list[Object]]] = []
    with subprocess.Popen(child(ground, intent("Allow", "backend", image=IMAGE)), env=environment()) as process:
        while process.poll() is None:
            for pod in filter(is_probe, api.list(PODS)):
                slices = api.list(f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices")
                endpoints = [endpoint for entry in slices for endpoint in entry.get("endpoints") or []]
                seen.append((pod, [e for e in endpoints if e["targetRef"]["name"] == pod["metadata"]["name"]]))
            time.sleep(0.1)
    assert process.returncode == 0
    running = [(pod, endpoints) for pod, endpoints in seen if pod["status"].get("phase") == "Running" and endpoints]
    assert running, "the pod was never seen at work"
    assert all(endpoint["conditions"]["ready"] is False for _pod, endpoints in running for endpoint in endpoints)
    frontend, (pod, _endpoints) = ground.pod("c1", "frontend"), running[0]
    own = {key for key in pod["metadata"]["labels"] if not key.startswith("annotation.")}
    assert own == {"app", "tier"} == set(frontend["metadata"]["labels"]) - {"pod-template-hash"}
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "Job"
    assert [ref["kind"] for ref in ground.pod("c1", "frontend")["metadata"]["ownerReferences"]] == ["ReplicaSet"]
    ground.wait_empty()


def test_what_a_killed_run_leaves_goes_by_itself_or_with_the_next_run(ground: Ground) -> None:
    ground.show()
    ground.route("backend", "")
    wanted = intent("Allow", "backend", image=IMAGE)
    kill_when_a_job_is_there(ground, wanted)
    assert len(ground.jobs()) == 1
    ground.wait_empty()  # its own end, and then Kubernetes' clock

    kill_when_a_job_is_there(ground, wanted, job_ttl=600)
    wait_for(lambda: ended(ground.jobs()[0]), what="the Job has ended")
    with listening() as listener:
        ground.route("backend", listener)
        assert ground.probe(wanted)["allow-backend"].result == "proven"
    ground.wait_empty()


def ended(job: Object) -> bool:
    return any(entry["type"] in ("Complete", "Failed") for entry in job.get("status", {}).get("conditions") or [])


def kill_when_a_job_is_there(ground: Ground, wanted: Mapping[str, Any], **limits: Any) -> None:
    with subprocess.Popen(child(ground, wanted, **limits), env=environment()) as process:
        while process.poll() is None and not ground.jobs():
            time.sleep(0.02)
        assert process.poll() is None, "the run ended before its Job was seen"
        os.kill(process.pid, signal.SIGKILL)


def child(ground: Ground, wanted: Mapping[str, Any], **limits: Any) -> list[str]:
    paths = {name: str(ground.lab.lab.clusters[name].kubeconfig) for name in ground.lab.names}
    task = json.dumps({"kubeconfigs": paths, "intents": [wanted], "mesh": ground.lab.mesh(), "limits": limits})
    return [sys.executable, "-c", f"{START}; main()", task]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(CHECKOUT)}


def main() -> None:
    """A run in a process of its own."""
    task = json.loads(sys.argv[1])
    probe(task["kubeconfigs"], task["intents"], task["mesh"], "Connected", replace(QUICK, **task["limits"]))

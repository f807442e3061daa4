# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How readers are asked: in which order, which of them, and what is said of those that do not answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, Forbidden, ServerRefused, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, ExecResult
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, LinkFacts, ReaderFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.health import read_links
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.node_health import COMMAND
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.workloads import workload_facts
from tests.testing.observed_objects import deployment, pod

PEERS = {"edge-2": "c2", "edge-3": "c3"}
NO = Unreachable("pods cannot be reached.")
FACTS = ClusterFacts(host="edge-1", uid="u", namespace="kube-system", apiserver=workload_facts(deployment(), "Deployment"))
WITHOUT_KVSTOREMESH = ClusterFacts(host="edge-1", uid="u", namespace="kube-system")


def ready(name: str) -> dict[str, Any]:
    return {"name": name, "ready": True, "connected": True}


def waiting(name: str) -> dict[str, Any]:
    return {"name": name, "status": "Waiting for initial connection to be established"}


def metrics(**peers: int) -> str:
    return "".join(f'cilium_kvstoremesh_remote_cluster_readiness_status{{target_cluster="{n}"}} {v}\n' for n, v in peers.items())


class PlayedCluster:
    """Answers like a Cluster; an answer that is an error is raised. ``said`` lists what was asked, pod by pod."""

    host = "edge-1"
    namespace = "kube-system"

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "list": [pod("mesh-1", "clustermesh-apiserver"), pod("agent-1", "cilium")],
            "metrics": metrics(c2=1, c3=1),
            "mesh": [ready("c2"), ready("c3")],
            "agent": {"cluster-mesh": {"clusters": [ready("c2"), ready("c3")]}},
            "forward": NO,
            "troubleshoot": "",
            "health": {"nodes": []},
            "shell": "",
            "exit_code": 0,
            **answers,
        }
        self.said: list[str] = []

    def _answer(self, key: str) -> Any:
        found = self.answers[key]
        if isinstance(found, ClusterError):
            raise found
        return found

    def list(self, path: str, *, label_selector: str = "") -> Any:
        return self._answer("list")

    def get_text(self, path: str) -> str:
        self.said.append("metrics " + path.rsplit("/", 3)[1])
        return cast(str, self._answer("metrics"))

    def exec(self, pod: str, container: str, command: Sequence[str], *, timeout: float = 10.0, partial: bool = False) -> ExecResult:
        self.said.append(f"exec {pod}/{container} {' '.join(command)}")
        key = "troubleshoot" if "troubleshoot" in command else "mesh" if container == "kvstoremesh" else "agent"
        if tuple(command) == COMMAND:
            self._answer("shell")
            health = self._answer("health")
            output = json.dumps(self._answer(key)) + (f"\n---\n{json.dumps(health)}\n" if health else "")
            return ExecResult(stdout=output, stderr="", exit_code=self.answers["exit_code"])
        found = self._answer(key)
        return ExecResult(stdout=found if isinstance(found, str) else json.dumps(found), stderr="", exit_code=self.answers["exit_code"])

    def forward_get(self, pod: str, port: int, path: str) -> str:
        self.said.append(f"forward {pod}:{port}{path}")
        return json.dumps(self._answer("forward"))

    def asked(self, word: str) -> Sequence[str]:
        return [line for line in self.said if word in line]


def read(cluster: PlayedCluster, facts: ClusterFacts = FACTS) -> ReaderFacts:
    return read_links(cast(Cluster, cluster), facts, PEERS)


def links(found: ReaderFacts, reader: str) -> dict[str, LinkFacts]:
    return {link.peer: link for link in found.links if link.reader == reader}


def test_when_metrics_call_every_peer_ready_nothing_is_executed_in_kvstoremesh() -> None:
    cluster = PlayedCluster()
    found = links(read(cluster), "kvstoremesh")
    assert cluster.asked("kvstoremesh") == [] and len(cluster.asked("metrics")) == 1
    assert {p: (link.known, link.ready, link.source, link.node) for p, link in found.items()} == {
        "edge-2": (True, True, "metrics", "node-of-mesh-1"),
        "edge-3": (True, True, "metrics", "node-of-mesh-1"),
    }


def test_a_peer_that_is_not_ready_is_looked_at_in_detail() -> None:
    output = 'Cluster "c3":\n❌ Cannot establish TCP connection to x:2379: connection refused\n'
    cluster = PlayedCluster(metrics=metrics(c2=1, c3=0), mesh=[ready("c2"), waiting("c3")], troubleshoot=output)
    found = links(read(cluster), "kvstoremesh")
    assert (found["edge-2"].ready, found["edge-2"].source, found["edge-2"].stage_hint) == (True, "exec", "")
    assert (found["edge-3"].ready, found["edge-3"].stage_hint) == (False, "dialling")
    assert "connection refused" in found["edge-3"].error
    [command] = cluster.asked("troubleshoot")
    assert command == "exec mesh-1/kvstoremesh /usr/bin/clustermesh-apiserver kvstoremesh-dbg troubleshoot --timeout=2s c3"


def test_a_peer_that_lets_us_in_but_allows_nothing_is_about_authorisation() -> None:
    stuck = {"name": "c3", "connected": True, "status": "etcd: 1/1 connected"}
    output = 'Cluster "c3":\n❌ Failed to retrieve key from etcd: etcdserver: permission denied\n'
    cluster = PlayedCluster(metrics=NO, mesh=[ready("c2"), stuck], troubleshoot=output)
    found = links(read(cluster), "kvstoremesh")
    assert (found["edge-3"].connected, found["edge-3"].stage_hint) == (True, "authorisation")


def test_an_agent_that_waits_for_its_own_kvstoremesh_is_not_troubleshot() -> None:
    waits = {"cluster-mesh": {"clusters": [{"name": "c2", "connected": True, "config": {"required": True}}, ready("c3")]}}
    cluster = PlayedCluster(agent=waits)
    read(cluster)
    assert cluster.asked("troubleshoot") == []
    read(cluster, WITHOUT_KVSTOREMESH)
    assert len(cluster.asked("troubleshoot")) == 1


def test_a_peer_that_the_metrics_do_not_list_is_not_known_yet() -> None:
    cluster = PlayedCluster(metrics=metrics(c2=1), mesh=[ready("c2")])
    found = links(read(cluster), "kvstoremesh")
    assert not found["edge-3"].known and found["edge-2"].ready
    assert cluster.asked("troubleshoot") == []


def test_without_metrics_the_status_is_read_by_exec_and_without_exec_by_port_forward() -> None:
    found = links(read(PlayedCluster(metrics=NO)), "kvstoremesh")
    assert {link.source for link in found.values()} == {"exec"} and found["edge-2"].ready
    cluster = PlayedCluster(metrics=NO, mesh=Forbidden("no exec."), forward=[ready("c2")])
    found = links(read(cluster), "kvstoremesh")
    assert {link.source for link in found.values()} == {"port-forward"}
    assert (found["edge-2"].ready, found["edge-3"].known) == (True, False)
    assert cluster.asked("forward") == ["forward mesh-1:9889/v1/cluster"]


def test_metrics_that_say_not_ready_are_better_than_nothing() -> None:
    found = read(PlayedCluster(metrics=metrics(c2=1, c3=0), mesh=NO))
    assert [(link.peer, link.ready, link.source) for link in found.links if link.reader == "kvstoremesh"] == [
        ("edge-2", True, "metrics"),
        ("edge-3", False, "metrics"),
    ]


def test_a_reader_that_cannot_be_asked_is_a_problem_and_not_a_link() -> None:
    found = read(PlayedCluster(metrics=NO, mesh=Forbidden("RBAC forbids to create pods/exec."), agent=NO))
    assert found.forbidden
    assert not read(PlayedCluster(metrics=NO, mesh=NO, agent=NO)).forbidden
    assert found.links == ()
    assert found.problems == (
        "kvstoremesh in pod mesh-1 cannot be queried: RBAC forbids to create pods/exec",
        "The agent in pod agent-1 on node node-of-agent-1 cannot be queried: pods cannot be reached",
    )


def test_a_status_command_that_fails_is_reported_by_its_exit_code_alone() -> None:
    found = read(PlayedCluster(metrics=NO, mesh="Failed: canary", agent="canary", exit_code=1))
    assert found.links == () and "canary" not in str(found.problems)
    assert ["ended with exit code 1" in problem for problem in found.problems] == [True, True]


def test_an_answer_of_another_form_is_a_problem() -> None:
    found = read(PlayedCluster(metrics=NO, mesh="hello", agent="hello"))
    assert [problem.endswith("in an unknown form.") for problem in found.problems] == [True, True]


def test_pods_that_cannot_be_listed_are_a_problem() -> None:
    assert read(PlayedCluster(list=NO)).problems == ("pods cannot be reached",)


def test_a_cluster_without_running_readers_says_so() -> None:
    found = read(PlayedCluster(list=[pod("mesh-1", "clustermesh-apiserver", phase="Pending", ready=False)]))
    assert found.problems == ("No pod of Deployment clustermesh-apiserver runs.", "No pod of DaemonSet cilium runs.")
    assert found.agents_asked == 0


def test_without_kvstoremesh_only_agents_are_asked_and_they_troubleshoot() -> None:
    waits = {"cluster-mesh": {"clusters": [waiting("c2"), ready("c3")]}}
    output = 'Cluster "c2":\n❌ TLS client authentication failed: remote error: tls: bad certificate\n'
    cluster = PlayedCluster(agent=waits, troubleshoot=output)
    found = read(cluster, WITHOUT_KVSTOREMESH)
    assert links(found, "kvstoremesh") == {} and found.problems == ()
    assert links(found, "agent")["edge-2"].stage_hint == "tls" and links(found, "agent")["edge-3"].ready
    assert cluster.asked("troubleshoot") == ["exec agent-1/cilium-agent cilium troubleshoot clustermesh --timeout=2s c2"]


def test_ready_pods_of_the_apiserver_speak_for_it_and_others_only_when_there_is_none() -> None:
    def asked(*pods: Any) -> Sequence[str]:
        cluster = PlayedCluster(list=list(pods))
        read(cluster)
        return [line.split()[1].split(":")[0] for line in cluster.asked("metrics")]

    old, new = pod("old", "clustermesh-apiserver"), pod("new", "clustermesh-apiserver", ready=False)
    assert asked(old, new) == ["old"]
    assert asked(new) == ["new"]


def test_of_many_agents_a_sample_is_asked_that_holds_all_that_are_not_ready() -> None:
    agents = [pod(f"agent-{i:03}", "cilium", ready=i not in (7, 90)) for i in range(120)]
    cluster = PlayedCluster(list=[*agents, pod("agent-x", "cilium", phase="Pending", ready=False)])
    found = read(cluster, WITHOUT_KVSTOREMESH)
    asked = {line.split()[1].split("/")[0] for line in cluster.asked("exec")}
    assert (found.agents_total, found.agents_asked, len(asked)) == (121, 20, 20)
    assert {"agent-007", "agent-090"} <= asked and "agent-x" not in asked
    assert asked & {f"agent-{i:03}" for i in range(100, 120)}, "the sample reaches the end of the alphabet"


def test_every_agent_of_a_small_cluster_is_asked() -> None:
    cluster = PlayedCluster(list=[pod(f"agent-{i}", "cilium") for i in range(20)])
    assert read(cluster, WITHOUT_KVSTOREMESH).agents_asked == 20


def lost(name: str) -> dict[str, Any]:
    return {"name": name, "host": {"primary-address": {"http": {"status": "refused"}}}}


def read_nodes(cluster: PlayedCluster, nodes: int = 6, facts: ClusterFacts = FACTS) -> ReaderFacts:
    return read_links(cast(Cluster, cluster), facts, PEERS, nodes=nodes)


def test_node_health_costs_no_further_request() -> None:
    pods = [pod("mesh-1", "clustermesh-apiserver"), *(pod(f"agent-{i}", "cilium") for i in range(3))]
    health = {"nodes": [lost("c2/n1"), lost("c3/n1"), lost("c3/n2")]}
    without, cluster = PlayedCluster(list=pods), PlayedCluster(list=pods, health=health)
    read(without)
    found = read_nodes(cluster)
    assert len(cluster.said) == len(without.said) and len(cluster.asked("cilium-health")) == 3
    assert found.nodes_asked == ("node-of-agent-0", "node-of-agent-1", "node-of-agent-2") and found.nodes_unread == ""
    assert {(report.node, report.peer, report.asked) for report in found.nodes} == {
        (f"node-of-agent-{i}", peer, count) for i in range(3) for peer, count in (("edge-2", 1), ("edge-3", 2))
    }
    assert found.links == read(without).links


def test_a_reading_without_node_health_does_not_ask_for_it() -> None:
    cluster = PlayedCluster()
    assert read(cluster).nodes_asked is None and cluster.asked("cilium-health") == []


def test_in_a_large_mesh_fewer_agents_report_nodes_and_all_report_links() -> None:
    cluster = PlayedCluster(list=[pod(f"agent-{i:02}", "cilium") for i in range(20)])
    found = read_nodes(cluster, nodes=1000, facts=WITHOUT_KVSTOREMESH)
    assert (found.agents_asked, len(cluster.asked("cilium-health"))) == (20, 4)
    assert found.nodes_asked == ("node-of-agent-00", "node-of-agent-05", "node-of-agent-10", "node-of-agent-15")
    cluster = PlayedCluster()
    assert "7000 nodes" in read_nodes(cluster, nodes=7000).nodes_unread and cluster.asked("cilium-health") == []


def test_an_agent_without_a_shell_or_node_health_still_reports_its_links() -> None:
    for trouble in ({"shell": ServerRefused("the container or the command is missing.")}, {"health": ""}, {"health": "broken"}):
        found = read_nodes(PlayedCluster(**trouble))
        assert found.links == read(PlayedCluster()).links and found.problems == ()
        assert found.nodes == () and found.nodes_unread == "cilium-health of the agent on node node-of-agent-1 gave no answer"


def test_node_health_that_does_not_come_in_time_costs_the_links_nothing() -> None:
    found = read_nodes(PlayedCluster(exit_code=-1, metrics=metrics(c2=1, c3=1)))
    assert found.links == read(PlayedCluster()).links and found.problems == ()
    late = read_nodes(PlayedCluster(exit_code=-1, health=""))
    assert len(late.problems) == 1 and "did not end in time" in late.problems[0]


def test_health_checking_that_is_off_is_not_asked_for() -> None:
    off = replace(FACTS, config={**(FACTS.config or {}), "enable-health-checking": "false"})
    cluster = PlayedCluster()
    found = read_nodes(cluster, facts=off)
    assert cluster.asked("cilium-health") == [] and found.nodes_asked == () and "enable-health-checking" in found.nodes_unread


def test_agents_that_the_daemon_set_wants_count_even_without_a_pod() -> None:
    agent = workload_facts({"metadata": {"name": "cilium"}, "status": {"desiredNumberScheduled": 5}}, "DaemonSet")
    assert read(PlayedCluster(), replace(WITHOUT_KVSTOREMESH, agent=agent)).agents_total == 5


def test_a_name_that_could_be_an_option_is_never_put_on_a_command_line() -> None:
    for name in ("--config=/etc/passwd", "c2;reboot", "C2", ""):
        cluster = PlayedCluster(agent={"cluster-mesh": {"clusters": [waiting(name)]}})
        read_links(cast(Cluster, cluster), WITHOUT_KVSTOREMESH, {"edge-2": name})
        assert cluster.asked("troubleshoot") == []

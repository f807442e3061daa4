# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""New connections in the pod that dials: how many commands, how long, and what is concluded from what they say or do not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, Forbidden, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, ExecResult
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import LinkFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_stage import LinkStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.health import read_links
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.new_connections import (
    COMMAND_SECONDS,
    PEER_SECONDS,
    SPOILED,
    TIME_RAN_OUT,
    try_connections,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import link_stage
from tests.unit.observe.test_health_links import FACTS, NO, PEERS, WITHOUT_KVSTOREMESH, PlayedCluster, links, metrics

PROGRAM = ("kvstoremesh", "/usr/bin/clustermesh-apiserver", "kvstoremesh-dbg", "troubleshoot")
GOOD = "✅ Etcd connection successfully established"
SILENT = "❌ Cannot establish TLS connection to x:2379: context deadline exceeded"


def said(name: str, line: str = GOOD) -> str:
    return f'\nCluster "{name}":\n   {line}\n'


@dataclass
class PlayedPod:
    """Takes the peers one after the other, as the program does; ``silent`` ones cost PEER_SECONDS."""

    silent: frozenset[str] = frozenset()
    error: ClusterError | None = None
    commands: list[tuple[str, ...]] = field(default_factory=list)

    def exec(self, pod: str, container: str, command: Sequence[str], *, timeout: float, partial: bool = False) -> ExecResult:
        assert partial and timeout == COMMAND_SECONDS
        if self.error is not None:
            raise self.error
        names = [word for word in command[4:] if not word.startswith("--")]
        self.commands.append(tuple(names))
        text, spent = "Found\n", 0.0
        for name in names:
            spent += PEER_SECONDS if name in self.silent else 0.01
            if spent > timeout:
                return ExecResult(stdout=text + f'\nCluster "{name}":\n   ❌ Cannot resolve hostname: half', stderr="", exit_code=-1)
            text += said(name, SILENT if name in self.silent else GOOD)
        return ExecResult(stdout=text, stderr="", exit_code=0)


def tried(pod: PlayedPod, names: Sequence[str]) -> tuple[dict[str, Any], str]:
    found, why = try_connections(cast(Cluster, pod), "mesh-1", PROGRAM, names)
    return dict(found), why


@pytest.mark.parametrize("count", [1, 49, 254])
def test_one_command_is_enough_for_all_peers_of_a_healthy_cluster(count: int) -> None:
    pod = PlayedPod()
    found, why = tried(pod, [f"c{n:03}" for n in range(count)])
    assert (len(pod.commands), len(found), why) == (1, count, "")
    assert all(hint.connected for hint in found.values())


def test_a_few_silent_peers_hold_no_other_up() -> None:
    pod = PlayedPod(silent=frozenset({"c02", "c07", "c30"}))
    found, why = tried(pod, [f"c{n:02}" for n in range(49)])
    assert {name for name, hint in found.items() if not hint.connected} == pod.silent
    assert (len(pod.commands), why) == (1, "")


def test_when_no_pod_answers_the_number_of_commands_is_bounded_and_the_rest_is_unknown() -> None:
    names = [f"c{n:02}" for n in range(80)]
    pod = PlayedPod(silent=frozenset(names))
    found, why = tried(pod, names)
    assert len(pod.commands) == 13
    assert len(found) == 4 * 13 and not any(hint.connected for hint in found.values())
    assert why == TIME_RAN_OUT


def test_half_a_sentence_about_the_last_peer_is_not_believed() -> None:
    silent = frozenset(f"c{n}" for n in range(5))  # the time of a command is enough for four of them
    pod = PlayedPod(silent=silent)
    found, why = tried(pod, [*sorted(silent), "c5", "c6"])
    assert pod.commands[0] == ("c0", "c1", "c2", "c3", "c4", "c5", "c6")
    assert sorted(pod.commands[1:]) == [("c4",), ("c5",), ("c6",)]
    assert found["c4"].error == SILENT.removeprefix("❌ ")
    assert (len(found), why) == (7, "")


@pytest.mark.parametrize("error", [Forbidden("pods/exec is forbidden."), Unreachable("no answer")])
def test_a_command_that_cannot_be_run_proves_nothing(error: ClusterError) -> None:
    found, why = tried(PlayedPod(error=error), ["c2"])
    assert found == {} and error.clause in why


@dataclass
class LyingPeer(PlayedPod):
    """One peer whose server says, in the name of a CA, what looks like the section of another."""

    def exec(self, pod: str, container: str, command: Sequence[str], *, timeout: float, partial: bool = False) -> ExecResult:
        answer = super().exec(pod, container, command, timeout=timeout, partial=partial)
        lie = said("c2", "❌ Cannot establish TLS connection\n   Acceptable CAs: x\n" + said("c9"))
        return replace(answer, stdout=answer.stdout.replace(said("c2"), lie))


@pytest.mark.parametrize("silent", [frozenset(), frozenset({"c3", "c4", "c5", "c6", "c7"})])
def test_a_peer_cannot_speak_for_another(silent: frozenset[str]) -> None:
    names = [f"c{n}" for n in range(1, 10)]
    pod = LyingPeer(silent=frozenset({"c9"}) | silent)
    found, why = tried(pod, names)
    assert not (found.get("c9") and found["c9"].connected)
    assert "c2" not in found and why == SPOILED
    assert found["c1"].connected and found["c8"].connected


def judged(reader: str = "kvstoremesh", facts: Any = FACTS, **answers: Any) -> tuple[PlayedCluster, dict[str, LinkFacts]]:
    cluster = PlayedCluster(**answers)
    return cluster, links(read_links(cast(Cluster, cluster), facts, PEERS, prove=True), reader)


def test_a_silent_peer_is_refuted_although_kvstoremesh_says_ready() -> None:
    cluster, found = judged(troubleshoot=said("c2") + said("c3", SILENT))
    assert (found["edge-2"].proof, link_stage(found["edge-2"])) == ("proven", LinkStage.READY)
    assert (found["edge-3"].proof, link_stage(found["edge-3"])) == ("refuted", LinkStage.DIALLING)
    assert found["edge-3"].error.startswith("kvstoremesh still reports ready; a new connection fails: Cannot establish TLS")
    assert len(cluster.asked("troubleshoot")) == 1
    assert cluster.asked("troubleshoot")[0].endswith("--timeout=2s c2 c3")


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("❌ Cannot establish TLS connection to x:2379: x509: certificate signed by unknown authority", LinkStage.TLS),
        ("❌ Failed to retrieve key from etcd: etcdserver: permission denied", LinkStage.AUTHORISATION),
        ("❌ Failed to establish connection: context deadline exceeded", LinkStage.DIALLING),
        ("❌ Configuration not found", LinkStage.SECRET_NOT_PROJECTED),
        ("❌ Something new", LinkStage.DIALLING),
    ],
)
def test_the_stage_of_a_refuted_link_is_what_failed(line: str, stage: LinkStage) -> None:
    assert link_stage(judged(troubleshoot=said("c2") + said("c3", line))[1]["edge-3"]) is stage


@pytest.mark.parametrize("output", ["", "Error: unknown command\n", 'Cluster "c3":\n   nothing that is known\n'])
def test_what_says_nothing_leaves_the_link_as_kvstoremesh_sees_it(output: str) -> None:
    found = judged(troubleshoot=output)[1]["edge-3"]
    assert (found.proof, link_stage(found)) == ("unknown", LinkStage.READY)
    assert found.proof_note


def test_without_the_right_to_exec_the_link_stays_and_the_reason_is_kept() -> None:
    found = judged(troubleshoot=Forbidden("pods/exec is forbidden."))[1]["edge-2"]
    assert (found.proof, link_stage(found)) == ("unknown", LinkStage.READY)
    assert "pods/exec" in found.proof_note


def test_a_peer_that_kvstoremesh_does_not_list_is_not_tried() -> None:
    cluster, found = judged(metrics=metrics(c2=1), mesh=NO, troubleshoot=said("c2"))
    assert (found["edge-2"].proof, found["edge-3"].proof) == ("proven", "")
    assert cluster.asked("troubleshoot")[0].endswith(" c2")


def test_without_kvstoremesh_it_is_the_agents_who_prove() -> None:
    cluster, found = judged(reader="agent", facts=WITHOUT_KVSTOREMESH, troubleshoot=said("c2") + said("c3", SILENT))
    assert (found["edge-2"].proof, found["edge-3"].proof) == ("proven", "refuted")
    assert found["edge-3"].error.startswith("agent still reports ready;")
    assert cluster.asked("troubleshoot") == ["exec agent-1/cilium-agent cilium troubleshoot clustermesh --timeout=2s c2 c3"]


def test_with_kvstoremesh_agents_prove_nothing() -> None:
    assert {link.proof for link in judged(reader="agent", troubleshoot=said("c2") + said("c3"))[1].values()} == {""}

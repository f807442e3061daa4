# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Proof that a cluster runs the name and the id that it was assigned, from the processes that use them and not from the written objects.

The proof has three parts: cilium-config as read back; every pod of operator, agents and clustermesh-apiserver comes from the template that
was changed after it; and each agent's own report, where its version has one (status ``cluster.self`` is "NAME/NODE":
api/v1/models/cluster_status.go).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from ..apply.rollout import rolled_out
from ..base.errors import ClusterError
from ..base.json_fields import text
from ..base.json_reader import NotJson, load_json
from ..base.redact import one_line
from ..kube.client import Cluster
from ..mesh.facts.cluster import ClusterFacts, WorkloadFacts
from .decide import IdentityDecision
from .plan import named_certificates, restart_mark, restarted

AGENTS_ASKED: Final = 5
_STATUS: Final = ["cilium", "status", "-o", "json"]


@dataclass(frozen=True, kw_only=True)
class IdentityProof:
    """Proof of a cluster's name and id. It is ``proven`` only without ``doubts``; ``evidence`` lists the observations."""

    host: str
    evidence: tuple[str, ...]
    doubts: tuple[str, ...]

    @property
    def proven(self) -> bool:
        """Whether there is no doubt."""
        return not self.doubts


def prove(cluster: Cluster, facts: ClusterFacts, decision: IdentityDecision) -> IdentityProof:
    """Check ``facts``, observed after the last rollout, and query the agents. Raises nothing."""
    evidence, doubts = [], []
    if (facts.name, facts.id) == (decision.name, decision.id):
        evidence.append(f"cilium-config says {decision.name} and {decision.id}")
    else:
        doubts.append(f"cilium-config says {facts.name} and {facts.id} again: the tool that declares the installation restored them")
    for workload in (facts.operator, facts.agent, facts.apiserver):
        if workload is not None:
            (evidence if _current(workload, decision) else doubts).append(_rollout_text(workload, decision))
    doubts.extend(
        f"the certificate in {named.secret} is not that of {named.common_name}" for named in named_certificates(facts, decision.name)
    )
    for said, wrong in _agents(cluster, facts, decision.name):
        (doubts if wrong else evidence).append(said)
    return IdentityProof(host=facts.host, evidence=tuple(evidence), doubts=tuple(doubts))


def _current(workload: WorkloadFacts, decision: IdentityDecision) -> bool:
    return restarted(workload, decision) and rolled_out(workload)


def _rollout_text(workload: WorkloadFacts, decision: IdentityDecision) -> str:
    if _current(workload, decision):
        return f"every pod of {workload.kind} {workload.name} was started for {restart_mark(decision)}"
    why = "has not rolled out" if restarted(workload, decision) else f"was not restarted for {restart_mark(decision)}"
    return f"{workload.kind} {workload.name} {why}"


def _agents(cluster: Cluster, facts: ClusterFacts, name: str) -> list[tuple[str, bool]]:
    """Return the cluster names that some agents report: (sentence, whether it is wrong)."""
    pods = [pod.name for pod in facts.agent_pods if pod.phase == "Running"][:AGENTS_ASKED]
    with ThreadPoolExecutor(AGENTS_ASKED) as pool:
        found = pool.map(lambda pod: _own_name(cluster, pod, name), pods)
        return [said for said in found if said[0]]


def _own_name(cluster: Cluster, pod: str, name: str) -> tuple[str, bool]:
    """Return what an agent's status says of the cluster name, "" if nothing, and whether it is wrong.

    An agent that cannot be asked is no doubt: restarted pods are proven by their template already.
    """
    try:
        answer = cluster.exec(pod, "cilium-agent", _STATUS)
        status: Any = load_json(answer.stdout) if answer.exit_code == 0 else None
    except NotJson:
        return "", False
    except ClusterError as error:
        return f"the agent in {pod} was not asked: {error.clause}", False
    own = text(status, "cluster", "self")
    said = one_line(own.partition("/")[0], 64) if "/" in own else ""
    return (f"the agent in {pod} calls its cluster {said}", said != name) if said else ("", False)

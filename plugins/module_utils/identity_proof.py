# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Does a cluster run the name and the id that it was given? Asked of those that use them, not of what was written.

The proof has three parts: cilium-config as read back; every pod of operator, agents and clustermesh-apiserver comes from the template that
was changed after it; and each agent's own word, where its version gives one (status ``cluster.self`` is "NAME/NODE":
api/v1/models/cluster_status.go).
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from .errors import ClusterError
from .facts import ClusterFacts, WorkloadFacts
from .identity import Decision
from .kube import Cluster
from .observe.objects import text
from .plan_identity import mark, named_certificates, restarted
from .redact import one_line
from .rollout import rolled_out

AGENTS_ASKED: Final = 5
_STATUS: Final = ["cilium", "status", "-o", "json"]


@dataclass(frozen=True, kw_only=True)
class IdentityProof:
    """``proven`` only without ``doubts``. ``evidence`` is what was seen."""

    host: str
    evidence: tuple[str, ...]
    doubts: tuple[str, ...]

    @property
    def proven(self) -> bool:
        return not self.doubts


def prove(cluster: Cluster, facts: ClusterFacts, decision: Decision) -> IdentityProof:
    """Look at ``facts``, observed after the last rollout, and ask the agents. Raises nothing."""
    evidence, doubts = [], []
    if (facts.name, facts.id) == (decision.name, decision.id):
        evidence.append(f"cilium-config says {decision.name} and {decision.id}")
    else:
        doubts.append(f"cilium-config says {facts.name} and {facts.id} again: whoever declares the installation put them back")
    for workload in (facts.operator, facts.agent, facts.apiserver):
        if workload is not None:
            (evidence if _current(workload, decision) else doubts).append(_said(workload, decision))
    doubts.extend(
        f"the certificate in {named.secret} is not that of {named.common_name}" for named in named_certificates(facts, decision.name)
    )
    for said, wrong in _agents(cluster, facts, decision.name):
        (doubts if wrong else evidence).append(said)
    return IdentityProof(host=facts.host, evidence=tuple(evidence), doubts=tuple(doubts))


def _current(workload: WorkloadFacts, decision: Decision) -> bool:
    return restarted(workload, decision) and rolled_out(workload)


def _said(workload: WorkloadFacts, decision: Decision) -> str:
    if _current(workload, decision):
        return f"every pod of {workload.kind} {workload.name} was started for {mark(decision)}"
    why = "has not rolled out" if restarted(workload, decision) else f"was not restarted for {mark(decision)}"
    return f"{workload.kind} {workload.name} {why}"


def _agents(cluster: Cluster, facts: ClusterFacts, name: str) -> list[tuple[str, bool]]:
    """What some agents call themselves: (sentence, is it wrong)."""
    pods = [pod.name for pod in facts.agent_pods if pod.phase == "Running"][:AGENTS_ASKED]
    with ThreadPoolExecutor(AGENTS_ASKED) as pool:
        names = dict(zip(pods, pool.map(lambda pod: _own_name(cluster, pod), pods), strict=True))
    return [(f"the agent in {pod} calls its cluster {said}", said != name) for pod, said in names.items() if said]


def _own_name(cluster: Cluster, pod: str) -> str:
    """The cluster name in an agent's status; "" where it does not say. Restarted pods are proven by their template already."""
    try:
        answer = cluster.exec(pod, "cilium-agent", _STATUS)
        status: Any = json.loads(answer.stdout) if answer.exit_code == 0 else None
    except (ClusterError, ValueError, RecursionError):
        return ""
    own = text(status, "cluster", "self")
    return one_line(own.partition("/")[0], 64) if "/" in own else ""

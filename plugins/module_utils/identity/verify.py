# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Proof that a cluster runs the name and the id that it was assigned, from the processes that use them and not from the written objects.

The proof has three parts: cilium-config as read back; every pod of operator, agents and clustermesh-apiserver comes from the template that
was changed after it; and each agent's own report, where its version has one. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..apply.rollout import rolled_out
from ..mesh.facts.cluster import ClusterFacts, WorkloadFacts
from ..observe.own_names import OwnName
from .decide import IdentityDecision
from .plan import named_certificates, restart_mark, restarted


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


def prove(facts: ClusterFacts, decision: IdentityDecision, own_names: Iterable[OwnName]) -> IdentityProof:
    """Check ``facts``, observed after the last rollout, and the names that agents report."""
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
    for said, wrong in _reported(own_names, decision.name):
        (doubts if wrong else evidence).append(said)
    return IdentityProof(host=facts.host, evidence=tuple(evidence), doubts=tuple(doubts))


def _current(workload: WorkloadFacts, decision: IdentityDecision) -> bool:
    return restarted(workload, decision) and rolled_out(workload)


def _rollout_text(workload: WorkloadFacts, decision: IdentityDecision) -> str:
    if _current(workload, decision):
        return f"every pod of {workload.kind} {workload.name} was started for {restart_mark(decision)}"
    why = "has not rolled out" if restarted(workload, decision) else f"was not restarted for {restart_mark(decision)}"
    return f"{workload.kind} {workload.name} {why}"


def _reported(own_names: Iterable[OwnName], name: str) -> Iterator[tuple[str, bool]]:
    """Yield (sentence, whether it is wrong) for each agent that says something.

    An agent that cannot be asked is no doubt: restarted pods are proven by their template already.
    """
    for own in own_names:
        if own.problem:
            yield f"the agent in {own.pod} was not asked: {own.problem}", False
        elif own.name:
            yield f"the agent in {own.pod} calls its cluster {own.name}", own.name != name

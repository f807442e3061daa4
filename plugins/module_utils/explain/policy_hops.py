# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Hops of the policies at both ends: the source's egress and the target's ingress, by the evaluator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..mesh.facts.traffic import PodMeta
from ..policies.evaluate.endpoints import FirstPacket, PolicyEndpoint
from ..policies.evaluate.verdict import Decision, PolicyOutcome, verdict
from ..policies.evaluate.world import PolicyWorld, pod_endpoint
from .hop import Hop, HopVerdict
from .inputs import ExplainInputs

KINDS_OF_PODS: Final = 10  # different sets of labels of each end; a pair of them is one flow
_ANSWERS: Final = {PolicyOutcome.ALLOWED: HopVerdict.OK, PolicyOutcome.DENIED: HopVerdict.BROKEN, PolicyOutcome.UNKNOWN: HopVerdict.UNKNOWN}
_WORDS: Final = {
    PolicyOutcome.ALLOWED: "lets it through",
    PolicyOutcome.DENIED: "does not let it through",
    PolicyOutcome.UNKNOWN: "has an unknown verdict",
}


@dataclass(frozen=True, kw_only=True)
class PathEnd:
    """Pods of one cluster that are one end of the path. ``port`` is their own; 0 when it is unknown."""

    cluster: str
    pods: tuple[PodMeta, ...]
    port: int = 0


def policy_hops(source: PathEnd, target: PathEnd, protocol: str, world: PolicyWorld, inputs: ExplainInputs) -> tuple[Hop, Hop]:
    """Return the hops for egress of the source and ingress of the target.

    Where pods of one end differ, the hop is unknown and its evidence names them.
    """
    flows = [
        FirstPacket(source=one, destination=other, protocol=protocol, port=target.port)
        for one in _kinds(source, inputs)
        for other in _kinds(target, inputs)
    ]
    if not flows or not target.port:
        text = "the port of the pods is not known" if flows else "no pods of both ends were found"
        egress = Hop(name="egress policy", answer=HopVerdict.UNKNOWN, cluster=source.cluster, summary=text)
        return egress, Hop(name="ingress policy", answer=HopVerdict.UNKNOWN, cluster=target.cluster, summary=text)
    verdicts = [verdict(world, flow) for flow in flows]
    return (
        _hop("egress policy", source.cluster, [(flow, found.egress) for flow, found in zip(flows, verdicts, strict=True)]),
        _hop("ingress policy", target.cluster, [(flow, found.ingress) for flow, found in zip(flows, verdicts, strict=True)]),
    )


def _kinds(end: PathEnd, inputs: ExplainInputs) -> list[PolicyEndpoint]:
    """Return one endpoint for all pods with the same labels."""
    traffic = inputs.scene.traffic[end.cluster]
    found = {tuple(sorted(pod.labels.items())): pod for pod in end.pods}
    return [pod_endpoint(traffic, pod) for pod in list(found.values())[:KINDS_OF_PODS]]


def _hop(name: str, cluster: str, decisions: Sequence[tuple[FirstPacket, Decision]]) -> Hop:
    outcomes = {decision.outcome for _flow, decision in decisions}
    lines = tuple(dict.fromkeys(decision.shown for _flow, decision in decisions))
    port = f"{decisions[0][0].protocol} {decisions[0][0].port}"
    if len(outcomes) == 1:
        outcome = outcomes.pop()
        fix = (
            f"Change one of the policies named above, or let a ConnectivityIntent allow it on {port}."
            if outcome is PolicyOutcome.DENIED
            else "Correct the policy that Cilium refuses: it protects nothing and lets nothing in (CM-INT-19)."
            if any(decision.refused for _flow, decision in decisions)
            else ""
        )
        return Hop(
            name=name, answer=_ANSWERS[outcome], cluster=cluster, summary=f"policy {_WORDS[outcome]} ({port})", evidence=lines, fix=fix
        )
    lines = tuple(_differing(decisions))
    return Hop(name=name, answer=HopVerdict.UNKNOWN, cluster=cluster, summary=f"it depends on the pod ({port})", evidence=lines)


def _differing(decisions: Iterable[tuple[FirstPacket, Decision]]) -> list[str]:
    return [f"{flow.source.shown} to {flow.destination.shown}: {decision.outcome.value}, {decision.shown}" for flow, decision in decisions]

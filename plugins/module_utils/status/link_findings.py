# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about links that could not be measured, and about those that were measured and are not ready."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from ..base.redact import one_line
from ..base.tables import cell, count
from ..findings.finding import Finding
from ..findings.wording import finding, listed
from ..mesh.link_stage import LinkStage
from .links import LinkState

UNMEASURED: Final = "CM-LINK-01"
NOT_READY: Final = "CM-LINK-02"
ERRORS_SHOWN: Final = 3  # of one stage
ERROR_LIMIT: Final = 200  # characters

_UNWRITTEN: Final = "unwritten"

_FIXES: Final[Mapping[str, str]] = {
    _UNWRITTEN: "Run connect, or mesh, which write these links. If a run has written them before, something has removed them since: "
    "connect --check shows what is missing.",
    LinkStage.SECRET_NOT_PROJECTED: "Wait two minutes, in which kubelet brings a changed Secret into the pods, and run status again. If "
    "that does not help, restart the readers:\n"
    "kubectl --namespace kube-system rollout restart deployment/clustermesh-apiserver daemonset/cilium",
    LinkStage.DIALLING: "Run verify: it says whether clustermesh-apiserver of both clusters runs, and dials the mesh endpoints from the "
    "controller. If they answer there, let the nodes and pods of the cluster that reads reach that of its peer: firewall, NodePort, load "
    "balancer.",
    LinkStage.TLS: "Compare the certificates: the playbook ca shows which CA each side trusts, and which certificate it shows.",
    LinkStage.AUTHORISATION: "Run connect again, which writes the user of each link, and look whether clustermesh-apiserver of the peer "
    "runs.",
    LinkStage.RETRIEVING_CONFIGURATION: "Look at cluster-name and cluster-id of the peer: the playbook verify says if they are not as its "
    "peers expect. Where the peer has just started, run status again.",
    LinkStage.SYNCHRONISING: "Wait until the state of the peer has been read, which takes longer the larger it is, and run status again.",
}
"""What a user does about a link, by the stage in which it is (docs/results.md), or because no Secret has it."""


def unmeasured_findings(states: Iterable[LinkState], silent: Collection[str]) -> tuple[Finding, ...]:
    """Return a finding for every cluster of which the readers did not say how its links are.

    :param silent: inventory names of clusters that have a finding already, because they did not answer or a write to them failed.
    """
    unknown: dict[str, list[LinkState]] = {}
    for state in states:
        if state.stage is LinkStage.UNKNOWN and not {state.cluster, state.peer} & set(silent):
            unknown.setdefault(state.cluster, []).append(state)
    return tuple(_finding(cluster, found) for cluster, found in unknown.items())


def _finding(cluster: str, states: list[LinkState]) -> Finding:
    links = listed(f"{state.cluster} -> {state.peer}" for state in states)
    return finding(
        UNMEASURED,
        cluster=cluster,
        peer=states[0].peer if len(states) == 1 else "",
        summary=f"The readers of {cluster} did not say whether its links are ready ({links}), so none of them counts as ready",
        evidence=tuple(dict.fromkeys(state.error for state in states if state.error)),
        fix=f"run status when the API server of {cluster} reaches its pods again; if a right is missing, grant pods/exec in the "
        "namespace of Cilium (docs/rbac.md)",
    )


def late_findings(links: Iterable[Mapping[str, Any]], unwritten: Collection[tuple[str, str]] = ()) -> tuple[Finding, ...]:
    """Return a finding for links that are not written, and one for each stage in which links are that do not work yet, the earliest first.

    :param links: rows of ``links`` of a status. Those of which nothing is known have a finding of their own (``unmeasured_findings``).
    :param unwritten: links (cluster, peer) that are in no Secret of their cluster.
    """
    stages: dict[str, list[Mapping[str, Any]]] = {stage: [] for stage in _FIXES}
    for link in links:
        if link["stage"] == LinkStage.SECRET_NOT_PROJECTED and (link["cluster"], link["peer"]) in unwritten:
            stages[_UNWRITTEN].append(link)
        elif link["stage"] in stages:
            stages[link["stage"]].append(link)
    return tuple(_late_finding(stage, links) for stage, links in stages.items() if links)


def _late_finding(stage: str, links: list[Mapping[str, Any]]) -> Finding:
    names = [f"{cell(link['cluster'])} -> {cell(link['peer'])}" for link in links]
    readers = list(dict.fromkeys(link["cluster"] for link in links))
    errors = [f"{name}: {one_line(link['error'], ERROR_LIMIT)}" for name, link in zip(names, links, strict=True) if link["error"]]
    more = [f"and {count(len(errors) - ERRORS_SHOWN, 'more error')}"] if len(errors) > ERRORS_SHOWN else []
    which = f"The link {names[0]} is" if len(names) == 1 else f"{len(names)} links are"
    what = "not written in the cluster that reads" if stage == _UNWRITTEN else f"not ready, in stage {stage}"
    return finding(
        NOT_READY,
        cluster=readers[0] if len(readers) == 1 else "",
        peer=links[0]["peer"] if len(links) == 1 else "",
        others=readers if len(readers) > 1 else (),
        summary=f"{which} {what}{'' if len(names) == 1 else f': {listed(names)}'}",
        evidence=[*errors[:ERRORS_SHOWN], *more],
        fix=_FIXES[stage],
    )


def late_sentence(findings: Sequence[Finding], verdict: str) -> str:
    """Return why a run failed that waited for links: the code of the first finding about links, the verdict, and every such finding."""
    about = [finding for finding in findings if finding.code in (NOT_READY, UNMEASURED)]
    texts = (f"{finding.summary}: {finding.evidence}" if finding.evidence else finding.summary for finding in about)
    return f"{about[0].code}: {verdict} {' '.join(f'{text}.' for text in texts)}".replace("\n", "; ") if about else verdict

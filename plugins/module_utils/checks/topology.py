# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who of the mesh takes part: members without a link, members that were not asked, and clusters that are no members any more."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings import CheckContext, Finding, Scope, Severity, check
from ..ownership import former_members
from .wording import finding, listed


@check("CM-TOPO-01", "A member has no link", severity=Severity.ADVISORY, scope=Scope.MESH)
def members_have_links(context: CheckContext) -> Iterator[Finding]:
    """Only pairs can leave a member alone. It is no error: taking its last pair away is how a member is set aside."""
    topology = context.mesh.binding.topology
    for host in context.mesh.clusters:
        if not context.mesh.peers(host):
            yield finding(
                "CM-TOPO-01",
                cluster=host,
                summary=f"{host} is a member of the mesh and is linked with nobody",
                evidence=f"binding.topology: mode {topology.mode}, no pair names {host}",
                fix=f"Name it in a pair of binding.topology.pairs, or take {host} out of binding.clusterRefs.",
            )


@check("CM-TOPO-02", "Members were not asked", severity=Severity.ADVISORY, scope=Scope.MESH)
def members_are_asked(context: CheckContext) -> Iterator[Finding]:
    if context.left_out:
        yield finding(
            "CM-TOPO-02",
            cluster=context.left_out[0] if len(context.left_out) == 1 else "",
            summary=f"{listed(context.left_out)} {_were(context.left_out)} not asked: this run takes the mesh as the other members know it",
            evidence="--limit, or the hosts pattern of the play, leaves them out",
            fix="Run again without --limit to bring the whole mesh up to date.",
        )


@check("CM-TOPO-03", "A cluster that left still holds links", severity=Severity.ADVISORY, scope=Scope.MESH)
def those_who_left_let_go(context: CheckContext) -> Iterator[Finding]:
    """What was written in a cluster that left can be taken away only where it answers."""
    for host, name in former_members(context.mesh, context.facts).items():
        if host in context.left:
            continue
        failure = context.left_failures.get(host)
        why = f"it does not answer: {failure.message}" if failure else "it does not take part in this play"
        yield finding(
            "CM-TOPO-03",
            cluster=host,
            summary=f"{host} is no member any more; its former peers let go of it, and what was written in {host} itself stays",
            evidence=f"members remember it as Cilium cluster {name}; {why}",
            fix=f"When {host} answers again, run disconnect with {host} in binding.clusterRefs and --limit {host}. "
            "If the cluster is gone for good, nothing is left to do.",
        )


def _were(hosts: tuple[str, ...]) -> str:
    return "was" if len(hosts) == 1 else "were"

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of participation: members without a link, members that --limit leaves out, and former members."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.wording import listed
from ..mesh.ownership.objects import former_members
from .context import CheckContext
from .flaw import Flaw
from .registry import check


@check("CM-TOPO-01")
def members_have_links(context: CheckContext) -> Iterator[Flaw]:
    """Report a member without a link.

    Only the topology ``Pairs`` can leave a member alone. It is not an error: removing its last pair sets a member aside.
    """
    topology = context.mesh.binding.topology
    for host in context.mesh.clusters:
        if not context.mesh.peers(host):
            yield Flaw(
                cluster=host,
                summary=f"{host} is a member of the mesh and has no link",
                evidence=f"binding.topology: mode {topology.mode}, no pair names {host}",
                fix=f"Name it in a pair of binding.topology.pairs, or take {host} out of binding.clusterRefs.",
            )


@check("CM-TOPO-02")
def members_take_part_in_the_play(context: CheckContext) -> Iterator[Flaw]:
    """Report members that --limit or the hosts pattern leaves out."""
    if context.left_out:
        yield Flaw(
            cluster=context.left_out[0] if len(context.left_out) == 1 else "",
            summary=f"{listed(context.left_out)} {_were(context.left_out)} not read: "
            "this run relies on what the other members hold about the mesh",
            evidence="--limit, or the hosts pattern of the play, leaves them out",
            fix="Run again without --limit to bring the whole mesh up to date.",
        )


@check("CM-TOPO-03")
def former_members_hold_no_links(context: CheckContext) -> Iterator[Flaw]:
    """Report former members that may still hold keys of this mesh.

    Keys in a cluster that left can be removed only when it answers.
    """
    for host, name in former_members(context.mesh, context.facts).items():
        if host in context.former:
            continue
        failure = context.former_failures.get(host)
        why = f"it does not answer: {failure.clause}" if failure else "it does not take part in this play"
        yield Flaw(
            cluster=host,
            summary=f"{host} is no longer a member; its former peers removed their links to it, and "
            f"what was written in {host} itself stays",
            evidence=f"members remember it as Cilium cluster {name}; {why}",
            fix=f"When {host} answers again, run disconnect with {host} in binding.clusterRefs and --limit {host}. "
            "If the cluster is gone for good, nothing is left to do.",
        )


def _were(hosts: tuple[str, ...]) -> str:
    """Return the verb for that number of hosts."""
    return "was" if len(hosts) == 1 else "were"

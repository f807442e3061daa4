# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A flaw: what a check found wrong, in words. It becomes a finding of the check's code, about the cluster that the check got."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..findings.finding import Finding, Severity
from ..findings.wording import finding, grouped, value_groups
from ..mesh.facts.cluster import ClusterFacts


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """What a check found wrong. ``cluster`` or ``hosts`` say where, if it was not called with one cluster or if it is another one."""

    summary: str
    evidence: str | Sequence[str] = ""
    fix: str = ""
    severity: Severity | None = None  # where the case decides it; one that the row lists
    cluster: str = ""
    peer: str = ""
    others: Sequence[str] = ()
    hosts: Sequence[str] = ()  # all clusters that it is about, in place of the three before

    def under(self, code: str, cluster: str = "") -> Finding:
        """Return the finding of the check ``code``, which was called with ``cluster``; "": with a mesh, or a part of one."""
        cluster, peer, others = self.cluster or cluster, self.peer, self.others
        if self.hosts:  # of two as cluster and peer, of more as the first one and the others
            cluster, *rest = self.hosts
            peer, others = (rest[0], ()) if len(rest) == 1 else ("", rest)
        return finding(
            code,
            severity=self.severity,
            cluster=cluster,
            peer=peer,
            others=others,
            summary=self.summary,
            evidence=self.evidence,
            fix=self.fix,
        )


def differing(
    clusters: Iterable[ClusterFacts], name: str, value_of: Callable[[ClusterFacts], str], summary: str, fix: str, note: str = ""
) -> Iterator[Flaw]:
    """Yield a flaw if the clusters differ in a setting of cilium-config.

    :param note: what the evidence says about the values, besides where they are from.
    """
    groups = grouped(clusters, value_of)
    if len(groups) > 1:
        hosts = [host for group in groups.values() for host in group]
        yield Flaw(hosts=hosts, summary=summary, evidence=f"cilium-config{note}, {value_groups(groups, name)}", fix=fix)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks that the versions of Cilium are known and work together."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.wording import grouped, listed, show, where
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.versions.minors import KNOWN, agent_version, apiserver_version, cilium_version, is_known_minor
from .context import CheckContext, members
from .flaw import Flaw
from .registry import check


@check("CM-VER-01")
def versions_are_within_one_minor(context: CheckContext) -> Iterator[Flaw]:
    """Report linked clusters whose versions of Cilium are more than one minor apart.

    Cilium documentation, "Setting up Cluster Mesh": one minor at most. The protocol does not enforce it.
    """
    groups = grouped((f for f in members(context) if cilium_version(f)), lambda f: v.release if (v := cilium_version(f)) else None)
    releases = sorted(release for release in groups if release is not None)
    if not releases or (releases[-1].major == releases[0].major and releases[-1].minor - releases[0].minor <= 1):
        return
    far = [(a, b) for i, a in enumerate(releases) for b in releases[i + 1 :] if b.major != a.major or b.minor - a.minor > 1]
    if not any(context.mesh.linked(one, other) for a, b in far for one in groups[a] for other in groups[b]):
        return  # spokes one minor below and above their hub: no two linked clusters are too far apart
    oldest, newest = groups[releases[0]], groups[releases[-1]]
    hosts = [*oldest, *newest] if len(releases) == 2 else [host for release in releases for host in groups[release]]
    yield Flaw(
        hosts=hosts,
        summary=f"Cilium {releases[0]} in {listed(oldest)} and {releases[-1]} in {listed(newest)} are more than one minor apart",
        evidence="images of the agents: " + "; ".join(f"{release} in {listed(groups[release])}" for release in releases),
        fix=f"Upgrade {listed(oldest)}, one minor at a time, until no two clusters of the mesh are more than one minor apart.",
    )


@check("CM-VER-02")
def version_can_be_read(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cluster whose version of Cilium cannot be read from its images."""
    if facts.config is None or facts.agent is None or cilium_version(facts) is not None:
        return
    image = facts.agent.containers.get("cilium-agent", "")
    yield Flaw(
        summary=f"The version of Cilium in {facts.host} cannot be read from its images",
        evidence=f"{where(facts, 'DaemonSet', 'cilium')} container cilium-agent: "
        f"{'image ' + show(image) if image else 'there is no such container'}",
        fix="Use an image tag that starts with the version, such as v1.18.11 (a digest may follow). "
        "When you accept this finding, the rules of the newest known version are used, and addresses are written in every known form.",
    )


@check("CM-VER-03")
def version_is_known(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a version of Cilium whose rules are not known."""
    version = cilium_version(facts)
    if version is None or facts.config is None or is_known_minor(version):
        return
    advice = "Upgrade Cilium" if version.release < KNOWN.first else "Use a release of this collection that knows it"
    yield Flaw(
        summary=f"Cluster {facts.host} runs Cilium {version}; this release knows the rules of {KNOWN} only",
        evidence=f"{where(facts, 'DaemonSet', 'cilium')} container cilium-agent",
        fix=f"{advice}. When you accept this finding, the rules of the nearest known version are used.",
    )


@check("CM-VER-04")
def agents_and_apiserver_have_one_version(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report agents and clustermesh-apiserver of different versions."""
    agents, apiserver = agent_version(facts), apiserver_version(facts)
    if agents is None or apiserver is None or agents.release == apiserver.release:
        return
    yield Flaw(
        summary=f"In {facts.host} the agents are {agents} and clustermesh-apiserver is {apiserver}: an upgrade is under way "
        "or was left half done",
        evidence=f"{where(facts, 'DaemonSet', 'cilium')} and {where(facts, 'Deployment', 'clustermesh-apiserver')}: image tags",
        fix="Finish the upgrade, then run connect again: what is written depends on the version.",
    )

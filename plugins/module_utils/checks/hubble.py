# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Check of Hubble Relay across clusters."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.finding import Finding
from ..findings.wording import finding, grouped, listed, where
from ..mesh.facts import ClusterFacts
from ..mesh.trust import anchor
from .context import CheckContext, members
from .registry import check

RELAY = "hubble-relay"


def _relay_is_wanted(context: CheckContext, facts: ClusterFacts) -> bool:
    """Return whether Hubble Relay runs in the cluster or the binding asks for Hubble."""
    return RELAY in facts.parts or bool(context.mesh.binding.hubble_enabled)


@check("CM-HUB-01")
def relays_and_agents_share_a_ca(context: CheckContext) -> Iterator[Finding]:
    """Report relays that see no flows of clusters with another CA.

    Relay speaks mutual TLS with the agents of all clusters, with certificates of its own cluster's CA (Cilium documentation,
    "Setting up Cluster Mesh", "Shared certificate authority").
    """
    clusters = [facts for facts in members(context) if anchor(facts.server_cert) is not None]
    relays = [facts for facts in clusters if _relay_is_wanted(context, facts)]
    groups = grouped(clusters, lambda f: ca.public_key if (ca := anchor(f.server_cert)) is not None else "")
    if not relays or len(groups) < 2:
        return
    yield finding(
        "CM-HUB-01",
        cluster=relays[0].host,
        others=tuple(facts.host for facts in relays[1:]),
        summary=f"Hubble Relay of {listed(facts.host for facts in relays)} sees no flows of clusters with another CA",
        evidence="CAs of the server certificates: "
        + "; ".join(f"{key[:12]} in {listed(hosts)}" for key, hosts in groups.items())
        + f"; {where(relays[0], 'Deployment', RELAY)} or meshConfig.hubble",
        fix="View the flows of each cluster separately, or give all clusters one CA (docs/verify.md, Hubble). The mesh itself needs none.",
    )

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Hubble Relay across clusters."""

from __future__ import annotations

from collections.abc import Iterator

from ..facts import ClusterFacts
from ..findings import CheckContext, Finding, Scope, Severity, check
from ..trust import anchor
from .wording import finding, grouped, listed, members, where

RELAY = "hubble-relay"


def _wanted(context: CheckContext, facts: ClusterFacts) -> bool:
    return RELAY in facts.parts or bool(context.mesh.binding.hubble_enabled)


@check("CM-HUB-01", "Hubble Relay sees only its own cluster", severity=Severity.ADVISORY, scope=Scope.TIED)
def relays_see_the_mesh(context: CheckContext) -> Iterator[Finding]:
    """Relay speaks mutual TLS with the agents of all clusters, with certificates of its own cluster's CA (Cilium documentation,
    "Setting up Cluster Mesh", "Shared certificate authority")."""
    clusters = [facts for facts in members(context) if anchor(facts.server_cert) is not None]
    relays = [facts for facts in clusters if _wanted(context, facts)]
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
        fix="Look at flows in each cluster by itself, or give all clusters one CA (docs/verify.md, Hubble). The mesh itself needs none.",
    )

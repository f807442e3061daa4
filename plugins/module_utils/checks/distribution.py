# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Check of the tool or distribution that installed Cilium."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.finding import Finding
from ..findings.wording import finding, lines, where
from ..mesh.facts import ClusterFacts
from ..mesh.installers import installer
from .context import CheckContext
from .registry import check


@check("CM-DIST-01")
def helm_sets_the_values(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report where values of Cilium's chart are set, if a tool or distribution other than Helm installed it."""
    found = installer(facts)
    if found is None:
        return
    what = f"values of its chart are set in {found.place}" if found.place else "values of its chart cannot be set"
    yield finding(
        "CM-DIST-01",
        cluster=facts.host,
        summary=f"Cilium in {facts.host} comes from {found.name}: {what}",
        evidence=f"{found.mark} on {where(facts, 'ConfigMap', 'cilium-config')} or {where(facts, 'DaemonSet', 'cilium')}",
        fix=lines("Nothing needs to be done now: other findings that name a value name this place.", found.advice),
    )

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whose hands Cilium is in."""

from __future__ import annotations

from collections.abc import Iterator

from ..facts import ClusterFacts
from ..findings import CheckContext, Finding, Scope, Severity, check
from .installers import installer
from .wording import finding, lines, where


@check("CM-DIST-01", "Values of Cilium are set somewhere else than with Helm", severity=Severity.ADVISORY, scope=Scope.CLUSTER)
def installer_is_known(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    found = installer(facts)
    if found is None:
        return
    what = f"values of its chart are set in {found.place}" if found.place else "values of its chart cannot be set"
    yield finding(
        "CM-DIST-01",
        cluster=facts.host,
        summary=f"Cilium in {facts.host} comes from {found.name}: {what}",
        evidence=f"{found.mark} on {where(facts, 'ConfigMap', 'cilium-config')} or {where(facts, 'DaemonSet', 'cilium')}",
        fix=lines("Nothing to do now: where other findings name a value, they name this place.", found.advice),
    )

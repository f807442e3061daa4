# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about links that could not be measured."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..findings.finding import Finding
from ..findings.wording import finding, listed
from ..mesh.link_stage import LinkStage
from .links import LinkState

UNMEASURED = "CM-LINK-01"


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

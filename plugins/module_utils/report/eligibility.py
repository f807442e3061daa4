# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Eligibility of clusters: whether each can be meshed at all, and whether it can be meshed now, from the findings alone.

``eligible``: no blocking finding needs a new cluster, new nodes or new address ranges. ``ready``: no finding blocks. A cluster that
did not answer is neither, since nothing is known of it. A finding about several clusters counts for each of them: their owners decide
which of them changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import ClusterError
from ..checks.registry import registered
from ..findings.finding import Cure, Finding, Severity


@dataclass(frozen=True, kw_only=True)
class Eligibility:
    """Eligibility of one cluster. Shape of ``to_dict``: ``{eligible, ready, blocking, remedies}``."""

    eligible: bool
    ready: bool
    blocking: tuple[str, ...] = ()  # codes, each once, in the order of the findings; without those that the user accepted
    remedies: int = 0  # findings of severity remediable

    def to_dict(self) -> dict[str, Any]:
        """Return ``{eligible, ready, blocking, remedies}``."""
        return {"eligible": self.eligible, "ready": self.ready, "blocking": list(self.blocking), "remedies": self.remedies}


def eligibility(findings: Iterable[Finding], clusters: Iterable[str]) -> dict[str, Eligibility]:
    """Return the eligibility by inventory name, in the order of ``clusters``. Pure.

    A finding that names no cluster counts for all.
    """
    every = tuple(findings)
    checks = registered()
    cures = {code: entry.cure for code, entry in checks.items()}
    return {host: _of_one([f for f in every if _concerns(f, host)], cures) for host in clusters}


def _of_one(findings: Iterable[Finding], cures: Mapping[str, Cure]) -> Eligibility:
    own = list(findings)
    blocking = [finding for finding in own if finding.blocks]
    return Eligibility(
        eligible=not any(_unanswered(f) or cures.get(f.code) is Cure.REINSTALL for f in blocking),
        ready=not blocking,
        blocking=tuple(dict.fromkeys(finding.code for finding in blocking)),
        remedies=sum(finding.severity is Severity.REMEDIABLE for finding in own),
    )


def _concerns(finding: Finding, host: str) -> bool:
    named = {finding.cluster, finding.peer, *finding.others} - {""}
    return not named or host in named


_UNANSWERED = frozenset({ClusterError.code, *(kind.code for kind in ClusterError.__subclasses__())})


def _unanswered(finding: Finding) -> bool:
    return finding.code in _UNANSWERED

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Eligibility of clusters: whether each can be meshed at all, and whether it can be meshed now, from the findings alone.

``eligible``: no blocking finding needs a new cluster, new nodes or new address ranges. ``ready``: no finding blocks. A cluster that was not
observed, or not asked, is neither, since nothing is known of it, whatever the severity of the finding that says so. A finding about several
clusters counts for each of them: their owners decide which of them changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ..base.errors import CredentialsInvalid, Forbidden, ServerRefused, WriteConflict
from ..checks.registry import registered
from ..findings.finding import Cure, Finding, Severity


class ObservationState(StrEnum):
    """Whether anything is known of a cluster."""

    OBSERVED = "observed"
    NOT_REACHED = "not_reached"  # it did not answer
    REFUSED = "refused"  # it answered, and refused to be read
    CREDENTIALS_INVALID = "credentials_invalid"  # the kubeconfig cannot be used, or the cluster does not know its user
    NOT_ASKED = "not_asked"  # --limit, or the hosts pattern of the play, leaves it out


_ANSWERS: Final = {
    CredentialsInvalid.code: ObservationState.CREDENTIALS_INVALID,
    **dict.fromkeys((Forbidden.code, ServerRefused.code, WriteConflict.code), ObservationState.REFUSED),
}
"""Code of the failed observation -> answer; every other failure is one to reach the cluster."""


@dataclass(frozen=True, kw_only=True)
class Eligibility:
    """Eligibility of one cluster. Shape of ``to_dict``: ``{eligible, ready, answer, blocking, remedies}``."""

    eligible: bool
    ready: bool
    answer: ObservationState = ObservationState.OBSERVED
    blocking: tuple[str, ...] = ()  # codes, each once, in the order of the findings; without those that the user accepted
    remedies: int = 0  # findings of severity remediable

    def to_dict(self) -> dict[str, Any]:
        """Return ``{eligible, ready, answer, blocking, remedies}``."""
        return {
            "eligible": self.eligible,
            "ready": self.ready,
            "answer": self.answer.value,
            "blocking": list(self.blocking),
            "remedies": self.remedies,
        }


def eligibility(
    findings: Iterable[Finding], clusters: Iterable[str], *, observed: Collection[str], asked: Collection[str]
) -> dict[str, Eligibility]:
    """Return the eligibility by inventory name, in the order of ``clusters``. Pure.

    A finding that names no cluster counts for all.

    :param observed: clusters that answered. ``asked``: those that take part in the run.
    """
    every = tuple(findings)
    checks = registered()
    cures = {code: entry.cure for code, entry in checks.items()}
    answers = {host: ObservationState.NOT_ASKED if host not in asked else ObservationState.OBSERVED for host in clusters}
    failed = {f.cluster: _ANSWERS[f.code] for f in every if f.code in _ANSWERS}
    answers |= {host: failed.get(host, ObservationState.NOT_REACHED) for host in answers if host in asked and host not in observed}
    return {host: _of_one([f for f in every if _concerns(f, host)], cures, answer) for host, answer in answers.items()}


def _of_one(findings: Iterable[Finding], cures: Mapping[str, Cure], answer: ObservationState) -> Eligibility:
    own = list(findings)
    blocking = [finding for finding in own if finding.blocks]
    known = answer is ObservationState.OBSERVED
    return Eligibility(
        eligible=known and not any(cures.get(f.code) is Cure.REINSTALL for f in blocking),
        ready=known and not blocking,
        answer=answer,
        blocking=tuple(dict.fromkeys(finding.code for finding in blocking)),
        remedies=sum(finding.severity is Severity.REMEDIABLE for finding in own),
    )


def _concerns(finding: Finding, host: str) -> bool:
    named = {finding.cluster, finding.peer, *finding.others} - {""}
    return not named or host in named

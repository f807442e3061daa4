# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Registry of the checks of clusters, pairs and the mesh, and the one function that runs them.

Importing this package registers every check.

May import: base, envelope, etcd, findings, leases, links, mesh, plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal

from ..base.errors import InvalidInput
from ..findings.finding import Finding, Severity, ordered
from ..findings.wording import failure_finding
from . import (  # noqa: F401  # importing them registers their checks
    certificates,
    drift,
    encryption,
    endpoints,
    identity,
    installation,
    kvstoremesh,
    leases,
    network,
    nodes,
    ownership,
    peer_records,
    probes,
    rights,
    service,
    settings,
    size,
    topology,
    trust,
    versions,
    waivers,
    workloads,
)
from .context import CheckContext
from .registry import registered, run

Purpose = Literal["connect", "disconnect", "verify"]

TO_DISCONNECT: Final[dict[str, Severity]] = {
    "CM-USER-02": Severity.BLOCKING,  # this binding's users cannot be removed from a file that cannot be parsed
    "CM-OWN-02": Severity.ADVISORY,  # foreign keys stay as they are
    "CM-DRIFT-02": Severity.ADVISORY,  # changed keys stay as they are: another writer owns them now
}
"""Codes of checks that run before a disconnect, with their severity there.

No other check may stop it: a disconnect must work with broken and dead clusters.
"""


def run_checks(context: CheckContext, purpose: Purpose = "connect") -> tuple[Finding, ...]:
    """Return the findings of the checks that matter for ``purpose``, in order, and one for each cluster that does not answer.

    The function is pure. With ``disconnect`` a cluster that does not answer blocks only if no member answers, or if the user's input
    about it is not valid. For ``connect`` it blocks unless the context tolerates it (mesh/tolerance.py). ``verify`` writes nothing and says
    what is known, so there it blocks unless ``max_failures`` allows as many.
    """
    if purpose == "disconnect":
        chosen = [entry for code, entry in registered().items() if code in TO_DISCONNECT]
        found = [replace(f, severity=TO_DISCONNECT[f.code]) for f in run(context, chosen)]
    else:
        found = list(run(context))
    return ordered([*found, *_failure_findings(context, purpose)])


def _failure_findings(context: CheckContext, purpose: Purpose) -> Iterator[Finding]:
    """Yield one finding for each cluster that could not be observed; its severity depends on ``purpose`` and tolerance."""
    answered = any(host in context.facts for host in context.mesh.clusters)
    for failure in context.failures.values():
        tolerated = _tolerated(context, failure.host, purpose)
        blocks = not tolerated or not answered or failure.code == InvalidInput.code
        yield failure_finding(
            failure.code,
            message=failure.message,
            remedy=failure.remedy,
            cluster=failure.host,
            severity=None if blocks else Severity.REMEDIABLE,
            consequence=_blocking_evidence(context, purpose) if blocks else _consequence(purpose),
        )


def _tolerated(context: CheckContext, host: str, purpose: Purpose) -> bool:
    """Return whether a cluster that does not answer does not stop a run with this purpose."""
    if purpose == "verify":
        return context.max_failures is not None and host in context.tolerated
    return purpose == "disconnect" or host in context.tolerated


def _blocking_evidence(context: CheckContext, purpose: Purpose) -> str:
    """Return why a cluster that does not answer blocks, where ``max_failures`` is exceeded; else an empty string."""
    silent = [host for host in context.mesh.clusters if host in context.failures]
    if purpose == "verify" and context.max_failures is None:
        return "Nothing is known of it."
    if purpose == "disconnect" or context.max_failures is None or len(silent) <= context.max_failures:
        return ""
    return f"{len(silent)} members do not answer, and max_failures allows {context.max_failures}."


def _consequence(purpose: Purpose) -> str:
    """Return what the run does about a cluster that does not answer and does not block."""
    if purpose == "disconnect":
        return "The cluster is left as it is; its peers remove their links to it."
    if purpose == "verify":
        return "Nothing is known of it, and max_failures allows that."
    return "What was written for it stays as it is, its links are degraded, and the run updates the rest of the mesh."

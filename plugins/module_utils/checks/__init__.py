# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every check there is, and the one way to run them. Importing this package registers them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal

from .. import errors
from ..ca.guards import CA_CODES
from ..errors import InvalidInput, MeshError
from ..exposure.codes import EXPOSURE_CODES
from ..fabric import FABRIC_CODES
from ..findings import CheckContext, Finding, Severity, ordered, registered, run
from ..items.codes import ITEM_CODES
from ..policies.codes import INTENT_CODES
from ..policies.isolation_codes import ISOLATION_CODES
from ..probe.codes import REACH_CODES
from ..services.codes import SERVICE_CODES
from ..services.failover_codes import FAILOVER_CODES
from . import (
    ca_bundle,
    certificates,
    claims,
    distribution,
    drift,
    elb,
    encryption,
    endpoints,
    hubble,
    identity,
    installation,
    kvstoremesh,
    leases,
    network,
    nodes,
    ownership,
    probes,
    rights,
    service,
    settings,
    tombstones,
    topology,
    trust,
    versions,
    workloads,
)

__all__ = [
    "FAILURE_CODES",
    "PLAN_CODES",
    "Purpose",
    "all_codes",
    "ca_bundle",
    "certificates",
    "claims",
    "distribution",
    "drift",
    "elb",
    "encryption",
    "endpoints",
    "hubble",
    "identity",
    "installation",
    "kvstoremesh",
    "leases",
    "network",
    "nodes",
    "ownership",
    "probes",
    "rights",
    "run_checks",
    "service",
    "settings",
    "tombstones",
    "topology",
    "trust",
    "versions",
    "workloads",
]

Purpose = Literal["connect", "disconnect", "verify"]

FAILURE_CODES: Final = tuple(
    sorted({kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MeshError)})
)
"""Codes of the errors; a cluster that could not be observed is a finding with one of them."""

PLAN_CODES: Final = (
    *CA_CODES,
    *EXPOSURE_CODES,
    *ITEM_CODES,
    *FABRIC_CODES,
    *INTENT_CODES,
    *ISOLATION_CODES,
    *REACH_CODES,
    *FAILOVER_CODES,
    *SERVICE_CODES,
    "CM-LEASE-07",
    "CM-LEASE-08",
    "CM-LEASE-09",
    "CM-LEASE-10",
    "CM-LEASE-11",
    "CM-LEASE-12",
    "CM-LEASE-13",
    "CM-LEASE-14",
    "CM-OWN-06",
    "CM-OWN-07",
    "CM-OWN-08",
    "CM-OWN-09",
    "CM-OWN-10",
    "CM-OWN-11",
    "CM-OWN-12",
    "CM-PLAN-01",
)
"""Codes of findings that planning or an action comes to, and no check."""

TO_DISCONNECT: Final[dict[str, Severity]] = {
    "CM-USER-02": Severity.BLOCKING,  # our users cannot be taken out of a file that cannot be read
    "CM-OWN-02": Severity.ADVISORY,  # stays as it is
    "CM-DRIFT-02": Severity.ADVISORY,  # likewise: it is somebody else's now
}
"""What matters when links are taken away, and how much. Nothing else may stop it: it must work with broken and dead clusters."""


def run_checks(context: CheckContext, purpose: Purpose = "connect") -> tuple[Finding, ...]:
    """All findings of the checks that matter for ``purpose``, and one for each cluster that could not be observed; ordered, pure.

    With ``disconnect`` a cluster that does not answer blocks only when none does, or when what the user wrote about it is wrong; else
    it blocks unless the context tolerates it (absence.py).
    """
    if purpose == "disconnect":
        chosen = [entry for code, entry in registered().items() if code in TO_DISCONNECT]
        found = [replace(f, severity=TO_DISCONNECT[f.code]) for f in run(context, chosen)]
    else:
        found = list(run(context))
    return ordered([*found, *_failures(context, purpose)])


def all_codes() -> tuple[str, ...]:
    """Every code that a finding can have; each has a page in docs/runbooks."""
    return tuple(sorted({*registered(), *FAILURE_CODES, *PLAN_CODES}))


def _failures(context: CheckContext, purpose: Purpose) -> Iterator[Finding]:
    answered = any(host in context.facts for host in context.mesh.clusters)
    for failure in context.failures.values():
        tolerated = purpose == "disconnect" or failure.host in context.tolerated
        blocks = not tolerated or not answered or failure.code == InvalidInput.code
        yield Finding(
            code=failure.code,
            severity=Severity.BLOCKING if blocks else Severity.REMEDIABLE,
            cluster=failure.host,
            summary=failure.message,
            evidence=_why_it_blocks(context, purpose) if blocks else _consequence(purpose),
            fix=failure.remedy,
        )


def _why_it_blocks(context: CheckContext, purpose: Purpose) -> str:
    silent = [host for host in context.mesh.clusters if host in context.failures]
    if purpose == "disconnect" or context.max_failures is None or len(silent) <= context.max_failures:
        return ""
    return f"{len(silent)} members do not answer, and max_failures allows {context.max_failures}."


def _consequence(purpose: Purpose) -> str:
    if purpose == "disconnect":
        return "The cluster is left as it is; its peers forget it."
    return "What was written for it stays as it is, its links are degraded, and the rest of the mesh is brought up to date."

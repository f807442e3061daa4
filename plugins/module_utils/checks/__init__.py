# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every check there is, and the one way to run them. Importing this package registers them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal

from .. import errors
from ..errors import InvalidInput, MeshError
from ..findings import CheckContext, Finding, Severity, ordered, registered, run
from . import certificates, endpoints, identity, installation, network, ownership, settings, trust, versions

__all__ = [
    "FAILURE_CODES",
    "Purpose",
    "all_codes",
    "certificates",
    "endpoints",
    "identity",
    "installation",
    "network",
    "ownership",
    "run_checks",
    "settings",
    "trust",
    "versions",
]

Purpose = Literal["connect", "disconnect", "verify"]

FAILURE_CODES: Final = tuple(
    sorted({kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MeshError)})
)
"""Codes of the errors; a cluster that could not be observed is a finding with one of them."""

TO_DISCONNECT: Final[dict[str, Severity]] = {
    "CM-USER-02": Severity.BLOCKING,  # our users cannot be taken out of a file that cannot be read
    "CM-OWN-02": Severity.ADVISORY,  # stays as it is
}
"""What matters when links are taken away, and how much. Nothing else may stop it: it must work with broken and dead clusters."""


def run_checks(context: CheckContext, purpose: Purpose = "connect") -> tuple[Finding, ...]:
    """All findings of the checks that matter for ``purpose``, and one for each cluster that could not be observed; ordered, pure.

    With ``disconnect`` a cluster that does not answer blocks only when none does, or when what the user wrote about it is wrong.
    """
    if purpose == "disconnect":
        chosen = [entry for code, entry in registered().items() if code in TO_DISCONNECT]
        found = [replace(f, severity=TO_DISCONNECT[f.code]) for f in run(context, chosen)]
    else:
        found = list(run(context))
    return ordered([*found, *_failures(context, purpose)])


def all_codes() -> tuple[str, ...]:
    """Every code that a finding can have; each has a page in docs/runbooks."""
    return tuple(sorted({*registered(), *FAILURE_CODES}))


def _failures(context: CheckContext, purpose: Purpose) -> Iterator[Finding]:
    answered = any(host in context.facts for host in context.mesh.clusters)
    for failure in context.failures.values():
        blocks = purpose != "disconnect" or not answered or failure.code == InvalidInput.code
        yield Finding(
            code=failure.code,
            severity=Severity.BLOCKING if blocks else Severity.REMEDIABLE,
            cluster=failure.host,
            summary=failure.message,
            evidence="" if blocks else "The cluster is left as it is; its peers forget it.",
            fix=failure.remedy,
        )

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rights without which a mesh can be made, and what is lost by it."""

from __future__ import annotations

from collections.abc import Iterator

from ..facts import ClusterFacts
from ..findings import CheckContext, Finding, Scope, Severity, check
from .wording import finding, lines, listed, where

_LOST = {
    "version": "the version of Kubernetes is not told",
    "parts": "nothing is said of cilium-operator and Hubble",
    "ipsec": "IPsec keys are not compared",
    "pod_pools": "pools of pod addresses are not compared",
    "ca_bundle": "the certificates of the CA bundle are not looked at",
}
"""By the name of the read (observe/reads.py); cilium-ca has a finding of its own."""


@check("CM-RBAC-01", "A right is missing, and checks are left out", severity=Severity.ADVISORY, scope=Scope.CLUSTER)
def checks_are_complete(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    missing = [entry for entry in facts.unread if entry.what != "ca"]
    if not missing:
        return
    yield finding(
        "CM-RBAC-01",
        cluster=facts.host,
        summary=f"Not everything could be read in {facts.host}: "
        + listed(_LOST.get(entry.what, f"{entry.what} is not looked at") for entry in missing),
        evidence=" ".join(entry.message for entry in missing),
        fix=lines(*dict.fromkeys(entry.remedy for entry in missing), "docs/rbac.md has the whole role."),
    )


@check("CM-RBAC-02", "Secret cilium-ca may not be read", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def ca_may_be_read(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """It holds a private key, so a cluster's owner may well withhold it; then peers get copies instead of certificates of their own."""
    denied = next((entry for entry in facts.unread if entry.what == "ca"), None)
    if denied is None:
        return
    yield finding(
        "CM-RBAC-02",
        cluster=facts.host,
        summary=f"Secret cilium-ca of {facts.host} may not be read: peers with another CA get a copy of its own client certificate, "
        "which a renewal there does not reach",
        evidence=f"{where(facts, 'Secret', 'cilium-ca')}: {denied.message}",
        fix=lines(denied.remedy, "Or run connect again after every renewal of the certificates."),
    )

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of RBAC permissions without which a mesh can be made, but with less information."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.wording import lines, listed, where
from ..mesh.facts.cluster import ClusterFacts
from .context import CheckContext
from .flaw import Flaw
from .registry import check

_LOST = {
    "version": "the version of Kubernetes is not known",
    "parts": "cilium-operator and Hubble are not checked",
    "ipsec": "IPsec keys are not compared",
    "pod_pools": "pools of pod addresses are not compared",
    "ca_bundle": "the certificates of the CA bundle are not checked",
    "identities": "its identities are not compared with their limit",
    "endpoints": "its endpoints are not compared with limits",
}
"""What is lost, by the name of the read that RBAC forbids (observe/reads.py, observe/sizes.py). Secret cilium-ca has a separate finding."""


@check("CM-RBAC-01")
def optional_reads_are_permitted(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report optional reads that RBAC forbids, and the checks that are left out."""
    sizes = context.sizes.get(facts.host)
    missing = [*(entry for entry in facts.unread if entry.what != "ca"), *(sizes.unread if sizes else ())]
    if not missing:
        return
    yield Flaw(
        summary=f"Some objects of {facts.host} could not be read: "
        + listed(_LOST.get(entry.what, f"{entry.what} is not checked") for entry in missing),
        evidence=" ".join(entry.message for entry in missing),
        fix=lines(*dict.fromkeys(entry.remedy for entry in missing), "The playbook rbac prints the whole role (docs/rbac.md)."),
    )


@check("CM-RBAC-02")
def ca_may_be_read(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a Secret cilium-ca that may not be read.

    It holds a private key, so the owner of a cluster may have a reason to withhold it. Peers then get a copy of a client certificate
    in place of their own; those that have one of their own keep it.
    """
    denied = next((entry for entry in facts.unread if entry.what == "ca"), None)
    if denied is None:
        return
    yield Flaw(
        summary=f"RBAC forbids reading Secret cilium-ca of {facts.host}: peers with another CA get a copy of {facts.host}'s own client "
        f"certificate, and renewing it in {facts.host} does not update the copy",
        evidence=f"{where(facts, 'Secret', 'cilium-ca')}: {denied.message}",
        fix=lines(
            denied.remedy, f"Or run connect again after each renewal of the certificates of {facts.host}: it brings peers the new one."
        ),
    )

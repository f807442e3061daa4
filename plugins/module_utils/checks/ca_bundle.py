# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of the CA bundle: where tls.caBundle is on, a separate object takes the place of ca.crt in Cilium's Secrets."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.finding import Finding
from ..findings.wording import finding, helm, kubectl, lines, show, where
from ..mesh.ca_sources import AGENTS, KVSTOREMESH, ca_source
from ..mesh.facts import ClusterFacts
from .context import CheckContext
from .registry import check


@check("CM-CA-01")
def ca_bundle_is_usable(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report a CA bundle that is missing or cannot be parsed."""
    bundle = facts.ca_bundle
    if bundle is None or (bundle.present and not bundle.problem):
        return
    yield finding(
        "CM-CA-01",
        cluster=facts.host,
        summary=f"The CA bundle of {facts.host} {'cannot be used' if bundle.present else 'is missing'}: its mesh etcd trusts no client, "
        "and new pods do not start",
        evidence=f"{where(facts, bundle.kind, bundle.name)}: {bundle.problem or 'not found'}; the volumes of Deployment "
        f"clustermesh-apiserver or DaemonSet cilium take key {show(bundle.key)} of it for ca.crt",
        fix=lines(
            "Put the CA certificates of all clusters into it:",
            helm(facts, "tls.caBundle.enabled=true", "tls.caBundle.content=PEM_OF_ALL_CAS"),
            "Or go back to the ca.crt of the Secrets: tls.caBundle.enabled=false.",
        ),
    )


@check("CM-CA-02")
def agents_and_kvstoremesh_trust_the_same_ca(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report agents that use the CA bundle while kvstoremesh uses another CA.

    Older charts, 1.16 among them, mount the bundle in agents and etcd, but not in kvstoremesh, which dials the peers (cilium issue
    42726).
    """
    if facts.agent is None or facts.apiserver is None or not facts.runs_kvstoremesh:
        return
    agents = ca_source(facts.agent.volumes, *AGENTS[1:])
    kvstoremesh = ca_source(facts.apiserver.volumes, *KVSTOREMESH[1:])
    if agents is None or kvstoremesh is None or agents == kvstoremesh or not agents.is_bundle:
        return
    yield finding(
        "CM-CA-02",
        cluster=facts.host,
        summary=f"The CA bundle of {facts.host} does not reach kvstoremesh, which dials the peers",
        evidence=f"{AGENTS[2]} is {agents.kind} {agents.name} in DaemonSet cilium, and {kvstoremesh.kind} {kvstoremesh.name} in "
        "Deployment clustermesh-apiserver (cilium issue 42726)",
        fix=lines(
            "Nothing is needed for links made here: they carry the CA of their peer. For others, upgrade Cilium to a chart that gives "
            "kvstoremesh the bundle (1.19 and newer), then:",
            kubectl(facts, "rollout", "restart", "deployment/clustermesh-apiserver"),
        ),
    )

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Where tls.caBundle is on, an object of its own stands in for the ca.crt of Cilium's Secrets."""

from __future__ import annotations

from collections.abc import Iterator

from ..ca_sources import AGENTS, KVSTOREMESH, ca_source
from ..facts import ClusterFacts
from ..findings import CheckContext, Cure, Finding, Scope, Severity, check
from .wording import finding, helm, kubectl, lines, show, where


@check("CM-CA-01", "The CA bundle cannot be used", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def bundle_can_be_used(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    bundle = facts.ca_bundle
    if bundle is None or (bundle.present and not bundle.problem):
        return
    yield finding(
        "CM-CA-01",
        cluster=facts.host,
        summary=f"The CA bundle of {facts.host} {'cannot be used' if bundle.present else 'is missing'}: its mesh etcd trusts nobody, "
        "and a pod that starts anew does not come up",
        evidence=f"{where(facts, bundle.kind, bundle.name)}: {bundle.problem or 'not found'}; the volumes of Deployment "
        f"clustermesh-apiserver or DaemonSet cilium take key {show(bundle.key)} of it for ca.crt",
        fix=lines(
            "Put the CA certificates of all clusters into it:",
            helm(facts, "tls.caBundle.enabled=true", "tls.caBundle.content=PEM_OF_ALL_CAS"),
            "Or go back to the ca.crt of the Secrets: tls.caBundle.enabled=false.",
        ),
    )


@check("CM-CA-02", "Agents and kvstoremesh trust different CAs", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER, cure=Cure.RESTART)
def readers_trust_the_same(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Older charts, 1.16 among them, give the bundle to agents and etcd and not to kvstoremesh, which is who dials (cilium issue 42726)."""
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

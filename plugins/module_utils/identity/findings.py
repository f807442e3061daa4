# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about keeping or assigning names and ids, and about what else has to be done. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ..findings.finding import Finding, Severity
from ..findings.wording import config_evidence, finding, helm, lines, listed, show
from ..leases.quarantine import lease_text
from ..leases.registry import Registry, RegistryProblem, parse_registry, registry_name
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.ownership.gitops import RECONCILER_NAMES, made_by_helm
from .decide import IdentityDecision, IdentityVerdict
from .plan import assignments, named_certificates

SOLVED: Final = ("CM-ID-01", "CM-ID-02", "CM-ID-03")
"""Findings that an assignment resolves in its cluster."""


def identity_findings(decisions: Iterable[IdentityDecision], facts: Mapping[str, ClusterFacts], *, assign: bool) -> tuple[Finding, ...]:
    """Return the findings about each decision.

    :param assign: the user requested assignments, so that one that cannot be made blocks.
    """
    made = tuple(decisions)
    found: list[Finding] = []
    for decision in made:
        cluster = facts[decision.host]
        if decision.verdict is IdentityVerdict.REFUSE:
            found.append(_refused(decision, cluster))
        elif decision.verdict is IdentityVerdict.ASSIGN:
            found.append(_waiting(decision, cluster, assign))
    for decision in assignments(made):
        found.extend(_side_effects(decision, facts[decision.host], assign))
    return tuple(found)


def _refused(decision: IdentityDecision, cluster: ClusterFacts) -> Finding:
    wanted = f"name {decision.name} and id {decision.id}" if decision.id else "another name and id"
    return finding(
        "CM-LEASE-09",
        cluster=decision.host,
        summary=f"Cluster {decision.host} is not given {wanted} while it runs",
        evidence=f"{'; '.join(decision.reasons)}. {config_evidence(cluster, 'cluster-name', 'cluster-id')}",
        fix=lines(*decision.recipe) or "Install Cilium there first.",
    )


def _waiting(decision: IdentityDecision, cluster: ClusterFacts, assign: bool) -> Finding:
    evidence = config_evidence(cluster, "cluster-name", "cluster-id")
    if decision.id is None:
        return finding(
            "CM-LEASE-12",
            cluster=decision.host,
            summary=f"No name and id is available for cluster {decision.host}",
            evidence=f"{'; '.join(decision.reasons)}. {evidence}",
            fix="Choose others in names, or disconnect clusters that no longer exist: their ids are free after quarantine_hours.",
        )
    kept = cluster.name == decision.name
    return finding(
        "CM-LEASE-10",
        cluster=decision.host,
        summary=f"Cluster {decision.host} was never meshed; it {'gets' if assign else 'can get'} name {decision.name} and id {decision.id}"
        + ("; its pods keep their identities, and policies of peers do not recognise them" if kept else ""),
        evidence=f"{evidence}" + (f"; {'; '.join(decision.reasons)}" if decision.reasons else ""),
        fix=lines(
            ""
            if assign
            else "Run playbook edge_portal.cilium_mesh.identity with cluster_identity_policy=assign, or set the Helm values "
            "cluster.name and cluster.id yourself.",
            # Identities are found by their labels, of which the name is one and the id none (pkg/allocator, lockedAllocate; issue 36338).
            f"If pods run there, choose a new name before it is connected: cluster_identity_names={{{decision.host}: {{name: NEW_NAME}}}}. "
            "Identities are made anew only with another name."
            if kept
            else "",
        ),
        severity=Severity.REMEDIABLE if kept else Severity.ADVISORY,
    )


def _side_effects(decision: IdentityDecision, cluster: ClusterFacts, assign: bool) -> Iterator[Finding]:
    for named in named_certificates(cluster, decision.name):
        if named.obstacle:
            yield finding(
                "CM-LEASE-11",
                cluster=decision.host,
                summary=f"Secret {named.secret} of {decision.host} needs a certificate for {named.common_name}; no run can issue it",
                evidence=named.obstacle,
                fix=lines(
                    "Issue it again by the installation's own method, then run this again:",
                    helm(cluster, f"cluster.name={decision.name}", f"cluster.id={decision.id}"),
                ),
                severity=Severity.BLOCKING if assign else Severity.REMEDIABLE,
            )
    marks = {**cluster.config_labels, **cluster.config_annotations}
    gitops = [key for key in RECONCILER_NAMES if key in marks]
    if gitops or made_by_helm(marks, marks):
        owner = "A GitOps controller" if gitops else "Helm"
        yield finding(
            "CM-LEASE-08",
            cluster=decision.host,
            summary=f"{owner} owns cilium-config of {decision.host} and will restore the old name and id unless the new ones "
            "are set there too",
            evidence=f"{gitops[0]} on it" if gitops else "Helm's marks on it",
            fix=lines(
                "Set both where the installation is declared, so that the next upgrade renders the same:",
                f"cluster.name={decision.name}, cluster.id={decision.id}"
                if gitops
                else helm(cluster, f"cluster.name={decision.name}", f"cluster.id={decision.id}"),
                "Hubble's server certificates carry the name too; they are issued with it.",
            ),
        )


def foreign_leases(mesh: Mesh, facts: Mapping[str, ClusterFacts], others: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Yield findings about registries of other bindings that lease a member a name or an id other than the one it runs.

    :param others: inventory name -> name of the ConfigMap -> its text.
    """
    for host, registries in others.items():
        cluster = facts[host]
        for name, text in sorted(registries.items()):
            try:
                registry: Registry = parse_registry(text)
            except RegistryProblem:
                continue  # the checks of its own binding report it
            held = [lease for lease in registry.leases if lease.holds and lease.uid == cluster.uid]
            if name == registry_name(mesh.binding) or not held or any((h.name, h.id) == (cluster.name, cluster.id) for h in held):
                continue
            yield finding(
                "CM-LEASE-07",
                cluster=host,
                summary=f"Another binding leases {listed(lease_text(lease) for lease in held)} to {host}, which runs another name or id",
                evidence=f"ConfigMap {cluster.namespace}/{show(name)}; {config_evidence(cluster, 'cluster-name', 'cluster-id')}",
                fix="A cluster has one name and one id in all its meshes. Let that binding adopt what runs, or disconnect it there.",
            )

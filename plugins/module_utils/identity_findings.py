# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What stands against keeping or giving names and ids, and what has to be done besides. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from .checks.leases import lease_text
from .checks.wording import config_evidence, helm, lines, listed, printable, show
from .facts import ClusterFacts
from .findings import Finding, Severity
from .identity import Decision, Verdict
from .model import Mesh
from .plan_identity import assignments, named_certificates
from .registry import Registry, RegistryProblem, parse_registry, registry_name

CODES: Final = ("CM-LEASE-07", "CM-LEASE-08", "CM-LEASE-09", "CM-LEASE-10", "CM-LEASE-11", "CM-LEASE-12", "CM-LEASE-13", "CM-LEASE-14")
"""Codes that no registered check finds: they are about what is to be done, or went wrong while it was done."""

SOLVED: Final = ("CM-ID-01", "CM-ID-02", "CM-ID-03")
"""What an assignment puts right in the cluster that it is made for."""

_GITOPS: Final = (
    "argocd.argoproj.io/tracking-id",
    "argocd.argoproj.io/instance",
    "kustomize.toolkit.fluxcd.io/name",
    "helm.toolkit.fluxcd.io/name",
)


def identity_findings(decisions: Iterable[Decision], facts: Mapping[str, ClusterFacts], *, assign: bool) -> tuple[Finding, ...]:
    """About each decision. ``assign``: the user asked for it, so that what cannot be done blocks."""
    made = tuple(decisions)
    found: list[Finding] = []
    for decision in made:
        cluster = facts[decision.host]
        if decision.verdict is Verdict.REFUSE:
            found.append(_refused(decision, cluster))
        elif decision.verdict is Verdict.ASSIGN:
            found.append(_waiting(decision, cluster, assign))
    for decision in assignments(made):
        found.extend(_around(decision, facts[decision.host], assign))
    return tuple(found)


def _finding(code: str, *, cluster: str, summary: str, evidence: str, fix: str, severity: Severity) -> Finding:
    """As the checks word theirs; the severity is the case's."""
    return Finding(code=code, severity=severity, cluster=cluster, summary=printable(summary), evidence=printable(evidence)[:1500], fix=fix)


def _refused(decision: Decision, cluster: ClusterFacts) -> Finding:
    wanted = f"name {decision.name} and id {decision.id}" if decision.id else "another name and id"
    return _finding(
        "CM-LEASE-09",
        cluster=decision.host,
        summary=f"Cluster {decision.host} is not given {wanted} while it runs",
        evidence=f"{'; '.join(decision.reasons)}. {config_evidence(cluster, 'cluster-name', 'cluster-id')}",
        fix=lines(*decision.recipe) or "Install Cilium there first.",
        severity=Severity.BLOCKING,
    )


def _waiting(decision: Decision, cluster: ClusterFacts, assign: bool) -> Finding:
    evidence = config_evidence(cluster, "cluster-name", "cluster-id")
    if decision.id is None:
        return _finding(
            "CM-LEASE-12",
            cluster=decision.host,
            summary=f"There is no name and id for cluster {decision.host}",
            evidence=f"{'; '.join(decision.reasons)}. {evidence}",
            fix="Choose others in names, or take clusters that are no more out of the mesh: their ids are free after quarantine_hours.",
            severity=Severity.BLOCKING,
        )
    return _finding(
        "CM-LEASE-10",
        cluster=decision.host,
        summary=f"Cluster {decision.host} was never meshed; it {'gets' if assign else 'can get'} name {decision.name} and id {decision.id}",
        evidence=f"{evidence}" + (f"; {'; '.join(decision.reasons)}" if decision.reasons else ""),
        fix=""
        if assign
        else "Run playbook edge_portal.cilium_mesh.identity with cluster_identity_policy=assign, or set the Helm values "
        "cluster.name and cluster.id yourself.",
        severity=Severity.ADVISORY,
    )


def _around(decision: Decision, cluster: ClusterFacts, assign: bool) -> Iterator[Finding]:
    for named in named_certificates(cluster, decision.name):
        if named.obstacle:
            yield _finding(
                "CM-LEASE-11",
                cluster=decision.host,
                summary=f"Secret {named.secret} of {decision.host} needs a certificate for {named.common_name}, and none can be issued",
                evidence=named.obstacle,
                fix=lines(
                    "Issue it again by the installation's own method, then run this again:",
                    helm(cluster, f"cluster.name={decision.name}", f"cluster.id={decision.id}"),
                ),
                severity=Severity.BLOCKING if assign else Severity.REMEDIABLE,
            )
    marks = {**cluster.config_labels, **cluster.config_annotations}
    gitops = [key for key in _GITOPS if key in marks]
    if gitops or marks.get("app.kubernetes.io/managed-by") == "Helm" or "meta.helm.sh/release-name" in marks:
        owner = "A GitOps controller" if gitops else "Helm"
        yield _finding(
            "CM-LEASE-08",
            cluster=decision.host,
            summary=f"{owner} owns cilium-config of {decision.host} and puts the old name and id back unless they are set there too",
            evidence=f"{gitops[0]} on it" if gitops else "Helm's marks on it",
            fix=lines(
                "Set both where the installation is declared, so that the next upgrade renders the same:",
                f"cluster.name={decision.name}, cluster.id={decision.id}"
                if gitops
                else helm(cluster, f"cluster.name={decision.name}", f"cluster.id={decision.id}"),
                "Hubble's server certificates carry the name too; they are issued with it.",
            ),
            severity=Severity.REMEDIABLE,
        )


def foreign_leases(mesh: Mesh, facts: Mapping[str, ClusterFacts], others: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Registries of other bindings that lease a member a name or an id which is not the one it runs.

    :param others: inventory name -> name of the ConfigMap -> its text.
    """
    for host, registries in others.items():
        cluster = facts[host]
        for name, text in sorted(registries.items()):
            try:
                registry: Registry = parse_registry(text)
            except RegistryProblem:
                continue  # whoever owns it is told by its own checks
            held = [lease for lease in registry.leases if lease.holds and lease.uid == cluster.uid]
            if name == registry_name(mesh.binding) or not held or any((h.name, h.id) == (cluster.name, cluster.id) for h in held):
                continue
            yield _finding(
                "CM-LEASE-07",
                cluster=host,
                summary=f"Another binding has leased {host} {listed(lease_text(lease) for lease in held)}, which it does not run",
                evidence=f"ConfigMap {cluster.namespace}/{show(name)}; {config_evidence(cluster, 'cluster-name', 'cluster-id')}",
                fix="A cluster has one name and one id in all its meshes. Let that binding adopt what runs, or disconnect it there.",
                severity=Severity.BLOCKING,
            )

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Settings that work when they differ, but then mean something else in each cluster; and what the binding asks for against what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..facts import ClusterFacts
from ..findings import CheckContext, Finding, Scope, Severity, check
from ..versions import cilium_version, holds, policy_local_by_default
from .wording import config_evidence, enabled, finding, group_finding, grouped, helm, lines, members, value_groups, where


def _flag(key: str, default: bool) -> Callable[[ClusterFacts], str]:
    return lambda facts: str(enabled(facts, key, default)).lower()


_EQUAL: tuple[tuple[str, str, Callable[[ClusterFacts], str], str], ...] = (
    (
        "policy-default-local-cluster",
        "clustermesh.policyDefaultLocalCluster",
        lambda f: str(enabled(f, "policy-default-local-cluster", policy_local_by_default(cilium_version(f)))).lower(),
        "selectors of policies without a cluster label mean the own cluster in some and all clusters in others",
    ),
    (
        "clustermesh-default-global-namespace",
        "clustermesh.defaultGlobalNamespace",
        lambda f: str(not holds("namespace_filter", cilium_version(f)) or enabled(f, "clustermesh-default-global-namespace", True)).lower(),
        "namespaces are shared by default by some and not by others",
    ),
    (
        "clustermesh-enable-mcs-api",
        "clustermesh.mcsapi.enabled (before 1.20 clustermesh.enableMCSAPISupport)",
        _flag("clustermesh-enable-mcs-api", False),
        "ServiceExports work in some only",
    ),
    (
        "clustermesh-enable-endpoint-sync",
        "clustermesh.enableEndpointSliceSynchronization",
        _flag("clustermesh-enable-endpoint-sync", False),
        "headless global services resolve remote pods in some only",
    ),
    (
        "enable-non-default-deny-policies",
        "enableNonDefaultDenyPolicies",
        _flag("enable-non-default-deny-policies", True),
        "a Deny without default deny isolates its subjects in some",
    ),
)


@check("CM-CFG-01", "Mesh settings differ", severity=Severity.ADVISORY, scope=Scope.MESH)
def mesh_settings_agree(context: CheckContext) -> Iterator[Finding]:
    clusters = members(context)
    for key, value, value_of, meaning in _EQUAL:
        groups = grouped(clusters, value_of)
        if len(groups) > 1:
            yield group_finding(
                "CM-CFG-01",
                [host for group in groups.values() for host in group],
                summary=f"The clusters differ in {key}: {meaning}",
                evidence=f"cilium-config (defaults by version where unset), {value_groups(groups, key)}",
                fix=f"Set the same Helm value {value} in all clusters.",
            )


@check("CM-CFG-02", "The mesh runs otherwise than its binding asks", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def binding_is_met(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Connect uses what runs and installs nothing, so that a wish of meshConfig is never silently ignored, only told."""
    binding = context.mesh.binding
    if facts.apiserver is None or facts.config is None:
        return
    service = facts.service.type if facts.service else None
    hubble = enabled(facts, "enable-hubble")
    deployment = where(facts, "Deployment", "clustermesh-apiserver")
    rows = (
        (
            "serviceType",
            binding.service_type,
            service,
            f"{where(facts, 'Service', 'clustermesh-apiserver')}: {service}",
            "apiserver.service.type",
        ),
        (
            "enableKvStoreMesh",
            binding.enable_kvstoremesh,
            facts.runs_kvstoremesh,
            f"{deployment}: containers",
            "apiserver.kvstoremesh.enabled",
        ),
        ("hubble.enabled", binding.hubble_enabled, hubble, config_evidence(facts, "enable-hubble"), ""),
    )
    for name, wanted, runs, evidence, value in rows:
        if wanted is None or runs is None or wanted == runs:
            continue
        text = str(wanted) if isinstance(wanted, str) else str(wanted).lower()
        yield finding(
            "CM-CFG-02",
            cluster=facts.host,
            summary=f"The binding asks for meshConfig.{name} = {text}; {facts.host} runs with "
            f"{runs if isinstance(runs, str) else str(runs).lower()}",
            evidence=evidence,
            fix=lines(
                helm(facts, f"clustermesh.{value}={text}" if value else f"{name}={text}"),
                "Or remove it from the binding: connect uses what runs.",
            ),
        )


@check("CM-CFG-03", "A wish of the binding is not looked at", severity=Severity.ADVISORY, scope=Scope.MESH)
def wishes_are_known(context: CheckContext) -> Iterator[Finding]:
    if context.mesh.binding.hubble_ui:
        yield finding(
            "CM-CFG-03",
            summary="The binding asks for meshConfig.hubble.ui; this release does not look whether Hubble UI runs",
            evidence="cilium_mesh binding.meshConfig.hubble.ui = true",
            fix="Look yourself with: kubectl --namespace kube-system get deployment hubble-ui",
        )

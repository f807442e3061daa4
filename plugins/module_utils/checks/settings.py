# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of settings that may differ between clusters, but then differ in meaning, and of the binding's requests against what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..findings.wording import config_evidence, grouped, helm, kubectl, lines, listed, restart, value_groups, where
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.versions.cilium_config import enabled
from ..mesh.versions.cilium_values import refused_values
from ..mesh.versions.config_request import HUBBLE_UI, config_requests
from ..mesh.versions.minors import CiliumVersion, cilium_version, holds, policy_local_by_default
from .context import CheckContext, members
from .flaw import Flaw
from .registry import check


@dataclass(frozen=True, kw_only=True)
class _Setting:
    """A key of cilium-config that should be equal in all clusters. The fix turns it on where ``rule`` says that it can be set."""

    key: str
    helm: Callable[[CiliumVersion | None], str]
    default: Callable[[CiliumVersion | None], bool]
    meaning: str
    rule: str  # row of versions.RULES

    def value(self, facts: ClusterFacts) -> str:
        """Return the value that the cluster uses: its own, or the default of its version."""
        return str(enabled(facts, self.key, self.default(cilium_version(facts)))).lower()


def _always(value: str) -> Callable[[CiliumVersion | None], str]:
    """Return a function that returns ``value`` for every version."""
    return lambda version: value


_EQUAL: Final = (
    _Setting(
        key="policy-default-local-cluster",
        helm=_always("clustermesh.policyDefaultLocalCluster"),
        default=policy_local_by_default,
        meaning="selectors of policies without a cluster label mean the own cluster in some and all clusters in others",
        rule="policy_local_key",
    ),
    _Setting(
        key="clustermesh-default-global-namespace",
        helm=_always("clustermesh.defaultGlobalNamespace"),
        default=lambda version: True,
        meaning="namespaces are shared by default by some and not by others",
        rule="namespace_filter",
    ),
    _Setting(
        key="clustermesh-enable-mcs-api",
        helm=lambda version: "clustermesh.mcsapi.enabled" if holds("mcs_api_value", version) else "clustermesh.enableMCSAPISupport",
        default=lambda version: False,
        meaning="ServiceExports work in some only",
        rule="mcs_api",
    ),
    _Setting(
        key="clustermesh-enable-endpoint-sync",
        helm=_always("clustermesh.enableEndpointSliceSynchronization"),
        default=lambda version: False,
        meaning="headless global services resolve remote pods in some only",
        rule="endpoint_sync",
    ),
    _Setting(
        key="enable-non-default-deny-policies",
        helm=_always("enableNonDefaultDenyPolicies"),
        default=lambda version: True,
        meaning="a Deny without default deny isolates its subjects in some",
        rule="non_default_deny",
    ),
)


@check("CM-CFG-01")
def mesh_settings_agree(context: CheckContext) -> Iterator[Flaw]:
    """Report connected clusters that differ in a setting of ``_EQUAL``."""
    clusters = members(context)
    for entry in _EQUAL:
        groups = grouped(clusters, entry.value)
        if len(groups) > 1:
            yield Flaw(
                hosts=[host for group in groups.values() for host in group],
                summary=f"The clusters differ in {entry.key}: {entry.meaning}",
                evidence=f"cilium-config (defaults by version where unset), {value_groups(groups, entry.key)}",
                fix=_equal_fix(entry, [facts for facts in clusters if entry.value(facts) != "true"]),
            )


def _equal_fix(entry: _Setting, others: Sequence[ClusterFacts]) -> str:
    """Return one command for each Helm value that sets it, with the clusters that it is for."""
    settable = [facts for facts in others if holds(entry.rule, cilium_version(facts))]
    commands = grouped(settable, lambda facts: helm(facts, f"{entry.helm(cilium_version(facts))}=true"))
    too_old = [facts.host for facts in others if facts not in settable]
    parts = [text for command, hosts in commands.items() for text in (f"In {listed(hosts)}:", command)]
    if too_old:
        parts.append(f"{listed(too_old)} has no such setting in its version of Cilium: upgrade it.")
    return lines(*parts)


@check("CM-CFG-04")
def cilium_accepts_its_values(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report values of cilium-config that Cilium refuses.

    Agents and operator validate every value when they start (pkg/option/config.go, validateConfigMap). Those that run go on with what the
    key was before.
    """
    version = cilium_version(facts)
    refused = refused_values(facts.config or {}, version.release if version else None)
    if not refused:
        return
    yield Flaw(
        summary=f"Cilium refuses the value of {listed(refused)} in {facts.host}: pods of Cilium that start anew do not come up, and what "
        "those that run use is not known",
        evidence=config_evidence(facts, *refused),
        fix=lines(
            "Set a value that Cilium accepts, where the configuration is declared: "
            + "; ".join(f"{key} is {accepted}" for key, accepted in refused.items())
            + ". Then:",
            restart(facts),
        ),
    )


@check("CM-CFG-02")
def mesh_runs_as_binding_asks(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report values of meshConfig that differ from what runs.

    Connect uses what runs and installs nothing, so that a value of meshConfig is never ignored without a finding.
    """
    evidence = {
        "serviceType": f"{where(facts, 'Service', 'clustermesh-apiserver')}: {facts.service.type if facts.service else None}",
        "enableKvStoreMesh": f"{where(facts, 'Deployment', 'clustermesh-apiserver')}: containers",
        "hubble.enabled": config_evidence(facts, "enable-hubble"),
        "hubble.ui": where(facts, "Deployment", HUBBLE_UI),
    }
    for row in config_requests(context.mesh.binding, facts):
        if row.differs:
            yield Flaw(
                summary=f"The binding asks for meshConfig.{row.name} = {row.wanted}; {facts.host} runs with {row.runs}",
                evidence=evidence[row.name],
                fix=lines(helm(facts, *row.helm_values), "Or remove it from the binding: connect uses what runs."),
            )


@check("CM-CFG-03")
def requested_hubble_ui_can_be_checked(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a meshConfig.hubble.ui that cannot be compared because RBAC forbids the read."""
    denied = next((entry for entry in facts.unread if entry.what == "parts"), None)
    if context.mesh.binding.hubble_ui is None or denied is None:
        return
    yield Flaw(
        summary=f"The binding says meshConfig.hubble.ui = {str(context.mesh.binding.hubble_ui).lower()}; whether Hubble UI runs in "
        f"{facts.host} cannot be read",
        evidence=denied.message,
        fix=lines(denied.remedy, "Or check it yourself:", kubectl(facts, "get", "deployment", HUBBLE_UI)),
    )

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about settings of Cilium that keep an intent's policy from being expressed, enforced, or read as meant.

There is one finding per matter and intent, whatever the number of clusters: there may be hundreds of intents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from ..findings.finding import Finding
from ..findings.wording import config_evidence, helm, item_finding, lines, listed, restart, show
from ..items.models import ConnectivityIntent, PodSelection
from ..items.scene import Scene
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.versions.cilium_config import enabled, setting
from ..mesh.versions.minors import Minor, cilium_version, holds
from .compile import clusters_of, version_requirements
from .evaluate.endpoints import CLUSTER, NAMESPACE
from .evaluate.label_filters import LabelFilters, label_filters

AUDIT: Final = "policy-audit-mode"
_BY_MODE: Final = {"Namespaced": "enable-cilium-network-policy", "Clusterwide": "enable-cilium-clusterwide-network-policy"}


def version_findings(intent: ConnectivityIntent, scene: Scene, hosts: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding for each requirement that the version of a cluster does not meet; an unknown version may be too old."""
    hosts = tuple(hosts)
    for need in version_requirements(intent):
        versions = {host: cilium_version(scene.facts[host]) for host in hosts}
        old = [host for host, version in versions.items() if not holds(need.rule, version)]
        if old:
            shown = ", ".join(f"{host} runs {versions[host] or 'a version that its image does not show'}" for host in old)
            yield item_finding(
                intent.ref,
                "CM-INT-01",
                old,
                summary=f"{listed(old)}: Cilium {need.since} is needed for {need.what}",
                evidence=shown,
                fix=f"Upgrade to {need.since} or newer, or leave {listed(old)} out of destination.clusters.",
            )


def settings_findings(intent: ConnectivityIntent, scene: Scene, hosts: Iterable[str], changed: Iterable[str]) -> Iterator[Finding]:
    """Yield the effects of cilium-config of the destination clusters ``hosts`` on the policy.

    ``changed``: the clusters where the policy is new or changed.
    """
    facts = [scene.facts[host] for host in hosts]
    yield from _deny_findings(intent, facts)
    yield from _no_effect_findings(intent, facts)
    yield from _strict_mode_findings(intent, [scene.facts[host] for host in changed])
    yield from _protocol_findings(intent, facts)


def identity_findings(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    """Yield a finding for labels that the policy selects by and that identities of its clusters lack.

    It would match no pods, or all. Besides those of the intent these are the labels of cluster and namespace (compile.py; the latter is
    Cilium's own addition to a CiliumNetworkPolicy).
    """
    for side, selection in (("source", intent.source), ("destination", intent.destination)):
        if selection is None:
            continue
        wrong = {
            host: keys for host in clusters_of(selection, scene.mesh.clusters) if (keys := _keys_outside_identity(selection, scene, host))
        }
        if wrong:
            lost = sorted({key for keys in wrong.values() for key in keys})
            whose = f"the policy selects the {side}" if {CLUSTER, NAMESPACE} & {*lost} else f"{side} selects"
            yield item_finding(
                intent.ref,
                "CM-INT-11",
                tuple(wrong),
                summary=f"{listed(wrong)}: {whose} by {listed(lost)}, which Cilium does not take into identities there",
                evidence="; ".join(config_evidence(scene.facts[host], "labels") for host in wrong)
                + ". Cilium leaves some labels of Kubernetes out by itself.",
                fix=("Take the pattern that leaves it out from Helm value labels. " if {CLUSTER, NAMESPACE} & {*lost} else "")
                + "Select by labels that the pods have and that Cilium counts, such as app. Helm value labels selects the labels "
                "that count; one "
                "more pattern there changes the identities of all pods.",
            )


def _keys_outside_identity(selection: PodSelection, scene: Scene, host: str) -> tuple[str, ...]:
    facts = scene.facts.get(host)
    if facts is None:
        return ()
    version = cilium_version(facts)
    filters = _filters(version.release if version else None, setting(facts, "labels"), setting(facts, "label-prefix-file"))
    keys = (*selection.labels, *(entry.key for entry in selection.expressions), CLUSTER, NAMESPACE)
    return tuple(key for key in keys if filters.counts(key) is False)


@lru_cache(maxsize=1024)  # called for both sides of every intent, about a few clusters
def _filters(version: Minor | None, labels: str, prefix_file: str) -> LabelFilters:
    return label_filters(version, {"labels": labels, "label-prefix-file": prefix_file})


def _deny_findings(intent: ConnectivityIntent, facts: Sequence[ClusterFacts]) -> Iterator[Finding]:
    """Yield a finding if a Deny would isolate its destination.

    From 1.17 on, with the key at false, enableDefaultDeny is true whatever a policy says (rule_validation.go).
    """
    key = "enable-non-default-deny-policies"
    if intent.action != "Deny":
        return
    isolating = [entry for entry in facts if not enabled(entry, key, True)]
    if isolating:
        hosts = [entry.host for entry in isolating]
        yield item_finding(
            intent.ref,
            "CM-INT-02",
            hosts,
            summary=f"{listed(hosts)}: a Deny would cut its destination off from every source there, not from this source alone",
            evidence="; ".join(config_evidence(entry, key) for entry in isolating),
            fix=lines(*(line for entry in isolating for line in (helm(entry, "enableNonDefaultDenyPolicies=true"), restart(entry)))),
        )


def _no_effect_findings(intent: ConnectivityIntent, facts: Sequence[ClusterFacts]) -> Iterator[Finding]:
    def off(entry: ClusterFacts) -> bool:
        return _mode(entry) == "never" or not enabled(entry, _BY_MODE[intent.mode], True) or enabled(entry, AUDIT)

    powerless = [entry for entry in facts if off(entry)]
    if powerless:
        hosts = [entry.host for entry in powerless]
        yield item_finding(
            intent.ref,
            "CM-INT-04",
            hosts,
            summary=f"{listed(hosts)}: Cilium does not enforce policies of this kind there, so the intent would have no effect",
            evidence="; ".join(config_evidence(entry, "enable-policy", _BY_MODE[intent.mode], *_audited(entry)) for entry in powerless),
            fix=lines(*(line for entry in powerless for line in (helm(entry, *_enforcing(entry, _BY_MODE[intent.mode])), restart(entry)))),
        )


def _enforcing(entry: ClusterFacts, switch: str) -> tuple[str, ...]:
    """Return the Helm values with which policies are enforced. In audit mode agents log what a policy denies, and let it through.

    The charts have no value of their own for ``switch``, the key that turns off the kind of policy.
    """
    mode = ("policyEnforcementMode=default",) if _mode(entry) == "never" else ()
    kind = () if enabled(entry, switch, True) else (f"extraConfig.{switch}=true",)
    return (*mode, *("policyAuditMode=false" for _key in _audited(entry)), *kind)


def _audited(entry: ClusterFacts) -> tuple[str, ...]:
    return (AUDIT,) if enabled(entry, AUDIT) else ()


def _strict_mode_findings(intent: ConnectivityIntent, facts: Sequence[ClusterFacts]) -> Iterator[Finding]:
    strict = [entry.host for entry in facts if _mode(entry) == "always"]
    if strict:
        effect = {
            "Allow": "the destination is isolated there already, also without this intent",
            "Deny": "what no policy allows is denied there already, so the Deny takes away only what another policy allows",
            "Isolate": "the destination is isolated there already, so the intent changes nothing",
        }[intent.action]
        yield item_finding(
            intent.ref,
            "CM-INT-05",
            strict,
            summary=f"{listed(strict)}: {effect}",
            evidence="; ".join(config_evidence(entry, "enable-policy") for entry in facts if entry.host in strict),
        )


def _protocol_findings(intent: ConnectivityIntent, facts: Sequence[ClusterFacts]) -> Iterator[Finding]:
    protocols = {port.protocol for port in intent.ports}
    deaf = [entry for entry in facts if not enabled(entry, "enable-icmp-rules", True)] if protocols & {"ICMP", "ICMPv6"} else []
    if deaf:
        hosts = [entry.host for entry in deaf]
        yield item_finding(
            intent.ref,
            "CM-INT-12",
            hosts,
            summary=f"{listed(hosts)}: Cilium refuses policies with rules for ICMP there",
            evidence="; ".join(config_evidence(entry, "enable-icmp-rules") for entry in deaf),
            fix=lines(*(line for entry in deaf for line in (helm(entry, "extraConfig.enable-icmp-rules=true"), restart(entry)))),
        )
    without = [entry for entry in facts if not enabled(entry, "enable-sctp", False)] if "SCTP" in protocols else []
    if without:
        hosts = [entry.host for entry in without]
        yield item_finding(
            intent.ref,
            "CM-INT-13",
            hosts,
            summary=f"{listed(hosts)}: Cilium drops SCTP there, whatever policies say",
            evidence="; ".join(config_evidence(entry, "enable-sctp") for entry in without),
            fix=lines(*(line for entry in without for line in (helm(entry, "sctp.enabled=true"), restart(entry)))),
        )


def _mode(facts: ClusterFacts) -> str:
    """Return the policy enforcement mode; agents read it in any case (pkg/option/config.go)."""
    return show(setting(facts, "enable-policy", "default")).strip('"').lower()

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about settings of Cilium that keep an intent's policy from being expressed, enforced, or read as meant.

There is one finding per matter and intent, whatever the number of clusters: there may be hundreds of intents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

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


class _Wrong(NamedTuple):
    """A cluster whose settings are in the way of an intent, and what is wrong there."""

    facts: ClusterFacts
    keys: tuple[str, ...]  # of cilium-config
    values: tuple[str, ...]  # of Helm, with which it is right


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


def settings_findings(intent: ConnectivityIntent, scene: Scene, hosts: Iterable[str], changed: Iterable[str]) -> list[Finding]:
    """Return the effects of cilium-config of the destination clusters ``hosts`` on the policy, by code.

    ``changed``: the clusters where the policy is new or changed.
    """
    found = list(_strict_mode_findings(intent, [scene.facts[host] for host in changed]))
    for code, effect, wrong in _effects(intent, [scene.facts[host] for host in hosts]):
        where = [cause.facts.host for cause in wrong]
        summary = f"{listed(where)}: {effect}"
        evidence = "; ".join(config_evidence(cause.facts, *cause.keys) for cause in wrong)
        fix = lines(*(line for cause in wrong for line in (helm(cause.facts, *cause.values), restart(cause.facts))))
        found += [item_finding(intent.ref, code, where, summary=summary, evidence=evidence, fix=fix)] if wrong else []
    return sorted(found, key=lambda finding: finding.code)


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


def _effects(intent: ConnectivityIntent, facts: Sequence[ClusterFacts]) -> Iterator[tuple[str, str, list[_Wrong]]]:
    """Yield the code of a finding, what follows for the intent, and the clusters where a setting is the cause, if there are any.

    About a Deny: from 1.17 on, with the key at false, enableDefaultDeny is true whatever a policy says (rule_validation.go).
    """
    key, protocols = "enable-non-default-deny-policies", {port.protocol for port in intent.ports}
    if intent.action == "Deny":
        isolating = [_Wrong(entry, (key,), ("enableNonDefaultDenyPolicies=true",)) for entry in facts if not enabled(entry, key, True)]
        yield "CM-INT-02", "a Deny would cut its destination off from every source there, not from this source alone", isolating
    kind = _BY_MODE[intent.mode]
    powerless = [entry for entry in facts if _mode(entry) == "never" or not enabled(entry, kind, True) or enabled(entry, AUDIT)]
    causes = [_Wrong(entry, ("enable-policy", kind, *_audited(entry)), _enforcing(entry, kind)) for entry in powerless]
    yield "CM-INT-04", "Cilium does not enforce policies of this kind there, so the intent would have no effect", causes
    if protocols & {"ICMP", "ICMPv6"}:
        key = "enable-icmp-rules"
        deaf = [_Wrong(entry, (key,), (f"extraConfig.{key}=true",)) for entry in facts if not enabled(entry, key, True)]
        yield "CM-INT-12", "Cilium refuses policies with rules for ICMP there", deaf
    if "SCTP" in protocols:
        without = [_Wrong(entry, ("enable-sctp",), ("sctp.enabled=true",)) for entry in facts if not enabled(entry, "enable-sctp", False)]
        yield "CM-INT-13", "Cilium drops SCTP there, whatever policies say", without


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


def _mode(facts: ClusterFacts) -> str:
    """Return the policy enforcement mode; agents read it in any case (pkg/option/config.go)."""
    return show(setting(facts, "enable-policy", "default")).strip('"').lower()

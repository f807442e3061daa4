# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the installation of Cilium in a cluster does to the policy of an intent: cannot say it, does not enforce it, reads it otherwise.

One finding per matter and intent, whatever the number of clusters: there may be hundreds of intents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from ..checks.wording import config_evidence, enabled, helm, lines, listed, printable, restart, setting, show
from ..facts import ClusterFacts
from ..findings import Finding, Severity
from ..items.kinds import ItemKind, ItemRef
from ..items.models import ConnectivityIntent, PodSelection
from ..items.scene import Scene
from ..versions import Minor, cilium_version, holds
from . import codes
from .compile import clusters_of, needs
from .evaluate.label_filters import LabelFilters, label_filters

_BY_MODE: Final = {"Namespaced": "enable-cilium-network-policy", "Clusterwide": "enable-cilium-clusterwide-network-policy"}
_SWITCHES_SINCE: Final = Minor(1, 17)
"""The keys of ``_BY_MODE`` stand in the sources of 1.18 and not in those of 1.16 (pkg/option/config.go); 1.17 is taken to read them."""


def about(
    intent: ConnectivityIntent, code: str, severity: Severity, hosts: Sequence[str], *, summary: str, evidence: str = "", fix: str = ""
) -> Finding:
    """A finding about ``intent``. ``hosts``: inventory names, the first of which it is told of."""
    return Finding(
        code=code,
        severity=severity,
        cluster=hosts[0] if hosts else "",
        others=tuple(hosts[1:]),
        item=str(ItemRef(ItemKind.INTENT, intent.name)),
        summary=printable(summary),
        evidence=printable(evidence),
        fix=fix,
    )


def version_findings(intent: ConnectivityIntent, scene: Scene, hosts: Iterable[str]) -> Iterator[Finding]:
    """What versions cannot say. A version that cannot be told may be too old."""
    hosts = tuple(hosts)
    for need in needs(intent):
        versions = {host: cilium_version(scene.facts[host]) for host in hosts}
        old = [host for host, version in versions.items() if version is None or version.release < need.since]
        if old:
            shown = ", ".join(f"{host} runs {versions[host] or 'a version that its image does not tell'}" for host in old)
            yield about(
                intent,
                codes.VERSION,
                Severity.BLOCKING,
                old,
                summary=f"{listed(old)}: Cilium {need.since} is needed for {need.what}",
                evidence=shown,
                fix=f"Upgrade to {need.since} or newer, or leave {listed(old)} out of destination.clusters.",
            )


def settings_findings(intent: ConnectivityIntent, scene: Scene, hosts: Iterable[str], changed: Iterable[str]) -> Iterator[Finding]:
    """What cilium-config of the destination clusters ``hosts`` does to the policy. ``changed``: where it is new or another."""
    facts = [scene.facts[host] for host in hosts]
    yield from _deny(intent, facts)
    yield from _no_effect(intent, facts)
    yield from _always(intent, [scene.facts[host] for host in changed])
    yield from _protocols(intent, facts)


def identity_findings(intent: ConnectivityIntent, scene: Scene) -> Iterator[Finding]:
    """Labels that a side asks for and that identities of its clusters do not have: the policy would match nobody, or everybody."""
    for side, selection in (("source", intent.source), ("destination", intent.destination)):
        if selection is None:
            continue
        wrong = {host: keys for host in clusters_of(selection, scene.mesh.clusters) if (keys := _lost_keys(selection, scene, host))}
        if wrong:
            lost = sorted({key for keys in wrong.values() for key in keys})
            yield about(
                intent,
                codes.NOT_IN_IDENTITY,
                Severity.BLOCKING,
                tuple(wrong),
                summary=f"{listed(wrong)}: {side} selects by {listed(lost)}, which Cilium does not take into identities there",
                evidence="; ".join(config_evidence(scene.facts[host], "labels") for host in wrong)
                + ". Cilium leaves some labels of Kubernetes out by itself.",
                fix="Select by labels that the pods have and that Cilium counts, such as app. Helm value labels says which count; one "
                "more pattern there changes the identities of all pods.",
            )


def _lost_keys(selection: PodSelection, scene: Scene, host: str) -> tuple[str, ...]:
    facts = scene.facts.get(host)
    if facts is None:
        return ()
    version = cilium_version(facts)
    filters = _filters(version.release if version else None, setting(facts, "labels"), setting(facts, "label-prefix-file"))
    keys = (*selection.labels, *(entry.key for entry in selection.expressions))
    return tuple(key for key in keys if not filters.counts(key)) if filters.understood else ()


@lru_cache(maxsize=1024)  # asked for both sides of every intent, about a few clusters
def _filters(version: Minor | None, labels: str, prefix_file: str) -> LabelFilters:
    return label_filters(version, {"labels": labels, "label-prefix-file": prefix_file})


def _deny(intent: ConnectivityIntent, facts: Sequence[ClusterFacts]) -> Iterator[Finding]:
    """rule_validation.go of 1.17 and newer: with the key at false, enableDefaultDeny is true whatever a policy says."""
    key = "enable-non-default-deny-policies"
    if intent.action != "Deny":
        return
    isolating = [entry for entry in facts if holds("non_default_deny", cilium_version(entry)) and not enabled(entry, key, True)]
    if isolating:
        hosts = [entry.host for entry in isolating]
        yield about(
            intent,
            codes.DENY_ISOLATES,
            Severity.BLOCKING,
            hosts,
            summary=f"{listed(hosts)}: a Deny would cut its destination off from everybody there, not from the source alone",
            evidence="; ".join(config_evidence(entry, key) for entry in isolating),
            fix=lines(*(line for entry in isolating for line in (helm(entry, "enableNonDefaultDenyPolicies=true"), restart(entry)))),
        )


def _no_effect(intent: ConnectivityIntent, facts: Sequence[ClusterFacts]) -> Iterator[Finding]:
    def off(entry: ClusterFacts) -> bool:
        version = cilium_version(entry)
        switched = (version is None or version.release >= _SWITCHES_SINCE) and not enabled(entry, _BY_MODE[intent.mode], True)
        return _mode(entry) == "never" or switched

    powerless = [entry for entry in facts if off(entry)]
    if powerless:
        hosts = [entry.host for entry in powerless]
        yield about(
            intent,
            codes.NO_EFFECT,
            Severity.BLOCKING,
            hosts,
            summary=f"{listed(hosts)}: Cilium does not enforce policies of this kind there, so the intent would have no effect",
            evidence="; ".join(config_evidence(entry, "enable-policy", _BY_MODE[intent.mode]) for entry in powerless),
            fix=lines(*(line for entry in powerless for line in (helm(entry, "policyEnforcementMode=default"), restart(entry)))),
        )


def _always(intent: ConnectivityIntent, facts: Sequence[ClusterFacts]) -> Iterator[Finding]:
    strict = [entry.host for entry in facts if _mode(entry) == "always"]
    if strict:
        effect = {
            "Allow": "the destination is isolated there already, also without this intent",
            "Deny": "what no policy allows is denied there already, so the Deny takes away only what another policy allows",
            "Isolate": "the destination is isolated there already, so the intent changes nothing",
        }[intent.action]
        yield about(
            intent,
            codes.ALWAYS,
            Severity.ADVISORY,
            strict,
            summary=f"{listed(strict)}: {effect}",
            evidence="; ".join(config_evidence(entry, "enable-policy") for entry in facts if entry.host in strict),
        )


def _protocols(intent: ConnectivityIntent, facts: Sequence[ClusterFacts]) -> Iterator[Finding]:
    protocols = {port.protocol for port in intent.ports}
    deaf = [entry for entry in facts if not enabled(entry, "enable-icmp-rules", True)] if protocols & {"ICMP", "ICMPv6"} else []
    if deaf:
        hosts = [entry.host for entry in deaf]
        yield about(
            intent,
            codes.ICMP_OFF,
            Severity.BLOCKING,
            hosts,
            summary=f"{listed(hosts)}: Cilium refuses policies with rules for ICMP there",
            evidence="; ".join(config_evidence(entry, "enable-icmp-rules") for entry in deaf),
            fix=lines(*(line for entry in deaf for line in (helm(entry, "extraConfig.enable-icmp-rules=true"), restart(entry)))),
        )
    without = [entry for entry in facts if not enabled(entry, "enable-sctp", False)] if "SCTP" in protocols else []
    if without:
        hosts = [entry.host for entry in without]
        yield about(
            intent,
            codes.SCTP_OFF,
            Severity.REMEDIABLE,
            hosts,
            summary=f"{listed(hosts)}: Cilium drops SCTP there, whatever policies say",
            evidence="; ".join(config_evidence(entry, "enable-sctp") for entry in without),
            fix=lines(*(line for entry in without for line in (helm(entry, "sctp.enabled=true"), restart(entry)))),
        )


def _mode(facts: ClusterFacts) -> str:
    """Policy enforcement mode; agents read it in any case (pkg/option/config.go)."""
    return show(setting(facts, "enable-policy", "default")).strip('"').lower()

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Wording of findings: functions that make a finding, format values for its texts, and write commands for its fix."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from ..mesh.binding.item_kinds import ItemRef
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.ownership.gitops import HELM_NAME
from ..mesh.ownership.installers import installer, set_values
from ..mesh.versions.minors import cilium_version
from .catalogue import CATALOGUE
from .finding import Finding, Severity

_SHOWN = 120
_SUMMARY = 500
_EVIDENCE = 2000
_LISTED = 8

Key = TypeVar("Key", bound=Hashable)


def finding(
    code: str,
    *,
    severity: Severity | None = None,
    cluster: str = "",
    peer: str = "",
    others: Sequence[str] = (),
    item: str = "",
    summary: str,
    evidence: str | Sequence[str] = "",
    fix: str = "",
    accepted: bool = False,
) -> Finding:
    """Return a finding with the severity of its row in the catalogue, its texts printable and of limited length.

    :param severity: where the case decides it; one that the row lists.
    :param evidence: a text, which becomes one line; or lines, as many as there are.
    :raises KeyError: when the catalogue has no such code.
    :raises ValueError: when the row does not list ``severity``.
    """
    return Finding(
        code=code,
        severity=CATALOGUE[code].severity_in(severity),
        cluster=cluster,
        peer=peer,
        others=tuple(others),
        item=item,
        summary=_clip(printable(summary), _SUMMARY),
        evidence=_clip(printable(evidence), _EVIDENCE) if isinstance(evidence, str) else lines(*evidence),
        fix=fix,
        accepted=accepted,
    )


def failure_finding(
    code: str, *, message: str, remedy: str = "", cluster: str = "", severity: Severity | None = None, consequence: str = ""
) -> Finding:
    """Return an error of the engine as a finding. Its texts are safe to print (base/errors.py), and stay whole.

    :param severity: blocking unless the caller can do without what failed.
    :param consequence: what the failure means for the run.
    """
    return Finding(
        code=code,
        severity=CATALOGUE[code].severity_in(severity),
        cluster=cluster,
        summary=message,
        evidence=consequence,
        fix=remedy,
    )


def item_finding(
    ref: ItemRef | None,
    code: str,
    hosts: Sequence[str],
    *,
    summary: str,
    evidence: str | Sequence[str] = "",
    fix: str = "",
    severity: Severity | None = None,
) -> Finding:
    """Return a finding about an item. ``hosts``: inventory names, the first of which is its cluster."""
    return finding(
        code,
        severity=severity,
        cluster=hosts[0] if hosts else "",
        others=hosts[1:],
        item=str(ref or ""),
        summary=summary,
        evidence=evidence,
        fix=fix,
    )


def grouped(clusters: Iterable[ClusterFacts], value_of: Callable[[ClusterFacts], Key]) -> dict[Key, list[str]]:
    """Group clusters by a value: value -> inventory names of the clusters that have it, in order."""
    groups: dict[Key, list[str]] = {}
    for facts in clusters:
        groups.setdefault(value_of(facts), []).append(facts.host)
    return groups


def show(value: str) -> str:
    """Quote a value that a cluster holds, printable and cut to ``_SHOWN`` characters."""
    return f'"{_clip(printable(value), _SHOWN)}"'


def printable(text: str) -> str:
    """Return a text on one line and without control characters: what clusters hold may come from a tenant."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def listed(names: Iterable[str], limit: int = _LISTED) -> str:
    """Join names as ``a, b and c``; of more than ``limit`` the rest is counted."""
    every = list(names)
    if len(every) > limit:
        return ", ".join(every[:limit]) + f" and {len(every) - limit} more"
    return " and ".join([", ".join(every[:-1]), every[-1]]) if len(every) > 1 else "".join(every)


def where(facts: ClusterFacts, kind: str, name: str) -> str:
    """Return the name of an object of Cilium, for instance ``ConfigMap kube-system/cilium-config``."""
    return f"{kind} {facts.namespace}/{name}"


def config_evidence(facts: ClusterFacts, *keys: str) -> str:
    """Return settings as evidence, for instance ``ConfigMap kube-system/cilium-config: cluster-id = "0", ipam is unset``."""
    config = facts.config or {}
    parts = [f"{key} = {show(config[key])}" if key in config else f"{key} is unset" for key in keys]
    return f"{where(facts, 'ConfigMap', 'cilium-config')}: {', '.join(parts)}"


def kubectl(facts: ClusterFacts, *words: str) -> str:
    """Return a kubectl command in the namespace of Cilium."""
    return command("kubectl", "--namespace", facts.namespace, *words)


def command(*words: str) -> str:
    """Join words to one line, quoted for a POSIX shell."""
    return shlex.join(printable(word) for word in words)


def helm(facts: ClusterFacts, *values: str) -> str:
    """Return the helm command that sets values and keeps all others and the version.

    Where another installer set up Cilium, the text says where the values are set there (mesh/ownership/installers.py).
    """
    found = installer(facts)
    if found is not None:
        return printable(set_values(found, values))
    release = facts.config_annotations.get(HELM_NAME, "cilium")
    version = cilium_version(facts)
    words = ["helm", "upgrade", release, "cilium", "--repo", "https://helm.cilium.io"]
    words += ["--version", str(version)] if version else []
    words += ["--namespace", facts.namespace, "--reuse-values"]
    for value in values:
        words += ["--set", value]
    return command(*words)


def cilium_cli(facts: ClusterFacts, *values: str) -> str:
    """Return the same as ``helm`` for people who have the cilium CLI alone; "" where another installer set up Cilium.

    The CLI embeds Helm and knows ``--set``, and no ``--set-json``.
    """
    if installer(facts) is not None:
        return ""
    release = facts.config_annotations.get(HELM_NAME, "cilium")
    version = cilium_version(facts)
    words = ["cilium", "upgrade", "--namespace", facts.namespace]
    words += ["--helm-release-name", release] if release != "cilium" else []
    words += ["--version", str(version)] if version else []
    words += ["--reuse-values", *(word for value in values for word in ("--set", value))]
    return f"or, with the cilium CLI: {command(*words)}"


def restart(facts: ClusterFacts) -> str:
    """Return the command that restarts the workloads of Cilium, which read cilium-config only when they start."""
    return kubectl(facts, "rollout", "restart", "deployment/cilium-operator", "daemonset/cilium", "deployment/clustermesh-apiserver")


def reissue(facts: ClusterFacts, secret: str, owner: str) -> str:
    """Return how a TLS Secret is issued again by its issuer.

    :param owner: ``certgen``, ``cert-manager``, ``Helm``, or another text for Secrets that the user provides.
    """
    if owner == "certgen":
        return kubectl(facts, "create", "job", "clustermesh-certs-renewal", "--from=cronjob/clustermesh-apiserver-generate-certs")
    if owner == "cert-manager":
        return command("cmctl", "renew", "--namespace", facts.namespace, secret)
    if owner == "Helm":
        return helm(facts)
    return (
        f"Have the source of Secret {facts.namespace}/{secret} (clustermesh.apiserver.tls in the Helm values) issue it again, "
        "with ca.crt, tls.crt and tls.key, from the CA of this cluster."
    )


def lines(*parts: str) -> str:
    """Join texts, one per line; empty ones are left out."""
    return "\n".join(printable(part) for part in parts if part)


def value_groups(groups: Mapping[Key, Sequence[str]], name: str) -> str:
    """Return which clusters have which value, for instance ``tunnel-protocol: "vxlan" in c1 and c2; "geneve" in c3``."""
    return f"{name}: " + "; ".join(f"{show(str(value))} in {listed(hosts)}" for value, hosts in groups.items())

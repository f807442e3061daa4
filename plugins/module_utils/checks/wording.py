# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What all checks share: how a finding is made, how values are shown, how a fix is worded."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from ..facts import ClusterFacts
from ..findings import CheckContext, Finding, registered
from ..versions import cilium_version
from .installers import installer, set_values

_SHOWN = 120
_SUMMARY = 500
_EVIDENCE = 2000
_LISTED = 8

Key = TypeVar("Key", bound=Hashable)


def finding(
    code: str, *, cluster: str = "", peer: str = "", summary: str, evidence: str = "", fix: str = "", others: tuple[str, ...] = ()
) -> Finding:
    """A finding with the severity that the check was registered with, its texts printable and of a sane length."""
    return Finding(
        code=code,
        severity=registered()[code].severity,
        cluster=cluster,
        peer=peer,
        summary=_clip(printable(summary), _SUMMARY),
        evidence=_clip(printable(evidence), _EVIDENCE),
        fix=fix,
        others=others,
    )


def group_finding(code: str, hosts: Sequence[str], *, summary: str, evidence: str = "", fix: str = "") -> Finding:
    """A finding about several clusters at once: a pair is named as such, a larger group by its first."""
    peer = hosts[1] if len(hosts) == 2 else ""
    others = () if peer else tuple(hosts[1:])
    return finding(code, cluster=hosts[0], peer=peer, summary=summary, evidence=evidence, fix=fix, others=others)


def members(context: CheckContext) -> tuple[ClusterFacts, ...]:
    """The clusters of the mesh that answered and run Cilium, each once even when two hosts are the same cluster."""
    found: list[ClusterFacts] = []
    seen: set[str] = set()
    for host in context.mesh.clusters:
        facts = context.facts.get(host)
        if facts is None or facts.config is None or (facts.uid and facts.uid in seen):
            continue
        seen.add(facts.uid)
        found.append(facts)
    return tuple(found)


def grouped(clusters: Iterable[ClusterFacts], value_of: Callable[[ClusterFacts], Key]) -> dict[Key, list[str]]:
    """Value -> hosts that have it, in order."""
    groups: dict[Key, list[str]] = {}
    for facts in clusters:
        groups.setdefault(value_of(facts), []).append(facts.host)
    return groups


def setting(facts: ClusterFacts, key: str, default: str = "") -> str:
    """A key of cilium-config; ``default`` when it is unset or empty."""
    return (facts.config or {}).get(key, "") or default


def enabled(facts: ClusterFacts, key: str, default: bool = False) -> bool:
    """A boolean key of cilium-config, as Go's strconv.ParseBool reads it; anything else is false."""
    return setting(facts, key, str(default)).lower() in ("true", "t", "1")


def replaces_kube_proxy(facts: ClusterFacts) -> bool:
    """Does Cilium do the work of kube-proxy, wholly? ``strict`` is ``true`` up to 1.15, ``probe`` older still (pkg/option/config.go)."""
    return setting(facts, "kube-proxy-replacement").lower() in ("true", "strict", "probe")


def show(value: str) -> str:
    """A value that somebody else wrote, quoted, printable and short."""
    return f'"{_clip(printable(value), _SHOWN)}"'


def printable(text: str) -> str:
    """On one line and without control characters: what clusters hold may come from a tenant."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def listed(names: Iterable[str], limit: int = _LISTED) -> str:
    """``a, b and c``, with the tail of a long list counted."""
    every = list(names)
    if len(every) > limit:
        return ", ".join(every[:limit]) + f" and {len(every) - limit} more"
    return " and ".join([", ".join(every[:-1]), every[-1]]) if len(every) > 1 else "".join(every)


def where(facts: ClusterFacts, kind: str, name: str) -> str:
    """``ConfigMap kube-system/cilium-config``."""
    return f"{kind} {facts.namespace}/{name}"


def config_evidence(facts: ClusterFacts, *keys: str) -> str:
    """``ConfigMap kube-system/cilium-config: cluster-id = "0", ipam is unset``."""
    config = facts.config or {}
    parts = [f"{key} = {show(config[key])}" if key in config else f"{key} is unset" for key in keys]
    return f"{where(facts, 'ConfigMap', 'cilium-config')}: {', '.join(parts)}"


def kubectl(facts: ClusterFacts, *words: str) -> str:
    """A kubectl command in the namespace of Cilium."""
    return command("kubectl", "--namespace", facts.namespace, *words)


def command(*words: str) -> str:
    """Words quoted for a POSIX shell, on one line."""
    return shlex.join(printable(word) for word in words)


def helm(facts: ClusterFacts, *values: str) -> str:
    """The helm command that sets values and changes nothing else, also not the version; or where else they are set (installers.py)."""
    found = installer(facts)
    if found is not None:
        return printable(set_values(found, values))
    release = facts.config_annotations.get("meta.helm.sh/release-name", "cilium")
    version = cilium_version(facts)
    words = ["helm", "upgrade", release, "cilium", "--repo", "https://helm.cilium.io"]
    words += ["--version", str(version)] if version else []
    words += ["--namespace", facts.namespace, "--reuse-values"]
    for value in values:
        words += ["--set", value]
    return command(*words)


def restart(facts: ClusterFacts) -> str:
    """cilium-config is read at start only."""
    return kubectl(facts, "rollout", "restart", "deployment/cilium-operator", "daemonset/cilium", "deployment/clustermesh-apiserver")


def reissue(facts: ClusterFacts, secret: str, owner: str) -> str:
    """How the installation makes a TLS Secret anew, by who made it."""
    if owner == "certgen":
        return kubectl(facts, "create", "job", "clustermesh-certs-renewal", "--from=cronjob/clustermesh-apiserver-generate-certs")
    if owner == "cert-manager":
        return command("cmctl", "renew", "--namespace", facts.namespace, secret)
    if owner == "Helm":
        return helm(facts)
    return (
        f"Let whoever provides Secret {facts.namespace}/{secret} (clustermesh.apiserver.tls in the Helm values) issue it again, "
        "with ca.crt, tls.crt and tls.key, from the CA of this cluster."
    )


def lines(*parts: str) -> str:
    """One step per line."""
    return "\n".join(printable(part) for part in parts if part)


def value_groups(groups: Mapping[Key, Sequence[str]], name: str) -> str:
    """``tunnel-protocol "vxlan" in c1 and c2; "geneve" in c3``."""
    return f"{name}: " + "; ".join(f"{show(str(value))} in {listed(hosts)}" for value, hosts in groups.items())

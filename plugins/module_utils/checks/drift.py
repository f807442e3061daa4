# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What somebody did to the keys that this binding wrote. Nothing of it is repaired against a tool that would undo it again."""

from __future__ import annotations

from collections.abc import Iterator

from ..adopt import stays
from ..drift import Drift, changed_finding, drifts, was_ours
from ..facts import ClusterFacts, PeerSecretFacts, RemoteUsersFacts
from ..findings import CheckContext, Finding, Scope, Severity, check
from ..gitops import FLUX_HELM, HELM, ignore_snippet
from .ownership import keys_in_the_way
from .wording import finding, lines, listed, where


@check("CM-DRIFT-01", "Keys or users that this binding wrote are gone", severity=Severity.ADVISORY, scope=Scope.CLUSTER)
def what_was_written_is_there(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Connect writes them again; who took them out, and when, is the news."""
    gone = [drift for drift in _drifts(context, facts) if drift.gone and drift.tool is None]
    if not gone:
        return
    upgrades = [(writer.time, drift) for drift in gone for writer in drift.writers if writer.helm]
    yield finding(
        "CM-DRIFT-01",
        cluster=facts.host,
        summary=f"{sum(len(drift.gone) for drift in gone)} keys or users of this binding are gone from {facts.host}"
        + _by_helm(facts, upgrades),
        evidence="; ".join(_told(facts, drift) for drift in gone),
        fix=lines(
            "Connect writes them again.",
            "So that it does not happen again, hand the objects over: playbook edge_portal.cilium_mesh.adopt" if upgrades else "",
        ),
    )


@check("CM-DRIFT-02", "Somebody changed keys that this binding wrote", severity=Severity.BLOCKING, scope=Scope.PAIR)
def what_was_written_is_unchanged(context: CheckContext, local: ClusterFacts, peer: ClusterFacts) -> Iterator[Finding]:
    """The same judgement as the planner's. Keys that somebody else wrote from the start are CM-OWN-02."""
    changed: dict[str, tuple[PeerSecretFacts, list[str]]] = {}
    for secret, key in keys_in_the_way(context, local, peer):
        if was_ours(secret, key, peer.host, context.mesh.binding.manager):
            changed.setdefault(secret.name, (secret, []))[1].append(key)
    for secret, keys in changed.values():
        yield changed_finding(local, secret, peer.host, keys, repair=context.repair)


@check("CM-DRIFT-03", "A tool undoes what this binding writes", severity=Severity.BLOCKING, scope=Scope.CLUSTER, acceptable=True)
def nobody_undoes_it(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Argo CD and Flux come back by themselves: writing again would be a fight that nobody wins, with a link that comes and goes."""
    undone: dict[str, list[Drift]] = {}
    for drift in _drifts(context, facts):
        if drift.tool is not None:
            undone.setdefault(drift.tool.name, []).append(drift)
    for found in undone.values():
        tool = found[0].tool
        if tool is None:
            continue
        objects = {drift.object: (drift.object.split(" ")[0], drift.object.split(" ")[1]) for drift in found}
        yield finding(
            "CM-DRIFT-03",
            cluster=facts.host,
            summary=f"{tool.name} undid what this binding wrote in {facts.host}; it is not written again until that is settled",
            evidence="; ".join(_told(facts, drift) for drift in found),
            fix=lines(
                "Let the tool stop rendering these objects (Helm value clustermesh.config.enabled=false, playbook "
                "edge_portal.cilium_mesh.adopt first), or leave their data alone:",
                *ignore_snippet(tool, objects, facts.namespace).splitlines(),
                "HelmRelease, spec.values: {clustermesh: {config: {enabled: false}}}" if tool is FLUX_HELM else "",
                "Then connect once with accept: [CM-DRIFT-03].",
            ),
        )


def _drifts(context: CheckContext, facts: ClusterFacts) -> tuple[Drift, ...]:
    binding, mesh = context.mesh.binding, context.mesh
    hosts = [host for host in mesh.clusters if mesh.linked(facts.host, host)]

    def right(secret: PeerSecretFacts, key: str, host: str) -> bool:
        peer = context.facts.get(host)
        return peer is not None and (secret.name, key) not in {(s.name, k) for s, k in keys_in_the_way(context, facts, peer)}

    return drifts(binding, facts, hosts, right)


def _by_helm(facts: ClusterFacts, upgrades: list[tuple[str, Drift]]) -> str:
    """Helm takes out what it does not know from every object that it renders; one that stands under "keep" may have been released."""
    if not upgrades:
        return ""
    kept = all(stays(HELM, _item(facts, drift).annotations) for _other, drift in upgrades)
    when = max(time for time, _other in upgrades) or "an unknown time"
    return f"; the last Helm upgrade was at {when}" if kept else f": a Helm upgrade took them out at {when}"


def _item(facts: ClusterFacts, drift: Drift) -> PeerSecretFacts | RemoteUsersFacts:
    if drift.object.startswith("ConfigMap"):
        return facts.users
    return facts.kvstoremesh if drift.object.endswith(facts.kvstoremesh.name) else facts.clustermesh


def _told(facts: ClusterFacts, drift: Drift) -> str:
    """One object in words."""
    kind, _sep, name = drift.object.partition(" ")
    parts = [f"gone: {listed(drift.gone)}"] if drift.gone else []
    parts += [f"changed: {listed(drift.changed)}"] if drift.changed else []
    parts += [f"this binding last wrote it at {drift.since}"] if drift.since else []
    parts += (
        [f"since then {listed(str(writer) for writer in drift.writers)}"]
        if drift.writers
        else ["nobody left a trace there: managedFields do not say who takes something out"]
    )
    return f"{where(facts, kind, name)}: {', '.join(parts)}"

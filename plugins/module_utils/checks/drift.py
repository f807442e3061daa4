# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of drift: keys that this binding wrote and another writer changed or removed.

Drift is not repaired where a GitOps tool would revert the repair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..findings.finding import Finding
from ..findings.wording import lines, listed, where
from ..links.adopted_values import outlives_manifest
from ..links.drift import Drift, changed_finding, drifts, was_ours
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts, RemoteUsersFacts
from ..mesh.ownership.gitops import FLUX_HELM, HELM, ignore_snippet
from .context import CheckContext
from .flaw import Flaw
from .ownership import conflicting_keys, has_keys_of_others
from .registry import check


@check("CM-DRIFT-01")
def written_keys_are_present(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report keys and users of this binding that another writer removed.

    Connect writes them again, so the finding says which writer removed them, and when.
    """
    gone = [drift for drift in _drifts(context, facts) if drift.gone and drift.tool is None]
    if not gone:
        return
    upgrades = [(writer.time, drift) for drift in gone for writer in drift.writers if writer.helm]
    yield Flaw(
        summary=f"{sum(len(drift.gone) for drift in gone)} keys or users of this binding are gone from {facts.host}"
        + _helm_upgrade_text(facts, upgrades),
        evidence="; ".join(_drift_text(facts, drift) for drift in gone),
        fix=lines(
            "Connect writes them again.",
            "So that it does not happen again, hand the objects over: playbook edge_portal.cilium_mesh.adopt" if upgrades else "",
        ),
    )


@check("CM-DRIFT-02")
def written_keys_are_unchanged(context: CheckContext, local: ClusterFacts, peers: Sequence[ClusterFacts]) -> Iterator[Finding]:
    """Report keys of this binding that another writer changed.

    The decision is the planner's. Keys that another writer owned from the start are CM-OWN-02.
    """
    own = context.mesh.binding.manager
    for peer in peers if has_keys_of_others(local, own) else ():
        changed: dict[str, tuple[PeerSecretFacts, list[str]]] = {}
        for secret, key in conflicting_keys(context, local, peer):
            if was_ours(secret, key, peer.host, own):
                changed.setdefault(secret.name, (secret, []))[1].append(key)
        for secret, keys in changed.values():
            yield changed_finding(local, secret, peer.host, keys, repair=context.decisions.policy.repair)


@check("CM-DRIFT-03")
def no_tool_reverts_written_keys(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a GitOps tool that reverts what this binding writes.

    Argo CD and Flux reconcile continuously. If both sides kept writing, the link would go up and down without an end.
    """
    undone: dict[str, list[Drift]] = {}
    for drift in _drifts(context, facts):
        if drift.tool is not None:
            undone.setdefault(drift.tool.name, []).append(drift)
    for found in undone.values():
        tool = found[0].tool
        if tool is None:
            continue
        objects = {drift.object: (drift.object.split(" ")[0], drift.object.split(" ")[1]) for drift in found}
        yield Flaw(
            summary=f"{tool.name} undid what this binding wrote in {facts.host}; connect does not write it again until this is resolved",
            evidence="; ".join(_drift_text(facts, drift) for drift in found),
            fix=lines(
                "Let the tool stop rendering these objects (Helm value clustermesh.config.enabled=false, playbook "
                "edge_portal.cilium_mesh.adopt first), or leave their data alone:",
                *ignore_snippet(tool, objects, facts.namespace).splitlines(),
                "HelmRelease, spec.values: {clustermesh: {config: {enabled: false}}}" if tool is FLUX_HELM else "",
                "Then connect once with accept: [CM-DRIFT-03].",
            ),
        )


def _drifts(context: CheckContext, facts: ClusterFacts) -> tuple[Drift, ...]:
    """Return the drift of each object of the cluster that holds peers, for the members that it is linked to."""
    binding, mesh = context.mesh.binding, context.mesh
    hosts = [host for host in mesh.clusters if mesh.linked(facts.host, host)]

    def right(secret: PeerSecretFacts, key: str, host: str) -> bool:
        peer = context.facts.get(host)
        return peer is not None and (secret.name, key) not in {(s.name, k) for s, k in conflicting_keys(context, facts, peer)}

    return drifts(binding, facts, hosts, right)


def _helm_upgrade_text(facts: ClusterFacts, upgrades: list[tuple[str, Drift]]) -> str:
    """Return the part of a summary that says when Helm last upgraded, or removed the keys; empty without an upgrade.

    Helm removes keys of others in some cases (mesh/ownership/helm_upgrade.py). An object with the annotation "keep" may have been
    released from Helm, so that Helm need not be the cause.
    """
    if not upgrades:
        return ""
    kept = all(outlives_manifest(HELM, _object_facts(facts, drift).annotations) for _other, drift in upgrades)
    when = max(time for time, _other in upgrades) or "an unknown time"
    return f"; the last Helm upgrade was at {when}" if kept else f": a Helm upgrade took them out at {when}"


def _object_facts(facts: ClusterFacts, drift: Drift) -> PeerSecretFacts | RemoteUsersFacts:
    """Return the facts of the object that a drift is about."""
    if drift.object.startswith("ConfigMap"):
        return facts.users
    return facts.kvstoremesh if drift.object.endswith(facts.kvstoremesh.name) else facts.clustermesh


def _drift_text(facts: ClusterFacts, drift: Drift) -> str:
    """Return one drifted object as text: keys that are gone or changed, and the writers since."""
    kind, _sep, name = drift.object.partition(" ")
    parts = [f"gone: {listed(drift.gone)}"] if drift.gone else []
    parts += [f"changed: {listed(drift.changed)}"] if drift.changed else []
    parts += [f"this binding last wrote it at {drift.since}"] if drift.since else []
    parts += (
        [f"since then {listed(str(writer) for writer in drift.writers)}"]
        if drift.writers
        else ["managedFields name no later writer: a removal leaves no trace there"]
    )
    return f"{where(facts, kind, name)}: {', '.join(parts)}"

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings that forbid a CA roll before anything is written, or stop it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ..findings.finding import Finding
from ..findings.wording import finding
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts, ObserveFailure
from ..mesh.trust.ca_roll import MARK, RollStage, has_invalid_mark, keys_secret, roll_of
from ..mesh.trust.issuing import CA_SECRET, CRON_JOB, Method, leaves_of
from ..mesh.trust.roll_facts import job_name
from .roll_inputs import RollInputs, StageWait

MARKS_CODE: Final = "CM-CA-03"
OTHERS_CODE: Final = "CM-CA-04"
LISTED: Final = 5


def roll_blockers(inputs: RollInputs, clusters: Sequence[str], accept: frozenset[str], *, source: str = "") -> tuple[Finding, ...]:
    """Return the findings that speak against rolling the CA of ``clusters``.

    :param accept: with CM-CA-04 the user accepts that links of other bindings may drop.
    :param source: the cluster whose CA is to be the next one; "" for a new CA.
    """
    found: list[Finding] = []
    if source and any(not inputs.rolls[host].keys.present for host in clusters):
        found += _source_findings(inputs.facts[source])
    for host in clusters:
        facts = inputs.facts[host]
        found += [*_mark_findings(inputs, facts), *_ca_findings(facts), *_method_findings(inputs, facts), *_job_findings(inputs, facts)]
        found += _foreign_peer_findings(inputs, facts, OTHERS_CODE in accept)
    return tuple(found)


def unanswered_findings(mesh: Mesh, failures: Mapping[str, ObserveFailure], stage: RollStage | None) -> tuple[Finding, ...]:
    """Return one finding per member that does not answer: the trust of its readers cannot be proven, so no stage begins."""
    at = f"the roll stays in stage {stage}" if stage else "no roll begins"
    return tuple(
        finding(
            "CM-CA-08",
            cluster=host,
            summary=f"{host} does not answer, so it cannot be proven which CAs its readers trust: {at}",
            evidence=f"{failures[host].code}: {failures[host].message}",
            fix=f"{failures[host].remedy} Then run again: a roll goes on from its present stage. A cluster that will not come back leaves "
            "the mesh with disconnect first.".strip(),
        )
        for host in mesh.clusters
        if host in failures
    )


def unproven_stage_findings(waits: Iterable[StageWait], stage: RollStage, seconds: float) -> tuple[Finding, ...]:
    """Return one finding per cluster for what was not proven within ``seconds``."""
    by_cluster: dict[str, list[str]] = {}
    for wait in waits:
        by_cluster.setdefault(wait.cluster, []).append(wait.text)
    return tuple(
        finding(
            "CM-CA-09",
            cluster=host,
            summary=f"Stage {stage} is not proven in {host} after {seconds:.0f} s: the roll stays there, and every link keeps working",
            evidence="; ".join(texts[:LISTED]) + (f"; and {len(texts) - LISTED} more" if len(texts) > LISTED else ""),
            fix="Resolve what the evidence names, then run the same again: the roll goes on from this stage.",
        )
        for host, texts in by_cluster.items()
    )


def _mark_findings(inputs: RollInputs, facts: ClusterFacts) -> Iterator[Finding]:
    """Yield a finding if cilium-ca has the mark of another roll, or of one whose keys are lost."""
    roll = roll_of(facts.ca)
    if has_invalid_mark(facts.ca):
        why = f"annotation {MARK} cannot be read"
    elif roll is not None and roll.owner != inputs.owner:
        why = f"annotation {MARK} is of binding {roll.owner}, in stage {roll.stage}"
    elif roll is not None and _keys_are_lost(inputs, facts.host):
        why = f"Secret {keys_secret(inputs.owner)} is gone or does not hold the CAs of the mark"
    else:
        return
    yield _blocking(
        "CM-CA-03",
        facts.host,
        f"Secret {CA_SECRET} of {facts.host} has the mark of another CA roll, or of one whose keys are lost: no stage of this one begins",
        f"Secret {facts.namespace}/{CA_SECRET}: {why}",
        "Finish that roll with the mesh that began it. If there is none: the runbook of this finding says what to delete by hand.",
    )


def _keys_are_lost(inputs: RollInputs, host: str) -> bool:
    """Return whether our Secret does not hold the CAs that the mark names."""
    roll, keys = roll_of(inputs.facts[host].ca), inputs.rolls[host].keys
    return roll is not None and not (keys.complete and keys.old == roll.old and keys.new == roll.new)


def _cannot_sign(facts: ClusterFacts) -> str:
    """Return why nothing can be issued from cilium-ca; "" if something can."""
    ca = facts.ca
    if ca.present and ca.has_key and ca.key_matches is True and ca.certificates:
        return ""
    why = ca.problem or "ca.key is missing or does not belong to ca.crt" if ca.present else "not found"
    return f"Secret {facts.namespace}/{CA_SECRET}: {why}"


def _ca_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield a finding if the CA of the cluster cannot be rolled in cilium-ca."""
    obstacle, bundle = None, facts.ca_bundle
    if "cert-manager.io/certificate-name" in facts.ca.annotations:
        obstacle = (
            f"cert-manager owns {CA_SECRET} of {facts.host} and would write its own CA again",
            f"Secret {facts.namespace}/{CA_SECRET}: made by Certificate {facts.ca.annotations['cert-manager.io/certificate-name']}",
            "Let the Issuer sign from a CA that no Certificate renews, or renew it there and run connect afterwards.",
        )
    elif bundle is not None:
        obstacle = (
            f"{facts.host} trusts by a CA bundle (Helm value tls.caBundle), which Helm owns and every pod has mounted",
            f"{bundle.kind} {facts.namespace}/{bundle.name}, key {bundle.key}",
            "Roll the CA with Helm: add the next CA to tls.caBundle.content first, and take the old one out at the end.",
        )
    elif why := _cannot_sign(facts):
        obstacle = (
            f"{CA_SECRET} of {facts.host} holds no CA with its key, so nothing can be issued from it",
            why,
            "Roll the CA with the tool that holds its key; connect follows the new certificates.",
        )
    if obstacle is not None:
        yield _blocking("CM-CA-05", facts.host, *obstacle)


def _source_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield a finding if the source has no CA that can sign.

    A CA that cannot sign would be stored in all clusters, and no later stage could ever be proven.
    """
    if why := _cannot_sign(facts):
        summary = f"{CA_SECRET} of {facts.host} holds no CA with its key, so the others cannot take it"
        yield _blocking("CM-CA-05", facts.host, summary, why, "Name another source, or put a CA and its key there.")


def _method_findings(inputs: RollInputs, facts: ClusterFacts) -> Iterator[Finding]:
    """Yield a finding if the cluster's certificates cannot be issued again from cilium-ca."""
    issuing = inputs.rolls[facts.host].issuing
    if issuing.method is Method.PROVIDED:
        owners = ", ".join(f"{leaf.name}: {leaf.owner or 'unknown'}" for leaf in leaves_of(facts))
        yield _blocking(
            "CM-CA-05",
            facts.host,
            f"The certificates of {facts.host} come from an external source, and only that source can issue them again",
            f"no CronJob {CRON_JOB}, no Certificate of cert-manager, not all of Helm; {owners or 'there are none'}",
            "Have that source issue them from the wanted CA; connect follows the new certificates.",
        )
    if issuing.method is not Method.CERT_MANAGER:
        return
    covered = {certificate.secret for certificate in issuing.certificates if certificate.issuer_secret == CA_SECRET}
    foreign = [leaf.name for leaf in leaves_of(facts) if leaf.name not in covered]
    if foreign:
        kinds = ", ".join(f"{c.name}: {c.issuer_kind} {c.issuer_name}" for c in issuing.certificates) or "no Certificate names them"
        yield _blocking(
            "CM-CA-05",
            facts.host,
            f"cert-manager issues {', '.join(foreign)} of {facts.host} from another CA than Secret {CA_SECRET}",
            kinds,
            f"Use an Issuer in namespace {facts.namespace} with spec.ca.secretName: {CA_SECRET}, or change the CA at the issuer.",
        )


def _job_findings(inputs: RollInputs, facts: ClusterFacts) -> Iterator[Finding]:
    """Yield a finding if the Job that issues the certificates again has failed."""
    if inputs.rolls[facts.host].job.failed:
        name = job_name(inputs.owner)
        yield _blocking(
            "CM-CA-06",
            facts.host,
            f"Job {name} of {facts.host}, which issues the certificates again, has failed: the roll stays where it is",
            f"Job {facts.namespace}/{name}: condition Failed",
            f"kubectl --namespace {facts.namespace} logs job/{name}\nRemove the cause, delete the Job, and run again.",
        )


def _foreign_peer_findings(inputs: RollInputs, facts: ClusterFacts, accepted: bool) -> Iterator[Finding]:
    """Yield a finding for peers that other writers configured.

    Most likely they read this cluster too, and no run tells them of its next CA.
    """
    manager, ours = inputs.mesh.binding.manager, {inputs.facts[peer].name for peer in inputs.mesh.peers(facts.host) if peer in inputs.facts}
    names = sorted(
        {
            name
            for secret in (facts.kvstoremesh, facts.clustermesh)
            for name, key in secret.keys.items()
            if key.config is not None and manager not in key.managers and name not in ours and name != facts.name
        }
    )
    if names:
        yield finding(
            OTHERS_CODE,
            cluster=facts.host,
            summary=f"{facts.host} has peers that are no members of this mesh; their links would drop when its CA changes",
            evidence=f"configurations of others in {facts.clustermesh.name} and {facts.kvstoremesh.name}: {', '.join(names[:LISTED])}"
            + (f" and {len(names) - LISTED} more" if len(names) > LISTED else ""),
            fix=f"Roll it as a member of a mesh that has them all, or accept {OTHERS_CODE} and connect those meshes again in each stage.",
            accepted=accepted,
        )


def _blocking(code: str, cluster: str, summary: str, evidence: str, fix: str) -> Finding:
    return finding(code, cluster=cluster, summary=summary, evidence=evidence, fix=fix)

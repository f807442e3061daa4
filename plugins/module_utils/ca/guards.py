# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What forbids a roll, or stops it: findings before anything is written. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ..facts import ClusterFacts, ObserveFailure
from ..findings import Finding, Severity
from ..model import Mesh
from .methods import CA_SECRET, CRON_JOB, Method, leaves_of
from .observe import job_name
from .seen import Seen, Wait
from .state import MARK, Stage, keys_secret, roll_of, spoiled

CA_CODES: Final = ("CM-CA-03", "CM-CA-04", "CM-CA-05", "CM-CA-06", "CM-CA-08", "CM-CA-09")
"""Codes of findings that only actions on a CA come to; the others of this family are checks."""

MARKS_CODE: Final = "CM-CA-03"
OTHERS_CODE: Final = "CM-CA-04"
LISTED: Final = 5


def guards(seen: Seen, clusters: Sequence[str], accept: frozenset[str], *, source: str = "") -> tuple[Finding, ...]:
    """Everything that speaks against rolling the CA of ``clusters``.

    :param accept: CM-CA-04 in it takes links of others upon the user.
    :param source: the cluster whose CA is to be the next one; "" for a new CA.
    """
    found: list[Finding] = []
    if source and any(not seen.rolls[host].keys.present for host in clusters):
        found += _source(seen.facts[source])
    for host in clusters:
        facts = seen.facts[host]
        found += [*_marks(seen, facts), *_ca(facts), *_methods(seen, facts), *_job(seen, facts)]
        found += _others(seen, facts, OTHERS_CODE in accept)
    return tuple(found)


def silent(mesh: Mesh, failures: Mapping[str, ObserveFailure], stage: Stage | None) -> tuple[Finding, ...]:
    """Members that do not answer: nobody can prove for them whom they trust, so nothing moves."""
    at = f"the roll stays in stage {stage}" if stage else "no roll begins"
    return tuple(
        Finding(
            code="CM-CA-08",
            severity=Severity.BLOCKING,
            cluster=host,
            summary=f"{host} does not answer, so it cannot be proven whom its readers trust: {at}",
            evidence=f"{failures[host].code}: {failures[host].message}",
            fix=f"{failures[host].remedy} Then run again: a roll goes on where it is. A cluster that will not come back leaves the mesh "
            "with disconnect first.".strip(),
        )
        for host in mesh.clusters
        if host in failures
    )


def held(waits: Iterable[Wait], stage: Stage, seconds: float) -> tuple[Finding, ...]:
    """What was not proven in time, a finding per cluster."""
    by_cluster: dict[str, list[str]] = {}
    for wait in waits:
        by_cluster.setdefault(wait.cluster, []).append(wait.text)
    return tuple(
        Finding(
            code="CM-CA-09",
            severity=Severity.BLOCKING,
            cluster=host,
            summary=f"Stage {stage} is not proven in {host} after {seconds:.0f} s: the roll stays there, and every link goes on",
            evidence="; ".join(texts[:LISTED]) + (f"; and {len(texts) - LISTED} more" if len(texts) > LISTED else ""),
            fix="Look at what it names, then run the same again: the roll goes on where it is.",
        )
        for host, texts in by_cluster.items()
    )


def _marks(seen: Seen, facts: ClusterFacts) -> Iterator[Finding]:
    roll = roll_of(facts.ca)
    if spoiled(facts.ca):
        why = f"annotation {MARK} cannot be read"
    elif roll is not None and roll.owner != seen.owner:
        why = f"annotation {MARK} is of binding {roll.owner}, in stage {roll.stage}"
    elif roll is not None and _lost(seen, facts.host):
        why = f"Secret {keys_secret(seen.owner)} is gone or does not hold the CAs of the mark"
    else:
        return
    yield _blocking(
        "CM-CA-03",
        facts.host,
        f"Another roll, or what is left of one, stands in Secret {CA_SECRET} of {facts.host}",
        f"Secret {facts.namespace}/{CA_SECRET}: {why}",
        "Finish that roll with the mesh that began it. If there is none: see the page of this finding for what to take away by hand.",
    )


def _lost(seen: Seen, host: str) -> bool:
    roll, keys = roll_of(seen.facts[host].ca), seen.rolls[host].keys
    return roll is not None and not (keys.complete and keys.old == roll.old and keys.new == roll.new)


def _ca(facts: ClusterFacts) -> Iterator[Finding]:
    ca = facts.ca
    where = f"Secret {facts.namespace}/{CA_SECRET}"
    if "cert-manager.io/certificate-name" in ca.annotations:
        name = ca.annotations["cert-manager.io/certificate-name"]
        yield _blocking(
            "CM-CA-05",
            facts.host,
            f"cert-manager owns {CA_SECRET} of {facts.host} and would write its own CA again",
            f"{where}: made by Certificate {name}",
            "Let the Issuer sign from a CA that no Certificate renews, or renew it there and run connect afterwards.",
        )
    elif facts.ca_bundle is not None:
        bundle = facts.ca_bundle
        yield _blocking(
            "CM-CA-05",
            facts.host,
            f"{facts.host} trusts by a CA bundle (Helm value tls.caBundle), which Helm owns and every pod has mounted",
            f"{bundle.kind} {facts.namespace}/{bundle.name}, key {bundle.key}",
            "Roll the CA with Helm: add the next CA to tls.caBundle.content first, and take the old one out at the end.",
        )
    elif not ca.present or not ca.has_key or ca.key_matches is not True or not ca.certificates:
        yield _blocking(
            "CM-CA-05",
            facts.host,
            f"{CA_SECRET} of {facts.host} holds no CA with its key, so nothing can be issued from it",
            f"{where}: {ca.problem or 'ca.key is missing or does not belong to ca.crt' if ca.present else 'not found'}",
            "Roll the CA with the tool that holds its key; connect follows the new certificates.",
        )


def _source(facts: ClusterFacts) -> Iterator[Finding]:
    """A CA that cannot sign would be stored everywhere, and then no stage after that could ever be proven."""
    ca = facts.ca
    if not ca.present or not ca.has_key or ca.key_matches is not True or not ca.certificates:
        yield _blocking(
            "CM-CA-05",
            facts.host,
            f"{CA_SECRET} of {facts.host} holds no CA with its key, so the others cannot take it",
            f"Secret {facts.namespace}/{CA_SECRET}: "
            + (ca.problem or "ca.key is missing or does not belong to ca.crt" if ca.present else "not found"),
            "Name another source, or put a CA and its key there.",
        )


def _methods(seen: Seen, facts: ClusterFacts) -> Iterator[Finding]:
    issuing = seen.rolls[facts.host].issuing
    if issuing.method is Method.PROVIDED:
        owners = ", ".join(f"{leaf.name}: {leaf.owner or 'unknown'}" for leaf in leaves_of(facts))
        yield _blocking(
            "CM-CA-05",
            facts.host,
            f"The certificates of {facts.host} were brought by somebody, and only he can issue them again",
            f"no CronJob {CRON_JOB}, no Certificate of cert-manager, not all of Helm; {owners or 'there are none'}",
            "Have them issued from the wanted CA by whoever brings them; connect follows the new certificates.",
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


def _job(seen: Seen, facts: ClusterFacts) -> Iterator[Finding]:
    if seen.rolls[facts.host].job.failed:
        name = job_name(seen.owner)
        yield _blocking(
            "CM-CA-06",
            facts.host,
            f"Job {name} of {facts.host}, which issues the certificates again, has failed",
            f"Job {facts.namespace}/{name}: condition Failed",
            f"kubectl --namespace {facts.namespace} logs job/{name}\nMend the cause, delete the Job, and run again.",
        )


def _others(seen: Seen, facts: ClusterFacts, accepted: bool) -> Iterator[Finding]:
    """Peers that others wrote: they read this cluster too, most likely, and learn of its next CA from nobody."""
    manager, ours = seen.mesh.binding.manager, {seen.facts[peer].name for peer in seen.mesh.peers(facts.host) if peer in seen.facts}
    names = sorted(
        {
            name
            for secret in (facts.kvstoremesh, facts.clustermesh)
            for name, key in secret.keys.items()
            if key.config is not None and manager not in key.managers and name not in ours and name != facts.name
        }
    )
    if names:
        yield Finding(
            code=OTHERS_CODE,
            severity=Severity.BLOCKING,
            cluster=facts.host,
            summary=f"{facts.host} has peers that are no members of this mesh; their links would drop when its CA changes",
            evidence=f"configurations of others in {facts.clustermesh.name} and {facts.kvstoremesh.name}: {', '.join(names[:LISTED])}"
            + (f" and {len(names) - LISTED} more" if len(names) > LISTED else ""),
            fix=f"Roll it as a member of a mesh that has them all, or accept {OTHERS_CODE} and connect those meshes again in each stage.",
            accepted=accepted,
        )


def _blocking(code: str, cluster: str, summary: str, evidence: str, fix: str) -> Finding:
    return Finding(code=code, severity=Severity.BLOCKING, cluster=cluster, summary=summary, evidence=evidence, fix=fix)

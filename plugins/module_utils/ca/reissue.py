# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Steps that let a cluster issue its leaf certificates again from ``cilium-ca``, by its own method; pure.

certgen: a Job from the CronJob's template, as ``kubectl create job --from`` makes it. Helm issues only at an upgrade, so the
certificate is issued here, with the old subject, names, usages and lifetime; the next upgrade signs from cilium-ca by itself (chart,
``lookup``). cert-manager: the condition that ``cmctl renew`` sets.

The certificates of the cluster's own clients come first. certgen has no order and writes ``ca.crt`` with the next CA alone, and an
etcd that starts at that moment accepts no other clients. So the clients' certificates are issued here before, and certgen's Job
issues them once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from ..mesh.facts.cluster import ClusterFacts, TlsSecretFacts
from ..mesh.trust.ca_roll import Roll
from ..mesh.trust.issuing import CRON_JOB, Issuing, ManagedCertificate, Method
from ..mesh.trust.roll_facts import JobFacts, job_name
from ..plan.patches import patch_step
from ..plan.steps import NOW, ApiWrite, IssuedAgain, Literal, Recipe, Step

WAVE: Final = 10
SERVED_AT_ONCE: Final = "none: etcd serves a new certificate from the next handshake on"


def client_steps(facts: ClusterFacts, issuing: Issuing, stale: tuple[TlsSecretFacts, ...], roll: Roll) -> Iterator[Step]:
    """Yield the steps that issue the ``stale`` client certificates from the next CA; none when that is under way or done."""
    if issuing.method is Method.CERT_MANAGER:
        yield from _cert_manager_steps(facts, issuing, stale)
    else:
        yield from (_issue_step(facts, leaf, roll) for leaf in stale)


def server_steps(facts: ClusterFacts, issuing: Issuing, job: JobFacts, stale: tuple[TlsSecretFacts, ...], roll: Roll) -> Iterator[Step]:
    """Yield the steps for the certificates that are ``stale`` still.

    These are the server's certificate, and those that another process issued from the old CA in between.
    """
    if issuing.method is Method.CERTGEN:
        yield from _certgen_steps(facts, issuing, job, bool(stale), roll.owner)
    else:
        yield from client_steps(facts, issuing, stale, roll)


def write_ca(facts: ClusterFacts, leaf: TlsSecretFacts, text: str, why: str, undo: str) -> Step:
    """Return the step that writes ``ca.crt`` of a TLS Secret alone."""
    data = {"ca.crt": Literal(text)}
    return patch_step(WAVE, facts, f"Secret {leaf.name}", why=why, undo=undo, body=_precondition(leaf), secret_data=data)


def _issue_step(facts: ClusterFacts, leaf: TlsSecretFacts, roll: Roll) -> Step:
    data: Mapping[str, Recipe] = {
        "tls.crt": IssuedAgain(leaf.name, "certificate"),
        "tls.key": IssuedAgain(leaf.name, "key"),
        "ca.crt": Literal(roll.bundle),
    }
    return patch_step(
        WAVE,
        facts,
        f"Secret {leaf.name}",
        why="issue it again from the next CA, with the same subject, names, usages and length of life",
        disruption=SERVED_AT_ONCE,
        undo="helm upgrade with unchanged values, or certgen's Job, issues it anew from cilium-ca",
        body=_precondition(leaf),
        secret_data=data,
    )


def _certgen_steps(facts: ClusterFacts, issuing: Issuing, job: JobFacts, stale: bool, owner: str) -> Iterator[Step]:
    name = job_name(owner)
    step = partial(Step, wave=WAVE, cluster=facts.host, object=f"Job {facts.namespace}/{name}")
    jobs = f"/apis/batch/v1/namespaces/{facts.namespace}/jobs"
    if job.succeeded:  # if a leaf is still stale, the Job issued it before cilium-ca was the next CA
        gone = ApiWrite(method="delete", path=f"{jobs}/{name}", body={"metadata": {"uid": job.uid}})
        yield step(verb="delete", why="it has done its work", action=gone)
    elif stale and not job.present:
        yield step(
            verb="create",
            why=f"certgen issues the certificates again from the next CA, as CronJob {CRON_JOB} would at its time",
            disruption=SERVED_AT_ONCE,
            undo="the same Job, when cilium-ca is the old CA again",
            action=ApiWrite(method="create", path=jobs, body=_job(facts, issuing, name)),
        )


def _job(facts: ClusterFacts, issuing: Issuing, name: str) -> dict[str, Any]:
    template = issuing.job_template
    metadata = template.get("metadata") or {}
    reference = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": CRON_JOB,
        "uid": issuing.cron_uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": facts.namespace,
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {**(metadata.get("annotations") or {}), "cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [reference],
        },
        "spec": dict(template.get("spec") or {}),
    }


def _cert_manager_steps(facts: ClusterFacts, issuing: Issuing, stale: tuple[TlsSecretFacts, ...]) -> Iterator[Step]:
    names = {leaf.name for leaf in stale}
    yield from (_renewal(facts, c) for c in issuing.certificates if c.secret in names and not c.issuing)


def _renewal(facts: ClusterFacts, certificate: ManagedCertificate) -> Step:
    wanted = {
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": "Certificate re-issuance manually triggered",
        "lastTransitionTime": NOW,
    }
    conditions = [*(dict(c) for c in certificate.conditions if c.get("type") != "Issuing"), wanted]
    return Step(
        wave=WAVE,
        cluster=facts.host,
        verb="patch",
        object=f"Certificate {facts.namespace}/{certificate.name}",
        why="cert-manager issues it again from the next CA (what cmctl renew does)",
        disruption=SERVED_AT_ONCE,
        undo="cmctl renew, when the issuer's CA is the old one again",
        action=ApiWrite(
            method="merge",
            path=f"/apis/cert-manager.io/v1/namespaces/{facts.namespace}/certificates/{certificate.name}/status",
            body={"metadata": {"resourceVersion": certificate.resource_version}, "status": {"conditions": conditions}},
        ),
    )


def _precondition(leaf: TlsSecretFacts) -> dict[str, Any]:
    """Return metadata with which the API server refuses the write if the Secret is not the version that was read.

    The Secret belongs to Helm, certgen or another tool.
    """
    return {"metadata": {"uid": leaf.uid, "resourceVersion": leaf.resource_version}}

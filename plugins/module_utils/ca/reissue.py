# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Steps that let a cluster issue its leaves again from ``cilium-ca``, by its own method; pure.

certgen: a Job from the CronJob's template, as ``kubectl create job --from`` makes it. Helm: nobody issues between two upgrades, so it is
done here, with the old subject, names, usages and length of life; the next upgrade signs from cilium-ca by itself (chart, ``lookup``).
cert-manager: the condition that ``cmctl renew`` sets.

What the cluster's own clients show comes first. certgen knows no order and writes ``ca.crt`` with the next CA alone, and an etcd that
starts at that moment accepts nobody else: so the clients' certificates are issued by hand before, and certgen's Job does it once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from ..facts import ClusterFacts, TlsSecretFacts
from ..steps import NOW, ApiWrite, IssuedAgain, Literal, Recipe, Step
from .methods import CRON_JOB, Issuing, ManagedCertificate, Method
from .observe import JobFacts, job_name
from .state import Roll

WAVE: Final = 10
SERVED_AT_ONCE: Final = "none: etcd serves a new certificate from the next handshake on"


def client_steps(facts: ClusterFacts, issuing: Issuing, stale: tuple[TlsSecretFacts, ...], roll: Roll) -> Iterator[Step]:
    """What makes the ``stale`` client certificates of the cluster those of the next CA; nothing when it is under way or done."""
    if issuing.method is Method.CERT_MANAGER:
        yield from _by_cert_manager(facts, issuing, stale)
    else:
        yield from (_by_hand(facts, leaf, roll) for leaf in stale)


def server_steps(facts: ClusterFacts, issuing: Issuing, job: JobFacts, stale: tuple[TlsSecretFacts, ...], roll: Roll) -> Iterator[Step]:
    """The same for whatever is ``stale`` still: the server's certificate, and what somebody issued by the old CA in between."""
    if issuing.method is Method.CERTGEN:
        yield from _by_certgen(facts, issuing, job, bool(stale), roll.owner)
    else:
        yield from client_steps(facts, issuing, stale, roll)


def write_ca(facts: ClusterFacts, leaf: TlsSecretFacts, text: str, why: str, undo: str) -> Step:
    """``ca.crt`` of a TLS Secret alone."""
    return Step(
        wave=WAVE,
        cluster=facts.host,
        verb="patch",
        object=f"Secret {facts.namespace}/{leaf.name}",
        why=why,
        undo=undo,
        action=ApiWrite(
            method="merge",
            path=f"/api/v1/namespaces/{facts.namespace}/secrets/{leaf.name}",
            body=_unchanged(leaf),
            secret_data={"ca.crt": Literal(text)},
        ),
    )


def _by_hand(facts: ClusterFacts, leaf: TlsSecretFacts, roll: Roll) -> Step:
    data: Mapping[str, Recipe] = {
        "tls.crt": IssuedAgain(leaf.name, "certificate"),
        "tls.key": IssuedAgain(leaf.name, "key"),
        "ca.crt": Literal(roll.bundle),
    }
    return Step(
        wave=WAVE,
        cluster=facts.host,
        verb="patch",
        object=f"Secret {facts.namespace}/{leaf.name}",
        why="issue it again from the next CA, with the same subject, names, usages and length of life",
        disruption=SERVED_AT_ONCE,
        undo="helm upgrade with unchanged values, or certgen's Job, issues it anew from cilium-ca",
        action=ApiWrite(
            method="merge",
            path=f"/api/v1/namespaces/{facts.namespace}/secrets/{leaf.name}",
            body=_unchanged(leaf),
            secret_data=data,
        ),
    )


def _by_certgen(facts: ClusterFacts, issuing: Issuing, job: JobFacts, stale: bool, owner: str) -> Iterator[Step]:
    name = job_name(owner)
    step = partial(Step, wave=WAVE, cluster=facts.host, object=f"Job {facts.namespace}/{name}")
    jobs = f"/apis/batch/v1/namespaces/{facts.namespace}/jobs"
    if job.succeeded:  # and what is stale still was issued by it before cilium-ca was the next CA
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


def _by_cert_manager(facts: ClusterFacts, issuing: Issuing, stale: tuple[TlsSecretFacts, ...]) -> Iterator[Step]:
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


def _unchanged(leaf: TlsSecretFacts) -> dict[str, Any]:
    """Refused when the Secret is another one, or another version, than the one that was read: it belongs to Helm, certgen or others."""
    return {"metadata": {"uid": leaf.uid, "resourceVersion": leaf.resource_version}}

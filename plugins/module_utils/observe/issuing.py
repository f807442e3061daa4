# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reading of what issues the certificates of a cluster: certgen's CronJob, and cert-manager's Certificates."""

from __future__ import annotations

from typing import Any

from ..base.errors import Forbidden
from ..base.json_fields import text
from ..kube.client import Cluster
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.trust.issuing import CRON_JOB, Issuing, ManagedCertificate, certificate_of, issuer_kind, issuing_of, leaves_of
from . import Observation


def read_issuing(observation: Observation, host: str) -> Issuing:
    """Read how the certificates of an observed cluster are issued.

    It takes two requests, and one per issuer of cert-manager.

    :raises Forbidden: RBAC forbids it; all that is missing is in one message.
    :raises ClusterError: the cluster refuses a request or does not answer.
    """
    cluster, facts = observation.clusters[host], observation.facts[host]
    batch = f"/apis/batch/v1/namespaces/{facts.namespace}/cronjobs/{CRON_JOB}"
    manager = f"/apis/cert-manager.io/v1/namespaces/{facts.namespace}"
    forbidden: list[Forbidden] = []
    cron_job: Any = None
    certificates: tuple[ManagedCertificate, ...] = ()
    try:
        cron_job = cluster.get(batch)
    except Forbidden as error:
        forbidden.append(error)
    try:
        certificates = _certificates(cluster, facts, manager)
    except Forbidden as error:
        forbidden.append(error)
    if forbidden:
        raise Forbidden.of_several(forbidden, cluster.host)
    return issuing_of(facts, cron_job, certificates)


def _certificates(cluster: Cluster, facts: ClusterFacts, root: str) -> tuple[ManagedCertificate, ...]:
    names = {leaf.name for leaf in leaves_of(facts)}
    found = [c for c in cluster.list(f"{root}/certificates") if text(c, "spec", "secretName") in names]
    issuers: dict[str, str] = {}
    for certificate in found:
        name = text(certificate, "spec", "issuerRef", "name")
        if issuer_kind(certificate) == "Issuer" and name and name not in issuers:
            issuers[name] = text(cluster.get(f"{root}/issuers/{name}"), "spec", "ca", "secretName")
    return tuple(certificate_of(c, issuers) for c in sorted(found, key=lambda c: text(c, "metadata", "name")))

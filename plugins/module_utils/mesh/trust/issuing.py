# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The method by which a cluster's certificates are issued, and by which they can be issued again. Pure.

Cilium's chart, values clustermesh.apiserver.tls.auto.method: ``helm`` (Helm signs at every upgrade, from the CA in cilium-ca),
``cronJob`` (certgen, as Job and CronJob), ``certmanager`` (Certificate objects of the Secrets' names); or the user provides the
Secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from ...base.json_fields import items, mapping, text
from ..facts.cluster import ClusterFacts, TlsSecretFacts

_LIMITS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))  # minute, hour, day of month, month, day of week
_PART: Final = re.compile(r"(\*|\d{1,2}(?:-\d{1,2})?)(?:/(\d{1,2}))?")
_HORIZON: Final = 366 * 5  # days; a schedule for 29 February is due within that time

CRON_JOB: Final = "clustermesh-apiserver-generate-certs"  # name of certgen's CronJob in every chart
CA_SECRET: Final = "cilium-ca"


class Method(StrEnum):
    """Method by which the certificates of a cluster are issued."""

    CERTGEN = "certgen"
    HELM = "helm"
    CERT_MANAGER = "cert-manager"
    PROVIDED = "provided"


@dataclass(frozen=True, kw_only=True)
class ManagedCertificate:
    """Certificate object of cert-manager that issues one of the leaf certificates."""

    name: str
    secret: str
    resource_version: str = ""
    issuer_kind: str = "Issuer"
    issuer_name: str = ""
    issuer_secret: str = ""  # Secret with the CA of an Issuer of type CA in the same namespace; "" for any other
    renewal_time: str = ""  # RFC 3339, from the status of the Certificate
    issuing: bool = False  # condition Issuing
    conditions: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Issuing:
    """Method and schedule by which the leaf certificates of one cluster are issued.

    ``job_template`` is that of certgen's CronJob, as it is in the cluster.
    """

    method: Method
    cron_uid: str = ""
    schedule: str = ""
    suspended: bool = False
    job_template: Mapping[str, Any] = field(default_factory=dict)
    certificates: tuple[ManagedCertificate, ...] = ()

    def next_renewal(self, now: datetime) -> str:
        """Return the time of the next renewal in RFC 3339; "" where nothing renews by itself or the time is not known.

        ``now`` is aware.
        """
        if self.method is Method.CERTGEN and not self.suspended:
            when = next_run(self.schedule, now)
            return when.strftime("%Y-%m-%dT%H:%M:%SZ") if when else ""
        times = sorted(certificate.renewal_time for certificate in self.certificates if certificate.renewal_time)
        return times[0] if self.method is Method.CERT_MANAGER and times else ""


def leaves_of(facts: ClusterFacts) -> tuple[TlsSecretFacts, ...]:
    """Return the TLS Secrets that exist, in the order in which they are written.

    What clients trust and present comes before what the server presents.
    """
    every = (facts.admin_cert, facts.local_cert, facts.remote_cert, facts.server_cert)
    return tuple(secret for secret in every if secret.present)


def issuing_of(facts: ClusterFacts, cron_job: Any, certificates: tuple[ManagedCertificate, ...]) -> Issuing:
    """Return how the certificates are issued, from certgen's CronJob and cert-manager's Certificates.

    cert-manager's marks take precedence: its Secrets often have Helm's labels as well.
    """
    leaves = leaves_of(facts)
    if certificates or any(leaf.owner == "cert-manager" for leaf in leaves):
        return Issuing(method=Method.CERT_MANAGER, certificates=certificates)
    if cron_job is not None:
        return Issuing(
            method=Method.CERTGEN,
            cron_uid=text(cron_job, "metadata", "uid"),
            schedule=text(cron_job, "spec", "schedule"),
            suspended=mapping(cron_job, "spec").get("suspend") is True,
            job_template=mapping(cron_job, "spec", "jobTemplate"),
        )
    if leaves and all(leaf.owner == "Helm" for leaf in leaves):
        return Issuing(method=Method.HELM)
    return Issuing(method=Method.PROVIDED)


def certificate_of(value: Any, issuers: Mapping[str, str]) -> ManagedCertificate:
    """Return a Certificate of cert-manager.

    :param issuers: name of an Issuer -> Secret with its CA.
    """
    conditions = tuple(items(value, "status", "conditions"))
    kind, issuer = issuer_kind(value), text(value, "spec", "issuerRef", "name")
    return ManagedCertificate(
        name=text(value, "metadata", "name"),
        secret=text(value, "spec", "secretName"),
        resource_version=text(value, "metadata", "resourceVersion"),
        issuer_kind=kind,
        issuer_name=issuer,
        issuer_secret=issuers.get(issuer, "") if kind == "Issuer" else "",
        renewal_time=text(value, "status", "renewalTime"),
        issuing=any(text(c, "type") == "Issuing" and text(c, "status") == "True" for c in conditions),
        conditions=conditions,
    )


def issuer_kind(certificate: Any) -> str:
    """Return the kind of a Certificate's issuer."""
    return text(certificate, "spec", "issuerRef", "kind") or "Issuer"


def next_run(schedule: str, now: datetime) -> datetime | None:
    """Return the first minute after ``now`` that the schedule names; None when it is not understood or names none.

    ``now`` is aware, in UTC as kube-controller-manager's default. A day counts when it matches day of month and day of week; when both
    are restricted, one of them is enough (crontab(5); robfig/cron, which Kubernetes uses, does the same).
    """
    fields = schedule.split()
    if len(fields) != 5:
        return None
    sets = [_values(field, *limits) for field, limits in zip(fields, _LIMITS, strict=True)]
    if any(values is None for values in sets):
        return None
    minutes, hours, days, months, weekdays = (values or frozenset() for values in sets)
    either = not fields[2].startswith("*") and not fields[4].startswith("*")
    start = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    for offset in range(_HORIZON):
        day = start + timedelta(days=offset)
        on_date, on_weekday = day.day in days, day.isoweekday() % 7 in weekdays
        if day.month not in months or not (on_date or on_weekday if either else on_date and on_weekday):
            continue
        for hour in sorted(hours):
            for minute in sorted(minutes):
                found = day.replace(hour=hour, minute=minute)
                if found >= start:
                    return found
    return None


def _values(field: str, low: int, high: int) -> frozenset[int] | None:
    """Return the numbers that a field names; None if it is not understood."""
    found: set[int] = set()
    top = 7 if high == 6 else high  # 7 is Sunday too
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        begin, _sep, end = match[1].partition("-")
        step = int(match[2] or 1)
        first = low if begin == "*" else int(begin)
        last = int(end) if end else high if begin == "*" or match[2] else first
        if first < low or last > top or first > last or step < 1:
            return None
        found.update(range(first, last + 1, step))
    return frozenset(value % 7 for value in found) if high == 6 else frozenset(found)

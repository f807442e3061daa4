# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Cilium's own certificates: there, whole, in time, for the right name and purpose.

Sources: chart templates/clustermesh-apiserver/tls-*; Cilium documentation, "Setting up Cluster Mesh".
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from ..endpoints import Endpoint, certifies
from ..facts import CertificateFacts, ClusterFacts, TlsSecretFacts
from ..findings import CheckContext, Finding, Scope, Severity, check
from ..trust import anchor
from ..versions import cilium_version, holds
from .wording import finding, helm, kubectl, lines, listed, reissue, show, where

RENEW_BEFORE = timedelta(days=30)


def _expected(facts: ClusterFacts) -> tuple[TlsSecretFacts, ...]:
    """The Secrets that every clustermesh-apiserver has; none when it is not installed (CM-INST-02 says so)."""
    return () if facts.apiserver is None else (facts.server_cert, facts.admin_cert, facts.remote_cert)


def _complete(facts: ClusterFacts) -> tuple[TlsSecretFacts, ...]:
    """Those whose certificate could be read; also the local one, where there is one."""
    every = (*_expected(facts), facts.local_cert) if facts.apiserver is not None else ()
    return tuple(s for s in every if s.present and s.certificate is not None)


@check("CM-CERT-01", "A certificate Secret is missing or incomplete", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def secrets_exist(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    for secret in _expected(facts):
        if secret.present and not secret.missing_keys:
            continue
        state = f"has no {listed(secret.missing_keys)}" if secret.present else "not found"
        yield finding(
            "CM-CERT-01",
            cluster=facts.host,
            summary=f"Secret {secret.name} of {facts.host} is {'incomplete' if secret.present else 'missing'}",
            evidence=f"{where(facts, 'Secret', secret.name)} {state}",
            fix=reissue(facts, secret.name, secret.owner or facts.server_cert.owner or facts.remote_cert.owner),
        )


@check("CM-CERT-02", "A certificate cannot be read or has another key", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def secrets_are_consistent(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    local = (facts.local_cert,) if facts.apiserver is not None and facts.local_cert.present else ()
    for secret in (*_expected(facts), *local):
        problem = secret.problem or ("tls.key does not belong to tls.crt" if secret.key_matches is False else "")
        if secret.present and problem:
            yield finding(
                "CM-CERT-02",
                cluster=facts.host,
                summary=f"Secret {secret.name} of {facts.host} cannot be used",
                evidence=f"{where(facts, 'Secret', secret.name)}: {problem}",
                fix=reissue(facts, secret.name, secret.owner),
            )


def _ends(secret: TlsSecretFacts, facts: ClusterFacts) -> Iterator[tuple[str, CertificateFacts]]:
    """The certificates whose end stops this Secret from working: the leaf, what stands between, and the CA that signed it."""
    if secret.certificate is not None:
        yield f"{where(facts, 'Secret', secret.name)} tls.crt", secret.certificate
    for intermediate in secret.intermediates:
        yield f"{where(facts, 'Secret', secret.name)} tls.crt (intermediate)", intermediate
    signer = anchor(secret)
    if signer is not None:
        yield f"{where(facts, 'Secret', secret.name)} ca.crt", signer


def _invalid_at(certificate: CertificateFacts, when: datetime) -> str:
    if when >= certificate.not_after:
        return f"expired on {certificate.not_after:%Y-%m-%d %H:%M} UTC"
    return f"is valid only from {certificate.not_before:%Y-%m-%d %H:%M} UTC on" if when < certificate.not_before else ""


@check("CM-CERT-03", "A certificate is not valid now", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def certificates_are_valid(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    for secret in _complete(facts):
        wrong = [f"{place} (CN {show(c.common_name)}) {why}" for place, c in _ends(secret, facts) if (why := _invalid_at(c, context.now))]
        if wrong:
            yield finding(
                "CM-CERT-03",
                cluster=facts.host,
                summary=f"The certificate in Secret {secret.name} of {facts.host} is not valid now",
                evidence="; ".join(wrong),
                fix=lines(reissue(facts, secret.name, secret.owner), _ca_first(wrong)),
            )


def _ca_first(wrong: list[str]) -> str:
    """certgen before 0.4.0 signs with an expired CA without a word (certgen issue 500)."""
    return "Renew Secret cilium-ca first: a certificate never outlives its CA." if any(" ca.crt " in w for w in wrong) else ""


@check("CM-CERT-04", "A certificate expires within 30 days", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def certificates_last(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    for secret in _complete(facts):
        soon = [
            f"{place} (CN {show(c.common_name)}) expires on {c.not_after:%Y-%m-%d %H:%M} UTC"
            for place, c in _ends(secret, facts)
            if context.now < c.not_after <= context.now + RENEW_BEFORE
        ]
        if soon:
            yield finding(
                "CM-CERT-04",
                cluster=facts.host,
                summary=f"The certificate in Secret {secret.name} of {facts.host} expires within {RENEW_BEFORE.days} days",
                evidence="; ".join(soon),
                fix=lines(reissue(facts, secret.name, secret.owner), _ca_first(soon)),
            )


@check("CM-CERT-05", "The server certificate does not cover the name that peers dial", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def server_name_is_covered(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """etcd's client configuration cannot override the name that is verified."""
    certificate = facts.server_cert.certificate
    endpoint = context.choices.endpoint(facts)
    if certificate is None or facts.apiserver is None or not isinstance(endpoint, Endpoint) or certifies(certificate, endpoint.hostname):
        return
    yield finding(
        "CM-CERT-05",
        cluster=facts.host,
        summary=f"The server certificate of {facts.host} does not cover {endpoint.hostname}, the name that its peers dial",
        evidence=f"{where(facts, 'Secret', facts.server_cert.name)} tls.crt: DNS names {listed(certificate.dns_names) or 'none'}",
        fix=helm(facts, f"clustermesh.apiserver.tls.server.extraDnsNames={{{endpoint.hostname}}}"),
    )


@check("CM-CERT-06", "A certificate does not chain to its CA", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def certificates_chain(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    for secret in _complete(facts):
        if secret.chain_valid is False and secret.certificate is not None:
            yield finding(
                "CM-CERT-06",
                cluster=facts.host,
                summary=f"The certificate in Secret {secret.name} of {facts.host} was not signed by the CA beside it",
                evidence=f"{where(facts, 'Secret', secret.name)}: tls.crt was issued by {show(secret.certificate.issuer)}; "
                f"ca.crt holds {listed([show(c.common_name) for c in secret.ca]) or 'no certificate'}",
                fix=lines(
                    reissue(facts, secret.name, secret.owner),
                    kubectl(facts, "rollout", "restart", "deployment/clustermesh-apiserver"),
                ),
            )


@check("CM-CERT-07", "Agents have no certificate for their own kvstoremesh", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def local_certificate_exists(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Agents wait for all files before they connect: "Waiting for all etcd configuration files to be available" (cilium issue 42841)."""
    secret = facts.local_cert
    whole = secret.present and not secret.missing_keys
    if not facts.runs_kvstoremesh or whole or not holds("local_certificate_used", cilium_version(facts)):
        return
    yield finding(
        "CM-CERT-07",
        cluster=facts.host,
        summary=f"Secret {secret.name} of {facts.host} is {'incomplete' if secret.present else 'missing'}: its agents cannot "
        "log in to kvstoremesh",
        evidence=f"{where(facts, 'Secret', secret.name)} " + (f"has no {listed(secret.missing_keys)}" if secret.present else "not found"),
        fix=reissue(facts, secret.name, secret.owner or facts.admin_cert.owner),
    )


@check("CM-CERT-08", "A certificate is not for its purpose", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def certificates_have_their_usage(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    for secret in _complete(facts):
        certificate = secret.certificate
        server = secret.name == facts.server_cert.name
        if certificate is None or (certificate.server_auth if server else certificate.client_auth):
            continue
        usage = "server authentication" if server else "client authentication"
        yield finding(
            "CM-CERT-08",
            cluster=facts.host,
            summary=f"The certificate in Secret {secret.name} of {facts.host} is not for {usage}",
            evidence=f"{where(facts, 'Secret', secret.name)} tls.crt: the extended key usage lacks "
            f"{'serverAuth' if server else 'clientAuth'}",
            fix=reissue(facts, secret.name, secret.owner),
        )


@check(
    "CM-CERT-09",
    "A client certificate names a user that etcd does not have",
    severity=Severity.BLOCKING,
    scope=Scope.CLUSTER,
    acceptable=True,
)
def common_names_are_users(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """The common name is the etcd user; etcdinit makes these and no others (Cilium pkg/kvstore/etcdinit)."""
    wanted = {
        facts.admin_cert.name: (f"admin-{facts.name}",),
        facts.local_cert.name: (f"local-{facts.name}",),
        facts.remote_cert.name: ("remote", f"remote-{facts.name}"),
    }
    for secret in _complete(facts):
        names = wanted.get(secret.name, ())
        certificate = secret.certificate
        if not facts.name or not names or certificate is None or certificate.common_name in names:
            continue
        yield finding(
            "CM-CERT-09",
            cluster=facts.host,
            summary=f"The certificate in Secret {secret.name} of {facts.host} is for user {show(certificate.common_name)}, "
            f"not {' or '.join(names)}",
            evidence=f"{where(facts, 'Secret', secret.name)} tls.crt: CN {show(certificate.common_name)}; the cluster's name "
            f"is {show(facts.name)}",
            fix=reissue(facts, secret.name, secret.owner),
        )


@check("CM-CERT-10", "The CA that renewals are signed with ends", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def ca_lasts(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """certgen before 0.4.0 goes on signing with an expired CA (certgen issue 500), and nothing can be minted from it."""
    ending = [c for c in facts.ca.certificates if c.not_after <= context.now + RENEW_BEFORE]
    if not ending:
        return
    over = any(c.not_after <= context.now for c in ending)
    yield finding(
        "CM-CERT-10",
        cluster=facts.host,
        summary=f"The CA in Secret cilium-ca of {facts.host} {'has expired' if over else f'expires within {RENEW_BEFORE.days} days'}: "
        "certificates that are renewed from it are refused",
        evidence=f"{where(facts, 'Secret', 'cilium-ca')}: "
        + "; ".join(f"CN {show(c.common_name)} ends on {c.not_after:%Y-%m-%d %H:%M} UTC" for c in ending),
        fix=lines(
            "Have it replaced by whoever made it, then have all certificates of clustermesh-apiserver issued again, and run connect. With "
            "certgen, delete the Secret first: it makes a new CA only where there is none.",
            reissue(facts, facts.server_cert.name, facts.server_cert.owner),
        ),
    )

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of Cilium's own certificates: present, complete, valid now, for the right name and purpose.

Sources: chart templates/clustermesh-apiserver/tls-*; Cilium documentation, "Setting up Cluster Mesh".
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from ..findings.wording import helm, kubectl, lines, listed, reissue, show, where
from ..mesh.endpoints.endpoint import MeshEndpoint, certifies, wildcard_domains
from ..mesh.endpoints.names import is_endpoint_domain
from ..mesh.facts.cluster import CertificateFacts, ClusterFacts, TlsSecretFacts
from ..mesh.trust.link_trust import anchor
from ..mesh.versions.minors import cilium_version, holds
from .context import CheckContext
from .flaw import Flaw
from .registry import check

RENEW_BEFORE = timedelta(days=30)


def _required_secrets(facts: ClusterFacts) -> tuple[TlsSecretFacts, ...]:
    """Return the Secrets that every clustermesh-apiserver has; none if it is not installed (CM-INST-02 reports that)."""
    return () if facts.apiserver is None else (facts.server_cert, facts.admin_cert, facts.remote_cert)


def _readable_secrets(facts: ClusterFacts) -> tuple[TlsSecretFacts, ...]:
    """Return the Secrets whose certificate could be read, the local one included where it exists."""
    every = (*_required_secrets(facts), facts.local_cert) if facts.apiserver is not None else ()
    return tuple(s for s in every if s.present and s.certificate is not None)


@check("CM-CERT-01")
def certificate_secrets_are_complete(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report each certificate Secret that is missing or lacks a key."""
    for secret in _required_secrets(facts):
        if secret.present and not secret.missing_keys:
            continue
        state = f"has no {listed(secret.missing_keys)}" if secret.present else "not found"
        yield Flaw(
            summary=f"Secret {secret.name} of {facts.host} is {'incomplete' if secret.present else 'missing'}",
            evidence=f"{where(facts, 'Secret', secret.name)} {state}",
            fix=reissue(facts, secret.name, secret.owner or facts.server_cert.owner or facts.remote_cert.owner),
        )


@check("CM-CERT-02")
def certificates_match_their_keys(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report each certificate that cannot be read, or whose tls.key belongs to another certificate."""
    local = (facts.local_cert,) if facts.apiserver is not None and facts.local_cert.present else ()
    for secret in (*_required_secrets(facts), *local):
        problem = secret.problem or ("tls.key does not belong to tls.crt" if secret.key_matches is False else "")
        if secret.present and problem:
            yield Flaw(
                summary=f"Secret {secret.name} of {facts.host} cannot be used",
                evidence=f"{where(facts, 'Secret', secret.name)}: {problem}",
                fix=reissue(facts, secret.name, secret.owner),
            )


def _chain_of(secret: TlsSecretFacts, facts: ClusterFacts) -> Iterator[tuple[str, CertificateFacts]]:
    """Yield (place, certificate) for each certificate whose end stops this Secret from working: leaf, intermediates and signer."""
    if secret.certificate is not None:
        yield f"{where(facts, 'Secret', secret.name)} tls.crt", secret.certificate
    for intermediate in secret.intermediates:
        yield f"{where(facts, 'Secret', secret.name)} tls.crt (intermediate)", intermediate
    signer = anchor(secret)
    if signer is not None:
        yield f"{where(facts, 'Secret', secret.name)} ca.crt", signer


def _invalidity(certificate: CertificateFacts, when: datetime) -> str:
    """Return why the certificate is not valid at ``when``; an empty string if it is valid."""
    if when >= certificate.not_after:
        return f"expired on {certificate.not_after:%Y-%m-%d %H:%M} UTC"
    return f"is valid only from {certificate.not_before:%Y-%m-%d %H:%M} UTC on" if when < certificate.not_before else ""


@check("CM-CERT-03")
def certificates_are_valid(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report each Secret with a certificate that has expired or is not valid yet."""
    for secret in _readable_secrets(facts):
        wrong = [
            f"{place} (CN {show(c.common_name)}) {why}" for place, c in _chain_of(secret, facts) if (why := _invalidity(c, context.now))
        ]
        if wrong:
            yield Flaw(
                summary=f"The certificate in Secret {secret.name} of {facts.host} is not valid now",
                evidence="; ".join(wrong),
                fix=lines(reissue(facts, secret.name, secret.owner), _renew_ca_first(wrong)),
            )


def _renew_ca_first(wrong: list[str]) -> str:
    """Return the advice to renew the CA first if one of the texts ``wrong`` is about a ca.crt; else an empty string.

    certgen before 0.4.0 signs with an expired CA and prints no warning (certgen issue 500).
    """
    return "Renew Secret cilium-ca first: a certificate never outlives its CA." if any(" ca.crt " in w for w in wrong) else ""


@check("CM-CERT-04")
def certificates_do_not_expire_soon(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report each Secret with a certificate that expires within ``RENEW_BEFORE``."""
    for secret in _readable_secrets(facts):
        soon = [
            f"{place} (CN {show(c.common_name)}) expires on {c.not_after:%Y-%m-%d %H:%M} UTC"
            for place, c in _chain_of(secret, facts)
            if context.now < c.not_after <= context.now + RENEW_BEFORE
        ]
        if soon:
            yield Flaw(
                summary=f"The certificate in Secret {secret.name} of {facts.host} expires within {RENEW_BEFORE.days} days",
                evidence="; ".join(soon),
                fix=lines(reissue(facts, secret.name, secret.owner), _renew_ca_first(soon)),
            )


@check("CM-CERT-05")
def server_certificate_covers_dialled_name(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a server certificate without the name that peers dial.

    The client configuration of etcd cannot override the name that is verified.
    """
    certificate = facts.server_cert.certificate
    endpoint = context.decisions.endpoints[facts.host]
    if (
        certificate is None
        or facts.apiserver is None
        or not isinstance(endpoint, MeshEndpoint)
        or certifies(certificate, endpoint.hostname)
    ):
        return
    yield Flaw(
        summary=f"The server certificate of {facts.host} does not cover {endpoint.hostname}, the name that its peers dial",
        evidence=f"{where(facts, 'Secret', facts.server_cert.name)} tls.crt: DNS names {listed(certificate.dns_names) or 'none'}",
        fix=lines(helm(facts, f"clustermesh.apiserver.tls.server.extraDnsNames={{{endpoint.hostname}}}"), _list_domain(certificate)),
    )


def _list_domain(certificate: CertificateFacts) -> str:
    """Return the advice to list the domain of the certificate's wildcard, if it has one that may be listed; else an empty string."""
    domain = next((domain for domain in wildcard_domains(certificate) if is_endpoint_domain(domain)), "")
    if not domain:
        return ""
    return f"If {domain} is a domain of this mesh alone, list it in cilium_mesh_endpoint_domains of this host: its peers then use it."


@check("CM-CERT-06")
def certificates_chain_to_their_ca(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report each certificate that the CA in the same Secret did not sign."""
    for secret in _readable_secrets(facts):
        if secret.chain_valid is False and secret.certificate is not None:
            yield Flaw(
                summary=f"The certificate in Secret {secret.name} of {facts.host} was not signed by the CA beside it",
                evidence=f"{where(facts, 'Secret', secret.name)}: tls.crt was issued by {show(secret.certificate.issuer)}; "
                f"ca.crt holds {listed([show(c.common_name) for c in secret.ca]) or 'no certificate'}",
                fix=lines(
                    reissue(facts, secret.name, secret.owner),
                    kubectl(facts, "rollout", "restart", "deployment/clustermesh-apiserver"),
                ),
            )


@check("CM-CERT-07")
def local_certificate_is_complete(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a missing or incomplete client certificate of agents for their own kvstoremesh.

    Agents wait for all files before they connect: "Waiting for all etcd configuration files to be available" (cilium issue 42841).
    """
    secret = facts.local_cert
    whole = secret.present and not secret.missing_keys
    if not facts.runs_kvstoremesh or whole or not holds("local_certificate_used", cilium_version(facts)):
        return
    yield Flaw(
        summary=f"Secret {secret.name} of {facts.host} is {'incomplete' if secret.present else 'missing'}: its agents cannot "
        "log in to kvstoremesh",
        evidence=f"{where(facts, 'Secret', secret.name)} " + (f"has no {listed(secret.missing_keys)}" if secret.present else "not found"),
        fix=reissue(facts, secret.name, secret.owner or facts.admin_cert.owner),
    )


@check("CM-CERT-08")
def certificates_have_required_key_usage(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report each certificate without the extended key usage for its purpose."""
    for secret in _readable_secrets(facts):
        certificate = secret.certificate
        server = secret.name == facts.server_cert.name
        if certificate is None or (certificate.server_auth if server else certificate.client_auth):
            continue
        usage = "server authentication" if server else "client authentication"
        yield Flaw(
            summary=f"The certificate in Secret {secret.name} of {facts.host} is not for {usage}",
            evidence=f"{where(facts, 'Secret', secret.name)} tls.crt: the extended key usage lacks "
            f"{'serverAuth' if server else 'clientAuth'}",
            fix=reissue(facts, secret.name, secret.owner),
        )


@check("CM-CERT-09")
def common_names_are_etcd_users(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report each client certificate whose common name is not a user of the mesh etcd.

    The common name is the etcd user; etcdinit creates these users and no others (Cilium pkg/kvstore/etcdinit).
    """
    wanted = {
        facts.admin_cert.name: (f"admin-{facts.name}",),
        facts.local_cert.name: (f"local-{facts.name}",),
        facts.remote_cert.name: ("remote", f"remote-{facts.name}"),
    }
    for secret in _readable_secrets(facts):
        names = wanted.get(secret.name, ())
        certificate = secret.certificate
        if not facts.name or not names or certificate is None or certificate.common_name in names:
            continue
        yield Flaw(
            summary=f"The certificate in Secret {secret.name} of {facts.host} is for user {show(certificate.common_name)}, "
            f"not {' or '.join(names)}",
            evidence=f"{where(facts, 'Secret', secret.name)} tls.crt: CN {show(certificate.common_name)}; the cluster's name "
            f"is {show(facts.name)}",
            fix=reissue(facts, secret.name, secret.owner),
        )


@check("CM-CERT-11")
def certificates_fit_into_secrets_of_peers(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report certificates that no peer gets, since they are too many or too large (mesh/x509/shared_pem.py)."""
    server, remote = facts.server_cert, facts.remote_cert
    found = [(server.name, key, why) for key, why in server.unshareable.items() if key == "ca.crt"]
    found += [(remote.name, key, why) for key, why in remote.unshareable.items() if key != "ca.crt"]
    found += [("cilium-ca", "ca.crt", facts.ca.unshareable)] if facts.ca.unshareable else []
    if not found:
        return
    yield Flaw(
        summary=f"The peers of {facts.host} do not get {listed(f'{key} of Secret {name}' for name, key, _why in found)}: "
        "links that need it cannot be made",
        evidence="; ".join(f"{where(facts, 'Secret', name)}: {key} {why}" for name, key, why in found),
        fix=lines(
            "Keep in ca.crt only the CA that signed tls.crt, in tls.crt only the certificate and those between it and the CA, "
            "and in tls.key only the key.",
            "Links between clusters that trust one CA need none of these.",
        ),
    )


@check("CM-CERT-10")
def ca_does_not_expire_soon(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a CA in Secret cilium-ca that has expired or expires within ``RENEW_BEFORE``.

    certgen before 0.4.0 goes on signing with an expired CA (certgen issue 500), and no certificate can be minted from it.
    """
    ending = [c for c in facts.ca.certificates if c.not_after <= context.now + RENEW_BEFORE]
    if not ending:
        return
    over = any(c.not_after <= context.now for c in ending)
    yield Flaw(
        summary=f"The CA in Secret cilium-ca of {facts.host} {'has expired' if over else f'expires within {RENEW_BEFORE.days} days'}: "
        "certificates that are renewed from it are refused",
        evidence=f"{where(facts, 'Secret', 'cilium-ca')}: "
        + "; ".join(f"CN {show(c.common_name)} ends on {c.not_after:%Y-%m-%d %H:%M} UTC" for c in ending),
        fix=lines(
            "Replace the CA with the tool that made it, then have all certificates of clustermesh-apiserver issued again, and run connect. "
            "With certgen, delete the Secret first: it makes a new CA only where there is none.",
            reissue(facts, facts.server_cert.name, facts.server_cert.owner),
        ),
    )

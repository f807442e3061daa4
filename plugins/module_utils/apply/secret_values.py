# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Secret values of a plan: recipes are resolved from the observation or by minting. The only place where a plan meets secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from ..base.errors import CredentialsInvalid, WriteConflict
from ..base.sealed import Sealed, SecretStore
from ..ca.signing import issue_again, new_authority
from ..mesh.x509.certificates import CertificateProblem, Issuer
from ..plan.steps import ApiWrite, ApplySecret, FromSecret, IssuedAgain, Literal, MemberToken, Minted, NewAuthority, Recipe, Step

CONFIG_MARK = b"endpoints:"  # Cilium takes every file with it for a peer (pkg/clustermesh/common/config.go, isEtcdConfigFile)
CA_SECRET, CA_CERTIFICATE, CA_KEY = "cilium-ca", "ca.crt", "ca.key"


def resolve_secret_values(steps: Iterable[Step], secrets: SecretStore, now: datetime) -> dict[int, dict[str, Sealed]]:
    """Return the values of every Secret step: position of the step -> key -> value.

    Tokens of members (``MemberToken``) have to be in ``secrets`` already: who applies the plan asks for them, as soon as their accounts
    exist, and puts each there under its cluster, account and purpose.

    It is called before the first write, so that no write is made in vain.

    :raises WriteConflict: when a value that the plan relies on was not observed.
    :raises CredentialsInvalid: when a CA cannot sign.
    """
    steps, mint = list(steps), _Mint(secrets, now)
    values = {
        position: _values(step.cluster, recipes, secrets, mint)
        for position, step in enumerate(steps)
        if (recipes := _recipes(step)) is not None
    }
    for position, step in enumerate(steps):
        if isinstance(step.action, ApplySecret):
            _require_files_of_peers(step.cluster, step.action, values[position])
    return values


def _require_files_of_peers(cluster: str, action: ApplySecret, values: Mapping[str, Sealed]) -> None:
    """Refuse a value that Cilium would take for the configuration of a peer, under a key that is none.

    Plans contain none (mesh/x509/shared_pem.py); this holds it for every way in which a value can get into one. Values that the Secret has
    already are left as they are.

    :raises WriteConflict: when there is one.
    """
    for key, value in values.items():
        recipe = action.data[key]
        kept = isinstance(recipe, FromSecret) and (recipe.cluster, recipe.secret) == (cluster, action.name)
        if ".etcd-client" in key and not kept and CONFIG_MARK in value.reveal():
            raise WriteConflict(
                f"Key {key} for Secret {action.name} would be taken for the configuration of a peer.",
                remedy="Look at the certificates of the peer: a text in them names endpoints.",
                cluster=cluster,
            )


def _recipes(step: Step) -> Mapping[str, Recipe] | None:
    if isinstance(step.action, ApplySecret):
        return step.action.data
    return step.action.secret_data if isinstance(step.action, ApiWrite) else None


class _Mint:
    """Mint for a whole plan. Each CA is loaded once: with an RSA key that takes 50 ms and more, and every other cluster may need it."""

    def __init__(self, secrets: SecretStore, now: datetime) -> None:
        self._secrets = secrets
        self._now = now
        self._issuers: dict[str, Issuer] = {}
        self._authorities: dict[tuple[str, int], dict[str, Sealed]] = {}

    def pair(self, cluster: str, common_name: str, days: int) -> dict[str, Sealed]:
        """Mint a certificate and its key by the CA of ``cluster``; the certificate has the intermediates between it and the root.

        :raises CredentialsInvalid: when the CA cannot sign.
        """
        try:
            issuer = self._issuer(cluster)
            certificate, key = issuer.client_certificate(common_name, now=self._now, days=days)
        except CertificateProblem as problem:
            remedy = "Check Secret cilium-ca there: ca.key must belong to the first certificate of ca.crt."
            raise CredentialsInvalid(f"The CA cannot issue a client certificate: it {problem}.", remedy=remedy, cluster=cluster) from None
        return {"certificate": Sealed(certificate + issuer.intermediates), "key": Sealed(key)}

    def leaf(self, cluster: str, secret: str) -> dict[str, Sealed]:
        """Issue a TLS Secret's certificate again by the CA of its cluster.

        :raises CredentialsInvalid: when the CA cannot sign.
        """
        old, ca_certificate, ca_key = (
            _observed(cluster, FromSecret(cluster, *place), self._secrets).reveal()
            for place in ((secret, "tls.crt"), (CA_SECRET, CA_CERTIFICATE), (CA_SECRET, CA_KEY))
        )
        try:
            certificate, key = issue_again(old, ca_certificate, ca_key, now=self._now)
        except CertificateProblem as problem:
            text = f"The certificate of Secret {secret} cannot be issued again: it, or the CA, {problem}."
            remedy = f"Check Secret cilium-ca and Secret {secret} there."
            raise CredentialsInvalid(text, remedy=remedy, cluster=cluster) from None
        return {"certificate": Sealed(certificate), "key": Sealed(key)}

    def authority(self, recipe: NewAuthority) -> dict[str, Sealed]:
        """Return a new CA, the same one for equal requests.

        :raises CredentialsInvalid: when the present CA, whose kind of key it gets, cannot be read.
        """
        group = (recipe.group, recipe.days)
        if group not in self._authorities:
            like = _observed(recipe.like, FromSecret(recipe.like, CA_SECRET, CA_CERTIFICATE), self._secrets).reveal()
            try:
                certificate, key = new_authority(like, recipe.common_name, now=self._now, days=recipe.days)
            except CertificateProblem as problem:
                text = f"No CA can be made after the pattern of the present one: it {problem}."
                raise CredentialsInvalid(text, remedy="Check Secret cilium-ca there.", cluster=recipe.like) from None
            self._authorities[group] = {"certificate": Sealed(certificate), "key": Sealed(key)}
        return self._authorities[group]

    def _issuer(self, cluster: str) -> Issuer:
        if cluster not in self._issuers:
            certificate, key = (
                _observed(cluster, FromSecret(cluster, CA_SECRET, part), self._secrets).reveal() for part in (CA_CERTIFICATE, CA_KEY)
            )
            self._issuers[cluster] = Issuer(certificate, key)
        return self._issuers[cluster]


def _values(cluster: str, recipes: Mapping[str, Recipe], secrets: SecretStore, mint: _Mint) -> dict[str, Sealed]:
    requests = {_request(recipe) for recipe in recipes.values() if isinstance(recipe, Minted)}
    pairs = {request: mint.pair(*request) for request in sorted(requests)}
    leaves = {recipe.secret for recipe in recipes.values() if isinstance(recipe, IssuedAgain)}
    again = {secret: mint.leaf(cluster, secret) for secret in sorted(leaves)}

    def value(recipe: Recipe) -> Sealed:
        if isinstance(recipe, Literal):
            return Sealed(recipe.text.encode())
        if isinstance(recipe, Minted):
            return pairs[_request(recipe)][recipe.part]
        if isinstance(recipe, NewAuthority):
            return mint.authority(recipe)[recipe.part]
        if isinstance(recipe, IssuedAgain):
            return again[recipe.secret][recipe.part]
        if isinstance(recipe, MemberToken):
            return _observed(cluster, FromSecret(recipe.cluster, recipe.account, recipe.purpose), secrets)
        return _observed(cluster, recipe, secrets)

    return {key: value(recipe) for key, recipe in recipes.items()}


def _request(recipe: Minted) -> tuple[str, str, int]:
    return recipe.issuer, recipe.common_name, recipe.days


def _observed(cluster: str, recipe: FromSecret, secrets: SecretStore) -> Sealed:
    try:
        return secrets.get(recipe.cluster, recipe.secret, recipe.key)
    except KeyError:
        raise WriteConflict(
            f"Key {recipe.key} of Secret {recipe.secret} in cluster {recipe.cluster} is no longer what the plan relies on.",
            remedy="Plan again.",
            cluster=cluster,
        ) from None

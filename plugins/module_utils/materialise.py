# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Recipes into values: what a plan only names is read from the observation, or minted. The only place where a plan meets secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from .certificates import CertificateProblem, Issuer
from .errors import CredentialsInvalid, WriteConflict
from .secrets import Sealed, SecretStore
from .steps import ApplySecret, FromSecret, Literal, Minted, Recipe, Step

CA_SECRET, CA_CERTIFICATE, CA_KEY = "cilium-ca", "ca.crt", "ca.key"


def materialise(steps: Iterable[Step], secrets: SecretStore, now: datetime) -> dict[int, dict[str, Sealed]]:
    """The values of every Secret step: position of the step -> key -> value.

    Called before the first write, so that no write is made in vain.
    :raises WriteConflict: a value that the plan relies on was not observed.
    :raises CredentialsInvalid: a CA does not sign.
    """
    mint = _Mint(secrets, now)
    return {
        position: _values(step.cluster, step.action, secrets, mint)
        for position, step in enumerate(steps)
        if isinstance(step.action, ApplySecret)
    }


class _Mint:
    """Mints for a whole plan. Each CA is loaded once: with an RSA key that takes 50 ms and more, and every other cluster may need it."""

    def __init__(self, secrets: SecretStore, now: datetime) -> None:
        self._secrets = secrets
        self._now = now
        self._issuers: dict[str, Issuer] = {}

    def pair(self, cluster: str, common_name: str, days: int) -> dict[str, Sealed]:
        """A new certificate, with what stands between it and the root, and its key; issued by the CA of ``cluster``."""
        try:
            issuer = self._issuer(cluster)
            certificate, key = issuer.client_certificate(common_name, now=self._now, days=days)
        except CertificateProblem as problem:
            remedy = "Look at Secret cilium-ca there: ca.key must belong to the first certificate of ca.crt."
            raise CredentialsInvalid(f"The CA cannot issue a client certificate: it {problem}.", remedy=remedy, cluster=cluster) from None
        return {"certificate": Sealed(certificate + issuer.intermediates), "key": Sealed(key)}

    def _issuer(self, cluster: str) -> Issuer:
        if cluster not in self._issuers:
            certificate, key = (
                _observed(cluster, FromSecret(cluster, CA_SECRET, part), self._secrets).reveal() for part in (CA_CERTIFICATE, CA_KEY)
            )
            self._issuers[cluster] = Issuer(certificate, key)
        return self._issuers[cluster]


def _values(cluster: str, action: ApplySecret, secrets: SecretStore, mint: _Mint) -> dict[str, Sealed]:
    requests = {_request(recipe) for recipe in action.data.values() if isinstance(recipe, Minted)}
    pairs = {request: mint.pair(*request) for request in sorted(requests)}
    return {key: _value(cluster, recipe, secrets, pairs) for key, recipe in action.data.items()}


def _value(cluster: str, recipe: Recipe, secrets: SecretStore, pairs: Mapping[tuple[str, str, int], Mapping[str, Sealed]]) -> Sealed:
    if isinstance(recipe, Literal):
        return Sealed(recipe.text.encode())
    if isinstance(recipe, Minted):
        return pairs[_request(recipe)][recipe.part]
    return _observed(cluster, recipe, secrets)


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

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The steps of a connect plan that only renew trust; pure.

They replace, for each peer, a minted certificate that is near its end, a copied one that the peer has renewed, and the CA of a peer
that changed; with the comment that makes the readers reconnect. New addresses and peers are left to ``connect``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from ..mesh.endpoints.etcd_config import keys_of
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts
from ..mesh.link_decisions import LinkDecisions
from ..mesh.ownership.objects import own_keys
from ..mesh.trust.issued_certificate import issued_certificate
from ..mesh.trust.link_trust import Trust
from ..plan.steps import ApplySecret, FromSecret, Literal, Minted, Plan, Recipe, Step, WriteUsers

COMMENT = "# trust-sha256: "


def only_renewals(plan: Plan, facts: Mapping[str, ClusterFacts]) -> Plan:
    """Return the plan reduced to the steps that renew trust."""
    kept = [
        found for step in plan.steps if isinstance(step.action, ApplySecret) for found in _renewal(step, facts[step.cluster], plan.manager)
    ]
    # A certificate for another user needs that user first. Users that other certificates need do no harm; the next connect removes them.
    users = [step for step in plan.steps if isinstance(step.action, WriteUsers)] if any(map(_mints, kept)) else []
    steps = tuple(step for step in plan.steps if step in users) + tuple(kept)
    return replace(plan, steps=tuple(sorted(steps, key=lambda step: step.wave)))


def not_renewable(decisions: LinkDecisions, due_by: datetime) -> list[tuple[str, str]]:
    """Return the links, as (cluster, peer), whose certificate ends before ``due_by`` and stays, since the peer's CA cannot be read."""
    facts, manager = decisions.facts, decisions.mesh.binding.manager
    found = []
    for host, peers in decisions.trust.items():
        for peer, trust in peers.items():
            issued = issued_certificate(facts[host], facts[peer], manager) if isinstance(trust, Trust) and trust.kept else None
            if issued is not None and issued.certificate.not_after <= due_by:
                found.append((host, peer))
    return found


def _mints(step: Step) -> bool:
    return isinstance(step.action, ApplySecret) and any(isinstance(recipe, Minted) for recipe in step.action.data.values())


def _renewal(step: Step, facts: ClusterFacts, manager: str) -> Iterator[Step]:
    action = step.action
    if not isinstance(action, ApplySecret):
        return
    secret = facts.kvstoremesh if action.name == facts.kvstoremesh.name else facts.clustermesh
    names = [key for key in action.data if key in secret.keys and secret.keys[key].config is not None]
    due = [name for name in names if _due(name, action.data, secret)]
    if not due:
        return
    chosen = {key for name in due for key in keys_of(name)}
    data: dict[str, Recipe] = {key: FromSecret(facts.host, secret.name, key) for key in sorted(own_keys(secret, manager))}
    for name in due:  # files that are not used any more are removed with the other keys of that peer
        data = {key: recipe for key, recipe in data.items() if key not in keys_of(name)}
    data.update({key: recipe for key, recipe in action.data.items() if key in chosen})
    for name in due:
        data[name] = _with_comment_only(name, action.data[name], secret)
    write = replace(
        action,
        data=data,
        labels={key: secret.labels[key] for key in action.labels if key in secret.labels},
        annotations={key: secret.annotations[key] for key in action.annotations if key in secret.annotations},
    )
    yield replace(step, why=f"renew what {facts.host} shows to, or trusts of, {', '.join(due)}", action=write)


def _due(name: str, data: Mapping[str, Recipe], secret: PeerSecretFacts) -> bool:
    keys = [key for key in keys_of(name) if key in data]
    if any(isinstance(data[key], Minted) for key in keys):
        return True
    text = data[name]
    return isinstance(text, Literal) and _comment(text.text) != _comment(secret.keys[name].config or "")


def _with_comment_only(name: str, wanted: Recipe, secret: PeerSecretFacts) -> Recipe:
    """Return the present configuration with the new comment, unless other files are used from now on."""
    now = secret.keys[name].config or ""
    if not isinstance(wanted, Literal) or _files(wanted.text) != _files(now):
        return wanted
    comment = _comment(wanted.text)
    body = "".join(line for line in now.splitlines(keepends=True) if not line.startswith(COMMENT))
    return Literal(body + (f"{comment}\n" if comment else ""))


def _comment(config: str) -> str:
    return next((line for line in config.splitlines() if line.startswith(COMMENT)), "")


def _files(config: str) -> list[str]:
    return [line for line in config.splitlines() if line.startswith(("trusted-ca-file:", "key-file:", "cert-file:"))]

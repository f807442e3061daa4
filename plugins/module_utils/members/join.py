# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Plan by which a cluster becomes and stays a member of Karmada: rights in the cluster, the Cluster in Karmada, and tokens. Pure.

The joiner never reads a Secret in Karmada, and never patches one, since the answer to a patch holds the whole Secret. A member has two
pairs of Secrets, of which its Cluster names one. A renewal makes the other pair anew, lets the Cluster name that, and then makes the
first one anew: at no moment does the Cluster name a Secret that is not there. Both are kept, as watches of Karmada read the pair that was
named when they began (Karmada 1.19: pkg/util/membercluster_client.go, secretTokenSource).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from ..base.json_fields import annotations_of, labels_of, mapping, parse_time, text, texts
from ..plan.steps import NOW, ApiWrite, Literal, MemberToken, Recipe, Step
from .facts import ClusterSide, KarmadaFacts, Object
from .models import Member, MemberRequest, TokenRules
from .names import (
    ACCOUNTS,
    ACCOUNTS_ANNOTATION,
    AUTHORITY_ANNOTATION,
    CLUSTERS,
    CONFIG_MAPS,
    CORE,
    EARLIER_ANNOTATION,
    EXPIRES_ANNOTATION,
    IMPERSONATOR,
    ISSUED_ANNOTATION,
    LABELS_ANNOTATION,
    MANAGED_BY,
    MANAGER,
    NAME_ANNOTATION,
    NAMESPACE,
    RBAC,
    SECRETS,
    SILENT_ANNOTATION,
    account_of,
    pair_of,
    role_of,
    secrets_of,
    tombstone_of,
)

WAVE_RIGHTS: Final = 3
WAVE_CLUSTER: Final = 4
WAVE_TOKENS: Final = 5
WAVE_CHANGE: Final = 6
WAVE_OLD: Final = 7
WAVE_RECORD: Final = 8
CLUSTER_UID: Final = "{uid-of-the-cluster}"
TOKENS_END: Final = "{end-of-the-tokens}"
ACCOUNT_UIDS: Final = "{uids-of-the-accounts}"
"""Placeholders for what is known only after the waves before; pipeline/members.py fills them in. No plan, and no hash, has the values."""

_RULES: Final = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["get"]}]
"""As karmadactl has them: Karmada applies any kind, and grants what it impersonates (pkg/karmadactl/join)."""


def join_steps(
    request: MemberRequest, member: Member, side: ClusterSide, karmada: KarmadaFacts, rules: TokenRules, now: datetime
) -> list[Step]:
    """Return every write that is needed for a member; [] for one that is as it should be.

    :param now: aware, UTC; decides whether tokens are renewed.
    """
    rights = _rights(member, side)
    found = karmada.clusters.get(member.member)
    if found is None:
        return [*rights, *_new(request, member, side, rules), *_forget(request, member, karmada)]
    due = renewal_reason(found, side, rules, now)
    named = pair_of(member, found)
    other, uid = 3 - named, text(found, "metadata", "uid")
    steps = [*rights, *_changes(request, member, side, found, _references(member, other) if due else {}, due)]
    if due:
        steps += _tokens(request, member, side, rules, WAVE_TOKENS, other, uid, again=True)
        steps += _tokens(request, member, side, rules, WAVE_OLD, named, uid, again=True)
        steps.append(_record(request, member, _tokens_noted(side, found)))
    return [*steps, *_forget(request, member, karmada)]


def renewal_reason(found: Object, side: ClusterSide, rules: TokenRules, now: datetime) -> str:
    """Return why the tokens of a member are issued anew, "" if they are not.

    Tokens that the API server made shorter than ``renew_before`` are renewed in the last third of their life.
    """
    noted = annotations_of(found)
    ends, begin = parse_time(noted.get(EXPIRES_ANNOTATION, "")), parse_time(noted.get(ISSUED_ANNOTATION, ""))
    if ends is None or begin is None:
        return "no end of the tokens is on record"
    if noted.get(ACCOUNTS_ANNOTATION) != account_uids(side):
        return "the accounts were made anew"
    if noted.get(AUTHORITY_ANNOTATION) != _digest(side.endpoint.authority):
        return "the CA of the cluster changed"
    life, margin = ends - begin, timedelta(seconds=rules.renew_before)
    if ends - now <= (margin if life > margin else life / 3):
        return "the tokens end soon"
    return ""


def account_uids(side: ClusterSide) -> str:
    """Return the uids of both accounts, "" where one is missing."""
    uids = [text(entry, "metadata", "uid") for entry in (side.account, side.impersonator)]
    return " ".join(uids) if all(uids) else ""


def _digest(authority: str) -> str:
    return f"sha256:{hashlib.sha256(authority.encode()).hexdigest()[:32]}"


def _step(request: MemberRequest, member: Member, wave: int, verb: str, shown: str, why: str, action: ApiWrite, **more: Any) -> Step:
    return Step(wave=wave, cluster=request.karmada, verb=verb, object=shown, why=why, item=member.item, action=action, **more)


def _rights(member: Member, side: ClusterSide) -> list[Step]:
    """Return the writes in the cluster itself: namespace, accounts and rights of Karmada."""
    labels = {**member.own_labels, MANAGED_BY: MANAGER}
    role, account = role_of(member), account_of(member)
    group = RBAC.removeprefix("/apis/").partition("/")[0]
    head = {"apiVersion": f"{group}/v1"}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": role}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    wanted: list[tuple[str, Object | None, dict[str, Any]]] = [
        (CORE, side.namespace, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        (ACCOUNTS, side.account, _account(account)),
        (ACCOUNTS, side.impersonator, _account(IMPERSONATOR)),
        (f"{RBAC}/clusterroles", side.role, {**head, "kind": "ClusterRole", "metadata": {"name": role}, "rules": _RULES}),
        (
            f"{RBAC}/clusterrolebindings",
            side.binding,
            {**head, "kind": "ClusterRoleBinding", "metadata": {"name": role}, "roleRef": reference, "subjects": [subject]},
        ),
    ]
    return [
        _right(member, collection, body, labels, changed=observed is not None)
        for collection, observed, body in wanted
        if observed is None or not all(_same(observed.get(key), body[key]) for key in ("rules", "roleRef", "subjects") if key in body)
    ]


def _right(member: Member, collection: str, body: Mapping[str, Any], labels: Mapping[str, str], *, changed: bool) -> Step:
    kind, name = str(body["kind"]), str(body["metadata"]["name"])
    own = {MANAGED_BY: MANAGER, "karmada.io/system": "true"} if kind == "Namespace" else labels
    return Step(
        wave=WAVE_RIGHTS,
        cluster=member.host,
        verb="apply" if changed else "create",
        object=f"{kind} {NAMESPACE}/{name}" if kind == "ServiceAccount" else f"{kind} {name}",
        why="Karmada acts in the cluster by it",
        item=member.item,
        action=ApiWrite(method="apply", path=f"{collection}/{name}", body={**body, "metadata": {**body["metadata"], "labels": dict(own)}}),
    )


def _account(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}


def _same(observed: Any, wanted: Any) -> bool:
    """Return whether what is there has everything that is wanted, in which a server may have filled in defaults."""
    if isinstance(wanted, Mapping):
        return isinstance(observed, Mapping) and all(_same(observed.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(observed, list) and len(observed) == len(wanted) and all(map(_same, observed, wanted))
    return bool(observed == wanted)


def _spec(member: Member, side: ClusterSide) -> dict[str, Any]:
    return {
        "syncMode": "Push",
        "id": side.uid,
        "apiEndpoint": side.endpoint.url,
        "provider": member.provider,
        "region": member.region,
        "zones": [member.zone] if member.zone else [],
    }


def _references(member: Member, pair: int) -> dict[str, Any]:
    own, impersonator = secrets_of(member, pair)
    return {
        "secretRef": {"namespace": NAMESPACE, "name": own},
        "impersonatorSecretRef": {"namespace": NAMESPACE, "name": impersonator},
    }


def _noted(member: Member) -> dict[str, str]:
    return {NAME_ANNOTATION: member.name, LABELS_ANNOTATION: ",".join(sorted(member.labels))}


def _tokens_noted(side: ClusterSide, found: Object | None = None) -> dict[str, str]:
    earlier = annotations_of(found or {}).get(EXPIRES_ANNOTATION, "")
    return {
        **({EARLIER_ANNOTATION: earlier} if earlier else {}),
        ISSUED_ANNOTATION: NOW,
        EXPIRES_ANNOTATION: TOKENS_END,
        ACCOUNTS_ANNOTATION: ACCOUNT_UIDS,
        AUTHORITY_ANNOTATION: _digest(side.endpoint.authority),
    }


def _new(request: MemberRequest, member: Member, side: ClusterSide, rules: TokenRules) -> list[Step]:
    """Return the writes of a Cluster that Karmada does not have yet.

    The Cluster comes first, as its Secrets name it as their owner from the beginning. What is known of the tokens is written last: a run
    that ends before finds none of it, and makes new ones.
    """
    spec = {key: value for key, value in _spec(member, side).items() if value not in ("", [])}
    metadata = {"name": member.member, "labels": member.all_labels, "annotations": _noted(member)}
    body = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": metadata,
        "spec": {**spec, **_references(member, 1)},
    }
    shown, why = f"Cluster {member.member}", f"{member.name} becomes a member"
    return [
        _step(request, member, WAVE_CLUSTER, "create", shown, why, ApiWrite(method="create", path=CLUSTERS, body=body)),
        *_tokens(request, member, side, rules, WAVE_TOKENS, 1, CLUSTER_UID, again=False),
        _record(request, member, _tokens_noted(side)),
    ]


def _record(request: MemberRequest, member: Member, noted: Mapping[str, str]) -> Step:
    action = ApiWrite(method="merge", path=f"{CLUSTERS}/{member.member}", body={"metadata": {"annotations": dict(noted)}})
    return _step(request, member, WAVE_RECORD, "patch", f"Cluster {member.member}", "the end of the tokens is put on record", action)


def _tokens(
    request: MemberRequest, member: Member, side: ClusterSide, rules: TokenRules, wave: int, pair: int, uid: str, *, again: bool
) -> list[Step]:
    """Return the writes of a pair of Secrets with tokens. With ``again``, what is there under the names goes first."""
    owner = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "name": member.member,
        "uid": uid,
        "controller": True,
    }
    own, impersonator = secrets_of(member, pair)
    steps = []
    for secret, account in ((own, account_of(member)), (impersonator, IMPERSONATOR)):
        data: dict[str, Recipe] = {"token": MemberToken(member.host, NAMESPACE, account, rules.lifetime, "", member.item)}
        if secret == own:
            data["caBundle"] = Literal(side.endpoint.authority)
        metadata = {"name": secret, "namespace": NAMESPACE, "labels": member.own_labels, "ownerReferences": [owner]}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        shown = f"Secret {NAMESPACE}/{secret}"
        if again:
            gone = ApiWrite(method="delete", path=f"{SECRETS}/{secret}")
            steps.append(_step(request, member, wave, "delete", shown, "it is made anew", gone))
        made = ApiWrite(method="create", path=SECRETS, body=body, secret_data=data)
        steps.append(_step(request, member, wave, "create", shown, f"Karmada's token of {account}", made))
    return steps


def _changes(
    request: MemberRequest, member: Member, side: ClusterSide, found: Object, references: Mapping[str, Any], due: str
) -> list[Step]:
    """Return the merge patch of everything that differs in the Cluster; [] if nothing does.

    :param references: the Secrets that it is to name, {} for those that it names.
    """
    labels, spec = labels_of(found), mapping(found, "spec")
    stale = [key for key in annotations_of(found).get(LABELS_ANNOTATION, "").split(",") if key and key not in member.labels]
    changed_labels: dict[str, Any] = {key: value for key, value in member.all_labels.items() if labels.get(key) != value}
    changed_labels |= {key: None for key in stale if key in labels}
    notes: dict[str, Any] = {key: value for key, value in _noted(member).items() if annotations_of(found).get(key) != value}
    if SILENT_ANNOTATION in annotations_of(found):
        notes[SILENT_ANNOTATION] = None
    wanted = _spec(member, side)
    observed = {key: texts(spec, key) if key == "zones" else spec.get(key, "") for key in wanted}
    changed = {key: value for key, value in wanted.items() if observed[key] != (tuple(value) if key == "zones" else value)}
    reasons = [*sorted(changed), *(["labels"] if changed_labels else []), *(["annotations"] if notes else [])]
    changed |= references
    if not (changed_labels or notes or changed):
        return []
    # Not the resourceVersion: Karmada writes the status of each Cluster every few seconds.
    metadata: dict[str, Any] = {"uid": text(found, "metadata", "uid")}
    metadata |= {key: value for key, value in (("labels", changed_labels), ("annotations", notes)) if value}
    body: dict[str, Any] = {"metadata": metadata, **({"spec": changed} if changed else {})}
    action = ApiWrite(method="merge", path=f"{CLUSTERS}/{member.member}", body=body)
    said = "; ".join(filter(None, (f"{', '.join(reasons)} changed" if reasons else "", f"new tokens: {due}" if due else "")))
    return [_step(request, member, WAVE_CHANGE, "patch", f"Cluster {member.member}", said, action)]


def _forget(request: MemberRequest, member: Member, karmada: KarmadaFacts) -> list[Step]:
    """Return the deletion of the tombstone of a member that is back."""
    if member.member not in karmada.tombstones:
        return []
    name = tombstone_of(member)
    action = ApiWrite(method="delete", path=f"{CONFIG_MAPS}/{name}")
    return [_step(request, member, WAVE_OLD, "delete", f"ConfigMap {NAMESPACE}/{name}", "the cluster answers again", action)]

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Plan by which a cluster ceases to be a member of Karmada, and by which nothing of it stays but what local users put beside. Pure.

The Cluster goes first, so that Karmada takes its objects out of the member with the rights that it still has. A run plans again after each
part, as the objects of a namespace go only then.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from ..base.json_fields import annotations_of, parse_time, text
from ..fleet.names import karmada_namespace
from ..plan.steps import NOW, ApiWrite, Step
from .contents import Contents
from .facts import ClusterSide, KarmadaFacts, Object, PreservedWork
from .models import Member, MemberRequest
from .names import (
    ACCOUNTS,
    CLUSTERS,
    CONFIG_MAPS,
    CORE,
    EXECUTION_FINALIZER,
    IMPERSONATOR,
    MANAGED_BY,
    MANAGER,
    NAMESPACE,
    RBAC,
    SILENT_ANNOTATION,
    TOMBSTONE_LABEL,
    WORKS,
    account_of,
    is_made_for,
    role_of,
    tombstone_of,
)

WAVE_NOTE: Final = 1
WAVE_CLUSTER: Final = 2
WAVE_WORKS: Final = 3
WAVE_NAMESPACE: Final = 4
WAVE_RIGHTS: Final = 5
WAVE_TOMBSTONE: Final = 6


class Patience(NamedTuple):
    """How long a member that does not answer is waited for, in seconds, and whether it is given up at once."""

    deadline: int
    abandoned: bool


def leave_steps(
    request: MemberRequest, member: Member, side: ClusterSide | None, karmada: KarmadaFacts, patience: Patience, now: datetime
) -> list[Step]:
    """Return every write that is still to be made; [] if nothing of the member is left.

    :param side: None if the cluster does not answer.
    """
    found = karmada.clusters.get(member.member)
    own = found if found is not None and is_made_for(found, member) else None
    if side is None:
        return _without_member(request, member, own, karmada, patience, now)
    steps = _deletion(request, member, own) if own is not None else []
    returned = member.member in karmada.tombstones
    if returned:
        why = "Karmada brought it and has given the cluster up"
        steps += [_there(member, WAVE_NAMESPACE, entry.name, why, entry.path, entry.uid) for entry in side.brought]
    steps += _namespace(member, side.contents, took=returned)
    steps += _rights(member, side)
    if returned:
        name = tombstone_of(member)
        action = ApiWrite(method="delete", path=f"{CONFIG_MAPS}/{name}")
        steps.append(_step(request, member, WAVE_TOMBSTONE, "delete", f"ConfigMap {NAMESPACE}/{name}", "the cluster was cleaned", action))
    return steps


def gives_up(found: Object, patience: Patience, now: datetime) -> bool:
    """Return whether the Cluster of a silent member goes without it: it is given up, or was silent for longer than the deadline."""
    if patience.abandoned or patience.deadline == 0:
        return True
    since = parse_time(annotations_of(found).get(SILENT_ANNOTATION, ""))
    return since is not None and now - since >= timedelta(seconds=patience.deadline)


def _without_member(
    request: MemberRequest, member: Member, own: Object | None, karmada: KarmadaFacts, patience: Patience, now: datetime
) -> list[Step]:
    if own is None:
        return []
    if not gives_up(own, patience, now):
        if SILENT_ANNOTATION in annotations_of(own):
            return []
        body = {"metadata": {"uid": text(own, "metadata", "uid"), "annotations": {SILENT_ANNOTATION: NOW}}}
        action = ApiWrite(method="merge", path=f"{CLUSTERS}/{member.member}", body=body)
        why = f"it does not answer, and is waited for {patience.deadline} seconds from now on"
        return [_step(request, member, WAVE_NOTE, "patch", f"Cluster {member.member}", why, action)]
    steps = [] if member.member in karmada.tombstones else [_tombstone(request, member, own)]
    steps += _deletion(request, member, own)
    if patience.abandoned:
        steps += [
            release_step(request, member, work) for work in karmada.works.get(member.member, ()) if EXECUTION_FINALIZER in work.finalizers
        ]
    return steps


def _step(request: MemberRequest, member: Member, wave: int, verb: str, shown: str, why: str, action: ApiWrite, **more: Any) -> Step:
    return Step(wave=wave, cluster=request.karmada, verb=verb, object=shown, why=why, item=member.item, action=action, **more)


def _deletion(request: MemberRequest, member: Member, found: Object) -> list[Step]:
    if text(found, "metadata", "deletionTimestamp"):
        return []
    body = {"metadata": {"uid": text(found, "metadata", "uid")}}
    action = ApiWrite(method="delete", path=f"{CLUSTERS}/{member.member}", body=body)
    why = "the cluster leaves; Karmada takes out of it what it brought"
    return [_step(request, member, WAVE_CLUSTER, "delete", f"Cluster {member.member}", why, action)]


def _tombstone(request: MemberRequest, member: Member, found: Object) -> Step:
    """Return the write that keeps what an abandoned member still holds, so that a later run can take it away."""
    data = {
        "member": member.member,
        "name": member.name,
        "id": text(found, "spec", "id"),
        "namespace": karmada_namespace(member.tenant),
        "left": "\n".join((f"ClusterRole {role_of(member)}", f"ClusterRoleBinding {role_of(member)}", f"Namespace {NAMESPACE}")),
    }
    labels = {**member.own_labels, MANAGED_BY: MANAGER, TOMBSTONE_LABEL: "true"}
    name = tombstone_of(member)
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    action = ApiWrite(method="apply", path=f"{CONFIG_MAPS}/{name}", body=body)
    return _step(request, member, WAVE_NOTE, "create", f"ConfigMap {NAMESPACE}/{name}", "the cluster keeps Karmada's rights", action)


def release_step(request: MemberRequest, member: Member, work: PreservedWork) -> Step:
    """Return the write that lets a Work go for which Karmada would wait for ever: it wants to take labels off in the dead member."""
    finalizers = [entry for entry in work.finalizers if entry != EXECUTION_FINALIZER]
    body = {"metadata": {"resourceVersion": work.version, "finalizers": finalizers}}
    action = ApiWrite(method="merge", path=f"{WORKS.format(member.member)}/{work.name}", body=body)
    shown = f"Work karmada-es-{member.member}/{work.name}"
    return _step(request, member, WAVE_WORKS, "patch", shown, "it would keep the Cluster of a dead member for ever", action)


def _namespace(member: Member, contents: Contents | None, *, took: bool) -> list[Step]:
    """Return the deletion of the tenant's namespace in the member, if nothing of other users is in it.

    :param took: whether Karmada gave the member up earlier, so that what it brought is still there, and no other controller removes it.
    """
    if contents is None or contents.terminating or not _is_tenants(contents.labels, member):
        return []
    name = karmada_namespace(member.tenant)
    steps = [
        _there(member, WAVE_NAMESPACE, entry.name, "Karmada brought it and has given the cluster up", entry.path, entry.uid)
        for entry in contents.brought
        if took
    ]
    if contents.foreign:
        return steps
    return [*steps, _there(member, WAVE_NAMESPACE, f"Namespace {name}", "nothing of other users is in it", f"{CORE}/{name}", contents.uid)]


def _is_tenants(labels: Mapping[str, str], member: Member) -> bool:
    return all(labels.get(key) == value for key, value in member.tenant.labels.items())


def _rights(member: Member, side: ClusterSide) -> list[Step]:
    """Return the deletions of everything by which Karmada acts in the member."""
    role, account, why = role_of(member), account_of(member), "Karmada has no business in the cluster any more"
    others = side.rest.foreign if side.rest is not None else ()
    alone = not any(entry.startswith("serviceaccounts karmada-") for entry in others)
    wanted: list[tuple[Object | None, str, str]] = [
        (side.binding, f"{RBAC}/clusterrolebindings/{role}", f"ClusterRoleBinding {role}"),
        (side.role, f"{RBAC}/clusterroles/{role}", f"ClusterRole {role}"),
        (side.account, f"{ACCOUNTS}/{account}", f"ServiceAccount {NAMESPACE}/{account}"),
        (side.impersonator if alone else None, f"{ACCOUNTS}/{IMPERSONATOR}", f"ServiceAccount {NAMESPACE}/{IMPERSONATOR}"),
    ]
    steps = [
        _there(member, WAVE_RIGHTS, shown, why, path, text(there, "metadata", "uid"))
        for there, path, shown in wanted
        if there is not None and not text(there, "metadata", "deletionTimestamp")
    ]
    if side.rest is not None and not others and not side.rest.terminating and side.rest.labels.get(MANAGED_BY) == MANAGER:
        steps.append(_there(member, WAVE_RIGHTS, f"Namespace {NAMESPACE}", why, f"{CORE}/{NAMESPACE}", side.rest.uid))
    return steps


def _there(member: Member, wave: int, shown: str, why: str, path: str, uid: str) -> Step:
    action = ApiWrite(method="delete", path=path, body={"metadata": {"uid": uid}})
    return Step(wave=wave, cluster=member.host, verb="delete", object=shown, why=why, item=member.item, action=action)

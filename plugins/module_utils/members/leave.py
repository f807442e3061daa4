# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Plan by which a cluster ceases to be a member of Karmada, and by which nothing of it stays but what local users put beside. Pure.

The Cluster goes first, so that Karmada takes its objects out of the member with the rights that it still has. A run plans again after each
part, as the objects of a namespace go only then. From the deletion of the Cluster to the end a tombstone says that something is left:
without it, a member that falls silent in between would look like one that never joined.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from ..base.json_fields import annotations_of, parse_time, text
from ..fleet.names import karmada_namespace
from ..plan.steps import NOW, ApiWrite, Step
from .contents import Contents, Found, found_at
from .facts import ClusterSide, KarmadaFacts, Object, PreservedWork
from .models import Member, MemberRequest
from .names import (
    ACCOUNTS,
    CLUSTERS,
    CONFIG_MAPS,
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
_LEAVING: Final = "leaving"
_GIVEN_UP: Final = "Karmada brought it and has given the cluster up"


class Leaving(NamedTuple):
    """Object in a member that goes with the membership."""

    found: Found
    wave: int
    why: str


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
    stone = karmada.tombstones.get(member.member)
    if side is None:
        return _without_member(request, member, own, karmada, patience, now)
    steps = []
    if own is not None and stone is None:
        steps.append(_tombstone(request, member, text(own, "spec", "id") or side.uid, given_up=False))
    steps += _deletion(request, member, own) if own is not None else []
    objects = leaving_objects(member, side, stone)
    steps += [_gone(member, entry) for entry in objects if not entry.found.going]
    if (own is not None or stone is not None) and not is_held(objects):
        name = tombstone_of(member)
        action = ApiWrite(method="delete", path=f"{CONFIG_MAPS}/{name}")
        steps.append(_step(request, member, WAVE_TOMBSTONE, "delete", f"ConfigMap {NAMESPACE}/{name}", "the cluster was cleaned", action))
    return steps


def leaving_objects(member: Member, side: ClusterSide, stone: Object | None) -> list[Leaving]:
    """Return everything in a member that is there and has to go, whether it is being deleted already or not."""
    # Karmada may also have released one that fell silent while it left.
    took = stone is not None and (not is_leaving(stone) or SILENT_ANNOTATION in annotations_of(stone))
    brought = [Leaving(entry, WAVE_NAMESPACE, _GIVEN_UP) for entry in side.brought if took]
    return [*brought, *_namespace(member, side.contents, took=took), *_rights(member, side)]


def is_held(objects: Collection[Leaving]) -> bool:
    """Return whether all that is left to do in a member is to wait: what comes after that has no place in a plan yet."""
    return bool(objects) and all(entry.found.going for entry in objects)


def is_leaving(stone: Object) -> bool:
    """Return whether a tombstone is of a member that was not given up."""
    return text(stone, "data", "state") == _LEAVING


def gives_up(found: Object, patience: Patience, now: datetime) -> bool:
    """Return whether the Cluster of a silent member goes without it: it is given up, or was silent for longer than the deadline."""
    if patience.abandoned or patience.deadline == 0:
        return True
    since = parse_time(annotations_of(found).get(SILENT_ANNOTATION, ""))
    return since is not None and now - since >= timedelta(seconds=patience.deadline)


def _without_member(
    request: MemberRequest, member: Member, own: Object | None, karmada: KarmadaFacts, patience: Patience, now: datetime
) -> list[Step]:
    stone = karmada.tombstones.get(member.member)
    noted = noted_at(own, stone)
    if noted is not None and not gives_up(noted, patience, now):
        return _noted(request, member, noted, patience, on_cluster=noted is own)
    if own is None:
        return []
    known = stone is not None and not is_leaving(stone)
    steps = [] if known else [_tombstone(request, member, text(own, "spec", "id"), given_up=True)]
    steps += _deletion(request, member, own)
    if patience.abandoned:
        steps += [
            release_step(request, member, work) for work in karmada.works.get(member.member, ()) if EXECUTION_FINALIZER in work.finalizers
        ]
    return steps


def noted_at(found: Object | None, stone: Object | None) -> Object | None:
    """Return where it is noted since when a member is silent: its Cluster, or its tombstone while it leaves, which outlasts the Cluster."""
    return stone if stone is not None and is_leaving(stone) else found


def _noted(request: MemberRequest, member: Member, observed: Object, patience: Patience, *, on_cluster: bool) -> list[Step]:
    """Return the note since when a member does not answer; [] if it is there."""
    if SILENT_ANNOTATION in annotations_of(observed):
        return []
    name = member.member if on_cluster else tombstone_of(member)
    path, shown = (f"{CLUSTERS}/{name}", f"Cluster {name}") if on_cluster else (f"{CONFIG_MAPS}/{name}", f"ConfigMap {NAMESPACE}/{name}")
    body = {"metadata": {"uid": text(observed, "metadata", "uid"), "annotations": {SILENT_ANNOTATION: NOW}}}
    why = f"it does not answer, and is waited for {patience.deadline} seconds from now on"
    return [_step(request, member, WAVE_NOTE, "patch", shown, why, ApiWrite(method="merge", path=path, body=body))]


def _step(request: MemberRequest, member: Member, wave: int, verb: str, shown: str, why: str, action: ApiWrite, **more: Any) -> Step:
    return Step(wave=wave, cluster=request.karmada, verb=verb, object=shown, why=why, item=member.item, action=action, **more)


def _deletion(request: MemberRequest, member: Member, found: Object) -> list[Step]:
    if text(found, "metadata", "deletionTimestamp"):
        return []
    body = {"metadata": {"uid": text(found, "metadata", "uid")}}
    action = ApiWrite(method="delete", path=f"{CLUSTERS}/{member.member}", body=body)
    why = "the cluster leaves; Karmada takes out of it what it brought"
    return [_step(request, member, WAVE_CLUSTER, "delete", f"Cluster {member.member}", why, action)]


def _tombstone(request: MemberRequest, member: Member, uid: str, *, given_up: bool) -> Step:
    """Return the write that keeps what a member still holds, so that a later run can take it away.

    :param uid: of the namespace kube-system, which distinguishes clusters.
    """
    data = {
        "state": "given up" if given_up else _LEAVING,
        "member": member.member,
        "name": member.name,
        "id": uid,
        "namespace": karmada_namespace(member.tenant),
        "left": "\n".join((f"ClusterRole {role_of(member)}", f"ClusterRoleBinding {role_of(member)}", f"Namespace {NAMESPACE}")),
    }
    labels = {**member.own_labels, MANAGED_BY: MANAGER, TOMBSTONE_LABEL: "true"}
    name, why = tombstone_of(member), "the cluster keeps Karmada's rights" + ("" if given_up else " until it was cleaned")
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    action = ApiWrite(method="apply", path=f"{CONFIG_MAPS}/{name}", body=body)
    return _step(request, member, WAVE_NOTE, "create", f"ConfigMap {NAMESPACE}/{name}", why, action)


def release_step(request: MemberRequest, member: Member, work: PreservedWork) -> Step:
    """Return the write that lets a Work go for which Karmada would wait for ever: it wants to take labels off in the dead member."""
    finalizers = [entry for entry in work.finalizers if entry != EXECUTION_FINALIZER]
    body = {"metadata": {"resourceVersion": work.version, "finalizers": finalizers}}
    action = ApiWrite(method="merge", path=f"{WORKS.format(member.member)}/{work.name}", body=body)
    shown = f"Work karmada-es-{member.member}/{work.name}"
    return _step(request, member, WAVE_WORKS, "patch", shown, "it would keep the Cluster of a dead member for ever", action)


def _namespace(member: Member, contents: Contents | None, *, took: bool) -> list[Leaving]:
    """Return the tenant's namespace in the member, if it is being deleted, or nothing of other users is in it.

    :param took: whether Karmada gave the member up earlier, so that what it brought is still there, and no other controller removes it.
    """
    if contents is None or not _is_tenants(contents.labels, member):
        return []
    namespace = Leaving(contents.itself, WAVE_NAMESPACE, "nothing of other users is in it")
    if contents.itself.going:
        return [namespace]
    brought = [Leaving(entry, WAVE_NAMESPACE, _GIVEN_UP) for entry in contents.brought if took]
    return brought if contents.foreign else [*brought, namespace]


def _is_tenants(labels: Mapping[str, str], member: Member) -> bool:
    return all(labels.get(key) == value for key, value in member.tenant.labels.items())


def _rights(member: Member, side: ClusterSide) -> list[Leaving]:
    """Return everything by which Karmada acts in the member."""
    role, account, why = role_of(member), account_of(member), "Karmada has no business in the cluster any more"
    others = side.rest.foreign if side.rest is not None else ()
    alone = not any(entry.startswith("serviceaccounts karmada-") for entry in others)
    rights: list[tuple[Object | None, str, str]] = [
        (side.binding, f"{RBAC}/clusterrolebindings/{role}", f"ClusterRoleBinding {role}"),
        (side.role, f"{RBAC}/clusterroles/{role}", f"ClusterRole {role}"),
        (side.account, f"{ACCOUNTS}/{account}", f"ServiceAccount {NAMESPACE}/{account}"),
        (side.impersonator if alone else None, f"{ACCOUNTS}/{IMPERSONATOR}", f"ServiceAccount {NAMESPACE}/{IMPERSONATOR}"),
    ]
    objects = [Leaving(found_at(path, shown, observed), WAVE_RIGHTS, why) for observed, path, shown in rights if observed is not None]
    rest = side.rest
    if rest is not None and (rest.itself.going or not others) and rest.labels.get(MANAGED_BY) == MANAGER:
        objects.append(Leaving(rest.itself, WAVE_RIGHTS, why))
    return objects


def _gone(member: Member, leaving: Leaving) -> Step:
    found = leaving.found
    action = ApiWrite(method="delete", path=found.path, body={"metadata": {"uid": found.uid}})
    return Step(wave=leaving.wave, cluster=member.host, verb="delete", object=found.name, why=leaving.why, item=member.item, action=action)

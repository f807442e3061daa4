# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about members: what keeps a cluster from becoming one, from being one, or from leaving. Pure.

No finding names another tenant, or a member of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from ..base.errors import ClusterError
from ..base.json_fields import annotations_of, parse_time, text, texts
from ..findings.finding import Finding, Severity
from ..findings.wording import finding, listed, show
from ..fleet.names import karmada_namespace
from ..mesh.endpoints.addresses import is_ip, refusal_of_address
from .contents import Found
from .facts import ClusterSide, KarmadaFacts, Object
from .management import Provisioning
from .models import Member, MemberRequest, TokenRules
from .names import CLUSTERS, EARLIER_ANNOTATION, EXPIRES_ANNOTATION, ISSUED_ANNOTATION, NAMESPACE, SILENT_ANNOTATION, is_made_for
from .status import readiness

SHOWN: Final = 5  # names in a finding
REASONS: Final = {
    "CM-MEMBER-01": "AlreadyJoined",
    "CM-MEMBER-02": "NameTaken",
    "CM-MEMBER-03": "OtherCluster",
    "CM-MEMBER-04": "EndpointRefused",
    "CM-MEMBER-05": "BeingDeleted",
    "CM-MEMBER-06": "WorkloadsPlaced",
    "CM-API-02": "CredentialsInvalid",
    "CM-API-03": "Forbidden",
}
"""Code of a finding -> reason in the conditions of a cluster that it refuses; of all others ``ClusterUnreachable``."""


def join_findings(request: MemberRequest, member: Member, side: ClusterSide, karmada: KarmadaFacts) -> list[Finding]:
    """Return what speaks against making a cluster a member, or keeping it one; [] if nothing does."""
    found = karmada.clusters.get(member.member)
    foreign = foreign_cluster(request, member, found)
    if foreign is not None:
        return [foreign]
    every = [_joined_elsewhere(member, side, karmada), other_cluster(request, member, side, found), _being_deleted(request, member, found)]
    every += [_endpoint(member, side), _terminating(member, side)]
    return [entry for entry in every if entry is not None]


def foreign_cluster(request: MemberRequest, member: Member, found: Object | None) -> Finding | None:
    """Return the finding that Karmada has a Cluster of the member's name that is not the member's."""
    if found is None or is_made_for(found, member):
        return None
    return finding(
        "CM-MEMBER-02",
        cluster=request.karmada,
        item=member.item,
        summary=f"Karmada has a Cluster {member.member} that was not made for {member.name}, so it is left as it is",
        evidence="Its labels are not those of the workspace, the namespace and the name",
        fix=f"Read it: kubectl get --raw {CLUSTERS}/{member.member}. Delete it if it is not needed, and run again; "
        "or give the cluster another name in fleet.clusters.",
    )


def _joined_elsewhere(member: Member, side: ClusterSide, karmada: KarmadaFacts) -> Finding | None:
    others = [entry for name, entry in karmada.clusters.items() if name != member.member and text(entry, "spec", "id") == side.uid]
    if not others or not side.uid:
        return None
    own = [name for entry in others if _is_of_tenant(entry, member) and (name := text(entry, "metadata", "name"))]
    shown = f" {listed(own, SHOWN)}" if own else ""
    return finding(
        "CM-MEMBER-01",
        cluster=member.host,
        item=member.item,
        summary=f"The cluster {member.host} is a member of Karmada under another name already, so it is not joined as {member.name}",
        evidence=f"The uid of its namespace kube-system is the id of another Cluster{shown}",
        fix="Use the name under which it is a member, or let it leave there first (fleet_clusters with state=absent). "
        "If that name is not yours, ask who runs Karmada.",
    )


def _is_of_tenant(found: Object, member: Member) -> bool:
    return all(text(found, "metadata", "labels", key) == value for key, value in member.tenant.labels.items())


def other_cluster(request: MemberRequest, member: Member, side: ClusterSide, found: Object | None) -> Finding | None:
    """Return the finding that the kubeconfig leads to another cluster than the one that joined; None if it does not."""
    known = text(found, "spec", "id") if found is not None else ""
    if not known or known == side.uid:
        return None
    return finding(
        "CM-MEMBER-03",
        cluster=member.host,
        item=member.item,
        summary=f"The kubeconfig of {member.host} leads to another cluster than the one that joined as {member.name}",
        evidence=f"Cluster {member.member} of Karmada has the id {show(known)}; namespace kube-system "
        f"of {member.host} has the uid {show(side.uid)}",
        fix="Correct cilium_mesh_kubeconfig of the host. If the cluster was made anew, let the old one leave first: "
        f"fleet_clusters with state=absent, clusters: [{member.name}] and abandon: [{member.name}].",
    )


def _being_deleted(request: MemberRequest, member: Member, found: Object | None) -> Finding | None:
    if found is None or not text(found, "metadata", "deletionTimestamp"):
        return None
    return finding(
        "CM-MEMBER-05",
        cluster=request.karmada,
        item=member.item,
        summary=f"Karmada is still removing the Cluster {member.member}, so {member.name} cannot join yet",
        evidence=f"Cluster {member.member} has a deletionTimestamp",
        fix="Run again when it is gone, usually after half a minute. If it stays, its member does not answer: "
        "let it leave with state=absent and abandon.",
    )


def _endpoint(member: Member, side: ClusterSide) -> Finding | None:
    host, why = side.endpoint.host.lower(), ""
    if not side.endpoint.url.startswith("https://"):
        why = "its server is not https"
    elif not side.endpoint.authority:
        why = "it has no CA, or skips the verification of the server"
    elif side.endpoint.server_name:
        why = "it has a tls-server-name, which Karmada has no field for"
    else:
        kind = refused_host(host, side.endpoint_networks)
        why = f"its server is {show(host)}, a {kind} address, which is Karmada's own host to Karmada" if kind else ""
    if not why:
        return None
    return finding(
        "CM-MEMBER-04",
        cluster=member.host,
        item=member.item,
        summary=f"Karmada could not use the API server of {member.host} safely, so {member.name} is not joined",
        evidence=f"The kubeconfig of the host: {why}",
        fix="Give the host a kubeconfig with the https address at which Karmada reaches the cluster, and with certificate-authority-data. "
        "Addresses that are special on purpose are listed in cilium_mesh_endpoint_networks of the host.",
    )


def refused_host(host: str, allowed: tuple[str, ...]) -> str:
    """Return the kind of an address that Karmada must not be sent to, such as "loopback"; "" for a good one and for other names."""
    if is_ip(host):
        return refusal_of_address(host, allowed)
    return "loopback" if host == "localhost" or host.endswith(".localhost") else ""


def _terminating(member: Member, side: ClusterSide) -> Finding | None:
    if side.namespace is None or not text(side.namespace, "metadata", "deletionTimestamp"):
        return None
    return finding(
        "CM-MEMBER-05",
        cluster=member.host,
        item=member.item,
        summary=f"The namespace {NAMESPACE} of {member.host} is still being deleted, so {member.name} cannot join yet",
        evidence=f"Namespace {NAMESPACE} has a deletionTimestamp",
        fix=f"Run again when it is gone. What holds it: kubectl get namespace {NAMESPACE} --output yaml, status.conditions.",
    )


def placed_finding(request: MemberRequest, member: Member, karmada: KarmadaFacts, *, answers: bool) -> Finding | None:
    """Return the finding that workloads are placed in a cluster that is to leave; None if none is.

    :param answers: whether the cluster answers. Karmada cannot take out of another one what is not wanted any more, and so keeps the
        ResourceBinding, which is being deleted, until the cluster has left: that must not wait for it.
    """
    placed = tuple(sorted((*karmada.placed.get(member.member, ()), *(karmada.going.get(member.member, ()) if answers else ()))))
    if not placed:
        return None
    return finding(
        "CM-MEMBER-06",
        cluster=request.karmada,
        item=member.item,
        summary=f"{listed(placed, SHOWN)} would be deleted in {member.name}, so it does not leave",
        evidence=f"ResourceBindings of namespace {karmada_namespace(member.tenant)} place them in {member.member}",
        fix="Take the cluster out of the fleets and placement policies of these workloads, or delete the workloads, and run again.",
    )


def silent_finding(member: Member, noted: Object, error: ClusterError | None, deadline: int, *, has_left: bool) -> Finding:
    """Return the finding that a cluster that is to leave does not answer.

    :param noted: where it is noted since when: its Cluster, or its tombstone.
    :param error: None if another cluster answers at its address.
    :param has_left: whether Karmada's Cluster is gone, and the cluster was not cleaned yet.
    """
    since = annotations_of(noted).get(SILENT_ANNOTATION, "")
    waited = f"Silent since {since}; " if since else ""
    stays = (
        "Karmada's rights in it stay, although its Cluster is gone"
        if has_left
        else "what Karmada brought there stays, with Karmada's rights"
    )
    then = "it is given up" if has_left else "its Cluster goes"
    return finding(
        "CM-MEMBER-09",
        cluster=member.host,
        item=member.item,
        summary=f"{member.host} does not answer, so {stays}",
        evidence=f"{waited}{error.message if error is not None else 'Another cluster answers at its address.'}",
        fix=f"Run again when it answers. Without it, {then} {deadline} seconds after the first run that found it silent, or "
        f"at once with abandon: [{member.name}]; a later run cleans the cluster when it is back.",
    )


def staying_finding(request: MemberRequest, member: Member, found: Object, seconds: float) -> Finding:
    """Return the finding that Karmada has not let a cluster go in time.

    :param found: its Cluster.
    :param seconds: for which the run waited.
    """
    ready, reason = readiness(found)
    holds = listed([show(name) for name in texts(found, "metadata", "finalizers")], SHOWN) or "no finalizer"
    execution = f"kubectl --namespace karmada-es-{member.member} get works"
    return finding(
        "CM-MEMBER-14",
        cluster=request.karmada,
        item=member.item,
        summary=f"{member.name} has not left Karmada within {seconds:g} s: its Cluster {member.member} is still being deleted",
        evidence=f"It is held by {holds}; the cluster is {'Ready' if ready else f'not Ready ({show(reason)})'}",
        fix=f"Run again: Karmada first takes what it brought out of the cluster ({execution}), with karmada-controller-manager."
        + ("" if ready else f" It needs the cluster for that: bring it back, or give it up with abandon: [{member.name}]."),
    )


def held_finding(member: Member, left: Sequence[Found], seconds: float) -> Finding:
    """Return the finding that something of a cluster that left Karmada was not gone in time.

    :param left: what is still in the cluster.
    :param seconds: for which the run waited.
    """
    rights = any(not entry.name.startswith("Namespace ") for entry in left)
    follows = "accounts or rights of Karmada are still in the cluster" if rights else "it cannot count as clean"
    shown = listed([entry.name for entry in left], SHOWN)
    return finding(
        "CM-MEMBER-14",
        cluster=member.host,
        item=member.item,
        summary=f"{member.name} has not left within {seconds:g} s: {shown} of {member.host} {_is(left)} still there, so {follows}",
        evidence="; ".join(_held(entry) for entry in left[:SHOWN]),
        fix=f"Run again when {_it(left)} gone: the run then does the rest. {_RELEASE} What holds it is in the object: "
        f"kubectl get --raw {left[0].path}",
    )


def plane_held_finding(request: MemberRequest, member: Member, left: Found, seconds: float) -> Finding:
    """Return the finding that the management plane has not let its Cluster go in time.

    :param seconds: for which the run waited.
    """
    return finding(
        "CM-MEMBER-14",
        cluster=request.management,
        item=member.item,
        summary=f"{member.name} has left Karmada, but its {left.name} of the management plane was not gone within {seconds:g} s, "
        "so the provider may still have the cluster",
        evidence=_held(left),
        fix=f"Run again when it is gone; a provider may need longer than a run waits. {_RELEASE} What holds it is in the object: "
        f"kubectl get --raw {left.path}",
    )


_RELEASE: Final = "If the controller of a finalizer does not exist any more, take that finalizer off."


def _is(left: Sequence[Found]) -> str:
    return "is" if len(left) == 1 else "are"


def _it(left: Sequence[Found]) -> str:
    return "it is" if len(left) == 1 else "they are"


def _held(left: Found) -> str:
    if not left.going:
        return f"{left.name} is not being deleted: it was made anew"
    holds = [f"finalizers {listed([show(name) for name in left.finalizers], SHOWN)}"] if left.finalizers else []
    holds += [show(said) for said in left.said]
    return f"{left.name}: {'; '.join(holds) or 'it is being deleted, and has no finalizer'}"


def tombstone_finding(request: MemberRequest, member: Member) -> Finding:
    """Return the finding that an abandoned cluster still has what is to be taken away."""
    return finding(
        "CM-MEMBER-12",
        cluster=request.karmada,
        item=member.item,
        summary=f"{member.name} left Karmada without being cleaned: Karmada's accounts and rights, and what it brought, are still there",
        evidence=f"ConfigMap {NAMESPACE}/tombstone-{member.member} of Karmada says what is left",
        fix="Run fleet_clusters with state=absent for it when the cluster answers. If it never will, delete the ConfigMap.",
    )


def left_finding(member: Member, side: ClusterSide) -> Finding | None:
    """Return the finding that objects of other users keep the tenant's namespace in the member; None if none do."""
    if side.contents is None or not side.contents.foreign or side.contents.itself.going:
        return None
    return finding(
        "CM-MEMBER-10",
        cluster=member.host,
        item=member.item,
        summary=f"Namespace {karmada_namespace(member.tenant)} of {member.host} stays, as it has objects that Karmada did not bring",
        evidence=listed(side.contents.foreign, SHOWN),
        fix="Delete what is not needed, and run again; or keep it.",
    )


def ready_finding(request: MemberRequest, member: Member, reason: str) -> Finding:
    """Return the finding that Karmada does not report a member as ready."""
    return finding(
        "CM-MEMBER-08",
        cluster=member.host,
        item=member.item,
        summary=f"Karmada does not report {member.name} as ready, so changes of workloads do not reach it",
        evidence=f"Cluster {member.member}: Ready is not True, reason {show(reason or 'none')}",
        fix=f"Check that {request.karmada} reaches the address of its API server, and that the cluster works. After a join Karmada needs "
        "up to 40 seconds. ClusterNotReachable may also mean that its token is refused: run fleet_clusters again.",
    )


def provisioning_finding(request: MemberRequest, member: Member, found: Provisioning) -> Finding:
    """Return the finding that the management plane has not made the cluster ready, or cannot."""
    if found.failed:
        return finding(
            "CM-MEMBER-07",
            cluster=request.management,
            item=member.item,
            summary=f"The management plane could not make {member.name}: {show(found.reason)}",
            evidence=f"Its Cluster {member.member} gives that reason; the message stays in the management plane",
            fix=f"Correct what the provider refuses: kubectl --namespace {request.management_namespace} get clusters {member.member} "
            "--output yaml has its message. Then run again.",
        )
    return finding(
        "CM-MEMBER-07",
        cluster=request.management,
        item=member.item,
        summary=f"The management plane does not report {member.name} as ready, so it has not joined Karmada",
        evidence=f"Its Cluster gives the reason {show(found.reason or 'none')}",
        fix="Run again when it is ready. What it waits for: status.conditions of the Cluster in the management plane.",
    )


def token_findings(request: MemberRequest, member: Member, found: Object, rules: TokenRules, now: datetime) -> list[Finding]:
    """Return what is to be known of a member's tokens: that its API server gives shorter ones, and that earlier ones are still in use."""
    noted = annotations_of(found)
    every = []
    earlier = parse_time(noted.get(EARLIER_ANNOTATION, ""))
    if earlier is not None and earlier > now:
        every.append(_earlier(request, member, noted[EARLIER_ANNOTATION]))
    ends, begin = parse_time(noted.get(EXPIRES_ANNOTATION, "")), parse_time(noted.get(ISSUED_ANNOTATION, ""))
    if ends is None or begin is None or (ends - begin).total_seconds() >= min(rules.lifetime, rules.renew_before):
        return every
    return [
        *every,
        finding(
            "CM-MEMBER-11",
            cluster=member.host,
            item=member.item,
            summary=f"{member.host} gives shorter tokens than are asked for, so {member.name} has to be renewed sooner than usual",
            evidence=f"Issued at {show(noted[ISSUED_ANNOTATION])}, they end at {show(noted[EXPIRES_ANNOTATION])}",
            fix="Run fleet_clusters at least every third part of that time, or raise "
            "--service-account-max-token-expiration of its API server.",
        ),
    ]


def _earlier(request: MemberRequest, member: Member, ends: str) -> Finding:
    return finding(
        "CM-MEMBER-13",
        cluster=request.karmada,
        item=member.item,
        summary=f"Karmada up to 1.18 writes to {member.name} with the tokens of before the last renewal, which end at {show(ends)}",
        evidence=f"Cluster {member.member} was given new tokens; up to 1.18 Karmada's clients keep the token with which they began",
        fix="With Karmada up to 1.18, restart karmada-controller-manager before that time: else no change reaches the member, while it is "
        "still reported as ready. Karmada 1.19 reads new tokens by itself.",
    )


def refusals(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that keep a member from being written."""
    return [entry for entry in findings if entry.severity is Severity.BLOCKING]

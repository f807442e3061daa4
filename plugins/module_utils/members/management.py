# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The Cluster of a member in the management plane, which provisions clusters and says when they are ready. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ..base.json_fields import items, labels_of, mapping, text
from ..base.redact import one_line
from ..findings.finding import Finding
from ..findings.wording import finding
from ..fleet.names import WORKSPACE_LABEL, stands_for
from ..plan.steps import ApiWrite, Step
from .contents import Found, found_at
from .models import Member, MemberRequest
from .names import NAME_ANNOTATION, is_made_for

CLUSTERS: Final = "/apis/platform.edge-portal.eu/v1alpha1/namespaces/{}/clusters"
ERRORS: Final = ("Error", "Failed", "Exceeded")
"""How phases and reasons end that say that a provider has given up: Failed, ProvisioningFailed, QuotaExceeded."""
WAVE_MAKE: Final = 1
WAVE_REMOVE: Final = 9


class Provisioning(NamedTuple):
    """What the management plane says of a cluster. ``reason``: word of its condition, "" for none. ``failed``: it has given up."""

    ready: bool
    reason: str = ""
    failed: bool = False


NOT_ASKED: Final = Provisioning(True)
"""Of a cluster that no management plane makes."""


def found_plane(planes: Mapping[str, Mapping[str, Any]], member: Member) -> Mapping[str, Any] | None:
    """Return the Cluster of the member, also one of another name that has its labels; None if there is none.

    One that another program made for the KubernetesCluster counts as well: a second one would leave a mesh without its cluster, since
    its credentials are those of exactly one Cluster (mesh_operator/credentials/management_plane.py).
    """
    named = planes.get(member.member)
    if named is not None:
        return named
    rows = [planes[name] for name in sorted(planes)]
    made = [found for found in rows if is_made_for(found, member)]
    return next(iter([*made, *(found for found in rows if is_others(found, member))]), None)


def is_others(found: Mapping[str, Any], member: Member) -> bool:
    """Return whether another program made a Cluster for the KubernetesCluster. It is used as it is, neither changed nor deleted."""
    stands = stands_for(found, member.tenant.namespace, member.name) and labels_of(found).get(WORKSPACE_LABEL) == member.tenant.workspace
    return stands and not is_made_for(found, member)


def provisioning_of(found: Mapping[str, Any] | None) -> Provisioning:
    """Return whether the Cluster is ready, and else the reason that it gives, and whether that is an error.

    An error is what the phase or the reason calls one; a word that is not known is none. The message stays with the management plane.
    """
    if found is None:
        return Provisioning(False, "Pending")
    ready = next((entry for entry in items(found, "status", "conditions") if entry.get("type") in ("Ready", "Available")), {})
    phase = text(found, "status", "phase")
    reason = one_line(text(ready, "reason") or phase or "Pending", 60)
    is_ready = text(ready, "status") == "True"
    return Provisioning(is_ready, reason, not is_ready and (phase.endswith(ERRORS) or reason.endswith(ERRORS)))


def plane_problem(found: Mapping[str, Any] | None, member: Member, request: MemberRequest) -> Finding | None:
    """Return the finding that a Cluster of that name is foreign; None where it is the member's, or there is none."""
    if found is None or is_made_for(found, member) or is_others(found, member):
        return None
    return finding(
        "CM-MEMBER-02",
        cluster=request.management,
        item=member.item,
        summary=f"The management plane has a Cluster {member.member} that was not made for {member.name}, so it is left as it is",
        evidence=f"Its labels are not those of the workspace, the namespace and the name: it has {len(labels_of(found))} labels",
        fix=f"Delete or rename it if it is not needed: kubectl --namespace {request.management_namespace} get clusters {member.member} "
        "--output yaml. Or give the cluster another name in fleet.clusters.",
    )


def make_steps(found: Mapping[str, Any] | None, member: Member, request: MemberRequest) -> list[Step]:
    """Return the write of the Cluster: its creation, or a merge patch of what differs from the specification."""
    collection = CLUSTERS.format(request.management_namespace)
    name = text(found, "metadata", "name") or member.member
    shown = f"Cluster {request.management_namespace}/{name}"
    if found is None:
        metadata = {"name": name, "labels": member.own_labels, "annotations": {NAME_ANNOTATION: member.name}}
        body = {"apiVersion": "platform.edge-portal.eu/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": dict(member.spec)}
        action = ApiWrite(method="create", path=collection, body=body)
        why = "the management plane makes the cluster"
        return [Step(wave=WAVE_MAKE, cluster=request.management, verb="create", object=shown, why=why, item=member.item, action=action)]
    changed = _differs(found, member)
    if not changed or not is_made_for(found, member):
        return []
    body = {"metadata": {"resourceVersion": text(found, "metadata", "resourceVersion")}, "spec": changed}
    action = ApiWrite(method="merge", path=f"{collection}/{name}", body=body)
    why = f"its specification changed: {', '.join(sorted(changed))}"
    return [Step(wave=WAVE_MAKE, cluster=request.management, verb="patch", object=shown, why=why, item=member.item, action=action)]


def _differs(found: Mapping[str, Any], member: Member) -> dict[str, Any]:
    """Return what the specification says of the cluster, as far as the Cluster has it otherwise or not at all."""
    spec = mapping(found, "spec")
    return {key: value for key, value in member.spec.items() if spec.get(key) != value}


def plane_differs(found: Mapping[str, Any] | None, member: Member, request: MemberRequest) -> Finding | None:
    """Return the finding that a Cluster of another program is not as it is asked for: nothing of ours may change it.

    The values stay where they are: what a provider notes there may be a secret.
    """
    if found is None or not is_others(found, member):
        return None
    changed = sorted(_differs(found, member))
    if not changed:
        return None
    fields = ", ".join(changed)
    name = text(found, "metadata", "name")
    return finding(
        "CM-MEMBER-15",
        cluster=request.management,
        item=member.item,
        summary=f"Another program made the Cluster {name} in the management plane for {member.name}, and it is not as it is asked for: "
        f"{fields}. It is used as it is",
        evidence=f"Its labels are not those that a run gives to a Cluster, so none changes it; fields of its spec that differ: {fields}",
        fix=f"Change the Cluster there: kubectl --namespace {request.management_namespace} edit clusters {name}. Or ask for what it is: "
        f"take {fields} out of the spec, or set what the Cluster has.",
    )


def left_in_plane(found: Mapping[str, Any] | None, member: Member, request: MemberRequest) -> Found | None:
    """Return the Cluster of a member that leaves, while it is there; None where there is none of the member."""
    if found is None or not is_made_for(found, member):
        return None
    name = text(found, "metadata", "name")
    return found_at(f"{CLUSTERS.format(request.management_namespace)}/{name}", f"Cluster {request.management_namespace}/{name}", found)


def remove_steps(found: Mapping[str, Any] | None, member: Member, request: MemberRequest) -> list[Step]:
    """Return the deletion of the Cluster; [] where there is none of the member."""
    if found is None or not is_made_for(found, member) or text(found, "metadata", "deletionTimestamp"):
        return []
    name = text(found, "metadata", "name")
    action = ApiWrite(
        method="delete",
        path=f"{CLUSTERS.format(request.management_namespace)}/{name}",
        body={"metadata": {"uid": text(found, "metadata", "uid")}},
    )
    return [
        Step(
            wave=WAVE_REMOVE,
            cluster=request.management,
            verb="delete",
            object=f"Cluster {request.management_namespace}/{name}",
            why="the cluster has left Karmada",
            disruption="the management plane may remove the cluster itself",
            item=member.item,
            action=action,
        )
    ]


def plane_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of the management plane's Cluster for that of a KubernetesCluster. Both have regions, versions and numbers of nodes.

    The management plane names providers in capitals, and calls an imported kubeconfig ``importedK8SConfig``.
    """
    kept = {key: spec[key] for key in ("region", "zone", "nodeCount", "version") if key in spec}
    provider, imported = text(spec, "providerRef", "name"), mapping(spec, "importedKubeconfigRef")
    named = {"provider": provider.upper()} if provider else {}
    return {**named, **kept, **({"importedK8SConfig": {"secretRef": dict(imported)}} if imported else {})}

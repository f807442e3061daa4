# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is still in Karmada of workloads that are not wanted any more, and what holds it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..base.json_fields import texts
from ..findings.finding import Finding
from ..findings.wording import finding, listed, show
from .facts import TenantFacts
from .models import FleetRequest
from .names import karmada_namespace
from .writes import is_leaving, is_tenants, item_of

SHOWN: Final = 5  # names in a finding


def is_any_staying(request: FleetRequest, facts: TenantFacts) -> bool:
    """Return whether something is still there of what the request does not want any more, also of workloads that stay."""
    if request.workloads is None or request.keep_others:
        return False
    return bool(facts.outliving) or any(is_leaving(found) for found in facts.objects.values())


def may_go(facts: TenantFacts) -> bool:
    """Return whether time alone may bring away what is staying: a cluster that is not Ready gives nothing back."""
    ready = {name for name, member in facts.members.items() if member.ready}
    going = any(is_leaving(found) for found in facts.objects.values())
    return going or any(ready.issuperset(binding.replicas) for binding in facts.outliving.values())


def staying_findings(request: FleetRequest, facts: TenantFacts, leaving: Iterable[str], karmada: str, seconds: float) -> list[Finding]:
    """Return a finding for each workload of which something is left, for what is left besides, or for a tenant's empty namespace.

    :param leaving: workloads that are removed and not yet gone.
    :param karmada: inventory name of the control plane.
    :param seconds: for which the run waited.
    """
    namespace, names = karmada_namespace(request.tenant), list(leaving)
    found = []
    for name in names:
        owned = facts.owned(name)
        rows = {f"{key.kind} {key.name}": entry for key, entry in owned.objects.items()}
        rows |= {f"PropagationPolicy {own}": entry for own, entry in owned.policies.items()}
        rows |= {f"ControllerRevision {own}": entry for own, entry in owned.revisions.items()}
        members = {member for key in owned.objects if (binding := facts.bindings.get(key.binding)) for member in binding.replicas}
        summary = (
            f"FleetWorkload {name} is not wanted any more, and was not gone within {seconds:g} s: {listed(rows, SHOWN)} of {namespace}"
        )
        found.append(_finding(summary, request, facts, rows.values(), members, karmada, item_of(name)))
    outliving = {f"ResourceBinding {name}": binding for name, binding in facts.outliving.items()}
    going = {
        f"{key.kind} {key.name}": entry for key, entry in facts.objects.items() if is_leaving(entry) and facts.owner(entry) not in names
    }
    if is_any_staying(request, facts) and (outliving or going):
        shown = listed([*going, *outliving], SHOWN)
        summary = f"What {shown} of {namespace} brought is not wanted any more, and was not gone within {seconds:g} s"
        members = {member for binding in outliving.values() for member in binding.replicas}
        found.append(_finding(summary, request, facts, going.values(), members, karmada))
    wants_none = request.workloads is not None and not (request.workloads or request.refused or request.keep_others)
    if wants_none and not found and (rest := tenants_own(request, facts)):
        summary = f"The tenant has no workload any more, and {listed(rest)} was not gone within {seconds:g} s"
        members = {member for binding in facts.bindings.values() for member in binding.replicas}
        found.append(_finding(summary, request, facts, rest.values(), members, karmada))
    return found


def tenants_own(request: FleetRequest, facts: TenantFacts) -> dict[str, Mapping[str, Any]]:
    """Return the tenant's namespace and the policy that brings it to the members, as far as they are there."""
    name = karmada_namespace(request.tenant)
    rows = {f"Namespace {name}": facts.namespace, f"ClusterPropagationPolicy {name}": facts.namespace_policy}
    return {shown: found for shown, found in rows.items() if found is not None and is_tenants(found, request)}


def _finding(
    summary: str,
    request: FleetRequest,
    facts: TenantFacts,
    rows: Iterable[Mapping[str, Any]],
    members: set[str],
    karmada: str,
    item: str = "",
) -> Finding:
    names = {cluster.member: cluster.name for cluster in request.clusters.values()}
    finalizers = sorted({show(name) for row in rows for name in texts(row, "metadata", "finalizers")})
    lost = sorted(names.get(member, member) for member in members if member not in facts.members or not facts.members[member].ready)
    holds = [f"finalizers {listed(finalizers, SHOWN)}"] if finalizers else []
    holds += [f"clusters that are not Ready: {listed(lost, SHOWN)}"] if lost else []
    bring = f"Bring {listed(lost, SHOWN)} back, or let it leave; then run again." if lost else "Run again."
    return finding(
        "CM-FLEET-13",
        cluster=karmada,
        item=item,
        summary=summary,
        evidence=f"It is held by {' and '.join(holds)}" if holds else "Nothing shows what holds it; karmada-controller-manager may be down",
        fix=f"{bring} Karmada takes objects out of the clusters before they go, with karmada-controller-manager.",
    )

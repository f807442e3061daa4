# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is to be said of an exposed service. One finding per matter, whatever the number of clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ..checks.wording import listed
from ..findings import Finding, Severity
from ..items.scene import Scene
from .codes import ADDRESS_PENDING, LEFT_BEHIND, NO_ENDPOINTS, NO_SOURCE_RANGES, ON_STANDBY, RANGES_PARTLY_ENFORCED
from .look import PATIENCE, Look, State
from .names import ref_of
from .remarks import Remark
from .serving import Decision

_MINUTES: Final = int(PATIENCE.total_seconds() // 60)


def exposure_findings(decision: Decision, scene: Scene, *, blocking: bool) -> Iterator[Finding]:
    """``blocking``: the item is possible nowhere."""
    ref = ref_of(decision.item)
    if not decision.item.source_ranges:
        yield _nobody(decision).finding(ref, Severity.ADVISORY)
        return
    trouble = Severity.BLOCKING if blocking else Severity.REMEDIABLE
    for remark, hosts in _grouped((look.trouble, host) for host, look in decision.looks.items()):
        yield remark.finding(ref, trouble, *hosts)
    if blocking:
        return
    for remark, hosts in _grouped(_uncovered(decision)):
        yield remark.finding(ref, Severity.REMEDIABLE, *hosts)
    for remark, hosts in _grouped(_pending(decision)):
        yield remark.finding(ref, Severity.REMEDIABLE, *hosts)
    empty = [host for host in decision.order if _has_no_endpoints(decision, host)]
    if empty:
        yield _empty(decision, empty).finding(ref, Severity.REMEDIABLE, *empty)
    beside = _beside_primary(decision, scene)
    if beside is not None:
        yield beside.finding(ref, Severity.REMEDIABLE, decision.item.primary)


def _nobody(decision: Decision) -> Remark:
    there = [host for host, look in decision.looks.items() if look.there is not None]
    return Remark(
        code=NO_SOURCE_RANGES,
        reason="NoSourceRanges",
        summary="No source range is given, so that nobody may come in: nothing is exposed",
        evidence=f"what was exposed in {listed(there)} is withdrawn" if there else "",
        fix="Name the ranges that may come in, in sourceRanges; everybody is 0.0.0.0/0 and ::/0.",
    )


def _uncovered(decision: Decision) -> Iterator[tuple[Remark | None, str]]:
    for host in decision.order:
        look = decision.looks[host]
        if host not in decision.wanted or look.enforcement is None:
            continue
        yield from ((remark, host) for remark in look.enforcement.remarks)
        if look.standing.beyond and not look.enforcement.opens_to_everyone and not look.enforcement.by_policy:
            yield _rests_on_balancer(), host


def _rests_on_balancer() -> Remark:
    return Remark(
        code=RANGES_PARTLY_ENFORCED,
        reason="RestsOnLoadBalancer",
        summary="Only the load balancer itself can hold to the source ranges: the cluster does not see traffic to its address as such",
        evidence="status.loadBalancer names a host name, or an address of ipMode Proxy",
        fix="Make sure that the provider's load balancer honours loadBalancerSourceRanges; nothing here can prove it.",
    )


def _pending(decision: Decision) -> Iterator[tuple[Remark | None, str]]:
    for host in decision.order:
        look = decision.looks[host]
        if host in decision.wanted and look.there is not None and _is_late(look):
            yield _no_address(look), host


def _is_late(look: Look) -> bool:
    return look.state is State.LATE or bool(look.standing.rejected)


def _no_address(look: Look) -> Remark:
    kind = look.there.kind if look.there is not None else ""
    refused = look.standing.rejected
    return Remark(
        code=ADDRESS_PENDING,
        reason="AddressPending",
        summary=f"The {kind} is refused by its controller"
        if refused
        else f"The {kind} has had no address for more than {_MINUTES} minutes",
        evidence=f"{refused}: {look.standing.message}" if refused else "its status names none",
        fix="Correct what the controller names."
        if refused
        else "See whether the cluster has a controller for load balancers (of the cloud, or Cilium's own IPAM), and its quota: "
        "kubectl get events shows its errors. Without one use class NodePort.",
    )


def _has_no_endpoints(decision: Decision, host: str) -> bool:
    look = decision.looks[host]
    needed = host in decision.wanted or not decision.item.primary
    return needed and look.enforcement is not None and not look.ready + look.remote


def _empty(decision: Decision, hosts: list[str]) -> Remark:
    item = decision.item
    return Remark(
        code=NO_ENDPOINTS,
        reason="NoReadyEndpoints",
        summary=f"Service {item.namespace}/{item.service} has no ready endpoints in {listed(hosts)}",
        evidence="no EndpointSlice of it there has one",
        fix=f"See to its pods: kubectl --namespace {item.namespace} get endpointslices -l kubernetes.io/service-name={item.service}",
    )


def _beside_primary(decision: Decision, scene: Scene) -> Remark | None:
    """A standby serves, or would if it could."""
    primary = decision.item.primary
    if not primary or primary in decision.serving:
        return None
    serving = listed(decision.serving) or "no cluster"
    state = decision.looks[primary].state
    if state is State.SILENT:
        failure = scene.failures.get(primary)
        return Remark(
            code=LEFT_BEHIND,
            reason=state.value,
            summary=f"The primary {primary} does not answer, so {serving} serves; what was written in {primary} is still there",
            evidence=failure.message if failure else "",
            fix=f"Its record in DNS, if anybody in {primary} still keeps it, cannot be withdrawn from here: do that by hand.",
        )
    why = "the mesh has lost it" if state is State.WELL else state.value
    return Remark(
        code=ON_STANDBY,
        reason="OnStandby",
        summary=f"The primary {primary} cannot serve, so {serving} does",
        evidence=f"{primary}: {why}",
        fix="It goes back by itself, at a run that finds the primary with an address and ready endpoints.",
    )


def _grouped(remarks: Iterable[tuple[Remark | None, str]]) -> Iterable[tuple[Remark, list[str]]]:
    """Equal remarks once, with the clusters that they are about. Evidence may differ; what was seen first is shown."""
    found: dict[tuple[str, str, str], tuple[Remark, list[str]]] = {}
    for remark, host in remarks:
        if remark is not None:
            found.setdefault((remark.code, remark.reason, remark.summary), (remark, []))[1].append(host)
    return found.values()

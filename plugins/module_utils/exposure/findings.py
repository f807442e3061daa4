# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about an exposed service. One finding per matter, whatever the number of clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ..findings.finding import Finding, Severity
from ..findings.wording import listed
from ..items.scene import Scene
from .assessment import PATIENCE, Assessment, State
from .issues import ExposureIssue
from .placement import PlacementDecision

_MINUTES: Final = int(PATIENCE.total_seconds() // 60)


def exposure_findings(decision: PlacementDecision, scene: Scene, *, blocking: bool) -> Iterator[Finding]:
    """Yield the findings about one item. ``blocking``: the item is possible in no cluster."""
    ref = decision.item.ref
    if not decision.item.source_ranges:
        yield _no_source_ranges(decision).about(ref)
        return
    trouble = None if blocking else Severity.REMEDIABLE
    for remark, hosts in _grouped((assessment.trouble, host) for host, assessment in decision.assessments.items()):
        yield remark.about(ref, *hosts, severity=trouble)
    if blocking:
        return
    for remark, hosts in _grouped(_uncovered(decision)):
        yield remark.about(ref, *hosts)
    for remark, hosts in _grouped(_pending(decision)):
        yield remark.about(ref, *hosts)
    empty = [host for host in decision.order if _has_no_endpoints(decision, host)]
    if empty:
        yield _empty(decision, empty).about(ref, *empty)
    beside = _beside_primary(decision, scene)
    if beside is not None:
        yield beside.about(ref, decision.item.primary)


def _no_source_ranges(decision: PlacementDecision) -> ExposureIssue:
    exposed_in = [host for host, assessment in decision.assessments.items() if assessment.observed is not None]
    return ExposureIssue(
        code="CM-EXPO-07",
        reason="NoSourceRanges",
        summary="No source range is given, so no client has access: nothing is exposed",
        evidence=f"what was exposed in {listed(exposed_in)} is withdrawn" if exposed_in else "",
        fix="Name the ranges that have access in sourceRanges; every address is 0.0.0.0/0 and ::/0.",
    )


def _uncovered(decision: PlacementDecision) -> Iterator[tuple[ExposureIssue | None, str]]:
    for host in decision.order:
        assessment = decision.assessments[host]
        if host not in decision.wanted or assessment.enforcement is None:
            continue
        yield from ((remark, host) for remark in assessment.enforcement.remarks)
        if assessment.standing.beyond and not assessment.enforcement.opens_to_everyone and not assessment.enforcement.by_policy:
            yield _rests_on_balancer(), host


def _rests_on_balancer() -> ExposureIssue:
    return ExposureIssue(
        code="CM-EXPO-08",
        reason="RestsOnLoadBalancer",
        summary="Only the load balancer itself can enforce the source ranges: the cluster cannot recognise traffic to its address",
        evidence="status.loadBalancer names a host name, or an address of ipMode Proxy",
        fix="Make sure that the provider's load balancer honours loadBalancerSourceRanges; this mesh cannot prove it.",
    )


def _pending(decision: PlacementDecision) -> Iterator[tuple[ExposureIssue | None, str]]:
    for host in decision.order:
        assessment = decision.assessments[host]
        if host in decision.wanted and assessment.observed is not None and _is_late(assessment):
            yield _no_address(assessment), host


def _is_late(assessment: Assessment) -> bool:
    return assessment.state is State.LATE or bool(assessment.standing.rejected)


def _no_address(assessment: Assessment) -> ExposureIssue:
    kind = assessment.observed.kind if assessment.observed is not None else ""
    refused = assessment.standing.rejected
    return ExposureIssue(
        code="CM-EXPO-09",
        reason="AddressPending",
        summary=f"The controller of the {kind} refuses it, so it has no address"
        if refused
        else f"The {kind} has had no address for more than {_MINUTES} minutes",
        evidence=f"{refused}: {assessment.standing.message}" if refused else f"the status of the {kind} has no address",
        fix="Correct what the controller names."
        if refused
        else "See whether the cluster has a controller for load balancers (of the cloud, or Cilium's own IPAM), and its quota: "
        "kubectl get events shows its errors. Without one use class NodePort.",
    )


def _has_no_endpoints(decision: PlacementDecision, host: str) -> bool:
    assessment = decision.assessments[host]
    needed = host in decision.wanted or not decision.item.primary
    return needed and assessment.enforcement is not None and not assessment.ready + assessment.remote


def _empty(decision: PlacementDecision, hosts: list[str]) -> ExposureIssue:
    item = decision.item
    return ExposureIssue(
        code="CM-EXPO-10",
        reason="NoReadyEndpoints",
        summary=f"Service {item.namespace}/{item.service} has no ready endpoints in {listed(hosts)}",
        evidence="no EndpointSlice of it there has one",
        fix=f"See to its pods: kubectl --namespace {item.namespace} get endpointslices -l kubernetes.io/service-name={item.service}",
    )


def _beside_primary(decision: PlacementDecision, scene: Scene) -> ExposureIssue | None:
    """Return the issue that a standby serves, or that none can."""
    primary = decision.item.primary
    if not primary or primary in decision.serving:
        return None
    serving = listed(decision.serving) or "no cluster"
    state = decision.assessments[primary].state
    if state is State.SILENT:
        failure = scene.failures.get(primary)
        return ExposureIssue(
            code="CM-EXPO-12",
            reason=state.value,
            summary=f"The primary {primary} does not answer, so {serving} serves; the objects in {primary} are still there",
            evidence=failure.message if failure else "",
            fix=f"If a controller in {primary} still publishes its record in DNS, remove that record by hand: this mesh cannot reach it.",
        )
    why = "the mesh has no contact with it" if state is State.WELL else state.value
    return ExposureIssue(
        code="CM-EXPO-11",
        reason="OnStandby",
        summary=f"The primary {primary} cannot serve, so {serving} does",
        evidence=f"{primary}: {why}",
        fix="It goes back by itself, at a run that finds the primary with an address and ready endpoints.",
    )


def _grouped(remarks: Iterable[tuple[ExposureIssue | None, str]]) -> Iterable[tuple[ExposureIssue, list[str]]]:
    """Return equal issues once, with their clusters. Evidence may differ; the first is used."""
    found: dict[tuple[str, str, str], tuple[ExposureIssue, list[str]]] = {}
    for remark, host in remarks:
        if remark is not None:
            found.setdefault((remark.code, remark.reason, remark.summary), (remark, []))[1].append(host)
    return found.values()

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The engine's stages as the actions use them, with what they share: names looked up once, links of all clusters read side by side."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Final

from ..module_utils.absence import tolerated
from ..module_utils.checks import run_checks
from ..module_utils.endpoints import is_dns_name, split_host_port
from ..module_utils.errors import ClusterError, InvalidInput
from ..module_utils.facts import ClusterFacts, ObserveFailure, ReaderFacts
from ..module_utils.findings import CheckContext, Finding, ordered, registered
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation
from ..module_utils.observe.health import read_links
from ..module_utils.ownership import remembered_peers
from ..module_utils.plan import Plan, PlanOptions, plan_connect

PARALLEL: Final = 10  # clusters spoken to at a time


def accepted_codes(codes: Iterable[str]) -> frozenset[str]:
    """The option ``accept``, checked: a code that means nothing would be a silent mistake.

    :raises InvalidInput: a code is unknown, or its finding is nothing that a user could take upon himself.
    """
    wanted = [str(code).strip() for code in codes]
    checks = registered()
    unknown = sorted({code for code in wanted if code not in checks})
    fixed = sorted({code for code in wanted if code in checks and not checks[code].acceptable})
    possible = ", ".join(sorted(code for code, check in checks.items() if check.acceptable))
    if unknown:
        raise InvalidInput(f"accept names findings that do not exist: {', '.join(unknown)}.", remedy=f"It may name {possible}.")
    if fixed:
        raise InvalidInput(f"accept names findings that cannot be accepted: {', '.join(fixed)}.", remedy=f"It may name {possible}.")
    return frozenset(wanted)


def vouched_for(mesh: Mesh, hosts: Iterable[str]) -> frozenset[str]:
    """The option ``take_back``, checked.

    :raises InvalidInput: it names no member.
    """
    named = {str(host) for host in hosts}
    strangers = sorted(named - set(mesh.clusters))
    if strangers:
        raise InvalidInput(
            f"take_back names {', '.join(strangers)}, no member of the mesh.", remedy=f"Its members are {', '.join(mesh.clusters)}."
        )
    return frozenset(named)


def context_of(observation: Observation, mesh: Mesh, params: Mapping[str, Any], now: datetime) -> CheckContext:
    """What the checks may know. Planning uses the same names and choices."""
    return CheckContext(
        mesh=mesh,
        facts=observation.facts,
        failures=observation.failures,
        now=now,
        accept=accepted_codes(params["accept"]),
        trust=params["trust"],
        node_addresses=params["node_addresses"],
        resolved=resolve(observation.facts.values()),
        repair=bool(params.get("repair", False)),
        take_back=vouched_for(mesh, params.get("take_back") or ()),
        tolerated=tolerated(mesh, observation.facts, observation.failures, params.get("max_failures")),
        max_failures=params.get("max_failures"),
        left=observation.former.facts if observation.former else {},
        left_failures=observation.former.failures if observation.former else {},
    )


def judge_and_plan(
    context: CheckContext, *, certificate_days: int = 365, renew_before_days: int = 30
) -> tuple[tuple[Finding, ...], Plan | None]:
    """Everything that speaks against connecting, and the plan; no plan while something blocks.

    Planning finds what only planning can: keys of others where ours should stand, links that no kind of trust fits.
    """
    findings = run_checks(context, "connect")
    if any(finding.blocks for finding in findings):
        return findings, None
    options = PlanOptions(
        certificate_days=certificate_days,
        renew_before_days=renew_before_days,
        trust=context.trust,
        node_addresses=context.node_addresses,
        resolved=context.resolved,
        repair=context.repair,
    )
    plan = plan_connect(context.mesh, context.facts, options, context.now, choices=context.choices, left=context.left)
    known = {(f.code, f.cluster, f.peer) for f in findings}
    findings = ordered((*findings, *(p for p in plan.problems if (p.code, p.cluster, p.peer) not in known)))
    return findings, None if plan.blocked else plan


def resolve(clusters: Iterable[ClusterFacts]) -> dict[str, tuple[str, ...]]:
    """Addresses of the DNS names under which mesh endpoints are announced, as seen from here. A name that is not found is left out."""
    names = {name for facts in clusters for name in _names(facts)}
    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        found = dict(zip(names, pool.map(_addresses, names), strict=True))
    return {name: addresses for name, addresses in found.items() if addresses}


def read_all(observation: Observation, mesh: Mesh, *, prove: bool = False) -> dict[str, ReaderFacts]:
    """What the readers of every cluster that answers say of its peers, by inventory name.

    A peer that does not answer here may well answer there: its name is then the one that was written for it.
    :param prove: see ``observe.health.read_links``.
    """
    facts = observation.facts

    def read(host: str) -> ReaderFacts:
        names = remembered_peers(mesh.binding, facts[host]) | {peer: cluster.name for peer, cluster in facts.items()}
        peers = {peer: names[peer] for peer in mesh.peers(host) if names.get(peer)}
        try:
            return read_links(observation.clusters[host], facts[host], peers, prove=prove)
        except ClusterError as error:
            return ReaderFacts(cluster=host, problems=(error.message,))

    hosts = [host for host in mesh.clusters if host in facts]
    with ThreadPoolExecutor(max_workers=observation.parallel) as pool:
        return dict(zip(hosts, pool.map(read, hosts), strict=True))


def not_seen(observation: Observation, mesh: Mesh) -> dict[str, ObserveFailure]:
    """Members of which nothing is known now, each with the reason: those that failed, and those that were not asked."""
    failed = {host: failure for host, failure in observation.failures.items() if host in mesh.clusters}
    why = "not asked: --limit, or the hosts pattern of the play, leaves it out"
    quiet = (host for host in mesh.clusters if host not in observation.facts and host not in failed)
    return {**failed, **{host: ObserveFailure(host=host, code="CM-TOPO-02", message=why) for host in quiet}}


def requests(observation: Observation) -> dict[str, int]:
    """API requests made so far, by inventory name."""
    return {host: sum(cluster.requests.values()) for host, cluster in observation.whole.clusters.items()}


def _names(facts: ClusterFacts) -> list[str]:
    override = split_host_port(facts.endpoint_override) if facts.endpoint_override else None
    if override is not None:
        named: tuple[str, ...] = (override[0],)
    elif facts.service is None or facts.service.type != "LoadBalancer" or facts.service.ingress_ips:
        named = ()
    else:
        named = facts.service.ingress_hostnames
    return [name for name in named if is_dns_name(name)]


def _addresses(name: str) -> tuple[str, ...]:
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple(sorted({str(answer[4][0]) for answer in answers}))

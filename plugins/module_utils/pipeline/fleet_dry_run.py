# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Dry runs of the operator for the fleet of one tenant: they observe and plan as the playbooks fleet and fleet_clusters do in check mode.

They write nothing, and need no Ansible: see pipeline/dry_run.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..base.errors import MeshError
from ..fleet.parse import parse_fleet
from ..members.parse import parse_members
from ..report.mesh_result import mesh_result
from .fleet import REVISIONS_LATER, FleetRun, read_fleet
from .members import MembersRun, run_members
from .options import FleetOptions, MembersOptions
from .outcome import Interrupted, Outcome, finding_of
from .participants import Participants
from .ports import real_ports

WORKLOAD_KEYS = ("workloads", "global_services", "fleets", "placement_policies", "leaving", "revisions", REVISIONS_LATER)
MEMBER_KEYS = ("clusters", "metrics")


@dataclass(frozen=True, kw_only=True)
class FleetDryRun:
    """Result of a dry run. ``steps``: writes that a playbook would make. ``result``: in the shape of ``mesh_result``."""

    steps: int
    result: Mapping[str, Any]


def dry_run_workloads(raw: Mapping[str, Any], who: Participants, known_revisions: Collection[str] = ()) -> FleetDryRun:
    """Observe and plan the workloads of a tenant. What stops that is a finding of the result, and raises nothing.

    :param raw: the variable ``fleet``.
    :param known_revisions: names of revisions that the caller has: the others are in ``revisions`` of the result.
    """

    def run() -> Outcome:
        given, ports = parse_fleet(raw, who.hosts), real_ports()
        options = FleetOptions(wait=False)
        return read_fleet(
            FleetRun(
                request=given.request,
                karmada=given.karmada,
                options=options,
                who=who,
                ports=ports,
                now=ports.now(),
                known_revisions=frozenset(known_revisions),
            )
        )

    return _dry_run(run, WORKLOAD_KEYS)


def dry_run_members(raw: Mapping[str, Any], who: Participants, choices: Mapping[str, Any]) -> FleetDryRun:
    """Observe and plan the clusters of a tenant as members of Karmada. What stops that is a finding of the result, and raises nothing.

    :param raw: the variable ``fleet``.
    :param choices: options of the module karmada_cluster that differ from their defaults.
    """

    def run() -> Outcome:
        options, ports = MembersOptions.of(choices, wait=False), real_ports()
        request = parse_members(raw, who.hosts, options.clusters)
        return run_members(MembersRun(request=request, options=options, who=who, ports=ports, now=ports.now(), check_mode=True))

    return _dry_run(run, MEMBER_KEYS)


def _dry_run(run: Callable[[], Outcome], keys: Collection[str]) -> FleetDryRun:
    try:
        outcome = run()
    except Interrupted as stopped:
        outcome = _failed(stopped.outcome, stopped.error)
    except MeshError as error:
        outcome = _failed(Outcome(), error)
    found = outcome.to_result()
    steps = len((outcome.plan or {}).get("steps") or ())
    return FleetDryRun(steps=steps, result={**mesh_result(found, {}), **{key: found[key] for key in keys if key in found}})


def _failed(outcome: Outcome, error: Exception) -> Outcome:
    if not isinstance(error, MeshError):
        raise error
    return replace(outcome, plan=None, findings=(*outcome.findings, finding_of(error)), error=str(error))

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who takes part in a run that plans: how many may fail, whom a limit leaves out, and who is no member any more but has to be looked at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..module_utils.absence import can_connect
from ..module_utils.errors import InvalidInput
from ..module_utils.facts import ObserveFailure
from ..module_utils.findings import CheckContext
from ..module_utils.kube import ClusterAccess
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation, observe
from ..module_utils.ownership import former_members
from ..module_utils.registry import registry_name
from .mesh_action import Call
from .play import Play, accesses, left_out
from .report import Line


def check_breadth(params: Mapping[str, Any]) -> None:
    """:raises InvalidInput: ``parallel`` or ``max_failures`` is too small."""
    for name, least in (("parallel", 1), ("max_failures", 0)):
        value = params[name]
        if value is not None and value < least:
            raise InvalidInput(f"{name} is {value}.", remedy=f"Use {least} or more.")


def failures_left(max_failures: int | None, mesh: Mesh, observation: Observation) -> int | None:
    """How many clusters may yet fail while they are written; those that did not answer count already. None: any number."""
    silent = sum(host in observation.failures for host in mesh.clusters)
    return None if max_failures is None else max(0, max_failures - silent)


def require_two(play: Play, context: CheckContext) -> None:
    """:raises InvalidInput: a limit leaves members with which nothing can be linked: a first connection needs both ends."""
    if context.left_out and context.facts and not can_connect(context.mesh, context.facts):
        why = f'--limit "{play.limit}"' if play.limit else "The hosts pattern of the play"
        raise InvalidInput(
            f"{why} leaves {', '.join(context.facts)} without a peer to be linked with, and no link there yet.",
            remedy="Run without --limit, or let it name two members that are linked.",
        )


def look_at_former(call: Call, mesh: Mesh, observation: Observation, more: Collection[str] = ()) -> None:
    """Observe those that members hold links to and that the mesh no longer names, and ``more``, where they take part in the play."""
    known = dict.fromkeys([*former_members(mesh, observation.facts), *more])
    former = [host for host in known if host in call.play.hosts and host not in mesh.clusters]
    if not former:
        return
    reached, broken = _accesses(call.play, former)
    observation.former = observe(reached, parallel=call.params["parallel"], registry=registry_name(mesh.binding))
    observation.former.failures.update(broken)


def _accesses(play: Play, hosts: list[str]) -> tuple[list[ClusterAccess], dict[str, ObserveFailure]]:
    """A host variable that is wrong says no more than that a cluster, which is no member, cannot be reached."""
    reached: list[ClusterAccess] = []
    broken: dict[str, ObserveFailure] = {}
    for host in hosts:
        try:
            reached.extend(accesses(play, [host]))
        except InvalidInput as error:
            broken[host] = ObserveFailure(host=host, code=error.code, message=error.message, remedy=error.remedy)
    return reached, broken


def ways_out(observation: Observation, failed: Collection[str]) -> list[str]:
    """What to do after writes failed. A cluster that left may be forgotten by its peers by then, so that the next run does not find it."""
    gone = [host for host in sorted(failed) if observation.former is not None and host in observation.former.facts]
    again = [] if set(failed) <= set(gone) else ["Run again when the cause is mended."]
    if not gone:
        return again
    # One at a time: a limit that holds two of them would keep the links between them.
    limits = ", then ".join(f"--limit {host}" for host in gone)
    return [*again, f"To free {', '.join(gone)}, run disconnect with binding.clusterRefs naming them once more, and {limits}."]


def left_out_lines(play: Play, mesh: Mesh) -> list[Line]:
    """Who was not contacted, and so still holds what was written in it."""
    outside = left_out(play, mesh)
    return [Line(f"not asked, and left as they are: {', '.join(outside)}", "yellow")] if outside else []

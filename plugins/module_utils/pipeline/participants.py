# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Participants of a run: which members a limit leaves out, which former members are observed, and how many clusters may fail."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol

from ..base.errors import InvalidInput
from ..base.tables import count
from ..checks.context import CheckContext
from ..findings.finding import Finding, Severity, ordered
from ..findings.wording import listed
from ..items.scene import Scene
from ..kubeconfig.access import ClusterAccess
from ..leases.registry import registry_name
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ObserveFailure
from ..mesh.ownership.objects import former_members
from ..mesh.tolerance import OWN_FAULT, REFUSED, can_connect
from ..observe import Observation
from .options import ConnectOptions, Options
from .outcome import failure_findings
from .ports import Ports
from .shown import Sentence

LEFT_OUT: Final = "CM-TOPO-02"
LEFT: Final = "Objects of items there stay as they are; items are applied in the other clusters."


class Participants(Protocol):
    """The clusters that take part in a run, and how they are reached."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Inventory names of the clusters that take part."""

    @property
    def limit(self) -> str:
        """Text of --limit, with which the user chose among the hosts; "" without one."""

    def access(self, names: Sequence[str]) -> tuple[ClusterAccess, ...]:
        """Return how each cluster is reached, in the order of ``names``.

        :raises InvalidInput: when a variable of a host is missing or wrong.
        """


def participating_members(who: Participants, mesh: Mesh) -> tuple[str, ...]:
    """Return the members that take part. The others are not contacted."""
    return tuple(name for name in mesh.clusters if name in who.hosts)


def left_out(who: Participants, mesh: Mesh) -> tuple[str, ...]:
    """Return the members that --limit, or the hosts pattern of the play, leaves out."""
    return tuple(name for name in mesh.clusters if name not in who.hosts)


def left_out_sentences(who: Participants, mesh: Mesh) -> list[Sentence]:
    """Return a sentence that names the members that were not contacted, which keep what was written to them; [] when there are none."""
    outside = left_out(who, mesh)
    return [Sentence(f"not contacted, and left as they are: {', '.join(outside)}", "attention")] if outside else []


def check_breadth(options: Options) -> None:
    """Validate ``parallel`` and ``max_failures``.

    :raises InvalidInput: when one of them is too small.
    """
    for name, value, least in (("parallel", options.parallel, 1), ("max_failures", options.max_failures, 0)):
        if value is not None and value < least:
            raise InvalidInput(f"{name} is {value}.", remedy=f"Use {least} or more.")


def silence(who: Participants, mesh: Mesh, failed: Collection[str], max_failures: int | None) -> str:
    """Return the sentence with which a run ends in which members were silent; "" if none was, or ``max_failures`` allows as many.

    A member that the inventory itself calls unavailable is not missed, and one that a limit leaves out was not asked.

    :param failed: inventory names of the clusters that did not answer or could not be read.
    """
    silent = [host for host in mesh.clusters if host in failed and host in who.hosts and not who.access([host])[0].unavailable]
    if len(silent) <= (max_failures or 0):
        return ""
    allowed = "none may be silent" if max_failures is None else f"max_failures allows {max_failures}"
    return f"No answer from {count(len(silent), 'member')} ({listed(silent)}), and {allowed}; docs/exit-statuses.md says how to allow it."


def failures_left(max_failures: int | None, mesh: Mesh, observation: Observation) -> int | None:
    """Return how many clusters may still fail during the writes; those that did not answer count already. None: any number."""
    silent = sum(host in observation.failures for host in mesh.clusters)
    return None if max_failures is None else max(0, max_failures - silent)


def leaving_clusters(who: Participants, mesh: Mesh, options: ConnectOptions, disconnect_option: str) -> frozenset[str] | None:
    """Return the clusters that leave the mesh; None: all, also when only one would stay.

    A cluster that a limit leaves out is not contacted. The clusters inside the limit withdraw their links to it, so it counts as leaving.

    :param disconnect_option: how the user asks to disconnect, for instance ``state=absent``; named in errors.
    :raises InvalidInput: when ``clusters`` names a cluster that is no member, is given without the purpose to disconnect, or a limit leaves
        out clusters that stay; or when a number is too small.
    """
    check_breadth(options)
    named, outside = options.clusters, left_out(who, mesh)
    if not named:
        return _none_if_all(mesh, outside) if options.purpose == "disconnect" and outside else None
    if options.purpose != "disconnect":
        raise InvalidInput(
            f"clusters is for {disconnect_option}: it names those that leave.", remedy="Members are named in binding.clusterRefs."
        )
    strangers = [name for name in named if name not in mesh.clusters]
    if strangers:
        raise InvalidInput(
            f"clusters names {', '.join(strangers)}, no member of the mesh.", remedy=f"Its members are {', '.join(mesh.clusters)}."
        )
    kept = [name for name in outside if name not in named]
    if kept:
        raise InvalidInput(
            f"--limit, or the hosts pattern of the play, leaves out {', '.join(kept)}, which would keep links to the clusters that leave.",
            remedy="Let it leave out only clusters that clusters names.",
        )
    return _none_if_all(mesh, named)


def _none_if_all(mesh: Mesh, leaving: Collection[str]) -> frozenset[str] | None:
    return frozenset(leaving) if len(set(mesh.clusters) - set(leaving)) > 1 else None


def require_two(who: Participants, context: CheckContext) -> None:
    """Verify that a limit leaves members that can be linked: a first connection needs both ends.

    :raises InvalidInput: when no link is possible between the members that take part.
    """
    if context.left_out and context.facts and not can_connect(context.mesh, context.facts):
        why = f'--limit "{who.limit}"' if who.limit else "The hosts pattern of the play"
        raise InvalidInput(
            f"{why} leaves {', '.join(context.facts)} without a peer to be linked with, and no link there yet.",
            remedy="Run without --limit, or let it name two members that are linked.",
        )


def observe_former(
    ports: Ports,
    who: Participants,
    mesh: Mesh,
    observation: Observation,
    *,
    parallel: int,
    more: Collection[str] = (),
    reads_lock: Mapping[str, Any] | None = None,
) -> None:
    """Observe former members to which members still hold links, and ``more``, and set ``observation.former`` if it is not set yet.

    Clusters that do not take part in the run are not observed.

    :param reads_lock: see ``Run.reads_lock``.
    """
    if observation.former is not None:
        return
    known = dict.fromkeys([*former_members(mesh, observation.facts), *more])
    former = [host for host in known if host in who.hosts and host not in mesh.clusters]
    if not former:
        return
    reached, broken = _accesses(who, former)
    observation.former = ports.observe(reached, parallel=parallel, registry=registry_name(mesh.binding), **(reads_lock or {}))
    observation.former.failures.update(broken)


def _accesses(who: Participants, hosts: list[str]) -> tuple[list[ClusterAccess], dict[str, ObserveFailure]]:
    """Return how the hosts are reached, and a failure for each whose variables are wrong: a former member must not stop the run."""
    reached: list[ClusterAccess] = []
    broken: dict[str, ObserveFailure] = {}
    for host in hosts:
        try:
            reached.extend(who.access([host]))
        except InvalidInput as error:
            broken[host] = ObserveFailure(host=host, code=error.code, message=error.message, remedy=error.remedy)
    return reached, broken


def recovery_sentences(observation: Observation, failed: Collection[str]) -> list[str]:
    """Return sentences that say what to do after failed writes.

    The peers of a former member may hold no link to it any more, so that the next run would not find it: it has to be named again.
    """
    left = [host for host in sorted(failed) if observation.former is not None and host in observation.former.facts]
    again = [] if set(failed) <= set(left) else ["Run again when the cause is resolved."]
    if not left:
        return again
    # One at a time: a limit that holds two of them would keep the links between them.
    limits = ", then ".join(f"--limit {host}" for host in left)
    return [*again, f"To free {', '.join(left)}, run disconnect with them in binding.clusterRefs once more, and {limits}."]


def silent_findings(scene: Scene, former: Observation | None, *, leaving: bool, max_failures: int | None) -> tuple[Finding, ...]:
    """Return a finding per cluster that did not answer or could not be read; blocking ones stop a run of items before its first write.

    :param leaving: the items are removed, which must work with broken and dead clusters as long as one answers.
    :param max_failures: how many clusters may fail in any way. None: any number that do not answer, but none that answers and refuses: its
        RBAC or its kubeconfig is wrong, which waiting does not fix.
    """
    failures = [failure for failure in scene.failures.values() if failure.code != LEFT_OUT]
    many = max_failures is not None and len(failures) > max_failures and not leaving
    stopping: list[ObserveFailure] = []
    rest: list[ObserveFailure] = []
    for failure in failures:
        stops = not scene.hosts or many or _stops(failure, leaving=leaving, allowed=max_failures is not None)
        (stopping if stops else rest).append(failure)
    why = f"{len(failures)} members do not answer, and max_failures allows {max_failures}." if many else ""
    left = former.failures.values() if former else ()
    return ordered((*failure_findings(stopping, Severity.BLOCKING, why), *failure_findings((*rest, *left), Severity.REMEDIABLE, LEFT)))


def _stops(failure: ObserveFailure, *, leaving: bool, allowed: bool) -> bool:
    return failure.code in OWN_FAULT or (failure.code in REFUSED and not leaving and not allowed)

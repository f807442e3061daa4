# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Wait until every link is ready or the time is up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..base.errors import ClusterError
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts, ReaderFacts
from ..mesh.link_stage import LinkStage
from .links import LinkState, link_stage, link_states

FIRST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 2.0
"""Seconds. A link is ready 0.1 to 0.2 s after its files appear; what takes long is kubelet's projection of them, up to two minutes."""


@dataclass(frozen=True, kw_only=True)
class WaitResult:
    """Result of a wait. ``elapsed`` is in seconds; ``last`` has for every link its stage, the last error, and since when."""

    readers: Mapping[str, ReaderFacts]
    ready: bool
    elapsed: float
    last: tuple[LinkState, ...]


def wait_for_links(
    read: Callable[[], Mapping[str, ReaderFacts]],
    mesh: Mesh,
    *,
    timeout: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    facts: Mapping[str, ClusterFacts] | None = None,
    progress: Callable[[LinkState], None] | None = None,
    prove: Callable[[], Mapping[str, ReaderFacts]] | None = None,
    settled: bool = False,
) -> WaitResult:
    """Read until all links are ready or ``timeout`` seconds have passed; at least once, and once more when the time is up.

    The wait ends earlier when the remaining links cannot be read for lack of rights.

    :param read: queries the readers of all clusters. A ClusterError of it is a reading without answers; it is tried again.
    :param clock: seconds, monotonic.
    :param facts: see ``links.link_states``.
    :param progress: called with each link whose stage changed, the first time included.
    :param prove: as ``read``, and opens new connections. Called when all links are reported ready, since the wait succeeds only if the
        connections succeed too; and when the time is up.
    :param settled: nothing was written, so the links most likely work: the first reading proves at once, instead of a second one after it.
    """
    start, pause = clock(), FIRST_PAUSE
    readers: Mapping[str, ReaderFacts] = {}
    states: tuple[LinkState, ...] = ()
    at_once = settled or timeout <= 0
    while True:
        proving, at_once = prove is not None and at_once, False
        readers, found, trouble = _query(prove if prove is not None and proving else read, mesh, facts)
        if prove is not None and not proving and found and (clock() - start >= timeout or all(state.ready for state in found)):
            readers, found, trouble = _query(prove, mesh, facts)
        elapsed = clock() - start
        states = _with_since(found, states, elapsed, trouble)
        _report_progress(progress, states, elapsed)
        ready = bool(states) and all(state.ready for state in states)
        if ready or elapsed >= timeout or _in_vain(states, readers):
            return WaitResult(readers=readers, ready=ready, elapsed=elapsed, last=states)
        sleep(min(pause, timeout - elapsed))
        pause = min(2 * pause, LONGEST_PAUSE)


def _query(
    ask: Callable[[], Mapping[str, ReaderFacts]], mesh: Mesh, facts: Mapping[str, ClusterFacts] | None
) -> tuple[Mapping[str, ReaderFacts], tuple[LinkState, ...], str]:
    """Return (the readers, the links, the reason why no reader could be queried or "")."""
    try:
        readers = ask()
    except ClusterError as error:
        return {}, link_states(mesh, {}, facts=facts), error.clause
    return readers, link_states(mesh, readers, facts=facts), ""


def _in_vain(states: tuple[LinkState, ...], readers: Mapping[str, ReaderFacts]) -> bool:
    """Return whether waiting is in vain: for all links that are not ready, RBAC forbids to query the readers that did not report ready."""
    late = [state for state in states if not state.ready]
    return bool(late) and all(_is_forbidden(state, readers.get(state.cluster)) for state in late)


def _is_forbidden(state: LinkState, reader: ReaderFacts | None) -> bool:
    if reader is None or not reader.forbidden:
        return False
    return all(link_stage(link) is LinkStage.READY for link in reader.links if link.peer == state.peer)


def _with_since(states: tuple[LinkState, ...], before: tuple[LinkState, ...], elapsed: float, trouble: str) -> tuple[LinkState, ...]:
    """Return the states with the time at which each link entered its stage, and the reason why no reader could be queried."""
    entered = {(state.cluster, state.peer, state.stage): state.seconds for state in before}
    dated = (replace(state, seconds=entered.get((state.cluster, state.peer, state.stage), elapsed)) for state in states)
    return tuple(replace(state, error=trouble) if trouble and state.stage is LinkStage.UNKNOWN else state for state in dated)


def _report_progress(progress: Callable[[LinkState], None] | None, states: tuple[LinkState, ...], elapsed: float) -> None:
    """Call ``progress`` for each link that entered its stage in this reading."""
    if progress is None:
        return
    for state in states:
        if state.seconds == elapsed:
            progress(state)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Ask again and again until every link is ready or the time is up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from .errors import ClusterError
from .facts import ClusterFacts, ReaderFacts
from .model import Mesh
from .status import LinkState, Stage, link_stage, link_states

FIRST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 2.0
"""Seconds. A link is ready 0.1 to 0.2 s after its files appear; what takes long is kubelet's projection of them, up to two minutes."""


@dataclass(frozen=True, kw_only=True)
class WaitResult:
    """How the wait ended. ``elapsed`` is in seconds; ``last`` names for every link its stage, the last error, and since when."""

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
    """Read until all links are ready or ``timeout`` seconds have passed; at least once, and once more when the time is up. It ends earlier
    when what is left cannot be asked about for lack of rights.

    :param read: asks the readers of all clusters. A ClusterError of it is a reading without answers; it is tried again.
    :param clock: seconds, monotonic.
    :param facts: see ``status.link_states``.
    :param progress: told of each link when its stage changes, the first time included.
    :param prove: as ``read``, and has new connections opened. Asked when all links call themselves ready, as the wait ends well only when
        it finds them so too; and when the time is up.
    :param settled: nothing was written, so the links most likely stand: the first reading proves at once, instead of a second one after it.
    """
    start, pause = clock(), FIRST_PAUSE
    readers: Mapping[str, ReaderFacts] = {}
    states: tuple[LinkState, ...] = ()
    at_once = settled or timeout <= 0
    while True:
        proving, at_once = prove is not None and at_once, False
        readers, found, trouble = _asked(prove if prove is not None and proving else read, mesh, facts)
        if prove is not None and not proving and found and (clock() - start >= timeout or all(state.ready for state in found)):
            readers, found, trouble = _asked(prove, mesh, facts)
        elapsed = clock() - start
        states = _since(found, states, elapsed, trouble)
        _tell(progress, states, elapsed)
        ready = bool(states) and all(state.ready for state in states)
        if ready or elapsed >= timeout or _in_vain(states, readers):
            return WaitResult(readers=readers, ready=ready, elapsed=elapsed, last=states)
        sleep(min(pause, timeout - elapsed))
        pause = min(2 * pause, LONGEST_PAUSE)


def _asked(
    ask: Callable[[], Mapping[str, ReaderFacts]], mesh: Mesh, facts: Mapping[str, ClusterFacts] | None
) -> tuple[Mapping[str, ReaderFacts], tuple[LinkState, ...], str]:
    """(the readers, the links, why nobody could be asked or "")."""
    try:
        readers = ask()
    except ClusterError as error:
        return {}, link_states(mesh, {}, facts=facts), error.message
    return readers, link_states(mesh, readers, facts=facts), ""


def _in_vain(states: tuple[LinkState, ...], readers: Mapping[str, ReaderFacts]) -> bool:
    """Is everybody who may be asked about the links that are left ready, and the others forbidden by RBAC? Time does not change that."""
    late = [state for state in states if not state.ready]
    return bool(late) and all(_blind(state, readers.get(state.cluster)) for state in late)


def _blind(state: LinkState, reader: ReaderFacts | None) -> bool:
    if reader is None or not reader.forbidden:
        return False
    return all(link_stage(link) is Stage.READY for link in reader.links if link.peer == state.peer)


def _since(states: tuple[LinkState, ...], before: tuple[LinkState, ...], elapsed: float, trouble: str) -> tuple[LinkState, ...]:
    """With the time at which each link entered its stage, and the reason why nobody could be asked."""
    entered = {(state.cluster, state.peer, state.stage): state.seconds for state in before}
    dated = (replace(state, seconds=entered.get((state.cluster, state.peer, state.stage), elapsed)) for state in states)
    return tuple(replace(state, error=trouble) if trouble and state.stage is Stage.UNKNOWN else state for state in dated)


def _tell(progress: Callable[[LinkState], None] | None, states: tuple[LinkState, ...], elapsed: float) -> None:
    """A link whose stage is as old as this reading has just entered it."""
    if progress is None:
        return
    for state in states:
        if state.seconds == elapsed:
            progress(state)

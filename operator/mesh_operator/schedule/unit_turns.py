# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Turns of units of work under way: what a turn asks for next, its early end by another thread, and errors that stop no other turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, Defect, WriteConflict

from ..base.cancel import Cancel
from ..base.keys import UnitKey
from ..base.log import log
from ..base.serve import Metrics
from .queue import Urgency

Key = TypeVar("Key", bound=UnitKey)


@dataclass(frozen=True, kw_only=True)
class Next:
    """Result of one turn: seconds until the next one (None: at the next change), its urgency, and whether this one failed."""

    seconds: float | None
    urgency: Urgency = Urgency.RESYNC
    failed: bool = False


AT_ONCE: Final = Next(seconds=0.0, urgency=Urgency.CHANGE)


class Interruptible(Protocol):
    """Process that answers a question of the turn. ``dry_runs.DryRunProcess`` is one."""

    def interrupt(self) -> None:
        """Make the question fail."""
        ...


class UnitTurn:
    """Turn of one unit. ``removes``: it removes what the unit made, so a deletion is no reason to end it. ``ended``: early.

    :param stop: ends all turns.
    """

    def __init__(self, stop: Cancel) -> None:
        self._stop, self.ended = stop, False
        self._process: Interruptible | None = None
        self.removes = False

    @property
    def process(self) -> Interruptible | None:
        """Process that answers a question of the turn; None: none does. That of a turn that has ended already answers nothing."""
        return self._process

    @process.setter
    def process(self, process: Interruptible | None) -> None:
        self._process = process
        if process is not None and self.is_set():  # while no process was there that ``end`` could interrupt
            process.interrupt()

    def is_set(self) -> bool:
        """Return whether the turn has to end now, as a run asks it."""
        return self.ended or self._stop.is_set()

    def end(self) -> None:
        """End the turn: its dry run fails, and its run is canceled."""
        self.ended = True
        if (process := self._process) is not None:
            process.interrupt()


class UnitTurns(Generic[Key]):
    """Turns under way, by unit. Thread-safe for different units; a unit has one turn at a time (queue.py)."""

    def __init__(self, stop: Cancel, metrics: Metrics) -> None:
        self._stop, self._metrics = stop, metrics
        self._turns: dict[Any, UnitTurn] = {}

    def take(self, key: Key, step: Callable[[Key, UnitTurn], Next]) -> Next:
        """Do one turn. Errors of kcp are a failure that is tried again; nothing that a cluster or a tenant does raises."""
        turn = self._turns[key] = UnitTurn(self._stop)
        try:
            return step(key, turn)
        except WriteConflict:  # another writer changed the object; the watch brings its new state
            return Next(seconds=1.0)
        except Exception as error:  # one tenant's unit never stops the others'
            code = error.code if isinstance(error, ClusterError) else Defect.code
            self._metrics.errors.labels(code).inc()
            log("reconcile_failed", workspace=key.workspace, namespace=key.namespace, name=key.name, code=code, error=error)
            return Next(seconds=None, failed=True)
        finally:
            del self._turns[key]

    def get(self, key: Key) -> UnitTurn | None:
        """Return the turn of a unit; None if it has none now."""
        return self._turns.get(key)

    def end(self, key: Key) -> None:
        """End the turn of a unit early, from another thread: it comes again, in the lane of slow units."""
        turn = self._turns.get(key)
        if turn is not None and not turn.ended:
            log("turn_ended_early", workspace=key.workspace, namespace=key.namespace, name=key.name)
            turn.end()

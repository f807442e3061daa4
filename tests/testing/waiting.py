# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Wait in a test for what another process does, as long as it makes progress.

wait_for(lambda: shop.phase("ClusterMeshBinding", "edge"), equals("Connected"), what="the mesh is connected", progress=operator.progress)
wait_for(lambda: not folder.exists(), what="the folder is gone")

A slow machine must not fail a test, and a stuck one must not hang it. So the deadline follows progress: the wait ends only when neither
the observed value nor the progress token has changed for `STALL` seconds, or when both kept changing for `ROUNDS` such times without
coming to an end. Seconds are those of a machine with nothing else to do; tests.lab.patience says how many real ones that is.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Required, TypedDict, TypeVar, Unpack, overload

from tests.lab.patience import slowness

STALL: Final = 60.0  # seconds without any change
PATIENT: Final = 60.0
"""Seconds for an answer that does come, where a library wants one number: a test that passes never waits that long."""
ROUNDS: Final = 10  # stalls that a wait may last when something changes all the time, as the log of a server that retries does
_EVERY: Final = 0.1  # seconds between two probes
_LATE: Final = 0.3  # the same of a wait that has lasted for a while: a probe of servers costs the processors that they need
_PART: Final = 20  # of what a wait has lasted, as far as between the two
_LONGEST: Final = 2.0
_SHARE: Final = 4  # times as long as a probe is the time until the next one
_KEPT: Final = 5  # last values that a failure shows
_PROBES: Final = 3  # without a change at least, however long each takes
_LONG: Final = 2000  # characters of each

_T = TypeVar("_T")


class NeverCame(AssertionError):
    """What a test waited for did not come about."""


@dataclass(frozen=True)
class Timing:
    """Clock of a wait; tests of `wait_for` have their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    slowness: Callable[[], float] = slowness


_REAL: Final = Timing()


def equals(wanted: _T) -> Callable[[_T], bool]:
    """Return the predicate that holds for values equal to ``wanted``."""
    return lambda value: value == wanted


class Options(TypedDict, total=False):
    """Keyword arguments of `wait_for`, described there."""

    what: Required[str]
    progress: Callable[[], object]
    explain: Callable[[], str]
    hopeless: Callable[[], str]
    passing: tuple[type[Exception], ...]
    stall: float
    every: float | None
    timing: Timing


@overload
def wait_for(probe: Callable[[], _T | None], **options: Unpack[Options]) -> _T: ...


@overload
def wait_for(probe: Callable[[], _T], holds: Callable[[_T], object], **options: Unpack[Options]) -> _T: ...


def wait_for(
    probe: Callable[[], Any],
    holds: Callable[[Any], object] = bool,
    *,
    what: str,
    progress: Callable[[], object] = lambda: None,
    explain: Callable[[], str] = str,
    hopeless: Callable[[], str] = str,
    passing: tuple[type[Exception], ...] = (),
    stall: float = STALL,
    every: float | None = None,
    timing: Timing = _REAL,
) -> Any:
    """Return the first value of ``probe`` for which ``holds`` is true; the first true value when ``holds`` is not given.

    :param what: completes "It did not come about that ...", such as "the mesh is connected".
    :param progress: returns a token that changes as long as a process works towards it: the size of a log, counters, the text of a status.
    :param explain: text for the failure, such as the log of the process that was waited for.
    :param hopeless: returns why it cannot come any more, for example that the process ended; empty as long as it can.
    :param passing: errors of ``probe`` that mean "not yet".
    :param stall: seconds without a change after which the wait fails; rarely worth setting, since only a failure waits that long.
    :param every: seconds between two probes, for what lasts a moment only. Else probes take no more than a fifth of the time: many start a
        program in a pod, and would take the time from what they wait for.
    :raises NeverCame: nothing changed for ``stall`` seconds, or it kept changing for `ROUNDS` times that, or it is hopeless.
    """
    seen: deque[str] = deque(maxlen=_KEPT)
    token: object = None
    probes, quiet, total = 0, 0.0, 0.0
    moment = timing.now()
    while True:
        began = timing.now()
        why = hopeless()  # before the probe, which so is the last one after the end
        try:
            value = probe()
        except passing as error:
            shown = f"{type(error).__name__}: {error}"
        else:
            if holds(value):
                return value
            shown = repr(value)
        latest, now = progress(), timing.now()
        elapsed, moment = (now - moment) / timing.slowness(), now
        total += elapsed
        if not seen or (seen[-1], token) != (shown, latest):
            probes, quiet = 0, 0.0
        else:
            probes, quiet = probes + 1, quiet + elapsed
        if not seen or seen[-1] != shown:
            seen.append(shown)
        token = latest
        if quiet > stall and probes >= _PROBES:
            why = why or f"nothing changed for {stall:g} s"
        elif total > stall * ROUNDS:
            why = why or f"it kept changing for {stall * ROUNDS:g} s"
        if why:
            raise NeverCame(_failure(what, why, seen, token, explain))
        pause = max(_EVERY, min(total / _PART, _LATE), _SHARE * (timing.now() - began))
        timing.sleep(min(pause, _LONGEST) if every is None else every)


def _failure(what: str, why: str, seen: deque[str], token: object, explain: Callable[[], str]) -> str:
    values = [f"  {text if len(text) <= _LONG else text[:_LONG] + ' ...'}" for text in seen]
    lines = [f"It did not come about that {what}: {why}.", "Last values seen, oldest first:", *values]
    lines += [f"Last progress: {token!r}"[:_LONG]] if token is not None else []
    return "\n".join([*lines, *filter(None, [explain()])])

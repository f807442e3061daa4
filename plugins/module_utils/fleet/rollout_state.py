# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The state of a rollout, as one annotation of the workload's PropagationPolicy holds it. Pure.

It stands in the object that has the suspension too: one write changes both, so that no kill can part them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from ..base.json_fields import mapping, number, parse_time, text, texts
from ..base.json_reader import load_json
from .names import DOMAIN
from .revisions import MOST

STATE_ANNOTATION: Final = f"{DOMAIN}/rollout"

COMPLETE: Final = "Complete"
PREPARING: Final = "Preparing"
ROLLING: Final = "Rolling"
REQUESTED: Final = "Requested"
"""Reason of an eviction for which a user asked."""
EVICT: Final = "Evict"
RETURN: Final = "Return"
RESULTS: Final = ("Accepted", "Complete", "Invalid")
REMEMBERED: Final = 30
"""Ids of operations that are kept besides the last one. The annotation is read with every observation, and 30 ids are 3 kB at most."""


class Eviction(NamedTuple):
    """Why and since when (RFC 3339) a workload has left a member, and the revision that it had then."""

    reason: str
    since: str
    revision: int


class Rollback(NamedTuple):
    """Revision whose content is wanted, for as long as the spec is the one that it took the place of."""

    to: int
    spec: str  # digest of the content of the spec


class OperationState(NamedTuple):
    """Last operation, which is never carried out again. ``result``: Accepted, Complete or Invalid."""

    kind: str = ""
    id: str = ""
    revision: int = 0
    result: str = ""
    message: str = ""
    cluster: str = ""  # KubernetesCluster that it is about
    to: int = 0  # revision that a rollback asks for

    @property
    def what(self) -> str:
        """What it does, without its id: "Rollback 3"."""
        return what_of(self.kind, self.to, self.cluster)

    @property
    def is_rolled_out(self) -> bool:
        """Whether a rollout carries it out; else an eviction or its end does."""
        return self.kind not in (EVICT, RETURN)


NO_OPERATION: Final = OperationState()


def what_of(kind: str, to_revision: int, cluster: str) -> str:
    """Return an operation without its id, as two of one id are compared by it."""
    return " ".join(filter(None, (kind, str(to_revision or ""), cluster)))


@dataclass(frozen=True, kw_only=True)
class RolloutState:
    """Where the rollout of a workload is. Times are RFC 3339, or ``plan.steps.NOW`` in a state that is to be written."""

    revision: int = 0  # that is rolled out, or was last
    origin: int = 0  # revision that it takes the place of
    phase: str = COMPLETE
    waves: tuple[tuple[str, ...], ...] = ()  # members
    wave: int = 0  # the first is 1
    wave_started: str = ""
    settled_since: str = ""
    skipped: tuple[str, ...] = ()
    held: bool = False  # paused by hand, beside the spec
    restart: str = ""  # id of the last restart
    operation: OperationState = NO_OPERATION
    earlier: Mapping[str, str] = field(default_factory=dict)  # ids of operations before the last one, the oldest first -> what each did
    rollback: Rollback | None = None
    evicted: Mapping[str, Eviction] = field(default_factory=dict)
    unhealthy: Mapping[str, str] = field(default_factory=dict)  # member -> since when the workload is unhealthy there
    links: Mapping[str, str] = field(default_factory=dict)  # member -> since when its links ask for a move (evictions.py)

    @property
    def suspended(self) -> tuple[str, ...]:
        """Members that must not get the new template yet, in the order of names."""
        later = self.waves[1:] if self.phase == PREPARING else self.waves[self.wave :] if self.phase == ROLLING else ()
        return tuple(sorted({member for wave in later for member in wave}))

    def with_operation(self, operation: OperationState) -> RolloutState:
        """Return the state with a new operation, which remembers the ids of those before."""
        before = {self.operation.id: self.operation.what} if self.operation.id else {}
        kept = list({**self.earlier, **before}.items())[-REMEMBERED:]
        return replace(self, operation=operation, earlier=dict(kept))

    @property
    def left_by_rules(self) -> int:
        """Number of members that were left because of their state."""
        return sum(eviction.reason != REQUESTED for eviction in self.evicted.values())

    def to_text(self) -> str:
        """Return the value of the annotation."""
        data: dict[str, Any] = {
            "revision": self.revision,
            "origin": self.origin,
            "phase": self.phase,
            "waves": [list(wave) for wave in self.waves],
            "wave": self.wave,
            "waveStarted": self.wave_started,
            "settledSince": self.settled_since,
            "skipped": list(self.skipped),
            "held": self.held,
            "restart": self.restart,
            "operation": {key: value for key, value in self.operation._asdict().items() if value},
            "earlier": dict(self.earlier),
            "rollback": self.rollback._asdict() if self.rollback else {},
            "evicted": {member: eviction._asdict() for member, eviction in sorted(self.evicted.items())},
            "unhealthy": dict(sorted(self.unhealthy.items())),
            "links": dict(sorted(self.links.items())),
        }
        return json.dumps({key: value for key, value in data.items() if value not in ("", 0, [], {}, False)}, separators=(",", ":"))


def state_of(annotation: str) -> RolloutState | None:
    """Return the state of an annotation's value, None if it is not one: then the rollout goes on from the live template.

    What is returned, other programs may have written; its parts are in their ranges, and written again they are read alike.
    """
    try:
        data = mapping(load_json(annotation))
    except ValueError:
        return None
    phase, revision, waves = text(data, "phase"), _position(data, "revision"), data.get("waves")
    found = tuple(texts({"wave": wave}, "wave") for wave in waves) if isinstance(waves, list) else ()
    wave = number(data, "wave")
    ranges = {COMPLETE: range(len(found) + 1), PREPARING: range(1 if found else 0), ROLLING: range(1, len(found) + 1)}
    if not revision or phase not in ranges or wave not in ranges[phase]:
        return None
    rollback = mapping(data, "rollback")
    return RolloutState(
        revision=revision,
        origin=_position(data, "origin"),
        phase=phase,
        waves=found,
        wave=wave,
        wave_started=_time(data, "waveStarted"),
        settled_since=_time(data, "settledSince"),
        skipped=texts(data, "skipped"),
        held=data.get("held") is True,
        restart=text(data, "restart"),
        operation=_operation(mapping(data, "operation")),
        earlier=dict([entry for entry in mapping(data, "earlier").items() if isinstance(entry[1], str)][-REMEMBERED:]),
        rollback=Rollback(_position(rollback, "to"), text(rollback, "spec")) if _position(rollback, "to") else None,
        evicted={
            member: Eviction(text(entry, "reason"), _time(entry, "since"), _position(entry, "revision"))
            for member, entry in mapping(data, "evicted").items()
        },
        unhealthy=_times(data, "unhealthy"),
        links=_times(data, "links"),
    )


def _position(value: Mapping[str, Any], key: str) -> int:
    """Return the number of a revision, 0 if there is none."""
    found = number(value, key)
    return found if 0 < found <= MOST else 0


def _time(value: Any, key: str) -> str:
    found = text(value, key)
    return found if parse_time(found) else ""


def _times(value: Mapping[str, Any], key: str) -> dict[str, str]:
    return {name: since for name, since in mapping(value, key).items() if isinstance(since, str) and parse_time(since)}


def _operation(value: Mapping[str, Any]) -> OperationState:
    if not text(value, "id") or text(value, "result") not in RESULTS:
        return NO_OPERATION
    return OperationState(
        kind=text(value, "kind"),
        id=text(value, "id"),
        revision=_position(value, "revision"),
        result=text(value, "result"),
        message=text(value, "message"),
        cluster=text(value, "cluster"),
        to=_position(value, "to"),
    )

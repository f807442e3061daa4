# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Protocol that records claims so that two controllers never hold the same id: compare-and-swap on a majority of the voters' copies.

It yields its reads and writes (``CopyRead``, ``Write``) and receives their results; ``record`` carries them out. It can be tested
with every order in which two controllers may meet. docs/decisions/0013 says why it is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, TypeAlias

from ..base.errors import ClusterError
from .agreement import agreed, doubted, is_certain, witnesses_needed
from .claims import claims_that_may_stand, contradict, kept_in_place
from .registry import LeaseState, Registry, merge, with_time, without_oldest, write_registry

ATTEMPTS: Final = 20  # each lost attempt means that another controller's write won
PATIENCE: Final = 5  # writes lost at one voter; from then on the others decide, as its owner may change the copy without end


@dataclass(frozen=True, kw_only=True)
class Copy:
    """Copy of the registry that a member keeps. ``version`` "" means that there is no ConfigMap yet."""

    registry: Registry
    text: str = ""
    version: str = ""


@dataclass(frozen=True)
class CopyRead:
    """Request for the ``Copy`` of a member. The answer is None if it does not answer, or keeps none that may be written."""

    host: str


@dataclass(frozen=True)
class Write:
    """Request to write over exactly this version. The answer is True, False if the version is another by now, or None without an answer."""

    host: str
    text: str
    version: str


@dataclass(frozen=True)
class Recorded:
    """Claims that a majority holds. ``holders``: voters that hold them; ``registry``: what they hold."""

    registry: Registry
    holders: tuple[str, ...]


@dataclass(frozen=True)
class NotRecorded:
    """Claims that no majority holds. Nothing was changed in any cluster besides its copy of the registry."""

    why: str


Request: TypeAlias = CopyRead | Write
Answer: TypeAlias = Copy | bool | None
Recording: TypeAlias = Generator[Request, Answer, Recorded | NotRecorded]


class CopyStore(Protocol):
    """Store of the members' copies. Both methods may raise ClusterError, which counts as no answer."""

    def read(self, host: str) -> Copy | None:
        """Return the member's copy; None if it keeps none that may be written."""

    def write(self, host: str, text: str, version: str) -> bool:
        """Write over exactly this version; return False if the version is another by now."""


def voters(registry: Registry, established: Collection[str], members: Collection[str]) -> tuple[str, ...]:
    """Return the members whose copies count, sorted.

    These are the members with an active lease; before there is any, those that run a name and an id; else all.
    """
    active = {lease.host for lease in registry.leases if lease.state is LeaseState.ACTIVE}
    return tuple(sorted(active or set(established) or set(members)))


def recording(
    mesh: str,
    choose: Callable[[Registry], Registry],
    established: Collection[str],
    members: Collection[str],
    *,
    now: datetime,
    attempts: int = ATTEMPTS,
) -> Recording:
    """Run the protocol as a generator of requests, which returns whether the claims are recorded.

    :param mesh: owner hash of the binding.
    :param choose: returns the wanted registry for what the copies agree on, with the claims that may stand: all leases in it, and the
        claims, of which none is for an id or a name that another cluster holds in it. Called anew after every lost write.
    :param established: inventory names that run a name and an id, or may do so as they did not answer.
    :param members: inventory names that can be queried.
    :param now: aware; the time of the changes of state that ``choose`` makes.
    """
    settled, lost = Registry(mesh=mesh), Counter[str]()
    mute: set[str] = set()  # voters that were not written in an attempt
    every = {*established, *members}
    for _turn in range(attempts):
        copies: dict[str, Copy] = {}
        for host in sorted(members):
            answer = yield CopyRead(host)
            if isinstance(answer, Copy):
                copies[host] = answer
        read = {host: copy.registry for host, copy in copies.items()}
        filled = [registry for registry in read.values() if registry.leases]  # a copy without leases contradicts none
        settled = merge((settled, agreed(filled, mesh, witnesses_needed(len(filled), len(every)))), mesh)
        electorate = voters(settled, established, members)
        able = [host for host in electorate if host in copies]
        unsure = {host for host in electorate if host not in copies} | (mute & set(electorate))
        if 2 * len(able) <= len(electorate):
            silent = [host for host in electorate if host not in copies]
            return NotRecorded(f"{len(able)} of {len(electorate)} members that have a say can be written; missing: {', '.join(silent)}")
        open_claims = claims_that_may_stand(settled, read, unsure, electorate, every, now)
        # What one copy holds keeps ids from others where it may be so, and stays where it is: it does not become what all copies hold.
        foreign = {*doubted(settled, filled, len(every)), *(claim for claim in open_claims if claim.host not in every)}
        chosen = choose(settled.with_leases((*foreign, *open_claims)))
        wanted = with_time(settled.with_leases(lease for lease in chosen.leases if lease not in foreign), now)
        certain = is_certain(len(filled), len(every))
        texts = {
            host: write_registry(without_oldest(kept_in_place(copy.registry, wanted, now, certain=certain)))
            for host, copy in copies.items()
        }
        held = yield from _write_voters(texts, able, copies, lost)
        if held is None:
            continue
        mute |= set(able) - set(held)
        late = claims_that_may_stand(settled, read, set(electorate) - set(held), electorate, every, now)
        if 2 * len(held) > len(electorate) and not contradict(wanted, late):
            yield from _write_others(texts, [host for host in sorted(copies) if host not in electorate], copies)
            return Recorded(wanted, held)
    return NotRecorded(f"others wrote at the same time, {attempts} times in a row")


def _write_voters(
    texts: Mapping[str, str], able: Collection[str], copies: Mapping[str, Copy], lost: Counter[str]
) -> Generator[Request, Answer, tuple[str, ...] | None]:
    """Write one copy after the other, in the same order in every controller; return None after a lost write.

    The controller that writes first at the first voter is thereby first at every voter. A voter at which too many writes were lost counts
    as one that does not answer.
    """
    held = []
    for host in able:
        if copies[host].text != texts[host]:
            answer = yield Write(host, texts[host], copies[host].version)
            if answer is False:
                lost[host] += 1
                if lost[host] < PATIENCE:
                    return None
            if not answer:
                continue
        held.append(host)
    return tuple(held)


def _write_others(texts: Mapping[str, str], others: Collection[str], copies: Mapping[str, Copy]) -> Generator[Request, Answer, None]:
    """Write a copy to the members that are no voters yet, as far as they can be written; connect completes it."""
    for host in others:
        if copies[host].text != texts[host]:
            yield Write(host, texts[host], copies[host].version)


def record(store: CopyStore, protocol: Recording, *, pause: Callable[[], None]) -> Recorded | NotRecorded:
    """Carry out the requests of the protocol and return its result.

    :param pause: called after a lost write, before everything is read again.
    """
    try:
        request = next(protocol)
        while True:
            answer = _answer(store, request)
            if answer is False:
                pause()
            request = protocol.send(answer)
    except StopIteration as end:
        result: Recorded | NotRecorded = end.value
        return result


def _answer(store: CopyStore, request: Request) -> Answer:
    try:
        if isinstance(request, CopyRead):
            return store.read(request.host)
        return store.write(request.host, request.text, request.version)
    except ClusterError:
        return None

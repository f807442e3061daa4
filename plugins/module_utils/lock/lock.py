# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lock of a mesh over all members that a run reached: taken in order, renewed by a thread, asked before each write, given back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import Final, Protocol

from ..base.clocks import Clocks
from ..base.errors import ClusterError, Forbidden, LockHeld, LockLost, may_be_done
from ..kube.client import Cluster
from ..mesh.binding.model import Binding
from .holder import holder_name
from .member import LockAttempt, MemberLock, read_lock
from .state import DURATION, MARGIN, LockState, lock_name

POLL: Final = 1.0  # seconds between two reads of a lock that another run holds
RENEWALS: Final = 3  # per duration


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Terms of a lock: whose mesh, what the run does, and how long it waits and holds, in seconds. ``parallel``: members at a time."""

    binding: Binding
    action: str
    timeout: int = 0
    duration: int = DURATION
    holder: str = ""  # who runs it; "": user and host
    parallel: int = 10


class Lock(Protocol):
    """Lock of a mesh, as a run uses it."""

    def take(
        self,
        clusters: Mapping[str, Cluster],
        states: Mapping[str, LockState],
        stay: Iterable[str],
        *,
        write: bool,
        leaving: Collection[str] = (),
    ) -> bool:
        """Take the lock of every cluster, or with ``write`` false only make sure that no other run holds one.

        Returns False if another run may have written since ``states`` were read: the clusters have to be observed again.

        :param clusters: open connections, by inventory name.
        :param states: the locks as they were read before any fact.
        :param stay: clusters that hold the lease registry of the mesh, where the emptied object stays.
        :param leaving: clusters that leave the mesh while others stay. One that cannot be locked is not written to, and stops nothing: a
            run at work holds the locks of those that stay too.
        :raises LockHeld: when another run holds the lock, and longer than this run waits.
        :raises ClusterError: when RBAC forbids to take it, or no cluster lets itself be locked.
        """

    def allow(self, cluster: str) -> None:
        """Return if a write to the cluster may begin now.

        :raises ClusterError: when the lock of the cluster could not be taken, or does not hold any more.
        """

    def settle(self) -> None:
        """Verify that no other run held the lock since the observation on which this run relies.

        :raises LockLost: when one did, so that what this run measured is out of date.
        """

    def register(self, cluster: str, *, stays: bool) -> None:
        """Note that the lease registry of the mesh was written to the cluster, or removed from it."""

    def release(self) -> dict[str, int]:
        """Give everything back. Returns the number of requests by cluster. Raises nothing: a lock that stays ends by itself."""


class MeshLock:
    """``Lock`` over the members' API servers.

    :param show: shows one sentence to the user.
    """

    def __init__(self, terms: Terms, *, clocks: Clocks, show: Callable[[str], None], renews: bool = True) -> None:
        self.terms = terms
        self.holder = holder_name(terms.action, terms.holder)
        self._clocks, self._show, self._renews = clocks, show, renews
        self._held: dict[str, MemberLock] = {}
        self._errors: dict[str, ClusterError] = {}  # members that could not be locked
        self._doubtful: dict[str, MemberLock] = {}  # of these, locks that may have been taken: their answer was lost
        self._lost: LockLost | None = None
        self._clusters: dict[str, Cluster] = {}
        self._leaving: frozenset[str] = frozenset()
        self._states: dict[str, LockState] = {}
        self._deadline: float | None = None  # monotonic; set when the run first needs the lock
        self._seen: dict[str, tuple[str, float]] = {}  # the version of each lock that was read last, and since when
        self._ended = Event()
        self._keeper: Thread | None = None

    def take(
        self,
        clusters: Mapping[str, Cluster],
        states: Mapping[str, LockState],
        stay: Iterable[str],
        *,
        write: bool,
        leaving: Collection[str] = (),
    ) -> bool:
        """See ``Lock``."""
        self._clusters, self._states, kept = dict(clusters), dict(states), frozenset(stay)
        self._leaving = frozenset(leaving) if set(clusters) - set(leaving) else frozenset()
        if self._deadline is None:
            self._deadline = self._clocks.clock() + self.terms.timeout
        for host, state in states.items():
            self._since(host, state)
        for host, lock in self._held.items():
            lock.cluster = clusters.get(host, lock.cluster)
            lock.stays = host in kept
        # A run that was killed when it had taken a cluster out of the mesh left its lock there, and the plan may have no step any more.
        left = any(host not in kept and states[host].present for host in set(clusters) & set(states))
        if not write and not left:
            free = {*self._held, *self._leaving}
            busy = [host for host, state in sorted(states.items()) if host not in free and self._is_busy(host, state)]
            if busy:  # after the run that holds it has ended, everything is observed again
                self._await(busy[0], self._current(busy[0]) or states[busy[0]])
            return not busy
        try:
            unchanged = self._take_all(sorted(set(clusters) - set(self._held)))
        except BaseException:
            self.release()
            raise
        for host, lock in self._held.items():
            lock.stays = host in kept
        if not self._held and self._errors:
            raise self._errors[min(self._errors)]
        return unchanged

    def allow(self, cluster: str) -> None:
        """See ``Lock``."""
        if self._lost is not None:
            raise LockLost(self._lost.message, remedy=self._lost.remedy, cluster=cluster)
        if cluster in self._errors:
            raise self._errors[cluster]
        if cluster not in self._held:
            raise LockLost(
                f"The cluster did not answer when the lock of mesh {self.terms.binding.name} was taken, so nothing was written to it.",
                remedy="Run again.",
                cluster=cluster,
            )
        if self._clocks.clock() >= self._held[cluster].until:
            raise LockLost(
                f"The lock of mesh {self.terms.binding.name} could not be renewed in time, so no further write was begun.",
                remedy="Run again when the cluster answers; the lock ends by itself.",
                cluster=cluster,
            )

    def settle(self) -> None:
        """See ``Lock``."""
        if self._lost is not None:
            raise self._lost
        if self._held:
            return
        with self._pool(len(self._states)) as pool:
            hosts = sorted(self._states)
            for host, found in zip(hosts, pool.map(self._current, hosts), strict=True):
                before = self._states[host]
                if found is not None and (found.version != before.version or found.present != before.present):
                    raise LockLost(
                        f"Another run had the lock of mesh {self.terms.binding.name} while this one measured it"
                        + (f": {found.holder}." if found.holder else "."),
                        remedy="Run again when no other run is at work.",
                        cluster=host,
                    )

    def register(self, cluster: str, *, stays: bool) -> None:
        """See ``Lock``."""
        if cluster in self._held:
            self._held[cluster].stays = stays

    def release(self) -> dict[str, int]:
        """See ``Lock``."""
        self._ended.set()
        if self._keeper is not None:
            self._keeper.join(self.terms.duration)
        held = dict(self._held)
        self._give_back(held)
        with self._pool(len(self._doubtful)) as pool:
            list(pool.map(_release_doubtful, self._doubtful.values()))
        for lock in (*held.values(), *self._doubtful.values()):
            lock.cluster.close()
        self._doubtful.clear()
        return dict.fromkeys(held, 1)

    # Taking

    def _take_all(self, wanted: list[str]) -> bool:
        """Take the lock of every cluster in ``wanted``, which is sorted; return whether none had changed since it was read."""
        unchanged = True
        known: dict[str, tuple[LockState, bool]] = {host: (self._states.get(host, LockState()), False) for host in wanted}
        while wanted:
            taken = self._attempt(wanted[:1], known)
            if all(found.held for found in taken.values()):  # of two runs that see the same members, one is stopped here, by one request
                taken |= self._attempt(wanted[1:], known)
            unchanged = unchanged and all(found.unchanged for found in taken.values() if found.held)
            busy = sorted(host for host, found in taken.items() if not found.held)
            if not busy:
                return unchanged
            first = busy[0]
            self._give_back({host: lock for host, lock in self._held.items() if host > first})
            known = {host: (self._states.get(host, LockState()), False) for host in self._clusters}
            known[first] = self._await(first, taken[first].state)
            unchanged = False
            wanted = sorted(set(self._clusters) - set(self._held))
        return unchanged

    def _attempt(self, hosts: list[str], known: Mapping[str, tuple[LockState, bool]]) -> dict[str, LockAttempt]:
        """Try to take these locks side by side. Clusters that do not let themselves be locked are left out, with their error.

        :raises Forbidden: when RBAC forbids it in a cluster.
        """

        def attempt(host: str) -> LockAttempt | ClusterError:
            lock = MemberLock(
                self._clusters[host], self.terms.binding, holder=self.holder, duration=self.terms.duration, clocks=self._clocks
            )
            try:
                state, dead = known[host]
                found = lock.take(state, dead=dead)
            except ClusterError as error:
                if may_be_done(error):
                    self._doubtful[host] = lock
                return error
            if found.held:
                self._held[host] = lock
                self._doubtful.pop(host, None)
            return found

        if not hosts:
            return {}
        with self._pool(len(hosts)) as pool:
            results = dict(zip(hosts, pool.map(attempt, hosts), strict=True))
        self._start_keeper()
        for host in self._leaving & results.keys():
            found = results[host]
            if isinstance(found, LockAttempt) and not found.held:
                results[host] = self._held_where_it_leaves(host, found.state)
        errors = {host: found for host, found in results.items() if isinstance(found, ClusterError)}
        for host, error in errors.items():
            if isinstance(error, Forbidden) and host not in self._leaving:
                raise error
        self._errors = {host: error for host, error in {**self._errors, **errors}.items() if host not in self._held}
        return {host: found for host, found in results.items() if isinstance(found, LockAttempt)}

    def _await(self, host: str, state: LockState) -> tuple[LockState, bool]:
        """Wait until no other run holds the lock of a cluster. Returns its state, and whether its holder did not renew it in time.

        :raises LockHeld: when the time is up.
        """
        said = False
        given = self._clocks.clock() if self._deadline is None else self._deadline
        while state.held_by_other(self.holder):
            now = self._clocks.clock()
            if not self._is_busy(host, state):
                return state, True
            # Whether an untimely lock, or one read without a date, has ended is known only by looking at it for a while.
            undecided = state.untimely or state.read_at is None
            deadline = max(given, self._since(host, state) + min(state.patience, DURATION + MARGIN) + POLL) if undecided else given
            if now >= deadline:
                raise self._refused(host, state)
            if not said:
                self._show(f"waiting for another run: {state.holder}, in {host}; {deadline - now:.0f} s at most")
                said = True
            self._clocks.sleep(min(POLL, deadline - now))
            found = self._current(host)
            if found is None:
                return LockState(), False  # the next attempt says why it does not answer
            state = found
        return state, False

    def _is_busy(self, host: str, state: LockState) -> bool:
        """Return whether another run holds the lock, and was not seen to miss its renewals."""
        return state.held_by_other(self.holder) and self._clocks.clock() - self._since(host, state) <= state.patience

    def _since(self, host: str, state: LockState) -> float:
        """Return the monotonic time since when this run knows the lock in this version."""
        if host not in self._seen or self._seen[host][0] != state.version:
            self._seen[host] = (state.version, self._clocks.clock())
        return self._seen[host][1]

    def _held_where_it_leaves(self, host: str, state: LockState) -> LockLost:
        return LockLost(
            f"The cluster leaves mesh {self.terms.binding.name}, and its lock is held by {state.holder}; nothing was written to it.",
            remedy="The other members are free of it. If no run is at work there, break its lock, and disconnect it once more:\n"
            f"{self._break(host)}",
            cluster=host,
        )

    def _break(self, host: str) -> str:
        """Return the command that breaks the lock of a cluster."""
        return f"kubectl --namespace {self._clusters[host].namespace} delete lease {lock_name(self.terms.binding)}"

    def _refused(self, host: str, state: LockState) -> LockHeld:
        waited = f", also after {self.terms.timeout} s of waiting" if self.terms.timeout else ""
        since = f", since {state.since:%Y-%m-%d %H:%M:%S} UTC" if state.since else ""
        ends = f" Without another renewal its lock ends at {state.ends:%H:%M:%S} UTC." if state.ends else ""
        return LockHeld(
            f"Another run is at work on mesh {self.terms.binding.name}{waited}: {state.holder}{since}.{ends} Nothing was written.",
            remedy="Run again later, or with cilium_mesh_lock_timeout, the seconds to wait for it. "
            "The lock of a run that was killed ends by itself. "
            f"To break the lock of a run that hangs:\n{self._break(host)}",
            cluster=host,
        )

    def _current(self, host: str) -> LockState | None:
        """Read the lock of a cluster; None if the cluster does not answer."""
        try:
            return read_lock(self._clusters[host], self.terms.binding)
        except ClusterError:
            return None

    # Holding

    def _start_keeper(self) -> None:
        if self._renews and self._held and self._keeper is None:
            self._keeper = Thread(target=self._keep, name="mesh-lock", daemon=True)
            self._keeper.start()

    def _keep(self) -> None:
        while not self._ended.wait(self.terms.duration / RENEWALS):
            self.renew()

    def renew(self) -> None:
        """Renew the lock in every member, side by side."""
        held = dict(self._held)
        with self._pool(len(held)) as pool:
            list(pool.map(self._renew, held.values()))

    def _renew(self, lock: MemberLock) -> None:
        try:
            lock.renew()
        except LockLost as error:
            if lock in self._held.values():  # else it was given back meanwhile
                self._lost = error
        except ClusterError:
            pass  # ``allow`` refuses writes to this cluster when the time is up

    def _give_back(self, locks: Mapping[str, MemberLock]) -> None:
        for host in locks:
            self._held.pop(host, None)
        with self._pool(len(locks)) as pool:
            list(pool.map(_release, locks.values()))

    def _pool(self, most: int) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max(1, min(self.terms.parallel, most)))


def _release(lock: MemberLock) -> None:
    try:
        lock.release()
    except LockLost:
        pass  # it is another run's
    except ClusterError:
        _release_doubtful(lock)  # once more: the answer, or the request, may have been lost


def _release_doubtful(lock: MemberLock) -> None:
    """Give back a lock of which this run does not know whether it holds it.

    A lock that may not be deleted is emptied, so that the next run need not wait for its end; that run deletes it.
    """
    with suppress(ClusterError):
        try:
            lock.release_if_held()
        except Forbidden:
            if lock.stays:
                raise
            lock.stays = True
            lock.release()

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lock in one member: read, take, renew and give back, each over exactly the version that was read."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ..base.clocks import Clocks
from ..base.errors import ClusterError, Forbidden, LockLost, ServerRefused, WriteConflict
from ..base.json_fields import items, text
from ..kube.client import Cluster, Object
from ..mesh.binding.model import Binding
from .state import LockState, emptied_body, lock_name, lock_state, locks_path, new_body, renewed_body, taken_body

TRIES: Final = 5  # conflicting writes in a row, after which another run counts as the holder
NOT_FOUND: Final = 404
REPLAY_SECONDS: Final = 2  # seconds of a watch that brings what was written already
GUARD: Final = 3  # the last of so many parts of the duration is left to requests under way


@dataclass(frozen=True, kw_only=True)
class LockAttempt:
    """Result of an attempt to take a lock. ``unchanged``: no other run held it since the caller had read it."""

    state: LockState
    held: bool
    unchanged: bool = False


class MemberLock:
    """Lock in one member, as one run sees it. ``until``: monotonic time before which a write may begin; 0 while it is not held."""

    def __init__(self, cluster: Cluster, binding: Binding, *, holder: str, duration: int, clocks: Clocks) -> None:
        self.cluster = cluster
        self.until = 0.0
        self.stays = True  # the object is emptied at the end, and deleted if this is false
        self._binding, self._holder, self._duration, self._clocks = binding, holder, duration, clocks
        self._path = f"{locks_path(cluster.namespace)}/{lock_name(binding)}"
        self._version = self._uid = ""

    def read(self) -> LockState:
        """Read the lock.

        :raises ClusterError: when it cannot be read.
        """
        return read_lock(self.cluster, self._binding)

    def take(self, known: LockState, *, dead: bool = False) -> LockAttempt:
        """Take the lock if no other run holds it.

        :param known: the state that was read last; it may be some seconds old.
        :param dead: the holder in ``known`` did not renew for the whole duration, so it counts as ended.
        :raises ClusterError: when the member does not answer, or refuses.
        """
        unchanged, state = known.present, known
        for _attempt in range(TRIES):
            if not state.present:
                state, unchanged = self._created(), False
            if state.held_by_other(self._holder) and not (dead and state is known):
                fresh = self.read() if state is known else state
                if fresh.held_by_other(self._holder):
                    return LockAttempt(state=fresh, held=False)
                state, unchanged = fresh, False
                continue
            began = self._clocks.clock()
            try:
                made = self.cluster.merge_patch(
                    self._path, taken_body(state, self._holder, self._duration, self._now()), manager=self._manager
                )
            except (WriteConflict, ServerRefused) as error:
                if not _is_gone(error):
                    raise
                state, unchanged = self.read(), False
                continue
            self._keep(made, began)
            unchanged = unchanged or self._first_holder_since(known.absent_at)
            return LockAttempt(state=lock_state(made, self.cluster.server_time()), held=True, unchanged=unchanged)
        return LockAttempt(state=state, held=False)

    def renew(self) -> None:
        """Renew the lock.

        :raises LockLost: when another run has it, or the object is gone.
        :raises ClusterError: when the member does not answer, or refuses.
        """
        for _attempt in range(TRIES):
            began = self._clocks.clock()
            try:
                self._keep(self.cluster.merge_patch(self._path, renewed_body(self._version, self._now()), manager=self._manager), began)
                return
            except (WriteConflict, ServerRefused) as error:
                if not _is_gone(error):
                    raise
                self._version = self._own(self.read()).version

    def release(self) -> None:
        """Give the lock back, if this run still holds it.

        :raises ClusterError: when the member does not answer, or refuses; the lock then ends by itself.
        """
        self.until = 0.0
        for _attempt in range(TRIES):
            try:
                if self.stays:
                    self.cluster.merge_patch(self._path, emptied_body(self._version), manager=self._manager)
                else:
                    self.cluster.delete(self._path, uid=self._uid, resource_version=self._version)
                return
            except (WriteConflict, ServerRefused) as error:
                if not _is_gone(error):
                    raise
                self._version = self._own(self.read()).version

    def release_if_held(self) -> None:
        """Give the lock back if the member says that this run holds it, for a run that does not know.

        :raises ClusterError: when the member does not answer, refuses, or has it as another run's.
        """
        state = self._own(self.read())
        self._version, self._uid = state.version, state.uid
        self.release()

    def _first_holder_since(self, version: str) -> bool:
        """Return whether no other run held the lock between ``version`` of the collection, which had none, and this run's taking it.

        A run that came and went in between may have deleted the object, so only the events tell. Without them the answer is no.
        """
        if not version:
            return False
        path, chosen = locks_path(self.cluster.namespace), _by_name(self._binding)
        try:
            with closing(
                self.cluster.watch(path, version=version, seconds=REPLAY_SECONDS, grace=REPLAY_SECONDS, field_selector=chosen)
            ) as events:
                for event in events:
                    state = lock_state(event.get("object"), None)
                    if event["type"] not in ("ADDED", "MODIFIED", "DELETED") or state.holder not in ("", self._holder):
                        return False
                    if state.version == self._version:
                        return True
        except ClusterError:
            pass
        return False

    @property
    def _manager(self) -> str:
        return f"{self._binding.manager}/lock"

    def _created(self) -> LockState:
        """Create the object without a holder; if another run was faster, return what that one wrote.

        By server-side apply, since the right to create can then be limited to one name. Only the merge patch over its version takes it.
        """
        made = self.cluster.apply(self._path, new_body(self._binding, self.cluster.namespace), manager=f"{self._manager}/new")
        return lock_state(made, self.cluster.server_time())

    def _own(self, state: LockState) -> LockState:
        """Return ``state`` if this run holds the lock in it.

        :raises LockLost: when it does not.
        """
        if state.present and state.holder == self._holder:
            return state
        who = f"another run took it: {state.holder}" if state.holder else "a user or another run ended it"
        raise LockLost(
            f"The lock of mesh {self._binding.name} was lost: {who}.",
            remedy="Run again when no other run is at work; it observes what was done.",
            cluster=self.cluster.host,
        )

    def _keep(self, made: Object, began: float) -> None:
        state = lock_state(made, None)
        self._version, self._uid = state.version, state.uid
        self.until = began + self._duration * (GUARD - 1) / GUARD

    def _now(self) -> datetime:
        """Return the time of the API server; this machine's where the server sends none, which no run then compares."""
        return self.cluster.server_time() or self._clocks.now()


def read_lock(cluster: Cluster, binding: Binding) -> LockState:
    """Read the lock of a member.

    :raises ClusterError: when it cannot be read.
    """
    found = cluster.get(f"{locks_path(cluster.namespace)}/{lock_name(binding)}")
    return lock_state(found, cluster.server_time())


def find_lock(cluster: Cluster, binding: Binding) -> LockState:
    """Read the lock of a member as ``read_lock``; where there is none, the state says in which version of the collection.

    :raises ClusterError: when it cannot be read.
    """
    try:
        page = cluster.page(locks_path(cluster.namespace), field_selector=_by_name(binding))
    except Forbidden:  # by a role that grants "get" and no "list"
        return read_lock(cluster, binding)
    for found in items(page, "items"):
        if text(found, "metadata", "name") == lock_name(binding):
            return lock_state(found, cluster.server_time())
    return LockState(absent_at=text(page, "metadata", "resourceVersion"), read_at=cluster.server_time())


def _by_name(binding: Binding) -> str:
    """Return the field selector of the lock. With it, RBAC can limit the verbs list and watch to the name."""
    return f"metadata.name={lock_name(binding)}"


def _is_gone(error: ClusterError) -> bool:
    """Return whether the object has another version by now, or does not exist any more."""
    return isinstance(error, WriteConflict) or (isinstance(error, ServerRefused) and error.status == NOT_FOUND)

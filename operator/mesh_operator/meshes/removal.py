# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Removal of what a mesh made: which of its objects may lose their finalizers, after a run or without one, and what of it is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.meaning import meaning_of

from ..base.kinds import BINDING, BY_KIND
from ..credentials.management_plane import NotUsable
from ..runs.runner import RunResult, RunState
from ..source.resource_writer import ResourceWriter
from ..source.resources import age_of, all_of, deleting, finalizers_of, is_abandoned, ref_of, refs_of
from ..source.stored import MeshObjects, Stored
from .memory import MeshMemories
from .records import Records
from .request import MESH_NOT_FOUND, MeshRequest, Wait, request_of
from .status import status_of_waiting


class Removal:
    """Removal of finalizers and records. Thread-safe for different meshes."""

    def __init__(
        self,
        *,
        records: Records,
        writer: ResourceWriter,
        memories: MeshMemories,
        deadline: float,
        event: Callable[[Stored, str, str, str], None],
    ) -> None:
        """Prepare the removal. ``deadline``: seconds after which an object goes although clusters may hold something of it."""
        self._records, self._writer, self._memories = records, writer, memories
        self._deadline, self._event = deadline, event

    def release_unremovable(self, mesh: MeshObjects, clusters: Mapping[str, Any]) -> None:
        """Remove finalizers of deleted resources that no run can remove: at once if no cluster holds anything, else as ``give_up``."""
        if self._records.get(mesh.key) is None:
            self._writer.release(deleting(mesh))
        else:
            self.give_up(mesh, deleting(mesh), {name: found for name, found in clusters.items() if isinstance(found, NotUsable)})

    def clean_up(self, request: MeshRequest, mesh: MeshObjects, run: RunResult) -> None:
        """Remove finalizers of deleted resources whose objects are gone.

        While the binding exists, an item may go although an unreachable cluster still has its objects; the next run that reaches it prunes
        them, as they are in no list. One whose objects are kept, because another item is refused, stays until they are gone.
        """
        meaning = meaning_of(run.mesh_result)
        unclean, held = meaning.unclean, meaning.held
        self._note_held(request, held)
        clean = run.mesh_result is not None and not (unclean & {"", *(ref_of(stored) for stored in request.leaving)})
        if request.absent and clean and run.state is RunState.SUCCESSFUL and not request.unavailable:
            self._leave(mesh, deleting(mesh))
            self._records.forget(request.key)
        elif request.absent:
            self.give_up(mesh, deleting(mesh), request.unavailable)
        elif run.mesh_result is not None:
            if run.state is RunState.SUCCESSFUL:  # former members are clean now, but for those that did not answer
                self._records.narrow(request.key, {*refs_of(mesh), *request.unavailable})
            self._writer.release([s for s in request.leaving if ref_of(s) not in unclean or (ref_of(s) in held and is_abandoned(s))])

    def _note_held(self, request: MeshRequest, held: Mapping[str, str]) -> None:
        """Remember which deleted resources have objects that the run kept, and tell their owners when that is new."""
        memory = self._memories.recall(request.key)
        before, memory.held = memory.held, held
        for stored in request.leaving:
            if ref_of(stored) in held and ref_of(stored) not in before:
                self._event(stored, "Warning", "ObjectsKept", held[ref_of(stored)])

    def give_up(self, mesh: MeshObjects, going: Iterable[Stored], unavailable: Mapping[str, NotUsable]) -> None:
        """Remove finalizers of resources that cannot be cleaned.

        Their clusters are gone, the deadline has passed, or their owner set the annotation ABANDON. The record of a released
        binding becomes a tombstone.
        """
        gone = bool(unavailable) and all(found.reason == "ClusterNotFound" for found in unavailable.values())
        late = [stored for stored in going if gone or is_abandoned(stored) or age_of(stored) > self._deadline]
        if any(stored.key.kind == BINDING for stored in late):
            record = self._records.get(mesh.key)
            left = tuple(unavailable) or (record.clusters if record else ())
            self._records.left_behind(mesh.key, left, datetime.now(UTC).isoformat(timespec="seconds"))
        self._leave(mesh, late)

    def _leave(self, mesh: MeshObjects, going: Iterable[Stored]) -> None:
        """Remove finalizers, and tell the items that stay if their binding is gone with that."""
        leaving, binding = list(going), mesh.binding
        self._writer.release(leaving)
        own = BY_KIND[BINDING].finalizer
        if binding is None or binding not in leaving or {*finalizers_of(binding.obj)} - {own}:
            return
        self._memories.forget(mesh.key)
        wait = request_of(replace(mesh, binding=None), {}, None)
        if isinstance(wait, Wait) and wait.reason == MESH_NOT_FOUND:
            now, items = datetime.now(UTC), [stored for stored in all_of(mesh) if stored is not binding and not stored.deleting]
            self._writer.statuses(
                ((stored, status_of_waiting(stored, wait, now)) for stored in items), {stored.key: {} for stored in items}
            )

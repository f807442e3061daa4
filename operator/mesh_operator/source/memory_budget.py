# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""MemoryBudget on what all workspaces have together, and on the memory that is left for each. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..base.keys import ObjectKey
from ..base.workspace_bounds import WorkspaceBounds
from .bounds import WORKSPACE, BoundedObject, WorkspaceUsage
from .memory_shares import MemoryShares


class MemoryBudget:
    """Usage of each workspace with objects, and its share of the memory for all.

    More than the shares is kept for a while only: objects of which it is not decided yet whether they are beyond the bounds take an eighth
    of the whole at most, and stubs another one, an eighth of that for each workspace.
    """

    def __init__(self, bounds: WorkspaceBounds) -> None:
        self._bounds, self._shares = bounds, MemoryShares(bounds.total_bytes)
        self._usage: dict[str, WorkspaceUsage] = {}
        self._short: dict[str, None] = {}  # workspaces whose share is smaller than what they need; the first one first
        self._whole = self._stubs = 0  # as in Usage, of all

    def put(self, entry: BoundedObject) -> WorkspaceUsage:
        """Count an object, in place of what is known of it."""
        workspace = entry.key.workspace
        usage = self._usage.get(workspace)
        if usage is None:
            usage = self._usage[workspace] = WorkspaceUsage(self._bounds)
        whole, stubs = usage.whole, usage.stubs
        usage.put(entry)
        self._whole, self._stubs = self._whole + usage.whole - whole, self._stubs + usage.stubs - stubs
        self._claim(workspace, usage)
        return usage

    def remove(self, key: ObjectKey) -> None:
        """Count an object no more."""
        usage = self._usage[key.workspace]
        whole, stubs = usage.whole, usage.stubs
        usage.remove(key)
        self._whole, self._stubs = self._whole + usage.whole - whole, self._stubs + usage.stubs - stubs
        self._claim(key.workspace, usage)
        if not usage.entries:
            del self._usage[key.workspace]

    def usage(self, workspace: str) -> WorkspaceUsage | None:
        """Return what a workspace has; None if it has no objects."""
        return self._usage.get(workspace)

    def share(self, workspace: str) -> int:
        """Return the bytes of memory that the objects of a workspace may take."""
        return self._shares.of(workspace) - WORKSPACE

    def is_full(self, workspace: str) -> bool:
        """Return whether a workspace has so much that it has to be found out at once what of it is beyond the bounds."""
        usage = self._usage[workspace]
        total, own = self._bounds.total_bytes, self._bounds.bytes
        return usage.whole > self.share(workspace) and (usage.whole > self.share(workspace) + own // 8 or self._whole > total + total // 8)

    def has_room(self, workspace: str, stub: int) -> bool:
        """Return whether a stub of so many bytes can be kept."""
        most = self._bounds.total_bytes // 8
        return self._stubs + stub + WORKSPACE * len(self._short) <= most and self._usage[workspace].stubs + stub <= most // 8

    def settle(self) -> Iterator[str]:
        """Give what there is to the oldest objects, whatever came first, and yield the workspaces that this may concern."""
        if not self._short:
            return
        self._shares, so_far = MemoryShares(self._bounds.total_bytes), Counter[str]()
        for entry in sorted((one for usage in self._usage.values() for one in usage.entries.values()), key=lambda entry: entry.age):
            so_far[entry.key.workspace] += entry.size
            needed = min(so_far[entry.key.workspace], self._usage[entry.key.workspace].needed)
            self._shares.claim(entry.key.workspace, WORKSPACE + needed)
        for workspace in so_far:
            self._claim(workspace, self._usage[workspace])
            yield workspace

    def regain(self) -> Iterator[str]:
        """Give what became free to workspaces that need it, and yield them."""
        for workspace in list(self._short):
            if self._shares.is_used_up:
                return
            before = self._shares.of(workspace)
            self._claim(workspace, self._usage[workspace])
            if self._shares.of(workspace) > before:
                yield workspace

    def _claim(self, workspace: str, usage: WorkspaceUsage) -> None:
        beside = WORKSPACE if usage.entries else 0
        deleted = beside + usage.deleted if usage.deleted else 0
        if self._shares.claim(workspace, beside + usage.wanted, deleted) < beside + usage.needed:
            self._short.setdefault(workspace)
        else:
            self._short.pop(workspace, None)

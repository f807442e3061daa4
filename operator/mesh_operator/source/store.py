# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Store of all objects of all workspaces and URLs, and of the mesh to which each belongs. Thread-safe; does no I/O.

An object that is gone from a list, or whose URL is gone, is *missing*, and never counts as deleted: only deletionTimestamp requests a
deletion (multicluster-provider#80, kcp#2041). It stays known, in its last state, for KEEP seconds and until every remaining URL was listed
after that without it; with no URL left, or while the one that had it does not serve its kind (404), for ever.

What a URL has not listed yet looks as if it did not exist. So the objects of a mesh come with whether all of them are listed, in one value:
asked for later, the lists may have come in between, and the objects that are at hand lack what they brought.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import Final

from ..base.keys import FleetKey, MeshKey, ObjectKey, key_of
from ..base.kinds import BINDING, BY_KIND, CLUSTER, FABRIC, FLEET_ROWS, ITEMS, ROWS
from ..base.workspace_bounds import DEFAULT, WorkspaceBounds
from .bounds import RECORD, STUBS, entry_of, reduced, stub_of
from .footprint import footprint
from .ignored_objects import IgnoredObjects
from .memory_budget import MemoryBudget
from .references import TENANT, References, references_of
from .stored import MeshObjects, Object, Stored, TenantObjects

KEEP: Final = 600.0  # seconds; an object that moves to another shard is gone from the one before the other shows it
REFUSED_AGAIN: Final = 5.0  # seconds
PROVISIONAL: Final = "it may have"  # in place of a bound, of a new object until all of its workspace are checked again
_MESH: Final = frozenset(row.kind for row in ROWS)
_OF_FLEETS: Final = frozenset(row.kind for row in FLEET_ROWS)

Changed = Callable[[ObjectKey, Object | None, Object | None], None]
"""Callback with key, before, after; None: it was or is missing or unknown. Called without the lock, not for a mere resourceVersion."""
_Changes = list[tuple[ObjectKey, Object | None, Object | None]]


class Store:
    """Objects by key, from the lists and watches of all URLs. Some are ignored.

    These are objects without the annotation kcp.io/cluster; of a workspace with far too many objects those that came last; and refused ones
    of which not even stubs have room. No mesh of a workspace is listed while such objects of it are known to exist.
    """

    def __init__(self, changed: Changed, clock: Callable[[], float], bounds: WorkspaceBounds = DEFAULT) -> None:
        """Prepare an empty store. Objects beyond the ``bounds`` of their workspace are known, marked, and part of no mesh."""
        self._bounds, self._budget = bounds, MemoryBudget(bounds)
        self._touched: set[str] = set()  # workspaces of which something changes now
        self._new: set[ObjectKey] = set()  # objects that were not known before this change
        self._unbound: set[str] = set()  # workspaces of which something changed since their bounds were checked
        self._refused: dict[str, float] = {}  # workspaces beyond their bounds -> when these are checked again
        self._ignored = IgnoredObjects()
        self._settled = False  # whether all was listed once
        self._changed, self._clock, self._lock = changed, clock, RLock()
        self._stored: dict[ObjectKey, Stored] = {}
        self._shown: defaultdict[ObjectKey, dict[str, Stored]] = defaultdict(dict)  # by the URLs that have it, the latest one last
        self._urls: dict[str, frozenset[str]] = {}  # with the kinds of which lists are to come, or have
        self._listed: dict[tuple[str, str], float] = {}  # when a URL was listed for a kind last; or first did not serve it
        self._unserved: set[tuple[str, str]] = set()
        self._references = References()

    def add_url(self, url: str, kinds: Iterable[str]) -> None:
        """Expect lists of some kinds from a URL: until they are there, its meshes are not listed."""
        with self._lock:
            self._urls[url] = frozenset(kinds)

    def replace(self, url: str, kind: str, objects: Iterable[Object]) -> None:
        """Take a whole list of one URL and kind. Objects that the URL had and has no more become missing."""
        take = self.listing(url, kind)
        self.listed(url, kind, [take(obj) for obj in objects])

    def listing(self, url: str, kind: str) -> Callable[[Object], ObjectKey | None]:
        """Begin a list of one URL and kind, and return what takes each object of it.

        Each object takes the place of what was known of it as it comes, so that a list is never kept beside the objects that it replaces.
        """
        with self._lock:
            self._ignored.begin(url, kind)

        def take(obj: Object) -> ObjectKey | None:
            with self._changing() as changes:
                return self._show(url, kind, obj, changes)

        return take

    def listed(self, url: str, kind: str, keys: Iterable[ObjectKey | None]) -> None:
        """End a list: objects that the URL had and that are not among these keys become missing."""
        shown = set(keys)
        with self._changing() as changes:
            self._listed[url, kind] = self._clock()  # set before objects become missing, which a later list has to confirm
            self._unserved.discard((url, kind))
            for key in self._at(url, kind) - shown:
                self._lose(url, key, changes)
            self._forget(kind)
            self._ignored.end(url, kind)
            self._check_again(self._touched | {key.workspace for key in shown if key is not None and key.workspace in self._unbound})
            self._settle_shares()

    def unserved(self, url: str, kind: str) -> bool:
        """Take that a URL does not serve a kind: what it had becomes missing, and no list confirms that it is gone.

        Returns whether that is new.
        """
        with self._changing() as changes:
            is_new = (url, kind) not in self._unserved
            self._listed.setdefault((url, kind), self._clock())
            self._unserved.add((url, kind))
            for key in self._at(url, kind):
                self._lose(url, key, changes)
            self._settle_shares()
        return is_new

    def serves(self, *kinds: str) -> bool:
        """Return whether every URL that has to list these kinds serves them, and no object of them is ignored.

        Only then does an object that is not known not exist.
        """
        with self._lock:
            hidden = self._ignored.kinds | {kind for _, kind in self._unserved}
            return self._is_listed(frozenset(kinds)) and hidden.isdisjoint(kinds)

    def put(self, url: str, kind: str, obj: Object) -> None:
        """Take an object that was ADDED or MODIFIED."""
        with self._changing() as changes:
            self._show(url, kind, obj, changes)

    def missing(self, url: str, kind: str, obj: Object) -> None:
        """Take an object that was DELETED: it is missing from now on, in the state of ``obj``.

        It is forgotten when later lists lack it too.
        """
        key = key_of(kind, obj)
        with self._changing() as changes:
            if key is not None and url in self._shown.get(key, ()):
                self._lose(url, key, changes, last=obj)

    def drop_url(self, url: str) -> None:
        """Drop a URL that is gone from the slice: its objects are missing until another URL shows them."""
        with self._changing() as changes:
            for key in self._at(url):
                self._lose(url, key, changes)
            self._urls.pop(url, None)
            self._listed = {place: time for place, time in self._listed.items() if place[0] != url}
            self._unserved = {place for place in self._unserved if place[0] != url}
            self._ignored.drop(url)

    def get(self, key: ObjectKey) -> Stored | None:
        """Return an object, also one that is missing; None if it is not known."""
        return self._stored.get(key)

    def mesh(self, key: MeshKey) -> MeshObjects:
        """Return all objects of a mesh."""
        binding = ObjectKey(BINDING, *key)
        with self._lock:
            users, found = self._using(binding), self._stored.get(binding)
            clusters = self._using(binding._replace(kind=CLUSTER, name=""))
            home = found.url if found and found.missing_since is None else ""
            listed = self._is_listed(_MESH, home)
            ignored = listed and self._ignored.has_of(key.workspace)
            unserved = frozenset(kind for url, kind in self._unserved if url == home)
        beyond = tuple(user for user in users if user.beyond)
        items = {row.kind: tuple(user for user in users if user.key.kind == row.kind and not user.beyond) for row in ITEMS}
        return MeshObjects(
            key=key,
            listed=listed and not ignored,
            unserved=unserved,
            binding=found,
            items=items,
            beyond=beyond,
            clusters={user.key.name: user for user in clusters},
            ignored=ignored,
        )

    def meshes(self) -> tuple[MeshKey, ...]:
        """Return every mesh that an object belongs to, also if the binding itself is unknown. A Fabric belongs to none."""
        with self._lock:
            return tuple(MeshKey(*to[1:]) for to in self._references.used(BINDING))

    def meshes_of(self, key: ObjectKey, obj: Object) -> tuple[MeshKey, ...]:
        """Return the meshes that a change of this object concerns.

        These are its own mesh; for a KubernetesCluster those whose binding names it; none for a Fabric.
        """
        if key.kind == CLUSTER:
            return tuple(MeshKey(*user.key[1:]) for user in self._using(key))
        return tuple(MeshKey(*to[1:]) for to in references_of(key, obj) if to.kind == BINDING)

    def tenant(self, workspace: str, namespace: str) -> TenantObjects:
        """Return all objects of the fleet side of a namespace."""
        with self._lock:
            found = self._using(ObjectKey(TENANT, workspace, namespace, ""))
            listed = self._is_listed(BY_KIND.keys())
            ignored = listed and self._ignored.has_of(workspace)
            homes = {stored.url for stored in found if stored.missing_since is None}
            served = not any((url, kind) in self._unserved for url in homes for kind in _OF_FLEETS)
        is_whole = listed and served and not ignored
        return TenantObjects(workspace=workspace, namespace=namespace, listed=is_whole, objects=tuple(found), ignored=ignored)

    def tenants(self) -> tuple[tuple[str, str], ...]:
        """Return workspace and namespace of every object of the fleet side."""
        with self._lock:
            return tuple((to.workspace, to.namespace) for to in self._references.used(TENANT))

    def units_of(self, key: ObjectKey) -> tuple[FleetKey, ...]:
        """Return the units of the fleet side that a change of this object concerns."""
        return tuple(FleetKey(key.workspace, key.namespace, unit) for unit in BY_KIND[key.kind].units)

    def of_kind(self, kind: str = "") -> tuple[Stored, ...]:
        """Return all objects of a kind that are there, and not missing."""
        with self._lock:
            return tuple(one for one in self._stored.values() if kind in ("", one.key.kind) and one.missing_since is None)

    def count(self, kind: str = "", workspace: str = "") -> int:
        """Return how many objects are there, and not missing, of one kind or workspace or of all."""
        return sum(workspace in ("", one.key.workspace) for one in self.of_kind(kind))

    @contextmanager
    def _changing(self) -> Iterator[_Changes]:
        """Hold the lock, and call the callback for the changes after releasing it."""
        changes: _Changes = []
        with self._lock:
            yield changes
            for workspace in self._touched:
                self._bind(workspace, changes)
            self._touched.clear()
            self._new.clear()
        for change in changes:
            self._changed(*change)

    def _is_listed(self, kinds: Set[str], home: str = "") -> bool:
        """Return whether the kinds are listed: at home, and those that home has not, or all without one, everywhere."""
        at_home = self._urls.get(home, frozenset())
        expected = [(url, kind) for url, served in self._urls.items() for kind in served & kinds if url == home or kind not in at_home]
        return bool(expected) and all(place in self._listed for place in expected)

    def _at(self, url: str, kind: str = "") -> set[ObjectKey]:
        return {key for key, shown in self._shown.items() if url in shown and kind in ("", key.kind)}

    def _using(self, key: ObjectKey) -> list[Stored]:
        with self._lock:
            return [self._stored[user] for user in self._references.users(key)]

    def _show(self, url: str, kind: str, obj: Object, changes: _Changes) -> ObjectKey | None:
        key = key_of(kind, obj)
        if key is None:
            self._ignored.count += 1
            return None
        if key not in self._stored:
            if self._count_of(key.workspace) >= STUBS * self._bounds.objects:
                self._ignored.add(url, kind, key.workspace)
                return None
            self._new.add(key)
        self._shown[key].pop(url, None)
        self._shown[key][url] = Stored(key, reduced(kind, obj), url)
        self._settle(self._shown[key][url], changes)
        return key

    def _lose(self, url: str, key: ObjectKey, changes: _Changes, last: Object | None = None) -> None:
        gone = self._shown[key].pop(url)
        missing = Stored(key, reduced(key.kind, last or gone.obj), url, self._clock())
        self._settle([missing, *self._shown[key].values()][-1], changes)

    def _settle(self, new: Stored, changes: _Changes) -> None:
        old = self._stored.get(new.key)
        before = old.obj if old and old.missing_since is None else None
        after = new.obj if new.missing_since is None else None
        workspace = new.key.workspace
        new = replace(new, beyond=old.beyond if old else PROVISIONAL if workspace in self._refused else "")
        self._stored[new.key] = new
        to = references_of(new.key, new.obj)
        self._budget.put(entry_of(new.key, new.obj, to, max(1, len(self._shown[new.key]))))
        self._touched.add(workspace)
        if old is None or old.obj.get("spec") != new.obj.get("spec"):  # no reference is elsewhere but in the spec and the key
            self._references.change(new.key, references_of(old.key, old.obj) if old else frozenset(), to)
        if before is None or after is None or _without(before, "resourceVersion") != _without(after, "resourceVersion"):
            changes.append((new.key, before, after))

    def _bind(self, workspace: str, changes: _Changes) -> None:
        """Find out which objects of the workspace are beyond its bounds, and keep no more than stubs of those that take too much memory."""
        usage, now = self._budget.usage(workspace), self._clock()
        if usage is None:
            self._unbound.discard(workspace)
            self._refused.pop(workspace, None)
            return
        if now < self._refused.get(workspace, now) and not self._budget.is_full(workspace):
            self._unbound.add(workspace)
            return  # every change of a workspace with too many objects would cost the time of all of them
        self._unbound.discard(workspace)
        before, beyond = self._refused.pop(workspace, None), usage.beyond(self._budget.share(workspace))
        if beyond:
            self._refused[workspace] = now + REFUSED_AGAIN
        for key, entry in list(usage.entries.items()) if beyond or before is not None else ():
            old, found = self._stored[key], beyond.get(key)
            obj, words = old.obj, found.words if found else ""
            if found and found.too_large and not entry.stub:
                obj = stub_of(key.kind, obj)
                stub = RECORD + footprint(obj)
                if (old.beyond or key in self._new) and not self._budget.has_room(workspace, stub):
                    self._drop(old, changes)
                    continue
                self._budget.put(replace(entry, stub=stub))
                self._shown[key] = {url: replace(shown, obj=obj) for url, shown in self._shown[key].items()}
            if obj is not old.obj or words != old.beyond:
                self._stored[key] = replace(old, obj=obj, beyond=words)
            if words != old.beyond and old.missing_since is None:
                changes.append((key, None, obj))  # its mesh has to be reconciled, although it has not changed itself
        if self._budget.usage(workspace) is None:
            self._refused.pop(workspace, None)

    def _drop(self, old: Stored, changes: _Changes) -> None:
        """Forget an object that was never within the bounds."""
        del self._stored[old.key], self._shown[old.key]
        self._budget.remove(old.key)
        self._references.change(old.key, references_of(old.key, old.obj), frozenset())
        if old.missing_since is None:
            changes.append((old.key, old.obj, None))
        self._ignored.add(old.url, old.key.kind, old.key.workspace)

    def _settle_shares(self) -> None:
        """Judge by age once all is listed for the first time: until then what came first has its place."""
        if not self._settled and self._is_listed(BY_KIND.keys()):
            self._settled = True
            self._check_again(self._budget.settle())

    def _check_again(self, workspaces: Iterable[str]) -> None:
        for workspace in workspaces:
            self._touched.add(workspace)
            if workspace in self._refused:
                self._refused[workspace] = self._clock()

    def check_bounds(self) -> None:
        """Find out what is within the bounds of workspaces that changed; to be called from time to time."""
        with self._changing():
            self._check_again(self._budget.regain())
            self._touched |= self._unbound

    @property
    def ignored(self) -> int:
        """How often an object was ignored."""
        return self._ignored.count

    def workspaces_ignored(self, kind: str) -> int:
        """Return how many workspaces have objects of a kind that are ignored."""
        with self._lock:
            return self._ignored.workspaces(kind)

    def _count_of(self, workspace: str) -> int:
        usage = self._budget.usage(workspace)
        return len(usage.entries) if usage else 0

    def beyond(self, kind: str) -> int:
        """Return how many objects of a kind are beyond the bounds."""
        return sum(bool(one.beyond) for one in self.of_kind(kind))

    def fabrics_of(self, binding: ObjectKey) -> list[Stored]:
        """Return the Fabrics that name a binding."""
        return self._using(binding._replace(kind=FABRIC))

    def _forget(self, kind: str) -> None:
        served = (time for place, time in self._listed.items() if place[1] == kind and place not in self._unserved)
        before = min(self._clock() - KEEP, *served)
        for one in [one for one in self._stored.values() if one.key.kind == kind and (one.url, kind) not in self._unserved]:
            if one.missing_since is not None and one.missing_since < before:
                del self._stored[one.key], self._shown[one.key]
                self._budget.remove(one.key)
                self._touched.add(one.key.workspace)
        self._references.keep(self._stored.keys())


def _without(obj: Object, name: str) -> Object:
    """Return an object without one entry of its metadata."""
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != name}}

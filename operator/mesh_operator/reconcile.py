# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One mesh, from its objects to their statuses: what to do, finalizers and record first, then a look, a play if need be, then the truth.

The order of finalizers: on before the first write into a cluster, off after the last one was taken back (kcp keeps the binding, and with it
our access, until they are gone).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.errors import ClusterError, Defect, WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.management_plane import NotUsable, Usable
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.mesh_look import Look, look

from .api import MANAGER, Cluster
from .clusters import Clusters
from .keys import MeshKey, ObjectKey
from .kinds import BINDING, BY_KIND, CLUSTER, FABRIC, ITEMS
from .log import log
from .orphans import remains
from .records import Records
from .request import Held, MeshRequest, Nothing, request_of
from .runs import Runner, RunRequest, RunResult, RunState
from .serve import Metrics
from .status import Status, patch_of, status_of_fabric, status_of_failed_run, status_of_held, status_of_result, worth_writing
from .store import MeshObjects, Store, Stored

ABANDON: Final = "networking.edge-portal.eu/abandon"
"""Annotation of an object that is being deleted: let it go although something may be left in clusters. A record keeps what is left."""


@dataclass(frozen=True, kw_only=True)
class Next:
    """When to look at the mesh again, in seconds (None: when something changes), and whether this time failed."""

    seconds: float | None
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class _Linked:
    """Links that needed nothing when they were seen last. ``wish``: MeshRequest.linked; ``at``: monotonic seconds."""

    wish: str
    at: float
    status: Mapping[str, Any]  # of the binding


class Reconciler:
    """Thread-safe for different meshes; one mesh is reconciled by one thread at a time (queue.py)."""

    def __init__(
        self,
        *,
        store: Store,
        clusters: Clusters,
        records: Records,
        runner: Runner,
        api_at: Callable[[str], Cluster],
        cancel: Event,
        settled: Callable[[str], bool],
        teardown_deadline: float,
        check_interval: float,
        metrics: Metrics,
        event: Callable[[Stored, str, str, str], None],
    ) -> None:
        self._store, self._clusters, self._records, self._runner = store, clusters, records, runner
        self._api_at, self._cancel, self._metrics, self._event = api_at, cancel, metrics, event
        self._settled, self._deadline, self._interval = settled, teardown_deadline, check_interval
        self._linked: dict[MeshKey, _Linked] = {}
        self.orphaned: frozenset[MeshKey] = frozenset()  # recorded meshes without a resource (orphans.py)

    def reconcile(self, key: MeshKey) -> Next:
        """Once. Errors of kcp are a failure that is tried again; nothing that a cluster or a tenant does raises."""
        try:
            return self._reconcile(key)
        except WriteConflict:  # somebody wrote meanwhile; the watch brings what
            return Next(seconds=1.0)
        except Exception as error:  # one tenant's mesh never stops the others'
            code = error.code if isinstance(error, ClusterError) else Defect.code
            self._metrics.errors.labels(code).inc()
            log("reconcile_failed", workspace=key.workspace, namespace=key.namespace, name=key.name, code=code, error=error)
            return Next(seconds=None, failed=True)

    def _reconcile(self, key: MeshKey) -> Next:
        mesh, record = self._store.mesh(key), self._records.get(key)
        if key in self.orphaned and record is not None:
            mesh = remains(record)
        elif mesh.binding is not None and mesh.binding.missing_since is not None:
            if record is None:
                self._release(_deleting(mesh))  # nothing is left of what refers to it
            return Next(seconds=self._interval)  # not seen is not deleted
        if not self._settled(mesh.binding.url if mesh.binding else ""):
            return Next(seconds=1.0)  # what is not listed yet looks as if it were gone
        names = dict.fromkeys((*_refs(mesh), *(record.clusters if record else ())))
        place = (key.workspace, key.namespace)
        clusters = {name: self._clusters.resolve(key, name, self._store.get(ObjectKey(CLUSTER, *place, name))) for name in names}
        wish = request_of(mesh, clusters, record)
        if wish is None:
            return Next(seconds=None)
        if isinstance(wish, Nothing):
            self._release(_deleting(mesh))  # nothing was ever made for it
            return Next(seconds=None)
        if isinstance(wish, Held):
            return self._hold(mesh, wish, clusters)
        if wish.absent and not any(isinstance(found, Usable) for found in clusters.values()):
            self._give_up(mesh, _deleting(mesh), wish.unavailable)
            return Next(seconds=self._interval)
        self._put_finalizers(wish, mesh)
        if wish.absent or record is None or (self._fresh(wish) and _items_changed(wish)):
            return self._run(wish, mesh)  # there is something to do for sure
        seen = look(wish.cilium_mesh, wish.hosts, wish.variables["cilium_mesh_previous_status"])
        self._remember(wish, seen.result["status"]["binding"] if seen and seen.linked else None)
        if seen is None or seen.steps or wish.leaving:
            return self._run(wish, mesh)
        return self._report(mesh, seen)

    # What is not carried out

    def _hold(self, mesh: MeshObjects, held: Held, clusters: Mapping[str, Any]) -> Next:
        for stored in _all(mesh):
            if not stored.deleting:
                self._write(stored, status_of_held(stored, held, datetime.now(UTC)))
        going = _deleting(mesh)
        if self._records.get(mesh.key) is None:
            self._release(going)  # nothing was ever written for it
        else:
            self._give_up(mesh, going, {name: found for name, found in clusters.items() if isinstance(found, NotUsable)})
        return Next(seconds=min(30.0, self._interval))

    def _report(self, mesh: MeshObjects, seen: Look) -> Next:
        for stored in _all(mesh):
            self._write(stored, status_of_result(stored, seen.result, datetime.now(UTC)))
        return Next(seconds=min(float(seen.result["requeueSeconds"]), self._interval))

    # Carrying out

    def _fresh(self, wish: MeshRequest) -> _Linked | None:
        """Its links, if they were seen within the check interval, with the same wish: the next check is when they are looked at again."""
        known = self._linked.get(wish.key)
        return known if known and known.wish == wish.linked and time.monotonic() < known.at + self._interval else None

    def _remember(self, wish: MeshRequest, status: Mapping[str, Any] | None) -> None:
        self._linked.pop(wish.key, None)
        if status and status.get("phase") == "Connected":
            self._linked[wish.key] = _Linked(wish=wish.linked, at=time.monotonic(), status=status)

    def _run(self, wish: MeshRequest, mesh: MeshObjects) -> Next:
        """Links that were seen a short while ago, and needed nothing, are left alone: that makes the play a second shorter."""
        key, binding, known = wish.key, mesh.binding, self._fresh(wish)
        variables = {**wish.variables, **({"cilium_mesh_binding_status": known.status} if known else {})}
        if not wish.absent and binding is not None:
            self._records.remember(key, binding.uid, (host for host in wish.hosts if host not in wish.unavailable))
        request = RunRequest(playbook="mesh", hosts=wish.hosts, variables=variables, name=wish.owner)
        with self._metrics.running():
            run = self._runner.run(request, self._cancel)
        log(
            "run_ended",
            workspace=key.workspace,
            namespace=key.namespace,
            name=key.name,
            state=run.state.value,
            seconds=run.seconds,
            reason=run.error,
        )
        if run.state is RunState.CANCELED:
            return Next(seconds=0.0)
        now, result = datetime.now(UTC), run.mesh_result
        if known and result is not None:  # the play knows nothing of the links
            result = {**result, "status": {**result["status"], "binding": known.status}}
        for stored in (*wish.items, *((binding,) if binding else ())):
            self._write(stored, status_of_failed_run(stored, run, now) if result is None else status_of_result(stored, result, now))
        self._after(wish, mesh, run)
        if result is None:
            self._linked.pop(key, None)
            self._tell_failed(binding, run)
            return Next(seconds=None, failed=True)
        if not known:
            self._remember(wish, result["status"].get("binding"))
        later = known.at + self._interval - time.monotonic() if known else self._interval
        return Next(seconds=max(0.0, min(float(result.get("requeueSeconds", 60)), later)))

    def _after(self, wish: MeshRequest, mesh: MeshObjects, run: RunResult) -> None:
        """Let go what is taken away. Items whose leftovers stand in a cluster that does not answer may go while the binding stays: the next
        play that reaches it takes them away, as they are in no list."""
        unclean = _unclean(run.mesh_result)
        clean = run.mesh_result is not None and not (unclean & {"", *(_ref(stored) for stored in wish.leaving)})
        if wish.absent and clean and run.state is RunState.SUCCESSFUL and not wish.unavailable:
            self._release(_deleting(mesh))
            self._records.forget(wish.key)
        elif wish.absent:
            self._give_up(mesh, _deleting(mesh), wish.unavailable)
        elif run.mesh_result is not None:
            if run.state is RunState.SUCCESSFUL:  # clusters that left are clean now, but for those that did not answer
                self._records.narrow(wish.key, {*_refs(mesh), *wish.unavailable})
            self._release([stored for stored in wish.leaving if _ref(stored) not in unclean])

    def _give_up(self, mesh: MeshObjects, going: Iterable[Stored], unavailable: Mapping[str, NotUsable]) -> None:
        """What cannot be cleaned is let go when its clusters are gone, after the deadline, or when its owner says so. A tombstone stays."""
        gone = bool(unavailable) and all(found.reason == "ClusterNotFound" for found in unavailable.values())
        late = [stored for stored in going if gone or _abandoned(stored) or _age(stored) > self._deadline]
        if any(stored.key.kind == BINDING for stored in late):
            record = self._records.get(mesh.key)
            left = tuple(unavailable) or (record.clusters if record else ())
            self._records.left_behind(mesh.key, left, datetime.now(UTC).isoformat(timespec="seconds"))
        self._release(late)

    def roll_up_fabrics(self) -> None:
        """Statuses of Fabrics, out of those of their bindings. Nothing else is done for them."""
        for stored in self._store.of_kind(FABRIC):
            names = BY_KIND[FABRIC].names_of_bindings(stored.obj)
            place = (stored.key.workspace, stored.key.namespace)
            bindings = {name: self._store.get(ObjectKey(BINDING, *place, name)) for name in names}
            try:
                self._write(stored, status_of_fabric(stored, bindings, datetime.now(UTC)))
            except Exception as error:  # as above; the next round tries again
                log("fabric_failed", workspace=stored.key.workspace, namespace=stored.key.namespace, name=stored.key.name, error=error)

    # Writing to kcp

    def _put_finalizers(self, wish: MeshRequest, mesh: MeshObjects) -> None:
        for stored in (*wish.items, *((mesh.binding,) if mesh.binding else ())):
            if not stored.deleting and BY_KIND[stored.key.kind].finalizer not in _finalizers(stored.obj):
                self._set_finalizer(stored, wanted=True)

    def _release(self, going: Iterable[Stored]) -> None:
        for stored in sorted(going, key=lambda entry: entry.key.kind == BINDING):  # the binding last
            if BY_KIND[stored.key.kind].finalizer in _finalizers(stored.obj):
                self._set_finalizer(stored, wanted=False)

    def _set_finalizer(self, stored: Stored, *, wanted: bool) -> None:
        """Ours alone, if the object is still the one that was seen; others' stay."""
        api, finalizer = self._api_at(stored.url), BY_KIND[stored.key.kind].finalizer
        current = api.get(_path(stored))
        if current is None or current["metadata"].get("uid") != stored.uid:
            return  # gone, and so is what was to be done
        metadata = {
            "finalizers": [entry for entry in _finalizers(current) if entry != finalizer] + ([finalizer] if wanted else []),
            "resourceVersion": current["metadata"]["resourceVersion"],
        }
        api.merge_patch(_path(stored), {"metadata": metadata}, manager=MANAGER)

    def _write(self, stored: Stored, status: Status | None) -> None:
        before = stored.obj.get("status")
        if status is None or not worth_writing(before, status, datetime.now(UTC)):
            return
        current = self._api_at(stored.url).get(_path(stored))
        if current is None or current["metadata"].get("uid") != stored.uid:
            return
        version = {"metadata": {"resourceVersion": current["metadata"]["resourceVersion"]}}
        body = {**version, "status": patch_of(current.get("status") or {}, status)}
        self._api_at(stored.url).merge_patch(f"{_path(stored)}/status", body, manager=MANAGER)
        if (before or {}).get("phase") != status.get("phase"):
            kind = "Normal" if status.get("phase") not in ("Error", "Degraded") else "Warning"
            self._event(stored, kind, str(status.get("phase")), f"phase is {status.get('phase')}")

    def _tell_failed(self, binding: Stored | None, run: RunResult) -> None:
        self._metrics.errors.labels("RunnerFailed").inc()
        if binding is not None:
            self._event(binding, "Warning", "RunnerFailed", f"the run ended as {run.state.value} in task {run.last_task or 'unknown'}")


def _items_changed(wish: MeshRequest) -> bool:
    told = all(s.obj["metadata"]["generation"] == (s.obj.get("status") or {}).get("observedGeneration") for s in wish.items)
    return bool(wish.leaving) or not told


def _refs(mesh: MeshObjects) -> tuple[str, ...]:
    """Names in clusterRefs. The schema says that each is {name}."""
    refs = ((mesh.binding.obj.get("spec") or {}).get("clusterRefs") or ()) if mesh.binding else ()
    return tuple(str(ref["name"]) for ref in refs if isinstance(ref, Mapping) and ref.get("name"))


def _all(mesh: MeshObjects) -> tuple[Stored, ...]:
    items = tuple(stored for row in ITEMS for stored in mesh.items.get(row.kind, ()))
    return (*((mesh.binding,) if mesh.binding else ()), *items)


def _deleting(mesh: MeshObjects) -> list[Stored]:
    return [stored for stored in _all(mesh) if stored.deleting]


def _unclean(result: Mapping[str, Any] | None) -> set[str]:
    """Items ("" for the mesh) about which the run has a finding that blocks or that an API server answered."""
    found = (result or {}).get("findings") or ()
    return {str(f.get("item", "")) for f in found if f.get("severity") == "blocking" or str(f.get("code", "")).startswith("CM-API")}


def _ref(stored: Stored) -> str:
    return f"{BY_KIND[stored.key.kind].listed}/{stored.key.name}"


def _path(stored: Stored) -> str:
    row = BY_KIND[stored.key.kind]
    return f"{row.collection(stored.key.workspace, stored.key.namespace)}/{stored.key.name}"


def _finalizers(obj: Mapping[str, Any]) -> list[str]:
    return list((obj.get("metadata") or {}).get("finalizers") or ())


def _abandoned(stored: Stored) -> bool:
    return ((stored.obj.get("metadata") or {}).get("annotations") or {}).get(ABANDON) == "true"


def _age(stored: Stored) -> float:
    """Seconds since its deletion was asked for."""
    return (datetime.now(UTC) - datetime.fromisoformat(stored.obj["metadata"]["deletionTimestamp"])).total_seconds()

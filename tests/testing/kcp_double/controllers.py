# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What kcp's controllers do: workspaces become ready, exports get an identity and a slice, bindings are bound, and all of it goes again.

One thread makes whole passes over everything, whenever something was written and while something is on its way out.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tests.lab.api import ApiError, LabApi
from tests.testing.kcp_double.kcp_crds import APIS, CORE, TENANCY, definition_of, install, wait_served
from tests.testing.kcp_double.places import CLUSTER_LABEL, NAME_ANNOTATION, ROOT, Places, Workspace, new_cluster_name
from tests.testing.kcp_double.removal import Removal
from tests.testing.kcp_double.state import Binding, Export, State, condition, merged_conditions
from tests.testing.kcp_double.translate import TOUCHED, Resource, Scope

Object = dict[str, Any]
BINDING_FINALIZER: Final = "apis.kcp.io/apibinding-finalizer"
WORKSPACE_FINALIZER: Final = "core.kcp.io/logicalcluster"
PATH_ANNOTATION: Final = "kcp.io/path"
_SCHEMAS: Final = f"/apis/{APIS}/v1alpha1"
_BUSY: Final = 0.3  # seconds between passes while something is being deleted


class Controllers:
    """``urls``: base URL of each shard that is to be in slices, at this moment."""

    def __init__(self, api: LabApi, places: Places, urls: Callable[[], Mapping[str, str]]) -> None:
        self.state = State(places)
        self.lag = 0.0  # seconds for which lists of all workspaces are those from before a new binding
        self._arrived: dict[str, tuple[float, float, int]] = {}  # by uid of a binding: when it was first seen; lag, its version then
        self._api = api
        self._places = places
        self._urls = urls
        self._removal = Removal(api, places)
        self._installed: dict[str, Resource] = {}  # by uid of the schema
        self._wake = threading.Event()
        self._end = False
        self._thread = threading.Thread(target=self._run, name="kcp-double-controllers", daemon=True)

    def start(self) -> None:
        for namespace in self._api.list("/api/v1/namespaces", label_selector=CLUSTER_LABEL):
            metadata = namespace["metadata"]  # of a double before this one, on the same server
            self._places.real(metadata["labels"][CLUSTER_LABEL], metadata["annotations"][NAME_ANNOTATION])
        self.make_workspace(Workspace(ROOT, ROOT, ROOT))
        self._pass()
        self._arrived = dict.fromkeys(self._arrived, (-math.inf, 0.0, 0))  # of a double before this one: not new
        self._thread.start()

    def stop(self) -> None:
        self._end = True
        self._wake.set()
        self._thread.join()

    def nudge(self) -> None:
        """Something was written."""
        self._wake.set()

    def version_before_new_bindings(self, export: Export, shard: str) -> str:
        """The resourceVersion of the oldest binding that lists of all workspaces do not show yet; "" when they show all."""
        now, arrived = time.monotonic(), self._arrived
        seen = [arrived[one.uid] for one in self.state.bindings_of(export, shard) if one.uid in arrived]
        return str(min((version for when, lag, version in seen if when + min(lag, self.lag) > now), default=""))

    def touch(self, cluster: str, resources: Iterable[tuple[str, str]]) -> None:
        """Make the objects show up as changed, so that watches that see them now, or no longer, say so."""
        for namespace in self._removal.namespaces(cluster):
            for group, plural in resources:
                for path, obj in self._removal.objects(namespace, group, plural):
                    stamp = {TOUCHED: str(int(obj["metadata"].get("annotations", {}).get(TOUCHED, "0")) + 1)}
                    self._api.patch(path, {"metadata": {"annotations": stamp}})

    def _run(self) -> None:
        busy = False
        while not self._end:
            self._wake.wait(_BUSY if busy else None)
            self._wake.clear()
            if self._end:
                return
            try:
                busy = self._pass()
            except Exception as error:  # the next pass looks again
                busy = True
                if not (isinstance(error, ApiError) and error.status in (404, 409)):  # another writer was faster
                    traceback.print_exc()

    def _pass(self) -> bool:
        """True when something is on its way out."""
        busy = self._workspaces()
        exports = [one for obj in self._all("apiexports", "v1alpha2") if (one := self._export(obj))]
        draft = State(self._places, tuple(exports))
        bindings = [self._binding(obj, draft) for obj in self._all("apibindings", "v1alpha2")]
        now = time.monotonic()
        self._arrived = {one.uid: self._arrived.get(one.uid, (now, self.lag, one.version)) for one in bindings}
        before, self.state = self.state, State(self._places, tuple(exports), tuple(bindings))
        for binding in bindings:
            if binding.deleting:
                busy = self._unbind(binding) or busy
            else:
                self._bind(binding)
        for export in exports:
            self._slice(export)
        for obj in self._all("apiexportendpointslices", "v1alpha1"):
            if draft.export(self._cluster_of(obj), obj["spec"]["export"]["name"]) is None:
                self._api.delete(_own_path(_SCHEMAS, "apiexportendpointslices", obj))
        self._show_claims(before)
        return self._removal.finish_namespaces() or busy

    def _all(self, plural: str, version: str, group: str = APIS) -> list[Object]:
        found = self._api.list(f"/apis/{group}/{version}/{plural}")
        return [obj for obj in found if self._workspace_of(obj)]

    def _cluster_of(self, obj: Object) -> str:
        return (self._places.origin(obj["metadata"]["namespace"]) or ("", ""))[0]

    def _workspace_of(self, obj: Object) -> Workspace | None:
        return self._places.find(self._cluster_of(obj))

    def _workspaces(self) -> bool:
        busy = False
        found = self._api.list(f"/apis/{TENANCY}/v1alpha1/workspaces")
        for obj in sorted(found, key=lambda one: str(one["metadata"]["creationTimestamp"])):  # parents before children
            parent = self._workspace_of(obj)
            if parent is None:
                continue
            path = _own_path(f"/apis/{TENANCY}/v1alpha1", "workspaces", obj)
            cluster = obj["spec"].get("cluster") or new_cluster_name()
            if obj["metadata"].get("deletionTimestamp"):
                busy = not self._removal.empty_workspace(cluster) or busy
                if self._removal.is_empty(cluster):
                    self._removal.forget(cluster)
                    self._finalizers(path, obj, WORKSPACE_FINALIZER, present=False)
            elif self._places.find(cluster) is None:
                self.make_workspace(self._placed(obj, cluster, f"{parent.path}:{obj['metadata']['name']}"))
                self._default_bindings(obj, cluster)
                self._finalizers(path, obj, WORKSPACE_FINALIZER, present=True)
                url = f"{self._urls().get(ROOT, '')}/clusters/{parent.path}:{obj['metadata']['name']}"
                self._api.patch(path, {"spec": {"cluster": cluster, "URL": url}})
                self._api.patch(f"{path}/status", {"status": {"phase": "Ready"}})
        return busy

    def make_workspace(self, workspace: Workspace) -> None:
        """A logical cluster with what it is born with."""
        cluster = workspace.cluster
        for namespace in ("", "default"):
            real = self._places.real(cluster, namespace)
            metadata: Object = {"name": real, "labels": {CLUSTER_LABEL: cluster}, "annotations": {NAME_ANNOTATION: namespace}}
            if self._api.get(f"/api/v1/namespaces/{real}") is None:
                self._api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        home = f"/apis/{CORE}/v1alpha1/namespaces/{self._places.real(cluster, '')}/logicalclusters"
        if self._api.get(f"{home}/cluster") is None:
            metadata = {"name": "cluster", "annotations": {PATH_ANNOTATION: workspace.path}}
            self._api._call("POST", home, {"apiVersion": f"{CORE}/v1alpha1", "kind": "LogicalCluster", "metadata": metadata, "spec": {}})
            self._api.patch(f"{home}/cluster/status", {"status": {"phase": "Ready"}})
        self._places.add(workspace)

    def _default_bindings(self, obj: Object, cluster: str) -> None:
        """What its type binds from the start, with all claims accepted (kcp: apibinder_initializer)."""
        wanted = obj["spec"].get("type") or {}
        home = self._places.find(str(wanted.get("path", "")))
        place = f"/apis/{TENANCY}/v1alpha1/namespaces/{self._places.real(home.cluster, '')}/workspacetypes" if home else ""
        found = self._api.get(f"{place}/{wanted['name']}") if home else None
        for one in (found or {"spec": {}})["spec"].get("defaultAPIBindings") or []:
            export = self.state.export(one["path"], one["export"])
            claims = (
                [{**_claim_only(claim), "state": "Accepted", "selector": {"matchAll": True}} for claim in export.claims] if export else []
            )
            annotations = {PATH_ANNOTATION: next(known.path for known in self._places.all() if known.cluster == cluster)}
            metadata = {"name": one["export"], "annotations": annotations, "finalizers": [BINDING_FINALIZER]}
            spec = {"reference": {"export": {"path": one["path"], "name": one["export"]}}, "permissionClaims": claims}
            bindings = f"/apis/{APIS}/v1alpha2/namespaces/{self._places.real(cluster, '')}/apibindings"
            self._api._call("POST", bindings, {"apiVersion": f"{APIS}/v1alpha2", "kind": "APIBinding", "metadata": metadata, "spec": spec})

    def _placed(self, obj: Object, cluster: str, path: str) -> Workspace:
        labels = ((obj["spec"].get("location") or {}).get("selector") or {}).get("matchLabels") or {}
        return Workspace(cluster, path, str(labels.get("name", ROOT)))

    def _export(self, obj: Object) -> Export | None:
        workspace = self._workspace_of(obj)
        assert workspace is not None
        if obj["metadata"].get("deletionTimestamp"):
            return None
        home = f"{_SCHEMAS}/namespaces/{obj['metadata']['namespace']}/apiresourceschemas"
        resources = {}
        for entry in obj["spec"].get("resources") or []:
            schema = self._api.get(f"{home}/{entry['schema']}")
            if schema is not None:
                resources[(entry["group"], entry["name"])] = self._serve(schema)
        identity = (obj.get("status") or {}).get("identityHash") or hashlib.sha256(obj["metadata"]["uid"].encode()).hexdigest()
        status = self._write_status(obj, "v1alpha2", "apiexports", {"identityHash": identity}, [condition("IdentityValid", True)])
        return Export(workspace, {**obj, "status": status}, resources)

    def _serve(self, schema: Object) -> Resource:
        uid = schema["metadata"]["uid"]
        if uid not in self._installed:
            definition = definition_of(schema)
            install(self._api, definition)
            wait_served(self._api, definition)
            spec = schema["spec"]
            scope = Scope.NAMESPACED if spec["scope"] == "Namespaced" else Scope.ROOTED
            self._installed[uid] = Resource(spec["group"], spec["names"]["plural"], scope)
        return self._installed[uid]

    def _binding(self, obj: Object, state: State) -> Binding:
        workspace = self._workspace_of(obj)
        assert workspace is not None
        reference = obj["spec"]["reference"]["export"]
        return Binding(workspace, obj, state.export(reference.get("path") or workspace.cluster, reference["name"]))

    def _bind(self, binding: Binding) -> None:
        export = binding.export
        if export is None:
            missing = condition("APIExportValid", False, "APIExportNotFound", "APIExport not found")
            self._write_status(binding.obj, "v1alpha2", "apibindings", {"phase": "Binding"}, [missing])
            return
        schemas = {(one["group"], one["name"]): one["schema"] for one in export.obj["spec"].get("resources") or []}
        bound = [
            {
                "group": group,
                "resource": plural,
                "schema": {"name": schemas[(group, plural)], "UID": export.identity, "identityHash": export.identity},
            }
            for group, plural in export.resources
        ]
        applied = [_claim_only(one) for one in binding.claims if one["state"] == "Accepted"]
        status = {
            "phase": "Bound",
            "apiExportClusterName": export.workspace.cluster,
            "boundResources": bound,
            "appliedPermissionClaims": applied,
            "exportPermissionClaims": [_claim_only(one) for one in export.claims],
        }
        valid = all({"identityHash": "", **claim}["identityHash"] == "" or self.state.source_of(claim) for claim in export.claims)
        names = ("Ready", "APIExportValid", "BindingUpToDate", "InitialBindingCompleted", "PermissionClaimsApplied")
        claims = condition(
            "PermissionClaimsValid", valid, "InvalidPermissionClaims", "a claimed resource is not served under that identity"
        )
        self._write_status(binding.obj, "v1alpha2", "apibindings", status, [*(condition(name, True) for name in names), claims])
        self._finalizers(_own_path(f"/apis/{APIS}/v1alpha2", "apibindings", binding.obj), binding.obj, BINDING_FINALIZER, present=True)

    def _unbind(self, binding: Binding) -> bool:
        """False when it is gone."""
        resources = binding.export.resources if binding.export else {}
        left = self._removal.empty_resources(binding.workspace.cluster, resources)
        if left:
            why = ", ".join(f"{finalizer} in {count} resource instances" for finalizer, count in sorted(left.items()) if finalizer)
            reason = "SomeFinalizersRemain" if why else "SomeResourcesRemain"
            text = f"Some content in the workspace has finalizers remaining: {why}" if why else "Some resources are remaining"
            known = [one for one in binding.obj.get("status", {}).get("conditions") or [] if one["type"] != "BindingResourceDeleteSuccess"]
            self._write_status(
                binding.obj, "v1alpha2", "apibindings", {}, [*known, condition("BindingResourceDeleteSuccess", False, reason, text)]
            )
            return True
        self._finalizers(_own_path(f"/apis/{APIS}/v1alpha2", "apibindings", binding.obj), binding.obj, BINDING_FINALIZER, present=False)
        self._wake.set()  # the slice may lose a URL
        return False

    def _slice(self, export: Export) -> None:
        """Each shard with a binding puts its URL in, and takes it out with the last one."""
        home = f"{_SCHEMAS}/namespaces/{self._places.real(export.workspace.cluster, '')}/apiexportendpointslices"
        found = self._api.get(f"{home}/{export.name}")
        if found is None:
            spec = {"export": {"name": export.name, "path": export.workspace.path}}
            body = {"apiVersion": f"{APIS}/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": export.name}, "spec": spec}
            found = self._api._call("POST", home, body)
        shards = {one.workspace.shard for one in self.state.bindings_of(export)}
        tail = f"/services/apiexport/{export.workspace.cluster}/{export.name}"
        urls = [f"{url}{tail}" for shard, url in sorted(self._urls().items()) if shard in shards]
        good = [condition("APIExportValid", True), condition("PartitionValid", True)]
        self._write_status(found, "v1alpha1", "apiexportendpointslices", {"endpoints": [{"url": url} for url in urls] or None}, good)

    def _show_claims(self, before: State) -> None:
        """Objects of a claim that was just accepted, or no longer is, appear or vanish."""
        old, new = before.accepted(), self.state.accepted()
        for cluster in {*old, *new}:
            changed = old.get(cluster, set()) ^ new.get(cluster, set())
            if changed and self._places.find(cluster):
                self.touch(cluster, changed)

    def _write_status(self, obj: Object, version: str, plural: str, status: Object, conditions: list[Object]) -> Object:
        """Returns the status as it is then; writes only what differs."""
        old = obj.get("status") or {}
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        wanted = {**status, "conditions": merged_conditions(old.get("conditions") or [], conditions, now)}
        if any(old.get(key) != value for key, value in wanted.items()):
            path = _own_path(f"/apis/{APIS}/{version}", plural, obj)
            self._api.patch(f"{path}/status", {"status": wanted})
        return {**old, **wanted}

    def _finalizers(self, path: str, obj: Object, finalizer: str, *, present: bool) -> None:
        known = obj["metadata"].get("finalizers") or []
        wanted = [*(one for one in known if one != finalizer), *([finalizer] if present else [])]
        if sorted(wanted) != sorted(known):
            self._api.patch(path, {"metadata": {"finalizers": wanted, "uid": obj["metadata"]["uid"]}})


def _own_path(root: str, plural: str, obj: Object) -> str:
    return f"{root}/namespaces/{obj['metadata']['namespace']}/{plural}/{obj['metadata']['name']}"


def _claim_only(claim: Mapping[str, Any]) -> Object:
    return {key: value for key, value in claim.items() if key not in ("state", "defaultSelector")}

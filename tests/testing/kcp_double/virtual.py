# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The virtual workspace of an export: what its provider sees of all who bind it, and what he may do there.

The order is kcp's: path, binding of the logical cluster, permission on apiexports/content, resource
(pkg/virtual/apiexport/builder/build.go and authorizer/*.go, virtual-workspace-framework forwardingregistry/store.go).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from tests.testing.kcp_double.access import Access, User
from tests.testing.kcp_double.answers import Object, Reply, Request, Target, failure, forbidden, not_installed, plain_404, target_of
from tests.testing.kcp_double.controllers import Controllers
from tests.testing.kcp_double.discovery import discover
from tests.testing.kcp_double.faults import Faults
from tests.testing.kcp_double.forward import Call, Forwarder
from tests.testing.kcp_double.kcp_crds import APIS
from tests.testing.kcp_double.state import Binding, Export, State
from tests.testing.kcp_double.upstream import Upstream

_READING: Final = ("get", "list", "watch")
_UNRESOLVED: Final = "Path not resolved to a valid virtual workspace"
_NO_BINDING: Final = "could not find suitable APIBinding in target logical cluster"
_NO_REASON: Final = "failed to find suitable reason to allow access in APIBinding"
_READ_ONLY: Final = "write access to APIBinding is not allowed from virtual workspace"


class VirtualWorkspaces:
    """``state`` is asked anew for every event of a watch."""

    def __init__(self, upstream: Upstream, access: Access, forwarder: Forwarder, faults: Faults, controllers: Controllers) -> None:
        self._upstream = upstream
        self._access = access
        self._forwarder = forwarder
        self._faults = faults
        self._controllers = controllers

    def answer(self, request: Request, user: User, path: str) -> Reply:
        """``path``: after /services/apiexport/."""
        provider, name, word, cluster, tail = [*path.split("/", 4), "", "", "", ""][:5]
        unresolved = Target(request.method.lower() if request.method != "POST" else "create", request.path)
        if not (provider and name and word == "clusters" and cluster) or ":" in cluster:
            return forbidden(user.name, unresolved, _UNRESOLVED)
        state = self._controllers.state
        export = state.export(provider, name)
        if export is None or export.workspace.cluster != provider:
            return forbidden(user.name, unresolved)
        target = target_of(request, f"/{tail}")
        if fault := self._faults.meet(request, target, True):
            return fault
        if why := self._refusal(state, export, user, cluster, request.shard, target):
            return forbidden(user.name, target, why)
        if not target.plural:
            return discover(self._upstream, target, state.served(export), virtual=True)
        return self._resource(state, export, request, target, cluster)

    def _refusal(self, state: State, export: Export, user: User, cluster: str, shard: str, target: Target) -> str:
        """Why it is forbidden; "" when it is not."""
        if cluster != "*" and target.plural:
            binding = next((one for one in state.bindings_of(export, shard) if one.workspace.cluster == cluster), None)
            if binding is None:
                return _NO_BINDING
            if why := self._bound(state, export, binding, target):
                return why
        content = Target(target.verb, target.path, APIS, "v1alpha1", "", "apiexports", export.name, "content")
        if self._access.may(user, export.workspace.cluster, content):
            return ""
        return f'API export: "{export.name}", workspace: "{export.workspace.cluster}" RBAC decision: access denied'

    def _bound(self, state: State, export: Export, binding: Binding, target: Target) -> str:
        pair = (target.group, target.plural)
        if pair in export.resources:
            return ""
        claimed = state.claimed(export, *pair)
        if claimed and binding.accepts(claimed[0]):
            accepted = next(one for one in binding.claims if one["resource"] == claimed[0]["resource"] and one["state"] == "Accepted")
            verbs = set(accepted["verbs"]) & set(claimed[0]["verbs"])
            if target.verb in verbs or "*" in verbs:
                return ""
        if pair == (APIS, "apibindings"):
            return "" if target.verb in _READING else _READ_ONLY
        return _NO_REASON

    def _resource(self, state: State, export: Export, request: Request, target: Target, cluster: str) -> Reply:
        pair = (target.group, target.plural)
        resource = state.served(export).get(pair)
        if resource is None or target.subresource not in ("", "status"):
            return plain_404()
        if target.verb == "create" and (lacking := _lacks_kind(request)):
            return lacking
        if cluster != "*":
            return self._forwarder.send(Call(request, target, resource, cluster, lambda: frozenset({cluster})))
        if target.verb not in ("list", "watch"):
            return failure(405, "not supported in the `*` logical cluster")
        if target.namespace:
            message = f"cross-cluster LIST and WATCH are required to be cross-namespace, not scoped to namespace {target.namespace}"
            return failure(400, message)
        if not state.installed(export, request.shard, *pair):
            return not_installed(target)
        return self._forwarder.send(self._wildcard(export, Call(self._lagging(export, request, target), target, resource, "", frozenset)))

    def _lagging(self, export: Export, request: Request, target: Target) -> Request:
        """A list lags behind a new binding: it is the one from before it, with the version of then. A watch from there misses nothing."""
        if (
            target.verb != "list"
            or target.group == APIS
            or request.query.get("resourceVersion", "0") != "0"
            or request.query.get("continue")
        ):
            return request
        version = self._controllers.version_before_new_bindings(export, request.shard)
        return (
            replace(request, query={**request.query, "resourceVersion": version, "resourceVersionMatch": "Exact"}) if version else request
        )

    def _wildcard(self, export: Export, call: Call) -> Call:
        request, target, controllers = call.request, call.target, self._controllers
        pair = (target.group, target.plural)

        def shown() -> frozenset[str]:
            state = controllers.state
            claimed = state.claimed(export, *pair) if pair not in export.resources else None
            return state.consumers(export, request.shard, claimed[0] if claimed else None)

        def of_this_export(obj: Object) -> bool:
            reference = obj.get("spec", {}).get("reference", {}).get("export", {})
            return reference.get("name") == export.name and reference.get("path") in (export.workspace.path, export.workspace.cluster)

        only = of_this_export if pair == (APIS, "apibindings") and _has_spec(request) else call.only
        return replace(call, shown=shown, only=only, muted=lambda: self._faults.is_mute(request, target, True))


def _lacks_kind(request: Request) -> Reply | None:
    """A virtual workspace fills in nothing, where a kube-apiserver does (kcp 0.32.3)."""
    try:
        body = json.loads(request.body or b"{}")
    except ValueError:
        return None  # the API server behind says so
    if not isinstance(body, dict) or (body.get("kind") and body.get("apiVersion")):
        return None
    return failure(400, f"the object provided is unrecognized: Object 'Kind' is missing in '{json.dumps(body)[:80]}'")


def _has_spec(request: Request) -> bool:
    """Lists of metadata only have no reference to look at."""
    return "PartialObjectMetadata" not in (request.headers.get("Accept") or "")

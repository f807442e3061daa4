# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Plain workspaces: what a tenant, or the provider in his own workspace, sees and may do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from tests.lab.api import LabApi
from tests.testing.kcp_double.access import POLICY_PREFIX, Access, User
from tests.testing.kcp_double.answers import Object, Reply, Request, Target, failure, forbidden, plain_404, target_of
from tests.testing.kcp_double.controllers import BINDING_FINALIZER, PATH_ANNOTATION, WORKSPACE_FINALIZER, Controllers
from tests.testing.kcp_double.discovery import discover
from tests.testing.kcp_double.faults import Faults
from tests.testing.kcp_double.forward import Call, Forwarder
from tests.testing.kcp_double.kcp_crds import APIS, definition_of, refusal
from tests.testing.kcp_double.places import Places, Workspace
from tests.testing.kcp_double.state import WORKSPACE, Binding
from tests.testing.kcp_double.translate import Resource
from tests.testing.kcp_double.upstream import Upstream

_READING: Final = ("get", "list", "watch")
_SUBRESOURCES: Final = ("", "status", "token", "finalize")
_WITH_PATH: Final = ("apiexports", "apibindings", "workspacetypes")  # kcp's admission tells the path of these, and of no other
_RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class PlainWorkspaces:
    """See the module."""

    _api: LabApi
    _upstream: Upstream
    _places: Places
    _access: Access
    _forwarder: Forwarder
    _faults: Faults
    _controllers: Controllers

    def answer(self, request: Request, user: User, path: str) -> Reply:
        """``path``: after /clusters/."""
        place, _, tail = path.partition("/")
        target = target_of(request, f"/{tail}")
        workspace = self._places.find(place)
        if workspace is None or not self._access.may_enter(user, workspace.cluster):
            return forbidden(user.name, target)  # the same for what does not exist: no user learns who else is there
        if fault := self._faults.meet(request, target, False):
            return fault
        if not target.plural:
            return discover(self._upstream, target, self._served(workspace), virtual=False)
        if not self._access.may(user, workspace.cluster, target):
            return forbidden(user.name, target)
        resource = self._served(workspace).get((target.group, target.plural))
        if resource is None or target.subresource not in _SUBRESOURCES:
            return plain_404()
        binding = self._controllers.state.bound(workspace.cluster, target.group, target.plural)
        refused = self._by_binding(user, target, binding) or self._by_admission(request, user, target, workspace)
        return refused or self._sent(request, target, resource, workspace)

    def _served(self, workspace: Workspace) -> dict[tuple[str, str], Resource]:
        state = self._controllers.state
        bound = [one.export.resources for one in state.bindings if one.workspace.cluster == workspace.cluster and one.export]
        return {**WORKSPACE, **{pair: resource for resources in bound for pair, resource in resources.items()}}

    def _by_binding(self, user: User, target: Target, binding: Binding | None) -> Reply | None:
        """The maximal permission policy of the export, and no new objects while the binding goes."""
        if binding is None or binding.export is None:
            return None
        export = binding.export
        policy = export.has_policy and not self._access.may(user, export.workspace.cluster, target, prefix=POLICY_PREFIX)
        if policy or (binding.deleting and target.verb == "create"):
            return forbidden(user.name, target)
        return None

    def _by_admission(self, request: Request, user: User, target: Target, workspace: Workspace) -> Reply | None:
        if target.verb != "create" or target.group != APIS or target.subresource:
            return None
        try:
            body = json.loads(request.body)
            if target.plural == "apibindings":
                return self._unbindable(user, target, workspace, body)
            if target.plural == "apiresourceschemas" and (error := refusal(self._api, definition_of(body))):
                return failure(error.status, str(error), reason=error.reason)
        except (ValueError, KeyError, TypeError):
            return None  # the real server says what is wrong with it
        return None

    def _unbindable(self, user: User, target: Target, workspace: Workspace, body: Object) -> Reply | None:
        reference = body["spec"]["reference"]["export"]
        path, name = str(reference.get("path") or workspace.cluster), str(reference["name"])
        provider = self._places.find(path)
        bind = Target("bind", "", APIS, "v1alpha2", "", "apiexports", name)
        if provider is None or not self._access.may(user, provider.cluster, bind):
            return forbidden(user.name, target, f"unable to create APIBinding: no permission to bind to export {path}:{name}")
        return None

    def _sent(self, request: Request, target: Target, resource: Resource, workspace: Workspace) -> Reply:
        def change(body: Object) -> None:
            metadata = body["metadata"]
            if target.plural in _WITH_PATH:
                metadata["annotations"][PATH_ANNOTATION] = workspace.path
            if target.plural in ("apibindings", "workspaces"):
                held = BINDING_FINALIZER if target.plural == "apibindings" else WORKSPACE_FINALIZER
                metadata["finalizers"] = sorted({*(metadata.get("finalizers") or []), held})
                body.pop("status", None)

        only_own = frozenset({workspace.cluster})
        call = Call(request, target, resource, workspace.cluster, lambda: only_own, change=change)
        reply = self._forwarder.send(call)
        if target.verb not in _READING:
            if target.group == _RBAC:
                self._access.forget()
            if target.group.endswith("kcp.io") or target.plural == "namespaces":
                self._controllers.nudge()
        return reply

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Exports and bindings as the last pass of the controllers found them: what is served where, and to which user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.testing.kcp_double.kcp_crds import APIS, OWN
from tests.testing.kcp_double.places import Places, Workspace
from tests.testing.kcp_double.translate import Resource, Scope

Object = dict[str, Any]
_RBAC: Final = "rbac.authorization.k8s.io"
BUILT_IN: Final = (
    Resource("", "namespaces", Scope.NAMESPACES),
    *(Resource("", plural) for plural in ("configmaps", "secrets", "serviceaccounts", "events", "resourcequotas", "limitranges")),
    Resource("events.k8s.io", "events"),
    Resource("coordination.k8s.io", "leases"),
    *(Resource(_RBAC, plural) for plural in ("roles", "rolebindings")),
    *(Resource(_RBAC, plural, Scope.PREFIXED) for plural in ("clusterroles", "clusterrolebindings")),
)
WORKSPACE: Final = {(one.group, one.plural): one for one in (*BUILT_IN, *OWN)}  # what every workspace serves
APIBINDINGS: Final = WORKSPACE[(APIS, "apibindings")]


@dataclass(frozen=True)
class Export:
    """An APIExport. ``resources``: those that it serves, each with the name of its schema and the version it is stored in."""

    workspace: Workspace
    obj: Object
    resources: Mapping[tuple[str, str], Resource] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def identity(self) -> str:
        return str((self.obj.get("status") or {}).get("identityHash") or "")

    @property
    def claims(self) -> list[Object]:
        return list(self.obj["spec"].get("permissionClaims") or [])

    @property
    def has_policy(self) -> bool:
        return (self.obj["spec"].get("maximalPermissionPolicy") or {}).get("local") is not None


@dataclass(frozen=True)
class Binding:
    """An APIBinding; ``export`` is None when there is none of that name."""

    workspace: Workspace
    obj: Object
    export: Export | None

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.obj["metadata"]["uid"])

    @property
    def version(self) -> int:
        return int(self.obj["metadata"]["resourceVersion"])

    @property
    def deleting(self) -> bool:
        return bool(self.obj["metadata"].get("deletionTimestamp"))

    def accepts(self, claim: Mapping[str, Any]) -> bool:
        return any(claim_key(one) == claim_key(claim) and one.get("state") == "Accepted" for one in self.claims)

    @property
    def claims(self) -> list[Object]:
        return list(self.obj["spec"].get("permissionClaims") or [])


@dataclass(frozen=True)
class State:
    """See the module."""

    places: Places
    exports: tuple[Export, ...] = ()
    bindings: tuple[Binding, ...] = ()

    def export(self, place: str, name: str) -> Export | None:
        return next((one for one in self.exports if one.name == name and place in (one.workspace.cluster, one.workspace.path)), None)

    def bindings_of(self, export: Export, shard: str = "") -> list[Binding]:
        mine = [
            one for one in self.bindings if one.export is not None and one.export.obj["metadata"]["uid"] == export.obj["metadata"]["uid"]
        ]
        return [one for one in mine if not shard or one.workspace.shard == shard]

    def bound(self, cluster: str, group: str, plural: str) -> Binding | None:
        """Through which binding a logical cluster has a resource."""
        mine = (one for one in self.bindings if one.workspace.cluster == cluster and one.export is not None)
        return next((one for one in mine if one.export is not None and (group, plural) in one.export.resources), None)

    def source_of(self, claim: Mapping[str, Any]) -> Export | None:
        """The export that a claim with an identityHash means."""
        wanted = (claim.get("group", ""), claim["resource"])
        return next((one for one in self.exports if one.identity == claim.get("identityHash") and wanted in one.resources), None)

    def claimed(self, export: Export, group: str, plural: str) -> tuple[Object, Resource] | None:
        """The claim of an export on a resource that can be served, if any. A claim on events is one on both groups of them."""
        for claim in export.claims:
            if (claim.get("group", ""), claim["resource"]) != (_events_group(group, plural), plural):
                continue
            if not claim.get("identityHash"):
                found = WORKSPACE.get((group, plural))
            else:
                source = self.source_of(claim)
                found = source.resources[(group, plural)] if source else None
            if found is not None:
                return claim, found
        return None

    def served(self, export: Export) -> dict[tuple[str, str], Resource]:
        """All that a virtual workspace offers."""
        pairs = [(claim.get("group", ""), claim["resource"]) for claim in export.claims]
        pairs += [("events.k8s.io", "events")] if ("", "events") in pairs else []
        found = {pair: claimed[1] for pair in pairs if (claimed := self.claimed(export, *pair))}
        return {**found, **export.resources, (APIS, "apibindings"): APIBINDINGS}

    def consumers(self, export: Export, shard: str, claim: Mapping[str, Any] | None = None) -> frozenset[str]:
        """Logical clusters of a shard whose objects a virtual workspace shows."""
        shown = [one for one in self.bindings_of(export, shard) if claim is None or one.accepts(claim)]
        if claim is not None and claim.get("identityHash"):
            pair = (str(claim.get("group", "")), str(claim["resource"]))
            shown = [one for one in shown if self._identity(one.workspace.cluster, *pair) == claim["identityHash"]]
        return frozenset(one.workspace.cluster for one in shown)

    def accepted(self) -> dict[str, set[tuple[str, str]]]:
        """Custom resources that logical clusters let others' exports see."""
        found: dict[str, set[tuple[str, str]]] = {}
        for one in self.bindings:
            claims = [claim for claim in one.export.claims if one.accepts(claim)] if one.export else []
            pairs = {claim_key(claim)[:2] for claim in claims if claim.get("identityHash")}
            found.setdefault(one.workspace.cluster, set()).update(pairs)
        return found

    def installed(self, export: Export, shard: str, group: str, plural: str) -> bool:
        """Does the shard know the resource at all? Only with a binding to the export that it comes from."""
        if (group, plural) in export.resources:
            return bool(self.bindings_of(export, shard))
        claimed = self.claimed(export, group, plural)
        source = self.source_of(claimed[0]) if claimed and claimed[0].get("identityHash") else None
        return source is None or bool(self.bindings_of(source, shard))

    def _identity(self, cluster: str, group: str, plural: str) -> str:
        binding = self.bound(cluster, group, plural)
        return binding.export.identity if binding and binding.export else ""


def claim_key(claim: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(claim.get("group") or ""), str(claim["resource"]), str(claim.get("identityHash") or "")


def condition(kind: str, good: bool, reason: str = "", message: str = "") -> Object:
    """A condition of kcp, without its time."""
    why = {"reason": reason, "message": message, "severity": "Error"} if not good else {}
    return {"type": kind, "status": "True" if good else "False", **why}


def merged_conditions(old: Iterable[Mapping[str, Any]], new: Iterable[Object], now: str) -> list[Object]:
    """``new``, with the times of those that did not change."""
    times = {(one.get("type"), one.get("status")): one.get("lastTransitionTime") for one in old}
    return [{**one, "lastTransitionTime": times.get((one["type"], one["status"])) or now} for one in new]


def _events_group(group: str, plural: str) -> str:
    return "" if (group, plural) == ("events.k8s.io", "events") else group

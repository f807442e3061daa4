# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Discovery: what the real server says, cut down to what a workspace or a virtual workspace serves. Never in the aggregated form."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.testing.kcp_double.answers import Object, Reply, Target, as_json, plain_404
from tests.testing.kcp_double.kcp_crds import APIS
from tests.testing.kcp_double.translate import Resource, Scope
from tests.testing.kcp_double.upstream import Upstream

Served = Mapping[tuple[str, str], Resource]


def discover(upstream: Upstream, target: Target, served: Served, *, virtual: bool) -> Reply:
    """``served``: by group and plural."""
    parts = [part for part in target.path.split("/") if part]
    groups = {group for group, _ in served}
    if parts == ["version"]:
        version = json.loads(upstream.send("GET", "/version").data)
        return as_json({**version, "gitVersion": f"{version['gitVersion']}+kcp-double"})
    if parts == ["api"]:  # kcp: always v1, also when nothing of it is served
        return as_json({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
    if parts == ["api", "v1"] and "" in groups:
        return _resources(upstream, "/api/v1", "", served, virtual)
    if parts == ["apis"]:
        found = json.loads(upstream.send("GET", "/apis").data)
        return as_json({**found, "groups": [one for one in found["groups"] if one["name"] in groups]})
    if parts and parts[0] == "apis" and len(parts) > 1 and parts[1] in groups:
        if len(parts) == 2:
            return Reply(body=upstream.send("GET", f"/apis/{parts[1]}").data)
        if len(parts) == 3:
            return _resources(upstream, target.path.rstrip("/"), parts[1], served, virtual)
    if parts[:2] == ["openapi", "v3"] or (parts == ["openapi", "v2"] and not virtual):  # kcp: no v2 in virtual workspaces
        return _openapi(upstream, parts, groups)
    return plain_404()


def _resources(upstream: Upstream, path: str, group: str, served: Served, virtual: bool) -> Reply:
    answer = upstream.send("GET", path)
    if answer.status != 200:
        return plain_404()
    found: Object = json.loads(answer.data)
    kept = []
    for one in found["resources"]:
        resource = served.get((group, one["name"].partition("/")[0]))
        if resource is None or (virtual and one["name"].endswith("/scale")):
            continue
        verbs = [verb for verb in one["verbs"] if verb in ("get", "list", "watch")] if virtual and group == APIS else one["verbs"]
        kept.append({**one, "namespaced": resource.scope is Scope.NAMESPACED, "verbs": verbs})
    return as_json({**found, "resources": kept})


def _openapi(upstream: Upstream, parts: list[str], groups: set[str]) -> Reply:
    answer = upstream.send("GET", "/" + "/".join(parts))
    if len(parts) == 2 and parts[1] == "v3" and answer.status == 200:
        paths = json.loads(answer.data)["paths"]
        kept = {path: value for path, value in paths.items() if path == "api/v1" or path.partition("/")[2].partition("/")[0] in groups}
        return as_json({"paths": kept})
    return Reply(answer.status, answer.data, answer.headers.get("Content-Type", "application/json"))

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Requests and answers of the double."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

Object = dict[str, Any]
NOT_SERVED: Final = "404 page not found\n"
_REASONS: Final = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 410: "Expired"}
_REASONS_5: Final = {500: "InternalError", 503: "ServiceUnavailable"}


@dataclass(frozen=True)
class Request:
    """One request as it came in. ``shard``: on whose address."""

    shard: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Message
    body: bytes

    @classmethod
    def of(cls, shard: str, method: str, target: str, headers: Message, body: bytes) -> Request:
        parts = urlsplit(target)
        return cls(shard, method, parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), headers, body)


@dataclass
class Reply:
    """``stream``: lines that follow one another until it ends or ``stop`` is called (from any thread). ``hang_up``: no answer at all."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: Iterator[bytes] | None = None
    stop: Callable[[], None] | None = None
    hang_up: bool = False


@dataclass(frozen=True)
class Target:
    """What a path below a logical cluster means, in the words of RBAC. ``plural`` is "" for what is no resource (discovery)."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


def target_of(request: Request, path: str) -> Target:
    """``path`` is the one below the logical cluster."""
    watch = request.query.get("watch", "").lower() in ("1", "true", "")
    watch = watch and "watch" in request.query
    parts = [part for part in path.split("/") if part]
    start = {"api": 2, "apis": 3}.get(parts[0] if parts else "", 0)
    if not start or len(parts) <= start:
        return Target(request.method.lower(), path)
    group = parts[1] if start == 3 else ""
    version, rest, namespace = parts[start - 1], parts[start:], ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", ""][:3]
    verb = _VERBS.get(request.method, "")
    if request.method in ("GET", "HEAD"):
        verb = "get" if name else "watch" if watch else "list"
    elif request.method == "DELETE":
        verb = "delete" if name else "deletecollection"
    return Target(verb, path, group, version, namespace, plural, name, subresource)


def failure(code: int, message: str, *, reason: str = "", details: Object | None = None) -> Reply:
    """A metav1.Status."""
    why = reason or (_REASONS | _REASONS_5).get(code, "")
    return Reply(code, json.dumps(status_object(code, message, why, details)).encode())


def status_object(code: int, message: str, reason: str, details: Object | None = None) -> Object:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}
    return status | ({"details": details} if details else {})


def plain_404() -> Reply:
    """What the API machinery says of a path that it does not serve."""
    return Reply(404, NOT_SERVED.encode(), "text/plain; charset=utf-8")


def not_installed(target: Target) -> Reply:
    """What client-go makes of a plain 404 (NewGenericServerResponse): kcp's virtual workspaces ask their shard through it."""
    what = f"{target.plural}.{target.group}" if target.group else target.plural
    details = {
        "group": target.group,
        "kind": target.plural,
        "causes": [{"reason": "UnexpectedServerResponse", "message": NOT_SERVED.strip()}],
    }
    return failure(404, f"the server could not find the requested resource ({target.verb} {what})", details=details)


def forbidden(user: str, target: Target, why: str = "access denied") -> Reply:
    """403 as the API machinery words it."""
    if not target.plural:
        return failure(403, f'forbidden: User "{user}" cannot {target.verb} path "{target.path}": {why}', details={})
    what = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    resource = f"{target.plural}.{target.group}" if target.group else target.plural
    name = f' "{target.name}"' if target.name else ""
    message = (
        f'{resource}{name} is forbidden: User "{user}" cannot {target.verb} resource "{what}" in API group "{target.group}" {where}: {why}'
    )
    return failure(403, message, details={"name": target.name, "group": target.group, "kind": target.plural})


def as_json(obj: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(obj).encode())

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A client of kcp as kubectl would be one: a base URL, a token, plain dictionaries. Not the operator's: tests must not lean on what they
are there to test."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import urllib3

from tests.lab import api as lab
from tests.lab.api import ApiError

Object = dict[str, Any]
MERGE: Final = lab.MERGE
JSON_PATCH: Final = lab.JSON_PATCH
APPLY: Final = lab.APPLY
_CLUSTER_SCOPED: Final = frozenset(
    {"APIBinding", "APIExport", "APIExportEndpointSlice", "APIResourceSchema", "LogicalCluster", "Workspace", "WorkspaceType"}
)


@dataclass(frozen=True)
class Answer:
    """Any answer, good or bad."""

    status: int
    content_type: str
    text: str

    @property
    def json(self) -> Object:
        found: Object = json.loads(self.text)
        return found

    @property
    def reason(self) -> str:
        """Kubernetes' word for a failure; "" for what is no Status."""
        return str(self.json.get("reason", "")) if self.content_type.startswith("application/json") else ""


def path_of(obj: Mapping[str, Any], *, collection: bool = False) -> str:
    """Path of an object below its workspace, or of the collection that it is created in."""
    if obj["kind"] in _CLUSTER_SCOPED:
        home = f"/apis/{obj['apiVersion']}/{obj['kind'].lower()}s"
        return home if collection else f"{home}/{obj['metadata']['name']}"
    return lab.path_of(obj, collection=collection)


class Client:
    """``base`` is a workspace or a virtual workspace, cluster included. Thread-safe.

    Raises ApiError, or an error of urllib3 when there is no answer.
    """

    def __init__(self, base: str, ca: str, token: str) -> None:
        self.base = base.rstrip("/")
        self.ca = ca
        self._token = token
        self._pool = urllib3.PoolManager(maxsize=8, ssl_context=ssl.create_default_context(cadata=ca), retries=False)

    def at(self, base: str) -> Client:
        """The same user somewhere else."""
        return Client(base, self.ca, self._token)

    def kubeconfig(self) -> Object:
        """For other programs."""
        ca = base64.b64encode(self.ca.encode()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kcp", "cluster": {"server": self.base, "certificate-authority-data": ca}}],
            "users": [{"name": "user", "user": {"token": self._token}}],
            "contexts": [{"name": "kcp", "context": {"cluster": "kcp", "user": "user"}}],
            "current-context": "kcp",
        }

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        media: str = "application/json",
        accept: str = "application/json",
        read: float = 30.0,
    ) -> Answer:
        """Any request, any answer."""
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept, "Content-Type": media}
        target = f"{self.base}{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        answer = self._pool.request(method, target, headers=headers, body=data, timeout=urllib3.Timeout(connect=5.0, read=read))
        return Answer(answer.status, answer.headers.get("Content-Type", ""), answer.data.decode("utf-8", "replace"))

    def get(self, path: str) -> Object | None:
        """None when there is none."""
        answer = self.call("GET", path)
        return None if answer.status == 404 else self._good("GET", path, answer)

    def list(self, path: str, *, limit: int = 0) -> list[Object]:
        """All items, page by page when ``limit`` is given."""
        query = {"limit": str(limit)} if limit else {}
        found: list[Object] = []
        while True:
            page = self._good("GET", path, self.call("GET", path, query=query))
            found += page.get("items") or []
            if not page["metadata"].get("continue"):
                return found
            query["continue"] = page["metadata"]["continue"]

    def create(self, obj: Mapping[str, Any]) -> Object:
        path = path_of(obj, collection=True)
        return self._good("POST", path, self.call("POST", path, obj))

    def ensure(self, obj: Mapping[str, Any]) -> Object:
        """Create it, or let it be when it is there."""
        path = path_of(obj, collection=True)
        answer = self.call("POST", path, obj)
        return self._good("GET", path, self.call("GET", path_of(obj)) if answer.status == 409 else answer)

    def merge(self, path: str, body: Mapping[str, Any]) -> Object:
        return self._good("PATCH", path, self.call("PATCH", path, body, media=MERGE))

    def json_patch(self, path: str, operations: Sequence[Object]) -> Object:
        return self._good("PATCH", path, self.call("PATCH", path, operations, media=JSON_PATCH))

    def delete(self, path: str) -> None:
        """No object there is fine."""
        answer = self.call("DELETE", path)
        if answer.status != 404:
            self._good("DELETE", path, answer)

    def watch(self, path: str, version: str, *, seconds: int = 20, bookmarks: bool = False) -> Iterator[Object]:
        """Events ``{type, object}`` until the server ends the watch. Close the iterator to end it earlier."""
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        query |= {"allowWatchBookmarks": "true"} if bookmarks else {}
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        limit = urllib3.Timeout(connect=5.0, read=seconds + 10.0)
        response = self._pool.request("GET", f"{self.base}{path}?{urlencode(query)}", headers=headers, preload_content=False, timeout=limit)
        try:
            if response.status != 200:
                answer = Answer(response.status, response.headers.get("Content-Type", ""), response.read().decode())
                self._good("WATCH", path, answer)
            for line in response:
                yield json.loads(line)
        finally:
            response.close()

    def _good(self, verb: str, path: str, answer: Answer) -> Object:
        if answer.status >= 300:
            message = answer.text[:500]
            if answer.content_type.startswith("application/json"):
                message = str(answer.json.get("message", ""))
            raise ApiError(verb, path, answer.status, answer.reason, message)
        return answer.json

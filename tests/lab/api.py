# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lab's own small API client: absolute paths, a client certificate, plain dictionaries. Not the engine's client: the lab must not lean
on what it is there to test."""

from __future__ import annotations

import base64
import binascii
import copy
import json
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlencode, urlsplit

import urllib3
import yaml

Object = dict[str, Any]
MERGE, STRATEGIC, JSON_PATCH, APPLY = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)
_CLUSTER_SCOPED = frozenset(
    {
        "APIService",
        "CiliumClusterwideEnvoyConfig",
        "CiliumClusterwideNetworkPolicy",
        "CiliumIdentity",
        "CiliumNode",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "GatewayClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PriorityClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)
_TRIES = 20  # of a change that others keep overtaking: controllers write an object a few times, never that often in a row
_PLURALS = {"Endpoints": "endpoints", "GatewayClass": "gatewayclasses"}


class ApiError(RuntimeError):
    """An answer that is no success. ``status`` is HTTP's, ``reason`` Kubernetes' (`NotFound`, `Conflict`, …)."""

    def __init__(self, verb: str, path: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{verb} {path}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Changeable(Protocol):
    """What `change_object` needs of an API server: a failed GET but 404, and a PUT of an old version, are ApiError."""

    def get(self, path: str) -> Object | None: ...
    def replace(self, path: str, obj: Object, *, field_manager: str = "") -> Object: ...


def change_object(api: Changeable, path: str, change: Callable[[Object], Object], *, field_manager: str = "") -> Object:
    """Read an object, change it and write it, and begin again when a controller wrote it in between.

    :param change: from the object as it is to the one that is wanted, with the same metadata.resourceVersion; called once per try
    :return: the object as it was before the write that succeeded
    """
    tries = _TRIES
    while True:
        found = api.get(path)
        if found is None:
            raise ApiError("GET", path, 404, "NotFound", "there is nothing to change")
        try:
            api.replace(path, change(copy.deepcopy(found)), field_manager=field_manager)
            return found
        except ApiError as error:
            tries -= 1
            if error.status != 409 or not tries:
                raise


def path_of(obj: Mapping[str, Any], *, collection: bool = False) -> str:
    """Absolute API path of an object, or of the collection that it is created in."""
    version, kind = str(obj["apiVersion"]), str(obj["kind"])
    metadata: Mapping[str, Any] = obj["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope = "" if kind in _CLUSTER_SCOPED else f"/namespaces/{metadata.get('namespace', 'default')}"
    return f"{root}{scope}/{_plural(kind)}" + ("" if collection else f"/{metadata['name']}")


def _plural(kind: str) -> str:
    lower = kind.lower()
    if kind in _PLURALS:
        return _PLURALS[kind]
    if lower.endswith(("s", "x", "ch")):
        return lower + "es"
    return lower[:-1] + "ies" if lower.endswith("y") and lower[-2] not in "aeiou" else lower + "s"


class LabApi:
    """One API server. Thread-safe. Every failure is ApiError or urllib3.exceptions.HTTPError (no answer)."""

    def __init__(self, url: str, ca: Path, cert: Path, key: Path) -> None:
        context = ssl.create_default_context(cafile=str(ca))
        context.load_cert_chain(str(cert), str(key))
        parts = urlsplit(url)
        assert parts.hostname
        self.url, self._headers = url, dict[str, str]()
        self._pool = urllib3.HTTPSConnectionPool(parts.hostname, parts.port or 443, maxsize=24, ssl_context=context, retries=False)

    @classmethod
    def from_kubeconfig(cls, path: Path) -> LabApi:
        """A client for a kubeconfig as the lab writes them (one context, everything embedded)."""
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        with tempfile.TemporaryDirectory() as folder:  # ssl takes certificates from files only; they are gone before this returns
            files = []
            for number, text in enumerate(
                (cluster["certificate-authority-data"], user["client-certificate-data"], user["client-key-data"])
            ):
                files.append(Path(folder, str(number)))
                files[-1].write_bytes(base64.b64decode(text))
            return cls(cluster["server"], *files)

    def as_user(self, name: str) -> LabApi:
        """The same server, with requests in the name of another user, whose rights and no others then count."""
        found = copy.copy(self)
        found._headers = {"Impersonate-User": name}
        return found

    def get(self, path: str) -> Object | None:
        """The object, or None when there is none."""
        try:
            return self._call("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def get_text(self, path: str) -> str:
        """The body as text (pods/proxy, /readyz, logs)."""
        response = self._pool.request("GET", path, timeout=urllib3.Timeout(connect=5, read=30))
        text = response.data.decode(errors="replace")
        if response.status >= 300:
            raise ApiError("GET", path, response.status, response.reason or "", text[:500])
        return text

    def list(self, path: str, *, label_selector: str = "") -> list[Object]:
        """All items of a collection, each with apiVersion and kind left out, as the server sends them."""
        query = {"labelSelector": label_selector} if label_selector else {}
        return cast("list[Object]", self._call("GET", path, query=query).get("items") or [])

    def create(self, obj: Object, *, field_manager: str = "") -> Object:
        """Create ``obj`` at `path_of(obj)`."""
        query = {"fieldManager": field_manager} if field_manager else {}
        return self._call("POST", path_of(obj, collection=True), obj, query=query)

    def post(self, path: str, obj: Object) -> Object:
        """Create ``obj`` in the collection ``path``; apiVersion and kind may be left out, as lists leave them out."""
        return self._call("POST", path, obj)

    def replace(self, path: str, obj: Object, *, field_manager: str = "") -> Object:
        """PUT; give metadata.resourceVersion to guard against changes in between."""
        query = {"fieldManager": field_manager} if field_manager else {}
        return self._call("PUT", path, obj, query=query)

    def patch(self, path: str, body: Any, *, kind: str = MERGE, field_manager: str = "", force: bool = False) -> Object:
        """PATCH of any kind: MERGE, STRATEGIC, JSON_PATCH or APPLY (which wants a field manager)."""
        query = {"fieldManager": field_manager} if field_manager else {}
        if force:
            query["force"] = "true"
        return self._call("PATCH", path, body, query=query, content_type=kind)

    def delete(self, path: str, *, grace: int | None = None, uid: str = "") -> None:
        """Delete; no object there is fine. ``uid``: only that very object."""
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            self._call("DELETE", path, body)
        except ApiError as error:
            if error.status != 404:
                raise

    def watch(self, path: str, resource_version: str, *, seconds: int = 300) -> Iterator[tuple[str, Object]]:
        """Changes after ``resource_version`` as (ADDED | MODIFIED | DELETED | BOOKMARK, object), until the server ends the watch.
        Raises ApiError with status 410 when the version is too old."""
        query = {"watch": "1", "resourceVersion": resource_version, "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        target = f"{path}?{urlencode(query)}"
        response = self._pool.request("GET", target, preload_content=False, timeout=urllib3.Timeout(connect=5, read=seconds + 30))
        try:
            if response.status >= 300:
                raise _error("WATCH", path, response.status, response.read())
            buffer = b""
            while chunk := response.read1():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in filter(None, lines):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise ApiError("WATCH", path, int(status.get("code") or 500), str(status.get("reason")), str(status.get("message")))
                    yield event["type"], event["object"]
        finally:
            response.close()

    def _request(self, verb: str, target: str, **options: Any) -> urllib3.BaseHTTPResponse:
        """Send a request, once more if TLS fails: a server that starts may break a handshake, before any request."""
        try:
            return self._pool.request(verb, target, **options)
        except urllib3.exceptions.SSLError:
            return self._pool.request(verb, target, **options)

    def _call(
        self, verb: str, path: str, body: Any = None, *, query: Mapping[str, str] | None = None, content_type: str = "application/json"
    ) -> Object:
        target = f"{path}?{urlencode(query)}" if query else path
        headers = {"Accept": "application/json", "Content-Type": content_type, **self._headers}
        data = None if body is None else json.dumps(body).encode()
        response = self._request(verb, target, body=data, headers=headers, timeout=urllib3.Timeout(connect=5, read=60))
        if response.status >= 300:
            raise _error(verb, path, response.status, response.data)
        return cast("Object", json.loads(response.data))


def _error(verb: str, path: str, status: int, data: bytes) -> ApiError:
    try:
        answer = json.loads(data)
        return ApiError(verb, path, status, str(answer.get("reason", "")), str(answer.get("message", "")))
    except (ValueError, binascii.Error, AttributeError):
        return ApiError(verb, path, status, "", data[:500].decode(errors="replace"))

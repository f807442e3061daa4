# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A request that is allowed, carried out by the real API server: names and namespaces are translated on the way there and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import urllib3
import yaml

from tests.testing.kcp_double.answers import Object, Reply, Request, Target, failure
from tests.testing.kcp_double.places import CLUSTER_LABEL, Places
from tests.testing.kcp_double.translate import CLUSTER_ANNOTATION, Resource, Scope, Translator
from tests.testing.kcp_double.upstream import Upstream

APPLY: Final = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Call:
    """``cluster``: "" for all (wildcard). ``shown``: the logical clusters whose objects may be seen at this moment; ``only``: which ones.
    ``muted``: watches lose what happens at this moment."""

    request: Request
    target: Target
    resource: Resource
    cluster: str
    shown: Callable[[], frozenset[str]]
    only: Callable[[Object], bool] = lambda obj: True
    muted: Callable[[], bool] = lambda: False
    change: Callable[[Object], None] = lambda obj: None  # what admission does to an object that is created


class Forwarder:
    """Thread-safe."""

    def __init__(self, upstream: Upstream, places: Places) -> None:
        self._upstream = upstream
        self._places = places
        self._translate = Translator(places)

    def send(self, call: Call) -> Reply:
        request = call.request
        try:
            body = self._body(call)
        except (ValueError, yaml.YAMLError):  # kubectl sends protobuf for some kinds of its own
            return failure(415, "the double understands JSON and YAML only", reason="UnsupportedMediaType")
        wanted = ("Content-Type", "User-Agent")
        headers = {"Accept": _accept(request), **{name: request.headers[name] for name in wanted if request.headers.get(name)}}
        if call.target.verb == "watch":
            return self._watch(call, headers)
        answer = self._upstream.send(request.method, self._path(call), query=self._query(call), headers=headers, body=body)
        kept = {name: answer.headers[name] for name in ("Warning", "Retry-After") if name in answer.headers}
        return Reply(answer.status, self._outward(call, answer.data), answer.headers.get("Content-Type", "application/json"), kept)

    def _path(self, call: Call) -> str:
        target, resource, translate = call.target, call.resource, self._translate
        where = ""
        if resource.scope is Scope.ROOTED and call.cluster:
            where = f"/namespaces/{self._places.real(call.cluster, '')}"
        elif target.namespace:
            where = f"/namespaces/{self._places.real(call.cluster, target.namespace)}"
        name = f"/{translate.name(resource, call.cluster, target.name)}" if target.name else ""
        return f"{target.root}{where}/{target.plural}{name}" + (f"/{target.subresource}" if target.subresource else "")

    def _query(self, call: Call) -> dict[str, str]:
        query = dict(call.request.query)
        if call.resource.scope is Scope.NAMESPACES and call.target.verb in ("list", "watch", "deletecollection"):
            query["labelSelector"] = ",".join(filter(None, (query.get("labelSelector", ""), f"{CLUSTER_LABEL}={call.cluster}")))
        key, found, name = query.get("fieldSelector", "").partition("metadata.name=")
        if found and not key:
            query["fieldSelector"] = f"metadata.name={self._translate.name(call.resource, call.cluster, name.removeprefix('='))}"
        return query

    def _body(self, call: Call) -> Any:
        request = call.request
        if not request.body:
            return None
        body = yaml.safe_load(request.body) if "yaml" in (request.headers.get("Content-Type") or "") else json.loads(request.body)
        if call.target.verb not in ("create", "update", "patch"):
            return body
        body = self._translate.inward(call.resource, call.cluster, call.target.namespace, body)
        whole = request.method in ("POST", "PUT") or request.headers.get("Content-Type") == APPLY
        if whole and not call.target.subresource and isinstance(body, dict):
            # kcp's storage writes it at decoding, over whatever is there; so a JSON patch may rely on it.
            annotations = body["metadata"].get("annotations")
            body["metadata"]["annotations"] = {**(annotations if isinstance(annotations, dict) else {}), CLUSTER_ANNOTATION: call.cluster}
            if request.method == "POST":
                call.change(body)
        return body

    def _outward(self, call: Call, data: bytes) -> bytes:
        try:
            answer = json.loads(data)
        except ValueError:
            return data
        if not isinstance(answer, dict):
            return data
        kind, shown = answer.get("kind"), call.shown()
        if kind == "Status":
            self._status(call, answer)
        elif kind == "Table":
            answer["rows"] = [row for row in answer.get("rows") or [] if self._row(call, row, shown)]
        elif "items" in answer:
            answer["items"] = [item for item in answer.get("items") or [] if self._visible(call, item, shown)]
            answer.get("metadata", {}).pop("remainingItemCount", None)  # it would count what is not shown
        else:
            self._translate.outward(call.resource, answer, call.cluster)
        return json.dumps(answer).encode()

    def _visible(self, call: Call, obj: Object, shown: frozenset[str]) -> bool:
        cluster = self._translate.outward(call.resource, obj, call.cluster)
        return cluster != "" and cluster in shown and call.only(obj)

    def _row(self, call: Call, row: Object, shown: frozenset[str]) -> bool:
        real = row["object"].get("metadata", {}).get("name")
        if not self._visible(call, row["object"], shown):
            return False
        row["cells"] = [row["object"]["metadata"]["name"] if cell == real else cell for cell in row["cells"]]
        return True

    def _status(self, call: Call, status: Object) -> None:
        status["message"] = self._translate.text(str(status.get("message", "")), call.cluster)
        details = status.get("details")
        if isinstance(details, dict) and details.get("name"):
            details["name"] = self._translate.text(details["name"], call.cluster)

    def _watch(self, call: Call, headers: dict[str, str]) -> Reply:
        response = self._upstream.stream(self._path(call), self._query(call), headers)
        if response.status != 200:
            data = response.read()
            response.close()
            return Reply(response.status, self._outward(call, data), response.headers.get("Content-Type", "application/json"))
        assert isinstance(response, urllib3.HTTPResponse)
        return Reply(stream=self._events(call, response), stop=response.shutdown)

    def _events(self, call: Call, response: urllib3.HTTPResponse) -> Iterator[bytes]:
        known, gone = set(call.shown()), set[str]()
        try:
            for line in _lines(response):
                event = json.loads(line)
                obj = event["object"]
                if event["type"] == "ERROR":
                    self._status(call, obj)
                elif event["type"] != "BOOKMARK" and not self._shown(call, event, known, gone):
                    continue
                if not call.muted():
                    yield json.dumps(event).encode() + b"\n"
        finally:
            response.close()

    def _shown(self, call: Call, event: Object, known: set[str], gone: set[str]) -> bool:
        """May this event be seen? What could be seen and can no more is reported as deleted, once."""
        rows = event["object"].get("rows") if event["object"].get("kind") == "Table" else None
        if rows:
            return self._row(call, rows[0], call.shown())
        obj = event["object"]
        cluster = self._translate.outward(call.resource, obj, call.cluster)
        uid = str(obj.get("metadata", {}).get("uid"))
        if not cluster or not call.only(obj):
            return False
        if cluster in call.shown():
            known.add(cluster)
            gone.discard(uid)
            return True
        if cluster not in known or uid in gone:
            return False
        gone.add(uid)
        event["type"] = "DELETED"
        return True


def _accept(request: Request) -> str:
    """JSON in any form; the double understands no protobuf and no CBOR."""
    forms = [part.strip() for part in (request.headers.get("Accept") or "").split(",")]
    kept = [form for form in forms if form.startswith("application/json")]
    return ", ".join(kept) or "application/json"


def _lines(response: urllib3.HTTPResponse) -> Iterator[bytes]:
    """Lines until the end of the stream; a stream that is cut ends like one that is over."""
    buffer = b""
    try:
        while chunk := response.read1():
            *lines, buffer = (buffer + chunk).split(b"\n")
            yield from (line for line in lines if line.strip())
    except (urllib3.exceptions.HTTPError, OSError):
        return

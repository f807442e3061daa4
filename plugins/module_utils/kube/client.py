# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Client of one Kubernetes API server over urllib3, for the dozen requests that a mesh needs.

It does not use the typed client of the ``kubernetes`` package: that hides field ownership behind models, quotes bodies in its errors, and
wants keys in files for as long as it may connect. The package serves for what it knows of NO_PROXY (``proxies.py``) and to renew tokens of
OpenID Connect (``authorization.py``); kubeconfigs are read by ``kubeconfig``. All paths are absolute API paths, e.g.
``/api/v1/namespaces/kube-system/secrets/cilium-ca``. Every failure is an error of ``base/errors.py``.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlencode, urlsplit

from ..base.dialling import Dialler, DialRule
from ..base.errors import ClusterError, CredentialsInvalid, Unreachable
from ..base.library_errors import LibraryErrors
from ..base.optional_imports import optional, require
from ..base.redact import one_line
from ..kubeconfig.access import ClusterAccess
from ..kubeconfig.endpoint import Endpoint
from .answers import answers, says_absent
from .authorization import Headers
from .connections import connection_pool
from .credentials import Credentials, load_credentials
from .deadlines import all_within, deadline_passed
from .errors import AnswerTooLong, Request, Server, from_answer, from_transport, no_answer, transport_errors
from .streams import ExecResult, decoded_json, run_exec, run_forward
from .tls import Handshake, client_context, run_handshake

if TYPE_CHECKING:
    import urllib3
else:
    urllib3 = optional("urllib3")

__all__ = ["Cluster", "ExecResult", "Object", "Timeouts", "open_cluster"]

Object = dict[str, Any]
Objects = list[Object]

PAGE: Final = 500  # objects per page of a list, as in kubectl
ANY: Final = "application/json, */*"
WATCH_GRACE: Final = 30  # seconds that a watch may stay silent beyond its end; a server that respects timeoutSeconds ends it before
METADATA_WATCH: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
ANSWER_LIMIT: Final = 16 * 1024 * 1024  # bytes; the largest etcd object is 1.5 MiB, a page of nodes some 10 MiB
# Of a page that is read for its own sake: what is more is asked for again in smaller pages, so that a process that lists many collections
# at once has some 20 MiB of each in memory. A value takes up to 100 bytes there, and in the text a comma or a bracket at least.
PAGE_TEXT: Final = 2 * 1024 * 1024  # bytes
PAGE_MARKS: Final = 200_000  # commas and brackets; a page of ordinary objects has 50,000
OBJECTS_LIMIT: Final = 300_000  # objects of one list; the largest clusters that Kubernetes supports have 150,000 pods
PAGES_LIMIT: Final = 10_000  # pages of one list, in which a server may send nothing but the token of the next
_CHUNK: Final = 64 * 1024  # bytes that are read at a time at most; an event is passed on as soon as it is whole
_TOO_LONG: Final = "Check what answers at the address in the kubeconfig, and who made objects that large."


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Timeouts in seconds. ``read`` is the longest silence, ``answer`` the whole of one request, with what is repeated of it."""

    connect: float = 5.0
    read: float = 20.0
    answer: float = 120.0


class Cluster:
    """Open connection to a cluster. Thread-safe; connections are kept alive until ``close``.

    ``requests`` counts requests by "verb resource" in the words of RBAC ("get secrets", "list nodes"); retries are not counted.

    Every method that sends a request raises errors of ``base/errors.py``: Unreachable without an answer, CredentialsInvalid (401),
    Forbidden (403), WriteConflict (409 of a write), and ServerRefused for any other status outside 2xx.
    """

    def __init__(self, access: ClusterAccess, credentials: Credentials, *, timeouts: Timeouts, connections: int) -> None:
        self.host = access.host
        self.namespace = access.namespace
        self.requests: Counter[str] = Counter()
        self._credentials = credentials
        self._timeouts = timeouts
        self._server = Server(
            cluster=access.host,
            address=credentials.address,
            proxied=credentials.proxy is not None,
            client_certificate_ends=credentials.client_certificate_ends,
            discreet=bool(access.denied_networks),
            nameless=credentials.nameless,
        )
        with transport_errors(self._server, connect=timeouts.connect, read=timeouts.read):
            self._pool = connection_pool(credentials, connect=timeouts.connect, read=timeouts.read, connections=connections)
        self._count = threading.Lock()
        self._page_sizes: dict[str, int] = {}  # by path, where a page of PAGE objects is too long
        self._date: tuple[datetime, float] | None = None  # the last Date header, and the monotonic time at which it came

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Cluster {self.host}>"

    @property
    def address(self) -> str:
        """HOST:PORT of the API server."""
        return self._server.address

    @property
    def endpoint(self) -> Endpoint:
        """URL and trust of the API server, as the kubeconfig has them. Nothing of it is secret."""
        known = self._credentials
        return Endpoint(
            url=known.server,
            host=(urlsplit(known.server).hostname or "").strip("[]"),
            authority=known.authority.decode("utf-8", "replace") if known.verifies else "",
            server_name=known.tls_server_name or "",
        )

    def close(self) -> None:
        """Close the connections. The object can be used again; it then opens new ones."""
        with suppress(Unreachable), transport_errors(self._server, connect=self._timeouts.connect, read=self._timeouts.read):
            self._pool.clear()  # what was read and written counts, however this ends

    def server_time(self) -> datetime | None:
        """Return the time of the API server by the Date header of its last answer, counted on since; None if it sent none.

        The header has whole seconds, and the answer took time to arrive, so the server's clock is up to seconds later, never earlier.
        """
        return None if self._date is None else self._date[0] + timedelta(seconds=time.monotonic() - self._date[1])

    def get(self, path: str) -> Object | None:
        """Return one object; None if there is none, or no such resource (404).

        :raises ClusterError: see the class.
        """
        return self._json("GET", path, accept_absent=True)

    def list(self, path: str, *, label_selector: str = "", metadata_only: bool = False, most: int = 0) -> Objects:
        """Return all objects of a collection, page by page; [] if there is no such resource (404: its CRD is not installed).

        :param metadata_only: neither spec nor status, which of a pod are nine tenths (Kubernetes API concepts, "metadata-only fetches").
        :param most: no more than the first so many (0: all); one request when they are at most PAGE.
        :raises ClusterError: see the class.
        """
        return self.list_if_served(path, label_selector=label_selector, metadata_only=metadata_only, most=most) or []

    def list_if_served(
        self, path: str, *, label_selector: str = "", field_selector: str = "", metadata_only: bool = False, most: int = 0
    ) -> Objects | None:
        """Return all objects of a collection as ``list`` does; None if there is no such resource (404).

        That includes a resource that goes away between two pages. For callers that must not take a missing resource for an empty
        collection.

        :raises ClusterError: see the class.
        """
        query = {"labelSelector": label_selector} if label_selector else {}
        query |= {"fieldSelector": field_selector} if field_selector else {}
        found: Objects = []
        for _page in range(PAGES_LIMIT):
            body = self._page(path, query, most=most, metadata_only=metadata_only)
            if body is None:
                return None
            found += body.get("items") or []
            token = (body.get("metadata") or {}).get("continue")
            if not token or 0 < most <= len(found):
                return found[:most] if most else found
            if len(found) > OBJECTS_LIMIT:
                break
            query["continue"] = token
        what = f"The list of {Request.of('GET', path).resource} has more than {OBJECTS_LIMIT} objects or {PAGES_LIMIT} pages."
        raise AnswerTooLong(what, remedy=_TOO_LONG, cluster=self.host)

    def count(self, path: str) -> int:
        """Return the number of objects of a collection, in one small request; 0 if there is no such resource (404).

        API servers say how many objects follow the first one (Kubernetes API, ListMeta.remainingItemCount). Where one does not say it, the
        metadata of all are read.

        :raises ClusterError: see the class.
        """
        body = self._page(path, {}, most=1, metadata_only=True)
        if body is None:
            return 0
        metadata, here = body.get("metadata") or {}, len(body.get("items") or [])
        if not metadata.get("continue"):
            return here
        rest = metadata.get("remainingItemCount")
        if isinstance(rest, int) and not isinstance(rest, bool) and rest >= 0:
            return here + rest
        return len(self.list(path, metadata_only=True))

    def page(
        self,
        path: str,
        *,
        token: str = "",
        field_selector: str = "",
        label_selector: str = "",
        metadata_only: bool = False,
        most: int = 0,
        longest: int = 0,
    ) -> Object | None:
        """Return one page of a collection as the server sent it; None if there is no such resource (404).

        It has ``metadata.resourceVersion``, and ``metadata.continue`` if there are more. It has fewer objects where they are large.

        :param most: objects (0: PAGE).
        :param longest: bytes of the answer (0: ANSWER_LIMIT). It has to have room for one object.
        :raises ServerRefused: with status 410 when ``token`` has expired.
        :raises ClusterError: see the class.
        """
        query = {"continue": token, "fieldSelector": field_selector, "labelSelector": label_selector}
        chosen = {key: value for key, value in query.items() if value}
        return self._page(path, chosen, most=most, metadata_only=metadata_only, longest=longest, small=True)

    def _page(
        self, path: str, query: Mapping[str, str], *, most: int = 0, metadata_only: bool, longest: int = 0, small: bool = False
    ) -> Object | None:
        """Read a page of at most PAGE objects, and of a quarter of them again and again while the answer is too long.

        A whole list must not fail because some objects in it are large. The size holds until the list begins anew.

        :raises AnswerTooLong: when a single object is too long.
        """
        if "continue" not in query:
            self._page_sizes.pop(path, None)
        while True:
            size = self._page_sizes.get(path, min(most, PAGE) if most else PAGE)
            asked = {"limit": str(size), **query}
            try:
                wanted = METADATA_ONLY if metadata_only else ANY
                small_page = small and size > 1
                return self._json("GET", path, query=asked, accept_absent=True, wanted=wanted, longest=longest, small=small_page)
            except AnswerTooLong:
                if size == 1:
                    raise
                self._page_sizes[path] = max(1, size // 4)

    def watch(
        self, path: str, *, version: str, seconds: int, field_selector: str = "", metadata_only: bool = False, grace: float = WATCH_GRACE
    ) -> Generator[Object]:
        """Yield events ``{type, object}`` from ``version`` on, bookmarks among them.

        The iteration ends when the server ends the watch, after ``seconds`` at most. Close the iterator to end the watch earlier.

        :param grace: seconds beyond ``seconds`` after which the watch is given up, whatever the server goes on to say.
        :raises Unreachable: when that is so, when the connection is cut, or when it brings something that is no event.
        :raises ClusterError: see the class.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), "resourceVersion": version}
        target = f"{path}?{urlencode(query | ({'fieldSelector': field_selector} if field_selector else {}))}"
        request = self._counted(Request.of("GET", path))
        who, until = self._credentials.headers(), time.monotonic() + seconds + grace
        with transport_errors(self._server, connect=self._timeouts.connect, read=seconds + grace):
            limit = urllib3.Timeout(connect=self._timeouts.connect, read=seconds + grace)
            headers = _sent(who, accept=METADATA_WATCH if metadata_only else ANY)
            where = self._credentials.server + target
            try:
                sent: dict[str, Any] = {"headers": headers, "preload_content": False, "redirect": False, "timeout": limit, "retries": False}
                with all_within(until - time.monotonic()):
                    answer = self._pool.request("GET", where, **sent)
                try:
                    if answer.status != 200:
                        with all_within(until - time.monotonic()):
                            said = decoded_json(answer.read(ANSWER_LIMIT))
                        raise from_answer(self._server, request, answer.status, said)
                    for line in filter(bytes.strip, self._lines(answer, request, until)):
                        event = decoded_json(line)
                        if not isinstance(event, dict) or "type" not in event:
                            raise self._cut(request)
                        yield event
                finally:
                    answer.close()
            except urllib3.exceptions.ProtocolError:
                raise self._cut(request) from None

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        """Create an object with a POST to a collection.

        :raises WriteConflict: when the object exists.
        :raises ClusterError: see the class.
        """
        return self._json("POST", path, query={"fieldManager": manager}, body=body) or {}

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str, dry_run: bool = False) -> Object:
        """Write an object by server-side apply, never with force.

        :raises WriteConflict: when other managers own a field in ``body``; the message names the managers and the fields.
        :raises ClusterError: see the class.
        """
        query = {"fieldManager": manager, "force": "false"} | ({"dryRun": "All"} if dry_run else {})
        return self._json("PATCH", path, query=query, body=body, media="application/apply-patch+yaml") or {}

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str, dry_run: bool = False) -> Object:
        """Change an object by a JSON merge patch (RFC 7386).

        :raises WriteConflict: when ``body`` has ``metadata.resourceVersion`` and the object changed since.
        :raises ClusterError: see the class.
        """
        query = {"fieldManager": manager} | ({"dryRun": "All"} if dry_run else {})
        return self._json("PATCH", path, query=query, body=body, media="application/merge-patch+json") or {}

    def delete(self, path: str, *, uid: str = "", resource_version: str = "") -> None:
        """Delete one object; do nothing if it is gone already.

        :raises WriteConflict: when the object has another uid or resource version than the given one.
        :raises ClusterError: see the class.
        """
        conditions = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        self._json("DELETE", path, body=body | ({"preconditions": conditions} if conditions else {}), accept_absent=True)

    def get_text(self, path: str, *, timeout: float = 5.0) -> str:
        """Return text from a pod through ``pods/proxy``, with a ``timeout`` in seconds.

        The request is not retried: for a pod that does not answer, callers have another way.

        :raises ClusterError: see the class.
        """
        data = self._request("GET", path, silence=timeout, once=True)[1]
        return data.decode("utf-8", "replace")

    def exec(self, pod: str, container: str, command: Sequence[str], *, timeout: float = 10.0, partial: bool = False) -> ExecResult:
        """Run a command in a pod of ``namespace`` and wait for its end.

        :param timeout: seconds.
        :param partial: when time runs out, return the output so far with exit code -1.
        :raises Unreachable: when it has not ended after ``timeout`` seconds, without ``partial``.
        :raises ClusterError: see the class.
        """
        path = self._pod(pod) + "/exec"
        self._counted(Request.of("GET", path))
        connect = self._timeouts.connect
        return run_exec(self._credentials, self._server, path, container, command, connect=connect, timeout=timeout, partial=partial)

    def forward_get(self, pod: str, port: int, path: str, *, timeout: float = 10.0) -> str:
        """Return the body of ``GET http://localhost:port/path`` inside a pod of ``namespace``, through a port-forward.

        :raises ServerRefused: when the answer is outside 2xx or is no HTTP.
        :raises ClusterError: see the class.
        """
        where = self._pod(pod) + "/portforward"
        self._counted(Request.of("GET", where))
        return run_forward(self._credentials, self._server, where, port, path, connect=self._timeouts.connect, timeout=timeout)

    def forward_handshake(self, pod: str, port: int, certificate: bytes, key: bytes, *, timeout: float = 10.0) -> Handshake:
        """Do a TLS handshake with a port inside a pod of ``namespace``, showing a client certificate (PEM): see ``tls.py``.

        :raises ServerRefused: when the port refuses the connection, or ends it without an answer in TLS.
        :raises ClusterError: see the class.
        """
        where = self._pod(pod) + "/portforward"
        self._counted(Request.of("GET", where))
        with (
            transport_errors(self._server, connect=self._timeouts.connect, read=timeout),
            client_context(certificate, key) as context,
        ):
            return run_handshake(self._credentials, self._server, where, port, context, connect=self._timeouts.connect, timeout=timeout)

    def _pod(self, pod: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{pod}"

    def _lines(self, answer: urllib3.BaseHTTPResponse, request: Request, until: float) -> Generator[bytes]:
        """Yield the lines of an answer as they come; the connection's own iteration keeps a line without end in memory.

        :param until: monotonic seconds. Each read is in a block of its own: a block around a ``yield`` would be its caller's.
        :raises AnswerTooLong: when a line is longer than an answer may be.
        """
        line, chunks = bytearray(), answer.stream(_CHUNK)
        while True:
            with all_within(until - time.monotonic()):
                chunk = next(chunks, None)
            if chunk is None:
                break
            first, *more = chunk.split(b"\n")
            line += first
            for following in more:
                yield bytes(line)
                line = bytearray(following)
            if len(line) > ANSWER_LIMIT:
                what = f"An event of the watch of {request.resource} at {self._server.address} is longer than {ANSWER_LIMIT >> 20} MiB."
                raise AnswerTooLong(what, remedy=_TOO_LONG, cluster=self.host)
        yield bytes(line)

    def _cut(self, request: Request) -> Unreachable:
        what = f"The watch of {request.resource} at {self._server.address} was cut, or what answers there is no API server."
        return Unreachable(what, cluster=self.host)

    def _counted(self, request: Request) -> Request:
        with self._count:
            self.requests[f"{request.verb} {request.resource or request.name}"] += 1
        return request

    def _json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        media: str = "application/json",
        accept_absent: bool = False,
        wanted: str = ANY,
        longest: int = 0,
        small: bool = False,
    ) -> Object | None:
        """Return the decoded object; None for 404 if ``accept_absent``. Whatever is no answer to this very request is an error.

        :param small: refuse an answer that takes much memory (PAGE_TEXT, PAGE_MARKS) before it is decoded, as one that is too long.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        accept = (404,) if accept_absent else ()
        status, data = self._request(method, target, body=body, media=media, accept=accept, wanted=wanted, longest=longest)
        if small and (len(data) > PAGE_TEXT or sum(map(data.count, (b",", b"{", b"["))) > PAGE_MARKS):
            raise AnswerTooLong(f"The page of {path} takes too much memory.", remedy=_TOO_LONG, cluster=self.host)
        request, decoded = Request.of(method, path), decoded_json(data)
        if status == 404 and says_absent(data, decoded):
            return None
        if status != 404 and isinstance(decoded, dict) and answers(request, decoded, body):
            return decoded
        raise no_answer(self._server, request, status)

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        media: str = "application/json",
        silence: float = 0.0,
        once: bool = False,
        accept: tuple[int, ...] = (),
        wanted: str = ANY,
        longest: int = 0,
    ) -> tuple[int, bytes]:
        request, longest = self._counted(Request.of(method, path)), longest or ANSWER_LIMIT
        content, who = None if body is None else json.dumps(body).encode(), self._credentials.headers()

        def as_cluster_error(error: BaseException) -> ClusterError:
            seconds = self._timeouts.answer if deadline_passed() else silence or self._timeouts.read
            return from_transport(self._server, error, connect=self._timeouts.connect, read=seconds)

        with all_within(self._timeouts.answer), LibraryErrors(as_cluster_error):
            headers = _sent(who, accept=wanted, **{"content-type": media})
            sent: dict[str, Any] = {"body": content, "headers": headers, "preload_content": False, "redirect": False}
            if silence:
                sent["timeout"] = urllib3.Timeout(connect=self._timeouts.connect, read=silence)
            if once:
                sent["retries"] = urllib3.Retry(total=False)
            answer = self._pool.request(method, self._credentials.server + path, **sent)
            try:
                data = answer.read(longest + 1)
            except urllib3.exceptions.ProtocolError:  # half an answer, which urllib3 retries only if it reads the body itself
                if method != "GET" or once:
                    raise
                answer = self._pool.request(method, self._credentials.server + path, **sent)
                data = answer.read(longest + 1)
            if len(data) > longest:
                answer.close()  # the rest of it would be the answer to the next request
            answer.release_conn()
        self._date = _dated(answer.headers.get("date", "")) or self._date
        if len(data) > longest:
            why = f"The API server's answer to {request} is longer than {longest >> 20} MiB."
            raise AnswerTooLong(why, remedy=_TOO_LONG, cluster=self.host)
        if 200 <= answer.status < 300 or answer.status in accept:
            return answer.status, data
        raise from_answer(self._server, request, answer.status, decoded_json(data))


def open_cluster(access: ClusterAccess, *, timeouts: Timeouts | None = None, connections: int = 8, server: str = "") -> Cluster:
    """Load the credentials (this may run an exec plugin) and return a client. It contacts no API server yet.

    :param connections: how many are kept alive: as many as threads that will use the cluster at once.
    :param server: another base URL, for which the same credentials hold.
    :raises CredentialsInvalid: when the kubeconfig cannot be used.
    :raises Unreachable: when ``access.unavailable`` gives a reason.
    :raises MissingLibrary: when a Python package is missing.
    """
    require()
    if access.unavailable:
        raise Unreachable(one_line(access.unavailable), cluster=access.host)
    credentials = load_credentials(access.host, access.kubeconfig, access.context)
    if server:
        credentials.move_to(server)
    if access.denied_networks:
        if credentials.tls is None:
            why = (
                "The server of the kubeconfig is not https, and cilium_mesh_denied_networks of this host wants a server that proves itself."
            )
            raise CredentialsInvalid(why, remedy="Use https, or deny nothing for this host.", cluster=access.host)
        credentials.dialler = Dialler(DialRule(denied=access.denied_networks, allowed=access.endpoint_networks))
    return Cluster(access, credentials, timeouts=timeouts or Timeouts(), connections=connections)


def _sent(own: Headers, **more: str) -> urllib3.HTTPHeaderDict:
    """Return headers as they are sent, each value in UTF-8, as client-go has it."""
    found = urllib3.HTTPHeaderDict(more)
    for name, value in own:
        found.add(name, value.encode().decode("latin-1"))  # http.client writes Latin-1
    return found


def _dated(header: str) -> tuple[datetime, float] | None:
    """Parse a Date header (RFC 9110, 6.6.1), with the monotonic time of now; None if it is not valid."""
    try:
        return parsedate_to_datetime(header).astimezone(UTC), time.monotonic()
    except Exception:  # ValueError and OverflowError today, TypeError before Python 3.10
        return None

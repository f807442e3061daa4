# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What went wrong between us and an API server, as one of the errors of ``base/errors.py``.

Messages are built from our own request and from fixed words, never from a response's text: a Status message may quote the object that was
sent, and a proxy's error page may quote anything. Of a Status only ``reason`` and the causes' field paths and managers are used, sanitised.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.client import HTTPException, IncompleteRead
from typing import TYPE_CHECKING, Any

from ..base.dialling import NotDialled
from ..base.errors import ClusterError, CredentialsInvalid, Forbidden, LibraryFailed, ServerRefused, Unreachable, WriteConflict
from ..base.library_errors import LibraryErrors, raised_by
from ..base.optional_imports import optional
from ..base.redact import one_line
from .deadlines import DeadlinePassed

if TYPE_CHECKING:
    import urllib3.exceptions as http
    import websocket
else:
    http = optional("urllib3.exceptions")
    websocket = optional("websocket")

_PATH = re.compile(
    r"^(?:/clusters/[^/]+)?/(?:api/[^/]+|apis/[^/]+/[^/]+)"  # the first part: of one workspace of kcp, or of all
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?"
)
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
_MANAGER = re.compile(r'conflict with "([^"]*)"')
_ADDRESS = "Check the address in the kubeconfig, and that no proxy or login page answers in the server's place. Then run again."
_ANONYMOUS = 'User "system:anonymous"'  # Kubernetes, Authenticating, Anonymous requests
_NO_NAME = "has a name that cannot be resolved (DNS)"
_NAME_REMEDY = "Correct the server in its kubeconfig, or the DNS of this machine."
_UNDECLARED = re.compile(r" (\.[A-Za-z0-9_.\[\]-]{1,120}): field not declared in schema")
"""Refusal of a server-side apply with a field that the server does not know (structured-merge-diff). The path is from our own request."""


class AnswerTooLong(Unreachable):
    """Answer of more bytes than are read of one."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Request to an API server in the words of RBAC. ``resource`` is "" for paths such as /version."""

    verb: str
    resource: str
    name: str = ""
    namespace: str = ""

    @classmethod
    def of(cls, method: str, path: str) -> Request:
        """Read verb, resource, name and namespace off an absolute API path."""
        match = _PATH.match(path.partition("?")[0])
        if match is None:
            return cls(verb=method.lower(), resource="", name=one_line(path.partition("?")[0], 100))
        name = match["name"] or ""
        resource = match["resource"] + (f"/{match['subresource']}" if match["subresource"] else "")
        verb = _VERBS.get(method, "get" if name else "list")
        if match["subresource"] in ("exec", "portforward"):
            verb = "create"
        return cls(verb=verb, resource=resource, name=name, namespace=match["namespace"] or "")

    def __str__(self) -> str:
        text = f"{self.verb} {self.resource}" if self.resource else self.verb
        text += f' "{self.name}"' if self.name else ""
        return text + (f' in namespace "{self.namespace}"' if self.namespace else "")


@dataclass(frozen=True, kw_only=True)
class Server:
    """API server as far as a message may name it: ``address`` is HOST:PORT without user, path or query.

    ``discreet``: the reader of the message chose the address and must not learn what is there, so that every connection without an answer
    of an API server has the same message.
    ``nameless``: why a request names no user, as the beginning of a sentence; "" where it names one.
    """

    cluster: str
    address: str
    proxied: bool = False
    client_certificate_ends: datetime | None = None
    discreet: bool = False
    nameless: str = ""


def from_answer(server: Server, request: Request, status: int, body: Any) -> ClusterError:
    """Return the error for an HTTP answer outside 2xx. ``body`` is the decoded Status, or anything else."""
    details = _Status(body)
    if server.discreet and not details.sent:
        return _discreet_error(server, from_answer(replace(server, discreet=False), request, status, body))
    # A proxy before the API server, such as "kubectl proxy", may speak in its own name.
    if server.nameless and (status == 401 or (status == 403 and details.is_anonymous)):
        why = f"{server.nameless}, and {server.address} serves no anonymous requests ({status})."
        return CredentialsInvalid(why, remedy="Give its user a token, a client certificate or an exec plugin.", cluster=server.cluster)
    if status == 401:
        return _unauthorized(server)
    if status == 403:
        return Forbidden(
            f"RBAC forbids to {request} (403).",
            remedy=f"Grant {_grant(request)} to the user of this kubeconfig (docs/rbac.md).",
            cluster=server.cluster,
            rights=[(_verbs(request), request.resource or request.name, request.namespace, request.name if request.resource else "")],
        )
    if status == 409 and request.verb != "get":
        return _conflict(server, request, details)
    if details.undeclared:
        return ServerRefused(
            f"The API server does not know the field {details.undeclared}; it refused to {request} ({status}).",
            remedy="The CRD of that kind is too old for this object. Upgrade the CRD too (for Cilium, its operator does this).",
            cluster=server.cluster,
            status=status,
        )
    reason = f" ({details.reason})" if details.reason else ""
    fields = f"; fields: {', '.join(details.fields)}" if details.fields else ""
    return ServerRefused(f"The API server answered {status}{reason} to {request}{fields}.", cluster=server.cluster, status=status)


def no_answer(server: Server, request: Request, status: int) -> ClusterError:
    """Return the error for an HTTP answer that no API server gives to this request, whatever its status says."""
    if server.discreet:
        return _discreet_error(server, no_answer(replace(server, discreet=False), request, status))
    return ServerRefused(
        f"What answered at {server.address} to {request} ({status}) is not the answer of an API server.",
        remedy=_ADDRESS,
        cluster=server.cluster,
        status=0 if status < 300 else status,
    )


def transport_errors(server: Server, *, connect: float, read: float) -> LibraryErrors:
    """Raise an error of ``base/errors.py`` in place of whatever a library raises in the block (``from_transport``)."""
    return LibraryErrors(lambda error: from_transport(server, error, connect=connect, read=read))


def from_transport(server: Server, error: BaseException, *, connect: float, read: float) -> ClusterError:
    """Return the error for a request that got no answer. ``connect`` and ``read`` are the timeouts in force, in seconds."""
    if server.discreet:
        return _discreet_error(server, from_transport(replace(server, discreet=False), error, connect=connect, read=read))
    where = f"The API server at {server.address}" + (" or the proxy before it" if server.proxied else "")
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, (http.ProxyError, websocket.WebSocketProxyException)):
            why = "The proxy of this cluster's kubeconfig or environment cannot be used."
            return Unreachable(why, remedy="Correct it there, or check that it runs.", cluster=server.cluster)
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return _tls(server, cause)
    sentence = next((s for s in (_sentence(c, connect, read) for c in causes) if s), "")
    if any(isinstance(cause, TimeoutError) and "handshake" in str(cause) for cause in causes):
        # ssl names its operation; urllib3 says that a read has timed out, and bounds it as a part of the connection.
        sentence = f"accepted the connection and did not answer its TLS handshake within {connect:g} s (timeout)"
    if not sentence and not isinstance(error, (http.HTTPError, websocket.WebSocketException, HTTPException, OSError)):
        return LibraryFailed(
            f"A library failed in the talk with {where[0].lower()}{where[1:]}: {raised_by(error)}.",
            remedy="Run again. If it stays so, report this line with the versions of urllib3, websocket-client and cryptography.",
            cluster=server.cluster,
        )
    sentence = sentence or "cannot be reached"
    remedy = _NAME_REMEDY if sentence == _NO_NAME else "Check that it runs and that this machine can reach it."
    return Unreachable(f"{where} {sentence}.", remedy=remedy, cluster=server.cluster)


def _discreet_error(server: Server, withheld: ClusterError) -> Unreachable:
    """Return the one error for whatever was met, with what would be ``withheld`` otherwise as detail."""
    return Unreachable(
        "The API server cannot be reached.",
        remedy="Check the server and the certificate authority in the kubeconfig, and that it admits connections from here.",
        cluster=server.cluster,
        detail=withheld.message,
    )


def _sentence(cause: BaseException, connect: float, read: float) -> str:
    """Return the rest of "The API server at X …" for one exception of the chain of causes; "" if it says nothing."""
    if isinstance(cause, NotDialled):
        return f"is not dialled: {cause}"
    if isinstance(cause, (http.NameResolutionError, socket.gaierror, websocket.WebSocketAddressException)):
        return _NO_NAME
    if isinstance(cause, http.ConnectTimeoutError) and not isinstance(cause, http.NewConnectionError):
        return f"did not accept a connection within {connect:g} s (timeout)"
    if isinstance(cause, (http.ReadTimeoutError, websocket.WebSocketTimeoutException, DeadlinePassed)):
        return f"did not answer within {read:g} s (timeout)"
    if isinstance(cause, ConnectionRefusedError):
        return "refused the connection"
    if isinstance(cause, (websocket.WebSocketPayloadException, websocket.WebSocketProtocolException)):
        return "sent a stream that no API server sends"
    broken = (ConnectionResetError, BrokenPipeError, http.IncompleteRead, http.InvalidChunkLength, IncompleteRead)
    if isinstance(cause, broken) or "RemoteDisconnected" in type(cause).__name__:
        return "closed the connection before it answered"
    if isinstance(cause, TimeoutError):
        return f"did not accept a connection within {connect:g} s (timeout)"
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield ``error`` and its causes: urllib3 wraps them in ``reason``, in ``args`` or by ``from``."""
    seen: set[int] = set()
    waiting: list[Any] = [error]
    while waiting:
        item = waiting.pop(0)
        if not isinstance(item, BaseException) or id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        waiting += [getattr(item, "reason", None), item.__cause__, item.__context__, *item.args]


# X509_V_ERR_*: openssl/x509_vfy.h
_VERIFY = {
    9: "is not valid yet",
    10: "has expired",
    18: "is self-signed and not in the kubeconfig's certificate authority",
    19: "is signed by an authority that the kubeconfig does not name",
    20: "is signed by an authority that the kubeconfig does not name",
    21: "is signed by an authority that the kubeconfig does not name",
    62: "is not valid for this host name",
    64: "is not valid for this IP address",
}


def _tls(server: Server, error: ssl.SSLError) -> ClusterError:
    where = f"The API server at {server.address}"
    if isinstance(error, ssl.SSLCertVerificationError):
        why = _VERIFY.get(error.verify_code, f"cannot be verified (OpenSSL code {error.verify_code})")
        return Unreachable(
            f"TLS: the certificate of {where[0].lower()}{where[1:]} {why}.",
            remedy="Correct certificate-authority-data or server in the kubeconfig.",
            cluster=server.cluster,
        )
    reason = getattr(error, "reason", None) or ""
    if "ALERT" in reason and any(word in reason for word in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "DECRYPT_ERROR")):
        return _unauthorized(server, f"{where} refused our client certificate in the TLS handshake")
    if isinstance(error, ssl.SSLEOFError) or "UNEXPECTED_EOF" in reason or "HANDSHAKE_FAILURE" in reason:
        # In TLS 1.3 a server judges our certificate after the handshake; it is a race whether its alert or the closed connection arrives.
        if _expired(server):
            return _unauthorized(server, f"{where} hung up in the TLS handshake")
        return Unreachable(
            f"TLS: {where[0].lower()}{where[1:]} hung up in the handshake; it may want a client certificate.",
            remedy="Run again. If it stays so, look whether the kubeconfig has the credentials that this server wants.",
            cluster=server.cluster,
        )
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"):
        return Unreachable(f"TLS: {where[0].lower()}{where[1:]} does not speak TLS.", remedy=_ADDRESS, cluster=server.cluster)
    return Unreachable(f"TLS: the handshake with {where[0].lower()}{where[1:]} failed.", remedy=_ADDRESS, cluster=server.cluster)


def _unauthorized(server: Server, what: str = "The API server refused our credentials (401)") -> CredentialsInvalid:
    if _expired(server):
        ends = server.client_certificate_ends
        return CredentialsInvalid(
            f"{what}: the kubeconfig's client certificate expired on {ends:%Y-%m-%d %H:%M} UTC.",
            remedy="Get a new kubeconfig for this cluster.",
            cluster=server.cluster,
        )
    return CredentialsInvalid(f"{what}: wrong or expired.", remedy="Get a new kubeconfig for this cluster.", cluster=server.cluster)


def _expired(server: Server) -> bool:
    return server.client_certificate_ends is not None and server.client_certificate_ends <= datetime.now(UTC)


def _grant(request: Request) -> str:
    return f"{_verbs(request)} on {request.resource or request.name}"


def _verbs(request: Request) -> str:
    """Return the verbs that the role needs for a request."""
    if request.resource in ("pods/exec", "pods/portforward"):
        return "create and get"  # kube-apiserver checks "get" for WebSockets before 1.35, "create" since
    if request.resource and request.verb == "patch":
        return "patch and create"  # server-side apply of an absent object is a create
    return request.verb


def _conflict(server: Server, request: Request, details: _Status) -> WriteConflict:
    if details.managers:
        what = f"Cannot {request}: {', '.join(details.managers)} own{'s' if len(details.managers) == 1 else ''} {', '.join(details.fields)}"
        return WriteConflict(f"{what} (409).", remedy="Nothing of it was written; let one of the two own it.", cluster=server.cluster)
    why = "it exists already" if details.reason == "AlreadyExists" else "it changed since it was read"
    return WriteConflict(f"Cannot {request}: {why} (409).", remedy="Run again.", cluster=server.cluster)


class _Status:
    """Parts of a metav1.Status that may be shown."""

    def __init__(self, body: Any) -> None:
        self.sent = isinstance(body, Mapping) and body.get("kind") == "Status"
        status = body if isinstance(body, Mapping) and self.sent else {}
        reason = status.get("reason")
        self.reason = reason if isinstance(reason, str) and re.fullmatch(r"[A-Za-z]{1,40}", reason) else ""
        message = status.get("message")
        self.is_anonymous = isinstance(message, str) and _ANONYMOUS in message
        undeclared = _UNDECLARED.search(message) if isinstance(message, str) else None
        self.undeclared = undeclared[1] if undeclared else ""
        details = status.get("details")
        causes = details.get("causes") if isinstance(details, Mapping) else None
        causes = [c for c in causes if isinstance(c, Mapping)] if isinstance(causes, list) else []
        self.fields = tuple(dict.fromkeys(f for f in (one_line(c.get("field"), 120) for c in causes[:20]) if f))
        conflicts = [c for c in causes[:20] if c.get("reason") == "FieldManagerConflict"]
        found = [_MANAGER.match(c["message"]) for c in conflicts if isinstance(c.get("message"), str)]
        self.managers = tuple(dict.fromkeys(f'"{one_line(m[1], 80)}"' for m in found if m))

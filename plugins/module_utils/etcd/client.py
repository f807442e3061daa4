# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Read-only client of etcd for the mesh etcd of a peer: ranges over gRPC, with client certificates.

The gateway that would answer in JSON is off in every clustermesh-apiserver (``--enable-grpc-gateway=false``), so it is gRPC: ``grpcio``
speaks it and takes keys from memory. The two messages that are needed are described below; no generated code. Neither ``grpcio`` nor
``protobuf`` has to be there: without them nothing is read, and the error says why.

A peer's answers are not trusted: sizes are bounded, and nothing of an answer stands in an error.

Sources: etcd api/etcdserverpb/rpc.proto and api/mvccpb/kv.proto.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final, Self

from ..base.dialling import MOST, NO_RULE, Dialler, DialRule, NotDialled
from ..base.errors import clause
from ..base.library_errors import LibraryErrors, raised_by
from ..base.redact import one_line
from ..base.sealed import Sealed

SECONDS: Final = 3.0  # for one range, with the connection and its handshake
PAGE: Final = 500  # keys of one answer
ANSWER_LIMIT: Final = 8 * 1024 * 1024  # bytes; 500 nodes of 16 KiB
SINGLE_LIMIT: Final = 128 * 1024  # bytes of an answer with one value or a number; a node has some 2 KiB

_RANGE: Final = "/etcdserverpb.KV/Range"
_CERTIFICATE: Final = ("certificate", "handshake", "verification", "ssl", "tls")
_OF_ETCD: Final = "etcdserver:"
"""Begin of etcd's own errors (api/v3rpc/rpctypes/error.go). gRPC has the codes of a refusal for pages of HTTP servers too."""


class ReadFailure(StrEnum):
    """Reason why a range could not be read."""

    MISSING = "missing"  # a Python package
    UNREACHED = "unreached"  # no connection, or silence: proves nothing, the controller may stand elsewhere than the reader
    UNTRUSTED = "untrusted"  # the server's certificate is not of the link's CA, or the server refuses the link's certificate
    DENIED = "denied"  # the peer, proven by its certificate, does not let the link's user read
    BROKEN = "broken"  # the peer, proven by its certificate, answers with an error


class EtcdError(Exception):
    """Failed read of a range. ``message`` is one sentence without a secret.

    ``detail``: what the message withholds from the owner of the cluster, for the log of the controller.
    """

    def __init__(self, why: ReadFailure, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.why = why
        self.message = message
        self.clause = clause(message)
        self.detail = detail


@dataclass(frozen=True, kw_only=True)
class EtcdAccess:
    """Access of one link to its peer: the endpoint as it is dialled, and the link's own credentials (PEM)."""

    hostname: str  # the server certificate is verified for it
    port: int
    ips: tuple[str, ...] = ()  # addresses of the name; () leaves it to DNS
    rule: DialRule = NO_RULE  # with denied ranges, messages do not say why an address cannot be reached (base/dialling.py)
    ca: Sealed
    certificate: Sealed
    key: Sealed

    @property
    def where(self) -> str:
        """Endpoint for messages."""
        return f"{self.hostname}:{self.port}" + (f" ({', '.join(self.ips)})" if self.ips else "")


@dataclass(frozen=True, slots=True)
class KeyValue:
    """Key and value as etcd returned them."""

    key: str
    value: bytes


@dataclass(frozen=True, kw_only=True)
class Range:
    """Answer to one range request. ``count`` is the number of all keys of the range, without regard to the limit."""

    items: tuple[KeyValue, ...]
    count: int
    more: bool
    revision: int


class EtcdReader:
    """Open connection to a mesh etcd. Use as a context manager; not for several threads at once."""

    def __init__(self, access: EtcdAccess, *, timeout: float = SECONDS) -> None:
        """Prepare the reader; it sends nothing yet.

        :param timeout: seconds for one range, with the connection and its handshake.
        :raises EtcdError: when a Python package is missing.
        """
        self._access = access
        self._timeout = timeout
        with LibraryErrors(self._broken, own=EtcdError):
            self._grpc, self._request, self._response = _libraries()
        self._channel: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._channel is not None:
            with suppress(EtcdError), LibraryErrors(self._broken, own=EtcdError):  # what was read counts
                self._channel.close()
            self._channel = None

    def __repr__(self) -> str:
        return f"<EtcdReader of {self._access.where}>"

    def get(self, key: str) -> bytes | None:
        """Return one value; None if there is no such key.

        :raises EtcdError: when it cannot be read.
        """
        found = self._range(key=key.encode(), limit=1)
        return found.items[0].value if found.items else None

    def count(self, prefix: str) -> int:
        """Return how many keys begin with ``prefix``.

        :raises EtcdError: when it cannot be read.
        """
        return self._range(key=prefix.encode(), range_end=_end(prefix.encode()), count_only=True).count

    def scan(self, prefix: str, *, most: int, page: int = PAGE) -> Iterator[KeyValue]:
        """Yield keys that begin with ``prefix``, in order, at most ``most`` of them, all of one revision.

        :raises EtcdError: when they cannot be read, or a page has another number of keys than requested.
        """
        start, end, revision, left = prefix.encode(), _end(prefix.encode()), 0, most
        while left > 0:
            asked = min(page, left)
            found = self._range(key=start, range_end=end, limit=asked, revision=revision)
            if found.more and len(found.items) < asked:  # one key per page would last hours
                raise self._wrong_number()
            yield from found.items
            left -= len(found.items)
            if not found.more:
                return
            start, revision = found.items[-1].key.encode("utf-8", "surrogateescape") + b"\0", found.revision

    def _range(self, **fields: Any) -> Range:
        with LibraryErrors(self._broken, own=EtcdError):
            return self._read(**fields)

    def _broken(self, error: BaseException) -> EtcdError:
        what = f"{self._access.where} cannot be read: a library failed on the way, {raised_by(error)}."
        return _discreet_error(what) if self._access.rule else EtcdError(ReadFailure.UNREACHED, what)

    def _read(self, **fields: Any) -> Range:
        deadline = time.monotonic() + self._timeout
        request = self._request(**fields)
        if self._channel is not None:
            return self._call(self._channel, request, deadline)
        problem: EtcdError | None = None
        for target in _targets(self._access):
            if self._access.rule:  # a silent target must not take the time of the next: that would tell it from a closed one
                deadline = time.monotonic() + self._timeout
            channel = self._open(target)
            try:
                answer = self._call(channel, request, deadline)
            except BaseException as error:
                channel.close()
                if not isinstance(error, EtcdError) or error.why not in (ReadFailure.UNREACHED, ReadFailure.UNTRUSTED):
                    raise
                problem = problem or error
                continue
            self._channel = channel
            return answer
        raise problem or EtcdError(ReadFailure.UNREACHED, f"{self._access.where} has no address.")

    def _wrong_number(self) -> EtcdError:
        return EtcdError(ReadFailure.BROKEN, f"{self._access.where} answers with another number of keys than it was asked for.")

    def _open(self, target: str) -> Any:
        grpc, access = self._grpc, self._access
        credentials = grpc.ssl_channel_credentials(
            root_certificates=access.ca.reveal(), private_key=access.key.reveal(), certificate_chain=access.certificate.reveal()
        )
        options = (
            ("grpc.ssl_target_name_override", access.hostname),
            ("grpc.default_authority", f"{access.hostname}:{access.port}"),
            ("grpc.enable_http_proxy", 0),  # kvstoremesh and the agents use no proxy either
            ("grpc.enable_retries", 0),
            ("grpc.use_local_subchannel_pool", 1),  # two links may differ in nothing but their keys
            ("grpc.max_receive_message_length", ANSWER_LIMIT),
        )
        return grpc.secure_channel(target, credentials, options=options)

    def _call(self, channel: Any, request: Any, deadline: float) -> Range:
        range_of = channel.unary_unary(_RANGE, request_serializer=_bytes)
        try:
            data = range_of(request, timeout=max(0.05, deadline - time.monotonic()))
        except self._grpc.RpcError as error:
            raise _problem(self._grpc, self._access, error) from None
        # A megabyte of empty keys is half a million objects, so the length is judged before anything is made of it.
        if len(data) > (SINGLE_LIMIT if request.limit == 1 or request.count_only else ANSWER_LIMIT):
            raise EtcdError(ReadFailure.BROKEN, f"{self._access.where} answers at greater length than it was asked for.")
        try:
            answer = self._response.FromString(data)
        except Exception:  # protobuf's DecodeError, of whichever of its implementations
            raise EtcdError(ReadFailure.BROKEN, f"{self._access.where} does not answer as an etcd does.") from None
        if len(answer.kvs) > request.limit:
            raise self._wrong_number()
        items = tuple(KeyValue(item.key.decode("utf-8", "surrogateescape"), item.value) for item in answer.kvs)
        return Range(items=items, count=answer.count, more=answer.more, revision=answer.header.revision)


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def _end(prefix: bytes) -> bytes:
    """Return the first key behind all that begin with ``prefix`` (etcd clientv3 op.go, GetPrefixRangeEnd)."""
    for place in range(len(prefix) - 1, -1, -1):
        if prefix[place] < 0xFF:
            return prefix[:place] + bytes([prefix[place] + 1])
    return b"\0"


def _targets(access: EtcdAccess) -> Iterator[str]:
    """Yield targets in gRPC's form (grpc doc/naming.md): the addresses of one family are tried in order on one channel."""
    addresses: Sequence[str] = access.ips or ([access.hostname] if _is_ip(access.hostname) else [])
    if access.rule:
        dialler = Dialler(access.rule)
        try:
            addresses = [address for host in addresses or [access.hostname] for address in dialler.addresses(host)][:MOST]
        except NotDialled as error:
            raise _discreet_error(f"{access.where} is not dialled: {error}.") from None
    if not addresses:
        yield f"dns:///{access.hostname}:{access.port}"
    v4 = [f"{ip}:{access.port}" for ip in addresses if ":" not in ip]
    v6 = [f"[{ip}]:{access.port}" for ip in addresses if ":" in ip]
    yield from (f"{family}:{','.join(found)}" for family, found in (("ipv4", v4), ("ipv6", v6)) if found)


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _problem(grpc: Any, access: EtcdAccess, error: Any) -> EtcdError:
    """Return the error for a failed call.

    gRPC distinguishes a refused handshake from a failed connection only by the text; and until the handshake is over, the peer is not
    proven.
    """
    code, words = error.code(), (error.details() or "").lower()
    status = grpc.StatusCode
    if access.rule and not (code in (status.PERMISSION_DENIED, status.UNAUTHENTICATED, status.INVALID_ARGUMENT) and _OF_ETCD in words):
        return _discreet_error(_problem(grpc, replace(access, rule=NO_RULE), error).message)
    if code in (status.PERMISSION_DENIED, status.UNAUTHENTICATED) or (code is status.INVALID_ARGUMENT and "user name is empty" in words):
        return EtcdError(ReadFailure.DENIED, f"{access.where} does not let the link's user read ({code.name}).")
    if code is status.UNAVAILABLE and any(word in words for word in _CERTIFICATE):
        return EtcdError(ReadFailure.UNTRUSTED, f"{access.where} answers, but not as the link's certificates want it: {_tls_words(words)}.")
    if code is status.UNAVAILABLE:
        refused = "the connection is refused" if "refused" in words else "no connection comes about"
        return EtcdError(ReadFailure.UNREACHED, f"{access.where} cannot be reached from the controller: {refused}.")
    if code is status.DEADLINE_EXCEEDED:
        return EtcdError(ReadFailure.UNREACHED, f"{access.where} does not answer the controller in time.")
    return EtcdError(ReadFailure.BROKEN, f"{access.where} answers {code.name}.")


def _discreet_error(detail: str) -> EtcdError:
    return EtcdError(ReadFailure.UNREACHED, "Its mesh endpoint cannot be reached from the controller.", detail=detail)


def _tls_words(words: str) -> str:
    known = (
        ("certificate_verify_failed", "its certificate is not of the CA that the link trusts"),
        ("bad_signature", "its certificate is not of the CA that the link trusts"),  # another CA of the same name
        ("hostname verification", "its certificate does not cover the name"),
        ("peer name", "its certificate does not cover the name"),
        ("alert", "it does not accept the link's certificate"),
    )
    return next((text for phrase, text in known if phrase in words), "the handshake fails")


def missing_library() -> str:
    """Return the sentence about the missing package without which nothing can be read; "" if none is missing."""
    try:
        _libraries()
    except EtcdError as error:
        return error.clause
    return ""


def load_libraries() -> None:
    """Import the libraries, if they are installed, ahead of their first use: for a process that forks others."""
    with suppress(EtcdError):
        _libraries()


@lru_cache(maxsize=1)
def _libraries() -> tuple[Any, Any, Any]:
    """Return (grpc, RangeRequest, RangeResponse).

    They are imported at the first use: only the proof by the controller needs them, and gRPC must not be loaded before Ansible forks its
    workers.

    :raises EtcdError: when a package is missing.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it writes every failed handshake to stderr, which is the user's terminal
    try:
        return (importlib.import_module("grpc"), *_messages())
    except (ImportError, AttributeError) as error:  # the second: protobuf before 4.22
        package = "grpcio" if (error.name or "").startswith("grpc") else "protobuf"
        text = f"the Python package {package} is not installed on the controller ({one_line(str(error), 80)})"
        raise EtcdError(ReadFailure.MISSING, f"{text}; without it the heartbeats of peers cannot be read from here.") from None


# name -> (number, type, repeated); types are those of google.protobuf.FieldDescriptorProto, or the name of a message
_FIELDS: Final[dict[str, dict[str, tuple[int, str, bool]]]] = {
    "RangeRequest": {
        "key": (1, "bytes", False),
        "range_end": (2, "bytes", False),
        "limit": (3, "int64", False),
        "revision": (4, "int64", False),
        "count_only": (9, "bool", False),
    },
    "ResponseHeader": {"revision": (3, "int64", False)},
    "KeyValue": {"key": (1, "bytes", False), "value": (5, "bytes", False)},
    "RangeResponse": {
        "header": (1, "ResponseHeader", False),
        "kvs": (2, "KeyValue", True),
        "more": (3, "bool", False),
        "count": (4, "int64", False),
    },
}


def _messages() -> tuple[Any, Any]:
    """Return the classes of the two messages, in a pool of their own: another etcd client in the process may have described them too."""
    descriptors = importlib.import_module("google.protobuf.descriptor_pb2")
    pool = importlib.import_module("google.protobuf.descriptor_pool").DescriptorPool()
    factory = importlib.import_module("google.protobuf.message_factory")
    file = descriptors.FileDescriptorProto(name="cilium_mesh/etcd_range.proto", package="etcdserverpb", syntax="proto3")
    kinds = descriptors.FieldDescriptorProto
    scalars = {"bytes": kinds.TYPE_BYTES, "int64": kinds.TYPE_INT64, "bool": kinds.TYPE_BOOL}
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, repeated) in fields.items():
            added = message.field.add(name=field, number=number, type=scalars.get(kind, kinds.TYPE_MESSAGE))
            added.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if kind not in scalars:
                added.type_name = f".etcdserverpb.{kind}"
    pool.AddSerializedFile(file.SerializeToString())
    found = (pool.FindMessageTypeByName(f"etcdserverpb.{name}") for name in ("RangeRequest", "RangeResponse"))
    request, response = (factory.GetMessageClass(descriptor) for descriptor in found)
    return request, response

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A gRPC server that answers etcd's Range over TLS with client certificates, out of a dictionary."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from cryptography.x509.oid import ExtendedKeyUsageOID

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.sealed import Sealed
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd import client as etcd_read
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.client import EtcdAccess
from tests.testing.made_certificates import Made, make

grpc: Any = importlib.import_module("grpc")  # it has no types of its own
HOSTNAME = "c2.mesh.cilium.io"


@dataclass
class PlayedEtcd:
    """``deny`` is the status that every range ends with, ``told`` its text, ``raw`` what is answered instead of a range.

    ``asked`` are the requests, as (key, limit, revision, count_only).
    """

    port: int
    ca: Made
    client: Made
    keys: dict[str, bytes]
    deny: Any = None
    told: str = "as told"
    raw: bytes | None = None
    asked: list[tuple[str, int, int, bool]] = field(default_factory=list)

    def access(self, **changes: Any) -> EtcdAccess:
        """The right way in, but for ``changes``."""
        way = EtcdAccess(
            hostname=HOSTNAME,
            port=self.port,
            ips=("127.0.0.1",),
            ca=Sealed(self.ca.pem),
            certificate=Sealed(self.client.pem),
            key=Sealed(self.client.key),
        )
        return replace(way, **changes)

    def answer(self, request: Any, context: Any) -> Any:
        self.asked.append((request.key.decode(), request.limit, request.revision, request.count_only))
        if self.deny is not None:
            context.abort(self.deny, self.told)
        if self.raw is not None:
            return self.raw
        _, _, response = etcd_read._libraries()
        end = request.range_end or request.key + b"\0"
        found = sorted((k, v) for k, v in self.keys.items() if request.key <= k.encode("utf-8", "surrogateescape") < end)
        shown = [] if request.count_only else found[: request.limit or None]
        answer = response(count=len(found), more=len(shown) < len(found) and not request.count_only)
        answer.header.revision = 7
        for key, value in shown:
            answer.kvs.add(key=key.encode("utf-8", "surrogateescape"), value=value)
        return answer


@contextmanager
def played_etcd(keys: Mapping[str, bytes]) -> Iterator[PlayedEtcd]:
    """Serves on 127.0.0.1 with a certificate for HOSTNAME, and lets in every client with a certificate of its CA."""
    ca = make("Cilium CA", ca=True)
    server = make("etcd", issuer=ca, names=[HOSTNAME], usages=[ExtendedKeyUsageOID.SERVER_AUTH])
    client = make("remote", issuer=ca, usages=[ExtendedKeyUsageOID.CLIENT_AUTH])
    _, request, _ = etcd_read._libraries()
    serving = grpc.server(ThreadPoolExecutor(4))
    etcd = PlayedEtcd(port=0, ca=ca, client=client, keys=dict(keys))
    handler = grpc.unary_unary_rpc_method_handler(
        lambda message, context: etcd.answer(message, context),
        request_deserializer=request.FromString,
        response_serializer=lambda message: message if isinstance(message, bytes) else message.SerializeToString(),
    )
    serving.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("etcdserverpb.KV", {"Range": handler})])
    credentials = grpc.ssl_server_credentials([(server.key, server.pem)], root_certificates=ca.pem, require_client_auth=True)
    etcd.port = serving.add_secure_port("127.0.0.1:0", credentials)
    serving.start()
    try:
        yield etcd
    finally:
        serving.stop(None).wait()

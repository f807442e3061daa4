# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parsers of what programs of members say: their mesh etcd, their certificates, the output of their commands."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.sealed import Sealed
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.client import EtcdAccess, EtcdError, EtcdReader
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.heartbeat import parse_heartbeat
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.peer_records import (
    parse_address,
    parse_config,
    parse_identity,
    parse_node,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import LinkFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.x509.certificates import (
    CertificateProblem,
    describe,
    key_matches,
    load_certificates,
    load_der,
    load_key,
    parse,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.x509.shared_pem import problem_of_shared_key, shared_certificates
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.bundle import bundle_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.link_status import (
    agent_statuses,
    kvstoremesh_statuses,
    link_from_status,
    parse_metrics,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.node_health import parse_node_health, split_answer
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.rolls import parse_reader_trust
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.troubleshoot import parse_troubleshoot
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.flows import parse_flows
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.job import connection_result
from tests.fuzz.parser import Form, Parser


def certificates(data: bytes) -> object:
    """Read the input as bundle, as DER, as key, and as a certificate with its key."""
    found: list[object] = []
    for read in (parse, lambda pem: key_matches(pem, pem), lambda der: describe(load_der(der)), lambda pem: load_key(pem) and None):
        with suppress(CertificateProblem):
            found.append(read(data))
    with suppress(CertificateProblem):
        found.append(len(load_certificates(data)))
    with suppress(CertificateProblem):
        shared = shared_certificates(data)
        assert b"endpoints:" not in shared, "Cilium would take it for the configuration of a peer"
        found.append(len(shared))
    found.append(problem_of_shared_key(data))
    source = SimpleNamespace(kind="ConfigMap", name="ca", key="ca.crt")
    found.append(bundle_facts(source, {"data": {"ca.crt": data.decode("utf-8", "replace")}}))  # type: ignore[arg-type]  # of the source only these fields are read
    return found


class _Channel:
    """gRPC channel whose every answer is the input."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = 20

    def unary_unary(self, *_: object, **__: object) -> Any:
        """Return a call that answers with the input, and after twenty times with nothing."""

        def call(request: object, timeout: float) -> bytes:
            self._left -= 1
            return self._data if self._left > 0 else b""

        return call


def etcd_answers(data: bytes) -> object:
    """Read one key, count keys, and read a range, from an etcd whose every answer is the input."""
    nothing = Sealed(b"")
    reader = EtcdReader(EtcdAccess(hostname="c2", port=2379, ca=nothing, certificate=nothing, key=nothing))
    reader._channel = _Channel(data)
    found: list[object] = []
    for read in (lambda: reader.get("k"), lambda: reader.count("p/"), lambda: list(reader.scan("p/", most=40, page=10))):
        with suppress(EtcdError):
            found.append(read())
    return found


def peer_records(data: bytes) -> object:
    """Read a key, its first line, and a value as each kind of record."""
    head, _line, value = data.partition(b"\n")
    key = head.decode("utf-8", "surrogateescape")
    return [parse_config(value), parse_node(key, value), parse_identity(key, value), parse_address(key, value), parse_heartbeat(value)]


def link_status(data: bytes) -> object:
    """Read the status of kvstoremesh and of an agent, the metrics, and node health."""
    text = data.decode("utf-8", "replace")
    link = LinkFacts(cluster="c1", peer="c2", reader="kvstoremesh", pod="p")
    found: list[object] = []
    for statuses in (kvstoremesh_statuses(text), agent_statuses(text)):
        found += [link_from_status(link, status) for status in list((statuses or {}).values())[:10]]
    _status, health = split_answer(text)
    return [*found, parse_metrics(text), *(parse_node_health(part, "c1", "n1", {"c2": "c2"}) for part in (text, health))]


def command_output(data: bytes) -> object:
    """Read the output of ``troubleshoot``, and that of the command of a probe."""
    text = data.decode("utf-8", "replace")
    return [parse_troubleshoot(text), parse_troubleshoot(text, ended=False), parse_reader_trust(text), connection_result(1, text)]


def flows(data: bytes) -> object:
    """Read flows of Hubble."""
    return parse_flows(data.decode("utf-8", "replace"), limit=1 << 20)


_ENGINE: Final = "plugins/module_utils"
PARSERS: Final = (
    Parser(
        name="certificates",
        writer="a member, in its Secrets and as a TLS server",
        files=(
            f"{_ENGINE}/mesh/x509/certificates.py",
            f"{_ENGINE}/mesh/x509/shared_pem.py",
            f"{_ENGINE}/observe/bundle.py",
            f"{_ENGINE}/observe/rolls.py",
            f"{_ENGINE}/ca/roll_inputs.py",
            f"{_ENGINE}/ca/roll_observation.py",
        ),
        parse=certificates,
        seconds=4.0,
        growth=100,
    ),
    Parser(name="etcd-answer", writer="the mesh etcd of a member", files=(f"{_ENGINE}/etcd/client.py",), parse=etcd_answers, growth=200),
    Parser(
        name="peer-record",
        writer="a member, in its mesh etcd",
        files=(f"{_ENGINE}/etcd/peer_records.py", f"{_ENGINE}/etcd/heartbeat.py"),
        parse=peer_records,
        growth=100,
    ),
    Parser(
        name="link-status",
        writer="a pod of a member",
        files=(f"{_ENGINE}/observe/link_status.py", f"{_ENGINE}/observe/node_health.py"),
        parse=link_status,
        form=Form.JSON,
        growth=100,
    ),
    Parser(name="command-output", writer="a pod of a member", files=(), parse=command_output, growth=100, tries=60),
    Parser(
        name="flows",
        writer="an agent of a member, of packets that anybody sends",
        files=(f"{_ENGINE}/probe/flows.py",),
        parse=flows,
        growth=100,
        tries=60,
    ),
)

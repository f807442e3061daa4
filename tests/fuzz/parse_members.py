# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parsers of what programs of members say: their mesh etcd, their certificates, the output of their commands."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

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
from tests.fuzz.parser import Form, parser


@parser(
    "certificates",
    "a member, in its Secrets and as a TLS server",
    *("mesh/x509/certificates.py", "mesh/x509/shared_pem.py", "observe/bundle.py", "observe/rolls.py"),
    *("ca/roll_inputs.py", "ca/roll_observation.py"),
    seconds=4.0,
    growth=100,
)
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


@parser("etcd-answer", "the mesh etcd of a member", "etcd/client.py", growth=200)
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


@parser("peer-record", "a member, in its mesh etcd", "etcd/peer_records.py", "etcd/heartbeat.py", growth=100)
def peer_records(data: bytes) -> object:
    """Read a key, its first line, and a value as each kind of record."""
    head, _line, value = data.partition(b"\n")
    key = head.decode("utf-8", "surrogateescape")
    return [parse_config(value), parse_node(key, value), parse_identity(key, value), parse_address(key, value), parse_heartbeat(value)]


@parser("link-status", "a pod of a member", "observe/link_status.py", "observe/node_health.py", form=Form.JSON, growth=100)
def link_status(data: bytes) -> object:
    """Read the status of kvstoremesh and of an agent, the metrics, and node health."""
    text = data.decode("utf-8", "replace")
    link = LinkFacts(cluster="c1", peer="c2", reader="kvstoremesh", pod="p")
    found: list[object] = []
    for statuses in (kvstoremesh_statuses(text), agent_statuses(text)):
        found += [link_from_status(link, status) for status in list((statuses or {}).values())[:10]]
    _status, health = split_answer(text)
    return [*found, parse_metrics(text), *(parse_node_health(part, "c1", "n1", {"c2": "c2"}) for part in (text, health))]


@parser("command-output", "a pod of a member", growth=100, tries=60)
def command_output(data: bytes) -> object:
    """Read the output of ``troubleshoot``, and that of the command of a probe."""
    text = data.decode("utf-8", "replace")
    return [parse_troubleshoot(text), parse_troubleshoot(text, ended=False), parse_reader_trust(text), connection_result(1, text)]


@parser("flows", "an agent of a member, of packets that anybody sends", "probe/flows.py", growth=100, tries=60)
def flows(data: bytes) -> object:
    """Read flows of Hubble."""
    return parse_flows(data.decode("utf-8", "replace"), limit=1 << 20)

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Inputs of every decision about a CA roll, as one value, and the questions that each stage asks of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts, TlsSecretFacts
from ..mesh.trust.ca_roll import Roll, roll_of
from ..mesh.trust.issuing import leaves_of
from ..mesh.trust.roll_facts import EtcdPod, Reader, RollFacts
from ..mesh.x509.certificates import CertificateProblem, load_certificates
from ..plan.steps import Step


@dataclass(frozen=True, kw_only=True)
class StageWait:
    """Condition that a stage waits for because it is not proven yet. ``text`` is one sentence that names it."""

    cluster: str
    text: str


@dataclass(frozen=True, kw_only=True)
class RollInputs:
    """One observation of the whole mesh for a roll.

    :param connect: steps of ``plan_connect`` on the same facts that write links.
    :param clients: (local, peer) -> serial number of the client certificate that the Secret holds for local to present to peer.
    :param locals: cluster -> serial number of the certificate that its agents are to present to their own etcd.
    :param by_next: cluster -> its TLS Secrets whose certificate the next CA signed.
    :param links: links that are not ready, as waits.
    """

    mesh: Mesh
    now: datetime  # aware, UTC
    facts: Mapping[str, ClusterFacts]
    rolls: Mapping[str, RollFacts]
    connect: tuple[Step, ...] = ()
    clients: Mapping[tuple[str, str], str] = field(default_factory=dict)
    locals: Mapping[str, str] = field(default_factory=dict)
    by_next: Mapping[str, frozenset[str]] = field(default_factory=dict)
    links: tuple[StageWait, ...] = ()

    @property
    def owner(self) -> str:
        """Owner hash of the binding."""
        return self.mesh.binding.owner

    def marked(self) -> dict[str, Roll]:
        """Return the rolls of this binding that are under way, by member."""
        rolls = {host: roll_of(self.facts[host].ca) for host in self.mesh.clusters if host in self.facts}
        return {host: roll for host, roll in rolls.items() if roll is not None and roll.owner == self.owner}

    def readers_of(self, server: str) -> Iterator[tuple[str, Reader]]:
        """Yield (cluster, reader) for every reader that reported about ``server``'s etcd."""
        for host, roll in self.rolls.items():
            yield from ((host, reader) for reader in roll.readers if reader.server == server)

    def settled(self, host: str) -> bool:
        """Return whether Deployment clustermesh-apiserver has rolled out its present template."""
        work = self.facts[host].apiserver
        if work is None:
            return False
        pods = self.rolls[host].pods
        whole = work.observed_generation >= work.generation and work.updated == work.desired == work.ready
        return whole and len(pods) == work.desired and all(pod.ready for pod in pods)


def digest_of_text(text: str) -> str:
    """Return the SHA-256 of the text in hex, as facts hold a Secret's values."""
    return hashlib.sha256(text.encode()).hexdigest()


def serials(pem: str) -> frozenset[str]:
    """Return the serial numbers of all certificates of a PEM text, in hexadecimal."""
    try:
        return frozenset(f"{certificate.serial_number:x}" for certificate in load_certificates(pem.encode()))
    except CertificateProblem:
        return frozenset()


def stale_leaves(inputs: RollInputs, host: str) -> tuple[TlsSecretFacts, ...]:
    """Return the TLS Secrets of a cluster whose certificate the next CA did not issue."""
    done = inputs.by_next.get(host, frozenset())
    return tuple(leaf for leaf in leaves_of(inputs.facts[host]) if leaf.name not in done)


def pod_waits(inputs: RollInputs, host: str, *, old: bool | None, new: bool, serves: str = "") -> Iterator[StageWait]:
    """Yield what the pods of a mesh etcd lack.

    ``old`` and ``new`` say whether it has to accept clients of that CA; with None either is right.
    """
    pods: tuple[EtcdPod, ...] = inputs.rolls[host].pods
    if not inputs.settled(host):
        yield StageWait(cluster=host, text=f"Deployment clustermesh-apiserver of {host} has not rolled out yet")
    for pod in pods:
        if pod.problem:
            yield StageWait(cluster=host, text=f"the mesh etcd in pod {pod.name} of {host} cannot be queried: {pod.problem}")
            continue
        if pod.accepts_new is not new:
            yield StageWait(cluster=host, text=f"the mesh etcd in pod {pod.name} of {host} does not accept clients of the next CA yet")
        if old is not None and pod.accepts_old is not old:
            text = "still accepts" if pod.accepts_old else "does not accept"
            yield StageWait(cluster=host, text=f"the mesh etcd in pod {pod.name} of {host} {text} clients of the old CA")
        if serves and pod.serves != serves:
            yield StageWait(cluster=host, text=f"the mesh etcd in pod {pod.name} of {host} does not show a certificate of the next CA yet")


def reader_waits(inputs: RollInputs, server: str, wanted: frozenset[str], *, exact: bool, client: bool) -> Iterator[StageWait]:
    """Yield what the readers of a mesh etcd lack.

    :param wanted: serial numbers of the CAs that each has to trust. ``exact``: and no other.
    :param client: each presents the certificate that its Secret holds now.
    """
    asked = set()
    for host, reader in inputs.readers_of(server):
        asked.add(host)
        who = f"{reader.kind} in pod {reader.pod} of {host}"
        if reader.problem:
            yield StageWait(cluster=host, text=f"{who} cannot be queried for the CAs that it trusts: {reader.problem}")
        elif not (reader.trust.roots == wanted if exact else reader.trust.roots >= wanted):
            lacks = "has not seen the next CA" if not reader.trust.roots >= wanted else "still trusts the old CA"
            yield StageWait(cluster=host, text=f"{who} {lacks} of {server}")
        elif client and not (
            reader.trust.client and reader.trust.client == _expected_serial(inputs, host, server)
        ):  # two unknowns are no proof
            yield StageWait(cluster=host, text=f"{who} does not show {server} its new certificate yet")
        elif not reader.trust.connected:
            yield StageWait(cluster=host, text=f"{who} cannot open a new connection to {server}")
    for host in inputs.facts:
        linked = inputs.mesh.linked(host, server)
        own = host == server and inputs.facts[host].runs_kvstoremesh and bool(inputs.mesh.peers(host))
        if (linked or own) and host not in asked:
            yield StageWait(cluster=host, text=f"no reader in {host} could be queried for the CAs that it trusts for {server}")


def _expected_serial(inputs: RollInputs, host: str, server: str) -> str:
    return inputs.locals.get(host, "") if host == server else inputs.clients.get((host, server), "")

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Everything that a decision about a roll rests on, as one value, and the questions that every stage asks of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ..certificates import CertificateProblem, load_certificates
from ..facts import ClusterFacts, TlsSecretFacts
from ..model import Mesh
from ..steps import Step
from .methods import leaves_of
from .observe import EtcdPod, Reader, RollFacts
from .state import Roll, roll_of


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Something that is not proven yet. ``text`` is one sentence that names it."""

    cluster: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One observation of the whole mesh.

    :param connect: steps of ``plan_connect`` on the same facts that write links.
    :param clients: (local, peer) -> serial number of the client certificate that the Secret holds for local to show peer.
    :param locals: cluster -> serial number of the certificate that its agents are to show their own etcd.
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
    links: tuple[Wait, ...] = ()

    @property
    def owner(self) -> str:
        return self.mesh.binding.owner

    def marked(self) -> dict[str, Roll]:
        """Members that are in a roll of this binding."""
        rolls = {host: roll_of(self.facts[host].ca) for host in self.mesh.clusters if host in self.facts}
        return {host: roll for host, roll in rolls.items() if roll is not None and roll.owner == self.owner}

    def readers_of(self, server: str) -> Iterator[tuple[str, Reader]]:
        """(cluster, reader) of everybody who was asked about ``server``'s etcd."""
        for host, roll in self.rolls.items():
            yield from ((host, reader) for reader in roll.readers if reader.server == server)

    def settled(self, host: str) -> bool:
        """Has Deployment clustermesh-apiserver rolled out what its template says?"""
        work = self.facts[host].apiserver
        if work is None:
            return False
        pods = self.rolls[host].pods
        whole = work.observed_generation >= work.generation and work.updated == work.desired == work.ready
        return whole and len(pods) == work.desired and all(pod.ready for pod in pods)


def digest_of_text(text: str) -> str:
    """SHA-256 hex, as facts hold a Secret's values."""
    return hashlib.sha256(text.encode()).hexdigest()


def serials(pem: str) -> frozenset[str]:
    """Serial numbers of all certificates of a PEM text, hexadecimal."""
    try:
        return frozenset(f"{certificate.serial_number:x}" for certificate in load_certificates(pem.encode()))
    except CertificateProblem:
        return frozenset()


def stale_leaves(seen: Seen, host: str) -> tuple[TlsSecretFacts, ...]:
    """TLS Secrets of a cluster whose certificate is not the next CA's."""
    done = seen.by_next.get(host, frozenset())
    return tuple(leaf for leaf in leaves_of(seen.facts[host]) if leaf.name not in done)


def pod_waits(seen: Seen, host: str, *, old: bool | None, new: bool, serves: str = "") -> Iterator[Wait]:
    """What the pods of a mesh etcd lack. ``old``, ``new``: has it to accept clients of that CA? None: either way."""
    pods: tuple[EtcdPod, ...] = seen.rolls[host].pods
    if not seen.settled(host):
        yield Wait(cluster=host, text=f"Deployment clustermesh-apiserver of {host} has not rolled out yet")
    for pod in pods:
        if pod.problem:
            yield Wait(cluster=host, text=f"the mesh etcd in pod {pod.name} of {host} cannot be asked: {pod.problem}")
            continue
        if pod.accepts_new is not new:
            yield Wait(cluster=host, text=f"the mesh etcd in pod {pod.name} of {host} does not accept clients of the next CA yet")
        if old is not None and pod.accepts_old is not old:
            text = "still accepts" if pod.accepts_old else "does not accept"
            yield Wait(cluster=host, text=f"the mesh etcd in pod {pod.name} of {host} {text} clients of the old CA")
        if serves and pod.serves != serves:
            yield Wait(cluster=host, text=f"the mesh etcd in pod {pod.name} of {host} does not show a certificate of the next CA yet")


def reader_waits(seen: Seen, server: str, wanted: frozenset[str], *, exact: bool, client: bool) -> Iterator[Wait]:
    """What the readers of a mesh etcd lack.

    :param wanted: serial numbers of the CAs that each has to trust. ``exact``: and no other.
    :param client: each shows the certificate that its Secret holds now.
    """
    asked = set()
    for host, reader in seen.readers_of(server):
        asked.add(host)
        who = f"{reader.kind} in pod {reader.pod} of {host}"
        if reader.problem:
            yield Wait(cluster=host, text=f"{who} cannot be asked whom it trusts: {reader.problem}")
        elif not (reader.shown.roots == wanted if exact else reader.shown.roots >= wanted):
            lacks = "has not seen the next CA" if not reader.shown.roots >= wanted else "still trusts the old CA"
            yield Wait(cluster=host, text=f"{who} {lacks} of {server}")
        elif client and not (reader.shown.client and reader.shown.client == _expected(seen, host, server)):  # two unknowns are no proof
            yield Wait(cluster=host, text=f"{who} does not show {server} its new certificate yet")
        elif not reader.shown.connected:
            yield Wait(cluster=host, text=f"{who} cannot open a new connection to {server}")
    for host in seen.facts:
        linked = seen.mesh.linked(host, server)
        own = host == server and seen.facts[host].runs_kvstoremesh and bool(seen.mesh.peers(host))
        if (linked or own) and host not in asked:
            yield Wait(cluster=host, text=f"no reader in {host} could be asked whom it trusts as {server}")


def _expected(seen: Seen, host: str, server: str) -> str:
    return seen.locals.get(host, "") if host == server else seen.clients.get((host, server), "")

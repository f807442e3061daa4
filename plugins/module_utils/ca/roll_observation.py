# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Conversion of an observation into ``RollInputs``. It reads no cluster; certificates come out of the SecretStore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from ..base.sealed import SecretStore
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.trust.ca_roll import roll_of
from ..mesh.trust.issuing import leaves_of
from ..mesh.trust.roll_facts import RollFacts
from ..mesh.versions.minors import agent_file_prefix, cilium_version
from ..mesh.x509.certificates import CertificateProblem, chains_to, load_certificates
from ..observe import Observation
from ..plan.steps import ApplyHostAliases, ApplySecret, DeleteObject, Step, WriteUsers
from ..status.links import LinkState
from .roll_inputs import RollInputs, StageWait
from .signing import serial

LINK_ACTIONS = (ApplySecret, ApplyHostAliases, WriteUsers, DeleteObject)
"""Actions of connect that write links. Its other writes are left to connect."""


def observe_roll_inputs(
    observation: Observation,
    mesh: Mesh,
    rolls: Mapping[str, RollFacts],
    *,
    now: datetime,
    connect: Iterable[Step] = (),
    links: Iterable[LinkState] = (),
) -> RollInputs:
    """Return the inputs of a roll.

    :param connect: all steps of ``plan_connect``.
    :param links: the state of every link, as its readers report it.
    """
    facts, store = observation.facts, observation.secrets
    return RollInputs(
        mesh=mesh,
        now=now,
        facts=facts,
        rolls=rolls,
        connect=tuple(step for step in connect if isinstance(step.action, LINK_ACTIONS)),
        clients={(a, b): _client_serial(observation, a, b) for a, b in mesh.links if a in facts and b in facts},
        locals={host: _serial_in(store, host, _agents_secret(cluster), "tls.crt") for host, cluster in facts.items()},
        by_next={host: _issued_by_next_ca(cluster, store) for host, cluster in facts.items()},
        links=tuple(_link_wait(state) for state in links if not state.ready),
    )


def _agents_secret(facts: ClusterFacts) -> str:
    """Return the name of the Secret with which agents log in to their own kvstoremesh."""
    return facts.local_cert.name if agent_file_prefix(cilium_version(facts)) == "local-" else facts.remote_cert.name


def _issued_by_next_ca(facts: ClusterFacts, store: SecretStore) -> frozenset[str]:
    """Return the names of the TLS Secrets whose certificate chains to the next CA."""
    roll = roll_of(facts.ca)
    if roll is None:
        return frozenset()
    try:
        roots = load_certificates(roll.new.encode())
    except CertificateProblem:  # the annotation may come from any user with the right to annotate the Secret
        return frozenset()
    found = set()
    for leaf in leaves_of(facts):
        try:
            certificate, *between = load_certificates(store.get(facts.host, leaf.name, "tls.crt").reveal())
        except (KeyError, CertificateProblem):
            continue
        if leaf.key_matches and chains_to(certificate, between, roots):
            found.add(leaf.name)
    return frozenset(found)


def _link_wait(state: LinkState) -> StageWait:
    error = f" ({state.error})" if state.error else ""
    return StageWait(cluster=state.cluster, text=f"link {state.cluster} -> {state.peer} is not ready: {state.stage.value}{error}")


def _client_serial(observation: Observation, local: str, peer: str) -> str:
    """Return the serial number of the client certificate that ``local`` is to present to ``peer``; "" without one.

    It is the certificate that its Secret holds now.
    """
    facts, name = observation.facts[local], observation.facts[peer].name
    secret = facts.kvstoremesh if facts.runs_kvstoremesh else facts.clustermesh
    return _serial_in(observation.secrets, local, secret.name, f"{name}.etcd-client.crt")


def _serial_in(store: SecretStore, host: str, secret: str, key: str) -> str:
    """Return the serial number of a certificate in a Secret; "" where there is none."""
    try:
        return serial(store.get(host, secret, key).reveal())
    except (KeyError, CertificateProblem):
        return ""

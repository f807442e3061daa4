# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An observation turned into what the stages of a roll decide on (``Seen``). Reads no cluster; certificates come out of the SecretStore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from ..certificates import CertificateProblem, chains_to, load_certificates
from ..facts import ClusterFacts
from ..model import Mesh
from ..observe import Observation
from ..secrets import SecretStore
from ..status import LinkState
from ..steps import ApplyHostAliases, ApplySecret, DeleteObject, Step, WriteUsers
from ..versions import agent_file_prefix, cilium_version
from .methods import leaves_of
from .observe import RollFacts, client_serials, serial_in
from .seen import Seen, Wait
from .state import roll_of

LINK_ACTIONS = (ApplySecret, ApplyHostAliases, WriteUsers, DeleteObject)
"""What connect writes for links. Its other writes are left to connect."""


def look(
    observation: Observation,
    mesh: Mesh,
    rolls: Mapping[str, RollFacts],
    *,
    now: datetime,
    connect: Iterable[Step] = (),
    links: Iterable[LinkState] = (),
) -> Seen:
    """:param connect: all steps of ``plan_connect``. ``links``: the state of every link, as its readers say."""
    facts, store = observation.facts, observation.secrets
    return Seen(
        mesh=mesh,
        now=now,
        facts=facts,
        rolls=rolls,
        connect=tuple(step for step in connect if isinstance(step.action, LINK_ACTIONS)),
        clients={(a, b): client_serials(observation, a, b) for a, b in mesh.links if a in facts and b in facts},
        locals={host: serial_in(store, host, _agents_secret(cluster), "tls.crt") for host, cluster in facts.items()},
        by_next={host: _by_next(cluster, store) for host, cluster in facts.items()},
        links=tuple(_wait(state) for state in links if not state.ready),
    )


def _agents_secret(facts: ClusterFacts) -> str:
    """The Secret with which agents log in to their own kvstoremesh."""
    return facts.local_cert.name if agent_file_prefix(cilium_version(facts)) == "local-" else facts.remote_cert.name


def _by_next(facts: ClusterFacts, store: SecretStore) -> frozenset[str]:
    roll = roll_of(facts.ca)
    if roll is None:
        return frozenset()
    try:
        roots = load_certificates(roll.new.encode())
    except CertificateProblem:  # an annotation: whoever may annotate the Secret wrote it
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


def _wait(state: LinkState) -> Wait:
    error = f" ({state.error})" if state.error else ""
    return Wait(cluster=state.cluster, text=f"link {state.cluster} -> {state.peer} is not ready: {state.stage.value}{error}")

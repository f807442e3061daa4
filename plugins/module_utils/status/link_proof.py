# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Last proof of a link: a new connection with the link's own files that read the peer's heartbeat. Pure.

kvstoremesh reports ready for up to two minutes after its connection was refused or the peer fell silent (mesh/versions/minors.py, DELAYS):
its report is about the connection that it has. A proof is about now. There are two kinds. The link's own reader (kvstoremesh, or an agent
where none runs) can prove and refute. The controller is in another place: a heartbeat that it reads proves the link, a failed connection
says nothing, and only a peer that its certificate proves and that refuses the link's user refutes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ..base.json_fields import parse_time
from ..base.redact import one_line
from ..etcd.heartbeat import ControllerProof, ProofVerdict
from ..mesh.facts.cluster import LinkFacts

STALE_SECONDS: Final = 180
"""clustermesh-apiserver writes the heartbeat every 60 s (pkg/kvstore/kvstore.go, HeartbeatWriteInterval); three missed make it stale."""

PROOF_CHOICES: Final = ("auto", "readers", "none")
"""``auto``: by the readers, and by the controller where it can; ``readers``: without the controller; ``none``: as kvstoremesh reports."""


@dataclass(frozen=True, kw_only=True)
class LinkProof:
    """Combined proof of a link by its readers and the controller.

    ``by`` is kvstoremesh, agent, controller or "" if none of them proved or refuted it.
    """

    verdict: ProofVerdict = ProofVerdict.UNKNOWN
    by: str = ""
    note: str = ""  # the failure if it is refuted, the reason if it is unknown
    heartbeat: datetime | None = None


def age_seconds(heartbeat: datetime | None, now: datetime) -> int | None:
    """Return the age of a heartbeat in whole seconds; 0 if a slow local clock puts it into the future."""
    return None if heartbeat is None else max(0, int((now - heartbeat) / timedelta(seconds=1)))


def is_stale(heartbeat: datetime | None, now: datetime) -> bool:
    """Return whether the peer's clustermesh-apiserver has stopped writing its heartbeat."""
    age = age_seconds(heartbeat, now)
    return age is not None and age > STALE_SECONDS


def link_proof(links: Iterable[LinkFacts], controller: ControllerProof | None) -> LinkProof:
    """Combine the proofs of one link: any refutation counts first, then the proof by a reader, then the controller's."""
    tried = [link for link in links if link.proof]
    heartbeat = controller.heartbeat if controller else None
    for link in tried:
        if link.proof == ProofVerdict.REFUTED:
            return LinkProof(verdict=ProofVerdict.REFUTED, by=link.reader, note=link.error, heartbeat=heartbeat)
    if controller is not None and controller.verdict is ProofVerdict.REFUTED:
        return LinkProof(verdict=ProofVerdict.REFUTED, by="controller", note=controller.note, heartbeat=heartbeat)
    notes = [link.proof_note for link in tried if link.proof_note]
    if controller is not None and controller.note:
        notes.append(f"controller: {controller.note}")
    by = next((link.reader for link in tried if link.proof == ProofVerdict.PROVEN), "")
    if not by and controller is not None and controller.verdict is ProofVerdict.PROVEN:
        by = "controller"
    verdict = ProofVerdict.PROVEN if by else ProofVerdict.UNKNOWN
    return LinkProof(verdict=verdict, by=by, note=one_line("; ".join(dict.fromkeys(notes)), 400), heartbeat=heartbeat)


def proof_columns(proof: LinkProof, *, now: datetime, previous: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return ``proof``, ``proofNote`` and ``lastProof`` of a row of ``links``.

    :param previous: the same row of the status written earlier: its last proof stays until there is a newer one.
    """
    last: Any = None
    if proof.verdict is ProofVerdict.PROVEN:
        when = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        last = {"time": when, "by": proof.by, "heartbeatAgeSeconds": age_seconds(proof.heartbeat, now)}
    elif isinstance((previous or {}).get("lastProof"), Mapping):
        last = _earlier((previous or {})["lastProof"])
    return {"proof": proof.verdict.value, "proofNote": proof.note, "lastProof": last}


def _earlier(last: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the proof of an earlier status, which is not trusted: one without the right shape counts as none."""
    time, age = last.get("time"), last.get("heartbeatAgeSeconds")
    if not isinstance(time, str) or parse_time(time) is None:
        return None
    known = isinstance(age, int) and not isinstance(age, bool)
    return {"time": time, "by": one_line(last.get("by"), 20), "heartbeatAgeSeconds": age if known else None}

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Status of a fabric: the summary of the statuses of its bindings. Pure.

It is built from the statuses of its bindings and from nothing else, so it is never a second source of truth; and it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import combinations
from typing import Any, Final

from ..base.conditions import condition, with_transition_times
from ..base.json_fields import parse_time
from ..base.tables import count
from ..findings.finding import Finding
from ..findings.wording import finding
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts
from .links import rows_of

PHASES: Final = ("Error", "Degraded", "Connecting", "Pending", "Connected")
"""Phases of a fabric, the worst first."""

OLD: Final = timedelta(minutes=15)
"""Three times the interval at which a mesh is observed (REQUEUE_SECONDS of a connected one): an older status is out of date."""


@dataclass(frozen=True)
class _Links:
    """Links of one binding, or of all, counted. Proofs are (time, as the link has it); None: none was ever proven."""

    total: int
    ready: int
    proven: int
    oldest: tuple[datetime, str] | None
    newest: tuple[datetime, str] | None

    @property
    def counts(self) -> dict[str, int]:
        """Counts, as a status shows them."""
        return {"total": self.total, "ready": self.ready}

    @property
    def proofs(self) -> dict[str, Any]:
        """Age of proofs: ``oldest`` and ``newest`` in RFC 3339, None without any; ``missing``: the number of links never proven."""
        oldest, newest = self.oldest[1] if self.oldest else None, self.newest[1] if self.newest else None
        return {"oldest": oldest, "newest": newest, "missing": self.total - self.proven}


@dataclass(frozen=True, kw_only=True)
class BindingRow:
    """One binding of the fabric. ``status`` is ``status.binding`` of its ``mesh_result``; None or {}: it was not measured.

    What is counted of its links is counted once: who keeps the row pays for a fabric by its bindings, and not by their links.
    """

    name: str
    clusters: tuple[str, ...] = ()  # inventory names of its members
    status: Mapping[str, Any] | None = None

    @property
    def phase(self) -> str:
        """Phase of the binding; Pending if it is not known, because an unknown phase never counts as Connected."""
        phase = str((self.status or {}).get("phase", ""))
        return phase if phase in PHASES else "Pending"

    @cached_property
    def links(self) -> _Links:
        """Its ``links``, counted."""
        rows = rows_of(self.status, "links")
        texts = [str(proof.get("time")) for row in rows if isinstance(proof := row.get("lastProof"), Mapping)]
        known = [(time, text) for text in texts if (time := parse_time(text)) is not None]
        ready = sum(row.get("ready") is True for row in rows)
        return _Links(len(rows), ready, len(known), min(known, default=None), max(known, default=None))

    @cached_property
    def connected(self) -> frozenset[str]:
        """Members whose every link of this binding is ready."""
        return frozenset(str(row.get("clusterName")) for row in rows_of(self.status, "meshStatus") if row.get("connected") is True)


def fabric_status(name: str, rows: Sequence[BindingRow], *, now: datetime, previous: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the status of the fabric ``name``: the worst phase of its bindings, how much of them is connected, and how old the proofs are.

    :param now: aware; only for lastTransitionTime of conditions.
    :param previous: the status written earlier, whose times stay where a condition has not changed.
    :returns: ``{name, phase, lastSyncTime, counts, lastProof, bindings, conditions}``. ``lastSyncTime`` is that of the binding that was
        measured longest ago, "" when one was not. A cluster in several bindings counts once, and is connected when it is in all of them.
    """
    phase = min((row.phase for row in rows), key=PHASES.index, default="Pending")
    members = {host for row in rows for host in row.clusters}
    behind = {host for row in rows for host in row.clusters if host not in row.connected}
    synced, links = [_synced(row) for row in rows], _sum(row.links for row in rows)
    return {
        "name": name,
        "phase": phase,
        "lastSyncTime": min(synced, default="") if all(synced) else "",
        "counts": {
            "bindings": {"total": len(rows), "connected": sum(row.phase == "Connected" for row in rows)},
            "clusters": {"total": len(members), "connected": len(members - behind)},
            "links": links.counts,
        },
        "lastProof": links.proofs,
        "bindings": [_binding(row) for row in rows],
        "conditions": with_transition_times(_conditions(phase, rows), now, rows_of(previous, "conditions")),
    }


def identity_findings(bindings: Iterable[Mesh], facts: Mapping[str, ClusterFacts]) -> list[Finding]:
    """Return findings about clusters in several bindings whose peers there have the same name or id, which no binding alone shows.

    Cilium reserves the id of every peer, and refuses a second one with it (pkg/clustermesh/idsmgr.go, ReserveClusterID); names are the
    keys of the Secret that holds the peers.
    """
    meshes = tuple(bindings)
    peers: dict[str, set[str]] = {}
    for local, peer in (link for mesh in meshes for link in mesh.links if link[1] in facts):
        peers.setdefault(local, set()).add(peer)
    found: dict[tuple[str, str], list[str]] = {}
    for local, hosts in sorted(peers.items()):
        for one, other in _same_identity_pairs(sorted(hosts), facts):
            if not any(mesh.linked(local, one) and mesh.linked(local, other) for mesh in meshes):
                found.setdefault((one, other), []).append(local)
    return [_clash(one, other, seen_by, facts) for (one, other), seen_by in sorted(found.items())]


def age_findings(rows: Iterable[BindingRow], now: datetime) -> Iterator[Finding]:
    """Yield findings about bindings whose status is too old, or does not say when it was measured."""
    for row in rows:
        if not row.status:
            continue
        measured = parse_time(_synced(row))
        if measured is not None and now - measured <= OLD:
            continue
        age = f"{int((now - measured).total_seconds() // 60)} minutes old" if measured is not None else "without a time"
        yield finding(
            "CM-FAB-02",
            summary=f"The status of binding {row.name} is {age}; the summary of the fabric is no newer",
            evidence=f"lastSyncTime {_synced(row) or 'is missing'}",
            fix="Measure it again with playbook status, or leave it out of statuses, so that this run measures it.",
        )


def _conditions(phase: str, rows: Sequence[BindingRow]) -> list[dict[str, Any]]:
    """Return the conditions Ready and Degraded. Reasons: AllBindingsConnected, BindingsNotConnected, NoBindings."""
    late = [row for row in rows if row.phase != "Connected"]
    if not rows:
        reason, message = "NoBindings", "The fabric names no binding"
    elif late:
        reason = "BindingsNotConnected"
        message = "; ".join(f"{row.name}: {row.phase}" for row in sorted(late, key=lambda row: PHASES.index(row.phase)))
    else:
        reason, message = "AllBindingsConnected", f"{count(len(rows), 'binding')} connected"
    return [
        condition("Ready", phase == "Connected", reason, message),
        condition("Degraded", phase in ("Error", "Degraded"), reason, message),
    ]


def _binding(row: BindingRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "phase": row.phase,
        "lastSyncTime": _synced(row),
        "clusters": {"total": len(row.clusters), "connected": len(row.connected & set(row.clusters))},
        "links": row.links.counts,
        "lastProof": row.links.proofs,
        "message": "" if row.phase == "Connected" else _message(row),
    }


def _message(row: BindingRow) -> str:
    if not row.status:
        return "It was not measured"
    ready = next((entry for entry in rows_of(row.status, "conditions") if entry.get("type") == "Ready"), {})
    return str(ready.get("message") or "")


def _sum(found: Iterable[_Links]) -> _Links:
    links = list(found)
    oldest = min((one.oldest for one in links if one.oldest), default=None)
    newest = max((one.newest for one in links if one.newest), default=None)
    return _Links(sum(one.total for one in links), sum(one.ready for one in links), sum(one.proven for one in links), oldest, newest)


def _synced(row: BindingRow) -> str:
    return str((row.status or {}).get("lastSyncTime") or "")


def _same_identity_pairs(hosts: Iterable[str], facts: Mapping[str, ClusterFacts]) -> list[tuple[str, str]]:
    """Return pairs of ``hosts`` with the same name or id, in order, each once."""
    groups: dict[tuple[str, str], list[str]] = {}
    for host in hosts:
        for kind, value in (("name", facts[host].name), ("id", facts[host].id or "")):
            if value:
                groups.setdefault((kind, str(value)), []).append(host)
    return sorted({pair for group in groups.values() for pair in combinations(group, 2)})


def _shared_values(one: ClusterFacts, other: ClusterFacts) -> str:
    names = [f"name {one.name}"] if one.name and one.name == other.name else []
    return " and ".join([*names, *([f"id {one.id}"] if one.id and one.id == other.id else [])])


def _clash(one: str, other: str, seen_by: Sequence[str], facts: Mapping[str, ClusterFacts]) -> Finding:
    both, who = _shared_values(facts[one], facts[other]), ", ".join(seen_by)
    return finding(
        "CM-FAB-01",
        cluster=one,
        peer=other,
        summary=f"{one} and {other} both have {both}, and different bindings make both peers of {who}",
        evidence=f"cilium-config of {one} and of {other}",
        fix=f"Take {who} out of a binding, or give {one} or {other} another name and id before it is connected (docs/identity.md).",
    )

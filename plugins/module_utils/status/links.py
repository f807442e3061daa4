# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Stage of every link and status of the binding, from the reports of readers. Pure: the time is passed in.

A link is one direction: ``cluster`` reads ``peer``. It is ready only if every queried reader reports it as ready, every reader that had to
be queried answered, and no new connection to the peer failed (status/link_proof.py): an unknown link is never ready.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from ..base.conditions import condition, timestamp, with_transition_times
from ..base.errors import clause
from ..base.json_fields import parse_time
from ..base.redact import one_line
from ..etcd.heartbeat import ControllerProof, ProofVerdict
from ..findings.finding import Finding
from ..findings.wording import listed
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts, LinkFacts, ObserveFailure, ReaderFacts
from ..mesh.link_stage import LinkStage
from .config_met import config_conditions
from .link_proof import LinkProof, is_stale, link_proof, proof_columns
from .node_paths import NODES_REACHABLE, NodePaths, cut_off, node_paths, nodes_condition, path_columns

NOT_ASKED: Final = "CM-TOPO-02"
"""Code of the failure of a member that a limit leaves out. Nothing is wrong with it: it was not asked."""

CONNECTING_LIMIT: Final = timedelta(minutes=10)
"""A link that is written becomes ready within this time: kubelet projects Secrets within two minutes, and a roll-out may come first."""

_ORDER: Final = {stage: place for place, stage in enumerate(LinkStage)}

_TLS_WORDS = re.compile(r"x509|certificate|\btls\b|handshake", re.IGNORECASE)
_USER_WORDS = re.compile(r"permission ?denied|authentication failed|invalid auth|user name is empty|not granted", re.IGNORECASE)


def _configured(link: LinkFacts) -> bool:
    """Return whether the reader has the peer's configuration.

    Cilium retrieves it first; only very old peers publish none (then it is not required).
    """
    return link.config_retrieved is True or link.config_required is False


_Rule = tuple[Callable[[LinkFacts], bool], LinkStage]

_REACHED: Final[tuple[_Rule, ...]] = (
    (lambda link: bool(_USER_WORDS.search(link.error)), LinkStage.AUTHORISATION),
    (lambda link: not _configured(link), LinkStage.RETRIEVING_CONFIGURATION),
    (lambda link: True, LinkStage.SYNCHRONISING),
)
"""For a link that is connected and not ready: the first rule that holds."""

_NOT_REACHED: Final[tuple[_Rule, ...]] = (
    (lambda link: bool(_USER_WORDS.search(link.error + link.status)), LinkStage.AUTHORISATION),
    (lambda link: bool(_TLS_WORDS.search(link.error + link.status)), LinkStage.TLS),
    (lambda link: link.source == "metrics" and not (link.error or link.status), LinkStage.UNKNOWN),  # a gauge says only ready or not
    (lambda link: True, LinkStage.DIALLING),
)
"""For a link that is not connected, when no troubleshoot run has proven the stage."""


def link_stage(link: LinkFacts) -> LinkStage:
    """Return the stage that one reader reports for a link.

    ``ready`` in Cilium's status means connected and configured, not synchronised (pkg/clustermesh/common/remote_cluster.go, isReadyLocked);
    so it is combined with ``synced``. A report from metrics has the gauge alone.
    """
    if not link.source:
        return LinkStage.UNKNOWN  # the reader was not queried
    if not link.known:
        return LinkStage.SECRET_NOT_PROJECTED
    if link.proof == ProofVerdict.REFUTED and (link.ready or link.connected):
        return LinkStage(link.stage_hint) if link.stage_hint in _STAGES_OF_HINTS else LinkStage.DIALLING
    if link.ready and all(link.synced.values()) and (link.source == "metrics" or _configured(link)):
        return LinkStage.READY
    if link.ready or link.connected:
        return _first_stage(_REACHED, link)
    if link.stage_hint in _STAGES_OF_HINTS:
        return LinkStage(link.stage_hint)
    return _first_stage(_NOT_REACHED, link)


_STAGES_OF_HINTS: Final = frozenset(stage.value for stage in LinkStage) - {LinkStage.READY.value}


def _first_stage(rules: Iterable[_Rule], link: LinkFacts) -> LinkStage:
    return next(stage for holds, stage in rules if holds(link))


@dataclass(frozen=True, kw_only=True)
class LinkState:
    """State of one link over all its readers.

    ``reader`` and ``error`` are those of the reader that is furthest behind. ``reader`` is "controller" if all readers report ready and the
    peer refuses the link's own credentials from the controller.
    """

    cluster: str  # inventory name
    peer: str  # inventory name
    stage: LinkStage
    reader: str = ""  # "kvstoremesh", "agent", or "" if no reader could be queried
    error: str = ""
    nodes_ready: int = 0  # agents that report ready
    nodes_asked: int = 0  # agents that were queried; in large clusters a sample
    nodes_total: int = 0  # agents that should run
    proof: LinkProof = field(default_factory=LinkProof)
    broke: bool = False  # a reader still reports ready, while its new connection failed: the link worked a moment ago
    copied: bool = False  # agents report ready, and the kvstoremesh that made their copy does not: the link has worked before
    held: bool = False  # a reader without a connection has records of the peer: it had a connection
    arrived: Mapping[str, int] = field(default_factory=dict)  # nodes, services, endpoints, identities of the peer that have arrived
    seconds: float = 0.0  # set by waiting: when the link entered its stage, in seconds after the wait began

    @property
    def ready(self) -> bool:
        """Whether the link is ready."""
        return self.stage is LinkStage.READY

    def to_dict(self) -> dict[str, Any]:
        """Return a row of ``links`` in the status."""
        return {
            "cluster": self.cluster,
            "peer": self.peer,
            "stage": self.stage.value,
            "ready": self.ready,
            "reader": self.reader,
            "error": self.error,
            "nodesReady": self.nodes_ready,
            "nodesAsked": self.nodes_asked,
            "nodesTotal": self.nodes_total,
            **({"arrived": dict(self.arrived)} if self.arrived else {}),
        }


def link_states(
    mesh: Mesh,
    readers: Mapping[str, ReaderFacts],
    *,
    facts: Mapping[str, ClusterFacts] | None = None,
    failures: Mapping[str, ObserveFailure] | None = None,
    proofs: Mapping[tuple[str, str], ControllerProof] | None = None,
) -> tuple[LinkState, ...]:
    """Return the state of every link of the mesh, in its order.

    :param facts: say which clusters must have a kvstoremesh that answers; without them, one is missed only where a reader had a problem.
    :param failures: clusters that were not observed, for the error of their links. Links from one with the code NOT_ASKED are not judged.
    :param proofs: proofs by the controller, by (cluster, peer).
    """
    by_link: dict[tuple[str, str], list[LinkFacts]] = {}
    for reader in readers.values():
        for link in reader.links:
            by_link.setdefault((link.cluster, link.peer), []).append(link)
    states = []
    for cluster, peer in mesh.links:
        own = readers.get(cluster)
        silent = (failures or {}).get(cluster) or (failures or {}).get(peer)
        if own is None and silent is not None and silent.host == cluster and silent.code == NOT_ASKED:
            state = LinkState(cluster=cluster, peer=peer, stage=LinkStage.NOT_ASKED)
        elif own is None or (cluster, peer) not in by_link:
            state = _unknown_state(cluster, peer, own, silent)
        else:
            known = (facts or {}).get(cluster)
            state = _combined(by_link[cluster, peer], own, known.runs_kvstoremesh if known else bool(own.problems))
        states.append(_with_proof(state, by_link.get((cluster, peer), ()), (proofs or {}).get((cluster, peer))))
    return tuple(states)


def _with_proof(state: LinkState, links: Sequence[LinkFacts], controller: ControllerProof | None) -> LinkState:
    proof = link_proof(links, controller)
    if state.ready and proof.verdict is ProofVerdict.REFUTED:  # refutations by the readers are in their stage already
        return replace(state, stage=LinkStage.AUTHORISATION, reader=proof.by, error=proof.note, proof=proof)
    return replace(state, proof=proof)


def _unknown_state(cluster: str, peer: str, reader: ReaderFacts | None, failure: ObserveFailure | None) -> LinkState:
    problems = reader.problems if reader else ()
    error = f"{failure.host}: {failure.clause}" if failure else "; ".join(problems) or f"no reader in {cluster} could be queried"
    total = reader.agents_total if reader else 0
    return LinkState(cluster=cluster, peer=peer, stage=LinkStage.UNKNOWN, error=error, nodes_total=total)


def _combined(links: Sequence[LinkFacts], reader: ReaderFacts, kvstoremesh: bool) -> LinkState:
    """Return the earliest stage over all readers; UNKNOWN if those that answered are ready and others could not be queried."""
    agents = [link for link in links if link.reader == "agent"]
    behind = min(links, key=lambda link: _ORDER[link_stage(link)])
    stage, who, error = link_stage(behind), behind.reader, _error(behind)
    missing = "kvstoremesh" if kvstoremesh and len(agents) == len(links) else ""
    if not agents or len(agents) < reader.agents_asked:
        missing = missing or "agent"
    if stage is LinkStage.READY and missing:
        stage, who = LinkStage.UNKNOWN, missing
        error = "; ".join(reader.problems) or f"{'an' if missing == 'agent' else 'the'} {missing} was not queried"
    elif stage is LinkStage.UNKNOWN and not error:
        error = "; ".join(reader.problems)
    return LinkState(
        cluster=behind.cluster,
        peer=behind.peer,
        stage=stage,
        reader=who,
        error=error,
        nodes_ready=len({link.pod for link in agents if link_stage(link) is LinkStage.READY}),
        nodes_asked=reader.agents_asked,
        nodes_total=reader.agents_total,
        broke=any(link.ready and link.proof == ProofVerdict.REFUTED for link in links),
        copied=_lost_by_kvstoremesh(links),
        held=any(map(_holds_what_it_cannot_read, links)),
        arrived=_arrived(agents) or _arrived(links),
    )


def _lost_by_kvstoremesh(links: Sequence[LinkFacts]) -> bool:
    """Return whether kvstoremesh has lost a peer that agents still report as ready.

    They read the copy that it made, so it had the peer; it says so no more when it notices the loss itself, 60 to 130 s after it. Of a link
    that is coming up it can look the same for a moment, as agents are read after kvstoremesh.
    """
    copies = [link for link in links if link.reader == "kvstoremesh"]
    ready = any(link_stage(link) is LinkStage.READY for link in links if link.reader == "agent")
    return ready and bool(copies) and all(link_stage(link) is not LinkStage.READY for link in copies)


def _holds_what_it_cannot_read(link: LinkFacts) -> bool:
    """Return whether a reader counts records of a peer with which it has no connection, or only one without the peer's configuration.

    It reads records only after the configuration, and keeps them when the connection ends (pkg/kvstore/store/watchstore.go,
    restartableWatchStore), so a connection that comes up for the first time never looks like this.
    """
    return any(link.arrived.values()) and not (link.connected and _configured(link))


def _arrived(links: Sequence[LinkFacts]) -> dict[str, int]:
    """Return for each kind the smallest number that a reader has; {} if none of them counts."""
    counted = [link.arrived for link in links if link.arrived]
    return {kind: min(counts.get(kind, 0) for counts in counted) for kind in counted[0]} if counted else {}


def _error(link: LinkFacts) -> str:
    if link_stage(link) is LinkStage.READY:
        return ""
    text = link.error or ("" if link.connected or link.ready else link.status)
    missing = sorted(kind for kind, done in link.synced.items() if not done)
    if not text and missing and link_stage(link) is LinkStage.SYNCHRONISING:
        text = f"not synchronised: {', '.join(missing)}"
    return f"node {link.node}: {text}" if text and link.reader == "agent" and link.node else text


def build_status(
    mesh: Mesh,
    facts: Mapping[str, ClusterFacts],
    failures: Mapping[str, ObserveFailure],
    readers: Mapping[str, ReaderFacts],
    *,
    now: datetime,
    generation: int | None = None,
    findings: Sequence[Finding] = (),
    previous: Mapping[str, Any] | None = None,
    written: bool = False,
    idle: bool = False,
    proofs: Mapping[tuple[str, str], ControllerProof] | None = None,
) -> dict[str, Any]:
    """Build ``status`` of a ClusterMeshBinding, with its ``links``.

    :param now: aware; becomes lastSyncTime.
    :param generation: metadata.generation that this status is about; None: that of the binding.
    :param findings: while one blocks the phase is never Connected, as nothing can be carried out: Degraded if it was good before, or if
        only some links are ready, else Error.
    :param previous: the status written earlier, which is not trusted (``earlier_binding``): keeps lastTransitionTime and the last proof of
        a link, and distinguishes a mesh that broke (Degraded) from a new one (Connecting).
    :param written: a run carried the links out after ``facts`` were observed.
    :param idle: that run had nothing to write, so ``facts`` say when the links were written.
    :param proofs: see ``link_states``. A peer whose heartbeat is older than three minutes makes the phase Degraded.
    :returns: phase, meshStatus, links, conditions, lastSyncTime, and observedGeneration when a generation is known. Times are RFC 3339.
        Members that a limit leaves out have ``asked: false``; phase and conditions are about the others.
    """
    every = link_states(mesh, readers, facts=facts, failures=failures, proofs=proofs)
    links = tuple(link for link in every if link.stage is not LinkStage.NOT_ASKED)
    not_asked = [host for host, failure in failures.items() if failure.code == NOT_ASKED and host in mesh.clusters]
    failures = {host: failure for host, failure in failures.items() if host not in not_asked}
    configured = written or any(link.known for r in readers.values() for link in r.links) or _any_configured(mesh, facts)
    was = str((previous or {}).get("phase", ""))
    worked = (idle or not written) and _worked(mesh, facts, links, now)
    how = {"configured": configured, "worked": worked, "written": written, "partly": bool(not_asked)}
    phase = _phase(links, facts, failures, findings, was=was, **how)
    stale = _stale(links, now)
    paths = node_paths([(link.cluster, link.peer) for link in links], readers, facts)
    cut = cut_off(paths.values())
    phase = "Degraded" if phase == "Connected" and (stale or cut) else phase
    rows = {(str(row.get("cluster")), str(row.get("peer"))): row for row in rows_of(previous, "links")}
    status: dict[str, Any] = {
        "phase": phase,
        "lastSyncTime": timestamp(now),
        "meshStatus": [
            {"clusterName": host, "connected": False, "readyNodes": 0, "askedNodes": 0, "totalNodes": 0, "asked": False}
            if host in not_asked
            else _cluster_row(host, facts.get(host), readers.get(host), links)
            for host in mesh.clusters
        ],
        "links": [
            {
                **link.to_dict(),
                **proof_columns(link.proof, now=now, previous=rows.get((link.cluster, link.peer))),
                **path_columns(paths.get((link.cluster, link.peer)), rows.get((link.cluster, link.peer))),
            }
            for link in every
        ],
        "conditions": with_transition_times(
            [
                *_conditions(phase, len(mesh.clusters) - len(not_asked), not_asked, links, failures, findings, stale, cut),
                *_nodes_conditions(links, paths, facts, previous),
                *config_conditions(mesh, facts),
            ],
            now,
            rows_of(previous, "conditions"),
        ),
    }
    observed = mesh.binding.generation if generation is None else generation
    return {**status, "observedGeneration": observed} if observed else status


def _nodes_conditions(
    links: Sequence[LinkState], paths: Mapping[tuple[str, str], NodePaths], facts: Mapping[str, ClusterFacts], previous: Any
) -> list[dict[str, Any]]:
    """Return the condition NodesReachable, or the previous one where this reading is without node health; [] if there is none."""
    found = nodes_condition([(link.cluster, link.peer) for link in links], paths, facts)
    if found is not None:
        return [found]
    earlier = next((row for row in rows_of(previous, "conditions") if row.get("type") == NODES_REACHABLE), {})
    holds = {"True": True, "False": False, "Unknown": None}
    was = str(earlier.get("status"))
    if was not in holds:
        return []
    return [condition(NODES_REACHABLE, holds[was], *(one_line(earlier.get(key), 1024) for key in ("reason", "message")))]


def earlier_binding(status: Any) -> Mapping[str, Any] | None:
    """Return ``binding`` of ``status`` of an earlier mesh_result, for ``previous``; None if it has not that shape."""
    binding = status.get("binding") if isinstance(status, Mapping) else None
    return binding if isinstance(binding, Mapping) else None


def rows_of(status: Mapping[str, Any] | None, key: str) -> list[Mapping[str, Any]]:
    """Return a list of mappings from a status that is not trusted; [] if it has not that shape."""
    value = (status or {}).get(key)
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, (list, tuple)) else []


def unwritten_links(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> frozenset[tuple[str, str]]:
    """Return the links (cluster, peer) that no Secret of their cluster has; of a peer without a name that is not known."""
    return frozenset(
        (a, b) for a, b in mesh.links if a in facts and b in facts and facts[b].name and not _is_written(facts[a], facts[b].name)
    )


def _is_written(local: ClusterFacts, peer: str) -> bool:
    return peer in local.clustermesh.keys or peer in local.kvstoremesh.keys


def _any_configured(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> bool:
    pairs = ((facts[a], facts[b]) for a, b in mesh.links if a in facts and b in facts)
    return any(_is_written(local, peer.name) for local, peer in pairs if peer.name)


def _worked(mesh: Mesh, facts: Mapping[str, ClusterFacts], links: Sequence[LinkState], now: datetime) -> bool:
    """Return whether links that are not ready have worked before, or should have long ago, so that none of them is on its way.

    That is so if they were written more than CONNECTING_LIMIT ago, or if a reader has records of a peer that it does not reach any more.
    Where the time of the last write is unknown, a copy that agents have is a proof too.
    """
    if any(link.held for link in links):
        return True
    pairs = [(facts[a], facts[b]) for a, b in mesh.links if a in facts and b in facts]
    holders = {local.host: local for local, peer in pairs if _is_written(local, peer.name)}
    secrets = [(local, f"Secret {secret.name}") for local in holders.values() for secret in (local.clustermesh, local.kvstoremesh)]
    times = [parse_time(entry.time) for local, name in secrets for entry in local.writers.get(name, ())]
    known = [time for time in times if time is not None]
    if known and len(known) == len(times):
        return now - max(known) > CONNECTING_LIMIT
    return any(link.copied for link in links)


def _phase(
    links: Sequence[LinkState],
    facts: Mapping[str, ClusterFacts],
    failures: Mapping[str, ObserveFailure],
    findings: Iterable[Finding],
    *,
    configured: bool,
    worked: bool,
    written: bool,
    was: str,
    partly: bool,
) -> str:
    """Return the phase of the links. ``partly``: a limit leaves out members, so that a mesh without a ready link may be an old one."""
    ready, blocked = sum(link.ready for link in links), any(finding.blocks for finding in findings)
    all_ready = bool(links) and ready == len(links) and not failures
    table = (
        (all_ready and not blocked, "Connected"),
        # The links may be another binding's: the phase stays as it was. A run that wrote them was blocked for some members only.
        (all_ready, "Degraded" if written or was in ("Connected", "Degraded") else "Error"),
        (ready > 0, "Degraded"),
        (blocked, "Error"),
        (was in ("Connected", "Degraded") or worked or any(link.broke for link in links), "Degraded"),
        (any(failure.writing for failure in failures.values()), "Error"),
        (bool(failures) and not facts, "Error"),
        (bool(failures) or partly, "Degraded" if configured else "Error"),
        (configured, "Connecting"),
        (True, "Pending"),
    )
    return next(phase for holds, phase in table if holds)


def _cluster_row(host: str, facts: ClusterFacts | None, reader: ReaderFacts | None, links: Sequence[LinkState]) -> dict[str, Any]:
    """Return a row of meshStatus.

    ``connected``: every link from here is ready; ``readyNodes``: nodes whose agents report every peer as ready. ``askedNodes`` of them were
    asked; if these are fewer than there are, the agents that were not asked count in the proportion of those that were. Both are agents
    whose pods are ready: the others come first in a sample, and would make all look worse.
    """
    own = [link for link in links if link.cluster == host]
    row: dict[str, Any] = {
        "clusterName": host,
        "connected": bool(own) and all(link.ready for link in own),
        "readyNodes": _ready_nodes(reader),
        "askedNodes": reader.agents_asked if reader else 0,
        "totalNodes": reader.agents_total if reader else facts.agent.desired if facts and facts.agent else 0,
    }
    if facts is not None and facts.id is not None:
        row["clusterId"] = facts.id
    if facts is not None and facts.name:
        row["ciliumName"] = facts.name
    if reader is not None and reader.nodes_asked:
        row["probedFrom"] = list(reader.nodes_asked)
    return row


def _ready_nodes(reader: ReaderFacts | None) -> int:
    links = [link for link in reader.links if link.reader == "agent"] if reader else []
    pods = {link.pod for link in links}
    ready = len(pods - {link.pod for link in links if link_stage(link) is not LinkStage.READY})
    if reader is None or not reader.agents_ready:
        return ready
    return ready + reader.agents_unasked * min(ready, reader.agents_ready) // reader.agents_ready


def _conditions(
    phase: str,
    asked: int,
    not_asked: Sequence[str],
    links: Sequence[LinkState],
    failures: Mapping[str, ObserveFailure],
    findings: Iterable[Finding],
    stale: Mapping[str, datetime],
    cut: Sequence[NodePaths],
) -> list[dict[str, Any]]:
    """Return the conditions MeshConnected, Ready and Degraded.

    Reasons: MeshEstablished, Connected, AllLinksReady, NotYetConnected, LinksNotReady, ClustersUnreachable, WriteFailed,
    PrerequisiteNotMet, HeartbeatStale, PacketsLost.
    """
    blocking = list(dict.fromkeys(f"{f.code} {f.cluster}: {clause(f.summary)}" for f in findings if f.blocks))
    all_ready = all(link.ready for link in links) and not failures
    if phase == "Connected":
        established = f"Mesh established between {asked} clusters" if asked > 1 else "Every link of the cluster that was asked is ready"
        established += f"; not asked: {', '.join(not_asked[:_NAMED])}" if not_asked else ""
        rows = (("MeshConnected", True, "MeshEstablished"), ("Ready", True, "Connected"), ("Degraded", False, "AllLinksReady"))
        return [condition(kind, value, reason, established) for kind, value, reason in rows]
    if blocking and (phase == "Error" or all_ready):
        reason, message = "PrerequisiteNotMet", "; ".join(blocking)
    elif failures:
        reason = "WriteFailed" if any(f.writing for f in failures.values()) else "ClustersUnreachable"
        message = "; ".join(f"{f.host}: {f.clause}{_endpoint_of(f, links)}" for f in list(failures.values())[:_NAMED])
    elif phase == "Pending":
        reason, message = "NotYetConnected", "No link is configured yet"
    elif stale and all_ready:
        reason, message = "HeartbeatStale", _stale_message(stale)
    elif cut and all_ready:
        named = ", ".join(f"{one.cluster} -> {one.peer}" for one in cut[:_NAMED])
        more = f" and {len(cut) - _NAMED} more" if len(cut) > _NAMED else ""
        reason, message = "PacketsLost", f"Every link is ready, and no packet of a pod passes between the nodes: {named}{more}"
    else:
        reason, message = "LinksNotReady", _not_ready_message(links)
    degraded = phase == "Degraded"
    return [
        condition("MeshConnected", degraded and all_ready, reason, message),
        condition("Ready", False, reason, message),
        condition("Degraded", degraded, reason, message),
    ]


_NAMED: Final = 4


def _endpoint_of(failure: ObserveFailure, links: Sequence[LinkState]) -> str:
    """Return in brackets whether the mesh endpoint of a cluster that was not observed answers its peers; "" if no peer can say so."""
    to_it = [link for link in links if link.peer == failure.host and not failure.writing]
    proven = [link.cluster for link in to_it if link.ready and link.proof.verdict is ProofVerdict.PROVEN]
    if proven:
        return f" (its mesh endpoint is alive: {listed(proven, _NAMED)} read{'s' if len(proven) == 1 else ''} from it)"
    gone = [link.cluster for link in to_it if link.stage is LinkStage.DIALLING]
    known = [link for link in to_it if link.stage is not LinkStage.UNKNOWN]
    return f" (its mesh endpoint does not answer {listed(gone, _NAMED)} either)" if gone and len(gone) == len(known) else ""


def _stale(links: Sequence[LinkState], now: datetime) -> dict[str, datetime]:
    """Return peer -> its last heartbeat, for peers that no longer write one."""
    return {x.peer: last for x in links if (last := x.proof.heartbeat) is not None and is_stale(last, now)}


def _stale_message(stale: Mapping[str, datetime]) -> str:
    """Return the message about stale heartbeats, with times and not ages, since an age would be another message in each run."""
    named = ", ".join(f"{peer} ({timestamp(last)})" for peer, last in list(stale.items())[:_NAMED])
    more = f" and {len(stale) - _NAMED} more" if len(stale) > _NAMED else ""
    return (
        f"Every link is ready, but the last heartbeat is old: {named}{more}. The peer's clustermesh-apiserver writes one every 60 s: "
        "it is stuck, or the clocks differ"
    )


def _not_ready_message(links: Sequence[LinkState]) -> str:
    behind = [link for link in links if not link.ready]
    named = [f"{x.cluster} -> {x.peer} {x.stage.value}" + (f" ({x.error})" if x.error else "") for x in behind[:_NAMED]]
    more = f" and {len(behind) - _NAMED} more" if len(behind) > _NAMED else ""
    return f"{len(links) - len(behind)} of {len(links)} links ready; {'; '.join(named)}{more}"


def connected_clusters(status: Any) -> list[str]:
    """Return the names of the clusters of which every link is ready, as a binding's status says. It is not trusted.

    Links to a cluster that does not answer do not count: what it had can only move to clusters that lost their links to it.
    """
    links = rows_of(status, "links")
    names = [str(row["clusterName"]) for row in rows_of(status, "meshStatus") if row.get("clusterName")]
    answering = {row.get("cluster") for row in links if row.get("stage") != LinkStage.UNKNOWN.value}
    broken = {row.get("cluster") for row in links if row.get("ready") is not True and row.get("peer") in answering}
    return [name for name in names if name in answering and name not in broken]

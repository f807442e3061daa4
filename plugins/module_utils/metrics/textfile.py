# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Textfile of a run, for the textfile collector of node_exporter: made from ``mesh_result``, and read again by the next run. Pure.

The file is the memory of the states of members and links: whether one is down or was never joined cannot be known from one measurement.
Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from ..base.json_fields import items, mapping, parse_time
from ..findings.finding import Severity
from ..mesh.binding.fleet_kinds import FleetKind
from ..mesh.binding.item_kinds import ItemKind
from .catalogue import BY_NAME, RUN, metrics_of
from .member_state import Link, MemberState, departed_states, link_states_of, member_states_of

HEADER: Final = "# Written by edge_portal.cilium_mesh; see docs/metrics.md."
SIZE_LIMIT: Final = 16 * 1024 * 1024  # bytes; the links of 255 clusters in a full mesh take 10 MB
_VALUE: Final = r'"((?:[^"\\\n]|\\.)*)"'
_MEMBER: Final = re.compile(rf"^{RUN}member_state{{mesh={_VALUE},run={_VALUE},cluster={_VALUE},state={_VALUE}}} 1$", re.MULTILINE)
_LINK: Final = re.compile(rf"^{RUN}link_state{{mesh={_VALUE},run={_VALUE},cluster={_VALUE},peer={_VALUE},state={_VALUE}}} 1$", re.MULTILINE)
_STATES: Final = frozenset(state.value for state in MemberState)


@dataclass(frozen=True, kw_only=True)
class EarlierStates:
    """States of the members and links of one mesh, as an earlier file has them."""

    members: Mapping[str, MemberState] = field(default_factory=dict)
    links: Mapping[Link, MemberState] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """A run as its textfile describes it."""

    mesh: str  # "" of a run of fleets
    run: str
    now: datetime
    success: bool
    carried_out: bool  # not in check mode
    withdraws: bool = False  # the run withdraws the links of former members
    absent: bool = False  # nothing of the mesh was to stay


def is_own(text: str) -> bool:
    """Return whether a file was written by this collection, so that it may be replaced; an empty one may."""
    return not text.strip() or text.startswith(HEADER)


def earlier_states(text: str, mesh: str) -> EarlierStates:
    """Read the states of a mesh from a textfile. Lines of another form are ignored, as the file is not trusted."""
    members = {
        _plain(cluster): MemberState(state)
        for name, _run, cluster, state in _MEMBER.findall(text)
        if _plain(name) == mesh and state in _STATES
    }
    links = {
        (_plain(cluster), _plain(peer)): MemberState(state)
        for name, _run, cluster, peer, state in _LINK.findall(text)
        if _plain(name) == mesh and state in _STATES
    }
    return EarlierStates(members=members, links=links)


def textfile(result: Mapping[str, Any], outcome: RunOutcome, earlier: EarlierStates) -> str:
    """Return the content of the file for a ``mesh_result``. What the run did not measure is not in it; states stay."""
    found: dict[str, dict[tuple[str, ...], float]] = {metric.name: {} for metric in metrics_of(RUN)}
    first = (outcome.mesh, outcome.run)

    def put(name: str, value: float, *labels: str) -> None:
        found[RUN + name][*first, *labels] = value

    put("run_timestamp_seconds", int(outcome.now.timestamp()))
    put("run_success", int(outcome.success))
    put("run_requeue_seconds", float(result.get("requeueSeconds") or 0))
    counted = Counter((str(row.get("code")), str(row.get("severity"))) for row in items(result, "findings") if not row.get("accepted"))
    for labels, number in counted.items():
        put("findings", number, *labels)
    if not outcome.carried_out:
        put("pending_steps", len(items(result, "plan", "steps")))
    for (kind, phase), number in _phases(result).items():
        put("items", number, kind, phase)
    for row in items(result, "trust", "clusters"):
        ends = parse_time(str(row.get("expires") or ""))
        if ends is not None:
            put("certificate_expiry_timestamp_seconds", int(ends.timestamp()), str(row.get("cluster")))
    members, links = _states(result, outcome, earlier)
    for cluster, state in members.items():
        put("member_state", 1, cluster, state.value)
    for link, state in links.items():
        put("link_state", 1, *link, state.value)
    return "\n".join([HEADER, *_lines(found), ""])


def _states(
    result: Mapping[str, Any], outcome: RunOutcome, earlier: EarlierStates
) -> tuple[Mapping[str, MemberState], Mapping[Link, MemberState]]:
    status = mapping(result, "status", "binding")
    withdrawn = outcome.withdraws and outcome.carried_out
    unclean = {str(row.get("cluster")) for row in items(result, "findings") if row.get("severity") != Severity.ADVISORY.value}
    if items(status, "meshStatus"):
        links = link_states_of(status, earlier.links)
        members = member_states_of(status, links, earlier.members)
        gone = departed_states(earlier.members, members, withdrawn=withdrawn, unclean=unclean if not outcome.success else ())
        return {**members, **gone}, {**links, **_departed_links(earlier.links, links, gone)}
    if outcome.absent:
        done = outcome.carried_out and outcome.success
        gone = departed_states(earlier.members, (), withdrawn=done)
        return gone, _departed_links(earlier.links, (), gone)
    return earlier.members, earlier.links


def _departed_links(earlier: Mapping[Link, MemberState], kept: Iterable[Link], gone: Mapping[str, MemberState]) -> dict[Link, MemberState]:
    """Return the state of links that are no more: that of the end that leaves, or REMOVED if the topology has dropped them."""
    present = set(kept)
    return {
        link: MemberState.LEAVING if MemberState.LEAVING in (gone.get(link[0]), gone.get(link[1])) else MemberState.REMOVED
        for link in earlier
        if link not in present
    }


def _phases(result: Mapping[str, Any]) -> Counter[tuple[str, str]]:
    listed = [(kind.value, row.get("phase")) for kind in ItemKind for row in items(result, "status", kind.value)]
    workloads = FleetKind.WORKLOAD.reported
    listed += [(workloads, mapping(row, "status").get("phase")) for row in items(result, workloads)]
    return Counter((kind, str(phase)) for kind, phase in listed if phase)


def _lines(found: Mapping[str, Mapping[tuple[str, ...], float]]) -> Iterable[str]:
    for name, samples in found.items():
        metric = BY_NAME[name]
        if not samples:
            continue
        yield f"# HELP {name} {metric.meaning}"
        yield f"# TYPE {name} {metric.kind.value}"
        for labels, value in sorted(samples.items()):
            said = ",".join(f'{label}="{_escaped(text)}"' for label, text in zip(metric.labels, labels, strict=True))
            yield f"{name}{{{said}}} {value:.15g}"


_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
_PLAIN: Final = {escape: character for character, escape in _ESCAPES.items()}


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)


def _plain(text: str) -> str:
    return re.sub(r"\\.", lambda match: _PLAIN.get(match.group(), match.group()), text)

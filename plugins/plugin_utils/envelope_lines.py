# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The envelope of a mesh as lines for the terminal: of each limit the fullest clusters. Pure: data in, lines out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..module_utils.base.tables import cell, row, text, widths
from ..module_utils.envelope.envelope import NEWCOMER, Envelope, EnvelopeRow
from ..module_utils.envelope.limits import LIMITS
from ..module_utils.pipeline.shown import EnvelopeMeasured
from .fitted import Line
from .shown_lines import Formats

CLUSTERS_SHOWN: Final = 3  # of each limit, the fullest ones
LOADS_SHOWN: Final = 5
NEAR: Final = 80  # percent


def envelope_lines(name: str, envelope: Envelope) -> list[Line]:
    """Return a row per limit and cluster, the loads, what one more cluster does, and how many more fit."""
    shown = _shown(envelope.rows)
    lines = [Line(f"Envelope of {cell(name)}:")]
    cells = [("limit", "cluster", "used", "of", "%", "one more", "more clusters"), *(_cells(entry) for entry in shown)]
    found = widths(cells)
    lines.append(Line(f"  {row(cells[0], found)}".rstrip()))
    for entry, columns in zip(shown, cells[1:], strict=True):
        lines.append(Line(f"  {row(columns, found)}".rstrip(), _colour(entry)))
    hidden = len(envelope.rows) - len(shown)
    if hidden:
        lines.append(Line(f"  and {hidden} rows of clusters with less; all are in the result"))
    for entry in [entry for entry in shown if max(entry.now.percent or 0, entry.percent_after or 0) >= NEAR]:
        limit = LIMITS[entry.now.bound]
        lines.append(Line(f"  {cell(entry.now.cluster)}: {text(limit.title)}: beyond it {text(limit.consequence)}", "yellow"))
        lines.append(Line(f"    fix:    {text(limit.remedy)}"))
        lines.append(Line(f"    source: {text(limit.source)}"))
    lines += _load_lines(envelope)
    for host, reasons in envelope.unread.items():
        lines.append(Line(f"  {cell(host)}: numbers that could not be read: {text('; '.join(reasons))}", "yellow"))
    lines += [Line(f"Not known: {cell(host)}: {text(reason)}", "yellow") for host, reason in envelope.silent.items()]
    return [*lines, _verdict(name, envelope)]


def _shown(rows: Sequence[EnvelopeRow]) -> list[EnvelopeRow]:
    """Return the first rows of each limit; rows are sorted by use."""
    kept: list[EnvelopeRow] = []
    for entry in rows:
        if sum(other.now.bound is entry.now.bound for other in kept) < CLUSTERS_SHOWN:
            kept.append(entry)
    return kept


def _cells(entry: EnvelopeRow) -> tuple[str, ...]:
    now = entry.now
    mark = "at least " if LIMITS[now.bound].estimate and now.used is not None else ""
    return (
        f"{now.bound.value}{f' {now.detail}' if now.detail else ''}",
        now.cluster,
        "not known" if now.used is None else f"{mark}{now.used}",
        str(now.most),
        "-" if now.percent is None else str(now.percent),
        "-" if entry.after is None else f"{entry.after} ({entry.percent_after} %)",
        "-" if entry.fits is None else str(entry.fits),
    )


def _load_lines(envelope: Envelope) -> list[Line]:
    ranked = sorted(envelope.loads, key=lambda pair: -(pair[0].watches_of_peers + pair[0].watches_of_agents))
    lines = [Line("  Load of the mesh etcd, for which no limit is documented:")] if ranked else []
    for now, after in ranked[:LOADS_SHOWN]:
        keys = "not known" if now.keys is None or now.cached is None else f"{now.keys} own, {now.cached} of peers"
        watches = now.watches_of_peers + now.watches_of_agents
        later = f"; with one more cluster {after.watches_of_peers + after.watches_of_agents} watches" if after else ""
        lines.append(Line(f"    {cell(now.cluster)}: keys {keys}; {watches} watches over {now.connections} connections{later}"))
    if len(ranked) > LOADS_SHOWN:
        lines.append(Line(f"    and {len(ranked) - LOADS_SHOWN} clusters with less"))
    return lines


def _colour(entry: EnvelopeRow) -> str:
    if max(entry.now.used or 0, entry.after or 0) > entry.now.most:
        return "red"
    return "yellow" if entry.now.used is None or max(entry.now.percent or 0, entry.percent_after or 0) >= NEAR else ""


def _verdict(name: str, envelope: Envelope) -> Line:
    fullest = next((entry for entry in envelope.rows if entry.now.percent is not None), None)
    if fullest is None:  # every member that answered has limits whose use is known, such as that of clusters
        return Line(f"{cell(name)}: nothing is known, since no member answered", "yellow")
    first = f"fullest limit {fullest.now.bound.value} of {cell(fullest.now.cluster)}, {fullest.now.percent} %"
    first += ", as far as is known" if envelope.silent else ""
    size = envelope.newcomer
    if size is None:
        return Line(f"{cell(name)}: {first}; what {NEWCOMER} takes is not known")
    what = f"{size.nodes} nodes, {size.endpoints} endpoints, {size.identities} identities, {size.services} global services"
    more = envelope.more
    fit = "no limit keeps more such clusters out" if more is None else f"{more} more of this size fit"
    return Line(f"{cell(name)}: {first}; {NEWCOMER} of {what}: {fit}", "red" if more == 0 else "yellow" if envelope.silent else "green")


FORMATS: Final[Formats] = {EnvelopeMeasured: lambda shown, _whole: envelope_lines(shown.name, shown.envelope)}

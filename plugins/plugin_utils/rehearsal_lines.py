# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rehearsals of losses as lines for the terminal, at most some hundred of them. Pure: data in, lines out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..module_utils.base.tables import cell, count, row, text, widths
from ..module_utils.mesh.versions.lost_peer import Seconds
from ..module_utils.pipeline.shown import LossesRehearsed
from ..module_utils.rehearse.exposure_losses import ExposureLoss, Fate
from ..module_utils.rehearse.harm import Verdict
from ..module_utils.rehearse.rehearsal import Rehearsal, Rehearsals
from ..module_utils.rehearse.service_losses import Clients, ServiceLoss, Use
from .fitted import Line
from .shown_lines import Formats

LOSSES_SHOWN: Final = 40
DETAILED: Final = 5  # losses, the gravest ones, with their services
SERVICES_SHOWN: Final = 4  # of one loss
_COLOURS: Final = dict.fromkeys(Verdict, "yellow") | {Verdict.OUTAGE: "red", Verdict.NONE: "green"}


def rehearsal_lines(name: str, rehearsals: Rehearsals) -> list[Line]:
    """Return a row per loss, the gravest first, details of the gravest ones, and the verdict."""
    ranked = rehearsals.ranked
    shown = ranked[:LOSSES_SHOWN]
    cells = [(entry.loss.name, entry.verdict.value) for entry in shown]
    found = widths(cells) if cells else []
    known = ", as far as is known" if rehearsals.unknown else ""
    lines = [Line(f"If something is lost in {cell(name)} ({count(rehearsals.services, 'global service')} with ready backends{known}):")]
    lines += [
        Line(f"  {row(columns, found)}  {text(entry.summary)}", _COLOURS[entry.verdict])
        for entry, columns in zip(shown, cells, strict=True)
    ]
    if len(ranked) > len(shown):
        lines.append(Line(f"  and {len(ranked) - len(shown)} losses that do less harm; all are in the result"))
    for entry in [entry for entry in ranked if entry.numbers][:DETAILED]:
        lines += _details(entry)
    lines += [Line(f"Not known: {cell(host)}: {text(reason)}", "yellow") for host, reason in rehearsals.unknown.items()]
    return [*lines, _verdict(name, rehearsals)]


def _details(entry: Rehearsal) -> list[Line]:
    lines = [Line(f"{cell(entry.loss.name)}: {entry.verdict.value}", _COLOURS[entry.verdict])]
    for service in entry.services[:SERVICES_SHOWN]:
        lines += _service_lines(service)
    rest = len(entry.services) + entry.omitted - SERVICES_SHOWN
    if rest > 0:
        lines.append(Line(f"    and {rest} more services"))
    lines += [Line(f"  {cell(exposure.item.name)}: {_fate(exposure)}") for exposure in entry.exposures[:SERVICES_SHOWN]]
    for notice in entry.noticed:
        where = f" of {_named(notice.clusters)}" if notice.clusters else ""
        when = f"after {notice.after}" if notice.after and notice.after.most else "at once" if notice.after else "when it is run"
        lines.append(Line(f"  noticed by {notice.who}{where}: {when} ({text(notice.how)})"))
    if entry.returns_until:
        lines.append(Line(f"  comes back by itself until {cell(entry.returns_until)}, when the first certificate of its links ends"))
    return lines


def _service_lines(service: ServiceLoss) -> list[Line]:
    left = ", ".join(f"{number} in {cell(host)}" for host, number in list(service.remaining.items())[:SERVICES_SHOWN])
    more = f" and {len(service.remaining) - SERVICES_SHOWN} more clusters" if len(service.remaining) > SERVICES_SHOWN else ""
    head = f"{sum(service.remaining.values())} of {sum(service.row.ready.values())} ready"
    lines = [Line(f"  {cell(service.row.shown)}: {head}{f': {left}{more}' if left else ''}")]
    return lines + [Line(f"    clients in {_named(entry.clusters)}: {_clients(entry)}") for entry in service.clients[:SERVICES_SHOWN]]


def _clients(entry: Clients) -> str:
    effect = entry.effect
    words = [f"{_use(effect.before)} before, then {_use(effect.at_once)}"]
    if effect.contracted is not None and effect.contracted != effect.at_once:
        words.append(f"{_use(effect.contracted)} after the next run for the failover contract, within {entry.contracted_within} s")
    if effect.at_once.dead or effect.frozen:
        words.append(f"Cilium drops them {_after(entry.dropped_after)}" + (f", then {_use(effect.dropped)}" if effect.dropped else ""))
    return "; ".join(words)


def _after(kept: Seconds | None) -> str:
    return f"after {kept}" if kept else "never"


def _use(use: Use) -> str:
    parts = [f"{use.live} live"] if use.live or not (use.frozen or use.dead) else []
    parts += [f"{use.frozen} frozen"] if use.frozen else []
    parts += [f"{use.dead} dead"] if use.dead else []
    return " + ".join(parts)


def _fate(exposure: ExposureLoss) -> str:
    before = _named(exposure.before)
    if exposure.fate is Fate.WITHOUT:
        return f"served by {before}, then by no cluster"
    wait = ", once it has an address" if exposure.waits else ""
    return f"served by {before}, after the next run by {_named(exposure.after)}{wait}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - SERVICES_SHOWN} more" if len(names) > SERVICES_SHOWN else ""
    return ", ".join(cell(name) for name in names[:SERVICES_SHOWN]) + more


def _verdict(name: str, rehearsals: Rehearsals) -> Line:
    verdicts = [entry.verdict for entry in rehearsals.ranked]
    parts = ", ".join(f"{verdicts.count(verdict)} {verdict.value}" for verdict in Verdict if verdict in verdicts) or "none"
    worst = next((verdict for verdict in Verdict if verdict in verdicts), Verdict.NONE)
    losses = "1 loss" if len(verdicts) == 1 else f"{len(verdicts)} losses"
    return Line(f"{cell(name)}: {losses} rehearsed: {parts}", _COLOURS[worst])


FORMATS: Final[Formats] = {LossesRehearsed: lambda shown, _whole: rehearsal_lines(shown.name, shown.rehearsals)}

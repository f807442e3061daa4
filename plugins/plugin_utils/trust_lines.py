# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Trust of a mesh, and the stages of a CA roll, as lines for the terminal. Pure: data in, lines out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..module_utils.base.tables import table
from ..module_utils.ca.roll import RollPlan
from ..module_utils.pipeline.ca_roll import stage_rows
from ..module_utils.pipeline.shown import StageReached, TrustMeasured
from .fitted import Line
from .shown_lines import Formats


def trust_lines(name: str, report: Mapping[str, Any]) -> list[Line]:
    """Return a table with a row per cluster, and one with a row per ordered pair.

    :param report: as ``ca.report.trust_report`` returns it.
    """
    head = ("cluster", "CA", "CA until", "certificates by", "until", "next renewal", "roll")
    rows = [head, *(_cluster_row(row) for row in report["clusters"])]
    lines = [Line(f"Trust of {name}"), *(Line(f"  {text}") for text in table(rows))]
    pairs: Sequence[Mapping[str, Any]] = report["pairs"]
    if pairs:
        head = ("link", "trust", "shows", "peer's CA", "ends first", "until", "renewed from")
        texts = table([head, *(_pair_row(pair) for pair in pairs)])
        lines.append(Line(f"  {texts[0]}"))
        lines += [
            Line(f"  {text}", "yellow" if pair["due"] or not pair["mode"] else "") for pair, text in zip(pairs, texts[1:], strict=True)
        ]
    return lines


def _cluster_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    ca = row["ca"] or {}
    return (
        row["cluster"],
        ca.get("fingerprint", "")[:12] or "-",
        _day(ca.get("expires", "")),
        row["method"] or "-",
        _day(row["expires"]),
        _day(row["nextRenewal"]) if row["nextRenewal"] else "by hand" if row["method"] in ("helm", "provided") else "-",
        row["roll"] or "-",
    )


def _pair_row(pair: Mapping[str, Any]) -> tuple[str, ...]:
    server_ca = pair["certificates"]["serverCa"] or {}
    return (
        f"{pair['cluster']} -> {pair['peer']}",
        pair["mode"] or "none",
        pair["user"] or "-",
        server_ca.get("fingerprint", "")[:12] or "-",
        pair["expiresFirst"] or "-",
        _day(pair["expires"]),
        _day(pair["renewFrom"]),
    )


def _day(time: str) -> str:
    return time[:10] or "-"


def stage_lines(name: str, plan: RollPlan) -> list[Line]:
    """Return a table of the stages of a roll: done, now or later."""
    if plan.stage is None:
        return [Line(f"CA roll of {name}: nothing to roll", "green")]
    colours = {"done": "green", "now": "yellow", "later": ""}
    rows = stage_rows(plan)
    texts = table([(row["stage"], row["state"], row["what"]) for row in rows])
    lines = [Line(f"CA roll of {name}: {', '.join(plan.clusters)}")]
    return lines + [Line(f"  {text}", colours[row["state"]]) for row, text in zip(rows, texts, strict=True)]


FORMATS: Final[Formats] = {
    StageReached: lambda shown, _whole: stage_lines(shown.name, shown.plan),
    TrustMeasured: lambda shown, _whole: trust_lines(shown.name, shown.report),
}

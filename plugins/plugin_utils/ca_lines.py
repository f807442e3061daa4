# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The trust of a mesh and the stages of a CA roll, as tables for a person's terminal. Pure: data in, lines out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..module_utils.ca.roll import RollPlan
from ..module_utils.ca.state import Stage
from ..module_utils.columns import table
from .report import Line

WHAT: Final = {
    Stage.PREPARE: "the next CA is stored beside the present one",
    Stage.TRUST: "every reader and every mesh etcd trusts both",
    Stage.CLIENTS: "peers show certificates of the next CA",
    Stage.LEAVES: "the clusters' own certificates are the next CA's",
    Stage.DROP: "nobody trusts the old CA any more",
}
_SHOWN: Final = 6


def trust_lines(name: str, report: Mapping[str, Any]) -> list[Line]:
    """A row per cluster and a row per ordered pair."""
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


def stage_rows(plan: RollPlan) -> list[dict[str, str]]:
    """``{stage, what, state}`` for every stage; state is done, now or later."""
    place = plan.stage.place if plan.stage else len(Stage)
    ended = place + (1 if plan.ends else 0)
    return [
        {"stage": stage.value, "what": WHAT[stage], "state": "done" if stage.place < ended else "now" if stage.place == place else "later"}
        for stage in Stage
    ]


def stage_lines(name: str, plan: RollPlan) -> list[Line]:
    """Where the roll is, and what it waits for."""
    if plan.stage is None:
        return [Line(f"CA roll of {name}: nothing to roll", "green")]
    colours = {"done": "green", "now": "yellow", "later": ""}
    rows = stage_rows(plan)
    texts = table([(row["stage"], row["state"], row["what"]) for row in rows])
    lines = [Line(f"CA roll of {name}: {', '.join(plan.clusters)}")]
    return lines + [Line(f"  {text}", colours[row["state"]]) for row, text in zip(rows, texts, strict=True)]


def wait_lines(plan: RollPlan) -> list[Line]:
    more = len(plan.waits) - _SHOWN
    lines = [Line(f"  waits: {wait.text}") for wait in plan.waits[:_SHOWN]]
    return lines + ([Line(f"  waits: and {more} more")] if more > 0 else [])

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Forms of a plan: text for a terminal, JSON for the next run, Markdown for a pull request. Pure.

All three are made from the plan as data, the shape of ``Plan.to_dict``, so that they can be made from a stored plan too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..base.redact import one_line
from ..base.tables import cell, count, row, table, text, widths
from ..mesh.binding.item_kinds import ItemKind

LINKS_SHOWN: Final = 20  # of a full mesh of 50 clusters there are 2,450
SHORT_HASH: Final = 12  # digits of the hash that stand for it
CLUSTERS_NAMED: Final = 10
UNDO_SHOWN: Final = 20
MARKDOWN_LIMIT: Final = 2000


_VERBS: Final[Mapping[str, str]] = {"patch": "change", "apply": "change"}


class PlanLine(NamedTuple):
    """One line of the text; ``step``: it is about a write; ``undo``: how one is undone."""

    text: str
    step: bool = False
    undo: bool = False


def plan_rows(plan: Mapping[str, Any]) -> list[PlanLine]:
    """Return the links that were decided, the steps in order, their disruptions and how each is undone."""
    steps = plan["steps"]
    short = plan["hash"][:SHORT_HASH]
    left_out = _left_out(plan)
    approved_by = f", hash {short}" if short and not _names_are_needed(plan) else ""
    more = [PlanLine(f"  {line}") for line in left_out]
    if not steps:
        return [PlanLine(f"Plan: nothing to do{approved_by}"), *more]
    lines = [PlanLine(f"Plan: {count(len(steps), 'step')}{approved_by}"), *more]
    if not all(step.get("item") for step in steps):  # the links are as they were, and a plan of items is not about them
        lines += [PlanLine(f"  {line}") for line in _links(plan.get("links", ()))]
    items = any(step.get("item") for step in steps)
    columns = [
        (f"wave {step['wave']}", step["cluster"], step["verb"], step["object"], *((step.get("item", ""),) if items else ()))
        for step in steps
    ]
    found = widths(columns)
    lines += [PlanLine(f"  {row(cells, found)}  {text(step['why'])}".rstrip(), True) for step, cells in zip(steps, columns, strict=True)]
    lines.append(PlanLine(f"  sum: {_sum(steps)}"))
    disruptions = [f"disruption: {what} ({where})" for what, where in _hosts_by_text(steps, "disruption")]
    # What items do to traffic is said by findings, with the sources that lose access (CM-INT-31).
    lines += [PlanLine(f"  {line}") for line in disruptions or ([] if items else ["disruption: none"])]
    undos = _first_undos([f"undo: {what} ({where})" for what, where in _hosts_by_text(steps, "undo")])
    return lines + [PlanLine(f"  {line}", undo=True) for line in undos]


def _sum(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return ``3 create, 9 change; in c1 4, c2 4, c3 4``."""
    verbs = Counter(_VERBS.get(step["verb"], step["verb"]) for step in steps)
    hosts = Counter(cell(step["cluster"]) for step in steps)
    where = [f"{host} {number}" for host, number in list(hosts.items())[:CLUSTERS_NAMED]]
    rest = f" and {len(hosts) - CLUSTERS_NAMED} more" if len(hosts) > CLUSTERS_NAMED else ""
    return f"{', '.join(f'{number} {verb}' for verb, number in verbs.items())}; in {', '.join(where)}{rest}"


def plan_text(plan: Mapping[str, Any]) -> str:
    """Return the text that a terminal shows, as the content of a file."""
    return "".join(f"{line.text}\n" for line in plan_rows(plan))


def plan_json(plan: Mapping[str, Any]) -> str:
    """Return the whole plan, as ``mesh_apply`` takes it. Equal plans are equal texts."""
    return json.dumps(plan, indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def plan_markdown(plan: Mapping[str, Any], *, title: str = "Cluster mesh plan") -> str:
    """Return a table of steps with their disruptions, for a pull request. No text of a cluster can become markup."""
    steps = plan["steps"]
    head = [f"## {_escaped(title)}", ""]
    left_out = _left_out(plan, whole=True)
    if left_out:
        head += [*(f"{_escaped(line)}  " for line in left_out), ""]
    approved_by = f" Hash `{_code(plan['hash'])}`" if plan["hash"] and not _names_are_needed(plan) else ""
    if not steps:
        return "\n".join([*head, f"Nothing to do.{approved_by}", ""])
    disrupted = _hosts_by_text(steps, "disruption")
    parts = [
        *head,
        f"{count(len(steps), 'step')} in {count(len({step['wave'] for step in steps}), 'wave')}, "
        f"{count(len({step['cluster'] for step in steps}), 'cluster')}.{approved_by}",
        "",
        *_markdown_steps(steps),
        "",
        "**Disruption**",
        "",
        *([f"- {_escaped(what)} ({_escaped(where)})" for what, where in disrupted] or ["- none"]),
        "",
        "**Undo**",
        "",
        *([f"- {_escaped(what)} ({_escaped(where)})" for what, where in _hosts_by_text(steps, "undo")] or ["- none"]),
        "",
        *_markdown_links(plan.get("links", ())),
    ]
    return "\n".join(parts)


def _markdown_steps(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    items = any(step.get("item") for step in steps)
    keys = ("wave", "cluster", "verb", "object", *(("item",) if items else ()), "why")
    heads = ["does" if key == "verb" else key for key in keys]
    head = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _key in keys)} |"]
    return [*head, *(_table_row(*(step.get(key, "") for key in keys)) for step in steps)]


def _left_out(plan: Mapping[str, Any], *, whole: bool = False) -> list[str]:
    """Return what a plan leaves out because it is refused or waits, and how the rest can be approved; [] if it leaves out nothing.

    :param whole: the hash is not shortened.
    """
    items = plan.get("notCarriedOut") or ()
    if not items:
        return []
    named = ", ".join(cell(item) for item in items)
    lines = [f"not carried out, because refused or waiting: {named}"]
    if plan["hash"] and _names_are_needed(plan):  # half of a plan has none: it cannot be approved
        digits = plan["hash"] if whole else plan["hash"][:SHORT_HASH]
        lines.append(f"to approve the rest, name {'it' if len(items) == 1 else 'them'}: hash {digits} with approve_refused: [{named}]")
    return lines


def _names_are_needed(plan: Mapping[str, Any]) -> bool:
    """Return whether the hash alone approves nothing: items of a mesh that are left out have to be named.

    Clusters and workloads of a fleet have no option for that.
    """
    return any(str(item).partition("/")[0] in tuple(ItemKind) for item in plan.get("notCarriedOut") or ())


def _links(links: Sequence[Mapping[str, Any]]) -> list[str]:
    shown = [(f"link {link['cluster']} -> {link['peer']}", link["endpoint"], f"trust {link['trust']}") for link in links[:LINKS_SHOWN]]
    more = len(links) - len(shown)
    return [*table(shown), *([f"and {count(more, 'more link')}"] if more else [])] if shown else []


def _hosts_by_text(steps: Iterable[Mapping[str, Any]], key: str) -> list[tuple[str, str]]:
    """Return each text once, with its clusters."""
    clusters: dict[str, dict[str, None]] = {}
    for step in steps:
        if step[key]:
            clusters.setdefault(step[key], {})[step["cluster"]] = None
    return [(text(what), _hosts_text(list(hosts))) for what, hosts in clusters.items()]


def _first_undos(lines: list[str]) -> list[str]:
    """Return the first lines and the number of the others. Items are undone one by one, and there may be hundreds."""
    more = len(lines) - UNDO_SHOWN
    return lines[:UNDO_SHOWN] + ([f"and {count(more, 'more undo')}, one for each item"] if more > 0 else [])


def _hosts_text(hosts: Sequence[str]) -> str:
    more = len(hosts) - CLUSTERS_NAMED
    return ", ".join(cell(host) for host in hosts[:CLUSTERS_NAMED]) + (f" and {more} more" if more > 0 else "")


def _markdown_links(links: Sequence[Mapping[str, Any]]) -> list[str]:
    if not links:
        return []
    more = len(links) - LINKS_SHOWN
    return [
        "<details>",
        f"<summary>{count(len(links), 'link')}</summary>",
        "",
        "| cluster | peer | endpoint | trust |",
        "| --- | --- | --- | --- |",
        *(_table_row(link["cluster"], link["peer"], link["endpoint"], link["trust"]) for link in links[:LINKS_SHOWN]),
        "",
        *([f"and {count(more, 'more link')}", ""] if more > 0 else []),
        "</details>",
        "",
    ]


def _table_row(*cells: object) -> str:
    return "| " + " | ".join(_escaped(str(value)) for value in cells) + " |"


_MARKUP: Final = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]()#+!|~@"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def _escaped(value: str) -> str:
    """Return one line in which nothing is markup, a mention or a link.

    GitHub turns a bare ``https://`` or ``www.`` into a link.
    """
    return one_line(value, MARKDOWN_LIMIT).translate(_MARKUP).replace("://", ":&#47;&#47;").replace("www.", "www&#46;")


def _code(value: str) -> str:
    return "".join(c for c in str(value) if c.isalnum() or c == ".")  # the hash of links and items has a dot

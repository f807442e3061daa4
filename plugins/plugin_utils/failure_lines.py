# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Last lines of a run that failed: what failed, on which object, what was read, the fix, what follows, its page, and how to see more.

Pure: data in, lines out. Ansible prints a text before them and a line behind them.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..module_utils.base.redact import one_line
from ..module_utils.base.tables import count
from ..module_utils.report.failure import failure_of, lead_of
from .fitted import WORDS, to_copy

BEFORE: Final = "[ERROR]: Task failed: "
"""What ansible-core 2.19 and later print before the message of a task that failed."""
LINES: Final = 10  # ansible-core prints an empty line and that of the host behind them: twelve
LEAST_WIDTH: Final = 40
TEXT_LIMIT: Final = 2000
MORE: Final = "-v shows everything, cilium_mesh_result_file keeps it"
_CUT: Final = " ..."
_COPIED: Final = "fix, to copy"  # of a part behind the sentences of the fix, without a label of its own


class _Part(NamedTuple):
    """One labelled part of the text.

    ``rank``, ``last``: where room is short, the part with the highest number loses a line, by ``last`` where it has one left; ``least`` are
    kept.
    """

    label: str
    text: str
    rank: int
    last: int
    least: int


def failure_text(results: Sequence[Mapping[str, Any]], *, judged: str = "", width: int | None, whole: bool = False) -> str:
    """Return the message with which a playbook or a role ends in failure; "" if none of its actions failed.

    :param results: of its actions, as registered.
    :param judged: why the playbook itself fails though no action did.
    :param width: columns of the terminal; None: lines have any length. Commands are not broken, so that they can be copied.
    :param whole: nothing is left out, however many lines that takes (``-v``).
    """
    failed = _distinct([result for result in results if failure_of(result)])
    if not failed:
        return one_line(judged, TEXT_LIMIT)
    width = max(width, LEAST_WIDTH) if width is not None else sys.maxsize
    lines = _lines_of(failed, width, sys.maxsize if whole else LINES)
    if whole or not (any(map(_has_more, failed)) or any(line.endswith(_CUT) for line in lines)):
        return "\n".join(lines)
    others = sum(_others(result) for result in failed)
    beside = f"{count(others, 'more finding')}; " if others else ""
    return "\n".join([*_lines_of(failed, width, LINES - 1), *_wrapped(_Part("more", beside + MORE, 0, 0, 1), width)[:1]])


def _lines_of(failed: Sequence[Mapping[str, Any]], width: int, room: int) -> list[str]:
    """Return at most ``room`` lines about all failures."""
    each = room // len(failed)
    alone = len(failed) == 1
    return [line for place, result in enumerate(failed) for line in _failure_lines(result, width, each, 0 if place else len(BEFORE), alone)]


def _distinct(failed: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the failures that differ in more than their words: links and items of one mesh often fail for the same reason."""
    found: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for result in failed:
        lead = lead_of(result)
        found.setdefault((lead["code"], lead["cluster"], lead.get("item", "")) if lead else (failure_of(result),), result)
    return list(found.values())


def failure_name(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the code of the first failure and what it is about, for a line where the whole text would be a repetition; "" without one."""
    result = next((result for result in results if failure_of(result)), None)
    lead = lead_of(result) if result is not None else None
    return _head(lead) if lead is not None else ""


def _has_more(result: Mapping[str, Any]) -> bool:
    """Return whether the result has more than the lead: a run that refused its input has not."""
    return _others(result) > 0 or lead_of(result) is None or bool(result.get("status") or result.get("plan", {}).get("steps"))


def _others(result: Mapping[str, Any]) -> int:
    """Return the number of findings beside the lead."""
    return max(0, len(result.get("findings") or ()) - (lead_of(result) is not None))


def _head(finding: Mapping[str, Any]) -> str:
    where = f"{finding['cluster']} -> {finding['peer']}" if finding["peer"] else finding["cluster"]
    return one_line(", ".join(filter(None, (finding["code"], finding.get("item", ""), where))), TEXT_LIMIT)


def _failure_lines(result: Mapping[str, Any], width: int, room: int, offset: int, alone: bool) -> list[str]:
    """Return at most ``room`` lines about one failure, ``alone`` if there is no other. The first one stands behind ``offset`` columns.

    Of one failure, lines to copy are never cut, whatever the room.
    """
    lead, message = lead_of(result), failure_of(result)
    if lead is None:
        first, *rest = message.splitlines()
        lines = textwrap.wrap(one_line(first, TEXT_LIMIT), width, initial_indent=" " * offset, subsequent_indent="  ", **WORDS)
        lines = [lines[0].lstrip(), *lines[1:], *_wrapped(_Part("", "\n".join(rest), 0, 0, 0), width)]
        return lines if len(lines) <= room else [*lines[: room - 1], _cut_short(lines[room - 1], width)]
    said, copied = ([line for line in lead["fix"].splitlines() if to_copy(line) is copy] for copy in (False, True))
    parts = [
        _Part("", lead["summary"], 4, 4, 2 if alone else 1),
        _Part("read", lead["evidence"], 5, 2, 0),
        _Part("fix", "\n".join(said), 1, 1, 1),
        _Part(_COPIED if said else "fix", "\n".join(copied), 1, 1, len(copied) if alone else 1 - bool(said)),
        _Part("so", _rest_of(message, lead), 5, 3, 0),
        _Part("page", lead["anchor"], 0, 0, 1),
    ]
    wrapped = {part: _wrapped(part, width) for part in parts}
    while _rows(wrapped.values(), width) > room - 1 and (spare := [part for part in parts if len(wrapped[part]) > part.least]):
        cut = wrapped[max(spare, key=lambda part: (part.rank if len(wrapped[part]) > 1 else part.last, len(wrapped[part])))]
        cut.pop()
        cut[-1:] = [_cut_short(line, width) for line in cut[-1:]]
    return [_head(lead), *(line for lines in wrapped.values() for line in lines)]


def _cut_short(line: str, width: int) -> str:
    """Return the line with the mark that more of its text was left out, without the words that would stand where the mark is."""
    kept = line.removesuffix(_CUT)
    while len(kept) + len(_CUT) > width and " " in kept.strip():
        kept = kept.rpartition(" ")[0]
    return f"{kept}{_CUT}"


def _rows(parts: Iterable[Sequence[str]], width: int) -> int:
    """Return how many lines of the terminal the parts take: one to copy may be longer than its width."""
    return sum(-(-len(line) // width) for lines in parts for line in lines)


def _rest_of(message: str, lead: Mapping[str, Any]) -> str:
    """Return what the message says beside its finding."""
    rest = message.replace("; see the findings.", ".").removeprefix(f"1 blocking finding ({lead['code']})")
    if message.startswith(f"{lead['code']}:"):
        rest = rest.removeprefix(f"{lead['code']}:").strip().removeprefix(f"{lead['cluster']}:")
        for text in (lead["summary"], lead["fix"], lead["evidence"], lead["evidence"].replace("\n", "; ")):
            rest = rest.replace(text, "") if text else rest
    said = rest.strip(" .:;\n")
    return f"{said}." if said else ""


def _wrapped(part: _Part, width: int) -> list[str]:
    """Return the lines of a part, its label before the first one. Lines to copy stay whole."""
    label = " " * 6 if part.label == _COPIED else f"{part.label}:".ljust(6) if part.label else ""
    lines = []
    for text in part.text.splitlines():
        whole = one_line(text, TEXT_LIMIT)
        if part.label in ("fix", _COPIED) and to_copy(text):
            lines.append(" " * (len(text) - len(text.lstrip())) + whole)
        else:
            lines += textwrap.wrap(whole, width - 2 - len(label), **WORDS)
    return [f"  {label if place == 0 else ' ' * len(label)}{line}" for place, line in enumerate(lines)]

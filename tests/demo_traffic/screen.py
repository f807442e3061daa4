# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the demo of traffic prints, in lines of at most 80 columns. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from tests.demo_traffic.verdict import NO_ANSWER, Count, Failover, Paths

COLUMNS: Final = 80
INDENT: Final = " " * 6
_BLOCK: Final = "█"
_NAMES: Final = {NO_ANSWER: "no answer"}


def bars(count: Count, order: Sequence[str]) -> str:
    """Return who answered how many requests, a block for each of them; who answered none is left out."""
    shown = [f"{_NAMES.get(who, who)} {_BLOCK * count[who]} {count[who]}" for who in (*order, NO_ANSWER) if count.get(who)]
    return f"{INDENT}  {'  '.join(shown) or 'no request'}"


def counted(cluster: str, count: Count, order: Sequence[str]) -> Iterator[str]:
    """Yield the lines of one count."""
    yield f"{INDENT}{sum(count.values())} requests of the client in {cluster}, by who answered:"
    yield bars(count, order)


def failed_over(failover: Failover) -> Iterator[str]:
    """Yield what a failover cost."""
    asked = sum(reply.at > failover.gone for reply in failover.replies)
    if failover.seconds is not None:
        yield f"{INDENT}the first answer of the other cluster came after {failover.seconds:.1f} s;"
    yield f"{INDENT}of {asked} requests in a row, there and back, {failover.failed} had no answer"


def outcome(output: str, binding: str) -> Iterator[str]:
    """Yield the last line about the binding of what a playbook printed."""
    said = [line for line in output.splitlines() if line.startswith(f"{binding}: ")]
    yield from wrapped(said[-1]) if said else ()


def condition(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield a condition of a status."""
    yield from wrapped(f"{row['type']} is {row['status']}, {row['reason']}: {row['message']}")


def path(cluster: str, peer: str, paths: Paths) -> str:
    """Return what an agent says of the node of a peer."""
    node, pods = ({True: "OK", False: "NO ANSWER", None: "not probed"}[passes] for passes in paths)
    return f"{INDENT}  {cluster} -> {peer}: node {node}, pods {pods}"


def file(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines of mesh.yml."""
    yield f"{INDENT}mesh.yml:"
    text = yaml.safe_dump(dict(part), sort_keys=False, default_flow_style=None, width=COLUMNS - len(INDENT) - 2)
    yield from textwrap.indent(text, f"{INDENT}  ").splitlines()


def wrapped(text: str) -> Iterator[str]:
    """Yield a sentence in lines below a command."""
    yield from textwrap.wrap(text, COLUMNS, initial_indent=f"{INDENT}  ", subsequent_indent=f"{INDENT}    ", break_on_hyphens=False)

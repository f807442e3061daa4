# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench``: what planning costs, what connect costs for 2 to 50 clusters, what items cost beside the bare requests,
and what connect costs next to an empty play."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.bench import clusters, items, planning, playbooks
from tests.bench.table import Target, targets_text
from tests.lab.tools import ToolUnavailable, ensure

PARTS = ("planning", "clusters", "items", "playbooks")


def say(line: str) -> None:
    """Progress goes to standard error, figures to standard output."""
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part, or these when given several times (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="counted runs of each kind of the part playbooks (default 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    options = parser.parse_args()
    parts = options.only or PARTS
    figures: dict[str, Any] = {}
    promised: list[Target] = []
    if "planning" in parts:
        figures["planning"] = planning.measure(say)
        promised += planning.targets(figures["planning"])
        print(planning.as_text(figures["planning"]), "", sep="\n")
    if set(parts) != {"planning"}:
        _servers()
    if "clusters" in parts:
        figures["clusters"] = clusters.measure(say)
        promised += clusters.targets(figures["clusters"])
        print(clusters.as_text(figures["clusters"]), "", sep="\n")
    if "items" in parts:
        figures["items"] = items.measure(say)
        promised += items.targets(figures["items"])
        print(items.as_text(figures["items"]), "", sep="\n")
    if "playbooks" in parts:
        text, figures["playbooks"] = playbooks.measure(options.rounds, say)
        print(text, "", sep="\n")
    if promised:
        print(targets_text(promised))
    if options.json:
        figures["targets"] = [{**vars(target), "met": target.met} for target in promised]
        options.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


def _servers() -> None:
    try:
        ensure(progress=say)
    except ToolUnavailable as error:
        raise SystemExit(f"The lab's servers cannot be had: {error}") from None


if __name__ == "__main__":
    main()

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench``: what planning, reach and rehearsals cost, what hundreds of peers cost those who read them, what connect costs
for 2 to 50 clusters, what the status of a hub with 200 peers costs, what items cost beside the bare requests, what connect costs next to an
empty play, and what workloads of a fleet cost beside Karmada alone."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.bench import clusters, items, peers, planning, playbooks, reach, rehearsal, status_hub
from tests.bench.table import Target, targets_text
from tests.collection_path import link
from tests.lab.options import KARMADA_PACES
from tests.lab.tools import ALL, KARMADA, ToolUnavailable, ensure

MEASURED: dict[str, Any] = {
    **{"planning": planning, "reach": reach, "rehearsal": rehearsal, "peers": peers},
    **{"clusters": clusters, "status": status_hub, "items": items},
}
"""Modules that measure, each without a choice of how."""
PARTS = (*MEASURED, "playbooks", "fleet")
SERVERLESS = frozenset({"planning", "reach", "rehearsal"})
"""Parts that need no server."""


def say(line: str) -> None:
    """Progress goes to standard error, figures to standard output."""
    print(line, file=sys.stderr, flush=True)


def add_fleet_arguments(parser: argparse.ArgumentParser, services: bool) -> None:
    """Add what the benchmarks of fleets have in common."""
    text = "a Service beside each Deployment of these rounds (default: %(default)s)"
    parser.add_argument("--services", action=argparse.BooleanOptionalAction, default=services, help=text)
    text = (
        "of Karmada: default has its own limits of requests; wide, in place of these, if none is given. Several times: one after the other"
    )
    parser.add_argument("--pace", choices=KARMADA_PACES, action="append", help=text)


def main() -> None:
    link()
    from tests.bench import fleet  # imports the collection

    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part, or these when given several times (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="counted runs of each kind of the part playbooks (default 5)")
    size = fleet.Size()
    parser.add_argument("--workloads", type=int, default=size.workloads, help="of the part fleet (default 200)")
    parser.add_argument("--fleet-rounds", type=int, default=size.rounds, help="rounds of all workloads of the part fleet (default 3)")
    add_fleet_arguments(parser, size.services)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    options = parser.parse_args()
    parts = options.only or PARTS
    figures: dict[str, Any] = {}
    promised: list[Target] = []
    for needs_servers in (False, True):
        if needs_servers and set(parts) - SERVERLESS:
            _servers((*ALL, *KARMADA) if "fleet" in parts else ALL)
        for name, part in MEASURED.items():
            if name in parts and (name not in SERVERLESS) is needs_servers:
                figures[name] = part.measure(say)
                promised += part.targets(figures[name])
                print(part.as_text(figures[name]), "", sep="\n")
    if "playbooks" in parts:
        text, figures["playbooks"] = playbooks.measure(options.rounds, say)
        print(text, "", sep="\n")
    if "fleet" in parts:
        for pace in options.pace or [size.pace]:
            size = fleet.Size(workloads=options.workloads, rounds=options.fleet_rounds, services=options.services, pace=pace)
            found = figures[f"fleet, pace {pace}"] = fleet.measure(size, say)
            promised += fleet.targets(found)
            print(fleet.as_text(found), "", sep="\n", flush=True)
    if promised:
        print(targets_text(promised))
    if options.json:
        figures["targets"] = [{**vars(target), "met": target.met} for target in promised]
        options.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


def _servers(programs: tuple[str, ...]) -> None:
    try:
        ensure(programs, progress=say)
    except ToolUnavailable as error:
        raise SystemExit(f"The lab's servers cannot be had: {error}") from None


if __name__ == "__main__":
    main()

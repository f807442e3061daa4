# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""python -m tests.lab.tools build [NAME ...] | where | refresh [FAMILY ...]"""

from __future__ import annotations

import argparse
import sys

from tests.lab.tools import AGENT, ALL, HELM, KARMADA, KCP, PROMTOOL, ToolUnavailable, ensure
from tests.lab.tools.cache import cache_root
from tests.lab.tools.catalogue import CILIUM, CILIUM_CRDS, FAMILIES, TOOLS
from tests.lab.tools.crds import SUMS, cilium_crds
from tests.lab.tools.gateway_crds import gateway_crds
from tests.lab.tools.karmada_objects import keep_karmada_objects
from tests.lab.tools.mcs_crds import mcs_crds
from tests.lab.tools.progress import Progress, console
from tests.lab.tools.provide import at_hand
from tests.lab.tools.refresh import refresh
from tests.lab.tools.search import Found

DEEP = "deep"  # what the deep run alone needs is not built by the gate


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.tools", description="The programs that the lab runs.")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="find or build them, and fetch the CRDs of Cilium and Karmada")
    programs = (
        f"of {', '.join(ALL)} (all of these when none is given), {HELM}, {PROMTOOL}; karmada: its four; agent: those of real agents; "
        f"{DEEP}: all"
    )
    build.add_argument("names", nargs="*", metavar="NAME", help=programs)
    commands.add_parser("where", help="say where each of them is; builds nothing")
    again = commands.add_parser("refresh", help="write go.mod and go.sum anew from the versions in catalogue.py")
    again.add_argument(
        "families", nargs="*", metavar="FAMILY", help=f"of {', '.join(family.name for family in FAMILIES)}; all when none is given"
    )
    options = parser.parse_args(argv)
    progress = console()
    try:
        if options.command == "build":
            _build(options.names, progress)
        elif options.command == "where":
            return _where(progress)
        else:
            known = {family.name: family for family in FAMILIES}
            if unknown := set(options.families) - known.keys():
                parser.error(f"there is no family {min(unknown)!r}")
            refresh(progress, [known[name] for name in options.families or known])
    except ToolUnavailable as error:
        progress(str(error))
        return 1
    except KeyboardInterrupt:
        progress("Stopped; what was whole is kept.")
        return 130
    return 0


def _build(names: list[str], progress: Progress) -> None:
    several = {"karmada": KARMADA, "agent": AGENT, DEEP: (*ALL, HELM, PROMTOOL, *KARMADA, *AGENT)}
    if unknown := [name for name in names if name not in (*several, *TOOLS, KCP)]:
        raise ToolUnavailable(f"There is no program {unknown[0]!r} to build: there are {', '.join((*TOOLS, KCP, *several))}.")
    wanted = [tool for name in names for tool in several.get(name, (name,))]
    tools = ensure(wanted or ALL, progress=progress)
    if not names or DEEP in names:
        for version in SUMS if DEEP in names else (CILIUM, CILIUM_CRDS):
            cilium_crds(version, progress=progress)
    if DEEP in names:  # unit tests have no certificate authority, and their process runs tests on servers too (tests/unit/conftest.py)
        gateway_crds(progress=progress)
        mcs_crds(progress=progress)
    if not set(KARMADA).isdisjoint(wanted):  # a lab that starts may have no way to the network any more
        keep_karmada_objects(progress)
    for name in tools:
        print(_row(name, Found(tools.path(name), tools.origin(name), tools.version(name))))


def _where(progress: Progress) -> int:
    found = at_hand((*ALL, HELM, PROMTOOL, *KARMADA, *AGENT, KCP), progress)
    for name in (*ALL, HELM, PROMTOOL, *KARMADA, *AGENT, KCP):
        print(_row(name, found[name]) if name in found else f"{name:<24} {'missing':<15}")
    print(f"{'cache':<24} {'':<15} {cache_root()}")
    return 0 if set(ALL) <= set(found) else 1


def _row(name: str, found: Found) -> str:
    return f"{name:<24} {found.origin:<15} {found.version:<9} {found.path}"


if __name__ == "__main__":
    sys.exit(main())

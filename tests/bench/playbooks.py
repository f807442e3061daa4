# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Two real clusters: an empty play, connect without waiting, a second connect, and a mesh with nothing to do, in turns.

Each run is an ``ansible-playbook`` process of its own; CPU time and memory are those of all its processes (wait4).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.bench.table import as_data, as_text, rows
from tests.demo.play import Desk, Run
from tests.lab.lab import Lab
from tests.lab.options import LabOptions
from tests.testing.playbooks import run_playbook

EMPTY, FIRST, SECOND, WAITING = "empty play", "connect, without waiting", "second connect, without waiting", "second connect, as by default"
MESH = "mesh, with nothing to do"
TARGETS = {FIRST: 3.0, SECOND: 2.5, WAITING: 2.5}
REQUESTS = 30  # of each cluster; docs/benchmark.md
CILIUM = "1.20"
NO_WAIT = ("connect", "-e", '{"mesh_connect_wait": false}')
LISTS: dict[str, list[Any]] = {"globalServices": [], "connectivityIntents": [], "exposedServices": []}
COMMANDS = {EMPTY: ("empty.json",), FIRST: NO_WAIT, SECOND: NO_WAIT, WAITING: ("connect",), MESH: ("mesh", "-e", "@whole.json")}


def in_turns(desk: Desk, variables: Mapping[str, Any], rounds: int, say: Callable[[str], None]) -> dict[str, list[Run]]:
    """All kinds of runs in turns, so that a change of the machine's mood meets all of them. One round before them is not counted.

    A mesh is connected and waited for once, before the second connects: kvstoremesh remembers a peer for minutes after it was taken away.
    """
    desk.write("empty.json", [{"hosts": "all", "gather_facts": False, "tasks": []}])
    desk.write("whole.json", {"cilium_mesh": {**variables["cilium_mesh"], **LISTS}})
    measured: dict[str, list[Run]] = {title: [] for title in COMMANDS}

    def take(number: int, *titles: str) -> None:
        for title in titles:
            one = run(desk, *COMMANDS[title])
            if number > 0:
                measured[title].append(one)

    run(desk, "connect")
    for number in range(rounds + 1):
        say(f"second connects, round {number} of {rounds}" + (" (not counted)" if number == 0 else ""))
        take(number, EMPTY, SECOND, WAITING, MESH)
    for number in range(rounds + 1):
        say(f"first connects, round {number} of {rounds}" + (" (not counted)" if number == 0 else ""))
        run(desk, "disconnect")
        take(number, EMPTY, FIRST)
    run(desk, "disconnect")
    return measured


def run(desk: Desk, playbook: str, *arguments: str) -> Run:
    """One run that has to succeed; a figure of a failed run would mean nothing."""
    one = desk.run(playbook, *arguments, quiet=True)
    if one.status != 0:
        desk.run(playbook, *arguments)  # once more, to be seen
        raise SystemExit(f"{playbook} ended with status {one.status}; its output is above.")
    return one


def count_requests(desk: Desk, variables: dict[str, Any]) -> dict[str, dict[str, int]]:
    """API requests per cluster, as the actions count them, of connects without waiting, and of a mesh with nothing to do."""
    found = {}
    whole = {"cilium_mesh": {**variables["cilium_mesh"], **LISTS}}
    for title, playbook, more in ((FIRST, "connect", {}), (SECOND, "connect", {}), (MESH, "mesh", {**whole, "mesh_connect_wait": True})):
        inventory = str(desk.path / "inventory.json")
        played = run_playbook(playbook, inventory=inventory, variables={**variables, "mesh_connect_wait": False, **more})
        found[title] = _requests(played.events)
    return found


def _requests(events: Sequence[str]) -> dict[str, int]:
    """The requests of all actions of a play, together."""
    found: Counter[str] = Counter()
    for event in map(json.loads, events):
        requests = (event.get("event_data", {}).get("res") or {}).get("requests")
        if event.get("event") == "runner_on_ok" and requests:
            found.update({str(name): int(number) for name, number in requests.items()})
    if not found:
        raise SystemExit("No result of the playbook counts API requests.")
    return dict(found)


def measure(rounds: int, say: Callable[[str], None]) -> tuple[str, dict[str, Any]]:
    """The tables, as text and as data."""
    say(f"starting a lab of two clusters, Cilium {CILIUM}")
    with Lab(LabOptions(name="bench", clusters=2, cilium=CILIUM)) as lab:
        binding = {"name": "bench", "clusterRefs": [{"name": name} for name in lab.clusters]}
        variables = {"cilium_mesh": {"binding": binding}}
        with Desk({name: cluster.kubeconfig for name, cluster in lab.clusters.items()}, variables) as desk:
            measured = in_turns(desk, variables, max(1, rounds), say)
            requests = count_requests(desk, variables)
    table = rows(measured, TARGETS)
    return as_text(table, requests, REQUESTS), as_data(table, requests, REQUESTS)

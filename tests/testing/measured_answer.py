# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An operator's process that gets answers of dry runs of a large mesh or fleet, writes its statuses, and prints what each turn took.

    python -m tests.testing.measured_answer SERVICES INTENTS CLUSTERS
    python -m tests.testing.measured_answer fleet WORKLOADS CLUSTERS
    python -m tests.testing.measured_answer hostile

The answers come from a confined child; the custom resources are in a process beside it, so that what is measured is the operator's alone.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Final

from mesh_operator.base.keys import ObjectKey
from mesh_operator.base.kinds import INTENT, ITEMS, SERVICE, WORKLOAD
from mesh_operator.fleets.status import fleet_statuses
from mesh_operator.meshes.answered_statuses import answered_statuses
from mesh_operator.runs.confined.confinement import ProcessLimits
from mesh_operator.runs.confined.fork_server import answer_all
from mesh_operator.runs.confined.messages import VALUES as MOST_VALUES
from mesh_operator.runs.confined.process import ANSWER_LIMIT, ConfinedProcesses
from mesh_operator.runs.item_parts import ItemParts
from mesh_operator.source.resource_writer import ResourceWriter
from mesh_operator.source.stored import Stored
from mesh_operator.statuses.heads import head_of_fleet, head_of_mesh
from mesh_operator.statuses.item_statuses import LARGEST, SAID, VALUES, WHOLE, items_of, objects_of, statuses_of_items
from tests.testing.measured_run import forget, high_water
from tests.testing.sized_results import fleet, result

HANDLER: Final = "tests.testing.measured_answer:serve"
Statuses = Callable[[list[Stored], Mapping[str, Any], ItemParts, datetime], Iterator[tuple[Stored, Any]]]
HOSTILE: Final = list[int]()  # in the place of a size
STEP: Final = 0.001  # seconds that the other thread sleeps


def serve(connection: socket.socket) -> None:
    """Answer jobs as a child that makes dry runs does."""
    answer_all(connection, answer)


def answer(job: Mapping[str, Any]) -> Generator[Any, None, Any]:
    """Answer with statuses of the given number of items, of clusters that nothing has to be asked of."""
    if job["size"] == HOSTILE:
        return (yield from hostile())
    if "objects" in job:
        return (yield from statuses_of_items(fleet(*job["size"]), objects_of(job["objects"]), datetime.now(UTC), head_of_fleet))
    found = result(*job["size"])
    return (yield from statuses_of_items(found, items_of(job["cilium_mesh"], job["previous"]), datetime.now(UTC), head_of_mesh))


def hostile() -> Generator[Any, None, Any]:
    """Answer with as much as is taken: as many parts, each as long and with as many values, and then a head."""
    parts = WHOLE // LARGEST - 1
    for number in range(parts):
        values = [{"": 0}] * (VALUES // 2 - 100)  # a mapping with one key takes most for each mark of JSON
        fill = "x" * (LARGEST - 9 * len(values) - 1000)
        yield {"item": f"globalServices/s{number}", "status": {"phase": "Exported", "conditions": [], "values": values, "fill": fill}}
    values = [{"": 0}] * (MOST_VALUES // 2 - 100)
    fill = "x" * (ANSWER_LIMIT - 9 * len(values) - 1000)
    return {"values": values, "fill": fill, SAID: {"parts": parts, "unchanged": [], "later": 0}}


class Resources:
    """As much of a client of an API server as statuses are written with. It keeps what is written as text, as a server would."""

    def __init__(self) -> None:
        self.statuses: dict[str, str] = {}

    def stored(self, kind: str, name: str) -> Stored:
        """Return an object with its status."""
        obj = {"metadata": {"name": name, "generation": 1}, "status": json.loads(self.statuses.get(name, "{}"))}
        return Stored(ObjectKey(kind, "ws", "default", name), obj, "")

    def get(self, path: str) -> dict[str, Any]:
        return {"metadata": {"uid": "", "resourceVersion": "1"}, "status": {}}

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str) -> None:
        self.statuses[path.removesuffix("/status").rpartition("/")[2]] = json.dumps(body["status"])


class Pauses:
    """The longest time for which another thread of this process did not get on."""

    def __init__(self) -> None:
        self.longest, self._stop = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._measure)

    def __enter__(self) -> Pauses:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _measure(self) -> None:
        while not self._stop.is_set():
            before = time.monotonic()
            time.sleep(STEP)
            self.longest = max(self.longest, time.monotonic() - before - STEP)


def mesh_of(resources: Resources, size: list[int]) -> tuple[list[Stored], dict[str, Any]]:
    """Return the items of a mesh with the statuses that they have, and the job of its dry run."""
    services, intents = (100, 0) if size == HOSTILE else size[:2]
    names = {SERVICE: [f"s{n}" for n in range(services)], INTENT: [f"i{n}" for n in range(intents)]}
    objects = [resources.stored(kind, name) for kind, listed in names.items() for name in listed]
    mesh = {row.listed: [{"name": name, "generation": 1} for name in names.get(row.kind, ())] for row in ITEMS}
    previous = {row.listed: [{**s.obj["status"], "name": s.key.name} for s in objects if s.key.kind == row.kind] for row in ITEMS}
    return objects, {"size": size, "cilium_mesh": mesh, "previous": previous}


def fleet_of(resources: Resources, size: list[int]) -> tuple[list[Stored], dict[str, Any]]:
    """Return the workloads of a fleet with the statuses that they have, and the job of its dry run."""
    objects = [resources.stored(WORKLOAD, f"w{number}") for number in range(size[0])]
    entries = [{"kind": WORKLOAD, "name": s.key.name, "generation": 1, "status": s.obj["status"]} for s in objects]
    return objects, {"size": size, "objects": entries}


def turn(
    processes: ConfinedProcesses, resources: Resources, objects: list[Stored], job: dict[str, Any], statuses: Statuses
) -> dict[str, float]:
    """Make one turn of the mesh or the fleet, and return what it took."""
    parts, writer = ItemParts(), ResourceWriter(lambda _url: resources, lambda *_: None)  # type: ignore[arg-type,return-value]  # as much of a client as is used
    with processes.open(ProcessLimits(memory=1 << 30, cpu=300), 300.0) as process:
        process.ask({"size": [0, 0, 2], "cilium_mesh": {}, "previous": {}}, parts.take)  # it is there
        forget()
        before, began = high_water(), time.process_time()
        with Pauses() as pauses:
            head = process.ask(job, parts.take)
            parts.complete(head)
            asked = time.process_time() - began
            writer.statuses(statuses(objects, head, parts, datetime.now(UTC)), {})
        took = time.process_time() - began
    return {
        "asked": round(asked, 2),
        "cpu": round(took, 2),
        "pause": round(pauses.longest, 3),
        "grown": high_water() - before,
        "written": len(parts),
        "later": parts.later,
    }


def main(*size: str) -> None:
    resources, turns = Resources(), []
    is_fleet = size[0] == "fleet"
    numbers = HOSTILE if size == ("hostile",) else [int(number) for number in size[is_fleet:]]
    statuses: Statuses = fleet_statuses if is_fleet else answered_statuses
    with closing(ConfinedProcesses(HANDLER)) as processes:
        for _ in range(1 if numbers == HOSTILE else 10):
            objects, job = (fleet_of if is_fleet else mesh_of)(resources, numbers)
            turns.append(turn(processes, resources, objects, job, statuses))
            if not turns[-1]["written"]:
                break
    print(json.dumps(turns))


if __name__ == "__main__":
    main(*sys.argv[1:])

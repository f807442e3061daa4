# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An operator's runner in a process of its own that makes one run and prints how far its memory grew.

    python -m tests.testing.measured_run FOLDER PLAYBOOK KIND

The parent puts it into a memory cgroup, if there is one, before it answers its first line.
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from mesh_operator.runs import runner as runs
from mesh_operator.runs.confined.process import ConfinedProcesses

PORTS: Final = [{"protocol": "TCP", "port": 1000 + port} for port in range(256)]


def variables(kind: str) -> dict[str, Any]:
    """Return the variables of a run: for ``intents``, 17 MiB of JSON, within the schema and the bounds of a workspace."""
    selector = {"namespace": "shop", "name": "web"}
    intents = [
        {"name": f"intent-{number}", "action": "Allow", "source": selector, "destination": selector, "ports": PORTS}
        for number in range(2000 if kind == "intents" else 1)
    ]
    return {"cilium_mesh": {"binding": {"name": "edge", "clusterRefs": [{"name": "one"}]}, "connectivityIntents": intents}}


def high_water() -> int:
    """Return the most bytes that this process had in memory since ``forget``."""
    return int(Path("/proc/self/status").read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) * 1024


def forget() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # proc(5): VmHWM becomes what it is now


def main(folder: str, playbook: str, kind: str) -> None:
    sys.stdin.readline()
    given = variables(kind)
    with closing(ConfinedProcesses("", runs.HANDLER, runs.settings_of_runs)) as processes:
        runner = runs.Runner(processes, Path(folder))
        runner.run(runs.RunRequest(playbook=playbook, hosts={}), threading.Event())  # the server is there, all is imported
        forget()
        before = high_water()
        result = runner.run(runs.RunRequest(playbook=playbook, hosts={"one": {}}, variables=given, name="abc"), threading.Event())
        grown = high_water() - before
    said = {"grown": grown, "state": result.state, "refused": result.error, "sentence": result.without_result()}
    print(json.dumps(said | {"result": str(result.mesh_result)[:80]}))


if __name__ == "__main__":
    main(*sys.argv[1:])

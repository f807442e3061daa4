# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Runs the collection's playbooks as its users' tools do, and reads ``mesh_result`` where AWX and the operator read it.

The result comes from the event ``playbook_on_stats`` (custom statistics), never from parsed output.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner

from tests.collection_path import link

COLLECTION = "edge_portal.cilium_mesh"


@dataclass(frozen=True, kw_only=True)
class PlaybookRun:
    """One finished run. ``output`` is what a person would have seen; ``events`` every event as JSON text, for tests that look for leaks."""

    rc: int
    status: str
    output: str
    mesh_result: dict[str, Any] | None
    stats: Mapping[str, Any] = field(default_factory=dict)
    events: Sequence[str] = ()

    @property
    def changed(self) -> int:
        """Number of changed tasks over all hosts, as the recap counts them."""
        return sum(self.stats.get("changed", {}).values())

    @property
    def result(self) -> dict[str, Any]:
        """``mesh_result`` where there has to be one."""
        assert self.mesh_result is not None, self.output
        return self.mesh_result

    def finding_codes(self) -> list[str]:
        return [finding["code"] for finding in (self.mesh_result or {}).get("findings", [])]


def _environment(home: str) -> dict[str, str]:
    root = link()
    return {
        "ANSIBLE_COLLECTIONS_PATH": str(root),
        "ANSIBLE_HOME": home,
        "HOME": home,
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def run_playbook(
    name: str,
    *,
    inventory: str | Mapping[str, Any],
    variables: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    verbosity: int = 0,
    environment: Mapping[str, str] | None = None,
) -> PlaybookRun:
    """Run a playbook of the collection (``connect``) or a file (a path that ends in .yml).

    :param inventory: a path, or the inventory as data (written as JSON, which Ansible reads as YAML).
    :param arguments: further command line arguments such as ``--check``.
    """
    scratch = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="mesh-play-", dir=scratch) as folder:
        base = Path(folder)
        for part in ("project", "env", "home"):
            (base / part).mkdir(mode=0o700)
        source = inventory if isinstance(inventory, str) else str(base / "inventory.json")
        if not isinstance(inventory, str):
            Path(source).write_text(json.dumps(inventory), encoding="utf-8")
        extra = base / "env" / "variables.json"
        extra.write_text(json.dumps(dict(variables or {})), encoding="utf-8")
        stats: dict[str, Any] = {}
        events: list[str] = []

        def keep(event: dict[str, Any]) -> bool:
            events.append(json.dumps(event, default=str))
            if event.get("event") == "playbook_on_stats":
                stats.update(event["event_data"])
            return False

        runner = ansible_runner.run(
            private_data_dir=folder,
            playbook=name if name.endswith(".yml") else f"{COLLECTION}.{name}",
            inventory=source,
            cmdline=" ".join(["-e", f"@{extra}", *arguments]),
            envvars={**_environment(str(base / "home")), **(environment or {})},
            verbosity=verbosity or None,
            event_handler=keep,
            cancel_callback=lambda: False,
            quiet=True,
            settings={"suppress_ansible_output": True, "pexpect_timeout": 1},
        )
        with runner.stdout as stream:
            output = stream.read()
        return PlaybookRun(
            rc=runner.rc,
            status=runner.status,
            output=output,
            mesh_result=stats.get("artifact_data", {}).get("mesh_result"),
            stats=stats,
            events=tuple(events),
        )

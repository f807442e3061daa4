# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Callback that writes the results and the statistics of a play as events, in the shape in which ansible-runner delivers them.

Each line of the file that ``MESH_RECORD`` names is one event as JSON. Only the fields that tests read are written.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: mesh_record
type: aggregate
short_description: Writes results and statistics as events for the tests
description: Writes results and statistics as events for the tests.
requirements: [enabled in the configuration]
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core has no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "mesh_record"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result: Any) -> None:
        self._write("runner_on_ok", res=result.result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._write("runner_on_failed", res=result.result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        counts = {name: dict(getattr(stats, name)) for name in ("changed", "dark", "failures", "ok", "processed", "rescued", "skipped")}
        # ansible-runner calls the statistics of the whole run artifact_data, and AWX shows them as artifacts.
        self._write("playbook_on_stats", **counts, artifact_data=dict(stats.custom.get("_run", {})))

    def _write(self, event: str, **data: Any) -> None:
        line = json.dumps({"event": event, "event_data": data}, default=str)
        with open(os.environ["MESH_RECORD"], "a", encoding="utf-8") as file:
            file.write(line + "\n")

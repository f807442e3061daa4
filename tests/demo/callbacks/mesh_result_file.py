# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes ``mesh_result``, with which every playbook of the collection ends, to the file that MESH_RESULT_FILE names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: mesh_result_file
type: aggregate
short_description: Keep mesh_result in a file
description:
  - Writes the custom statistic C(mesh_result) as JSON to the file that the environment variable E(MESH_RESULT_FILE) names.
author: Contributors to the edge_portal.cilium_mesh project
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core has no types
    """Reads where AWX reads: the custom statistics that belong to no host."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "mesh_result_file"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_stats(self, stats: Any) -> None:
        result = stats.custom.get("_run", {}).get("mesh_result")
        if result is not None:
            Path(os.environ["MESH_RESULT_FILE"]).write_text(json.dumps(result), encoding="utf-8")

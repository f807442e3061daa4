# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A measurement in a fresh Python process, so that its memory is its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.collection_path import link


def measured(module: str, *arguments: str, asked: Any = None) -> dict[str, Any]:
    """What ``python -m tests.bench.MODULE ARGUMENTS`` prints as JSON; ``asked`` goes to its standard input. Ends the run when it fails."""
    path = os.pathsep.join([str(link()), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", f"tests.bench.{module}", *arguments]
    text = None if asked is None else json.dumps(asked)
    answer = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}, check=False)
    if answer.returncode != 0:
        raise SystemExit(f"{' '.join(command[2:])} ended with status {answer.returncode}.")
    found: dict[str, Any] = json.loads(answer.stdout)
    return found

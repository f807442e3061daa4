# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Entry of a lab's outermost process: ``python -m tests.lab.daemon FOLDER [PID]``; the lab ends with process PID, if that is given."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.lab import keeper


def main(argv: list[str]) -> int:
    """Exit status of the supervisor; 3 when the namespaces cannot be made."""
    folder = Path(argv[0])
    owner = -1
    if len(argv) > 1:
        owner = os.pidfd_open(int(argv[1]))
        if os.getppid() != int(argv[1]):  # it died before we could watch it
            return 1
    command = [sys.executable, "-m", "tests.lab.supervisor", str(folder), str(owner)]
    try:
        return keeper.keep(folder, command, owner)
    except keeper.NoNamespacesError as error:
        print(f"cannot start the lab: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

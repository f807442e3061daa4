# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What says that a turn and its processes have to end."""

from __future__ import annotations

from typing import Protocol


class Cancel(Protocol):
    """What says that a run has to end. A threading.Event is one."""

    def is_set(self) -> bool:
        """Return whether the run has to end now."""
        ...

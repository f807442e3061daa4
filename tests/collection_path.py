# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Makes this checkout importable, and findable by Ansible, as the collection that it is.

Python and Ansible want ``…/ansible_collections/edge_portal/cilium_mesh``; a checkout may lie anywhere. One symlink below ``.build``
bridges that.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
ROOT = CHECKOUT / ".build" / "collections"


def link() -> Path:
    """Create the symlink if it is not there and put its root (the folder that holds ansible_collections) on ``sys.path``; return it.

    The folder of the operator's package comes on ``sys.path`` too.
    """
    place = ROOT / "ansible_collections" / "edge_portal" / "cilium_mesh"
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.is_symlink():
        with contextlib.suppress(FileExistsError):  # another process made it in between
            place.symlink_to(CHECKOUT, target_is_directory=True)
    for folder in (str(ROOT), str(CHECKOUT / "operator")):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    return ROOT


if __name__ == "__main__":
    print(link())

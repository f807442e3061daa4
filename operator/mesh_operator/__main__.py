# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``python -m mesh_operator``: says which version this is."""

from __future__ import annotations

from . import __version__


def main() -> None:
    """Print the version and return."""
    print(f"mesh-operator {__version__}")


if __name__ == "__main__":
    main()

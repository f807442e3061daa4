# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Writes what the docs say of every finding: ``make findings``, or ``python -m tests.testing.write_code_table``."""

from __future__ import annotations

from tests.collection_path import link


def main() -> None:
    """Write the files. The collection is importable only after ``link``."""
    link()
    from tests.testing.code_table import write

    write()


if __name__ == "__main__":
    main()

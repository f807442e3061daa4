# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Writes the recordings anew: ``python -m tests.unit.behaviour.record [FAMILY ...]``. Look at the difference before it is committed."""

from __future__ import annotations

import argparse
import sys
import time

from tests.collection_path import CHECKOUT, link


def main() -> None:
    """Record the families that are named, or all of them, and print how long each took."""
    link()
    sys.path.insert(0, str(CHECKOUT / "operator"))
    from .content import parts
    from .families import FAMILIES
    from .recording import save

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="*", help=", ".join(FAMILIES))
    for family in parser.parse_args().family or FAMILIES:
        began = time.process_time()
        contents = parts(FAMILIES[family]())
        save(family, contents)
        print(f"{family}: {len(contents['told'])} scenarios, {time.process_time() - began:.1f} s")


if __name__ == "__main__":
    main()

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Remove from an image what the operator never starts: pip, the shell, and every program but Python and those of its packages.

``python3 strip.py --root /`` is the last step of the Containerfile that has a shell. The operator starts Python alone, and Python needs no
program of the system for it (tests/unit/operator/test_image.py).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Final

FOLDERS: Final = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "usr/local/sbin")
INSTALLERS: Final = ("pip", "ensurepip")


def unneeded(root: Path) -> list[Path]:
    """Return the programs below a root that are neither Python nor of a package, but for pip's."""
    kept, found = {os.path.realpath(sys.executable), *map(str, _of_packages())}, set[Path]()
    for folder in FOLDERS:
        place = Path(os.path.realpath(root / folder))
        found |= set(place.iterdir()) if place.is_dir() else set()
    return sorted(path for path in found if not path.is_dir() and kept.isdisjoint((str(path), os.path.realpath(path))))


def _of_packages() -> Iterator[Path]:
    """Yield the files of all packages that are installed but for pip."""
    for package in distributions():
        for file in package.files or () if package.name not in INSTALLERS else ():
            place = Path(str(package.locate_file(file)))
            yield Path(os.path.realpath(place.parent), place.name)


def main(arguments: list[str]) -> int:
    """Remove them. Without ``--root`` nothing is removed: on a machine that is no image, it would be the end of it."""
    if len(arguments) != 2 or arguments[0] != "--root":
        print("usage: strip.py --root FOLDER", file=sys.stderr)
        return 2
    gone = unneeded(Path(arguments[1]))
    for spec in filter(None, map(find_spec, INSTALLERS)):
        for place in spec.submodule_search_locations or ():
            shutil.rmtree(place)
    for path in gone:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

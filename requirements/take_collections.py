# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Puts single collections out of the ``ansible`` wheel into the running virtual environment.

The wheel holds about 90 collections; the project depends on one. ansible-core finds collections in site-packages by itself.

    python take_collections.py FOLDER-WITH-THE-WHEEL namespace.name…
"""

from __future__ import annotations

import sys
import sysconfig
import zipfile
from pathlib import Path


def take(wheel: Path, collection: str, target: Path) -> int:
    """Unpack one collection below ``target``. Returns the number of files; a collection that the wheel does not hold is an error."""
    prefix = f"ansible_collections/{collection.replace('.', '/')}/"
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.startswith(prefix)]
        if not members:
            raise SystemExit(f"{wheel.name} holds no collection {collection}.")
        archive.extractall(target, members)
    return len(members)


def main() -> None:
    """Extract each named collection from the one wheel of Ansible in a folder."""
    folder, *collections = sys.argv[1:]
    wheels = sorted(Path(folder).glob("ansible-*.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"Expected one ansible-*.whl in {folder}, found {len(wheels)}.")
    for collection in collections:
        take(wheels[0], collection, Path(sysconfig.get_paths()["purelib"]))


if __name__ == "__main__":
    main()

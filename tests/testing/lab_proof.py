# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whether the tests of the lab itself (tests/unit/lab) have passed for the lab as it is.

The lab changes seldom. So `make test-lab` writes the digest of what it tested into
`PROOF`, and the gate runs these tests where that digest is not the lab's any more. The deep run has them always.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from tests.collection_path import CHECKOUT

TESTS: Final = CHECKOUT / "tests" / "unit" / "lab"
PROOF: Final = TESTS / "proof.txt"
FOLDERS: Final = (CHECKOUT / "tests" / "lab", TESTS)
_HEAD: Final = """\
# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
# Digest of tests/lab and tests/unit/lab for which `make test-lab` passed; written by it.
"""


def digest() -> str:
    """Return the SHA-256 of all files of the lab and of its tests, with their paths, in hexadecimal."""
    found = hashlib.sha256()
    for path in sorted(path for folder in FOLDERS for path in folder.rglob("*") if _counts(path)):
        text = path.read_bytes()
        found.update(f"{path.relative_to(CHECKOUT)}\0{len(text)}\0".encode())
        found.update(text)
    return found.hexdigest()


def is_proven() -> bool:
    """Return whether the tests of the lab passed for the files as they are; false where there is no proof."""
    return PROOF.is_file() and PROOF.read_text(encoding="utf-8").split()[-1] == digest()


def write() -> None:
    """Write that the tests of the lab passed for the files as they are."""
    PROOF.write_text(f"{_HEAD}{digest()}\n", encoding="utf-8")


def _counts(path: Path) -> bool:
    return path != PROOF and path.is_file() and path.suffix != ".pyc"


if __name__ == "__main__":
    write()
    print(f"The tests of the lab passed; {PROOF.relative_to(CHECKOUT)} says so.")

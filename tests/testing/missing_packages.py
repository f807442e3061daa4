# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A Python that lacks packages which this one has."""

from __future__ import annotations

from pathlib import Path

# Python imports sitecustomize before anything else.
_REFUSE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""


def environment_without(folder: Path, *packages: str) -> dict[str, str]:
    """Return variables of the environment of a Python that lacks packages, by the names under which they are imported.

    :param folder: gets the file by which it does.
    """
    (folder / "sitecustomize.py").write_text(_REFUSE.format(packages=set(packages)), encoding="utf-8")
    return {"PYTHONPATH": str(folder)}

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator is a package of its own below a folder that is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

from tests.collection_path import CHECKOUT

OPERATOR = CHECKOUT / "operator"


def collection_version() -> str:
    return str(yaml.safe_load((CHECKOUT / "galaxy.yml").read_text(encoding="utf-8"))["version"])


def test_the_folder_is_no_package_so_that_it_never_shadows_the_standard_module_operator() -> None:
    assert not (OPERATOR / "__init__.py").exists()
    code = "import operator, sys; sys.exit(not hasattr(operator, 'itemgetter'))"
    subprocess.run([sys.executable, "-S", "-c", code], cwd=CHECKOUT, check=True)


def test_the_installed_operator_says_the_version_of_the_collection(tmp_path: Path) -> None:
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--target",
        str(tmp_path),
    ]
    subprocess.run([*install, str(OPERATOR)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    said = subprocess.run([sys.executable, "-m", "mesh_operator"], cwd="/", env=environment, check=True, capture_output=True, text=True)
    assert said.stdout == f"mesh-operator {collection_version()}\n"

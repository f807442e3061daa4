# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""`make demo`, the way in for a reader without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.collection_path import CHECKOUT
from tests.lab.patience import scaled
from tests.testing.tutorial import blocks_of


def test_the_demo_ends_with_the_line_that_the_readme_shows(servers: None, tmp_path: Path) -> None:
    dry = subprocess.run(["make", "--dry-run", "demo"], cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout
    assert dry.splitlines()[-1] == ".venv/bin/python -m tests.demo"
    tmp_path.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-m", "tests.demo"],
        cwd=CHECKOUT,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},  # another demo of this user may run meanwhile
        check=False,
        capture_output=True,
        text=True,
        timeout=scaled(300),
    )
    shown = [block.text for block in blocks_of((CHECKOUT / "README.md").read_text(encoding="utf-8")) if block.kind == "text"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert [f"{done.stdout.splitlines()[-1]}\n"] == shown

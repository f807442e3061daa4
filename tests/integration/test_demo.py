# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""`make demo`, `make demo-fleet` and `make demo-traffic`, the ways in for a reader without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collection_path import CHECKOUT
from tests.lab.patience import scaled
from tests.testing import recordings, screens
from tests.testing.tutorial import blocks_of


def run_demo(target: str, folder: Path) -> list[str]:
    """Run what a target of make starts, to its good end; return the lines that it printed. ``folder`` is empty."""
    module = f"tests.{target.replace('-', '_')}"
    dry = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", target], cwd=CHECKOUT, check=True, capture_output=True, text=True
    ).stdout
    assert dry.splitlines()[-1] == f".venv/bin/python -m {module}"
    folder.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-m", module],
        cwd=CHECKOUT,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},  # another demo of this user may run meanwhile
        check=False,
        capture_output=True,
        text=True,
        timeout=scaled(300),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_the_demo_ends_with_the_line_that_the_readme_shows(servers: None, tmp_path: Path) -> None:
    shown = [block.text for block in blocks_of((CHECKOUT / "README.md").read_text(encoding="utf-8")) if block.kind == "text"]
    assert [f"{run_demo('demo', tmp_path)[-1]}\n"] == shown


@pytest.mark.usefixtures("servers", "karmada_programs")
def test_the_demo_of_the_fleet_side_ends_with_all_that_it_is_to_show(tmp_path: Path) -> None:
    lines = run_demo("demo-fleet", tmp_path)
    assert lines[-1] == (
        "shop/web: deployed (1 in 2/2 clusters), rolled out (2 in 2/2 clusters), 2 waves in order, "
        "rolled back (1 in 2/2 clusters), nothing left"
    )


@pytest.mark.usefixtures("servers", "real_agents")
def test_the_demo_of_traffic_shows_all_that_it_is_to_show_and_is_like_its_recording(tmp_path: Path) -> None:
    lines = run_demo("demo-traffic", tmp_path)
    if os.environ.get(screens.WRITE):
        recordings.TRAFFIC.write_text(recordings.text_of(lines), encoding="utf-8")
    shapes = [recordings.shape(text) for text in (recordings.TRAFFIC.read_text(encoding="utf-8"), recordings.text_of(lines))]
    assert shapes[0].splitlines() == shapes[1].splitlines()

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What ``make`` says of a wrong word, and before which work it says so."""

from __future__ import annotations

import subprocess

from tests.collection_path import CHECKOUT


def test_the_deep_run_asks_for_its_shard_before_it_builds_anything() -> None:
    dry = ["make", "--dry-run", "test-all", "SHARD=5/4"]
    commands = subprocess.run(dry, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout.splitlines()
    asks = next(command for command in commands if "tests.testing.shard" in command)
    assert commands.index(asks) < next(number for number, command in enumerate(commands) if "tools build" in command)
    found = subprocess.run(asks, cwd=CHECKOUT, shell=True, check=False, capture_output=True, text=True)
    assert (found.returncode, found.stderr.startswith("There is no shard '5/4'")) == (1, True)


def test_a_folder_is_no_target_for_which_nothing_is_to_be_done() -> None:
    found = subprocess.run(["make", "tests"], cwd=CHECKOUT, check=False, capture_output=True, text=True)
    assert (found.returncode, found.stderr.splitlines()[0]) == (2, "tests is a folder and no target; make help lists the targets.")

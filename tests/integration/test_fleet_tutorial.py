# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/fleet-tutorial.md, followed as it stands on a real Karmada."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.collection_path import CHECKOUT, link
from tests.demo_fleet.evidence import left_in_cluster, left_in_karmada
from tests.integration.labs import KARMADA_TUTORIAL
from tests.integration.mesh_lab import LAB_VARIABLES, MeshLab
from tests.testing.playbooks import write_warm_command
from tests.testing.tutorial import Reader, blocks_of
from tests.testing.waiting import wait_for

pytestmark = [pytest.mark.lab(KARMADA_TUTORIAL), pytest.mark.usefixtures("karmada_programs")]


def test_the_tutorial_can_be_followed_and_prints_what_it_shows(lab: MeshLab, tmp_path: Path) -> None:
    places = dict(zip(("ffm-1", "ber-2"), lab.names, strict=True))
    for name, cluster in places.items():
        (tmp_path / f"{name}.kubeconfig").write_bytes(lab.lab.clusters[cluster].kubeconfig.read_bytes())
    (tmp_path / "karmada.kubeconfig").write_bytes(lab.lab.karmada.read_bytes())
    shared = {key: value for key, value in LAB_VARIABLES.items() if key != "ansible_connection"}  # what only a lab needs
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text(json.dumps(shared), encoding="utf-8")
    path = os.pathsep.join(map(str, (write_warm_command(tmp_path / "bin"), Path(sys.executable).parent, os.environ["PATH"])))
    reader = Reader(
        tmp_path, environment={"PATH": path, "HOME": str(tmp_path), "ANSIBLE_COLLECTIONS_PATH": str(link()), "LC_ALL": "C.UTF-8"}
    )
    for block in blocks_of((CHECKOUT / "docs" / "fleet-tutorial.md").read_text(encoding="utf-8")):
        reader.follow(block)

    def left() -> list[str]:
        rows = [line for name, cluster in places.items() for line in left_in_cluster(name, lab.lab.clusters[cluster].kubeconfig)]
        return rows + left_in_karmada(lab.lab.karmada)

    wait_for(left, lambda found: not found, what="nothing is left in Karmada and in both clusters")

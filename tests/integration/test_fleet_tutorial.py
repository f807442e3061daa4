# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/fleet-tutorial.md, followed as it stands on a real Karmada."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.demo_fleet.evidence import left_in_cluster, left_in_karmada
from tests.integration.followed import PLACES, follow, reader_of
from tests.integration.labs import KARMADA_TUTORIAL
from tests.integration.mesh_lab import MeshLab
from tests.testing.waiting import wait_for

pytestmark = [pytest.mark.lab(KARMADA_TUTORIAL), pytest.mark.usefixtures("karmada_programs")]


def test_the_tutorial_can_be_followed_and_prints_what_it_shows(lab: MeshLab, tmp_path: Path) -> None:
    reader = reader_of(lab, tmp_path, columns=200)
    (tmp_path / "karmada.kubeconfig").write_bytes(lab.lab.karmada.read_bytes())
    follow(reader, "fleet-tutorial.md")

    def left() -> list[str]:
        places = zip(PLACES, lab.names, strict=True)
        rows = [line for name, cluster in places for line in left_in_cluster(name, lab.lab.clusters[cluster].kubeconfig)]
        return rows + left_in_karmada(lab.lab.karmada)

    wait_for(left, lambda found: not found, what="nothing is left in Karmada and in both clusters")

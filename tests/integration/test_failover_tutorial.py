# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/failover-tutorial.md, followed as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.followed import follow, reader_of
from tests.integration.labs import TUTORIAL
from tests.integration.mesh_lab import MeshLab
from tests.integration.peer_objects import contents

pytestmark = pytest.mark.lab(TUTORIAL)


def test_the_tutorial_of_failover_can_be_followed_and_leaves_nothing(lab: MeshLab, tmp_path: Path) -> None:
    before = contents(lab)
    follow(reader_of(lab, tmp_path), "failover-tutorial.md")
    assert contents(lab) == before
    for cluster in lab.names:
        assert lab.api(cluster).get("/api/v1/namespaces/shop") is None or lab.api(cluster).list("/api/v1/namespaces/shop/services") == []

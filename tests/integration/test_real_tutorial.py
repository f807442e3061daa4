# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/failover-tutorial.md on real agents: also what it shows of nodes, of agents, and of what a client gets."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.collection_path import CHECKOUT
from tests.integration import kubectl
from tests.integration.followed import follow, reader_of
from tests.integration.labs import unused_name
from tests.integration.mesh_lab import MeshLab
from tests.lab.options import LabOptions
from tests.lab.pods import RUN

_IMAGE: Final = (
    'image: "nginx:1.29", command: [sh, -c, "echo {{ inventory_hostname }} > /usr/share/nginx/html/index.html'
    """ && exec nginx -g 'daemon off;'"]"""
)
CHANGES: Final = {
    **{f"{{labels: {{app: {app}}}}}": f'{{labels: {{app: {app}}}, annotations: {{{RUN}: "true"}}}}' for app in ("nginx", "client")},
    _IMAGE: 'image: lab, command: [serve, "{{ inventory_hostname }}", "80"]',
}
"""A lab has no images: the pods of the page run programs that the lab has."""


def test_the_tutorial_of_failover_is_true_of_packets(real_agents: None, tmp_path: Path) -> None:
    page = (CHECKOUT / "docs/failover-tutorial.md").read_text(encoding="utf-8")
    assert [part for part in CHANGES if part not in page] == []
    with MeshLab(LabOptions(name=unused_name(), names=("cluster-ffm-1", "cluster-ber-2"), cilium="1.20", agents="real")) as lab:
        reader = reader_of(lab, tmp_path)
        reader.nodes, reader.changes = True, CHANGES
        if shutil.which("kubectl") is None:
            print("there is no kubectl on this machine: tests/integration/kubectl.py makes its requests")
            kubectl.write_command(tmp_path / "bin")
        follow(reader, "failover-tutorial.md")

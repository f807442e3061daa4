# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/migrate-from-cilium-cli.md, followed as it stands in a mesh that the charts of Cilium made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.collection_path import CHECKOUT
from tests.integration.followed import PLACES, follow, reader_of
from tests.integration.labs import HELM_TUTORIAL
from tests.integration.mesh_lab import MeshLab
from tests.integration.peer_objects import contents, object_path

pytestmark = pytest.mark.lab(HELM_TUTORIAL)

HELM = """\
#!{python}
import argparse, sys

sys.path.insert(0, {checkout!r})
from pathlib import Path
from tests.lab import control

parser = argparse.ArgumentParser()
parser.add_argument("verb", choices=["upgrade"])
parser.add_argument("release", choices=["cilium"])
parser.add_argument("chart", choices=["cilium"])
parser.add_argument("--repo", choices=["https://helm.cilium.io"], required=True)
parser.add_argument("--version", required=True)
parser.add_argument("--namespace", choices=["kube-system"], required=True)
parser.add_argument("--kubeconfig", choices={places!r}, required=True)
parser.add_argument("--reuse-values", action="store_true", required=True)
parser.add_argument("--set", action="append", default=[])
given = parser.parse_args()
values = {{"cluster": {places!r}[given.kubeconfig], "set": given.set, "version": None, "force_replace": False}}
control.call(Path({folder!r}), "helm-upgrade", values)
print('Release "cilium" has been upgraded. Happy Helming!')
"""
"""The lab's upgrade in the form of Helm's command: other words than the page may use are refused."""


def write_helm(lab: MeshLab, folder: Path) -> None:
    places = {f"{place}.kubeconfig": cluster for place, cluster in zip(PLACES, lab.names, strict=True)}
    program = folder / "helm"
    program.write_text(
        HELM.format(python=sys.executable, checkout=str(CHECKOUT), places=places, folder=str(lab.lab.folder)), encoding="utf-8"
    )
    program.chmod(0o755)


def mesh_by_helm(lab: MeshLab) -> None:
    """What `cilium clustermesh connect` does: it writes each cluster's peers into the values of the other one's release."""
    for cluster, peer in zip(lab.names, reversed(lab.names), strict=True):
        service = lab.api(peer).get(object_path("services", "clustermesh-apiserver"))
        assert service is not None
        address = service["status"]["loadBalancer"]["ingress"][0]["ip"]
        lab.lab.helm_upgrade(cluster, (f"clustermesh.config.clusters=[{{name: {peer}, ips: [{address}], port: 2379}}]",))
    lab.wait_connected()


def test_a_mesh_of_the_cilium_cli_is_migrated_and_returned_as_the_page_says(lab: MeshLab, tmp_path: Path) -> None:
    mesh_by_helm(lab)
    made = contents(lab)
    reader = reader_of(lab, tmp_path)
    write_helm(lab, tmp_path / "bin")
    follow(reader, "migrate-from-cilium-cli.md")
    lab.wait_connected()
    assert contents(lab) == made

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What tells the objects of Helm, Argo CD and Flux is said once."""

from __future__ import annotations

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.gitops import HELM_LABEL, TOOLS
from tests.collection_path import CHECKOUT


def test_marks_of_helm_argo_cd_and_flux_stand_in_one_file() -> None:
    marks = {mark for tool in TOOLS for mark in tool.marks} - {HELM_LABEL}  # that label is Kubernetes' own: we set it too
    said = {file.name for file in (CHECKOUT / "plugins").rglob("*.py") for mark in marks if f'"{mark}' in file.read_text(encoding="utf-8")}
    assert said == {"gitops.py"}

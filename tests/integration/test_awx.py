# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/awx.md, followed as it stands, and its jobs ``plan`` and ``apply`` as AWX links them: by the artifact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.followed import follow, reader_of
from tests.integration.labs import TUTORIAL
from tests.integration.mesh_lab import MeshLab
from tests.integration.peer_objects import contents
from tests.testing.playbooks import run_playbook

pytestmark = pytest.mark.lab(TUTORIAL)


def merged(lab: MeshLab) -> str:
    """Return one kubeconfig with the clusters of a lab as the contexts ffm and ber, as ``kubectl config view --flatten`` makes it."""
    found: dict[str, list[object]] = {"clusters": [], "users": [], "contexts": []}
    for context, cluster in zip(("ffm", "ber"), lab.names, strict=True):
        own = yaml.safe_load(lab.lab.clusters[cluster].kubeconfig.read_text(encoding="utf-8"))
        found["clusters"].append({"name": context, "cluster": own["clusters"][0]["cluster"]})
        found["users"].append({"name": context, "user": own["users"][0]["user"]})
        found["contexts"].append({"name": context, "context": {"cluster": context, "user": context}})
    return json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "ffm", **found})


def test_the_project_of_the_page_runs_and_its_workflow_connects_the_clusters(lab: MeshLab, tmp_path: Path) -> None:
    before = contents(lab)
    reader = reader_of(lab, tmp_path)
    (tmp_path / "clusters.kubeconfig").write_text(merged(lab), encoding="utf-8")
    variables = tmp_path / "group_vars"
    (variables / "all.yml").rename(variables / "ungrouped.yml")  # what the lab needs, beside the file of the page
    follow(reader, "awx.md")

    def job(playbook: str, **variables: object) -> dict[str, Any]:
        run = run_playbook(
            str(tmp_path / f"{playbook}.yml"),
            inventory=str(tmp_path / "inventory.yml"),
            variables=variables,
            environment={"KUBECONFIG": str(tmp_path / "clusters.kubeconfig")},
        )
        assert run.rc == 0, run.output
        return run.result

    done = job("apply", mesh_result=job("plan"))
    assert done["changed"] and done["status"]["binding"]["phase"] == "Connected"
    assert job("mesh", cilium_mesh_state="absent")["changed"]
    assert contents(lab) == before

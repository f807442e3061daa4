# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/awx.md, followed as it stands, and its jobs ``plan`` and ``apply`` as AWX links them: by the artifact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.followed import follow, reader_of, write_kubeconfig
from tests.integration.labs import TUTORIAL
from tests.integration.mesh_lab import MeshLab
from tests.integration.peer_objects import contents
from tests.testing.playbooks import run_playbook

pytestmark = pytest.mark.lab(TUTORIAL)


def test_the_project_of_the_page_runs_and_its_workflow_connects_the_clusters(lab: MeshLab, tmp_path: Path) -> None:
    before = contents(lab)
    reader = reader_of(lab, tmp_path)
    write_kubeconfig(lab, tmp_path / "clusters.kubeconfig")
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

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a person sees: the screens of docs/screens, each made by a run on real servers, at both widths of the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration import credentials
from tests.integration.labs import OTHER_THREE_120
from tests.integration.mesh_lab import MeshLab
from tests.integration.rights import grant
from tests.integration.shop import INTENT, SERVICE, furnish
from tests.testing.playbooks import PlaybookRun, run_warm
from tests.testing.screens import WIDTHS, problems_of


class Terminal:
    """Runs playbooks in a terminal of one width, and collects what is wrong with their screens."""

    def __init__(self, lab: MeshLab, width: int) -> None:
        self.lab, self.width = lab, width
        self.problems: list[str] = []

    def run(
        self, name: str, playbook: str, *arguments: str, rc: int = 0, hosts: Mapping[str, Any] | None = None, **variables: Any
    ) -> PlaybookRun:
        """Run a playbook, and compare its screen with the kept one of this name."""
        run = run_warm(
            playbook,
            inventory=self.lab.inventory(hosts),
            variables={"cilium_mesh": self.lab.mesh(), **variables},
            arguments=arguments,
            environment={"COLUMNS": str(self.width)},
        )
        self.lab.runs_that_wrote.append(playbook)
        assert run.rc == rc, run.output
        self.problems += problems_of(name, self.width, run)
        return run


@pytest.mark.full
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.lab(OTHER_THREE_120)
def test_the_screens_of_a_mesh_are_as_they_are_kept(lab: MeshLab, width: int, tmp_path: Path) -> None:
    furnish(lab)
    see = Terminal(lab, width)
    whole = {**lab.mesh(), "globalServices": [SERVICE], "connectivityIntents": [INTENT]}

    see.run("verify", "verify")
    see.run("plan", "plan")
    see.run("check-with-changes-fails", "connect", "--check", rc=2, cilium_mesh_fail_on_changes=True)
    see.run("status-before-connect-fails", "status", rc=2)
    see.run("connect", "connect")
    see.run("connect-again", "connect")
    see.run("status", "status")
    lab.lab.cut("c1", "c2", one_way=True)
    see.run("status-with-a-cut-link-fails", "status", rc=2)
    lab.lab.heal("c1", "c2")
    lab.wait_connected()
    promised = see.run("mesh-check", "mesh", "--check", cilium_mesh=whole)
    see.run("mesh-with-an-old-hash-fails", "mesh", rc=2, cilium_mesh=whole, cilium_mesh_hash="0" * 12)
    see.run("mesh", "mesh", cilium_mesh=whole, cilium_mesh_hash=promised.result["plan"]["hash"])
    see.run("mesh-again", "mesh", cilium_mesh=whole)
    missing = {"name": "missing", "selector": {"namespace": "production", "name": "missing"}}
    see.run("services-without-the-service-fails", "services", rc=2, cilium_mesh={**lab.mesh(), "globalServices": [SERVICE, missing]})
    away = credentials.unreachable(lab, "c2", tmp_path / "unreachable.yaml")
    see.run("connect-with-a-silent-member-fails", "connect", rc=2, hosts=away)
    see.run("disconnect", "disconnect")

    wrong = {"c2": {"cilium_mesh_endpoint_override": "c2.example.org"}}
    see.run("verify-with-a-wrong-endpoint-fails", "verify", rc=2, hosts=wrong)
    (tmp_path / "rights").mkdir()
    rights = grant(lab, tmp_path / "rights", without="secrets")
    see.run("verify-without-a-right-fails", "verify", rc=2, hosts=rights)
    assert see.problems == []

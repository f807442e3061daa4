# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Mistakes of a new user that a cluster answers: what is said, kept as text in docs/screens/mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration import credentials
from tests.integration.labs import MISTAKEN, OTHER_THREE_120
from tests.integration.mesh_lab import MeshLab
from tests.integration.shop import EXPOSURE, INTENT, furnish
from tests.testing.playbooks import PlaybookRun, run_warm
from tests.testing.screens import MISTAKES, problems_of


class Beginner:
    """Runs playbooks in a terminal of 80 columns, and collects what is wrong with what they say."""

    def __init__(self, lab: MeshLab) -> None:
        self.lab, self.problems = lab, list[str]()

    def tries(
        self,
        name: str,
        playbook: str,
        *arguments: str,
        rc: int = 2,
        says: str,
        hosts: Mapping[str, Any] | None = None,
        **variables: Any,
    ) -> PlaybookRun:
        run = run_warm(
            playbook,
            inventory=self.lab.inventory(hosts),
            variables={"cilium_mesh": self.lab.mesh(), **variables},
            arguments=arguments,
            environment={"COLUMNS": "80"},
        )
        self.lab.runs_that_wrote.append(playbook)
        assert run.rc == rc and says in " ".join(run.output.split()), run.output
        self.problems += problems_of(name, 80, run, MISTAKES)
        return run


@pytest.mark.full
@pytest.mark.lab(OTHER_THREE_120, use=2)
def test_mistakes_are_answered_as_they_are_kept(lab: MeshLab, tmp_path: Path) -> None:
    furnish(lab)
    new = Beginner(lab)
    away = credentials.unreachable(lab, "c2", tmp_path / "away.yaml")
    new.tries("03-a-member-that-does-not-answer-before-it-was-meshed", "connect", hosts=away, says="CM-API-01, c2")
    assert lab.play("connect").rc == 0
    new.tries("03-a-member-that-does-not-answer", "verify", hosts=away, says="CM-API-01, c2")

    wrong = credentials.token(lab, "c2", tmp_path / "token.yaml", "expired")
    new.tries("02-a-token-that-has-expired", "verify", hosts=wrong, says="refused our credentials (401)")
    nobody = credentials.without_rights(lab, "c2", tmp_path / "nobody.yaml")
    none = new.tries("06-no-rights-at-all", "verify", hosts=nobody, says="the playbook rbac prints the whole role")
    fix = " ".join(finding["fix"] for finding in none.result["findings"])
    assert "get: namespaces/kube-system" in fix and "secrets/cilium-kvstoremesh" in fix, "one round names all"

    same = {"c2": {"cilium_mesh_kubeconfig": str(lab.lab.clusters["c1"].kubeconfig)}}
    new.tries("08-the-same-cluster-behind-two-hosts", "verify", hosts=same, says="CM-MESH-01")
    inline = {"c2": {"cilium_mesh_kubeconfig": yaml.safe_load(lab.lab.clusters["c2"].kubeconfig.read_text(encoding="utf-8"))}}
    new.tries("26-a-kubeconfig-in-the-inventory", "verify", rc=0, hosts=inline, says="No findings")
    new.tries("24-a-limit-to-one-member", "verify", "--limit", "c1", rc=0, says="c2 was not read")

    new.tries("29-a-hash-of-another-plan", "apply", cilium_mesh_plan_hash="deadbeefdead", says="CM-PLAN-01")
    too_high = {**INTENT, "ports": [{"protocol": "TCP", "port": 70000}]}
    new.tries(
        "20-a-port-that-cannot-be", "policies", cilium_mesh={**lab.mesh(), "connectivityIntents": [too_high]}, says="must be 1 to 65535"
    )
    no_host = {**EXPOSURE, "hostname": "not_a_host!"}
    new.tries("21-a-hostname-that-is-none", "exposures", cilium_mesh={**lab.mesh(), "exposedServices": [no_host]}, says="is not a DNS name")
    new.tries(
        "39-lists-that-are-null",
        "mesh",
        rc=0,
        cilium_mesh={**lab.mesh(), "globalServices": None, "connectivityIntents": None},
        says="Connected",
    )

    assert new.problems == []


@pytest.mark.full
@pytest.mark.lab(MISTAKEN)
def test_two_clusters_that_were_installed_alike_are_named(lab: MeshLab) -> None:
    new = Beginner(lab)
    found = new.tries("10-11-clusters-with-one-id-and-one-pod-network", "verify", says="CM-ID-05")
    assert {"CM-ID-05", "CM-CIDR-01"} <= set(found.finding_codes())
    # Two of its findings have one cure.
    assert [row for row in new.problems if "twice on the screen: helm upgrade" not in row] == []

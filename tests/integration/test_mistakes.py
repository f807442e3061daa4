# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Mistakes of a new user that a cluster answers: what is said, kept as text in docs/screens/mistakes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret

from tests.integration import credentials
from tests.integration.held_lock import held_lock, holder
from tests.integration.labs import MISTAKEN, OTHER_THREE_120
from tests.integration.mesh_lab import MeshLab
from tests.integration.shop import EXPOSURE, INTENT, furnish
from tests.testing.playbooks import PlaybookRun, run_warm
from tests.testing.screens import MISTAKES, problems_of
from tests.testing.terminal import Terminal, playbook_in_terminal
from tests.testing.waiting import wait_for


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

    @contextmanager
    def ends(self, name: str, *, rc: int) -> Iterator[Terminal]:
        """Connect clusters that cannot reach each other, in a terminal. The block begins when the run waits for them, and ends it."""
        variables = {"cilium_mesh": self.lab.mesh()}
        with playbook_in_terminal("connect", inventory=self.lab.inventory(), variables=variables, columns=80) as terminal:
            self.lab.runs_that_wrote.append("connect")
            terminal.wait_for_text(r"\d s of \d+ s  0 of 2 links ready")
            yield terminal
            ended = PlaybookRun(rc=terminal.wait(), status="failed", output=terminal.seen, mesh_result=None)
        assert ended.rc == rc, ended.output
        self.problems += problems_of(name, 80, ended, MISTAKES)
        wait_for(lambda: not any(holder(self.lab, each) for each in self.lab.names), what="the run that was ended gives its lock back")


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
    powerless = credentials.without_rights(lab, "c2", tmp_path / "no-rights.yaml")
    none = new.tries("06-no-rights-at-all", "verify", hosts=powerless, says="the playbook rbac prints the whole role")
    fix = " ".join(finding["fix"] for finding in none.result["findings"])
    assert "get: namespaces/kube-system" in fix and "secrets/cilium-kvstoremesh" in fix, "one round names all"

    same = {"c2": {"cilium_mesh_kubeconfig": str(lab.lab.clusters["c1"].kubeconfig)}}
    new.tries("08-the-same-cluster-behind-two-hosts", "verify", hosts=same, says="CM-MESH-01")
    inline = {"c2": {"cilium_mesh_kubeconfig": yaml.safe_load(lab.lab.clusters["c2"].kubeconfig.read_text(encoding="utf-8"))}}
    new.tries("26-a-kubeconfig-in-the-inventory", "verify", rc=0, hosts=inline, says="No findings")
    encrypted, password = tmp_path / "encrypted", tmp_path / "password"
    vault = VaultLib([("default", VaultSecret(b"open sesame"))])
    encrypted.write_bytes(vault.encrypt(lab.lab.clusters["c2"].kubeconfig.read_text(encoding="utf-8")))
    password.write_text("open sesame", encoding="utf-8")
    vaulted = {"c2": {"cilium_mesh_kubeconfig": str(encrypted)}}
    given = ("--vault-password-file", str(password))
    new.tries("25-an-encrypted-kubeconfig", "verify", *given, rc=0, hosts=vaulted, says="No findings")
    new.tries("24-a-limit-to-one-member", "verify", "--limit", "c1", rc=0, says="c2 was not read")

    with held_lock(lab, "connect by max@laptop, process 4711, run 3fa9c1d2"):
        new.tries("33-two-connects-at-once", "connect", says="CM-LOCK-01")
        new.tries("34-a-disconnect-during-a-connect", "disconnect", says="CM-LOCK-01")

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

    assert new.problems == [], "\n".join(new.problems)


@pytest.mark.full
@pytest.mark.lab(OTHER_THREE_120, use=2)
def test_a_run_that_is_ended_while_it_waits_has_said_how_to_go_on_and_the_next_one_does_so_at_once(lab: MeshLab) -> None:
    new = Beginner(lab)
    lab.lab.cut("c1", "c2")
    with new.ends("31-interrupted-while-it-waits", rc=99) as terminal:
        terminal.interrupt()
    assert lab.play("disconnect").rc == 0
    with new.ends("32-terminated-while-it-waits", rc=-signal.SIGTERM) as terminal:
        os.kill(terminal.pid, signal.SIGTERM)
    lab.lab.heal("c1", "c2")
    again = lab.play("connect")
    assert (again.rc, again.changed) == (0, 0), again.output
    assert new.problems == [], "\n".join(new.problems)


@pytest.mark.full
@pytest.mark.lab(MISTAKEN)
def test_two_clusters_that_were_installed_alike_are_named(lab: MeshLab) -> None:
    new = Beginner(lab)
    found = new.tries("10-11-clusters-with-one-id-and-one-pod-network", "verify", says="CM-ID-05")
    assert {"CM-ID-05", "CM-CIDR-01"} <= set(found.finding_codes())
    # Two of its findings have one cure.
    assert [row for row in new.problems if "twice on the screen: helm upgrade" not in row] == []

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a user reads when a link, a mesh pod or a whole cluster does not answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration import credentials
from tests.integration.labs import THREE_120
from tests.integration.mesh_lab import MeshLab
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for


def stage(run: PlaybookRun, cluster: str, peer: str) -> dict[str, object]:
    return next(row for row in run.result["status"]["binding"]["links"] if (row["cluster"], row["peer"]) == (cluster, peer))


def phase(run: PlaybookRun) -> str:
    return str(run.result["status"]["binding"]["phase"])


def status_when(lab: MeshLab, value: Callable[[PlaybookRun], str], wanted: str, *, what: str) -> PlaybookRun:
    """Return the first forked run of playbook ``status`` of which ``value`` is ``wanted``.

    Only where the judgement of the playbook itself is awaited; for all else wait for the state of servers, and run it once.
    """
    run: PlaybookRun | None = None

    def probe() -> str:
        nonlocal run
        run = lab.play("status")
        return value(run)

    wait_for(probe, equals(wanted), what=what, explain=lambda: run.output if run else "", every=1.0)
    assert run is not None
    return run


@pytest.mark.lab(THREE_120, use=2)
def test_a_cut_link_is_named_and_a_healed_one_is_ready_again(lab: MeshLab) -> None:
    assert lab.play("connect").rc == 0
    lab.lab.cut("c1", "c2", one_way=True)
    cut = lab.play("status", own_process=True)
    assert phase(cut) == "Degraded", cut.output
    assert "Traceback" not in cut.output
    assert stage(cut, "c1", "c2")["stage"] == "dialling"
    assert "refused" in str(stage(cut, "c1", "c2")["error"])
    assert stage(cut, "c2", "c1")["stage"] == "ready"
    lab.lab.heal("c1", "c2")
    lab.wait_connected()
    healed = lab.play("status")
    assert phase(healed) == "Connected", healed.output
    assert stage(healed, "c1", "c2")["stage"] == "ready"


@pytest.mark.lab(THREE_120, use=2)
def test_connect_with_a_dead_mesh_pod_times_out_at_the_right_stage(lab: MeshLab) -> None:
    lab.lab.kill("c2")
    run = lab.play("connect", mesh_connect_wait_timeout=12, own_process=True)
    assert run.rc != 0
    assert "Traceback" not in run.output
    assert stage(run, "c1", "c2")["stage"] == "dialling"
    assert stage(run, "c1", "c2")["error"]
    assert "c1 -> c2" in run.output and "dialling" in run.output
    lab.lab.restart("c2")
    lab.wait_connected()
    status_when(lab, phase, "Connected", what="the status says Connected")


@pytest.mark.lab(THREE_120, use=2)
def test_disconnect_works_without_the_dead_cluster(lab: MeshLab, tmp_path: Path) -> None:
    before = lab.snapshot()
    assert lab.play("connect").rc == 0
    run = lab.play("disconnect", hosts=credentials.unreachable(lab, "c2", tmp_path / "kubeconfig"))
    assert "Traceback" not in run.output
    assert (run.rc, run.result["changed"]) == (2, True), run.output
    after = lab.snapshot()
    assert {k: v for k, v in after.items() if k.startswith("c1/")} == {k: v for k, v in before.items() if k.startswith("c1/")}


@pytest.mark.lab(THREE_120, use=2)
def test_a_peer_with_another_ca_than_we_trust_is_a_tls_stage(lab: MeshLab) -> None:
    """The peer's whole trust changes under a running mesh: the link must say TLS, and the next connect must repair it without a restart."""
    assert lab.play("connect").rc == 0
    credentials.replace_ca(lab, "c2")
    lab.wait_for_mesh_pods()
    wait_for(lambda: not lab.kvstoremesh_status("c1")["c2"].get("ready"), what="kvstoremesh of c1 has lost c2")
    # kvstoremesh dials again after a while, and says until then why it failed before: the peer's pod was not there.
    broken = status_when(lab, lambda run: str(stage(run, "c1", "c2")["stage"]), "tls", what="the link has stage tls")
    assert not stage(broken, "c1", "c2")["ready"]
    repaired = lab.play("connect")
    assert repaired.rc == 0, repaired.output
    assert repaired.changed > 0

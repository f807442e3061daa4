# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a user is told when a link, a mesh pod or a whole cluster does not answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.integration import credentials
from tests.integration.mesh_lab import MeshLab
from tests.testing.playbooks import PlaybookRun


def stage(run: PlaybookRun, cluster: str, peer: str) -> dict[str, object]:
    return next(row for row in run.result["status"]["binding"]["links"] if (row["cluster"], row["peer"]) == (cluster, peer))


def phase(run: PlaybookRun) -> str:
    return str(run.result["status"]["binding"]["phase"])


def until(lab: MeshLab, holds: Callable[[PlaybookRun], bool], seconds: float = 90) -> PlaybookRun:
    """The first status of which something holds. kvstoremesh itself takes some 25 s to notice that a connection is gone or back."""
    end = time.monotonic() + seconds
    while True:
        run = lab.play("status")
        if holds(run):
            return run
        assert time.monotonic() < end, f"not within {seconds} s\n{run.output}"
        time.sleep(1)


def test_a_cut_link_is_named_and_a_healed_one_is_ready_again(start_lab: Callable[..., MeshLab]) -> None:
    lab = start_lab(cilium="1.20")
    assert lab.play("connect").rc == 0
    lab.lab.cut("c1", "c2", one_way=True)
    cut = until(lab, lambda run: phase(run) == "Degraded")
    assert "Traceback" not in cut.output
    assert stage(cut, "c1", "c2")["stage"] == "dialling"
    assert "refused" in str(stage(cut, "c1", "c2")["error"])
    assert stage(cut, "c2", "c1")["stage"] == "ready"
    lab.lab.heal("c1", "c2")
    healed = until(lab, lambda run: phase(run) == "Connected")
    assert stage(healed, "c1", "c2")["stage"] == "ready"


def test_connect_with_a_dead_mesh_pod_times_out_at_the_right_stage(start_lab: Callable[..., MeshLab]) -> None:
    lab = start_lab(cilium="1.20")
    lab.lab.kill("c2")
    run = lab.play("connect", mesh_connect_wait_timeout=12)
    assert run.rc != 0
    assert "Traceback" not in run.output
    assert stage(run, "c1", "c2")["stage"] == "dialling"
    assert stage(run, "c1", "c2")["error"]
    assert "c1 -> c2" in run.output and "dialling" in run.output
    lab.lab.restart("c2")
    until(lab, lambda run: phase(run) == "Connected")


def test_disconnect_works_without_the_dead_cluster(start_lab: Callable[..., MeshLab], tmp_path: Path) -> None:
    lab = start_lab(cilium="1.20")
    before = lab.snapshot()
    assert lab.play("connect").rc == 0
    run = lab.play("disconnect", hosts=credentials.unreachable(lab, "c2", tmp_path / "kubeconfig"))
    assert "Traceback" not in run.output
    assert run.changed > 0
    after = lab.snapshot()
    assert {k: v for k, v in after.items() if k.startswith("c1/")} == {k: v for k, v in before.items() if k.startswith("c1/")}


def test_a_peer_with_another_ca_than_we_trust_is_a_tls_stage(start_lab: Callable[..., MeshLab]) -> None:
    """The peer's whole trust changes under a running mesh: the link must say TLS, and the next connect must mend it without a restart."""
    lab = start_lab(cilium="1.20")
    assert lab.play("connect").rc == 0
    credentials.replace_ca(lab, "c2")
    broken = until(lab, lambda run: stage(run, "c1", "c2")["stage"] == "tls")
    assert not stage(broken, "c1", "c2")["ready"]
    mended = lab.play("connect")
    assert mended.rc == 0, mended.output
    assert mended.changed > 0

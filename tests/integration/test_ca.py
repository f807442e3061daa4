# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Certificates are renewed and CAs are changed under a mesh in use, and those who read through it notice nothing."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration import credentials
from tests.integration.labs import CERTGEN, THREE_120
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.integration.roll_history import RollHistory
from tests.integration.steady_reader import SteadyReader
from tests.lab.cluster import profile_options
from tests.lab.patience import scaled
from tests.lab.profiles.reissue import reissue
from tests.lab.profiles.secrets import ca_of as ca_pair
from tests.testing.killed_playbook import run_until_killed
from tests.testing.playbooks import PlaybookRun

HELD = 30.0  # seconds after which a stage holds the roll; on a quiet machine each takes less than ten


def ca_of(lab: MeshLab) -> dict[str, bytes]:
    return {name: lab.secret(name, "cilium-ca")["ca.crt"] for name in lab.names}


def roll_left(lab: MeshLab) -> list[str]:
    """What a roll left behind: marks, and Secrets with CAs."""
    found = []
    for name in lab.names:
        for item in lab.api(name).list(f"/api/v1/namespaces/{NAMESPACE}/secrets"):
            metadata = item["metadata"]
            marks = [key for key in metadata.get("annotations", {}) if key.startswith("ca-roll.")]
            if marks or metadata["name"].startswith("cilium-mesh-next-ca"):
                found.append(f"{name}/{metadata['name']}")
    return found


def why_it_failed(run: PlaybookRun, history: RollHistory) -> str:
    """What held a roll, what it had done until then, and what its user saw."""
    found = (run.mesh_result or {}).get("findings", ())
    held = [f"  {row['code']}: {row['summary']}: {row['evidence']}" for row in found if row["severity"] == "blocking"]
    return "\n".join([f"the roll ended with status {run.rc}:", *held, *history.problems(), run.output])


@pytest.mark.lab(THREE_120, use=2)
def test_clusters_get_new_cas_and_no_reader_sees_an_error(lab: MeshLab) -> None:
    assert lab.play("connect").rc == 0
    report = lab.play("ca")
    assert report.rc == 0, report.output
    assert report.changed == 0
    pairs = report.result["trust"]["pairs"]
    assert {(row["cluster"], row["peer"], row["mode"]) for row in pairs} == {
        (a, b, "minted") for a in lab.names for b in lab.names if a != b
    }
    assert all(row["certificates"]["client"]["expires"] == row["expires"] for row in pairs), "minted certificates end first"
    assert {row["method"] for row in report.result["trust"]["clusters"]} == {"helm"}
    before = ca_of(lab)

    with RollHistory(lab) as history, SteadyReader(lab, "c1", "c2") as reader:
        predicted = lab.play("ca", arguments=["--check", "--diff"], ca_sync_state="rolled")
        assert predicted.rc == 0 and predicted.changed > 0, predicted.output
        assert ca_of(lab) == before and not roll_left(lab), "check mode wrote something"
        halfway = lab.play("ca", ca_sync_state="rolled", ca_sync_stage="trust", ca_sync_wait_timeout=int(scaled(HELD)))
        assert halfway.rc == 0, why_it_failed(halfway, history)
        assert ca_of(lab) == before and roll_left(lab)
        assert lab.play("connect").changed == 0, "a connect in the middle of a roll undid some of it"
        rolled = lab.play("ca", ca_sync_state="rolled", ca_sync_wait_timeout=int(scaled(HELD)), own_process=True)
        assert rolled.rc == 0, why_it_failed(rolled, history)
    print(f"{reader.reads} reads, {reader.agent_reads} by the agent")
    assert reader.errors == []
    assert reader.reads > 50 and reader.agent_reads > 10
    after = ca_of(lab)
    assert len({*before.values(), *after.values()}) == 4
    assert not (problems := history.problems()), "\n".join(problems)
    assert not roll_left(lab)
    assert lab.play("connect").changed == 0
    assert "PRIVATE KEY" not in "".join((*halfway.events, *rolled.events))


def stages(lab: MeshLab) -> set[str]:
    """Stages of the roll that the clusters are in."""
    found = set()
    for name in lab.names:
        secret = lab.api(name).get(f"/api/v1/namespaces/{NAMESPACE}/secrets/cilium-ca")
        assert secret is not None
        marks = [value for key, value in secret["metadata"].get("annotations", {}).items() if key.startswith("ca-roll.")]
        found |= {json.loads(mark)["stage"] for mark in marks}
    return found


def in_stage(lab: MeshLab, stage: str) -> bool:
    return stage in stages(lab)


def mesh_pods(lab: MeshLab, cluster: str) -> set[str]:
    pods = lab.api(cluster).list(f"/api/v1/namespaces/{NAMESPACE}/pods", label_selector="k8s-app=clustermesh-apiserver")
    return {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}


@pytest.mark.lab(CERTGEN)
def test_a_roll_of_a_shared_ca_is_killed_twice_loses_a_member_and_ends_without_an_error(lab: MeshLab, tmp_path: Path) -> None:
    """certgen issues the certificates here, by a Job that the roll makes from its CronJob."""
    assert lab.play("connect").rc == 0
    before = ca_of(lab)
    variables = {"cilium_mesh": lab.mesh(), "ca_sync_state": "rolled", "cilium_mesh_lock_duration": 15, "cilium_mesh_lock_timeout": 120}
    with SteadyReader(lab, "c1", "c2") as reader:
        for stage in ("trust", "leaves"):
            killed = run_until_killed("ca", inventory=lab.inventory(), variables=variables, moment=partial(in_stage, lab, stage))
            assert killed and roll_left(lab)
        held = lab.play("ca", hosts=credentials.unreachable(lab, "c2", tmp_path / "kubeconfig"), ca_sync_state="rolled")
        assert held.rc != 0 and held.changed == 0, held.output
        assert held.result["roll"]["held"] and "CM-CA-08" in held.finding_codes()
        assert "held at stage leaves" in held.output and "Traceback" not in held.output
        rolled = lab.play("ca", ca_sync_state="rolled", cilium_mesh_lock_timeout=120)
        assert rolled.rc == 0, rolled.output
    assert reader.errors == []
    assert reader.reads > 50 and reader.agent_reads > 10
    after = ca_of(lab)
    assert len(set(before.values())) == 1 and len(set(after.values())) == 1 and before != after
    assert not roll_left(lab)
    assert {row["mode"] for row in rolled.result["trust"]["pairs"]} == {"same_ca"}
    assert {row["method"] for row in rolled.result["trust"]["clusters"]} == {"certgen"}
    assert not lab.api("c1").list(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
    assert lab.play("connect").changed == 0


@pytest.mark.lab(THREE_120, use=2)
def test_renewals_and_a_shared_ca_reach_the_readers_without_a_restart_of_theirs(lab: MeshLab) -> None:
    assert lab.play("connect").rc == 0
    pods = mesh_pods(lab, "c1")
    with SteadyReader(lab, "c1", "c2") as reader:
        early: dict[str, Any] = {"ca_sync_state": "renewed", "ca_sync_certificate_days": 500, "ca_sync_renew_before_days": 400}
        predicted = lab.play("ca", arguments=["--check"], **early)
        renewed = lab.play("ca", **early)
        assert renewed.rc == 0, renewed.output
        assert predicted.changed == renewed.changed > 0
        assert predicted.result["plan"]["hash"] == renewed.result["plan"]["hash"]
        assert {step["object"] for step in renewed.result["plan"]["steps"]} == {"Secret kube-system/cilium-kvstoremesh"}
        assert lab.play("ca", **early).changed == 0
        renew_at_the_peer(lab, "c2")
        assert lab.play("ca", ca_sync_state="renewed").changed == 0, "the same CA needs nothing here"
    assert reader.errors == []

    credentials.replace_ca(lab, "c2")
    followed = lab.play("ca", ca_sync_state="renewed")
    assert followed.rc == 0 and followed.changed > 0, followed.output
    rest = lab.play("connect").result["plan"]["steps"]
    assert all(step["object"].startswith("ConfigMap kube-system/cilium-mesh-") for step in rest), "more than the record of who is who"
    assert mesh_pods(lab, "c1") == pods, "c1 was restarted"

    before = lab.snapshot(volatile=True)
    unconfirmed = lab.play("ca", ca_sync_state="shared", ca_sync_source="c1", ca_sync_confirm="yes")
    assert unconfirmed.rc != 0 and "CM-INPUT-01" in unconfirmed.finding_codes()
    assert lab.snapshot(volatile=True) == before
    with SteadyReader(lab, "c1", "c2") as reader:
        shared = lab.play("ca", ca_sync_state="shared", ca_sync_source="c1", ca_sync_confirm="edge-mesh-eu")
        assert shared.rc == 0, shared.output
    assert reader.errors == []
    assert len(set(ca_of(lab).values())) == 1
    assert not roll_left(lab)
    assert b"common-etcd-client-ca.crt" in lab.secret("c1", "cilium-kvstoremesh")["c2"]
    again = lab.play("ca", ca_sync_state="shared", ca_sync_source="c1", ca_sync_confirm="edge-mesh-eu")
    assert again.rc == 0 and again.changed == 0, again.output


def renew_at_the_peer(lab: MeshLab, cluster: str) -> None:
    """What a Helm upgrade or certgen does there: every leaf anew, by the same CA."""
    options = profile_options(next(row for row in lab.lab.options.cluster_options() if row.name == cluster), None)
    api = lab.api(cluster)
    secret = api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/cilium-ca")
    assert secret is not None
    for name in ("server", "remote", "admin", "local"):
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets/clustermesh-apiserver-{name}-cert"
        made = reissue(options, f"clustermesh-apiserver-{name}-cert", ca_pair(secret))
        api.patch(path, {"data": made["data"]})

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The playbook upgrade_check on a real mesh: members move to the next chart, and each prediction is compared with what then is.

The lab moves the objects of the chart; its pods run one binary of clustermesh-apiserver, and no packet passes. So it shows keys, users,
pods that start or not, findings and plans, and it does not show what agents of the next minor do with policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pytest

from tests.integration.labs import TWO_118
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.testing.waiting import wait_for

CONFIG: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/cilium-config"
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/clustermesh-apiserver"
AGENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/cilium"


def written(steps: list[Mapping[str, Any]]) -> set[tuple[str, str, str]]:
    return {(step["cluster"], step["verb"], step["object"]) for step in steps}


def rolled_out(lab: MeshLab, cluster: str) -> bool:
    found = lab.api(cluster).get(DEPLOYMENT) or {}
    status = found.get("status") or {}
    return bool(
        status.get("observedGeneration") == found["metadata"]["generation"]
        and status.get("updatedReplicas") == status.get("readyReplicas") == status.get("replicas") == 1
    )


def agents_rolled_out(lab: MeshLab, cluster: str) -> bool:
    found = lab.api(cluster).get(AGENTS) or {}
    status = found.get("status") or {}
    return bool(
        status.get("observedGeneration") == found["metadata"]["generation"]
        and status.get("updatedNumberScheduled") == status.get("numberReady") == status.get("desiredNumberScheduled") == 1
    )


@pytest.mark.full
@pytest.mark.lab(TWO_118)
def test_what_is_predicted_of_a_hop_is_what_the_next_chart_and_connect_do(lab: MeshLab) -> None:
    assert lab.play("connect").rc == 0
    before = lab.snapshot(volatile=True)
    predicted = lab.play("upgrade_check", cilium_mesh_upgrade_target="1.19", own_process=True)
    assert predicted.rc == 0 and not predicted.changed, predicted.output
    assert lab.snapshot(volatile=True) == before
    upgrade = predicted.result["upgrade"]
    assert [(step["cluster"], step["kind"]) for step in upgrade["steps"]] == [
        (cluster, kind) for cluster in ("c1", "c2") for kind in ("upgrade", "connect", "verify")
    ]
    assert {effect["rule"] for effect in upgrade["effects"]} == {"remote_users_need_config", "users_by_default"}

    # Each member as the steps say: its new pod waits for the users, connect writes what was predicted and nothing else, and the pod starts.
    (first, second) = upgrade["hops"]
    lab.lab.helm_upgrade("c1", version="1.19")
    assert (lab.api("c1").get(CONFIG) or {})["data"]["policy-default-local-cluster"] == "true"
    wait_for(partial(agents_rolled_out, lab, "c1"), what="the agent of c1 runs with the next chart")
    verify = lab.play("verify")
    found = {entry["code"] for entry in verify.result["findings"] if entry["cluster"] == "c1" and entry["severity"] != "advisory"}
    # CM-INST-07 is about the old pod, which serves on as the effect says, and not about the facts after the hop.
    assert found - {"CM-INST-07"} == {entry["code"] for entry in first["findings"]} == {"CM-USER-01"}, verify.output
    assert not rolled_out(lab, "c1")
    connected = lab.play("connect")
    assert connected.rc == 0 and written(connected.result["plan"]["steps"]) == written(first["writes"]), connected.output
    assert rolled_out(lab, "c1")

    lab.lab.helm_upgrade("c2", version="1.19")
    connected = lab.play("connect")
    assert connected.rc == 0 and written(connected.result["plan"]["steps"]) == written(second["writes"]), connected.output
    assert rolled_out(lab, "c2")
    done = lab.play("upgrade_check", cilium_mesh_upgrade_target="1.19", cilium_mesh_upgrade_fail_on=["prepare", "lost", "gained"])
    assert done.rc == 0 and "there is nothing to upgrade" in done.output, done.output

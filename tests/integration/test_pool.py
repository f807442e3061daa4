# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Labs that tests share: whatever one test did to a lab, the next one finds it as it was."""

from __future__ import annotations

import pytest

from tests.integration.labs import TWO_118, Pool
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.integration.shop import furnish
from tests.lab.pristine import Pristine
from tests.lab.tools.gateway_crds import gateway_crds

pytestmark = [pytest.mark.lab(TWO_118), pytest.mark.full]  # it tests the tests; each loan compares the lab with what it was


def ruin(lab: MeshLab) -> None:
    """Everything that tests do to a lab, at once."""
    assert lab.play("connect").rc == 0
    furnish(lab)
    api = lab.api("c2")
    api.create(gateway_crds()[0])
    lab.lab.helm_upgrade("c1", version="1.19")
    api.patch(f"/api/v1/namespaces/{NAMESPACE}/configmaps/cilium-config", {"data": {"cluster-id": "7", "cluster-name": None}})
    api.delete(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/cilium")
    api.patch(f"/api/v1/namespaces/{NAMESPACE}/services/clustermesh-apiserver/status", {"status": {"loadBalancer": {"ingress": []}}})
    lab.lab.cut("c1", "c2")
    lab.lab.freeze("c2", "c1")
    lab.lab.kill("c1")


def test_a_lab_that_a_test_ruined_is_as_it_was_for_the_next_and_one_that_ended_is_built_anew(lab_pool: Pool) -> None:
    with lab_pool.lend(TWO_118, None, "the first") as lab:
        before, first = Pristine.of({name: lab.api(name) for name in lab.names}), lab.lab
        ruin(lab)
    with lab_pool.lend(TWO_118, None, "the second") as lab:
        assert lab.lab is first, "it was built anew"
        assert before.differences() == {}
        assert [lab.kvstoremesh_status(name) for name in lab.names] == [{}, {}]
        run = lab.play("connect")
        assert run.rc == 0 and run.result["status"]["binding"]["phase"] == "Connected", run.output
        lab.lab.close()
    with lab_pool.lend(TWO_118, None, "the third") as lab:
        assert lab.lab is not first
        assert lab.play("connect", arguments=["--check"]).rc == 0

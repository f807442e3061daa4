# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A member that tells its peers more than its record allows is named, one that does not is not."""

from __future__ import annotations

import json

import pytest

from tests.integration.labs import THREE_120
from tests.integration.mesh_lab import MeshLab
from tests.testing.playbooks import PlaybookRun


def claim_findings(run: PlaybookRun) -> dict[str, str]:
    """Code -> evidence of the findings about claims, which have to be about c2."""
    found = [row for row in run.result["findings"] if row["code"].startswith("CM-CLAIM-")]
    assert {row["cluster"] for row in found} <= {"c2"}, found
    return {row["code"]: row["evidence"] for row in found}


def node(name: str, cluster: str, number: int, address: str) -> str:
    return json.dumps({"Name": name, "Cluster": cluster, "ClusterID": number, "IPAddresses": [{"Type": "InternalIP", "IP": address}]})


@pytest.mark.lab(THREE_120, use=2)
def test_a_member_that_claims_too_much_is_named(lab: MeshLab) -> None:
    assert lab.play("connect").rc == 0
    clean = lab.play("verify", cilium_verify_claims=True)
    assert clean.rc == 0, clean.output
    assert claim_findings(clean) == {}
    of_c1 = lab.api("c1").list("/api/v1/nodes")[0]["status"]["addresses"]
    c1_address = next(row["address"] for row in of_c1 if row["type"] == "InternalIP")

    claims = {
        "cilium/state/nodes/v1/c1/stolen": node("stolen", "c1", 1, c1_address),
        "cilium/state/nodes/v1/c2/broken\x1b[2J": "[" * 5000,
        f"cilium/state/identities/v1/id/{(1 << 16) + 7}": "k8s:io.cilium.k8s.policy.cluster=c1;k8s:app=victim;",
        "cilium/state/ip/v1/default/10.1.0.77": json.dumps({"IP": "10.1.0.77", "HostIP": c1_address, "ID": (2 << 16) + 1}),
        "cilium/state/ip/v1/default/8.8.8.8": json.dumps({"IP": "8.8.8.8", "ID": 2}),
        "cilium/cluster-config/c2": json.dumps({"id": 9, "capabilities": {"maxConnectedClusters": 511}}),
    }
    for key, value in claims.items():
        lab.etcdctl("c2", "put", key, value)
    hostile = lab.play("verify", cilium_verify_claims=True, own_process=True)
    assert hostile.rc != 0
    assert "\x1b[2J" not in hostile.output and "Traceback" not in hostile.output
    found = claim_findings(hostile)
    assert set(found) == {"CM-CLAIM-01", "CM-CLAIM-02", "CM-CLAIM-03", "CM-CLAIM-04", "CM-CLAIM-05", "CM-CLAIM-06"}, found
    assert '"9"' in found["CM-CLAIM-01"]
    assert '"c1/stolen"' in found["CM-CLAIM-02"]
    assert '"10.1.0.77"' in found["CM-CLAIM-03"] and c1_address in found["CM-CLAIM-03"]
    assert '"8.8.8.8"' in found["CM-CLAIM-04"]
    assert "65543" in found["CM-CLAIM-05"]

    unasked = lab.play("verify")
    assert claim_findings(unasked) == {}

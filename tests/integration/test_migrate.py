# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A mesh of the Go provider is taken over: its links and its policies, without a link that drops and without less protection."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.integration import shop
from tests.integration.labs import OTHER_THREE_120, THREE_120
from tests.integration.mesh_lab import MeshLab
from tests.integration.peer_objects import contents, give_away, managers_of, objects, watched
from tests.lab.api import Object
from tests.testing.texts import mentions

PROVIDER: Final = "kcp-cilium-mesh-provider"
POLICIES: Final = f"/apis/cilium.io/v2/namespaces/{shop.NAMESPACE}/ciliumnetworkpolicies"
OWNER: Final = "cilium-mesh.edge-portal.eu/owner"
INTENT: Final = shop.INTENT["name"]


STORE: Final = {"namespace": shop.NAMESPACE, "name": "store"}
DENY: Final[Object] = {"name": "no-frontend", "action": "Deny", "source": shop.INTENT["source"], "destination": STORE}
ISOLATE: Final[Object] = {"name": "store-alone", "action": "Isolate", "destination": STORE}


def policy(name: str, app: str = "nginx", key: str = "ingress") -> Object:
    """A policy as the provider would write it for an intent; it has no mark of its author."""
    rule = {"fromEndpoints": [{"matchLabels": {"k8s:app": "frontend"}}], "toPorts": [{"ports": [{"port": "8080", "protocol": "TCP"}]}]}
    spec = {"endpointSelector": {"matchLabels": {"k8s:app": app}}, key: [rule]}
    return {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": {"name": name, "namespace": shop.NAMESPACE},
        "spec": spec,
    }


def policies(lab: MeshLab) -> dict[str, set[str]]:
    """The policies of each cluster: their names, and "ours" for those of this project."""
    found: dict[str, set[str]] = {}
    for cluster in lab.names:
        items = [item["metadata"] for item in lab.api(cluster).list(POLICIES)]
        found[cluster] = {"ours" if OWNER in item.get("labels", {}) else item["name"] for item in items}
    return found


def everywhere(lab: MeshLab, *names: str) -> dict[str, set[str]]:
    return {cluster: set(names) for cluster in lab.names}


@pytest.mark.lab(OTHER_THREE_120, use=2, gate=THREE_120)
def test_a_mesh_of_the_provider_is_taken_over_and_its_policies_go_when_they_are_replaced(lab: MeshLab) -> None:
    shop.furnish(lab)
    assert lab.play("connect", mesh_connect_wait=False).rc == 0
    lab.wait_connected()
    give_away(lab, PROVIDER)
    for cluster in lab.names:
        lab.api(cluster).create(policy("of-the-provider"), field_manager=PROVIDER)
        lab.api(cluster).create(policy("of-the-team"), field_manager="kubectl-client-side-apply")
    made, mesh = contents(lab), {**lab.mesh(), "connectivityIntents": [shop.INTENT]}
    old = {"name": "of-the-provider", "namespace": shop.NAMESPACE, "intent": INTENT}
    named: dict[str, Any] = {"cilium_mesh_provider_policies": [old]}

    with watched(lab, {"c1": ("c2",), "c2": ("c1",)}) as dropped:
        # Check mode says what a run does, and writes nothing.
        before = lab.snapshot(volatile=True)
        foreseen = lab.play("migrate", mesh=mesh, arguments=("--check", "--diff"), **named)
        assert foreseen.rc == 0 and foreseen.changed == 3, foreseen.output
        assert "of-the-provider" in foreseen.output and "of-the-team" not in foreseen.output
        assert lab.snapshot(volatile=True) == before and policies(lab) == everywhere(lab, "of-the-provider", "of-the-team")

        # A policy that another author wrote stays, and with it all others. Ours are in force by then.
        wrong: dict[str, Any] = {"cilium_mesh_provider_policies": [old, {**old, "name": "of-the-team"}]}
        refused = lab.play("migrate", mesh=mesh, **wrong)
        assert refused.rc != 0 and "was written by kubectl-client-side-apply" in refused.output, refused.output
        assert policies(lab) == everywhere(lab, "ours", "of-the-provider", "of-the-team")

        replaced = lab.play("migrate", mesh=mesh, **named)
        assert replaced.rc == 0 and replaced.changed == 1, replaced.output
        assert policies(lab) == everywhere(lab, "ours", "of-the-team")
        again = lab.play("migrate", mesh=mesh, **named)
        assert (again.rc, again.changed) == (0, 0), again.output
    assert dropped == [] and contents(lab) == made
    for cluster, peer in (("c1", "c2"), ("c2", "c1")):
        (owner,) = managers_of(objects(lab, cluster)["cilium-kvstoremesh"], peer)
        assert owner.startswith("cilium-mesh.edge-portal.eu/")
    assert again.result["status"]["connectivityIntents"][0]["phase"] == "Applied"

    # A Deny of the provider isolates its destination, which our Deny does not. It goes with the Isolate that replaces it, and not before.
    container = {"name": "main", "image": "example.invalid/main"}
    metadata = {**STORE, "labels": {"app": "store"}}
    for cluster in lab.names:
        lab.api(cluster).create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
        lab.api(cluster).create(policy("denies", "store", "ingressDeny"), field_manager=PROVIDER)
    denies = {**old, "name": "denies", "intent": DENY["name"]}
    less = lab.play("migrate", mesh={**mesh, "connectivityIntents": [shop.INTENT, DENY]}, cilium_mesh_provider_policies=[old, denies])
    assert less.rc != 0 and policies(lab) == everywhere(lab, "ours", "of-the-team", "denies"), less.output
    (kept,) = {entry["summary"] for entry in less.result["findings"] if entry["code"] == "CM-INT-34" and entry["cluster"] == "c1"}
    assert mentions(kept, "denies", "isolates", "store", "ingress"), kept
    same = {**mesh, "connectivityIntents": [shop.INTENT, DENY, ISOLATE]}
    gone = lab.play("migrate", mesh=same, cilium_mesh_provider_policies=[old, {**denies, "intent": ISOLATE["name"]}])
    assert gone.rc == 0 and policies(lab) == everywhere(lab, "ours", "of-the-team"), gone.output
    assert {step["object"] for step in gone.result["plan"]["steps"] if step["verb"] == "delete"} == {
        f"CiliumNetworkPolicy {shop.NAMESPACE}/denies"
    }

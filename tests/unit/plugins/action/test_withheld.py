# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Each action that contacts clusters returns why one was not reached, for the log of the controller, and says it nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation
from tests.collection_path import CHECKOUT
from tests.unit.plugins.action.conftest import mesh

SIDES: Final = {side: {"namespace": "shop", "name": name} for side, name in (("source", "cart"), ("destination", "web"))}
ITEMS: Final = {
    "globalServices": [{"name": "web", "namespace": "shop"}],
    "connectivityIntents": [{"name": "cart-to-web", "action": "Allow", **SIDES}],
    "exposedServices": [{"name": "web", "namespace": "shop", "ports": [{"port": 80}]}],
}
WHOLE: Final = {"mesh": {**mesh("c1", "c2"), **ITEMS}}
BOUND: Final = {"mesh": mesh("c1", "c2")}
QUESTION: Final = {
    "source": {"cluster": "c1", "namespace": "shop", "name": "cart"},
    "target": {"namespace": "shop", "service": "web"},
    "port": "80",
}
ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "mesh_adopt": BOUND,
    "mesh_apply": {**BOUND, "hash": "0" * 64},
    "mesh_ca": BOUND,
    "mesh_connect": BOUND,
    "mesh_envelope": BOUND,
    "mesh_explain": {**BOUND, **QUESTION},
    "mesh_exposure": WHOLE,
    "mesh_fabric": {"fabric": {"name": "europe", "bindings": [BOUND["mesh"]["binding"]]}},
    "mesh_gather": BOUND,
    "mesh_identity": BOUND,
    "mesh_info": {},
    "mesh_items": WHOLE,
    "mesh_plan": BOUND,
    "mesh_policy": WHOLE,
    "mesh_policy_replace": {**WHOLE, "policies": [{"name": "old", "namespace": "shop", "intent": "cart-to-web"}]},
    "mesh_rbac": BOUND,
    "mesh_reach": BOUND,
    "mesh_reconcile": WHOLE,
    "mesh_rehearse": BOUND,
    "mesh_service": WHOLE,
    "mesh_status": BOUND,
    "mesh_upgrade_check": BOUND,
    "mesh_verify": BOUND,
}
OF_THE_FLEET: Final = {"fleet_info", "fleet_rollout", "fleet_workload"}  # theirs is what Karmada's members refused: tests/unit/fleet
REASON: Final = "connection refused at 10.96.0.1:6443"


def test_every_module_that_documents_it_is_tested() -> None:
    pages = yaml.safe_load((CHECKOUT / "docs" / "returns.yml").read_text(encoding="utf-8"))["modules"]
    documented = {name for names, keys in pages.items() if "withheld" in keys for name in names.split()}
    assert documented - OF_THE_FLEET == set(ARGUMENTS)


@pytest.mark.parametrize("action", ARGUMENTS)
def test_why_a_cluster_was_not_reached_is_in_the_result_alone(make_world: Any, action: str, tmp_path: Path) -> None:
    world = make_world()
    world.failures["c2"] = ObserveFailure(host="c2", code="CM-API-02", message="c2 cannot be reached.", detail=REASON)
    if action == "mesh_rbac":  # of a cluster that answers, it reads more than the stand-ins have
        world.failures["c1"] = replace(world.failures["c2"], host="c1", detail="")
    given = {"path": str(tmp_path / "mesh.tar.gz")} if action == "mesh_gather" else {}
    result = world.run(action, check=True, **ARGUMENTS[action], **given)
    assert result.pop("withheld", None) == [{"cluster": "c2", "peer": "", "reason": REASON}]
    assert "cannot be reached" in json.dumps(result) and REASON not in json.dumps(result) + "".join(world.output)


@pytest.mark.parametrize("action", ["mesh_fabric", "mesh_status", "mesh_connect"])
def test_why_a_link_could_not_be_proven_is_in_the_result(make_world: Any, action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()

    def unread(observation: Observation, *_: Any, **_options: Any) -> dict[Any, Any]:
        observation.unread_links = {("c1", "c2"): REASON}
        return {}

    monkeypatch.setattr(world, "controller_proofs", unread)
    assert world.run(action, **ARGUMENTS[action])["withheld"] == [{"cluster": "c1", "peer": "c2", "reason": REASON}]

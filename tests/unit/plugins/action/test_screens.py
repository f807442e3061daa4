# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a run that ends before it contacts a cluster: the screens of docs/screens that need no server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testing.playbooks import run_warm
from tests.testing.rows import in_one_test
from tests.testing.screens import WIDTHS, problems_of

from .conftest import mesh

BOTH = {"cilium_mesh": mesh("cluster-ffm-1", "cluster-ber-2")}
HOSTS = {name: {"cilium_mesh_kubeconfig": f"/nowhere/{name}.yaml"} for name in ("cluster-ffm-1", "cluster-ber-2")}

SITUATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "verify-without-kubeconfigs-fails": ("verify", BOTH),
    "mesh-with-a-misspelled-variable-fails": ("mesh", {**BOTH, "cilium_mesh_stat": "absent"}),
    "connect-without-a-binding-fails": ("connect", {}),
}


@in_one_test
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SITUATIONS)
def test_the_screen_is_as_it_is_kept(name: str, width: int) -> None:
    playbook, variables = SITUATIONS[name]
    inventory = {"all": {"vars": {"ansible_connection": "local"}, "hosts": HOSTS}}
    run = run_warm(playbook, inventory=inventory, variables=variables, environment={"COLUMNS": str(width)})
    assert run.rc == 2, run.output
    assert problems_of(name, width, run) == []

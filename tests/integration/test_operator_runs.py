# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator's plays and its memory on a real API server: the collection's own playbook with hostile texts, and records as ConfigMaps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, WriteConflict
from mesh_operator.base.api import Cluster, Connections
from mesh_operator.base.keys import MeshKey
from mesh_operator.meshes.records import Record, Records, name_of
from mesh_operator.runs import runner as runs
from mesh_operator.runs.confined.process import ConfinedProcesses
from mesh_operator.runs.runner import Runner, RunRequest, RunState
from mesh_operator.source.source_identity import SourceIdentity
from tests.lab.tools import ToolUnavailable
from tests.testing.known import known
from tests.testing.one_server import OneServer
from tests.testing.waiting import wait_for

KEY = MeshKey("2x9c1k", "default", "edge")
PLACE = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server() -> Iterator[OneServer]:
    try:
        with OneServer() as running:
            wait_for(lambda: running.api.get("/api/v1/namespaces/default"), what="a new API server has made the namespace default")
            yield running
    except ToolUnavailable as error:
        pytest.skip(f"a server cannot be had: {error}")


@pytest.fixture
def api(server: OneServer) -> Iterator[Cluster]:
    with Connections("management plane", str(server.kubeconfig), "--mgmt-kubeconfig") as connections:
        yield connections.own()


def mesh(bad: str, *, valid: bool) -> dict[str, Any]:
    """cilium_mesh with ``bad`` wherever a text may stand; where ``valid``, names and enums are such that the play goes as far as it can."""
    name = "edge" if valid else bad
    selector = {"namespace": name, "name": name, "labels": {bad: bad}}
    item = {"description": bad, "labels": {bad: bad, "__ansible_unsafe": bad, "__ansible_vault": bad}}
    return {
        "binding": {
            "name": name,
            "workspace": bad,
            "namespace": bad,
            "clusterRefs": [{"name": "one"}, {"name": "two" if valid else bad}],
            **({} if valid else {"meshConfig": {bad: bad}}),
        },
        "globalServices": [{**item, "name": name, "selector": selector}],
        "connectivityIntents": [{**item, "name": name, "action": "Allow" if valid else bad, "source": selector, "destination": selector}],
        "exposedServices": [{**item, "name": name, "service": selector, "class": "LoadBalancer" if valid else bad, "sourceRanges": [bad]}],
    }


@pytest.mark.parametrize("valid", [True, False])
def test_the_mesh_playbook_runs_no_template_out_of_a_resource(server: OneServer, tmp_path: Path, valid: bool) -> None:
    bad = f"{{{{ lookup('ansible.builtin.pipe', 'touch {tmp_path}/MARK') }}}}"
    kubeconfig = yaml.safe_load(server.kubeconfig.read_text(encoding="utf-8"))
    hosts = {
        "one": {"cilium_mesh_kubeconfig": kubeconfig, "cilium_mesh_elb_id": "" if valid else bad},
        "two": {"cilium_mesh_unavailable": bad},
    }
    variables = {
        "cilium_mesh": mesh(bad, valid=valid),
        "cilium_mesh_state": "present",
        "cilium_mesh_previous_status": {"binding": {bad: bad}},
    }
    request = RunRequest(playbook="mesh", hosts=hosts, variables=variables, name="abc")
    with closing(ConfinedProcesses("", runs.HANDLER, runs.settings_of_runs)) as processes:
        result = Runner(processes, tmp_path / "runs").run(request, threading.Event())
    assert not (tmp_path / "MARK").exists()
    assert (result.state, result.error) == (RunState.FAILED, "")
    assert result.mesh_result is not None
    codes = {finding["code"] for finding in result.mesh_result["findings"]}
    assert codes == ({"CM-API-01", "CM-INST-01", "CM-ITEM-01"} if valid else {"CM-INPUT-01"})
    assert (bad in [finding["summary"] for finding in result.mesh_result["findings"]]) == valid  # why "two" is unavailable, as it was given
    for user in kubeconfig["users"]:
        assert user["user"]["client-key-data"] not in repr(result)
    assert list((tmp_path / "runs").iterdir()) == []


SOURCE = SourceIdentity(cast(Any, SimpleNamespace(own=lambda: None)), lambda _cluster: "here")


def test_records_survive_a_restart_and_meet_conflicts_and_foreign_edits(api: Cluster) -> None:
    records = Records(api, "default", SOURCE)
    records.load()
    assert records.all() == ()
    records.remember(KEY, "u1", ["one", "two"])
    again = Records(api, "default", SOURCE)
    again.load()
    assert again.all() == (Record(key=KEY, uid="u1", clusters=("one", "two"), source="here"),)

    records.remember(KEY, "u1", ["three"])
    with pytest.raises(WriteConflict):
        again.left_behind(KEY, [], "2026-09-01T12:00:00+00:00")
    again.left_behind(KEY, ["three"], "2026-09-01T12:00:00+00:00")
    with pytest.raises(WriteConflict):
        records.forget(KEY)
    found = known(records.get(KEY))
    assert (found.clusters, found.tombstone) == (("three",), True)

    path = f"{PLACE}/{name_of(KEY)}"
    api.merge_patch(path, {"data": {"record": "edited"}}, manager="kubectl")
    fresh = Records(api, "default", SOURCE)
    fresh.load()
    with pytest.raises(ClusterError, match="is no record"):
        fresh.forget(KEY)
    assert known(api.get(path))["data"] == {"record": "edited", "source": "here"}

    api.delete(path)
    records.load()
    records.remember(KEY, "u2", ["one"])
    records.forget(KEY)
    assert api.get(path) is None

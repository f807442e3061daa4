# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Dry runs in confined processes: what is asked and answered, and that a hostile mesh fails alone."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any
from urllib.request import urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_operator.base.keys import MeshKey
from mesh_operator.base.kinds import BINDING, CLUSTER
from mesh_operator.base.serve import Metrics, serve
from mesh_operator.credentials.management_plane import NotUsable, SealedKubeconfig, Usable
from mesh_operator.credentials.tenant_kubeconfigs import is_rebuilt, rebuild_kubeconfig
from mesh_operator.meshes.dry_run import MeshQuestion
from mesh_operator.meshes.request import MeshRequest
from mesh_operator.runs.confined.process import Cause, ConfinedProcesses
from mesh_operator.runs.dry_runs import HANDLER, Bounds, DryRunFailed, DryRuns
from mesh_operator.schedule.unit_turns import Next
from tests.testing import confined_probe
from tests.testing.properties import examples
from tests.testing.unconfined_processes import UnconfinedProcesses
from tests.testing.waiting import wait_for
from tests.unit.operator.test_reconcile import World

KUBECONFIG = {
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1:6443", "tls-server-name": "api.example.com"}}],
    "users": [{"name": "u", "user": {"token": "t0k3n"}}],
}
GOOD: dict[str, Any] = {
    "steps": 2,
    "linked": False,
    "kept": ["globalServices/nginx"],
    "result": {"status": {"binding": {"phase": "Connected"}}, "findings": [], "requeueSeconds": 60},
}
REQUEST = MeshRequest(
    key=MeshKey("ws", "default", "edge"),
    absent=False,
    cilium_mesh={"binding": {"name": "edge"}},
    hosts={"c1": {"cilium_mesh_kubeconfig": {}}},
    variables={"cilium_mesh_previous_status": {"binding": {}}},
)


def sealed(name: str, content: Any = None) -> SealedKubeconfig:
    text = json.dumps(KUBECONFIG if content is None else content).encode()
    return SealedKubeconfig(name=name, text=base64.b64encode(text).decode())


def dry_runs(answer: Callable[[Mapping[str, Any]], Any], metrics: Metrics | None = None) -> DryRuns:
    processes: Any = UnconfinedProcesses(answer)
    return DryRuns(processes, Bounds(), metrics or Metrics())


def always(answer: Any, job: Mapping[str, Any]) -> Any:
    return answer


# What is asked and answered


def test_kubeconfigs_are_opened_in_the_process_and_come_back_rebuilt() -> None:
    waiting = NotUsable(name="c2", reason="ClusterNotReady", message="it is not")
    metrics, processes = Metrics(), ConfinedProcesses(HANDLER)
    with closing(processes), DryRuns(processes, Bounds(), metrics).begin(4) as process:
        refused = sealed("c3", {**KUBECONFIG, "users": [{"name": "u", "user": {"exec": {"command": "sh"}}}]})
        no_base64 = SealedKubeconfig(name="c4", text="a")
        found = process.open({"c1": sealed("c1"), "c2": waiting, "c3": refused, "c4": no_base64})
    assert list(found) == ["c1", "c2", "c3", "c4"]
    usable, refusal, other = found["c1"], found["c3"], found["c4"]
    assert isinstance(usable, Usable) and usable.kubeconfig == rebuild_kubeconfig(json.dumps(KUBECONFIG).encode())
    assert found["c2"] is waiting
    assert isinstance(refusal, NotUsable) and (refusal.reason, refusal.fatal) == ("KubeconfigRefused", True) and "exec" in refusal.message
    assert isinstance(other, NotUsable) and "base64" in other.message


def test_no_process_is_forked_for_a_mesh_without_a_kubeconfig() -> None:
    processes: Any = UnconfinedProcesses()
    waiting = NotUsable(name="c1", reason="ClusterNotReady", message="it is not")
    with DryRuns(processes, Bounds(), Metrics()).begin(1) as process:
        assert process.open({"c1": waiting}) == {"c1": waiting}
    assert processes.begun == []


def test_a_larger_mesh_has_more_time_up_to_a_bound() -> None:
    bounds = Bounds(deadline=60.0)
    assert [bounds.seconds(clusters) for clusters in (1, 4, 5, 16, 255)] == [60.0, 60.0, 65.0, 120.0, 240.0] and bounds.longest == 240.0


def test_a_dry_run_comes_back_as_it_was() -> None:
    with dry_runs(lambda job: GOOD).begin(1) as process:
        found = process.dry_run(MeshQuestion(REQUEST))
    assert found is not None and (found.steps, found.linked, found.kept) == (2, False, frozenset({"globalServices/nginx"}))
    assert found.result == GOOD["result"]
    with dry_runs(lambda job: None).begin(1) as process:
        assert process.dry_run(MeshQuestion(REQUEST)) is None


REBUILT = rebuild_kubeconfig(json.dumps(KUBECONFIG).encode())
METRICS = Metrics()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
PLACES = (("steps",), ("linked",), ("kept",), ("result",), ("result", "status"), ("result", "status", "binding"))
MORE = (("result", "status", "globalServices"), ("result", "findings"), ("result", "requeueSeconds"), ("kept", 0), ("more",))


@examples(200)
@given(st.sampled_from((*PLACES, *MORE)), JSON)
def test_an_answer_of_another_shape_is_a_failure_and_never_an_exception_of_another_kind(place: tuple[Any, ...], value: Any) -> None:
    answer = copy.deepcopy(GOOD)
    holder = answer
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    with dry_runs(lambda job: answer, METRICS).begin(1) as process:
        try:
            found = process.dry_run(MeshQuestion(REQUEST))
        except DryRunFailed as failed:
            assert failed.cause is Cause.INVALID
            return
    assert found is not None and type(found.steps) is int and found.steps >= 0 and type(found.linked) is bool
    assert all(isinstance(entry, str) for entry in found.kept)
    assert found.result["status"].keys() == {"binding"} and isinstance(found.result["status"]["binding"], dict)
    assert 0 <= float(found.result["requeueSeconds"]) <= 86400


TAKEN = {("clusters", "server"), ("clusters", "tls-server-name"), ("users", "token")}
WITH_EXEC: st.SearchStrategy[Any] = st.sampled_from(
    [{"command": "sh"}, "true", "http://127.0.0.1", "/etc/mesh-operator/kcp/kubeconfig", "a\nb", 1, None, [], {}]
)


@examples(200)
@given(
    st.sampled_from(("", "clusters", "users", "contexts")),
    st.booleans(),
    st.sampled_from(
        ("exec", "auth-provider", "proxy-url", "tokenFile", "client-key", "server", "tls-server-name", "token", "name", "kind")
    ),
    WITH_EXEC | JSON,
)
def test_a_kubeconfig_that_was_changed_on_its_way_is_not_passed_to_a_play(listed: str, inner: bool, key: str, value: Any) -> None:
    """A process that was taken over must not reach further than its own rights: a play would run an exec plugin."""
    changed = copy.deepcopy(REBUILT)
    holder = changed[listed][0] if listed else changed
    holder = holder[listed[:-1]] if listed and inner else holder
    holder[key] = value
    if changed != REBUILT and is_rebuilt(changed):
        assert inner and (listed, key) in TAKEN and isinstance(value, str), "another value of a field that is taken from tenants"


def test_a_kubeconfig_that_is_none_is_a_failure_and_not_given_to_a_play() -> None:
    assert is_rebuilt(REBUILT)
    changed = copy.deepcopy(REBUILT)
    changed["users"][0]["user"]["exec"] = {"command": "sh"}
    answers: list[Any] = [changed, None, [], {}, "text", {**changed, "users": []}]
    for found in answers:
        with dry_runs(partial(always, {"c1": {"kubeconfig": found}})).begin(1) as process, pytest.raises(DryRunFailed) as failed:
            process.open({"c1": sealed("c1")})
        assert failed.value.cause is Cause.INVALID


# A hostile mesh fails alone


class Tenant(World):
    """A workspace whose kubeconfigs are opened in confined processes; that of c1 says what its process does."""

    def __init__(self, processes: ConfinedProcesses, metrics: Metrics, does: str, bounds: Bounds) -> None:
        super().__init__()
        self.reconciler._dry_runs = DryRuns(processes, bounds, metrics)
        self.does = does
        self.kcp.put(CLUSTER, "c1", {})
        self.kcp.put(BINDING, "edge", {"clusterRefs": [{"name": "c1"}, {"name": "c2"}]})

    def resolve(self, key: MeshKey, name: str, kubernetes_cluster: Any) -> Any:
        return SealedKubeconfig(name=name, text=self.does if name == "c1" else "")

    def run(self, request: Any, cancel: Any, progress: Any = None) -> Any:
        self.processes.append("gone")
        return super().run(request, cancel, progress)

    def reason(self) -> str:
        conditions = (self.kcp.find(BINDING, "edge") or {})["status"]["conditions"]
        return str(next(entry["reason"] for entry in conditions if entry["type"] == "Ready"))


@pytest.fixture(scope="module")
def processes() -> Iterator[ConfinedProcesses]:
    with closing(ConfinedProcesses(confined_probe.HANDLER)) as found:
        yield found


@pytest.mark.parametrize(
    ("does", "causes", "deadline"),
    [
        ("memory", {"memory"}, 60.0),
        pytest.param("loop", {"cpu", "deadline"}, 1.0, marks=pytest.mark.slow),  # whichever comes first on this machine
        ("hang", {"deadline"}, 1.0),
        pytest.param("crash", {"crashed"}, 60.0, marks=pytest.mark.slow),
        pytest.param("nonsense", {"invalid"}, 60.0, marks=pytest.mark.slow),
    ],
)
def test_a_mesh_that_bombs_its_process_fails_alone_while_others_are_carried_out_and_probes_answer(
    processes: ConfinedProcesses, does: str, causes: set[str], deadline: float
) -> None:
    metrics, small = Metrics(), Bounds(deadline=deadline, memory=64 * 1024 * 1024)
    hostile, other = Tenant(processes, metrics, does, small), Tenant(processes, metrics, "", Bounds())
    (server,) = serve("127.0.0.1:0", metrics, alive=lambda: (True, []), ready=lambda: (True, []))
    try:
        with ThreadPoolExecutor(1) as worker:
            failing = worker.submit(hostile.reconcile)
            assert not other.reconcile().failed and other.phase() == "Connected"
            with urlopen(f"http://127.0.0.1:{server.server_address[1]}/healthz", timeout=30) as answer:
                assert answer.status == 200
            assert failing.result() == Next(seconds=None, failed=True)
    finally:
        server.shutdown()
        server.server_close()
    assert hostile.runs == [] and hostile.reason() == "DryRunFailed" and hostile.phase() == "Error"
    counted = failures(metrics)
    assert counted == causes & counted and len(counted) == 1


def failures(metrics: Metrics) -> set[str]:
    """Causes of failed dry runs that were counted."""
    families = metrics.dry_runs_failed.collect()
    return {sample.labels["reason"] for family in families for sample in family.samples if sample.name.endswith("_total")}


@pytest.mark.parametrize("begun", [True, False])
def test_a_dry_run_that_the_operator_ends_for_the_sake_of_others_is_no_failure_of_it(processes: ConfinedProcesses, begun: bool) -> None:
    metrics = Metrics()
    with DryRuns(processes, Bounds(deadline=600.0), metrics).begin(1) as process, ThreadPoolExecutor(1) as worker:
        if not begun:
            process.interrupt()
        hanging = worker.submit(process.open, {"c1": SealedKubeconfig(name="c1", text="hang")})
        if begun:
            wait_for(lambda: process._process is not None, what="it is under way")
            process.interrupt()
        with pytest.raises(DryRunFailed):
            hanging.result()
    assert failures(metrics) == set()

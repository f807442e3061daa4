# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The labs that the tests of this folder share, and the pool that lends them.

A test says what it needs with a marker and takes the fixture ``lab`` (for itself) or ``module_lab`` (for its file):

    @pytest.mark.lab(THREE_120, use=2)    # two clusters of the lab with three of Cilium 1.20
    def test_something(lab: MeshLab) -> None: …

    @pytest.mark.lab(TWO_118, use=2, gate=THREE_120)    # in the gate (tests/testing/gate.py) on a lab that others have there too

A lab is built once for all tests that name it: the marker puts them into one group, which one worker of pytest-xdist runs. Between two
loans the pool takes back faults, restores every object of every kind to what it was when the lab was new, gives every cluster a new
mesh pod (kvstoremesh keeps a peer that was taken away for minutes), and compares. A lab that cannot be brought back is built anew. What
a test left behind is printed.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import MANAGER_DOMAIN
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.marks import MANAGED_BY_LABEL
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.lab.options import LabOptions
from tests.lab.pristine import Pristine
from tests.testing.gate import OPTION
from tests.testing.group_weights import LIGHT
from tests.testing.shard import Shard
from tests.testing.waiting import wait_for

MARK: Final = "lab"
OPERATOR_SERVERS: Final = 5
"""Three clusters, the management plane and the double of kcp (tests/integration/operator_lab.py)."""
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_MESH: Final = "k8s-app=clustermesh-apiserver"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Shared:
    """A lab that tests share. ``name`` tells labs of equal options apart, which exist to spread tests over workers."""

    name: str
    options: tuple[tuple[str, Any], ...]


def shared(name: str, **options: Any) -> Shared:
    """Describe a lab with these fields of LabOptions."""
    return Shared(name, tuple(sorted(options.items())))


def unused_name() -> str:
    """Return a lab name that no other test of this or another process uses."""
    return f"test-{os.getpid()}-{next(_numbers)}"


def request_of(node: pytest.Item | pytest.Collector) -> tuple[Shared, int | None]:
    """Return the lab that a test or a file asks for, and how many of its clusters."""
    mark = node.get_closest_marker(MARK)
    assert mark is not None and len(mark.args) == 1 and isinstance(mark.args[0], Shared), (
        f"{node.nodeid} names no lab: pytest.mark.lab(LAB)"
    )
    return _named_by(mark, gate=bool(node.config.getoption(OPTION))), mark.kwargs.get("use")


def _named_by(mark: pytest.Mark, *, gate: bool) -> Shared:
    lab: Shared = mark.kwargs.get("gate", mark.args[0]) if gate else mark.args[0]
    return lab


def place_in_groups(items: list[pytest.Item], weights: Mapping[str, int], *, gate: bool = False) -> None:
    """Put the tests of a lab into one group of pytest-xdist, and all others into one for each file; the heaviest groups come first.

    :param weights: seconds of groups, by name (tests/testing/group_weights.py).
    :param gate: labs are those that the tests have in the gate.
    """
    groups: dict[str, str] = {}
    for item in items:
        mark = item.get_closest_marker(MARK)
        lab = _named_by(mark, gate=gate) if mark else None
        given = item.get_closest_marker("xdist_group")
        group = f"lab-{lab.name}" if lab else str(given.args[0]) if given else item.nodeid.partition("::")[0]
        if not given:
            item.add_marker(pytest.mark.xdist_group(group))
        groups[item.nodeid] = group
    order = {group: number for number, group in enumerate(dict.fromkeys(groups.values()))}
    items.sort(key=lambda item: (-weights.get(groups[item.nodeid], 0), order[groups[item.nodeid]]))


def api_servers(items: list[pytest.Item], *, gate: bool) -> dict[str, int]:
    """Return the number of API servers of each lab that these tests share, as long as none of them has to be built anew."""
    found = {}
    for item in items:
        if mark := item.get_closest_marker(MARK):
            lab = _named_by(mark, gate=gate)
            found[lab.name] = len(LabOptions(**dict(lab.options)).cluster_options())
        elif "operator_lab" in getattr(item, "fixturenames", ()):
            found[_group_of(item)] = OPERATOR_SERVERS
    return found


def outside_of_shard(items: list[pytest.Item], weights: Mapping[str, int], shard: Shard) -> list[pytest.Item]:
    """Return the tests that belong to other shards. Groups stay whole, and each goes to the shard that has the least to do so far.

    :param weights: as `place_in_groups` takes them, after which this can be called.
    """
    loads = [0] * shard.count
    mine = set()
    seconds = {group: weights.get(group, LIGHT) for group in map(_group_of, items)}
    for group in sorted(seconds, key=lambda group: (-seconds[group], group)):
        place = loads.index(min(loads))
        loads[place] += seconds[group]
        if place + 1 == shard.number:
            mine.add(group)
    return [item for item in items if _group_of(item) not in mine]


def _group_of(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    assert mark is not None
    return str(mark.args[0])


def name_groups(items: list[pytest.Item]) -> None:
    """Put the group behind ``@`` at the end of the id of each test, where pytest-xdist looks for it.

    pytest-xdist 3.8.0 does that itself by setting ``_nodeid``, which has no effect since pytest 9.2 keeps ids in ``_id``. Without the
    suffix every test is a group of its own, and labs are built again and again.
    """
    for item in items:
        if not item.nodeid.endswith(f"@{_group_of(item)}"):
            item._id = type(item._id).parse(f"{item.nodeid}@{_group_of(item)}")


class Pool:
    """Lends one lab at a time and keeps the last one."""

    def __init__(self) -> None:
        self._shared: Shared | None = None
        self._lab: MeshLab | None = None
        self._pristine: Pristine | None = None
        self._borrower = ""
        self._lent = frozenset[str]()

    @contextmanager
    def lend(self, wanted: Shared, clusters: int | None, borrower: str) -> Iterator[MeshLab]:
        """Lend a lab as it was when it was new. ``borrower`` is named when it leaves it otherwise."""
        if wanted != self._shared or not self._take_back():
            self.close()
            try:
                self._build(wanted)
            except BaseException:
                self.close()
                raise
        assert self._lab is not None
        self._borrower = borrower
        self._lab.runs_that_wrote.clear()
        part = self._lab.part(clusters)
        self._lent = frozenset(part.names)
        yield part

    def close(self) -> None:
        """End the lab."""
        if self._lab is not None:
            self._lab.__exit__(None, None, None)
        self._lab = self._shared = self._pristine = None

    def _build(self, wanted: Shared) -> None:
        began = time.monotonic()
        lab = MeshLab(LabOptions(name=unused_name(), **dict(wanted.options)))
        self._lab, self._shared = lab.__enter__(), wanted
        wait_for(lambda: unready(lab), lambda late: not late, what="the pods of a new lab are ready", explain=lambda: why_not(lab))
        self._pristine = Pristine.of({name: lab.api(name) for name in lab.names})
        print(f"lab {wanted.name}: built in {time.monotonic() - began:.1f} s")

    def _take_back(self) -> bool:
        """Bring the lab back to what it was; false where that did not come about."""
        assert self._lab is not None and self._pristine is not None and self._shared is not None
        began, lab, pristine = time.monotonic(), self._lab, self._pristine
        if dict(self._shared.options).get("karmada"):
            print(f"lab {self._shared.name}: a new one, as Karmada would go on with the members that {self._borrower} joined")
            return False
        try:
            lab.lab.reset()
            break_locks(lab)
            left = pristine.restore()
            if left:  # a write may have met a controller's (409), and pods need their templates and Secrets before they can be ready
                wait_for(pristine.restore, lambda rest: not rest, what="every object is what it was", every=0.3)
            if lab.runs_that_wrote or left:
                replace_mesh_pods(lab, self._lent | {path.partition("/")[0] for path in left})
            wait_for(lambda: unready(lab), lambda late: not late, what="the pods of the lab are ready again", explain=lambda: why_not(lab))
            wait_for(pristine.restore, lambda rest: not rest, what="every object is still what it was", every=0.3)
        except Exception as error:  # whatever is wrong with a lab, a new one is the remedy, and the text says why
            print(f"lab {self._shared.name}: cannot be brought back after {self._borrower}: {error}")
            return False
        listed = "".join(f"\n    {path}: {what}" for path, what in sorted(left.items()))
        print(
            f"lab {self._shared.name}: as it was after {time.monotonic() - began:.1f} s; {self._borrower} left {len(left)} objects{listed}"
        )
        return True


def break_locks(lab: MeshLab) -> None:
    """Delete the locks of meshes, which a run that a test killed would hold for a while; kubelets hold Leases too, which stay."""
    for name in lab.names:
        for lease in lab.api(name).list(_LEASES, label_selector=f"{MANAGED_BY_LABEL}={MANAGER_DOMAIN}"):
            lab.api(name).delete(f"{_LEASES}/{lease['metadata']['name']}")


def replace_mesh_pods(lab: MeshLab, clusters: Collection[str]) -> None:
    """Delete the mesh pods of these clusters: etcd and kvstoremesh begin anew."""
    for name in clusters:
        for pod in lab.api(name).list(_PODS, label_selector=_MESH):
            lab.api(name).delete(f"{_PODS}/{pod['metadata']['name']}", grace=0, uid=pod["metadata"]["uid"])


def why_not(lab: MeshLab) -> str:
    """Tell what the lab's own kubelets know of pods that are not ready, and what went wrong in the lab itself."""
    status = lab.lab.status()
    lines = [
        f"{cluster['name']}/{pod['name']}: restarts {pod['restarts']}, waits for {pod['waitsFor'] or 'nothing'}, "
        f"runs {sorted(pod['processes'])}"
        for cluster in status["clusters"]
        for pod in cluster["pods"]
        if not pod["ready"]
    ]
    return "\n".join([*lines, *(f"trouble: {trouble}" for trouble in status["troubles"])])


def unready(lab: MeshLab) -> list[str]:
    """Return the workloads of Cilium's namespace of which not every pod is there, ready, and of the current template."""
    late = []
    for name in lab.names:
        api, root = lab.api(name), f"/apis/apps/v1/namespaces/{NAMESPACE}"
        pods = api.list(_PODS)
        for item in (*api.list(f"{root}/deployments"), *api.list(f"{root}/daemonsets")):
            if item["metadata"]["name"] == "clustermesh-apiserver" and not lab.lab.clusters[name].cluster_id:
                continue  # it ends at once where the cluster has no id
            labels = item["spec"]["selector"]["matchLabels"].items()
            own = [pod for pod in pods if labels <= (pod["metadata"].get("labels") or {}).items()]
            ready = sum(_is_ready(pod) for pod in own)
            if not _is_settled(item, len(own), ready):
                late.append(f"{name}/{item['metadata']['name']}: {ready} of {len(own)} pods ready")
    return late


def _is_settled(item: dict[str, Any], pods: int, ready: int) -> bool:
    status = item.get("status") or {}
    if status.get("observedGeneration", 0) < item["metadata"]["generation"]:
        return False
    replicas = item["spec"].get("replicas")
    wanted = status.get("desiredNumberScheduled", 0) if replicas is None else replicas
    updated = status.get("updatedNumberScheduled" if replicas is None else "updatedReplicas", 0)
    return bool(wanted == updated == pods == ready)


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return "deletionTimestamp" not in pod["metadata"] and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


# The labs. Options decide what a test proves; equal options under two names are there so that two workers have something to do.
# Every option that no test needs is left out.

OLDEST = shared("oldest", cilium="1.16")
NODE_PORT = shared("node-port", cilium="1.18", ca="shared", service="NodePort")
NODES = shared("nodes", cilium="1.20", service="NodePort", nodes=(1, 3))
THREE_120 = shared("three-1.20", clusters=3, cilium="1.20")
OTHER_THREE_120 = shared("other-three-1.20", clusters=3, cilium="1.20")
THREE_119 = shared("three-1.19", clusters=3, cilium="1.19")
TWO_118 = shared("two-1.18", cilium="1.18")
RELIABILITY = shared("reliability", cilium="1.18")
AGENTS = shared("agents", cilium="1.18", kvstoremesh=False)
LOCKS = shared("locks", cilium="1.20")
OTHER_LOCKS = shared("other-locks", cilium="1.20")
LISTS = shared("lists", cilium=("1.17", "1.18"))
RELEASES = shared("releases", clusters=3, cilium=("1.18", "1.19", "1.20"))
FIVE = shared("five", clusters=5, cilium=("1.19", "1.20", "1.20", "1.19", "1.20"))
UNNAMED = shared(
    "unnamed",
    clusters=5,
    names=("c1", "c2", "c3", "c4", "c9"),
    cilium="1.19",
    cilium_names=("c1", "c2", "default", "default", "c9"),
    cluster_ids=(1, 2, 0, 0, 3),
)
# A lab with Karmada is lent new to each file, so a group of its own costs nothing, and tests that wait for Karmada wait side by side.
KARMADA = shared("karmada", cilium="1.20", karmada=True)
KARMADA_CLIENTS = shared("karmada-clients", clusters=3, cilium="1.20", karmada=True)
KARMADA_FAILOVER = shared("karmada-failover", cilium="1.20", karmada=True)
KARMADA_MEMBERS = shared("karmada-members", cilium="1.20", karmada=True)
KARMADA_OPERATOR = shared("karmada-operator", cilium="1.20", karmada=True)
KARMADA_NAMESPACES = shared("karmada-namespaces", cilium="1.20", karmada=True)
KARMADA_ROLLOUTS = shared("karmada-rollouts", cilium="1.20", karmada=True)
KARMADA_TUTORIAL = shared("karmada-tutorial", cilium="1.20", karmada=True)
TUTORIAL = shared("tutorial", names=("cluster-ffm-1", "cluster-ber-2"), cilium="1.20")
HELM_TUTORIAL = shared("helm-tutorial", names=("cluster-ffm-1", "cluster-ber-2"), cilium="1.20", ca="shared", config_enabled=True)
SHARED_CA = shared("shared-ca", cilium="1.20", ca="shared")
CERTGEN = shared("certgen", cilium="1.19", ca="shared", tls_method="cronJob")
MISTAKEN = shared("mistaken", cilium="1.20", cluster_ids=(1, 1), pod_cidrs=("10.7.0.0/16", "10.7.0.0/16"))
HELM = shared("helm", cilium="1.20", ca="shared", config_enabled=True)
HELM_118 = shared("helm-1.18", cilium="1.18", ca="shared", auth_mode="migration", config_enabled=True)
ONE_OF_HELM = shared("one-of-helm", clusters=3, cilium="1.20", config_enabled=(True, False, False))

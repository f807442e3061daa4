# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""kcp and the management plane break in every way that is known of, under a mesh that stands: nothing in the clusters is lost, no
finalizer is taken off, and what was asked for meanwhile is carried out afterwards.

The tests share one mesh and one operator, in any order: each begins and ends with a mesh that stands.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
import yaml

from mesh_operator.base.kinds import BINDING, BY_KIND, CLUSTER, FABRIC, INTENT, ROWS, SERVICE
from tests.integration.operator_lab import OperatorLab, Workspace, run_folders
from tests.integration.shop import INTENT as RULE
from tests.integration.shop import NAMESPACE
from tests.integration.shop import SERVICE as SHOP
from tests.lab.patience import scaled
from tests.testing.kcp_double import KcpDouble
from tests.testing.kcp_world import EXPORT, Tenant, eventually
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import wait_for

Object = dict[str, Any]
OURS: Final = "app.kubernetes.io/managed-by=cilium-mesh.edge-portal.eu"
POLICIES: Final = f"/apis/cilium.io/v2/namespaces/{NAMESPACE}/ciliumnetworkpolicies"
PAGE: Final = 500  # objects that the operator asks for at a time
WATCHED: Final = tuple(row.plural for row in ROWS)
CLUSTERS: Final = BY_KIND[CLUSTER].collection("*").removeprefix("/clusters/*")
pytestmark = pytest.mark.xdist_group("other-operator")


class Gate:
    """The way to an API server, which can be closed: connections end, and new ones find no listener."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster = document["clusters"][0]["cluster"]
        server = urlsplit(cluster["server"])
        self._target = (str(server.hostname), int(server.port or 443))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._address = self._listener.getsockname()
        self._open: set[socket.socket] = set()
        self.closed = False
        cluster |= {"server": f"https://127.0.0.1:{self._address[1]}", "tls-server-name": server.hostname}
        self.kubeconfig = folder / "gate.kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(document), encoding="utf-8")
        threading.Thread(target=self._serve, daemon=True).start()

    def shut(self) -> None:
        self.closed = True
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def open(self) -> None:
        self.closed = False

    def end(self) -> None:
        self.shut()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.closed:
                client.close()
                continue
            server = socket.create_connection(self._target)
            self._open |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.discard(source)


@dataclass
class Day:
    """A mesh of two clusters with a service and a rule that stands, and its operator."""

    lab: OperatorLab
    shop: Workspace
    gate: Gate
    operator: OperatorProcess
    stack: ExitStack
    untouched: set[str] = field(default_factory=set)  # what was in the clusters before
    ports: Iterator[int] = field(default_factory=lambda: itertools.count(8081))

    @property
    def double(self) -> KcpDouble:
        assert self.lab.world.double is not None
        return self.lab.world.double

    def wait(self, holds: Callable[[], object], what: str) -> None:
        self.operator.wait(holds, what, explain=lambda: json.dumps(self.shop.resources())[-6000:])

    def let_rounds_pass(self, count: int) -> None:
        """Wait until the operator has listed the slice so many times more, which it does as often as it tends to what it knows."""
        with self.double.faults.delay(0.0, plural="apiexportendpointslices", verbs=("list",), everywhere=True) as lists:
            self.wait(lambda: lists.met > count, f"{count} rounds pass")

    def wait_good(self, what: str) -> None:
        """Wait until the operator of the moment has seen everything, and what the tenant wants stands: statuses may be of one before it."""
        self.wait(lambda: self.readiness() == (200, "ok\n") and self.phases() == ("Connected", "Exported", "Applied"), what)

    def phases(self) -> tuple[str, ...]:
        return tuple(self.shop.phase(kind, name) for kind, name in ((BINDING, "edge"), (SERVICE, "nginx"), (INTENT, RULE["name"])))

    def made(self) -> dict[str, str]:
        """Everything that the mesh has in the clusters, by place, with uid: what was taken away and made again has another one."""
        found = {}
        for name in self.lab.clusters.names:
            api = self.lab.clusters.api(name)
            for path in ("/api/v1/namespaces/kube-system/secrets", "/api/v1/namespaces/kube-system/configmaps", POLICIES):
                for obj in api.list(path, label_selector=OURS if path == POLICIES else ""):
                    found[f"{name}{path}/{obj['metadata']['name']}"] = obj["metadata"]["uid"]
            for peer in self.lab.clusters.secret(name, "cilium-kvstoremesh"):
                found[f"{name} peer {peer}"] = ""
            annotations = (api.get(f"/api/v1/namespaces/{NAMESPACE}/services/nginx") or {})["metadata"].get("annotations") or {}
            found |= {f"{name} service {key}={value}": "" for key, value in annotations.items()}
        return found

    def held(self) -> dict[str, list[str]]:
        return {name: obj["metadata"].get("finalizers") or [] for name, obj in self.shop.resources().items()}

    def ports_in_clusters(self) -> list[str]:
        policies = [
            policy for name in self.lab.clusters.names for policy in self.lab.clusters.api(name).list(POLICIES, label_selector=OURS)
        ]
        return sorted({port["port"] for text in policies for port in _ports(text["spec"])})

    def ask(self) -> int:
        """The tenant wants another port. Returns it."""
        port = next(self.ports)
        self.shop.change(INTENT, RULE["name"], ports=[{"protocol": "TCP", "port": port}])
        return port

    def is_answered(self, port: int) -> bool:
        found = self.shop.get(INTENT, RULE["name"]) or {}
        answered = found["status"]["observedGeneration"] == found["metadata"]["generation"] and found["status"]["phase"] == "Applied"
        return bool(answered) and self.ports_in_clusters() == [str(port)]

    def readiness(self) -> tuple[int, str]:
        try:
            with urlopen(f"http://{self.operator.address}/readyz", timeout=5) as answer:  # our own address
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def want(self) -> None:
        """The tenant writes down what it wants."""
        shop = self.shop
        shop.create(BINDING, "edge", clusterRefs=shop.refs())
        shop.create(SERVICE, "nginx", meshRef={"name": "edge"}, selector=SHOP["selector"])
        shop.create(INTENT, RULE["name"], meshRef={"name": "edge"}, **{key: value for key, value in RULE.items() if key != "name"})
        shop.create(FABRIC, "all", meshRefs=[{"name": "edge"}])

    def start(self) -> None:
        flags = ("--no-leader-elect", "--mgmt-kubeconfig", str(self.gate.kubeconfig))
        self.operator = self.stack.enter_context(self.lab.operator(*flags))


def _ports(value: Any) -> Iterator[Object]:
    if isinstance(value, dict) and "port" in value and not isinstance(value["port"], dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _ports(inner)


@pytest.fixture(scope="module")
def whole_day(operator_lab: OperatorLab) -> Iterator[Day]:
    lab = operator_lab
    with ExitStack() as stack:
        gate = Gate(lab.management.kubeconfig, lab.folder)
        stack.callback(gate.end)
        shop = lab.workspace("day", "c1", "c2")
        day = Day(lab, shop, gate, lab.operator(), stack)
        day.untouched |= eventually(day.made, "new definitions are served").keys()
        day.start()
        day.want()
        yield day


@pytest.fixture
def day(whole_day: Day) -> Iterator[Day]:
    """All is well before a test; nothing was lost, and all is well, after it."""
    whole_day.wait_good("all is well")
    made, held, record = whole_day.made(), whole_day.held(), whole_day.shop.record("edge")
    assert record is not None and len(made) > 10 and sum(map(len, held.values())) >= 3
    yield whole_day
    whole_day.double.faults.clear()
    whole_day.gate.open()
    whole_day.wait_good("all is well again")
    assert made.items() <= whole_day.made().items()
    assert held.items() <= whole_day.held().items()
    assert (record["uid"], record["clusters"], record["tombstone"]) == tuple(
        (whole_day.shop.record("edge") or {}).get(key) for key in ("uid", "clusters", "tombstone")
    )


def test_urls_vanish_return_and_move_to_another_shard(day: Day) -> None:
    double = day.double
    double.hide_url("root")
    day.wait(lambda: day.operator.metrics()["mesh_operator_endpoints"] == 0, "the URL is seen to be gone")
    assert day.operator.metrics()['mesh_operator_objects{kind="ClusterMeshBinding"}'] in (0, 1)
    port = day.ask()
    day.wait(lambda: day.operator.metrics()['mesh_operator_objects{kind="ClusterMeshBinding"}'] == 0, "nothing is shown any more")
    day.let_rounds_pass(2)  # in which the operator might take what is not seen for deleted
    assert len(day.held()) == 4
    double.show_url("root")
    day.wait(lambda: day.is_answered(port), "what was asked meanwhile is carried out")

    double.add_shard("east")
    double.move_workspace(day.shop.tenant.path, "east")
    port = day.ask()
    day.wait(lambda: day.is_answered(port), "it is carried out by the URL of the other shard")
    double.move_url("east")
    port = day.ask()
    day.wait(lambda: day.is_answered(port), "it is carried out by the shard's new address")
    double.move_workspace(day.shop.tenant.path, "root")
    day.lab.world.wait_urls()


def test_watches_are_cut_and_versions_and_pages_expire(day: Day) -> None:
    crowd, clusters = day.lab.workspace("crowd"), 'mesh_operator_objects{kind="KubernetesCluster"}'
    with ThreadPoolExecutor(8) as pool:  # more than one page of them
        list(pool.map(lambda number: crowd.create(CLUSTER, f"k{number}", providerRef={"name": "kind"}), range(PAGE + 10)))
    faults, shown = day.double.faults, len(day.lab.world.virtual().list(CLUSTERS))
    assert shown > PAGE
    day.wait(lambda: all(faults.watches(plural=plural) for plural in WATCHED), "every kind is watched")
    page = faults.expire_page(plural="kubernetesclusters")
    watches = [faults.expire_watch(plural="kubernetesclusters"), faults.expire_watch(plural="connectivityintents", as_event=False)]
    assert faults.cut_watches() >= len(WATCHED)
    day.wait(lambda: page.met and all(watch.met for watch in watches), "they have met what was prepared for them")
    day.wait(lambda: day.operator.metrics().get(clusters) == shown, "all pages are there")
    day.wait(lambda: all(faults.watches(plural=plural) for plural in WATCHED), "every kind is watched again")
    assert faults.cut_watches(clean=True) >= len(WATCHED)
    port = day.ask()
    day.wait(lambda: day.is_answered(port), "it is carried out")


def test_kcp_refuses_for_a_while(day: Day) -> None:
    faults = day.double.faults
    answers = {"clustermeshbindings": 404, "globalservices": 403, "connectivityintents": 503, "kubernetesclusters": 404}
    refused = [faults.answer(status, plural=plural, verbs=("list", "watch")) for plural, status in answers.items()]
    faults.cut_watches()
    day.wait(lambda: all(fault.met for fault in refused), "every one of them was met")
    assert day.readiness() == (200, "ok\n"), "every kind was listed once, and kcp counts as out of reach only after 15 s of errors"
    day.wait(lambda: all(fault.met >= 2 for fault in refused), "every one of them was met again")
    port = day.ask()
    day.let_rounds_pass(1)
    for fault in refused:
        fault.end()
    day.wait(lambda: day.is_answered(port), "it is carried out")

    # Writing is refused: statuses come late, and they come.
    refused = [faults.answer(503, plural="connectivityintents", verbs=("patch",), times=1)]
    port = day.ask()
    day.wait(lambda: refused[0].met == 1, "a status could not be written")
    day.wait(lambda: day.is_answered(port), "it is reported in the end")


def test_kcp_restarts_during_a_play(day: Day) -> None:
    port = day.ask()
    day.wait(lambda: run_folders(day.shop.key("edge")), "a play is under way")
    day.double.restart(down=3.0)
    day.wait(lambda: day.is_answered(port), "it is carried out and told")


def test_a_spec_changes_whenever_its_status_is_to_be_written(day: Day) -> None:
    """The write of the status is slow, so that a tenant who edits all the time is always faster."""
    before = (day.shop.get(INTENT, RULE["name"]) or {})["metadata"]["generation"]
    with day.double.faults.delay(0.6, plural="connectivityintents", verbs=("patch",)) as slow:
        asked: list[int] = []

        def edit_again() -> bool:
            asked.append(day.ask())
            return bool(slow.met)

        wait_for(edit_again, what="a status is about to be written", every=0.2)
    day.wait(lambda: day.is_answered(asked[-1]), "the last one wins")
    found = day.shop.get(INTENT, RULE["name"]) or {}
    assert found["metadata"]["generation"] == before + len(asked) == found["status"]["observedGeneration"]


def test_the_management_plane_is_not_reached_for_a_while(day: Day) -> None:
    shop = day.shop
    day.gate.shut()
    shop.create(BINDING, "second", clusterRefs=shop.refs("c1", "c2"))
    shop.create(INTENT, "leaving", meshRef={"name": "second"}, **{key: value for key, value in RULE.items() if key != "name"})
    day.wait(lambda: shop.condition(BINDING, "second").get("reason") == "ManagementPlaneUnavailable", "a new mesh waits")
    day.wait(lambda: (shop.phase(BINDING, "second"), shop.phase(INTENT, "leaving")) == ("Pending", "Pending"), "and its items with it")
    day.wait(lambda: shop.condition(BINDING, "edge").get("reason") == "ManagementPlaneUnavailable", "the old one says why it waits")
    day.wait(lambda: set(day.phases()) == {"Degraded"}, "what was carried out is still there")
    assert day.readiness() == (200, "ok\n")
    port = day.ask()
    shop.delete(BINDING, "second")
    shop.delete(INTENT, "leaving")
    day.wait(lambda: "ClusterMeshBinding/second" not in shop.resources(), "what was never carried out may go")
    day.gate.open()
    day.wait(lambda: day.is_answered(port), "what was asked meanwhile is carried out")


def test_the_management_plane_forgets_its_clusters_and_remembers(day: Day) -> None:
    shop = day.shop
    for name in shop.clusters.values():
        day.lab.management.remove(name)
    day.wait(lambda: shop.condition(BINDING, "edge").get("reason") == "ClusterNotFound", "the mesh says so")
    day.wait(lambda: set(day.phases()) == {"Degraded"}, "what was carried out is still there")
    for name in shop.clusters:
        day.lab.management.add(shop.tenant.cluster, name, day.lab.clusters.lab.clusters[name].kubeconfig)


def test_claims_are_withdrawn_and_accepted_again(day: Day) -> None:
    client, path = day.shop.client, f"/apis/apis.kcp.io/v1alpha2/apibindings/{EXPORT}"
    accepted = (client.get(path) or {})["spec"]["permissionClaims"]
    known = day.operator.metrics()['mesh_operator_objects{kind="KubernetesCluster"}']
    client.merge(path, {"spec": {"permissionClaims": json.loads(json.dumps(accepted).replace("Accepted", "Rejected"))}})
    day.wait(lambda: day.operator.metrics()['mesh_operator_objects{kind="KubernetesCluster"}'] == known - 2, "its clusters are hidden")
    port = day.ask()
    day.wait(lambda: day.is_answered(port), "the mesh goes on with what is known of them")
    client.merge(path, {"spec": {"permissionClaims": accepted}})
    day.wait(lambda: day.operator.metrics()['mesh_operator_objects{kind="KubernetesCluster"}'] == known, "they are shown again")


def test_an_operator_that_starts_in_the_middle_of_it_waits_until_it_has_seen_everything(day: Day) -> None:
    day.operator.stop()
    refused = day.double.faults.answer(503, plural="clustermeshbindings", verbs=("list",))
    port = day.ask()
    day.start()
    day.wait(lambda: day.readiness()[0] == 503 and refused.met >= 2, "it is not ready")
    day.wait(lambda: day.readiness()[1] == "ClusterMeshBinding was not listed\n", "it says what is missing")
    assert not [event for event in day.operator.events() if event["event"] == "run_ended"]
    refused.end()
    day.wait(lambda: day.readiness() == (200, "ok\n"), "it is ready")
    day.wait(lambda: day.is_answered(port), "what was asked meanwhile is carried out")


def test_an_operator_without_a_management_plane_says_so_and_ends(day: Day) -> None:
    day.operator.stop()
    day.gate.shut()
    day.start()
    assert day.operator.process.wait(scaled(60)) == 1
    assert "the management plane" in day.operator.output().splitlines()[-1]
    day.gate.open()
    day.start()


def test_the_tenant_leaves_and_everything_of_his_goes_with_him_until_he_comes_back(whole_day: Day) -> None:
    """The APIBinding is deleted while the resources still have our finalizers."""
    day, tenant = whole_day, whole_day.shop.tenant
    day.wait_good("all is well")
    stays: Tenant = day.lab.world.tenant("stays")
    path = f"/apis/apis.kcp.io/v1alpha2/apibindings/{EXPORT}"
    day.lab.world.unbind(tenant)
    day.wait(lambda: tenant.client.get(path) is None, "the binding is gone")
    assert day.shop.record("edge") is None
    assert day.made().keys() - day.untouched == set()
    assert stays.client.get(path) is not None

    day.lab.world.bind(tenant)
    day.want()
    day.wait_good("he has again what he had")

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Tenants who ask for all that they are allowed to, in a container of the chart's size: nothing is killed, and others are served."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mesh_operator.base.kinds import BINDING, GROUP, INTENT, VERSION
from tests.bench.operator_latency import p95
from tests.collection_path import CHECKOUT
from tests.integration import credentials
from tests.integration.operator_lab import OperatorLab, Workspace
from tests.integration.served_changes import change
from tests.testing.hostile_server import HostileServer
from tests.testing.memory_cgroup import MemoryCgroup, memory_cgroup
from tests.testing.namespace_world import LABEL
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals

pytestmark = [pytest.mark.xdist_group("operator"), pytest.mark.full]

Object = dict[str, Any]

INTENTS: Final = 2_000  # of one mesh, the most that the operator takes
PORTS: Final = 256  # of one intent, the most that its CRD takes
CROWDS: Final = 3  # tenants with as many intents each, of no mesh that works
SECRETS: Final = 200
SECRET: Final = 1024 * 1024 - 4096  # bytes; with its metadata the most that an API server takes
CHANGES: Final = 20
SLOWEST: Final = 10.0  # seconds for 95 of 100 changes of another tenant
UNITS: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def limit_of_the_chart() -> int:
    """Return the bytes of memory of the operator's container, as the chart has them."""
    values = yaml.safe_load((CHECKOUT / "operator/deploy/chart/values.yaml").read_text(encoding="utf-8"))
    text = values["resources"]["limits"]["memory"]
    return int(text[:-2]) * UNITS[text[-2:]]


@contextmanager
def container(operator: OperatorProcess) -> Iterator[MemoryCgroup]:
    """Put the operator into a memory cgroup of the chart's size; a machine that gives none skips the test with the reason."""
    with memory_cgroup(limit_of_the_chart()) as group:
        if group is None:
            pytest.skip("no memory cgroup can be made here")
        try:
            group.take(operator.process.pid)
            yield group
        finally:
            operator.kill()


def intent(mesh: str, name: str, namespace: str) -> Object:
    ends = {side: {"namespace": "production", "selector": {"app": "web"}} for side in ("source", "destination")}
    ports = [{"protocol": "TCP", "port": 1000 + number} for number in range(PORTS)]
    spec = {"meshRef": {"name": mesh}, "action": "Allow", "ports": ports, **ends}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": INTENT, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def create_all(tenant: Workspace, objects: Iterable[Object]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tenant.client.create, objects))


def secrets(tenant: Workspace) -> Iterator[Object]:
    """Secrets of one tenant that say to be kubeconfigs, as large as may be."""
    for number in range(SECRETS):
        data = {"kubeconfig": base64.b64encode(os.urandom(SECRET * 3 // 4)).decode()}
        metadata = {"name": f"large-{number}", "namespace": tenant.tenant.home, "labels": {LABEL: f"k{number}"}}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def ask_for_all(lab: OperatorLab, folder: Path, stack: ExitStack) -> list[Workspace]:
    """Return tenants who use every bound to the full at once: items, ports, objects of several tenants, Secrets, answers of servers."""
    credentials.unreachable(lab.clusters, "c1", folder / "dark.yaml")
    heavy = [lab.workspace(f"heavy-{number}") for number in range(CROWDS)]
    for tenant in heavy:
        for name in ("d1", "d2"):
            tenant.add(name, kubeconfig=folder / "dark.yaml")
        create_all(tenant, (intent("large", f"intent-{number}", tenant.tenant.home) for number in range(INTENTS)))
        tenant.create(BINDING, "large", clusterRefs=tenant.refs("d1", "d2"))
    hoarder = lab.workspace("hoarder")
    create_all(hoarder, secrets(hoarder))
    hoarder.create(BINDING, "many", clusterRefs=[{"name": f"k{number}"} for number in range(64)])
    long, server = lab.workspace("long"), stack.enter_context(_long_lists(folder / "long"))
    path = folder / "long.yaml"
    path.write_text(yaml.safe_dump(server.kubeconfig()), encoding="utf-8")
    for name in ("l1", "l2"):
        long.add(name, kubeconfig=path)
    long.create(BINDING, "long", clusterRefs=long.refs("l1", "l2"))
    return [*heavy, hoarder, long]


@contextmanager
def _long_lists(folder: Path) -> Iterator[HostileServer]:
    """Serve an API whose every answer is a list as long as a client takes: 16 MiB of objects without content."""
    folder.mkdir()
    body = b'{"kind":"List","metadata":{},"items":[' + b"{}," * ((16 * 1024 * 1024 - 200) // 3) + b"{}]}"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with HostileServer(folder) as server:
        server.speak = lambda connection, _head: connection.sendall(head + body)
        yield server


def test_tenants_who_ask_for_all_that_they_may_end_nothing_and_keep_no_other_tenant_waiting(
    operator_lab: OperatorLab, tmp_path: Path
) -> None:
    with operator_lab.without_kcp() as lab, ExitStack() as stack:
        honest = lab.workspace("honest", "c1", "c2")
        with lab.operator("--no-leader-elect") as operator, container(operator) as group:
            operator.wait_ready()
            honest.create(BINDING, "edge", clusterRefs=honest.refs())
            operator.wait(lambda: honest.phase(BINDING, "edge"), "the mesh is connected", until=equals("Connected"))
            quiet = [change(lab, honest, operator, number) for number in range(4)]
            calm = group.peak()
            tenants = ask_for_all(lab, tmp_path, stack)
            asked = [change(lab, honest, operator, 4 + number) for number in range(CHANGES)]
            for tenant, name in zip(tenants, ("large",) * CROWDS + ("many", "long"), strict=True):
                operator.wait(partial(tenant.phase, BINDING, name), f"{name} of {tenant.tenant.home} has an answer")
            print(f"\nseconds until a change is served: quiet {p95(quiet):.1f}, meanwhile p95 {p95(asked):.1f}, most {max(asked):.1f}")
            print(f"memory: {calm / 2**20:.0f} MiB before, {group.peak() / 2**20:.0f} MiB then, of {limit_of_the_chart() / 2**20:.0f} MiB")
            assert (group.killed(), operator.process.poll()) == (0, None)
            assert p95(asked) < SLOWEST
            honest.delete(BINDING, "edge")
            operator.wait(lambda: honest.get(BINDING, "edge") is None, "the mesh is removed")

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Without kcp, a tenant chooses how many Secrets its namespace has, and how large: they do not fill the memory of the operator of all."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from mesh_operator.credentials.labelled_secrets import ARGO_LABEL, CLUSTER_LABEL
from tests.collection_path import CHECKOUT
from tests.lab.patience import scaled
from tests.testing.one_server import OneServer

SECRETS: Final = 200
NAMED: Final = 20  # clusters of the mesh
DATA: Final = base64.b64encode(b"x" * (1 << 20)).decode()  # as much as an API server takes in one Secret
GROWN: Final = 24 << 20  # bytes: some copies of one Secret on its way from the socket to a value


@pytest.fixture(scope="module")
def server(servers: None) -> Iterator[OneServer]:
    with OneServer() as running:
        yield running


def resolved(server: OneServer, namespace: str, *names: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "tests.integration.resolving", str(server.kubeconfig), namespace, *names]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=scaled(300.0), check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_two_hundred_secrets_of_a_mebibyte_are_not_read_into_the_operator(server: OneServer) -> None:
    server.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})

    def make(number: int) -> None:
        metadata = {"name": f"s{number}", "namespace": "team-a", "labels": {CLUSTER_LABEL: f"c{number}", ARGO_LABEL: "cluster"}}
        server.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"kubeconfig": DATA}})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(SECRETS)))
    found = resolved(server, "team-a", *(f"c{number}" for number in range(NAMED)), "gone")
    reasons = found["reasons"]
    assert reasons.pop("gone") == "ClusterNotFound" and set(reasons.values()) == {"KubeconfigRefused"}, "it is too long"
    assert found["requests"] == {"list secrets": 2, "get secrets": NAMED + 2}, (
        "of the namespace and of the platform; of Cluster API and Argo CD"
    )
    assert found["grown"] < GROWN, f"{found['grown'] >> 20} MiB for {NAMED} of {SECRETS} Secrets"

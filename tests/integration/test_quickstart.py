# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/quickstart.md, followed as it stands."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.integration.followed import follow, reader_of, write_kubeconfig
from tests.integration.labs import TUTORIAL
from tests.integration.mesh_lab import MeshLab
from tests.integration.peer_objects import contents, object_path
from tests.integration.shop import NAMESPACE, furnish
from tests.lab.api import LabApi
from tests.lab.options import LabOptions
from tests.testing.waiting import equals, wait_for

pytestmark = pytest.mark.lab(TUTORIAL)

USERS: Final = "clustermesh-remote-users"


def run_frontend(lab: MeshLab) -> None:
    """Run the pods that the page lets reach nginx, beside nginx itself, in each cluster."""
    labels = {"app": "frontend"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "example.invalid/main"}]}}
    for cluster in lab.names:
        api = lab.api(cluster)
        metadata = {"name": "frontend", "namespace": NAMESPACE}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pods}
        api.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
        wait_for(partial(frontends, api), equals(1), what=f"{cluster} has a pod of frontend")


def frontends(api: LabApi) -> int:
    return len(api.list(f"/api/v1/namespaces/{NAMESPACE}/pods", label_selector="app=frontend"))


def values_of_the_lab() -> dict[str, Any]:
    """Return the values that the chart of the lab's first cluster was given, in the form of the page."""
    first = LabOptions(**dict(TUTORIAL.options)).cluster_options()[0]
    mesh = {"useAPIServer": True, "config": {"enabled": first.config_enabled}, "apiserver": {"service": {"type": first.service}}}
    return {"cluster": {"name": first.cilium_name, "id": first.cluster_id}, "clustermesh": mesh}


def forget_users(lab: MeshLab) -> None:
    """Leave in the clusters what the chart does with the values of the page, from 1.19 on: no ConfigMap, and mesh pods that wait for it."""
    for cluster in lab.names:
        api = lab.api(cluster)
        api.delete(object_path("configmaps", USERS))
        for pod in api.list(object_path("pods", "").rstrip("/"), label_selector="k8s-app=clustermesh-apiserver"):
            api.delete(object_path("pods", pod["metadata"]["name"]))


def objects_of(lab: MeshLab) -> dict[str, Any]:
    """Return every object that could have been written, but the list of users: an empty one stays, without which no mesh pod starts."""
    return {name: found for name, found in lab.snapshot().items() if not name.endswith(f"/{USERS}")}


def test_the_quick_start_can_be_followed_and_leaves_nothing(lab: MeshLab, tmp_path: Path) -> None:
    furnish(lab)
    run_frontend(lab)
    forget_users(lab)
    before, objects = contents(lab), objects_of(lab)
    reader = reader_of(lab, tmp_path)
    (tmp_path / ".kube").mkdir()
    write_kubeconfig(lab, tmp_path / ".kube" / "config")
    follow(reader, "quickstart.md")
    assert contents(lab) == before
    assert objects_of(lab) == objects
    for cluster in lab.names:
        assert lab.api(cluster).list(f"/apis/cilium.io/v2/namespaces/{NAMESPACE}/ciliumnetworkpolicies") == []
        service = lab.api(cluster).get(f"/api/v1/namespaces/{NAMESPACE}/services/nginx")
        assert service is not None and not [key for key in service["metadata"].get("annotations") or {} if "cilium.io" in key]
    written = yaml.safe_load((tmp_path / "values.yml").read_text(encoding="utf-8"))
    assert written == values_of_the_lab(), "the clusters of this test were not installed as the page says"

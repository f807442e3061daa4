# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every object in the clusters of a lab, to prove that nothing was written, or that nothing is left."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import yaml

from tests.integration.mesh_lab import MeshLab
from tests.lab.api import LabApi
from tests.lab.pristine import OWNED, collections, listed

Object = dict[str, Any]


def everything(lab: MeshLab) -> dict[str, Any]:
    """Every object of every kind that the API servers list, without what changes by itself."""
    with ThreadPoolExecutor() as pool:  # a young API server makes one wait
        return {
            path: entry
            for found in pool.map(lambda cluster: _within(lab.api(cluster), cluster), lab.names)
            for path, entry in found.items()
        }


def _within(api: LabApi, cluster: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    kinds = ((root, resource) for root, resource in collections(api) if resource not in OWNED)
    for root, resource in kinds:
        for item in listed(api, f"{root}/{resource}"):
            metadata = item["metadata"]
            found[f"{cluster}/{resource}/{metadata.get('namespace', '')}/{metadata['name']}"] = comparable(item)
    return found


def comparable(item: Mapping[str, Any]) -> Object:
    volatile = ("resourceVersion", "managedFields", "generation")
    metadata = {key: value for key, value in item["metadata"].items() if key not in volatile}
    annotations = metadata.pop("annotations", None) or {}
    metadata["annotations"] = {key: value for key, value in annotations.items() if "deployment.kubernetes.io/" not in key}
    kept = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    if metadata["name"] == "clustermesh-remote-users":  # a list without entries is "users:" or "users: []"; Cilium reads both alike
        kept["data"] = (yaml.safe_load(item["data"]["users.yaml"]) or {}).get("users") or []
    return {"metadata": metadata, **kept}

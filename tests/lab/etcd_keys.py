# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Keys of a cluster in the etcd below its kube-apiserver: one request says which resources were written since an earlier one."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import urllib3

from tests.lab.addresses import MESH_PORT, etcd_address

Keys = Mapping[str, int]
"""Revision of the last write by key, without the prefix of the cluster."""

_STORED_AS: Final = {
    "controllers": "replicationcontrollers",
    "ingress": "ingresses",
    "minions": "nodes",
    "podsecuritypolicy": "podsecuritypolicies",
    "services/endpoints": "endpoints",
    "services/specs": "services",
}
"""Resources that kube-apiserver stores under another name (kubernetes: pkg/kubeapiserver/default_storage_factory_builder.go)."""


def read_keys(server: str, cluster: str) -> Keys:
    """Return the keys of a cluster whose API server has the URL ``server``. Raises urllib3.exceptions.HTTPError."""
    lab = int((urlsplit(server).hostname or "").split(".")[1])
    start = f"/{cluster}/"
    body = {"key": _encoded(start), "range_end": _encoded(start[:-1] + chr(ord("/") + 1)), "keys_only": True}
    url = f"http://{etcd_address(lab)}:{MESH_PORT}/v3/kv/range"
    answer = urllib3.request("POST", url, json=body, timeout=30)
    if answer.status != 200:
        raise urllib3.exceptions.HTTPError(f"etcd answers {answer.status} to a range of keys: {answer.data[:200]!r}")
    entries = json.loads(answer.data).get("kvs") or []
    return {base64.b64decode(entry["key"]).decode().removeprefix(start): int(entry["mod_revision"]) for entry in entries}


def written_resources(before: Keys, now: Keys) -> frozenset[str]:
    """Return the names of resources, as API paths have them, of which an object was written or deleted between the two."""
    return frozenset(_resource_of(key) for key in before.keys() | now.keys() if before.get(key) != now.get(key))


def _resource_of(key: str) -> str:
    """Return ``secrets`` for ``secrets/kube-system/x`` and ``ciliumnodes`` for ``cilium.io/ciliumnodes/x``."""
    first, _, rest = key.partition("/")
    second = rest.partition("/")[0]
    return _STORED_AS.get(f"{first}/{second}") or (second if "." in first else _STORED_AS.get(first, first))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Keys of a cluster in the etcd below its kube-apiserver: one request says which resources were written since an earlier one, and CRDs
are there before the server starts."""

from __future__ import annotations

import base64
import copy
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import urllib3

from tests.lab.addresses import MESH_PORT, etcd_address
from tests.lab.patience import Budget

Keys = Mapping[str, int]
"""Revision of the last write by key, without the prefix of the cluster."""

_START: Final = 60.0  # seconds until etcd answers
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


def store_crds(url: str, cluster: str, crds: Sequence[Mapping[str, Any]]) -> None:
    """Store CRDs as a kube-apiserver does that has established them; the one that starts afterwards serves them at once.

    A server that is given them later updates the status of each three times and makes its documents anew after each, which is a quarter of
    what its start costs. ``url``: etcd, which may be about to start.

    :raises urllib3.exceptions.HTTPError: it does not answer.
    """
    budget = Budget(_START)
    for crd in crds:
        key = f"/{cluster}/apiextensions.k8s.io/customresourcedefinitions/{crd['metadata']['name']}"
        body = {"key": _encoded(key), "value": _encoded(json.dumps(_established(crd)))}
        while True:
            try:
                answer = urllib3.request("POST", f"{url}/v3/kv/put", json=body, timeout=30, retries=False)
                break
            except urllib3.exceptions.HTTPError:
                if budget.is_spent():
                    raise
                time.sleep(0.05)
        if answer.status != 200:
            raise urllib3.exceptions.HTTPError(f"etcd answers {answer.status} to a write: {answer.data[:200]!r}")


def _established(crd: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CRD as it is stored: with the defaults and the status that a server gives it (k8s.io/apiextensions-apiserver, pkg)."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    made: dict[str, Any] = copy.deepcopy(dict(crd))
    made["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": now, "generation": 1}
    made["spec"].setdefault("conversion", {"strategy": "None"})
    names = made["spec"]["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    conditions = {
        "NamesAccepted": ("NoConflicts", "no conflicts found"),
        "Established": ("InitialNamesAccepted", "the initial names have been accepted"),
    }
    made["status"] = {
        "acceptedNames": names,
        "storedVersions": [version["name"] for version in made["spec"]["versions"] if version["storage"]],
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
            for kind, (reason, message) in conditions.items()
        ],
    }
    return made


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

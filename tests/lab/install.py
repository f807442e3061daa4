# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Puts Cilium into a fresh cluster that has its definitions, as its chart and its nodes would: objects of the release, nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.lab import profiles
from tests.lab.api import ApiError, LabApi, Object, path_of
from tests.lab.patience import Budget

_WORKLOADS = ("DaemonSet", "Deployment", "Job", "CronJob")
_LIMIT = 20.0


def install(api: LabApi, options: profiles.ProfileOptions, manifests: Sequence[Object], nodes: Iterable[Object]) -> None:
    """Create everything. What does not wait for one another is created side by side; workloads last, so that their volumes are there.
    Raises ApiError."""

    def create(obj: Object) -> None:
        api.create(obj, field_manager=profiles.manager_of(options, obj))

    _retrying(lambda: _must_exist(api, "/api/v1/namespaces/kube-system"))
    namespaces = [obj for obj in manifests if obj["kind"] == "Namespace"]
    workloads = [obj for obj in manifests if obj["kind"] in _WORKLOADS]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(create, namespaces))
        list(pool.map(create, [obj for obj in manifests if obj not in namespaces and obj not in workloads]))
        list(pool.map(lambda obj: _register(api, obj), nodes))
        list(pool.map(create, workloads))


def _register(api: LabApi, obj: Object) -> None:
    _retrying(lambda: api.create(obj))
    if obj["kind"] == "Node":  # status is no part of a creation
        api.patch(path_of(obj) + "/status", {"status": obj["status"]})


def _must_exist(api: LabApi, path: str) -> None:
    if api.get(path) is None:
        raise ApiError("GET", path, 404, "NotFound", "it is not there yet")


def _retrying(call: Callable[[], object]) -> None:
    """Repeat while the answer is 404: a definition is served, and a system namespace made, a moment after the server is ready."""
    budget = Budget(_LIMIT)
    while True:
        try:
            call()
            return
        except ApiError as error:
            if error.status != 404 or budget.is_spent():
                raise
        time.sleep(0.05)

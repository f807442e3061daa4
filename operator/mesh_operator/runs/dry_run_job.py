# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Work of a confined child: it reads tenants' kubeconfigs and makes the dry run. Only the fork server imports it.

Everything that a stranger's bytes reach is here: YAML, certificates, DNS answers, answers of API servers, frames, etcd.
"""

from __future__ import annotations

import codecs
import socket
from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.client import load_libraries
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.dry_run import dry_run
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet_dry_run import (
    FleetDryRun,
    dry_run_members,
    dry_run_workloads,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.play import Play

from ..credentials.tenant_kubeconfigs import KubeconfigRefused, open_kubeconfig
from ..statuses.heads import head_of_fleet, head_of_mesh
from ..statuses.item_statuses import items_of, objects_of, statuses_of_items
from .confined.fork_server import answer_all

# Before the fork they cost once, after it once for each dry run. An import starts no thread of gRPC; its first channel does.
load_libraries()
codecs.lookup("idna")  # the resolver needs it for names


def serve(connection: socket.socket) -> None:
    """Do the jobs of the operator until it closes its end."""
    answer_all(connection, answer)


def answer(job: Mapping[str, Any]) -> Any:
    """Do one job, which comes from the operator (dry_runs.py), and return its result as a value of JSON, or a generator of it in parts."""
    return _JOBS[job["job"]](job)


def _open(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return by cluster the rebuilt kubeconfig, or the sentence that refuses it."""
    return {name: _opened(text, allowed=job["allowed"]) for name, text in job["kubeconfigs"].items()}


def _opened(text: str, allowed: list[str]) -> dict[str, Any]:
    try:
        return {"kubeconfig": open_kubeconfig(text, allowed=allowed)}
    except KubeconfigRefused as refused:
        return {"refused": str(refused)}


def _dry_run(job: Mapping[str, Any]) -> Generator[dict[str, Any], None, dict[str, Any] | None]:
    found = dry_run(job["cilium_mesh"], _play(job), job["previous"], assigns=job["assigns"])
    if found is None:
        return None
    result = yield from statuses_of_items(found.result, items_of(job["cilium_mesh"], job["previous"]), datetime.now(UTC), head_of_mesh)
    return {"steps": found.steps, "linked": found.linked, "kept": sorted(found.kept), "result": result}


def _workloads(job: Mapping[str, Any]) -> Generator[dict[str, Any], None, dict[str, Any]]:
    return _answered(job, dry_run_workloads(job["fleet"], _play(job), job["known_revisions"]))


def _members(job: Mapping[str, Any]) -> Generator[dict[str, Any], None, dict[str, Any]]:
    return _answered(job, dry_run_members(job["fleet"], _play(job), job["choices"]))


def _play(job: Mapping[str, Any]) -> Play:
    hosts = tuple(job["hosts"])
    return Play(hosts=hosts, inventory=hosts, limit="", hostvars=job["hosts"])


def _answered(job: Mapping[str, Any], found: FleetDryRun) -> Generator[dict[str, Any], None, dict[str, Any]]:
    result = yield from statuses_of_items(found.result, objects_of(job["objects"]), datetime.now(UTC), head_of_fleet)
    return {"steps": found.steps, "result": result}


_JOBS: Final = {"open": _open, "dry_run": _dry_run, "fleet": _workloads, "fleet_clusters": _members}

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Names of the cluster that agents report themselves (status ``cluster.self`` is "NAME/NODE": api/v1/models/cluster_status.go)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from ..base.errors import ClusterError
from ..base.json_fields import text
from ..base.json_reader import NotJson, load_json
from ..base.redact import one_line
from ..kube.client import Cluster
from . import Observation

AGENTS_ASKED: Final = 5
_STATUS: Final = ["cilium", "status", "-o", "json"]


class OwnName(NamedTuple):
    """Report of one agent. ``name``: "" where its version has none; ``problem``: why the agent was not asked, else ""."""

    pod: str
    name: str = ""
    problem: str = ""


def read_own_names(observation: Observation, host: str) -> tuple[OwnName, ...]:
    """Return what some agents of an observed cluster report."""
    cluster, pods = observation.clusters[host], observation.facts[host].agent_pods
    asked = [pod.name for pod in pods if pod.phase == "Running"][:AGENTS_ASKED]
    with ThreadPoolExecutor(AGENTS_ASKED) as pool:
        return tuple(pool.map(lambda pod: _own_name(cluster, pod), asked))


def _own_name(cluster: Cluster, pod: str) -> OwnName:
    try:
        answer = cluster.exec(pod, "cilium-agent", _STATUS)
        status: Any = load_json(answer.stdout) if answer.exit_code == 0 else None
    except NotJson:
        return OwnName(pod)
    except ClusterError as error:
        return OwnName(pod, problem=error.clause)
    own = text(status, "cluster", "self")
    return OwnName(pod, one_line(own.partition("/")[0], 64) if "/" in own else "")

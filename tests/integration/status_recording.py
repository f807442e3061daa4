# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Recordings of statuses while an operator is at work: every one that a watch shows, and whether what they claim is in the clusters.

with recorded(tenant) as recording:
    ...
assert recording.phases(BINDING, "edge") == ["Pending", "Connecting", "Connected"]

with checked_against_clusters(lab) as truth:
    ...
assert truth.falsehoods == []
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any, Final

from urllib3.exceptions import HTTPError

from mesh_operator.base.kinds import BINDING, BY_KIND, CLUSTER, EXPOSURE, FABRIC, INTENT, ROWS, SERVICE, VERSION
from tests.integration import shop
from tests.integration.operator_lab import OperatorLab, Workspace
from tests.lab.api import ApiError
from tests.lab.patience import scaled
from tests.testing.kcp_world import eventually

Object = dict[str, Any]
EVERY: Final = 1.0  # seconds between two comparisons with the clusters
ROLLED_UP: Final = 5.0  # seconds after which a Fabric has to show what became of its bindings
KINDS: Final = tuple(row for row in ROWS if row.kind != CLUSTER)
GOOD: Final = {BINDING: "Connected", SERVICE: "Exported", INTENT: "Applied", EXPOSURE: "Exposed"}
ITEM: Final = "cilium-mesh.edge-portal.eu/item"
WORKSPACE: Final = "edge-connect.eu/source-workspace"


@dataclass(frozen=True)
class Seen:
    """What a watch showed at a moment: a status, {} if there was none."""

    status: Object
    deleted: bool


@dataclass
class Recording:
    """Everything that the watches of one workspace showed, by (kind, name)."""

    seen: dict[tuple[str, str], list[Seen]] = field(default_factory=dict)

    def phases(self, kind: str, name: str) -> list[str]:
        """The phases in their order, each once in a row."""
        found: list[str] = []
        for seen in self.seen.get((kind, name), ()):
            phase = str(seen.status.get("phase", ""))
            if phase and found[-1:] != [phase]:
                found.append(phase)
        return found


@contextmanager
def recorded(tenant: Workspace) -> Iterator[Recording]:
    """Record every status in a workspace."""
    recording, stop = Recording(), Event()
    versions = {row.plural: _version(tenant, row.plural) for row in KINDS}
    threads = [
        Thread(target=_watch, args=(tenant, row.kind, row.plural, versions[row.plural], recording, stop), daemon=True) for row in KINDS
    ]
    for thread in threads:
        thread.start()
    try:
        yield recording
    finally:
        stop.set()


def _version(tenant: Workspace, plural: str) -> str:
    """The version from which a watch misses nothing. A new workspace of kcp serves a kind a moment after it is bound."""
    path = tenant.path_of_all(plural)
    return eventually(
        lambda: str(tenant.client.call("GET", path).json.get("metadata", {}).get("resourceVersion", "")), f"{plural} are served"
    )


def _watch(tenant: Workspace, kind: str, plural: str, version: str, recording: Recording, stop: Event) -> None:
    client, path = tenant.client, tenant.path_of_all(plural)
    while not stop.is_set():
        with suppress(OSError, HTTPError):
            for event in client.watch(path, version, seconds=20):
                obj = event["object"]
                version = obj["metadata"].get("resourceVersion") or version
                if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    seen = Seen(obj.get("status") or {}, event["type"] == "DELETED")
                    recording.seen.setdefault((kind, obj["metadata"]["name"]), []).append(seen)
                if stop.is_set():
                    return


@dataclass
class Truth:
    """Statuses that were compared with the clusters: how many claimed that something is there, and those that did so falsely."""

    claims: int = 0
    falsehoods: list[str] = field(default_factory=list)
    lonely: dict[str, float] = field(default_factory=dict)  # Fabrics that are good without a binding, and since when


@contextmanager
def checked_against_clusters(lab: OperatorLab) -> Iterator[Truth]:
    """Compare all statuses of all workspaces with the objects in the clusters, about once a second."""
    truth, stop = Truth(), Event()

    def compare() -> None:
        while not stop.wait(EVERY):
            try:
                _compare(lab, truth)
            except (ApiError, OSError, HTTPError):  # a test may end a server
                continue
            except Exception as error:  # a thread that dies silently would compare nothing, and the test would pass
                truth.falsehoods.append(f"the comparison broke off: {error!r}")
                return

    thread = Thread(target=compare, daemon=True)
    thread.start()
    try:
        yield truth
    finally:
        stop.set()
        thread.join()


def _compare(lab: OperatorLab, truth: Truth) -> None:
    before = _resources(lab)
    made = {name: _made(lab, name) for name in lab.clusters.names}
    after = _resources(lab)
    for key, obj in after.items():
        kind, status = key[0], obj.get("status") or {}
        version = obj["metadata"]["resourceVersion"]
        same = key in before and before[key]["metadata"]["resourceVersion"] == version
        if not same or kind not in GOOD or status.get("phase") != GOOD[kind]:
            continue  # it changed while the clusters were read
        truth.claims += 1
        for place in _missing(kind, obj, made):
            truth.falsehoods.append(f"{kind} {obj['metadata']['name']} is {status['phase']}, and {place}")
        if BY_KIND[kind].listed:
            mesh = (BINDING, key[1], obj["spec"]["meshRef"]["name"])
            phases = {((entry or {}).get("status") or {}).get("phase") for entry in (before.get(mesh), after.get(mesh))}
            if not phases & {"Connected", "Degraded", None}:
                truth.falsehoods.append(
                    f"{kind} {obj['metadata']['name']} is {status['phase']}, and its binding {' then '.join(map(str, phases))}"
                )
    _compare_fabrics(before, after, truth)


def _missing(kind: str, obj: Object, made: dict[str, Made]) -> list[str]:
    """What a good status claims and is not there, as ends of a sentence. Names of clusters that the lab does not know are left out."""
    status, name = obj["status"], obj["metadata"]["name"]
    workspace = obj["metadata"]["annotations"]["kcp.io/cluster"]
    if kind == BINDING:
        names = [ref["name"] for ref in obj["spec"]["clusterRefs"] if ref["name"] in made]
        return [f"{a} has no entry of {b}" for a in names for b in names if a != b and b not in made[a].peers]
    if kind == SERVICE:
        wanted, service = status.get("exportedClusters") or (), obj["spec"]["selector"].get("name")
        return [f"{service} in {host} is not global" for host in wanted if host in made and service and service not in made[host].exported]
    item = f"{BY_KIND[kind].listed}/{name}"
    wanted = status.get("appliedClusters") if kind == INTENT else [entry["clusterName"] for entry in status.get("addresses") or ()]
    return [f"nothing of it is in {host}" for host in wanted or () if host in made and (workspace, item) not in made[host].items]


@dataclass(frozen=True)
class Made:
    """What is in one cluster: peers that it dials, (workspace, item) of objects of items, and names of global Services."""

    peers: frozenset[str]
    items: frozenset[tuple[str, str]]
    exported: frozenset[str]


def _made(lab: OperatorLab, cluster: str) -> Made:
    api = lab.clusters.api(cluster)
    services = api.list(f"/api/v1/namespaces/{shop.NAMESPACE}/services")
    policies = api.list(f"/apis/cilium.io/v2/namespaces/{shop.NAMESPACE}/ciliumnetworkpolicies")
    marks = [(entry["metadata"].get("labels") or {}, entry["metadata"].get("annotations") or {}) for entry in (*services, *policies)]
    return Made(
        peers=frozenset(lab.clusters.secret(cluster, "cilium-clustermesh")),
        items=frozenset((labels[WORKSPACE], notes[ITEM]) for labels, notes in marks if WORKSPACE in labels and ITEM in notes),
        exported=frozenset(
            entry["metadata"]["name"]
            for entry in services
            if (entry["metadata"].get("annotations") or {}).get("service.cilium.io/global") == "true"
        ),
    )


def _compare_fabrics(before: dict[tuple[str, str, str], Object], after: dict[tuple[str, str, str], Object], truth: Truth) -> None:
    """A Fabric is rolled up two seconds after its bindings."""
    for (kind, workspace, name), obj in after.items():
        if kind != FABRIC:
            continue
        refs = [(BINDING, workspace, ref["name"]) for ref in obj["spec"]["meshRefs"]]
        lonely = [ref[2] for ref in refs if ref not in before and ref not in after]
        if not lonely or (obj.get("status") or {}).get("phase") != "Connected":
            truth.lonely.pop(f"{workspace}/{name}", None)
        elif time.monotonic() - truth.lonely.setdefault(f"{workspace}/{name}", time.monotonic()) > scaled(ROLLED_UP):
            truth.falsehoods.append(f"Fabric {name} is Connected, and there is no binding {', '.join(lonely)}")


def _resources(lab: OperatorLab) -> dict[tuple[str, str, str], Object]:
    everywhere = lab.source.virtual("*")
    return {
        (row.kind, found["metadata"]["annotations"]["kcp.io/cluster"], found["metadata"]["name"]): found
        for row in KINDS
        for found in everywhere.list(f"/apis/{row.group}/{VERSION}/{row.plural}")
    }

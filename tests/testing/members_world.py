# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""API servers in memory for the pipeline of members: Karmada, a management plane, and clusters. They keep objects.

Karmada reports a Cluster as ready whose Secret holds a token of its member, and takes what it brought out of a member that leaves.
"""

from __future__ import annotations

import builtins
import copy
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import apply_plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Unreachable, WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.endpoint import Endpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.names import CLUSTERS, SECRETS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.parse import parse_members
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.members import MembersRun, run_members
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import MembersOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import Outcome
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import Ports, real_ports
from tests.testing.connecting import connecting

NOW: Final = datetime(2026, 11, 24, 8, 0, tzinfo=UTC)
TOKEN: Final = "secret-token-of"
PLANES: Final = "/apis/platform.edge-portal.eu/v1alpha1/namespaces/default/clusters"
WORKS: Final = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{}/works"
_VERBS: Final = ["list", "get"]
DISCOVERY: Final[dict[str, Any]] = {
    "/apis": {"groups": [{"name": "apps", "preferredVersion": {"groupVersion": "apps/v1"}}]},
    "/api/v1": {
        "resources": [
            {"name": "configmaps", "namespaced": True, "verbs": _VERBS},
            {"name": "serviceaccounts", "namespaced": True, "verbs": _VERBS},
            {"name": "serviceaccounts/token", "namespaced": True, "verbs": ["create"]},
            {"name": "events", "namespaced": True, "verbs": _VERBS},
            {"name": "namespaces", "namespaced": False, "verbs": _VERBS},
        ]
    },
    "/apis/apps/v1": {"resources": [{"name": "deployments", "namespaced": True, "verbs": _VERBS}]},
}


class Server:
    """One API server, with the methods of ``kube.client.Cluster`` that the pipeline uses. ``dead``: it does not answer."""

    def __init__(self, host: str, world: World, authority: str = "-----BEGIN CERTIFICATE-----", url: str = "") -> None:
        self.host, self._world = host, world
        self.endpoint = Endpoint(
            url=url or f"https://{host}.example.com:6443", host=f"{host}.example.com", authority=authority, server_name=""
        )
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: Counter[str] = Counter()
        self.dead = False
        self.longest = timedelta(days=10_000)
        for name in ("kube-system", "default"):
            self.put(f"/api/v1/namespaces/{name}", {"metadata": {"name": name}})

    def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Store an object under a new uid, whatever was there."""
        made = copy.deepcopy(dict(body))
        made["metadata"] = {"resourceVersion": "1", **made.get("metadata", {}), "uid": f"uid-{next(self._world.numbers)}"}
        made["metadata"].setdefault("creationTimestamp", NOW.strftime("%Y-%m-%dT%H:%M:%SZ"))
        self.objects[path] = made
        namespace = made["metadata"]["name"]
        if path == f"/api/v1/namespaces/{namespace}":
            self.put(f"{path}/serviceaccounts/default", {"metadata": {"name": "default"}})
            self.put(f"{path}/configmaps/kube-root-ca.crt", {"metadata": {"name": "kube-root-ca.crt"}})
        return made

    def close(self) -> None:
        return

    def _asked(self, verb: str, path: str) -> None:
        self.requests[f"{verb} {path}"] += 1
        if self.dead:
            raise Unreachable("It does not answer.", cluster=self.host)
        self._world.step()

    def get(self, path: str) -> dict[str, Any] | None:
        self._asked("get", path)
        return copy.deepcopy(DISCOVERY[path] if path in DISCOVERY else self.objects.get(path))

    def list(self, path: str, *, label_selector: str = "", metadata_only: bool = False) -> builtins.list[dict[str, Any]]:
        return self.list_if_served(path, label_selector=label_selector) or []

    def list_if_served(self, path: str, *, label_selector: str = "") -> builtins.list[dict[str, Any]] | None:
        self._asked("list", path)
        found = [entry for key, entry in sorted(self.objects.items()) if key.rpartition("/")[0] == path]
        key, _, value = label_selector.partition("=")
        return copy.deepcopy([entry for entry in found if not key or (entry["metadata"].get("labels") or {}).get(key) == value])

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        self._asked("create", path)
        if path.endswith("/token"):
            return self._token(path, body)
        where = f"{path}/{body['metadata']['name']}"
        if where in self.objects:
            raise WriteConflict("It exists.", cluster=self.host)
        return self.put(where, body)

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str, dry_run: bool = False) -> dict[str, Any]:
        self._asked("apply", path)
        return _merged(self.objects[path], body) if path in self.objects else self.put(path, body)

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str, dry_run: bool = False) -> dict[str, Any]:
        self._asked("patch", path)
        stored = self.objects[path]
        for key in ("uid", "resourceVersion"):
            if body.get("metadata", {}).get(key, stored["metadata"][key]) != stored["metadata"][key]:
                raise WriteConflict("It is another one.", cluster=self.host)
        return _merged(stored, body)

    def delete(self, path: str, *, uid: str = "", resource_version: str = "") -> None:
        self._asked("delete", path)
        stored = self.objects.get(path)
        if stored is not None and uid and stored["metadata"]["uid"] != uid:
            raise WriteConflict("It is another one.", cluster=self.host)
        if stored is not None and path.startswith(f"{CLUSTERS}/"):
            stored["metadata"]["deletionTimestamp"] = "2026-11-24T08:00:00Z"
            return
        self._end(path)

    def _end(self, path: str) -> None:
        """Delete an object and, of a namespace, what is in it. What has finalizers stays, and keeps its namespace."""
        for key in [key for key in self.objects if key.startswith(f"{path}/")]:
            self._end(key)
        stored = self.objects.get(path, {"metadata": {}})
        if stored["metadata"].get("finalizers") or any(key.startswith(f"{path}/") for key in self.objects):
            stored["metadata"]["deletionTimestamp"] = "2026-11-24T08:00:00Z"
            return
        self.objects.pop(path, None)

    def release(self, path: str) -> None:
        """Take the finalizers off an object. One that is being deleted goes."""
        metadata = self.objects[path]["metadata"]
        metadata.pop("finalizers", None)
        for going in [key for key, entry in self.objects.items() if "deletionTimestamp" in entry["metadata"] and path.startswith(key)]:
            self._end(going)

    def _token(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        account = self.objects[path.removesuffix("/token")]["metadata"]["uid"]
        ends = self._world.now + min(timedelta(seconds=body["spec"]["expirationSeconds"]), self.longest)
        return {"status": {"token": f"{TOKEN}-{account}", "expirationTimestamp": ends.strftime("%Y-%m-%dT%H:%M:%SZ")}}


def _merged(stored: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in patch.items():
        if value is None:
            stored.pop(key, None)
        elif isinstance(value, Mapping):
            _merged(stored.setdefault(key, {}), value)
        else:
            stored[key] = copy.deepcopy(value)
    return stored


class World:
    """All servers of a run. ``moves``: Karmada does its work with every request."""

    def __init__(self, *hosts: str) -> None:
        self.moves = True
        self._busy = False
        self.now = NOW
        self.clock = 0.0  # seconds of the last run; each read of the time takes one
        self.numbers = itertools.count(1)  # of uids
        self.servers: dict[str, Server] = {}
        for host in ("karmada", "plane", *hosts):
            self.servers[host] = Server(host, self)
        self.karmada, self.plane = self.servers["karmada"], self.servers["plane"]

    # --- what a run sees of it ---

    hosts = property(lambda self: tuple(self.servers))
    limit = ""

    def access(self, names: Sequence[str]) -> tuple[ClusterAccess, ...]:
        return tuple(ClusterAccess(host=name, kubeconfig=None, context=None) for name in names)

    def _connect(self, access: ClusterAccess) -> Server:
        """Return the server as its client. A cluster that is known as dead has none (cilium_mesh_unavailable)."""
        server = self.servers[access.host]
        if server.dead:
            raise Unreachable("It does not answer.", cluster=access.host)
        return server

    def run(self, fleet: Mapping[str, Any], *, check: bool = False, **options: Any) -> Outcome:
        """Run the pipeline over these servers."""
        chosen = MembersOptions.of(options)
        request = parse_members({"workspace": "shop", "karmada": "karmada", **fleet}, self.servers, chosen.clusters)
        self.clock = 0.0
        ports = Ports(
            **{
                **vars(real_ports()),
                "connect": connecting(self._connect),
                "apply": apply_plan,
                "now": lambda: self.now,
                "clock": self._tick,
                "sleep": lambda _: None,
            }
        )
        return run_members(MembersRun(request=request, options=chosen, who=self, ports=ports, now=self.now, check_mode=check, diff=True))

    def _tick(self) -> float:
        self.clock += 1
        return self.clock

    def objects(self) -> dict[str, Any]:
        """Every object, by host and path."""
        return copy.deepcopy({f"{host}{path}": entry for host, server in self.servers.items() for path, entry in server.objects.items()})

    # --- what Karmada does ---

    def step(self) -> None:
        """Let Karmada do what it does between two requests."""
        if not self.moves or self._busy:
            return
        self._busy = True
        for path in [path for path in self.karmada.objects if path.startswith(f"{CLUSTERS}/")]:
            cluster = self.karmada.objects[path]
            if "deletionTimestamp" in cluster["metadata"]:
                self._leave(path, cluster)
            else:
                cluster["status"] = self._status(cluster)
        self._busy = False

    def member(self, cluster: Mapping[str, Any]) -> Server | None:
        uid = cluster["spec"].get("id")
        return next((s for s in self.servers.values() if s.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"] == uid), None)

    def _status(self, cluster: Mapping[str, Any]) -> dict[str, Any]:
        name, server = cluster["spec"].get("secretRef", {}).get("name"), self.member(cluster)
        secret = self.karmada.objects.get(f"{SECRETS}/{name}")
        ready = secret is not None and server is not None and not server.dead
        condition = {"type": "Ready", "status": str(ready), "reason": "ClusterReady" if ready else "StatusCollectionFailed"}
        summary = {
            "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
            "allocated": {"cpu": "1", "pods": "3"},
            "allocating": {"cpu": "500m", "pods": "1"},
        }
        nodes = {"totalNum": 2, "readyNum": 1}
        return {"conditions": [condition], "kubernetesVersion": "v1.36.4", "nodeSummary": nodes, "resourceSummary": summary}

    def _leave(self, path: str, cluster: Mapping[str, Any]) -> None:
        server, name = self.member(cluster), cluster["metadata"]["name"]
        for key, work in list(self.karmada.objects.items()):
            if key.startswith(WORKS.format(name)):
                work["metadata"]["deletionTimestamp"] = "2026-11-24T08:00:00Z"
                if not work["metadata"].get("finalizers"):
                    del self.karmada.objects[key]
        if any(key.startswith(WORKS.format(name)) for key in self.karmada.objects):
            return
        if server is not None and not server.dead:
            for key, entry in list(server.objects.items()):
                labels = entry["metadata"].get("labels", {})
                if labels.get("karmada.io/managed") == "true":
                    if key.count("/") == 4:  # a namespace, which is preserved
                        del labels["karmada.io/managed"]
                    else:
                        del server.objects[key]
        uid = cluster["metadata"]["uid"]
        for key, entry in list(self.karmada.objects.items()):
            if any(owner["uid"] == uid for owner in entry["metadata"].get("ownerReferences", ())):
                del self.karmada.objects[key]
        del self.karmada.objects[path]

# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The nodes of one cluster: registers them, runs what is bound to them, keeps volumes and statuses in step with the API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import urllib3

from tests.lab import certgen, cni
from tests.lab.addresses import KUBELET_PORT, pod_address, router_address
from tests.lab.api import ApiError, LabApi
from tests.lab.informer import Informer, Key
from tests.lab.netns import NetNs
from tests.lab.node import NodeSystem
from tests.lab.podfiles import AGENT, MESH, PodWorld, role_of
from tests.lab.pods import AttachError, PodRunner, Surroundings
from tests.lab.podstatus import now

Object = dict[str, Any]

_AGAIN = 1.0  # seconds until a status that could not be sent is sent again


@dataclass(frozen=True)
class Node:
    """One node as the API shows it."""

    name: str
    address: str
    pod_cidr: str


class Kubelet:
    """The kubelets of all nodes of a cluster. Event loop only; API calls go through ``executor``.

    ``hosts``: network namespace of each node, by name; ``systems``: what is below it, if its agent is real.
    """

    def __init__(
        self,
        api: LabApi,
        world: PodWorld,
        nodes: list[Node],
        hosts: Mapping[str, NetNs],
        executor: Executor,
        *,
        systems: Mapping[str, NodeSystem],
        sync_delay: float,
        on_ready: Callable[[], None],
    ) -> None:
        self.runners: dict[str, PodRunner] = {}
        self.awake = asyncio.Event()
        self.awake.set()
        self.on_new_place: Callable[[NetNs], None] = lambda _: None
        self.on_gone_place: Callable[[NetNs], None] = lambda _: None
        self.troubles: list[str] = []
        self._api = api
        self._world = world
        self._nodes = {node.name: node for node in nodes}
        self._addresses = dict.fromkeys(self._nodes, 0)
        self._hosts = hosts
        self._systems = systems
        self._executor = executor
        self._sync_delay = sync_delay
        self._on_ready = on_ready
        self._begun: set[str] = set()
        self._ends: dict[str, asyncio.Task[None]] = {}
        self._unpublished: set[str] = set()
        self._sending: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._kinds = {
            "Secret": Informer(api, "/api/v1/secrets", lambda event, key, _: self._source_changed("Secret", key)),
            "ConfigMap": Informer(api, "/api/v1/configmaps", lambda event, key, _: self._source_changed("ConfigMap", key)),
        }
        self._pods = Informer(api, "/api/v1/pods", self._pod_changed)

    # For the rest of the lab

    def mesh_pods(self) -> list[PodRunner]:
        """The pods whose containers are processes."""
        return [runner for runner in self.runners.values() if runner.real]

    def backends(self, namespace: str, selector: dict[str, str]) -> Iterator[PodRunner]:
        """The ready pods that a Service selects."""
        for runner in self.runners.values():
            metadata = runner.pod["metadata"]
            labels = metadata.get("labels") or {}
            if runner.ready and metadata["namespace"] == namespace and all(labels.get(key) == value for key, value in selector.items()):
                yield runner

    def place_of(self, address: str) -> NetNs | None:
        """The network namespace of the pod with that address."""
        for runner in self.runners.values():
            if runner.around.pod_ip == address and runner.around.netns not in self._hosts.values():
                return runner.around.netns
        return None

    def kill_mesh(self) -> None:
        """End all processes of the mesh's pods; nothing comes back before `revive_mesh`."""
        self.awake.clear()
        for runner in self.mesh_pods():
            runner.kill()

    def set_profile(self, version: str) -> None:
        """Pods that start from now on are of this Cilium version."""
        self._world = replace(self._world, profile=version)

    def revive_mesh(self) -> None:
        self.awake.set()

    async def stop(self) -> None:
        """End all pods' processes. The API is not told: the cluster ends too."""
        for informer in (self._pods, *self._kinds.values()):
            informer.stop()
        for task in [*self._tasks, *self._ends.values()]:
            task.cancel()
        await asyncio.gather(*(runner.end() for runner in self.runners.values()), return_exceptions=True)

    def names_changed(self) -> None:
        """A Service has come, changed or gone: pods find it by its name."""
        for runner in self.runners.values():
            runner.refresh()

    # From the API

    def _source_changed(self, kind: str, key: Key) -> None:
        asyncio.get_running_loop().call_later(self._sync_delay, self._show, kind, key)

    def _show(self, kind: str, key: Key) -> None:
        for runner in self.runners.values():
            if runner.pod["metadata"]["namespace"] == key[0] and runner.files.concerns(kind, key[1]):
                runner.refresh()

    def _pod_changed(self, event: str, key: Key, pod: Object) -> None:
        metadata = pod["metadata"]
        uid, node = metadata["uid"], pod["spec"].get("nodeName")
        if event == "GONE":
            self._end(uid, forget=True)
            self._begun.discard(uid)
        elif node in self._nodes:
            if uid in self.runners:
                self.runners[uid].pod = pod
            elif "deletionTimestamp" not in metadata and uid not in self._begun:
                self._begun.add(uid)
                self._track(self._begin(key, uid, self._nodes[node]))
            if "deletionTimestamp" in metadata:
                self._end(uid, forget=False, pod=pod)

    async def _begin(self, key: Key, uid: str, node: Node) -> None:
        # At the start of the lab a pod may be seen before the Secrets that it shows.
        await asyncio.gather(*(informer.synced.wait() for informer in self._kinds.values()))
        pod = self._pods.objects.get(key)
        if pod is None or pod["metadata"]["uid"] != uid or "deletionTimestamp" in pod["metadata"]:
            return
        host_network = bool(pod["spec"].get("hostNetwork"))
        system = self._systems.get(node.name)
        netns = self._hosts[node.name] if host_network else None
        if not host_network and (system or role_of(pod) == MESH):
            netns = NetNs(pod["metadata"]["name"])
            if role_of(pod) == MESH:
                self.on_new_place(netns)
        around = Surroundings(
            world=self._world,
            node=node.name,
            node_ip=node.address,
            pod_ip=node.address if host_network else self._next_address(node),
            netns=netns,
            lookup=lambda kind, name: self._kinds[kind].objects.get((key[0], name)),
            publish=self._publish,
            tell=self._tell,
            ready_changed=self._on_ready,
            awake=self.awake,
            system=system,
            attach=partial(self._attach, node.name, netns) if system and netns and not host_network else None,
            jobs={certgen.ROLE: self._certgen},
        )
        self.runners[uid] = PodRunner(pod, around)

    async def _attach(self, node: str, netns: NetNs, pod: Object) -> str:
        agent = self._agent(node)
        if agent is None:
            raise AttachError(f"no agent runs on node {node}")
        return await cni.attach(agent.files.spec, agent.containers[0].name, pod, netns)

    def _agent(self, node: str) -> PodRunner | None:
        agents = (runner for runner in self.runners.values() if runner.around.node == node and role_of(runner.pod) == AGENT)
        return next((agent for agent in agents if agent.ready), None)

    async def _certgen(self, pod: Object) -> str:
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, certgen.run_certgen, self._api, pod)
        except (certgen.CertgenError, ApiError) as error:
            return str(error)
        return ""

    def _next_address(self, node: Node) -> str:
        self._addresses[node.name] += 1
        return pod_address(node.pod_cidr, self._addresses[node.name])

    def _end(self, uid: str, *, forget: bool, pod: Object | None = None) -> None:
        if uid in self._ends or (uid not in self.runners and pod is None):
            return
        self._on_ready()  # a terminating pod gets no new connections
        task = asyncio.get_running_loop().create_task(self._end_pod(uid, forget, pod))
        self._ends[uid] = task
        task.add_done_callback(lambda _: self._ends.pop(uid, None))

    async def _end_pod(self, uid: str, forget: bool, pod: Object | None) -> None:
        runner = self.runners.get(uid)
        if runner:
            await runner.end()
            self.runners.pop(uid, None)
            self._sending.pop(uid, None)
            netns = runner.around.netns
            if netns is not None and netns not in self._hosts.values():
                self.on_gone_place(netns)
                await self._detach(runner, netns)
                netns.close()
        if not forget and pod is not None:
            metadata = pod["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            await self._call(self._api.delete, path, grace=0, uid=uid)

    async def _detach(self, runner: PodRunner, netns: NetNs) -> None:
        agent = self._agent(runner.around.node)
        if runner.around.attach is not None and agent is not None:
            try:
                await cni.detach(agent.files.spec, agent.containers[0].name, runner.pod, netns)
            except AttachError as error:
                self.troubles.append(f"pod {runner.pod['metadata']['name']}: {error}")

    # To the API

    def _publish(self, runner: PodRunner) -> None:
        """Send the status soon; several changes in a row become one request."""
        uid = runner.pod["metadata"]["uid"]
        if uid not in self._unpublished:
            self._unpublished.add(uid)
            self._track(self._send_status(uid, runner))

    async def _send_status(self, uid: str, runner: PodRunner) -> None:
        await asyncio.sleep(0.02)
        async with self._sending.setdefault(uid, asyncio.Lock()):  # a request that is slow must not overwrite a later one
            self._unpublished.discard(uid)
            if uid in self._ends or uid not in self.runners:
                return
            metadata = runner.pod["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
            answer = await self._call(
                self._api.patch, path, {"metadata": {"uid": uid}, "status": runner.status()}, kind="application/merge-patch+json"
            )
            if answer and uid in self.runners:
                runner.pod["status"] = answer["status"]
            elif uid in self.runners and uid not in self._ends:  # the request failed, or the pod is about to go
                asyncio.get_running_loop().call_later(_AGAIN, self._publish, runner)

    def _tell(self, runner: PodRunner, reason: str, message: str) -> None:
        """Make a warning event about a pod."""
        metadata, time = runner.pod["metadata"], now()
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
            "involvedObject": {key: metadata[key] for key in ("name", "namespace", "uid")} | {"apiVersion": "v1", "kind": "Pod"},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": runner.around.node},
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
        }
        self._track(self._call(self._api.create, event))

    async def _call(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """An API call; a pod that is gone or another one by now (404, 409) is no trouble."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: function(*args, **keywords))
        except ApiError as error:
            if error.status not in (404, 409):
                self.troubles.append(str(error))
        except urllib3.exceptions.HTTPError as error:
            self.troubles.append(f"kube-apiserver does not answer: {error}")
        return None

    def _track(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            self.troubles.append(repr(task.exception()))


def node_objects(node: Node, kubelet_address: str, *, agent: bool = False) -> Iterator[Object]:
    """The Node that a joining node makes, and the CiliumNode, unless a real ``agent`` makes that.

    The Hostname address is where kube-apiserver finds the kubelet.
    """
    addresses = [{"type": "Hostname", "address": kubelet_address}, {"type": "InternalIP", "address": node.address}]
    resources = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": {"kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux"}},
        "spec": {"podCIDR": node.pod_cidr, "podCIDRs": [node.pod_cidr]},
        "status": {
            "addresses": addresses,
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "the lab plays this node's kubelet"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": node.name,
                "containerRuntimeVersion": "lab://1",
                "kernelVersion": "6.6.0",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.4",
                "machineID": node.name,
                "operatingSystem": "linux",
                "osImage": "lab",
                "systemUUID": node.name,
            },
        },
    }
    if agent:
        return
    yield {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNode",
        "metadata": {"name": node.name},
        "spec": {
            "addresses": [{"type": "InternalIP", "ip": node.address}, {"type": "CiliumInternalIP", "ip": router_address(node.pod_cidr)}],
            "ipam": {"podCIDRs": [node.pod_cidr]},
        },
    }

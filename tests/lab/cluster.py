# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One cluster of a lab: its control plane, its nodes, and Cilium as a chart would have left it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.lab import agents, profiles, services
from tests.lab.addresses import ClusterAddresses, node_pod_cidr
from tests.lab.api import ApiError, LabApi, Object, path_of
from tests.lab.controlplane import ControlPlane, Files, StartError
from tests.lab.egress import EgressProxy
from tests.lab.etcd_keys import store_crds
from tests.lab.hub import Backend, Hub
from tests.lab.informer import Informer, Key
from tests.lab.install import install
from tests.lab.kubelet import Kubelet, Node, node_objects
from tests.lab.netns import NetNs
from tests.lab.node import NodeSystem
from tests.lab.options import ClusterOptions
from tests.lab.patience import Budget
from tests.lab.podfiles import AGENT, MESH, PodWorld, role_of
from tests.lab.processes import Process
from tests.lab.shell import shell
from tests.lab.trials import Trials

_READY_LIMIT = 120.0
_NODE_PORT = 32379


class LabCluster:
    """Everything of one cluster. Event loop only; ``executor`` carries API calls; ``systems``: one per node, if its agents are real."""

    def __init__(
        self,
        options: ClusterOptions,
        addresses: ClusterAddresses,
        files: Files,
        tools: Mapping[str, Path],
        hub: Hub,
        executor: Executor,
        systems: Sequence[NodeSystem] = (),
    ) -> None:
        self.options = options
        self.addresses = addresses
        self.files = files
        self.hub = hub
        names = node_names(options)
        self.systems = dict(zip(names, systems, strict=True)) if systems else {}
        shared = None if systems else NetNs(f"{options.name}-host")
        self.hosts = {name: shared or self.systems[name].netns for name in names}
        wire = [addresses.wire(number) if systems else addresses.node(number) for number in range(options.nodes)]
        self.nodes = [Node(name, wire[number], node_pod_cidr(options.pod_cidr, number)) for number, name in enumerate(names)]
        self.profile: profiles.ProfileOptions | None = None
        self._first_profile: profiles.ProfileOptions | None = None
        self.kubelet: Kubelet | None = None
        self.control_plane: ControlPlane | None = None
        self.troubles: list[str] = []
        self._tools = tools
        self._executor = executor
        self._services: Informer | None = None
        self._egress: EgressProxy | None = None
        self._handing_out: set[Key] = set()

    @property
    def api(self) -> LabApi:
        assert self.control_plane is not None
        return self.control_plane.api

    @property
    def killed(self) -> bool:
        """Whether its mesh endpoint was killed and not revived."""
        return self.kubelet is not None and not self.kubelet.awake.is_set()

    # Start and stop

    async def start(self, etcd_url: str, ca: profiles.CaPair | None, crds: list[Object], binary_version: str, sync_delay: float) -> None:
        """From nothing to all pods ready. Raises StartError."""
        name = self.options.name
        self.control_plane = ControlPlane(name, self.files, self.addresses, self._tools, etcd_url)
        self._egress = EgressProxy(self.files.folder / "egress.sock", self._pod_place)
        self.profile = self._first_profile = profile_options(self.options, ca, real_agents=bool(self.systems))
        manifests = self._in_thread(profiles.build, self.profile)
        await self._in_thread(store_crds, etcd_url, name, crds)
        await self.control_plane.start_api()
        pods = self.files.folder / "kubelet"
        pods.mkdir()
        self.control_plane.start_others(pods)
        self.hub.set_fixed(name, self.addresses.control_plane, 6443)
        if not self.systems:
            self.hub.set_nodes(name, [node.address for node in self.nodes])
        for host in dict.fromkeys(self.hosts.values()):
            self.hub.add_place(host, name, host=not self.systems)
        nodes = [obj for node in self.nodes for obj in node_objects(node, self.addresses.kubelet, agent=bool(self.systems))]
        await self._in_thread(install, self.api, self.profile, await manifests, nodes)
        self._start_kubelet(pods, binary_version, sync_delay)
        self._services = Informer(self.api, "/api/v1/services", self._service_changed)

    async def stop(self) -> None:
        if self._services:
            self._services.stop()
        if self.kubelet:
            await self.kubelet.stop()
        if self._egress:
            self._egress.close()
        if self.control_plane:
            await self.control_plane.stop()
        for system in self.systems.values():
            await self._in_thread(system.close)
        if not self.systems:
            for host in dict.fromkeys(self.hosts.values()):
                host.close()

    async def wait_ready(self) -> None:
        """Until an agent is ready on every node and a pod of the mesh's Deployment is. Raises StartError that says what is not."""
        budget = Budget(_READY_LIMIT)
        while missing := self._not_ready():
            self._check_servers()
            if budget.is_spent():
                raise StartError(f"cluster {self.options.name}: after {_READY_LIMIT:g} s {missing}")
            await asyncio.sleep(0.1)

    def _not_ready(self) -> str:
        assert self.kubelet is not None
        ready = [runner for runner in self.kubelet.runners.values() if runner.ready]
        agents = sum(role_of(runner.pod) == AGENT for runner in ready)
        if agents < len(self.nodes):
            return f"{agents} of {len(self.nodes)} agents are ready"
        if any(role_of(runner.pod) == MESH for runner in ready) or not self.options.cluster_id:
            return ""  # without an id of its own clustermesh-apiserver ends at once, here as in reality
        pods = self.kubelet.mesh_pods()
        reasons = [pod.waits_for for pod in pods if pod.waits_for]
        reasons += [f"{state.name}: {state.reason or 'not ready'} {state.message}" for pod in pods for state in pod.containers]
        return f"no pod of clustermesh-apiserver is ready ({'; '.join(reasons) or 'there is none'})"

    def _check_servers(self) -> None:
        assert self.control_plane is not None
        for process in self.control_plane.processes:
            if process.returncode is not None:
                raise StartError(f"{self.options.name}: {process.name} ended with status {process.returncode}: {process.last_lines()}")

    # Mesh endpoint

    def kill(self) -> None:
        """Take the whole mesh endpoint away: processes die and stay dead, its addresses refuse."""
        assert self.kubelet is not None
        self.kubelet.kill_mesh()
        self._lead()

    def revive(self) -> None:
        assert self.kubelet is not None
        self.kubelet.revive_mesh()

    def freeze_api(self) -> None:
        """Stop kube-apiserver with SIGSTOP: its connections stay and it answers nothing, while the mesh endpoint goes on."""
        os.killpg(self._api_server.pid, signal.SIGSTOP)

    def thaw_api(self) -> None:
        os.killpg(self._api_server.pid, signal.SIGCONT)

    @property
    def _api_server(self) -> Process:
        assert self.control_plane is not None
        return next(process for process in self.control_plane.processes if process.name == "kube-apiserver")

    def reset(self) -> None:
        """Take back what is no object in the API: faults of mesh endpoint and API server, Helm upgrades, what probes meet."""
        assert self.kubelet is not None
        self.thaw_api()
        self.revive()
        self.profile = self._first_profile
        self.kubelet.set_profile(self.options.cilium)
        trials = Trials(self.files.folder)
        trials.show(None)
        trials.lead({})

    async def helm_upgrade(self, values: Mapping[str, Any], version: str | None, force_replace: bool = False) -> profiles.Upgrade:
        """What `helm upgrade` would do; later upgrades build on it. Raises HelmRefused, ApiError."""
        assert self.profile is not None and self.kubelet is not None
        profile = self.profile
        upgrade: profiles.Upgrade = await self._in_thread(
            lambda: profiles.helm_upgrade(self.api, profile, values=values, version=version, force_replace=force_replace)
        )
        self.profile = upgrade.options
        self.kubelet.set_profile(upgrade.options.version)
        return upgrade

    # Inside

    def _in_thread(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._executor, lambda: function(*args))

    def _start_kubelet(self, pods: Path, binary_version: str, sync_delay: float) -> None:
        mesh_programs = {f"/usr/bin/{name}": self._tools[name] for name in ("clustermesh-apiserver", "etcd", "etcdctl", "lab-etcd")}
        trials = Trials(self.files.folder)
        trials.prepare()
        world = PodWorld(
            cluster_name=self.options.cilium_name,
            profile=self.options.cilium,
            binary_version=binary_version,
            programs={
                MESH: mesh_programs,
                AGENT: self._agent_programs(),
            },
            kubeconfig=self.files.kubeconfig,
            cluster_ip=self.addresses.cluster_ip,
            folder=self.files.folder / "pods",
            pods=pods,
            trials=trials,
            names=self._names if self.systems else lambda namespace: (),
        )
        self.kubelet = Kubelet(
            self.api, world, self.nodes, self.hosts, self._executor, systems=self.systems, sync_delay=sync_delay, on_ready=self._lead
        )
        self.kubelet.on_new_place = lambda netns: self.hub.add_place(netns, self.options.name)
        self.kubelet.on_gone_place = self.hub.remove_place

    def _agent_programs(self) -> dict[str, Path]:
        if self.systems:
            return agents.programs(self._tools)
        return {
            "/usr/bin/cilium": self._tools["lab-agent"],
            "/usr/bin/cilium-health": self._tools["lab-agent"],
            "/usr/bin/hubble": self._tools["lab-hubble"],
            **shell(),
        }

    def _names(self, namespace: str) -> Iterator[str]:
        return services.names(self._services.objects.values() if self._services else (), namespace)

    def _pod_place(self, address: str) -> NetNs | None:
        return self.kubelet.place_of(address) if self.kubelet else None

    def _service_changed(self, event: str, key: Key, service: Object) -> None:
        if event == "SET" and services.wants_address(service) and key not in self._handing_out:
            self._handing_out.add(key)
            asyncio.get_running_loop().create_task(self._hand_out(key, service))
        if self.systems and self.kubelet:
            self.kubelet.names_changed()
        self._lead()

    async def _hand_out(self, key: Key, service: Object) -> None:
        assert self._services is not None
        address = services.next_address(self.addresses, self._services.objects.values(), wire=self._is_served_by_agents(service))
        body = {"status": {"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"}]}}}
        # Known here at once, so that the next Service does not get the same one.
        service["status"] = body["status"]
        try:
            await self._in_thread(lambda: self.api.patch(path_of({"apiVersion": "v1", "kind": "Service", **service}) + "/status", body))
        except ApiError as error:
            self.troubles.append(str(error))
        finally:
            self._handing_out.discard(key)

    def _is_served_by_agents(self, service: Object) -> bool:
        """Whether its load balancer is the agents'. That of the mesh endpoint is the lab's, for faults between clusters."""
        return bool(self.systems) and service["metadata"]["name"] != services.MESH_SERVICE

    def _lead(self) -> None:
        """Lead the addresses of all Services to the pods that are ready now."""
        if not self._services or not self.kubelet:
            return
        found = [service for service in self._services.objects.values() if not self._is_served_by_agents(service)]
        node_ips = [] if self.systems else [node.address for node in self.nodes]  # nothing of this machine reaches the nodes' wire
        for service in found:
            selector = service["spec"].get("selector")
            ready = self.kubelet.backends(service["metadata"]["namespace"], selector) if selector and not self.killed else ()
            backends = [Backend(pod.around.netns, services.target_port(service, pod.pod)) for pod in ready if pod.real and pod.around.netns]
            self.hub.set_backends(self.options.name, services.name_of(service), backends)
        self.hub.set_doors(self.options.name, [door for service in found for door in services.doors(service, self.addresses, node_ips)])


def node_names(options: ClusterOptions) -> list[str]:
    """Return the names of a cluster's nodes."""
    return [f"{options.name}-node{number + 1}" for number in range(options.nodes)]


def profile_options(options: ClusterOptions, ca: profiles.CaPair | None, *, real_agents: bool = False) -> profiles.ProfileOptions:
    """The installation that the lab starts with. Node ports differ between clusters: with kube-proxy replacement before 1.19 equal ones
    would be answered locally (cilium/cilium #24692), and that is a fault to be asked for."""
    wanted = profiles.ProfileOptions(
        cluster_name=options.cilium_name,
        cluster_id=options.cluster_id,
        version=options.cilium,
        kvstoremesh=options.kvstoremesh,
        service_type=options.service,  # type: ignore[arg-type]  # the options were checked against the same words
        node_port=_NODE_PORT + options.index - 1,
        config_enabled=options.config_enabled,
        pod_cidr_pool=options.pod_cidr,
        tls_method=options.tls_method,  # type: ignore[arg-type]  # the options were checked against the same words
        ca=ca,
        extra_config=dict(agents.CONFIGURATION) if real_agents else {},
    )
    return replace(wanted, auth_mode=options.auth_mode)  # type: ignore[arg-type]  # the options were checked against the same words

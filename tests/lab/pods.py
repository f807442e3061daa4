# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The life of one pod: volumes, init containers, containers, probes, restarts, end. Containers of the mesh's Deployment are real processes;
those of all other pods are played: they run and are ready as soon as their volumes are there."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.lab import probes
from tests.lab.netns import NetNs
from tests.lab.node import PROGRAMS, NodeSystem
from tests.lab.played import ADMIN, PROGRAM, etcd_changes
from tests.lab.podfiles import AGENT, KUBECONFIG, MESH, PodFiles, PodWorld, environment, role_of
from tests.lab.podstatus import ContainerState, pod_status
from tests.lab.processes import FRUGAL, Process, contained, plain
from tests.lab.translate import Probe, readiness, translate
from tests.lab.trials import Trials, is_trial
from tests.lab.volumes import Lookup, VolumeNotReadyError, remove_at_once

Object = dict[str, Any]
_PROBE_EAGERLY = 0.15
_BACK_OFF, _BACK_OFF_LIMIT = 0.5, 10.0  # a kubelet waits 10 s to 5 min
_GRACE = 4.0
_ATTACH_AGAIN = 0.3  # a kubelet waits longer
_ETCD = "etcd"  # a container
_AGENT_PROBE = Probe(9879, "/healthz")  # readinessProbe of the charts' DaemonSet (agent-health-port)
RUN = "lab.cilium-mesh/run"
"""Annotation of a pod whose containers' commands run as processes of this machine; other pods are played."""


@dataclass(frozen=True)
class Surroundings:
    """What the kubelet gives a pod.

    ``system``: what is below the node, if its agent is real. ``attach`` gives a pod its interface there and returns its address, and raises
    AttachError when it cannot now. ``publish`` takes a changed status, ``tell`` reason and text of an event. ``ready_changed`` is called
    when the pod becomes ready or not. ``awake`` is set unless the cluster's mesh endpoint is killed. ``jobs`` does the work of pods that
    end, by role (value of label k8s-app); it returns why it failed, "" when it did not.
    """

    world: PodWorld
    node: str
    node_ip: str
    pod_ip: str
    netns: NetNs | None
    lookup: Lookup
    publish: Callable[[PodRunner], None]
    tell: Callable[[PodRunner, str, str], None]
    ready_changed: Callable[[], None]
    awake: asyncio.Event
    system: NodeSystem | None = None
    attach: Callable[[Object], Awaitable[str]] | None = None
    jobs: Mapping[str, Callable[[Object], Awaitable[str]]] = field(default_factory=dict)


class AttachError(RuntimeError):
    """An agent did not give a pod its interface; a kubelet tries again."""


class PodRunner:
    """One pod, from its binding to a node until its processes are gone. Event loop only."""

    def __init__(self, pod: Object, around: Surroundings) -> None:
        self.pod = pod
        self.around = around
        self.real = role_of(pod) == MESH
        self._system = None if around.system is None or self.real else around.system
        self._agent = self._system is not None and role_of(pod) == AGENT
        self._runs = self.real or self._agent or (self._system is not None and RUN in (pod["metadata"].get("annotations") or {}))
        self.files = PodFiles(around.world, pod, around.lookup)
        self.init = [ContainerState(c["name"], c["image"], "PodInitializing") for c in pod["spec"].get("initContainers") or []]
        waiting = "PodInitializing" if self.init else "ContainerCreating"
        self.containers = [ContainerState(c["name"], c["image"], waiting) for c in pod["spec"]["containers"]]
        self.processes: dict[str, Process] = {}
        self.changes: tuple[str, ...] = ()
        self.troubles: list[str] = []
        self.waits_for = ""
        self._ready = False
        self._prepared = False
        self._volumes_changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._live())
        self._task.add_done_callback(self._died)

    @property
    def ready(self) -> bool:
        return self._ready and "deletionTimestamp" not in self.pod["metadata"]

    def status(self) -> Object:
        around = self.around
        return pod_status(self.pod, self.init, self.containers, host_ip=around.node_ip, pod_ip=around.pod_ip, network=self._prepared)

    def refresh(self) -> None:
        """Something shown in a volume has changed."""
        self._volumes_changed.set()
        if self._prepared:
            with contextlib.suppress(VolumeNotReadyError):  # as a kubelet: what was there stays
                self.files.project()

    def kill(self) -> None:
        """SIGKILL to all processes; they come back when ``awake`` is set."""
        for process in self.processes.values():
            process.kill()

    async def end(self) -> None:
        """Stop all processes (SIGTERM, then SIGKILL) and remove the pod's files."""
        self._task.cancel()
        await asyncio.wait([self._task])  # what it may have failed with is among the troubles already
        grace = min(_GRACE, float(self.pod["spec"].get("terminationGracePeriodSeconds", 30)))
        await asyncio.gather(*(process.stop(grace) for process in self.processes.values()))
        self.files.unlist()
        remove_at_once(self.files.folder)

    # Life

    async def _live(self) -> None:
        self._publish()
        await self._prepare()
        if not self._runs:
            job = self.around.jobs.get(role_of(self.pod))
            if self.around.world.trials and is_trial(self.pod):
                await self._try(self.around.world.trials)
            elif job:
                await self._work(job)
            else:
                self._play()
            return
        for spec, state in zip(self.pod["spec"].get("initContainers") or [], self.init, strict=True):
            await self._run_to_completion(spec, state)
        async with asyncio.TaskGroup() as group:
            for spec, state in zip(self.pod["spec"]["containers"], self.containers, strict=True):
                group.create_task(self._keep_running(spec, state))

    def _died(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception():
            self.troubles.append(f"pod {self.pod['metadata']['name']}: {task.exception()!r}")

    async def _prepare(self) -> None:
        """Wait until the volumes, the interface and the variables can be made, then make them."""
        attached = False
        while True:
            self._volumes_changed.clear()
            try:
                self.files.project()
                if self.around.attach is not None and not attached:
                    self.around = replace(self.around, pod_ip=await self.around.attach(self.pod))
                    attached = True
                    self.files.project()  # of what has changed meanwhile nothing tells again
                self.files.write_spec(self.around.netns, self._environments(), self._described())
                break
            except AttachError as error:
                self._stuck(str(error), "FailedCreatePodSandBox")
                await asyncio.sleep(_ATTACH_AGAIN)
                continue
            except VolumeNotReadyError as error:
                self._stuck(str(error), "FailedMount")
            except KeyError as error:
                for state in self.init or self.containers:
                    state.waits("CreateContainerConfigError", str(error.args[0]))
                self._stuck(str(error.args[0]), "Failed")
            await self._volumes_changed.wait()
        self._prepared, self.waits_for = True, ""

    def _described(self) -> Object | None:
        if self._system is None:
            return None
        return self._system.describe_agent() if self._agent else self._system.describe_pod()

    def _stuck(self, why: str, reason: str) -> None:
        """A kubelet tells the reason in an event; the status of a pod whose volumes are missing says only that it is being created."""
        if why != self.waits_for:
            self.waits_for = why
            self.around.tell(self, reason, why)
        self._publish()

    def _environments(self) -> dict[str, dict[str, str]]:
        metadata, spec, around = self.pod["metadata"], self.pod["spec"], self.around
        fields = {
            "metadata.name": metadata["name"],
            "metadata.namespace": metadata["namespace"],
            "metadata.uid": metadata["uid"],
            "spec.nodeName": around.node,
            "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
            "status.podIP": around.pod_ip,
            "status.hostIP": around.node_ip,
        }
        base = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": metadata["name"], "HOME": "/"} | FRUGAL
        if self._system is not None:
            base["PATH"] = f"{PROGRAMS}:{base['PATH']}"
        if self._agent:
            base |= {"K8S_NODE_NAME": around.node, "CILIUM_K8S_NAMESPACE": metadata["namespace"], "GOMAXPROCS": "2"}
        elif role_of(self.pod) == AGENT:  # what the agent itself would know
            base |= {"LAB_CLUSTER_NAME": self._cluster_name(), "LAB_HOST_ALIASES": str(around.world.reads_host_aliases).lower()}
            base |= {"LAB_CILIUM_VERSION": around.world.profile, "LAB_KUBECONFIG": KUBECONFIG}
            base |= {"LAB_NODE_NAME": around.node}
        containers = [*(spec.get("initContainers") or []), *spec["containers"]]
        return {container["name"]: environment(container, around.lookup, fields, base) for container in containers}

    def _cluster_name(self) -> str:
        """Cilium's, as it stands when it is asked for: a cluster may be given another name, and its pods are restarted then."""
        config = self.around.lookup("ConfigMap", "cilium-config") or {}
        return str((config.get("data") or {}).get("cluster-name") or self.around.world.cluster_name)

    def _play(self) -> None:
        for state in self.init:
            state.ended_with(0)
        for state in self.containers:
            state.started()
            state.ready = True
        self._publish()

    async def _work(self, job: Callable[[Object], Awaitable[str]]) -> None:
        """A pod that ends: once more after a failure, unless it is never to be restarted (PodSpec.restartPolicy)."""
        (state,) = self.containers
        delay = _BACK_OFF
        while True:
            state.started()
            self._publish()
            why = await job(self.pod)
            if why:
                self.troubles.append(f"pod {self.pod['metadata']['name']}: {why}")
            state.ended_with(1 if why else 0)
            self._publish()
            if not why or self.pod["spec"].get("restartPolicy") == "Never":
                return
            delay = await self._back_off(state, delay)

    async def _try(self, trials: Trials) -> None:
        """The containers of a probe's Job: their commands run here, and their last words are reported as a kubelet does when they fail."""
        for spec, state in zip(self.pod["spec"]["containers"], self.containers, strict=True):
            if self._system is not None:
                self._start(spec)
            else:
                log, variables = self.files.log(spec["name"]), trials.environment(spec)
                self.processes[spec["name"]] = Process(spec["name"], plain(spec["command"]), log, env=variables)
            state.started()
            state.ready = True
        self._publish()
        for state in self.containers:
            process = self.processes[state.name]
            state.ended_with(await process.wait())
            if state.ended is not None and state.ended["exitCode"]:
                state.ended["message"] = process.last_lines()
            self._publish()

    async def _start_when_possible(self, spec: Object, state: ContainerState) -> tuple[Process, tuple[str, ...]]:
        """Start a container as soon as the endpoint is not killed and its variables can be made; a kubelet tries again too."""
        while True:
            await self.around.awake.wait()
            self._volumes_changed.clear()
            try:
                started = self._start(spec)
                break
            except KeyError as error:
                state.waits("CreateContainerConfigError", str(error.args[0]))
                self._stuck(str(error.args[0]), "Failed")
            await self._volumes_changed.wait()
        self.waits_for = ""
        state.started()
        self._publish()
        return started

    def _start(self, spec: Object) -> tuple[Process, tuple[str, ...]]:
        world = self.around.world
        variables = self._environments()[spec["name"]]
        if not self.real:
            argv = [*(spec.get("command") or []), *(spec.get("args") or [])]
            if self._agent and self._system:
                config = self.around.lookup("ConfigMap", "cilium-config") or {}
                self._system.configure(config.get("data") or {})
                argv.append(f"--k8s-kubeconfig-path={KUBECONFIG}")
            process = Process(spec["name"], contained(self.files.spec, spec["name"], argv), self.files.log(spec["name"]))
            self.processes[spec["name"]] = process
            return process, ()
        address = self.around.pod_ip if self.around.attach else ""
        translated = translate(
            spec.get("args") or [], variables, world.profile, world.binary_version, kubeconfig=KUBECONFIG, address=address
        )
        self.changes = tuple(dict.fromkeys((*self.changes, *translated.changes)))
        argv = [*spec["command"], *translated.args]
        process = Process(spec["name"], contained(self.files.spec, spec["name"], argv), self.files.log(spec["name"]))
        self.processes[spec["name"]] = process
        return process, translated.args

    async def _run_to_completion(self, spec: Object, state: ContainerState) -> None:
        delay = _BACK_OFF
        while True:
            process, _ = await self._start_when_possible(spec, state)
            state.ended_with(await process.wait())
            assert state.ended is not None
            if state.ended["exitCode"] == 0:
                state.ready = True
                self._publish()
                return
            delay = await self._back_off(state, delay)

    async def _keep_running(self, spec: Object, state: ContainerState) -> None:
        delay = _BACK_OFF
        while True:
            process, args = await self._start_when_possible(spec, state)
            began = asyncio.get_running_loop().time()
            probe = self._probe(spec, args)
            watcher = asyncio.create_task(self._watch_readiness(spec, state, probe))
            try:
                state.ended_with(await process.wait())
            finally:
                watcher.cancel()
            self._publish()
            if asyncio.get_running_loop().time() - began > 2 * _BACK_OFF_LIMIT:
                delay = _BACK_OFF
            delay = await self._back_off(state, delay)

    def _probe(self, spec: Object, args: tuple[str, ...]) -> Probe | None:
        if self._agent:
            return _AGENT_PROBE
        template = probes.template_probe(spec)
        return readiness(args, template, self.around.world.binary_version) if self.real else template

    async def _back_off(self, state: ContainerState, delay: float) -> float:
        """Wait before a restart; returns the next delay. After a kill the way back is free at once."""
        self._publish()
        if self.around.awake.is_set():
            state.waits("CrashLoopBackOff", f"back-off {delay:g}s restarting failed container")
            self._publish()
            await asyncio.sleep(delay)
            delay = min(2 * delay, _BACK_OFF_LIMIT)
        state.restarts += 1
        return delay

    async def _watch_readiness(self, spec: Object, state: ContainerState, probe: Probe | None) -> None:
        """Ask often until it is ready, then as often as the template says; as many failures in a row as it says make it unready."""
        settings = spec.get("readinessProbe") or {}
        period, limit = float(settings.get("periodSeconds", 10)), int(settings.get("failureThreshold", 3))
        netns, failures = self.around.netns, 0
        while True:
            good = probe is None or (netns is not None and await probes.holds(netns, probe))
            if good and not state.ready and spec["name"] == _ETCD:
                await self._play_etcd()
            failures = 0 if good else failures + 1
            if good != state.ready and (good or failures >= limit):
                state.ready = good
                self._publish()
            await asyncio.sleep(period if state.ready else _PROBE_EAGERLY)

    async def _play_etcd(self) -> None:
        """Bring users and roles of a fresh mesh etcd to what the profile's version would have made of them; once, as they are on disk
        then."""
        world, name = self.around.world, self._cluster_name()
        changes = etcd_changes(name, world.profile, world.binary_version)
        if changes is None or "etcd" in self.files.played:
            return
        self.files.played["etcd"] = (
            f"etcd user local-{name}, ranges of roles local and remote (chart {world.profile}, binary {world.binary_version})"
        )
        argv = contained(self.files.spec, ADMIN, [PROGRAM, json.dumps(changes)])
        call = Process("lab-etcd", argv, self.files.log("etcd-played"))
        if await call.wait():
            self.troubles.append(f"lab-etcd in {self.pod['metadata']['name']} failed: {call.last_lines()}")

    def _publish(self) -> None:
        ready = all(state.ready for state in self.containers)
        if ready != self._ready:
            self._ready = ready
            self.around.ready_changed()
        self.around.publish(self)

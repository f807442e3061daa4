# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The process that owns a lab: starts everything, obeys the control socket, ends everything.

``python -m tests.lab.supervisor FOLDER OWNER``: FOLDER holds plan.json; OWNER is a descriptor of the process that the lab ends with
(pidfd), or -1. Started by keeper.py inside the lab's namespaces.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.lab import addresses, agents, cgroups, control, controlplane, pki, profiles, report
from tests.lab.cluster import LabCluster, node_names
from tests.lab.control import LabError
from tests.lab.fabric import Closed, Fabric, FabricError
from tests.lab.hub import Hub
from tests.lab.karmada import Karmada
from tests.lab.node import NodeSystem
from tests.lab.options import CONTROLLER, ClusterOptions, LabOptions
from tests.lab.outside import Outside
from tests.lab.processes import FRUGAL, Process, plain
from tests.lab.tools import crds_for_profile


class Supervisor:
    """A lab from start to end."""

    def __init__(self, folder: Path, plan: Mapping[str, Any]) -> None:
        self.folder = folder
        self.options = LabOptions.from_json(json.dumps(plan["options"]))
        self.tools = {name: Path(path) for name, path in plan["tools"].items()}
        self.binary_version: str = plan["binary_version"]
        self.clusters: dict[str, LabCluster] = {}
        self.lab = 0
        self.hub = Hub([cluster.name for cluster in self.options.cluster_options()])
        self.state = "starting"
        self.progress: list[str] = []
        self.error = ""
        self.stopping = asyncio.Event()
        self._news = asyncio.Condition()
        self._etcd: Process | None = None
        self.karmada: Karmada | None = None
        self.fabric: Fabric | None = None
        self.outside: Outside | None = None
        self._executor = ThreadPoolExecutor(24, thread_name_prefix="lab")

    async def run(self, owner: int) -> int:
        """Until told to stop. Returns the exit status."""
        loop = asyncio.get_running_loop()
        loop.set_default_executor(self._executor)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self.stopping.set)
        if owner >= 0:
            loop.add_reader(owner, self.stopping.set)
        self.lab, holder = addresses.claim_lab_number()
        server = await control.serve(self.folder, self._answer)
        starting = loop.create_task(self._start())
        await self.stopping.wait()
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        await self._stop()
        server.close()
        holder.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # the keeper does it too, unless it was killed
        return 1 if self.error else 0

    # Start and stop

    async def _start(self) -> None:
        try:
            await self._bring_up()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a group of failures of several clusters, or one; `up` prints it and the lab ends
            traceback.print_exception(error)
            causes = error.exceptions if isinstance(error, BaseExceptionGroup) else [error]
            self.error = "; ".join(str(cause) or repr(cause) for cause in causes)
            await self._say("the start failed")
            await asyncio.sleep(0.3)  # let `wait` hear of it
            self.stopping.set()

    async def _bring_up(self) -> None:
        loop = asyncio.get_running_loop()
        await self._say(f"lab network 127.{self.lab}.0.0/16, {self.options.clusters} clusters, clustermesh-apiserver {self.binary_version}")
        shared = profiles.make_ca() if self.options.ca == "shared" else None
        etcd = await self._start_etcd()
        if self.options.agents == "real":
            self.fabric = await loop.run_in_executor(None, Fabric)
        kubeconfigs = self.folder / "kubeconfigs"
        kubeconfigs.mkdir()
        for options in self.options.cluster_options():
            place = addresses.ClusterAddresses(self.lab, options.index)
            folder = self.folder / "clusters" / options.name
            files = await loop.run_in_executor(
                None, controlplane.make_files, folder, kubeconfigs / f"{options.name}.yaml", options.name, place
            )
            systems = await loop.run_in_executor(None, self._make_nodes, options, place) if self.fabric else []
            self.clusters[options.name] = LabCluster(options, place, files, self.tools, self.hub, self._executor, systems)
        if self.fabric:
            await loop.run_in_executor(None, self._add_outside, self.fabric)
        self._write_merged_kubeconfig()
        if self.options.karmada:
            make = partial(Karmada, self.folder / "karmada", self.folder / "karmada.yaml", self.lab, self.tools, self._executor)
            self.karmada = await loop.run_in_executor(None, partial(make, pace=self.options.karmada_pace))
        await self._say("starting the control planes")
        definitions = {
            version: await asyncio.to_thread(crds_for_profile, version) for version in {c.options.cilium for c in self.clusters.values()}
        }
        async with asyncio.TaskGroup() as group:
            for cluster in self.clusters.values():
                group.create_task(self._start_cluster(cluster, etcd, shared, definitions[cluster.options.cilium]))
            if self.karmada:
                group.create_task(self._start_karmada(self.karmada, etcd))
        self.state = "ready"
        await self._say("all clusters are ready")

    def _make_nodes(self, options: ClusterOptions, place: addresses.ClusterAddresses) -> list[NodeSystem]:
        root, clang = cgroups.machine_root(), agents.compiler()
        assert self.fabric and root and clang, "agents.require() was not called"
        made = []
        for number, name in enumerate(node_names(options)):
            folder = self.folder / "clusters" / options.name / "nodes" / name
            cgroup = cgroups.folder_of(root, self.folder) / name
            node = NodeSystem(name, folder, cgroup, sources=self.tools[agents.SOURCES], compiler=clang)
            made.append(node)
            node.join(self.fabric, place.wire(number))
        return made

    def _add_outside(self, fabric: Fabric) -> None:
        """Add the host outside. The addresses of a cluster's load balancers lead from there, and from other clusters, to its first node."""
        self.outside = Outside(fabric)
        for owner in self.clusters.values():
            others = [cluster for cluster in self.clusters.values() if cluster is not owner]
            for place in (self.outside.netns, *(system.netns for cluster in others for system in cluster.systems.values())):
                fabric.route(place, owner.addresses.wire_balancers, owner.addresses.wire(0))

    async def _start_cluster(self, cluster: LabCluster, etcd: str, shared: profiles.CaPair | None, crds: list[dict[str, Any]]) -> None:
        await cluster.start(etcd, shared, crds, self.binary_version, self.options.sync_delay)
        await self._say(f"{cluster.options.name}: control plane ready, waiting for the pods")
        await cluster.wait_ready()
        await self._say(f"{cluster.options.name}: agents and clustermesh-apiserver ready")

    async def _start_karmada(self, karmada: Karmada, etcd: str) -> None:
        await karmada.start(etcd)
        await self._say("karmada: all parts ready")

    async def _start_etcd(self) -> str:
        address = addresses.etcd_address(self.lab)
        client, peer = f"http://{address}:2379", f"http://{address}:2380"
        args = [
            f"--data-dir={self.folder / 'etcd'}",
            "--name=lab",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=lab={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        self._etcd = Process("etcd", plain([str(self.tools["etcd"]), *args]), self.folder / "etcd.log", env={**os.environ, **FRUGAL})
        return client

    def _write_merged_kubeconfig(self) -> None:
        configs = [
            pki.kubeconfig(name, cluster.addresses.api_url, cluster.files.ca, cluster.files.admin)
            for name, cluster in self.clusters.items()
        ]
        pki.write_yaml(self.folder / "kubeconfig.yaml", pki.merged_kubeconfig(configs))

    async def _stop(self) -> None:
        self.state = "stopping"
        self.hub.close()
        results = await asyncio.gather(*(cluster.stop() for cluster in self.clusters.values()), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                traceback.print_exception(result)
        if self.karmada:
            await self.karmada.stop()
        if self.outside:
            self.outside.close()
        if self.fabric:
            self.fabric.close()
        if self._etcd:
            self._etcd.kill()
            await self._etcd.wait()

    async def _say(self, text: str) -> None:
        print(text, flush=True)
        async with self._news:
            self.progress.append(text)
            self._news.notify_all()

    # Verbs

    async def _answer(self, verb: str, args: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        if verb == "wait":
            async for reply in self._follow_start():
                yield reply
            return
        try:
            yield {"result": await self._obey(verb, args)}
        except (LabError, FabricError, profiles.HelmRefused, ValueError) as error:
            yield {"error": str(error)}

    async def _follow_start(self) -> AsyncIterator[dict[str, Any]]:
        seen = 0
        while True:
            async with self._news:
                while seen == len(self.progress) and self.state == "starting" and not self.error:
                    await self._news.wait()
                fresh, seen = self.progress[seen:], len(self.progress)
            for text in fresh:
                yield {"progress": text}
            if self.error:
                yield {"error": self.error}
                return
            if self.state != "starting":
                yield {"result": self.state}
                return

    async def _obey(self, verb: str, args: dict[str, Any]) -> Any:
        if verb == "status":
            return report.status(self)
        if verb == "down":
            self.stopping.set()
            return "stopping"
        if self.state != "ready":
            raise LabError(f"the lab is {self.state}; wait for `up`")
        if verb in ("cut", "heal", "freeze", "slow", "block"):
            said = self._fault(verb, args)
            await self._close_ports()
            return said
        if verb == "reset":
            return await self._reset()
        if verb == "karmada":
            return await self._karmada(args["act"], args["part"])
        if verb == "outside":
            if self.outside is None:
                raise LabError("no packet passes in this lab; start it with --agents real")
            return await asyncio.get_running_loop().run_in_executor(self._executor, self.outside.ask, args["source"], args["url"])
        cluster = self._cluster(args["cluster"])
        if verb == "kill":
            cluster.kill()
            return f"the mesh endpoint of {cluster.options.name} is down"
        if verb == "restart":
            cluster.revive()
            return f"the mesh endpoint of {cluster.options.name} starts again"
        if verb == "freeze-api":
            cluster.freeze_api()
            return f"kube-apiserver of {cluster.options.name} answers nothing"
        if verb == "thaw-api":
            cluster.thaw_api()
            return f"kube-apiserver of {cluster.options.name} goes on"
        if verb == "helm-upgrade":
            values = profiles.parse_set(args.get("set") or [])
            upgrade = await cluster.helm_upgrade(values, args.get("version"), bool(args.get("force_replace")))
            return {name: list(getattr(upgrade, name)) for name in ("created", "updated", "deleted", "kept")}
        raise LabError(f"unknown verb {verb!r}")

    def _fault(self, verb: str, args: dict[str, Any]) -> str:
        source, target = args["source"], args["target"]
        if source != CONTROLLER:
            self._cluster(source)
        self._cluster(target)
        if source == target:
            raise LabError(f"{source} to itself is no link of the mesh; use kill")
        pairs = [(source, target)] if args.get("one_way") or source == CONTROLLER else [(source, target), (target, source)]
        for pair in pairs:
            if verb == "cut":
                self.hub.cut(*pair)
            elif verb == "freeze":
                self.hub.freeze(*pair)
            elif verb == "slow":
                self.hub.slow(*pair, float(args["milliseconds"]) / 1000)
            elif verb == "block":
                self.hub.block(*pair, args["ports"])
            else:
                self.hub.heal(*pair)
        return f"{verb}: " + ", ".join(f"{pair[0]} -> {pair[1]}" for pair in pairs)

    async def _close_ports(self) -> None:
        """Bring the nodes' wire to what the links say is blocked; stand-ins ask the hub."""
        if self.fabric is None:
            return
        wanted = [
            Closed(system.netns, node.address, port)
            for link in self.hub.links.values()
            for port in link.blocked
            if link.source != CONTROLLER
            for system in self.clusters[link.target].systems.values()
            for node in self.clusters[link.source].nodes
        ]
        await asyncio.get_running_loop().run_in_executor(self._executor, self.fabric.close_ports, wanted)

    async def _karmada(self, act: str, part: str) -> str:
        if self.karmada is None:
            raise LabError("this lab has no Karmada; start one with `up --karmada`")
        if act == "revive":
            await self.karmada.revive(part)
            return f"Karmada's {part} goes on"
        if act == "kill":
            await self.karmada.kill(part)
            return f"Karmada's {part} is dead"
        self.karmada.freeze(part)
        return f"Karmada's {part} is frozen"

    async def _reset(self) -> str:
        if self.karmada:
            await self.karmada.reset()
        for link in self.hub.links:
            self.hub.heal(*link)
        for cluster in self.clusters.values():
            cluster.reset()
        await self._close_ports()
        return "no fault is left; objects are as they are"

    def _cluster(self, name: str) -> LabCluster:
        if name not in self.clusters:
            raise LabError(f"there is no cluster {name!r}; this lab has {', '.join(self.clusters)}")
        return self.clusters[name]


def main(argv: list[str]) -> int:
    """Exit status 0 after an orderly stop, 1 when the lab could not start."""
    folder = Path(argv[0])
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))

    async def live() -> int:
        return await Supervisor(folder, plan).run(int(argv[1]))

    return asyncio.run(live())


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads that still wait for the API must not hold the end up
